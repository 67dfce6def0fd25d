//! The same scenarios on our own API server, with our manager: no Go is needed.

use parking_lot::Mutex;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::history::History;
use super::run::{self, Run};
use super::{Part, Scenario, resources};
use crate::cluster;
use crate::embedded::Embedded;
use crate::http::Api;
use crate::wait::{self, Seen};

/// What has not changed for so long does not change by itself: the server is here, and has no other user.
const QUIET: Duration = Duration::from_millis(700);
/// Scenarios mostly wait, and our server is lighter than kube-apiserver with etcd.
const AT_A_TIME: usize = 16;
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Plays the scenarios of one part. The logs stay if anything fails.
pub(super) fn run(
    part: Part,
    scenarios: &[Scenario],
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Run> {
    let folder = cluster::fresh_folder_in_memory()?;
    let server = Embedded::start(&folder)?;
    let controllers = part.controllers()?;
    let start = || server.start_our_manager(&controllers, &part.flags());
    let manager = Mutex::new(start()?);
    let restart = || -> Result<()> {
        let mut manager = manager.lock();
        // The old one ends when it is replaced.
        *manager = start()?;
        Ok(())
    };
    if part == Part::Workloads {
        warm_up(&server.api)?;
    }
    let heartbeats = run::heartbeats(&server.api, part)?;
    let history = History::start(&server.api)?;
    let results = run::side_by_side(part.at_a_time(AT_A_TIME), scenarios, progress, |scenario| {
        run::play(&server.api, &history, QUIET, &restart, scenario)
    })?;
    let mut manager = manager.into_inner();
    ensure!(manager.ended().is_none(), "{}", manager.last_lines());
    drop((heartbeats, manager, server));
    if results.values().all(Result::is_ok) {
        std::fs::remove_dir_all(&folder)?;
    } else {
        eprintln!(
            "the logs of scenarios on our own API server are kept in {}",
            folder.display()
        );
    }
    Ok(results)
}

/// Waits until the controllers act: a scenario begins with a manager that is there.
fn warm_up(api: &Api) -> Result<()> {
    let set = json!({
        "metadata": {"name": "warm-up"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "warm-up"}},
            "template": {
                "metadata": {"labels": {"app": "warm-up"}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/none"}]},
            },
        },
    });
    let sets = resources::collection("replicaset", "default")?;
    api.create(&sets, &set)?;
    wait::until("the controllers to act", START_DEADLINE, || {
        let status = api.get(&format!("{sets}/warm-up"))?["status"].take();
        Ok(match status["observedGeneration"].as_u64() {
            Some(_) => Seen::Ready(()),
            None => Seen::NotYet(status.to_string()),
        })
    })
}
