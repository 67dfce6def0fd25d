//! Runs scenarios on a cluster of their own, several at a time, each in its own namespace.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use super::record::Record;
use super::step::Player;
use super::tail::Tail;
use super::{Scenario, resources};
use crate::audit::Level;
use crate::cluster::{Cluster, ClusterOptions};
use crate::http::Api;
use crate::installation::Installation;
use crate::manager::{Flavor, Manager, ManagerOptions};

/// Scenarios mostly wait for silence, so two cores carry several at a time.
const AT_A_TIME: usize = 8;
/// What the scenarios are about; others would only add noise of their own.
const CONTROLLERS: [&str; 6] = [
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
    "garbage-collector-controller",
];

/// What came of each scenario, by name.
pub type Run = BTreeMap<String, Result<Record>>;

/// Plays all scenarios with one manager. `progress` hears of each that ends.
pub fn run_all(
    installation: &Installation,
    flavor: Flavor,
    scenarios: &[Scenario],
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Run> {
    let options = ClusterOptions {
        audit: Level::Objects,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(installation, options)?;
    let options = ManagerOptions {
        controllers: CONTROLLERS.map(str::to_owned).to_vec(),
        ..ManagerOptions::default()
    };
    let mut manager = Manager::start(&cluster, flavor, &options)?;
    let tail = Tail::new(cluster.audit_log());
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Run::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(scenarios.len()) {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = play(&cluster.api, &tail, scenario);
                    progress(&scenario.name);
                    if let Ok(mut results) = results.lock() {
                        results.insert(scenario.name.clone(), outcome);
                    }
                }
            });
        }
    });
    manager.check_alive()?;
    results
        .into_inner()
        .map_err(|_| anyhow!("a scenario's thread panicked"))
}

fn play(api: &Api, tail: &Tail, scenario: &Scenario) -> Result<Record> {
    let namespace = format!("s-{}", scenario.name);
    prepare(api, &namespace)?;
    let settle = || tail.settle(&namespace);
    let player = Player {
        api,
        namespace: &namespace,
        settle: &settle,
    };
    for (index, step) in scenario.steps.iter().enumerate() {
        let at = || format!("step {} of {} ({step:?})", index + 1, scenario.steps.len());
        player.take(step).with_context(at)?;
        settle().with_context(at)?;
    }
    let record = Record::take(api, &namespace, &tail.writes(&namespace)?)?;
    clean_up(api, &namespace)?;
    Ok(record)
}

/// A namespace whose default service account exists before any pod asks for it: who creates it, and
/// when, is another controller's story.
fn prepare(api: &Api, namespace: &str) -> Result<()> {
    api.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": namespace}}),
    )?;
    let accounts = resources::collection("serviceaccount", namespace)?;
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
