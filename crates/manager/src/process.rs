//! `steersman controller-manager`: the drop-in, from parsed flags to the last released lease.
//!
//! Order of things: the kubeconfig, the secure port, the API server's first answer, caches, leader
//! election, controllers. On SIGTERM in reverse: controllers finish, the lease is given back, events
//! are flushed, exit 0. A second signal ends the process at once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Gate, Rng, Uid};
use client::config::{Config as ClientConfig, Environment};
use client::{Client, Transport, https};
use runtime::decisions::Decisions;
use runtime::events::Recorder;
use runtime::informer::StreamOptions;
use runtime::leader::{Fence, LeaderElector, Leadership, LeaseConfig};
use runtime::metrics::Metrics;
use runtime::{Informers, Stop, Task, spawn};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::auth::{Auth, Authorities, AuthoritySource};
use crate::built::Parts;
use crate::error::Error;
use crate::identity::Identities;
use crate::logging::Logging;
use crate::metrics::ProcessMetrics;
use crate::options::Options;
use crate::run::{Manager, select};
use crate::serving::{self, Endpoint, Health, Pages, Router, Server};
use crate::version;

/// How long a leader may fail to renew before `/healthz` says so; upstream's number.
const LEASE_GRACE: Duration = Duration::from_secs(20);

/// How often an API server that does not answer yet is asked.
const API_SERVER_RETRY: Duration = Duration::from_secs(1);

/// Runs the controller manager until `stop`.
pub async fn run(
    options: Options,
    logging: Logging,
    clock: Clock,
    rng: Rng,
    stop: Stop,
) -> Result<(), Error> {
    for warning in &options.warnings {
        warn!("{warning}");
    }
    info!(version = version::line(), "Starting");
    let options = Arc::new(options);
    let environment = Environment::of_process();
    let connection = &options.config.generic.client_connection;
    let config = client_config(&connection.kubeconfig, &options.master, &environment)?;
    let bare = config.anonymous();
    let own = connect(config, &clock)?;

    let metrics = Metrics::new();
    let decisions = Decisions::new();
    let health = Arc::new(Health::default());
    let serving = serve(
        &options,
        &logging,
        &metrics,
        &decisions,
        &health,
        &clock,
        &environment,
    )
    .await?;
    wait_for_api_server(&Client::new(own.clone()), &stop).await;

    let (elector_stop, elector) = elect(&options, &own, &metrics, &health, &clock, &rng)?;
    let (leadership, election) = elector.unzip();
    let fenced = match &leadership {
        Some(leadership) => Fence::around(own.clone(), leadership.clone()),
        None => own.clone(),
    };
    let accounts = options
        .config
        .kube_cloud_shared
        .use_service_account_credentials;
    let fenced_bare = match (accounts, &leadership) {
        (false, _) => None,
        (true, None) => Some(connect(bare, &clock)?),
        (true, Some(leadership)) => Some(Fence::around(connect(bare, &clock)?, leadership.clone())),
    };
    let identities = Identities::new(
        fenced,
        fenced_bare,
        connection,
        options.rate_given,
        clock.clone(),
    );
    let manager = manager(&options, &identities, metrics, decisions, &clock, &rng);
    let ready: Arc<Informers> = manager.parts.informers.clone();
    health.add("informer-sync", &[Endpoint::Readyz], move || {
        match ready.unsynced() {
            kinds if kinds.is_empty() => Ok(()),
            kinds => Err(format!("caches not complete: {}", kinds.join(", "))),
        }
    });
    manager.run(leadership, stop).await;
    // All controllers have ended: now the lease may go to another.
    drop(elector_stop);
    if let Some(election) = election {
        let _ = election.await;
    }
    drop(serving);
    info!("Stopped");
    Ok(())
}

fn client_config(
    kubeconfig: &str,
    master: &str,
    environment: &Environment,
) -> Result<ClientConfig, Error> {
    let path = (!kubeconfig.is_empty()).then(|| Path::new(kubeconfig));
    let master = (!master.is_empty()).then_some(master);
    ClientConfig::from_flags(path, master, environment)
        .map_err(|source| Error::Kubeconfig { source })
}

fn connect(config: ClientConfig, clock: &Clock) -> Result<Transport, Error> {
    https::transport(config, clock.clone()).map_err(|source| Error::Kubeconfig { source })
}

