//! One run: trouble, calm, rest.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::faults::{Faults, Gremlin};
use crate::report::{Failure, Report};
use crate::trace::Actor;
use crate::user::User;

/// What to run. Everything else follows from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub faults: bool,
    pub actions: usize,
    pub nodes: usize,
    /// Crash the manager after this write of its own.
    pub crash_after_write: Option<u64>,
    /// Crash it at random moments too.
    pub random_crashes: bool,
}

impl Plan {
    pub fn for_seed(seed: u64) -> Plan {
        Plan {
            seed,
            faults: true,
            actions: 12,
            nodes: 3,
            crash_after_write: None,
            random_crashes: true,
        }
    }
}

/// The cluster has this long to converge once the trouble is over: longer than the longest back-off
/// that a short run can build up, and than any deadline in it.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Nothing may be written for this long once it has converged.
const REST: Duration = Duration::from_secs(120);

/// Runs a seed on a thread-local runtime with virtual time.
pub fn run_seed(seed: u64) -> Report {
    run_plan(Plan::for_seed(seed))
}

pub fn run_plan(plan: Plan) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing from the system");
    runtime.block_on(run(plan))
}

/// How many writes the manager does in the calm run of a seed: each is a place to crash after.
pub fn crash_points(seed: u64) -> u64 {
    let calm = Plan {
        faults: false,
        random_crashes: false,
        ..Plan::for_seed(seed)
    };
    run_plan(calm).manager_writes
}

async fn run(plan: Plan) -> Report {
    let start = tokio::time::Instant::now();
    let mut cluster = Cluster::new(plan.seed, |rng| {
        let faults = Faults::from_seed(&rng.fork());
        Gremlin::new(
            if plan.faults {
                faults
            } else {
                Faults::default()
            },
            rng.fork(),
        )
    });
    cluster.crash_after_write(plan.crash_after_write);
    let mut user = User::new(cluster.user(), cluster.rng.fork());
    user.settle_in().await;
    cluster.start_nodes(plan.nodes);
    cluster.start_manager();
    let mut crashes = trouble(&mut cluster, &mut user, plan).await;
    cluster.gremlin().rest();
    user.resume_all().await;
    crashes += calm(&mut cluster).await;
    let problem = match cluster.broken() {
        Some(problem) => Some(problem),
        None => rest(&cluster).await.err(),
    };
    report(&cluster, plan.seed, start.elapsed(), crashes, problem).await
}

/// The user acts, the gremlin acts, the manager may die.
async fn trouble(cluster: &mut Cluster, user: &mut User, plan: Plan) -> u64 {
    let rng = cluster.rng.fork();
    let mut crashes = 0;
    for _ in 0..plan.actions {
        let did = user.act().await;
        cluster.trace().remark(Actor::User, did);
        let pause = Duration::from_millis(rng.below(8000) as u64);
        crashes += pass_time(cluster, pause).await;
        if plan.random_crashes && rng.chance(6) {
            cluster.trace().remark(Actor::Manager, "crashes".into());
            cluster.crash_manager();
            tokio::time::sleep(Duration::from_millis(rng.below(3000) as u64)).await;
            cluster.start_manager();
            crashes += 1;
        }
    }
    crashes
}

/// Lets time pass; a manager that reaches its crash point is started again a second later.
async fn pass_time(cluster: &mut Cluster, duration: Duration) -> u64 {
    let end = tokio::time::Instant::now() + duration;
    let mut crashes = 0;
    loop {
        let crashed = tokio::time::timeout_at(end, cluster.crash_point_reached()).await;
        if crashed.is_err() {
            return crashes;
        }
        cluster.crash_manager();
        cluster.crash_after_write(None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.start_manager();
        crashes += 1;
    }
}

/// Waits until the manager has written nothing for a while, or patience ends.
async fn calm(cluster: &mut Cluster) -> u64 {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut crashes = 0;
    while tokio::time::Instant::now() < deadline {
        crashes += pass_time(cluster, Duration::from_secs(10)).await;
        let quiet = cluster
            .clock
            .now()
            .since(cluster.trace().last_manager_write());
        if quiet > REST && cluster.mirror().await.check_converged().is_ok() {
            break;
        }
    }
    crashes
}

/// Converged, and silent.
async fn rest(cluster: &Cluster) -> Result<(), String> {
    cluster.mirror().await.check_converged()?;
    let before = cluster.trace().writes(Actor::Manager);
    tokio::time::sleep(REST).await;
    let written = cluster.trace().writes(Actor::Manager) - before;
    if written > 0 {
        return Err(format!(
            "the manager wrote {written} times although everything has converged"
        ));
    }
    match cluster.broken() {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

async fn report(
    cluster: &Cluster,
    seed: u64,
    elapsed: Duration,
    crashes: u64,
    problem: Option<String>,
) -> Report {
    let trace = cluster.trace();
    let mirror = cluster.mirror().await;
    Report {
        seed,
        hash: trace.hash(),
        virtual_time: elapsed,
        manager_writes: trace.writes(Actor::Manager),
        writes: [Actor::User, Actor::Nodes, Actor::Manager]
            .map(|actor| trace.writes(actor))
            .iter()
            .sum(),
        faults: cluster.gremlin().count(),
        crashes,
        checks: mirror.checks,
        end_state: mirror.end_state(),
        failure: problem.map(|problem| Failure {
            problem,
            timeline: trace.lines(),
        }),
    }
}
