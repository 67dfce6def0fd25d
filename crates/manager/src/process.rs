//! Everything around the controllers, brought up in upstream's order: log, connection, secure port, pages.
//!
//! What comes out has written nothing to the cluster yet, so whatever is wrong with the input ends the process
//! before it has done harm.

use std::path::Path;
use std::sync::Arc;

use api::{Clock, Rng};
use client::Transport;
use client::config::{Config, Environment, Material};
use client::https::Transports;
use runtime::{Decisions, Metrics};
use tracing::{info, warn};

use crate::auth::{Auth, Authorities, AuthoritySource};
use crate::error::{Error, Errors};
use crate::files;
use crate::identity::Identities;
use crate::logging::Logging;
use crate::metrics::ProcessMetrics;
use crate::options::Options;
use crate::serving::{
    Endpoint, Health, Pages, Router, Server, register, register_decisions, register_profiles,
};
use crate::version;

/// A process that is ready to run controllers.
pub struct Process {
    pub options: Arc<Options>,
    pub clock: Clock,
    pub rng: Rng,
    pub logging: Logging,
    pub metrics: Metrics,
    pub decisions: Decisions,
    pub health: Arc<Health>,
    /// Where controllers add pages of their own.
    pub router: Arc<Router>,
    /// To the API server with the identity of --kubeconfig.
    pub transport: Transport,
    /// The same without an identity: for those who bring their own.
    pub bare_transport: Transport,
    /// The PEM that every namespace gets.
    pub root_ca: Option<String>,
    /// The PEM of --service-account-private-key-file.
    pub service_account_key: Option<Vec<u8>>,
    /// The API server's host and port, under which requests are counted.
    pub host: String,
    server: Option<Server>,
}

impl Process {
    /// Must be called inside a runtime. What the controllers decide is put on record in `decisions`.
    pub async fn start(
        options: Options,
        environment: &Environment,
        clock: Clock,
        rng: Rng,
        logging: Logging,
        decisions: Decisions,
    ) -> Result<Process, Errors> {
        info!(version = version::GIT_VERSION, "Starting");
        for warning in &options.warnings {
            warn!("{warning}");
        }
        let started = clock.now().time();
        let metrics = Metrics::new();
        let service_account_key = service_account_key(&options)?;
        let mut transports = Transports::new(clock.clone(), metrics.rest());
        let connected = connect(&options, environment, &mut transports)?;
        let router = Arc::new(Router::default());
        let health = Arc::new(Health::default());
        // With no other check an endpoint still answers for the process itself.
        health.add("ping", &[Endpoint::Livez, Endpoint::Readyz], || Ok(()));
        let options = Arc::new(options);
        let process_metrics =
            ProcessMetrics::new(metrics.clone(), options.metrics.clone(), &options.gates);
        let pages = Pages {
            options: Arc::clone(&options),
            health: Arc::clone(&health),
            metrics: Arc::new(process_metrics),
            verbosity: Arc::clone(&logging.verbosity),
            clock: clock.clone(),
            started,
        };
        register(&router, pages);
        register_decisions(&router, decisions.clone());
        if options.serving.profiling {
            register_profiles(&router);
        }
        let server = bind(
            &options,
            environment,
            &clock,
            &metrics,
            &mut transports,
            &router,
        )
        .await?;
        Ok(Process {
            options,
            clock,
            rng,
            logging,
            metrics,
            decisions,
            health,
            router,
            transport: connected.transport,
            bare_transport: connected.bare,
            root_ca: connected.root_ca,
            service_account_key,
            host: connected.host,
            server,
        })
    }

    /// Takes the server out, to be run beside the controllers; none if --secure-port is 0.
    pub fn take_server(&mut self) -> Option<Server> {
        self.server.take()
    }

    /// Clients for all parts of the process. `wrap` may put something around both transports, such as a fence
    /// that stops writes when leadership is lost.
    pub fn identities(&self, wrap: impl Fn(Transport) -> Transport) -> Identities {
        let generic = &self.options.config.generic;
        let shared = &self.options.config.kube_cloud_shared;
        let acts_as_accounts = shared.use_service_account_credentials;
        Identities::new(
            wrap(self.transport.clone()),
            acts_as_accounts.then(|| wrap(self.bare_transport.clone())),
            &generic.client_connection,
            self.options.rate_given,
            Some((self.metrics.rest().clone(), self.host.clone())),
            self.clock.clone(),
        )
    }
}

/// A seed that nobody can guess.
pub fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    let random = ring::rand::SystemRandom::new();
    // Without a source of randomness TLS could not work either, and says so; names may then repeat.
    let _ = ring::rand::SecureRandom::fill(&random, &mut bytes);
    u64::from_be_bytes(bytes)
}

