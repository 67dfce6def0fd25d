//! The same stories on our own API server: no Go is needed, and what a story waits for is its judge.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::resources::{self, RECORDED};
use super::{Part, Scenario, run};
use crate::embedded::Embedded;
use crate::http::Api;
use crate::wait::{self, Seen};

/// What has not changed for so long does not change by itself: the server is here, and has no other user.
const QUIET: Duration = Duration::from_millis(500);
/// Between two looks, which cost the server a list of every kind.
const LOOK: Duration = Duration::from_millis(100);
/// Whatever still changes after this long is fought over.
const QUIET_DEADLINE: Duration = Duration::from_secs(60);
/// Stories mostly wait, and our server is lighter than kube-apiserver with etcd.
const AT_A_TIME: usize = 32;
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Plays all scenarios with our manager on our API server, with what they keep and log in `folder`.
pub fn run_embedded(folder: &Path, scenarios: &[Scenario]) -> Result<BTreeMap<String, Result<()>>> {
    let mut results = BTreeMap::new();
    for part in Part::ALL {
        let mut scenarios = scenarios.to_vec();
        scenarios.retain(|scenario| scenario.part() == part);
        let server = Embedded::start(&folder.join(part.name()))?;
        let mut manager = server.start_our_manager(part.controllers(), &part.flags())?;
        if part == Part::Workloads {
            warm_up(&server.api)?;
        }
        let _heartbeats = run::heartbeats(&server.api, part)?;
        results.extend(run::side_by_side(
            AT_A_TIME,
            &scenarios,
            &|_| {},
            |scenario| {
                let namespace = run::namespace_of(scenario);
                let quiet = scenario.quiet().unwrap_or(QUIET);
                run::take_steps(&server.api, scenario, &|| {
                    settle(&server.api, &namespace, quiet)
                })?;
                run::clean_up(&server.api, &namespace)
            },
        )?);
        ensure!(manager.ended().is_none(), "{}", manager.last_lines());
    }
    Ok(results)
}

/// Waits until the controllers act: a story begins with a manager that is there.
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

/// Waits until nothing in a namespace has changed for a while.
fn settle(api: &Api, namespace: &str, quiet: Duration) -> Result<()> {
    let started = Instant::now();
    let mut last = (String::new(), started);
    loop {
        let now = versions(api, namespace)?;
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() >= quiet {
            return Ok(());
        }
        if started.elapsed() > QUIET_DEADLINE {
            let limit = QUIET_DEADLINE.as_secs();
            bail!("{namespace} still changes after {limit} s");
        }
        std::thread::sleep(LOOK);
    }
}

/// Which objects there are, each in which version.
fn versions(api: &Api, namespace: &str) -> Result<String> {
    let mut text = String::new();
    for kind in RECORDED {
        for object in api.list(&resources::collection(kind, namespace)?)? {
            let metadata = &object["metadata"];
            write!(text, "{} {} ", metadata["uid"], metadata["resourceVersion"])?;
        }
    }
    Ok(text)
}
