//! Runs scenarios, several at a time, each in its own namespace, on servers of their own.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use super::record::Record;
use super::step::Player;
use super::tail::Tail;
use super::witness::{self, Witness};
use super::{Part, Scenario, embedded, resources};
use crate::audit::Level;
use crate::cluster::{Cluster, ClusterOptions};
use crate::http::Api;
use crate::installation::Installation;
use crate::kubelet::Heartbeats;
use crate::manager::{Flavor, Manager, ManagerOptions};
use crate::wait::{self, Seen};

/// Scenarios mostly wait for silence, so two cores carry many at a time.
const AT_A_TIME: usize = 16;

/// A manager that has written nothing for this long has nothing more to do: the slowest reaction in
/// the workload controllers is a retry after a conflict, well below a second.
const QUIET: Duration = Duration::from_millis(900);

/// How long a new namespace may be without its default account.
const ACCOUNT_DEADLINE: Duration = Duration::from_secs(30);

/// Whose manager plays, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// A manager on etcd and kube-apiserver.
    Real(Flavor),
    /// Ours on our own API server.
    Embedded,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Real(flavor) => flavor.name(),
            Side::Embedded => "embedded",
        }
    }
}

/// What came of each scenario, by name.
pub type Run = BTreeMap<String, Result<Record>>;

/// Plays all scenarios on each side, all sides and parts at the same time. `progress` hears of each that ends.
pub fn run_all(
    installation: &Installation,
    sides: &[Side],
    scenarios: &[Scenario],
    progress: &(dyn Fn(Side, &str) + Sync),
) -> Result<Vec<Run>> {
    let run = |side: Side| -> Result<Run> {
        let parts = Part::ALL.map(|part| {
            let mut scenarios = scenarios.to_vec();
            scenarios.retain(|scenario| scenario.part == part);
            (part, scenarios)
        });
        let parts = at_the_same_time(&parts, |(part, scenarios)| {
            if scenarios.is_empty() {
                return Ok(Run::new());
            }
            let progress = |name: &str| progress(side, name);
            match side {
                Side::Real(flavor) => run_real(installation, flavor, *part, scenarios, &progress),
                Side::Embedded => embedded::run(*part, scenarios, &progress),
            }
        })?;
        Ok(parts.into_iter().flatten().collect())
    };
    at_the_same_time(sides, |side| run(*side))
}

fn run_real(
    installation: &Installation,
    flavor: Flavor,
    part: Part,
    scenarios: &[Scenario],
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Run> {
    let cluster_options = ClusterOptions {
        audit: Level::Objects,
        ..ClusterOptions::default()
    };
    let options = ManagerOptions {
        controllers: part.controllers()?,
        flags: part.flags(),
        ..ManagerOptions::default()
    };
    let cluster = Cluster::start(installation, cluster_options)?;
    let start = || Manager::start(&cluster, flavor, &options);
    let manager = Mutex::new(Some(start()?));
    let restart = || -> Result<()> {
        let mut manager = manager.lock();
        manager.take().map_or(Ok(()), Manager::stop)?;
        *manager = Some(start()?);
        Ok(())
    };
    let _heartbeats = heartbeats(&cluster.api, part)?;
    let tail = Tail::new(cluster.audit_log());
    let results = side_by_side(part.at_a_time(AT_A_TIME), scenarios, progress, |scenario| {
        play(&cluster.api, &tail, QUIET, &restart, scenario)
    })?;
    let manager = manager.into_inner();
    if let Some(mut manager) = manager {
        manager.check_alive()?;
    }
    Ok(results)
}

/// Nodes live where somebody looks whether they do.
pub(super) fn heartbeats(api: &Api, part: Part) -> Result<Option<Heartbeats>> {
    match part {
        Part::Nodes => Heartbeats::start(api).map(Some),
        Part::Workloads
        | Part::Housekeeping
        | Part::Restarts
        | Part::Storage
        | Part::Protection => Ok(None),
    }
}

/// Does something for each of a few things, each in a thread; the first failure is the outcome.
fn at_the_same_time<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow!("a thread of the differential panicked")),
        });
        ended.collect()
    })
}

/// Plays several at a time.
pub(super) fn side_by_side<T: Send>(
    at_a_time: usize,
    scenarios: &[Scenario],
    progress: &(dyn Fn(&str) + Sync),
    play: impl Fn(&Scenario) -> Result<T> + Sync,
) -> Result<BTreeMap<String, Result<T>>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(scenarios.len()) {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = play(scenario);
                    progress(&scenario.name);
                    {
                        let mut results = results.lock();
                        results.insert(scenario.name.clone(), outcome);
                    }
                }
            });
        }
    });
    Ok(results.into_inner())
}

/// Plays a scenario and records what is left at its end. `quiet` is how long managers write nothing that have
/// nothing more to do.
pub(super) fn play(
    api: &Api,
    witness: &dyn Witness,
    quiet: Duration,
    restart_manager: &dyn Fn() -> Result<()>,
    scenario: &Scenario,
) -> Result<Record> {
    let namespace = namespace_of(scenario);
    let quiet = scenario.quiet().unwrap_or(quiet);
    witness.attend(&namespace);
    prepare(api, &namespace, scenario.part == Part::Housekeeping)?;
    let wait_until_idle = |acted| witness::wait_until_idle(witness, api, &namespace, quiet, acted);
    let player = Player::new(
        api,
        &namespace,
        scenario.part,
        &wait_until_idle,
        restart_manager,
    );
    for (index, step) in scenario.steps.iter().enumerate() {
        let at = || format!("step {} of {} ({step:?})", index + 1, scenario.steps.len());
        player.take(step).with_context(at)?;
    }
    if let Some(quiet) = scenario.part.quiet_at_the_end() {
        witness::wait_until_idle(witness, api, &namespace, quiet, Instant::now())?;
    }
    let record = Record::take(api, &namespace, &witness.writes(&namespace)?)?;
    clean_up(api, &namespace)?;
    Ok(record)
}

/// No such name is the beginning of another one, so what begins with it belongs to it.
fn namespace_of(scenario: &Scenario) -> String {
    format!("s-{}-ns", scenario.name)
}

/// A namespace whose default service account exists before any pod asks for it: who creates it, and
/// when, is another controller's scenario.
fn prepare(api: &Api, namespace: &str, housekeeping: bool) -> Result<()> {
    api.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": namespace}}),
    )?;
    let accounts = resources::collection("serviceaccount", namespace)?;
    if housekeeping {
        return wait::until("the default account", ACCOUNT_DEADLINE, || {
            Ok(match api.find(&format!("{accounts}/default"))? {
                Some(_) => Seen::Ready(()),
                None => Seen::NotYet("it is missing".to_owned()),
            })
        });
    }
    api.create(&accounts, &json!({"metadata": {"name": "default"}}))
        .map(drop)
}

/// Nodes outlive their scenario otherwise, and other scenarios' DaemonSets would look at them.
fn clean_up(api: &Api, namespace: &str) -> Result<()> {
    for node in api.list(&format!(
        "/api/v1/nodes?labelSelector=scenario%3D{namespace}"
    ))? {
        let name = node["metadata"]["name"].as_str().unwrap_or("");
        api.delete(&format!("/api/v1/nodes/{name}"), &json!({}))?;
    }
    Ok(())
}
