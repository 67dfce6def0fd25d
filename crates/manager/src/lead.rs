//! From a process that is ready to the last released lease.
//!
//! Caches fill and the lease is contended for; whoever leads runs the controllers. On a stop the
//! controllers finish first, then the lease goes to another, then the last events go out.

use std::sync::Arc;
use std::time::Duration;

use api::{Gate, Uid};
use client::Client;
use runtime::events::Recorder;
use runtime::informer::StreamOptions;
use runtime::leader::{Fence, LeaderElector, Leadership, LeaseConfig};
use runtime::stop::Stopper;
use runtime::{Informers, Stop, Task, spawn};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::built::Parts;
use crate::error::{Error, Errors};
use crate::identity::Identities;
use crate::process::Process;
use crate::run::{Manager, select};
use crate::serving::Endpoint;
use crate::version;

/// How long a leader may fail to renew before `/healthz` says so; upstream's number.
const LEASE_GRACE: Duration = Duration::from_secs(20);

/// How often an API server that does not answer yet is asked.
const API_SERVER_RETRY: Duration = Duration::from_secs(1);

/// Serves, and runs the selected controllers while it leads, until `stop`.
pub async fn run(mut process: Process, stop: Stop) -> Result<(), Errors> {
    let serving = process.take_server().map(|server| spawn(server.run()));
    let log = Arc::clone(&process.logging.writer);
    let flushing = spawn(async move { log.flush_forever().await });
    wait_for_api_server(&Client::new(process.transport.clone()), &stop).await;

    let (lease, election) = elect(&process)?;
    let (leadership, contending) = election.unzip();
    let identities = process.identities(|transport| match &leadership {
        Some(leadership) => Fence::around(transport, leadership.clone()),
        None => transport,
    });
    let manager = manager(&process, &identities);
    let caches = Arc::clone(&manager.parts.informers);
    process
        .health
        .add("informer-sync", &[Endpoint::Readyz], move || {
            match caches.unsynced() {
                kinds if kinds.is_empty() => Ok(()),
                kinds => Err(format!("caches not complete: {}", kinds.join(", "))),
            }
        });
    manager.run(leadership, stop).await;
    // All controllers have ended: now the lease may go to another.
    drop(lease);
    if let Some(contending) = contending {
        let _ = contending.await;
    }
    info!("Stopped");
    drop((serving, flushing));
    Ok(())
}

/// Waits for as long as it takes: a control plane may start in any order.
async fn wait_for_api_server(client: &Client, stop: &Stop) {
    let ask = async {
        let mut asked = 0_u32;
        loop {
            let request = http::Request::get("/healthz").body(bytes::Bytes::new());
            match client
                .request(request.expect("a constant request is valid"))
                .await
            {
                Ok(_) => return,
                // An answer is an answer, even a refusal.
                Err(error) if error.is_forbidden() || error.is_unauthorized() => return,
                Err(error) => {
                    // Every ten seconds is often enough to read.
                    if asked.is_multiple_of(10) {
                        warn!(error = %client::describe(&error), "Waiting for the API server");
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

/// Starts to contend for the lease, unless --leader-elect=false. The lease is given back when the
/// stopper is dropped.
fn elect(process: &Process) -> Result<(Stopper, Option<Election>), Error> {
    let (stopper, stop) = Stop::new();
    let election = &process.options.config.generic.leader_election;
    if !election.leader_elect {
        return Ok((stopper, None));
    }
    let (clock, rng) = (&process.clock, &process.rng);
    // A lane of its own: no other client can hold it up, and no fence stops it.
    let client = Client::new(process.transport.clone())
        .with_user_agent(&version::user_agent("leader-election"));
    let (recorder, writer) = Recorder::new(
        "kube-controller-manager",
        "",
        client.clone(),
        clock.clone(),
        rng.fork(),
    );
    let gates = process.options.gates.for_controllers();
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
        .with_metrics(process.metrics.leader(&election.resource_name));
    let lease = elector.health();
    process.health.add(
        "leaderElection",
        &[Endpoint::Healthz, Endpoint::Livez],
        move || lease.check(LEASE_GRACE),
    );
    let leadership = elector.leadership();
    let contending = spawn(async move {
        let (writer_stopper, writer_stop) = Stop::new();
        let writing = spawn(writer.run(writer_stop));
        elector.run(stop).await;
        drop(writer_stopper);
        let _ = writing.await;
    });
    Ok((stopper, Some((leadership, contending))))
}

fn manager(process: &Process, identities: &Identities) -> Manager {
    let options = &process.options;
    let generic = &options.config.generic;
    // UPSTREAM: one draw between once and twice the period, so that managers do not resync together.
    let resync = generic
        .min_resync_period
        .to_std()
        .mul_f64(1.0 + process.rng.unit());
    let stream = StreamOptions {
        rng: process.rng.fork(),
        resync: Some(resync),
    };
    let informers = Arc::new(Informers::new(identities.own("shared-informers"), stream));
    let identities = identities.clone();
    Manager {
        parts: Parts {
            informers,
            config: options.config.clone(),
            gates: options.gates.for_controllers(),
            clock: process.clock.clone(),
            rng: process.rng.fork(),
            metrics: process.metrics.clone(),
            decisions: process.decisions.clone(),
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