/// The API server's host, and transports to it with the manager's identity and with none.
fn connect(
    options: &Options,
    environment: &Environment,
    transports: &mut Transports,
) -> Result<Connected, Error> {
    let kubeconfig = options.config.generic.client_connection.kubeconfig.as_str();
    let kubeconfig = (!kubeconfig.is_empty()).then(|| Path::new(kubeconfig));
    let failed = |source| connection_error("kubeconfig", source);
    let config =
        Config::from_flags(kubeconfig, Some(&options.master), environment).map_err(failed)?;
    let mut transport = |config| transports.to(config).map_err(failed);
    let bare = transport(config.anonymous())?;
    Ok(Connected {
        host: config.server.authority.to_string(),
        root_ca: root_ca(options, &config)?,
        transport: transport(config)?,
        bare,
    })
}

/// The way to the API server.
struct Connected {
    host: String,
    transport: Transport,
    bare: Transport,
    root_ca: Option<String>,
}

/// The key that signs tokens; read and checked before anything is written to the cluster.
fn service_account_key(options: &Options) -> Result<Option<Vec<u8>>, Error> {
    const FLAG: &str = "service-account-private-key-file";
    let file = options.config.sa_controller.private_key_file.as_str();
    if file.is_empty() {
        return Ok(None);
    }
    let path = Path::new(file);
    let pem = files::read(FLAG, path)?;
    match controllers::service_account_token::Signer::from_pem(&pem) {
        Ok(_) => Ok(Some(pem)),
        Err(error) => Err(Error::BadFile {
            flag: FLAG,
            path: path.to_path_buf(),
            problem: format!("holds no key that can sign tokens: {error}"),
        }),
    }
}

/// What --root-ca-file says, or else the CA that we trust ourselves.
fn root_ca(options: &Options, config: &Config) -> Result<Option<String>, Error> {
    let file = options.config.sa_controller.root_ca_file.as_str();
    if !file.is_empty() {
        return files::read_text("root-ca-file", Path::new(file)).map(Some);
    }
    match &config.tls.authorities {
        Some(Material::Inline(pem)) => Ok(Some(String::from_utf8_lossy(pem).into_owned())),
        Some(Material::File(path)) => files::read_text("kubeconfig", path).map(Some),
        None => Ok(None),
    }
}

fn connection_error(flag: &'static str, source: client::config::ConfigError) -> Error {
    Error::Lookup {
        flag,
        problem: "cannot connect to the API server".into(),
        source: Box::new(source),
    }
}

/// The secure port, with the delegated authentication and authorization that its flags ask for.
async fn bind(
    options: &Options,
    environment: &Environment,
    clock: &Clock,
    metrics: &Metrics,
    transports: &mut Transports,
    router: &Arc<Router>,
) -> Result<Option<Server>, Errors> {
    if options.serving.address.is_none() {
        return Ok(None);
    }
    let mut reviewer =
        |flag: &'static str, path: Option<&Path>| -> Result<Option<client::Client>, Errors> {
            // UPSTREAM: without a kubeconfig, the pod's own account is used; outside a pod there is nobody to ask.
            let config = match Config::from_flags(path, None, environment) {
                Ok(config) => config,
                Err(_) if path.is_none() => return Ok(None),
                Err(source) => return Err(connection_error(flag, source).into()),
            };
            let host = config.server.authority.to_string();
            let transport = transports
                .to(config)
                .map_err(|source| connection_error(flag, source))?;
            let client = client::Client::new(transport).with_metrics(metrics.rest(), &host);
            Ok(Some(
                client.with_user_agent(&version::user_agent("delegated-auth")),
            ))
        };
    let (authentication, authorization) = (&options.authentication, &options.authorization);
    let tokens = reviewer(
        "authentication-kubeconfig",
        authentication.kubeconfig.as_deref(),
    )?;
    let access = reviewer(
        "authorization-kubeconfig",
        authorization.kubeconfig.as_deref(),
    )?;
    if access.is_none() {
        warn!(
            "No --authorization-kubeconfig: only group system:masters reads more than the always-allowed paths"
        );
    }
    let source = AuthoritySource::new(authentication, tokens.clone());
    let authorities = Authorities::load(source, authentication.tolerate_lookup_failure).await?;
    let certificate_uids = options.gates.enabled("AllowParsingUserUIDFromCertAuth");
    let auth = Auth::new(
        authentication,
        authorization,
        authorities,
        clock.clone(),
        tokens,
        access,
        certificate_uids,
    )
    .measured(metrics);
    Ok(Server::bind(
        &options.serving,
        clock.clone(),
        Arc::new(auth),
        Arc::clone(router),
    )?)
}