/// Opens the secure port; its pages are there before anything else runs.
async fn serve(
    options: &Arc<Options>,
    logging: &Logging,
    metrics: &Metrics,
    decisions: &Decisions,
    health: &Arc<Health>,
    clock: &Clock,
    environment: &Environment,
) -> Result<Option<Task<()>>, Error> {
    if options.serving.address.is_none() {
        return Ok(None);
    }
    let reviewer = |path: &Option<std::path::PathBuf>| -> Result<Option<Client>, Error> {
        let kubeconfig = match path {
            Some(path) => path.to_string_lossy().into_owned(),
            None => return Ok(None),
        };
        let transport = connect(client_config(&kubeconfig, "", environment)?, clock)?;
        Ok(Some(Client::new(transport).with_user_agent(
            &version::user_agent("kube-controller-manager"),
        )))
    };
    let authentication = reviewer(&options.authentication.kubeconfig)?;
    let authorization = reviewer(&options.authorization.kubeconfig)?;
    let lookup = authentication
        .clone()
        .filter(|_| !options.authentication.skip_lookup);
    let source = AuthoritySource::new(&options.authentication, lookup);
    let authorities =
        Authorities::load(source, options.authentication.tolerate_lookup_failure).await?;
    let auth = Auth::new(
        &options.authentication,
        &options.authorization,
        authorities,
        clock.clone(),
        authentication,
        authorization,
        true,
    );
    let router = Arc::new(Router::default());
    let process_metrics =
        ProcessMetrics::new(metrics.clone(), options.metrics.clone(), &options.gates);
    let shown = Pages {
        options: options.clone(),
        health: health.clone(),
        metrics: Arc::new(process_metrics),
        verbosity: logging.verbosity.clone(),
        clock: clock.clone(),
        started: clock.now().time(),
    };
    serving::register(&router, shown);
    serving::debug::register(&router, decisions.clone());
    let server = Server::bind(&options.serving, clock.clone(), Arc::new(auth), router)?;
    Ok(server.map(|server| spawn(server.run())))
}

/// Waits for as long as it takes: a control plane may start in any order.
async fn wait_for_api_server(client: &Client, stop: &Stop) {
    let ask = async {
        let mut asked = 0_u32;
        loop {
            let request = http::Request::get("/healthz").body(bytes::Bytes::new());
            let request = request.expect("a constant request is valid");
            match client.request(request).await {
                Ok(_) => return,
                // An answer is an answer, even a refusal.
                Err(error) if error.is_forbidden() || error.is_unauthorized() => return,
                Err(error) => {
                    // Every ten seconds is often enough to read.
                    if asked.is_multiple_of(10) {
                        warn!(error = %client::describe(&error), "waiting for the API server");
                    }
                    asked += 1;
                    tokio::time::sleep(API_SERVER_RETRY).await;
                }
            }
        }
    };
    let _ = stop.or(ask).await;
}

type Election = (watch::Receiver<Leadership>, Task<()>);

/// Starts to contend for the lease, unless --leader-elect=false.
fn elect(
    options: &Options,
    own: &Transport,
    metrics: &Metrics,
    health: &Health,
    clock: &Clock,
    rng: &Rng,
) -> Result<(runtime::stop::Stopper, Option<Election>), Error> {
    let (stopper, stop) = Stop::new();
    let election = &options.config.generic.leader_election;
    if !election.leader_elect {
        return Ok((stopper, None));
    }
    let client = Client::new(own.clone()).with_user_agent(&version::user_agent("leader-election"));
    let (recorder, writer) = Recorder::new(
        "kube-controller-manager",
        "",
        client.clone(),
        clock.clone(),
        rng.fork(),
    );
    let gates = options.gates.for_controllers();
    let config = LeaseConfig {
        namespace: election.resource_namespace.clone(),
        name: election.resource_name.clone(),
        identity: format!("{}_{}", hostname(), Uid::from_random(rng.next_u128())),
        lease_duration: election.lease_duration.to_std(),
        renew_deadline: election.renew_deadline.to_std(),
        retry_period: election.retry_period.to_std(),
        release_on_exit: gates.enabled(Gate::ControllerManagerReleaseLeaderElectionLockOnExit),
    };
    let elector = LeaderElector::new(client, config, clock.clone(), rng.fork(), Some(recorder))
        .map_err(|error| Error::Setting {
            flag: "leader-elect-lease-duration",
            problem: error.to_string(),
        })?
        .with_metrics(metrics.leader(&election.resource_name));
    let lease = elector.health();
    health.add(
        "leaderElection",
        &[Endpoint::Healthz, Endpoint::Livez],
        move || lease.check(LEASE_GRACE),
    );
    let leadership = elector.leadership();
    let task = spawn(async move {
        let (writer_stopper, writer_stop) = Stop::new();
        let writing = spawn(writer.run(writer_stop));
        elector.run(stop).await;
        drop(writer_stopper);
        let _ = writing.await;
    });
    Ok((stopper, Some((leadership, task))))
}

fn manager(
    options: &Options,
    identities: &Identities,
    metrics: Metrics,
    decisions: Decisions,
    clock: &Clock,
    rng: &Rng,
) -> Manager {
    let generic = &options.config.generic;
    // UPSTREAM: one draw between once and twice the period, so that managers do not resync together.
    let resync = generic.min_resync_period.to_std().mul_f64(1.0 + rng.unit());
    let stream = StreamOptions {
        rng: rng.fork(),
        resync: Some(resync),
    };
    let informers = Arc::new(Informers::new(identities.own("shared-informers"), stream));
    let identities = identities.clone();
    Manager {
        parts: Parts {
            informers,
            config: options.config.clone(),
            gates: options.gates.for_controllers(),
            clock: clock.clone(),
            rng: rng.fork(),
            metrics,
            decisions,
        },
        selected: select(&generic.controllers, &options.gates),
        clients: Arc::new(move |descriptor| {
            let identities = identities.clone();
            Box::pin(async move { identities.controller(descriptor.service_account).await })
        }),
        patience: options.controller_shutdown_timeout,
    }
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_lowercase())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| String::from("localhost"))
}
