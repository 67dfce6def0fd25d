//! A control plane inside a test.

use std::time::Duration;

use api::{Clock, Rng};
use apiserver::pki::{Pki, PkiError, Validity};
use apiserver::serve::{Spawner, default_limits, serve};
use apiserver::{ApiServer, Transport};
use client::Client;
use runtime::stop::Stopper;
use runtime::{Decisions, Stop, Task, spawn};
use tokio::net::TcpListener;

use crate::controllers::{self, ServerKeys};
use crate::outbound::Caller;

/// An API server in this process, in memory, and what was asked for beside it. It is gone when this is dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), steersman_envtest::Error> {
/// use steersman_envtest::{Cluster, ClusterOptions};
///
/// // An API server alone, as controller-runtime's envtest has it.
/// let cluster = Cluster::start().await?;
/// println!("{}", cluster.url());
///
/// // With garbage collection, namespace deletion, Deployments that make pods, and nodes that run them.
/// let cluster = Cluster::with(ClusterOptions {
///     controllers: vec!["*".to_owned()],
///     nodes: 3,
///     ..ClusterOptions::default()
/// })
/// .await?;
/// # Ok(()) }
/// ```
pub struct Cluster {
    server: ApiServer,
    pki: Pki,
    url: String,
    clock: Clock,
    stopper: Stopper,
    tasks: Vec<Task<()>>,
}

/// What a cluster has beside its API server.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Names as in kube-controller-manager's `--controllers`; `*` for all that are on by default. None by default.
    pub controllers: Vec<String>,
    /// Simulated nodes, with a scheduler and kubelets that let pods run. None by default.
    pub nodes: usize,
    /// Let the cluster's time be tokio's: in a test with `start_paused = true` an hour passes at once. Call the server by
    /// [`Cluster::transport`] then: while a socket is waited for, tokio takes the whole process for idle.
    pub tokio_time: bool,
}

/// How to reach the server as an administrator; PEM texts.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub url: String,
    pub certificate_authority: String,
    pub client_certificate: String,
    pub client_key: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot choose the controllers")]
    Controllers(#[source] manager::Errors),
    #[error("cannot make certificates")]
    Certificates(#[from] PkiError),
    #[error("cannot listen on a port of 127.0.0.1")]
    Listen(#[source] std::io::Error),
    #[error("cannot open the API server")]
    Server(#[from] apiserver::Error),
    #[error("{wanted} nodes were to be simulated; at most {most} can be")]
    TooManyNodes { wanted: usize, most: u32 },
}

/// How long requests and controllers may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

impl Cluster {
    /// An API server alone.
    pub async fn start() -> Result<Cluster, Error> {
        Cluster::with(ClusterOptions::default()).await
    }

    pub async fn with(options: ClusterOptions) -> Result<Cluster, Error> {
        let most = nodes::Config::MOST_NODES;
        if options.nodes > most as usize {
            return Err(Error::TooManyNodes {
                wanted: options.nodes,
                most,
            });
        }
        let manager = match options.controllers.is_empty() {
            true => None,
            false => {
                let chosen = controllers::options(&options.controllers, &[], "steersman-envtest");
                Some(chosen.map_err(Error::Controllers)?)
            }
        };
        let wall = runtime::clock::wall();
        let clock = match options.tokio_time {
            true => {
                let clock = runtime::clock::following_tokio_from(wall.now());
                clock.in_zone(wall.zone().clone())
            }
            false => wall.clone(),
        };
        let rng = Rng::from_seed(manager::process::random_seed());
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(Error::Listen)?;
        let address = listener.local_addr().map_err(Error::Listen)?;
        let now = wall.now().time();
        let validity = Validity::new(now, clock.now().time(), 1);
        let pki = Pki::generate(&[], validity)?;
        let mut settings = apiserver::Options::in_memory(clock.clone(), rng.fork());
        settings.service_account_key = Some(pki.service_account_key.clone());
        settings.outbound = Some(Caller::new(clock.clone()));
        settings.advertise = Some((address.ip(), address.port()));
        let server = ApiServer::open(settings)?;
        let (stopper, stop) = Stop::new();
        let mut cluster = Cluster {
            server,
            url: format!("https://{address}"),
            pki,
            clock,
            stopper,
            tasks: Vec::new(),
        };
        cluster.serve(listener, stop.clone())?;
        if let Some(manager) = manager {
            cluster.run_controllers(&manager, &rng, stop.clone());
        }
        if options.nodes > 0 {
            cluster.run_nodes(options.nodes, &rng, stop).await;
        }
        Ok(cluster)
    }

    fn serve(&mut self, listener: TcpListener, stop: Stop) -> Result<(), Error> {
        let tls = self.pki.tls()?;
        let server = self.server.clone();
        self.tasks.push(spawn(async move {
            let spawner = Spawner::new(|connection| spawn(connection).detach());
            serve(
                server,
                listener,
                tls,
                spawner,
                default_limits(),
                stop.stopped(),
            )
            .await;
        }));
        Ok(())
    }

    fn run_controllers(&mut self, options: &manager::Options, rng: &Rng, stop: Stop) {
        let keys = ServerKeys {
            root_ca: Some(self.pki.ca_certificate.clone()),
            service_account_key: Some(self.pki.service_account_key.clone()),
            client_ca: Some((self.pki.ca_certificate.clone(), self.pki.ca_key.clone())),
        };
        let (clock, decisions) = (&self.clock, Decisions::new());
        let manager = controllers::manager(options, &self.server, keys, clock, rng, decisions);
        self.tasks.push(spawn(manager.run(None, stop)));
    }

    /// Runs nodes, and waits until all of them are there.
    async fn run_nodes(&mut self, count: usize, rng: &Rng, stop: Stop) {
        let client = Client::new(self.server.transport()).with_user_agent("steersman-nodes");
        let config = nodes::Config::with_nodes(count);
        let nodes = nodes::Cluster::new(client, config, self.clock.clone(), rng.fork());
        let mut registration = nodes.registration();
        self.tasks.push(spawn(nodes.run(stop)));
        // It ends with the nodes, which end with this.
        let _ = registration.wait_for(|registered| registered.done).await;
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How to reach it as an administrator.
    pub fn client_config(&self) -> ClientConfig {
        ClientConfig {
            url: self.url.clone(),
            certificate_authority: self.pki.ca_certificate.clone(),
            client_certificate: self.pki.admin_certificate.clone(),
            client_key: self.pki.admin_key.clone(),
        }
    }

    /// The same as a kubeconfig file, which every client library reads.
    pub fn kubeconfig(&self) -> String {
        self.pki.kubeconfig(&self.url)
    }

    /// A kubeconfig for a user in groups, to see what RBAC lets it do.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        let (certificate, key) = self.pki.issue_client(user, groups)?;
        let pki = &self.pki;
        Ok(pki.kubeconfig_for(&self.url, user, &certificate, &key))
    }

    /// The server as a service, without a socket: requests act as an administrator, or as the user of their token.
    pub fn transport(&self) -> Transport {
        self.server.transport()
    }

    /// Ends everything, and waits for it.
    pub async fn stop(mut self) {
        self.stopper.stop();
        let tasks = std::mem::take(&mut self.tasks);
        let ended = async {
            for task in tasks {
                let _ = task.await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, ended).await;
    }
}

#[cfg(test)]
mod tests;
