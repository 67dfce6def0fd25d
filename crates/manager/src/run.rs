//! The controllers of one process, over any transport: term after term, on caches that stay warm.

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Rng};
use client::{Client, Transport};
use controllers::garbage_collector::Memory;
use controllers::{Descriptor, Environment};
use futures_util::future::BoxFuture;
use runtime::informer::{MetadataStreams, StreamOptions};
use runtime::leader::Leadership;
use runtime::{Decisions, Informers, Metrics, Stop};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::gates::FeatureGates;
use crate::options::Options;
use crate::selection::{self, Selection};
use crate::term::Term;

/// Gives each controller its client.
pub type Clients = Arc<
    dyn Fn(&'static Descriptor) -> BoxFuture<'static, Result<Client, client::Error>> + Send + Sync,
>;

/// The controllers of one process.
pub struct Manager {
    pub environment: Environment,
    /// How far apart controllers are started.
    pub start_interval: Duration,
    pub selected: Vec<&'static Descriptor>,
    pub clients: Clients,
    /// How long controllers may take to finish when they have to stop.
    pub patience: Duration,
}

/// While the API server refuses what controllers are built with, it is asked again this often; and so long they stay stopped
/// after one of them has panicked.
const BUILD_RETRY: Duration = Duration::from_secs(2);

/// How long the first look at the lease may hold up the first listing.
const FIRST_LOOK: Duration = Duration::from_secs(1);

impl Manager {
    /// All selected controllers against a server in the same process, without identities of their own.
    pub fn in_process(
        transport: Transport,
        options: &Options,
        clock: Clock,
        rng: Rng,
        decisions: Decisions,
    ) -> Manager {
        let stream = StreamOptions {
            rng: rng.fork(),
            resync: None,
        };
        let client = {
            let transport = transport.clone();
            move |agent: &str| {
                Client::new(transport.clone()).with_user_agent(&format!("steersman/{agent}"))
            }
        };
        let streams = MetadataStreams::new(client("metadata-informers"), stream.clone());
        Manager {
            start_interval: options.config.generic.controller_start_interval.to_std(),
            environment: Environment {
                informers: Arc::new(Informers::new(client("shared-informers"), stream)),
                collector: Memory::new(streams.clone()),
                streams,
                metadata: client("metadata-informers"),
                root_ca: None,
                service_account_key: None,
                cluster_ca: None,
                config: options.config.controllers.clone(),
                gates: options.gates.for_controllers(),
                clock,
                rng: rng.fork(),
                metrics: Metrics::new(),
                decisions,
            },
            selected: select(&options.config.generic.controllers, &options.gates),
            clients: Arc::new(move |descriptor| {
                Box::pin(std::future::ready(Ok(client(descriptor.name))))
            }),
            // Nothing takes long that does not go over a network.
            patience: Duration::from_secs(5),
        }
    }

    /// Runs until the signal comes. Without `leadership` it leads from the start to the end.
    pub async fn run(self, leadership: Option<watch::Receiver<Leadership>>, stop: Stop) {
        // What is listed before the lease is ours may lack what its last holder did, and would have to be
        // listed again.
        stop.or(first_look(&leadership)).await;
        self.environment.informers.start(&stop);
        while !stop.is_stopped() {
            let Some(term) = stop.or(self.build()).await else {
                break;
            };
            // Kinds that this term asked for as the first one.
            self.environment.informers.start(&stop);
            let Some(since) = stop.or(leads_since(&leadership)).await else {
                break;
            };
            if let Some(since) = since {
                self.environment.informers.demand_fresh(since);
            }
            let started = term.started();
            info!(controllers = ?started.running, "leading");
            let begun = self.environment.decisions.begin(started);
            let over = async {
                if stop.or(until(&leadership, false)).await.is_some() {
                    warn!("lost the lease: stopping all controllers, contending again");
                }
            };
            let ended = term.run(over, self.patience).await;
            drop(begun);
            self.environment.informers.clear_listeners();
            self.environment.streams.clear_listeners();
            if ended.is_err() {
                stop.or(tokio::time::sleep(BUILD_RETRY)).await;
            }
        }
    }

    /// Is this controller among those that it runs?
    pub fn has(&self, name: &str) -> bool {
        self.selected
            .iter()
            .any(|descriptor| descriptor.name == name)
    }

    async fn build(&self) -> Term {
        loop {
            match Term::build(
                &self.environment,
                &self.selected,
                self.start_interval,
                |descriptor| (self.clients)(descriptor),
            )
            .await
            {
                Ok(term) => return term,
                Err(error) => {
                    warn!(error = %client::describe(&error), "cannot set up the controllers yet");
                    self.environment.informers.clear_listeners();
                    tokio::time::sleep(BUILD_RETRY).await;
                }
            }
        }
    }
}

/// Waits until it is known who leads, but not for long.
async fn first_look(leadership: &Option<watch::Receiver<Leadership>>) {
    if let Some(leadership) = leadership {
        let known = |held: &Leadership| !matches!(held, Leadership::Standby { holder: None });
        let mut leadership = leadership.clone();
        // If nobody can say, caches are filled all the same.
        let _ = tokio::time::timeout(FIRST_LOOK, leadership.wait_for(known)).await;
    }
}

/// Waits until we lead, and says since when; none without leader election.
async fn leads_since(leadership: &Option<watch::Receiver<Leadership>>) -> Option<Instant> {
    loop {
        until(leadership, true).await;
        // It may be lost again by now.
        if let Leadership::Leading { since, .. } = *leadership.as_ref()?.borrow() {
            return Some(since);
        }
    }
}

/// Waits until we lead, or until we do not. Without leader election we always do.
pub(crate) async fn until(leadership: &Option<watch::Receiver<Leadership>>, leading: bool) {
    let Some(leadership) = leadership else {
        if !leading {
            std::future::pending::<()>().await;
        }
        return;
    };
    let reached = |held: &Leadership| matches!(held, Leadership::Leading { .. }) == leading;
    if leadership.clone().wait_for(reached).await.is_err() && leading {
        // The elector is gone: nobody will ever make us the leader.
        std::future::pending::<()>().await;
    }
}

/// The controllers that --controllers and the gates select, as far as this build has them. Those
/// that do not run are logged with the reason.
pub fn select(list: &[String], gates: &FeatureGates) -> Vec<&'static Descriptor> {
    let mut selected = Vec::new();
    let mut not_built = Vec::new();
    for (descriptor, fate) in selection::select(list, gates) {
        let controller = descriptor.name;
        match fate {
            Selection::Runs => selected.push(descriptor),
            Selection::NotBuilt => not_built.push(controller),
            Selection::Deselected => info!(controller, "Warning: controller is disabled"),
            Selection::Gated(gates) => {
                info!(controller, requiredFeatureGates = ?gates, "Controller is disabled by a feature gate");
            }
            Selection::Cloud => info!(controller, "Skipping a cloud provider controller"),
        }
    }
    if !not_built.is_empty() {
        info!(
            controllers = not_built.join(","),
            "This build does not have these controllers; they do not run"
        );
    }
    selected
}
