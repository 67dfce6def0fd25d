//! Runs scenarios on a cluster of their own, several at a time, each in its own namespace.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use super::record::Record;
use super::step::Player;
use super::tail::Tail;
use super::{Part, Scenario, resources};
use crate::audit::Level;
use crate::cluster::{Cluster, ClusterOptions};
use crate::http::Api;
use crate::installation::Installation;
use crate::kubelet::Heartbeats;
use crate::manager::{Flavor, Manager, ManagerOptions};
use crate::wait::{self, Seen};

/// Scenarios mostly wait for silence, so two cores carry several at a time.
const AT_A_TIME: usize = 8;

/// How long a new namespace may be without its default account.
const ACCOUNT_DEADLINE: Duration = Duration::from_secs(30);

/// What came of each scenario, by name.
pub type Run = BTreeMap<String, Result<Record>>;

/// Plays all scenarios with one manager. `progress` hears of each that ends.
pub fn run_all(
    installation: &Installation,
    flavor: Flavor,
    scenarios: &[Scenario],
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Run> {
    let mut results = Run::new();
    for part in Part::ALL {
        let mut scenarios = scenarios.to_vec();
        scenarios.retain(|scenario| scenario.part() == part);
        if scenarios.is_empty() {
            continue;
        }
        let options = ManagerOptions {
            controllers: part.controllers().iter().map(ToString::to_string).collect(),
            flags: part.flags(),
            ..ManagerOptions::default()
        };
        results.extend(run_part(
            installation,
            flavor,
            part,
            &options,
            &scenarios,
            progress,
        )?);
    }
    Ok(results)
}

fn run_part(
    installation: &Installation,
    flavor: Flavor,
    part: Part,
    options: &ManagerOptions,
    scenarios: &[Scenario],
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Run> {
    let cluster_options = ClusterOptions {
        audit: Level::Objects,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(installation, cluster_options)?;
    let mut manager = Manager::start(&cluster, flavor, options)?;
    let _heartbeats = heartbeats(&cluster.api, part)?;
    let tail = Tail::new(cluster.audit_log());
    let results = side_by_side(AT_A_TIME, scenarios, progress, |scenario| {
        play(&cluster.api, &tail, scenario)
    })?;
    manager.check_alive()?;
    Ok(results)
}

/// Nodes live where somebody looks whether they do.
pub(super) fn heartbeats(api: &Api, part: Part) -> Result<Option<Heartbeats>> {
    match part {
        Part::Nodes => Heartbeats::start(api).map(Some),
        Part::Workloads | Part::Housekeeping => Ok(None),
    }
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
                    if let Ok(mut results) = results.lock() {
                        results.insert(scenario.name.clone(), outcome);
                    }
                }
            });
        }
    });
    results
        .into_inner()
        .map_err(|_| anyhow!("a scenario's thread panicked"))
}

fn play(api: &Api, tail: &Tail, scenario: &Scenario) -> Result<Record> {
    let namespace = namespace_of(scenario);
    tail.watch(&namespace);
    take_steps(api, scenario, &|| tail.settle(&namespace, scenario.quiet()))?;
    let record = Record::take(api, &namespace, &tail.writes(&namespace)?)?;
    clean_up(api, &namespace)?;
    Ok(record)
}

/// No such name is the beginning of another one, so what begins with it belongs to it.
pub(super) fn namespace_of(scenario: &Scenario) -> String {
    format!("s-{}-ns", scenario.name)
}

/// Plays a scenario up to its end and leaves everything as it is then.
pub(super) fn take_steps(
    api: &Api,
    scenario: &Scenario,
    settle: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let namespace = namespace_of(scenario);
    prepare(api, &namespace, scenario.part() == Part::Housekeeping)?;
    let player = Player {
        api,
        namespace: &namespace,
        settle,
    };
    for (index, step) in scenario.steps.iter().enumerate() {
        let at = || format!("step {} of {} ({step:?})", index + 1, scenario.steps.len());
        player.take(step).with_context(at)?;
        settle().with_context(at)?;
    }
    Ok(())
}

/// A namespace whose default service account exists before any pod asks for it: who creates it, and
/// when, is another controller's story.
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
pub(super) fn clean_up(api: &Api, namespace: &str) -> Result<()> {
    for node in api.list(&format!(
        "/api/v1/nodes?labelSelector=scenario%3D{namespace}"
    ))? {
        let name = node["metadata"]["name"].as_str().unwrap_or("");
        api.delete(&format!("/api/v1/nodes/{name}"), &json!({}))?;
    }
    Ok(())
}
