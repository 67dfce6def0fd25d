//! The cluster: API server, nodes, and managers that can be crashed and started again.

mod managers;
mod observer;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{Cidr, Clock, Rng, Time};
use apiserver::admission::Networks;
use apiserver::{ApiServer, Extra, Options as ServerOptions};
use client::{Client, Transport};
use controllers::oracle::Actor;
use runtime::decisions::Decisions;
use runtime::stop::Stopper;
use runtime::{Stop, Task, spawn};

use crate::faults::FaultInjector;
use crate::front::Front;
use crate::oracle::Oracles;
use crate::trace::Trace;

pub(crate) use managers::Running;
pub(crate) use managers::{LEASE, ROOT_CA, options};
use observer::{CrashPoint, Observer};

/// Runs begin on New Year 2024.
const BEGIN: i64 = 1_704_067_200;

/// Where services get their second address from, in dual-stack clusters.
const SERVICES_V6: &str = "fd00:96::/112";

/// Nodes are dealt out to so many zones in turn.
pub(crate) const ZONES: usize = 2;

/// A simulated cluster. Make it inside a current-thread runtime with paused time.
pub struct Cluster {
    pub clock: Clock,
    pub rng: Rng,
    pub decisions: Decisions,
    front: Front,
    trace: Trace,
    oracles: Oracles,
    crash: Arc<CrashPoint>,
    injector: FaultInjector,
    managers: Vec<Option<Running>>,
    /// How many managers were started so far: each has an identity of its own.
    started: usize,
    nodes: Option<(Stopper, Task<()>)>,
    is_dual_stack: bool,
}

impl Drop for Cluster {
    /// A run that is over leaves nothing behind: thousands follow it in the same process.
    fn drop(&mut self) {
        self.managers.clear();
        self.nodes = None;
        self.oracles.forget_managers();
    }
}

impl Cluster {
    pub fn new(
        seed: u64,
        is_dual_stack: bool,
        injector: impl FnOnce(&Rng) -> FaultInjector,
    ) -> Cluster {
        let rng = Rng::from_seed(seed);
        let clock = runtime::clock::following_tokio(Time::from_unix(BEGIN));
        let server = prepared(is_dual_stack).reopened(0, clock.clone(), rng.fork());
        let injector = injector(&rng);
        Cluster {
            decisions: Decisions::new(),
            trace: Trace::new(clock.clone()),
            oracles: Oracles::new(&server, clock.clone(), injector.clone(), is_dual_stack),
            front: Front::new(server),
            crash: Arc::default(),
            injector,
            managers: Vec::new(),
            started: 0,
            nodes: None,
            is_dual_stack,
            clock,
            rng,
        }
    }

    /// A client for a user, watched like everyone.
    pub fn user(&self) -> Client {
        Client::new(self.watched(Actor::User)).with_user_agent("simulated-user")
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) fn injector(&self) -> &FaultInjector {
        &self.injector
    }

    pub(crate) fn oracles(&self) -> &Oracles {
        &self.oracles
    }

    /// The first thing that must not have happened.
    pub fn broken(&self) -> Option<String> {
        self.oracles.broken()
    }

    pub fn start_nodes(&mut self, count: usize) {
        self.oracles.expect_new_writer();
        let client = Client::new(self.watched(Actor::Nodes)).with_user_agent("nodes");
        let mut config = nodes::Config::with_nodes(count).without_ranges();
        // Claims of the scenarios are for devices that no node has; their pods are to run all the same.
        config.allocates_devices = false;
        // A single node is in no zone: with one, its pods get labels when they are bound, which wakes whoever selects them.
        let zoned = config.nodes.iter_mut().filter(|_| count > 1);
        for (number, node) in zoned.enumerate() {
            let zone = format!("zone-{}", number % ZONES);
            node.labels
                .insert("topology.kubernetes.io/zone".into(), zone.into());
        }
        let cluster = nodes::Cluster::new(client, config, self.clock.clone(), self.rng.fork());
        let (stopper, stop) = Stop::new();
        self.nodes = Some((stopper, spawn(cluster.run(stop))));
    }

    /// Nobody will call [`Cluster::restart_server`].
    pub(crate) fn keep_server_up(&self) {
        self.front.stay_up();
    }

    /// The API server dies now and comes back later, without its last `lost` changes.
    pub(crate) async fn restart_server(&self, lost: u64, down: Duration) {
        let old = self.front.server();
        self.front.take_down();
        tokio::time::sleep(down).await;
        let server = old.reopened(lost, self.clock.clone(), self.rng.fork());
        if lost > 0 {
            self.oracles.start_over(&server);
        }
        self.front.bring_back(server);
    }

    /// The server as one actor sees it: every write is traced, mirrored and checked.
    fn watched(&self, actor: Actor) -> Transport {
        Observer {
            actor,
            trace: self.trace.clone(),
            oracles: self.oracles.clone(),
            front: self.front.clone(),
            crash: self.crash.clone(),
        }
        .transport()
    }

    /// Crashes the manager right after its `nth` write from the start of the run.
    pub fn crash_after_write(&self, nth: Option<u64>) {
        self.crash.set(nth);
    }

    pub async fn crash_point_reached(&self) {
        self.crash.reached().await;
    }
}

/// A server with the objects that every server is born with. Making them takes longer than many a run,
/// and they are the same for all.
fn prepared(is_dual_stack: bool) -> &'static ApiServer {
    static PREPARED: [OnceLock<ApiServer>; 2] = [OnceLock::new(), OnceLock::new()];
    PREPARED[usize::from(is_dual_stack)].get_or_init(|| {
        let clock = Clock::fixed(Time::from_unix(BEGIN));
        let mut networks = Networks::default();
        if is_dual_stack {
            networks.service_cidrs.extend(Cidr::parse(SERVICES_V6));
        }
        let options = ServerOptions {
            networks,
            // Who wrote which field is a tenth of the work of a run, and nobody here reads it.
            track_fields: false,
            // As many as are kept at hand: more would be packed, and nobody comes back after so long.
            event_log_capacity: 1000,
            // Autoscalers need something to read.
            serves: Extra {
                usage: true,
                previews: true,
            },
            ..ServerOptions::in_memory(clock, Rng::from_seed(0))
        };
        ApiServer::open(options)
            .unwrap_or_else(|error| panic!("the embedded API server starts in memory: {error}"))
    })
}
