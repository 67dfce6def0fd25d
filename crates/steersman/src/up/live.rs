//! The quiet line below a cluster that is up: nodes, pods, and what is not settled yet.

use std::time::Duration;

use api::decision::{agree, counted};
use api::{Resource, ResourceType, kinds};
use client::{Client, ListOptions};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::log::Log;
use super::screen::Screen;

/// Often enough to see something move.
const EVERY: Duration = Duration::from_secs(1);

/// Counting may take this part of the time at most: a cluster of many pods is counted less often.
const PART: u32 = 50;

/// As kubectl lists.
const PAGE: u32 = 500;

/// Keeps the line true for as long as it runs. `pace` is how much faster than the wall's the cluster's time passes.
pub(super) async fn run(client: Client, screen: Screen, log: Log, pace: impl Fn() -> f64) {
    let before = log.lines();
    loop {
        let begun = Instant::now();
        // A server that does not answer is stopping, and then so are we.
        if let Ok(counts) = count(&client).await {
            let lines = log.lines() - before;
            screen.live(&line(&counts, lines, screen.separator()));
        }
        let wait = EVERY.mul_f64(pace()).max(begun.elapsed() * PART);
        tokio::time::sleep(wait).await;
    }
}

/// What there is.
#[derive(Default)]
struct Counts {
    nodes: usize,
    nodes_ready: usize,
    pods: Pods,
    /// Workloads whose pods are not all ready, with how many are: the first few in words.
    unsettled: Vec<String>,
}

#[derive(Default)]
struct Pods {
    ready: usize,
    not_ready: usize,
    pending: usize,
    terminating: usize,
    succeeded: usize,
    failed: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    generation: Option<i64>,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
struct Spec {
    replicas: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
    #[serde(default)]
    ready_replicas: i64,
    #[serde(default)]
    updated_replicas: i64,
    desired_number_scheduled: Option<i64>,
    #[serde(default)]
    number_ready: i64,
    #[serde(default)]
    updated_number_scheduled: i64,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl Object {
    fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|one| one.r#type == "Ready" && one.status == "True")
    }

    /// How many of its pods are ready, where that is not all of them, or where there are old ones among them.
    fn unsettled(&self, kind: &str) -> Option<String> {
        let status = &self.status;
        let is_daemon_set = status.desired_number_scheduled.is_some();
        let (wanted, ready, updated) = match status.desired_number_scheduled {
            Some(wanted) => (wanted, status.number_ready, status.updated_number_scheduled),
            None => {
                let wanted = self.spec.replicas.unwrap_or(1);
                (wanted, status.ready_replicas, status.updated_replicas)
            }
        };
        let is_seen = is_daemon_set || status.observed_generation >= self.metadata.generation;
        let settled = is_seen && ready == wanted && updated == wanted;
        let name = &self.metadata.name;
        (!settled).then(|| format!("{kind}/{name} {ready} of {wanted} ready"))
    }
}

async fn count(client: &Client) -> Result<Counts, client::Error> {
    let mut counts = Counts::default();
    each(client, &kinds::Node::TYPE, |node: Object| {
        counts.nodes += 1;
        counts.nodes_ready += usize::from(node.is_ready());
    })
    .await?;
    let pods = &mut counts.pods;
    each(client, &kinds::Pod::TYPE, |pod: Object| pods.add(&pod)).await?;
    for rolling in kinds::WORKLOADS.iter().filter(|one| one.rolls_out) {
        let (resource, unsettled) = (&rolling.resource, &mut counts.unsettled);
        let kind = resource.kind.to_lowercase();
        each(client, resource, |workload: Object| {
            unsettled.extend(workload.unsettled(&kind));
        })
        .await?;
    }
    Ok(counts)
}

/// A page at a time: what is counted is not kept.
async fn each<T: DeserializeOwned>(
    client: &Client,
    resource: &ResourceType,
    mut take: impl FnMut(T),
) -> Result<(), client::Error> {
    let mut options = ListOptions {
        limit: Some(PAGE),
        ..ListOptions::default()
    };
    loop {
        let page = client.list(resource, "", &options).await?;
        for item in &page.items {
            // All that is read of it is optional, so an object that is none of these does not exist.
            if let Ok(item) = serde_json::from_slice(item) {
                take(item);
            }
        }
        match page.continue_token {
            Some(token) => options.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

impl Pods {
    fn add(&mut self, pod: &Object) {
        let count = match pod.status.phase.as_deref() {
            _ if pod.metadata.deletion_timestamp.is_some() => &mut self.terminating,
            Some("Succeeded") => &mut self.succeeded,
            Some("Failed") => &mut self.failed,
            Some("Running") if pod.is_ready() => &mut self.ready,
            Some("Running") => &mut self.not_ready,
            _ => &mut self.pending,
        };
        *count += 1;
    }

    fn all(&self) -> usize {
        self.ready + self.not_ready + self.pending + self.terminating + self.succeeded + self.failed
    }

    fn text(&self) -> String {
        let states = [
            (self.ready, "ready"),
            (self.not_ready, "not ready"),
            (self.pending, "pending"),
            (self.terminating, "terminating"),
            (self.succeeded, "succeeded"),
            (self.failed, "failed"),
        ];
        let states: Vec<String> = states
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, state)| format!("{count} {state}"))
            .collect();
        match self.all() {
            0 => "no pods".to_owned(),
            all if all == self.ready => format!("{} ready", counted(all, "pod")),
            all => format!("{}: {}", counted(all, "pod"), states.join(", ")),
        }
    }
}

fn line(counts: &Counts, logged: u64, separator: &str) -> String {
    let nodes = match (counts.nodes_ready, counts.nodes) {
        (_, 0) => "no nodes".to_owned(),
        (ready, all) if ready == all => format!("{} ready", counted(all, "node")),
        (ready, all) => format!("{ready} of {} ready", counted(all, "node")),
    };
    let unsettled = match &*counts.unsettled {
        [] => "settled".to_owned(),
        [one] => format!("not settled: {one}"),
        [one, rest @ ..] => format!("not settled: {one}, and {} more", rest.len()),
    };
    let mut parts = vec![nodes, counts.pods.text(), unsettled];
    if logged > 0 {
        let verb = agree(logged, "line is", "lines are");
        parts.push(format!("{logged} {verb} in the log"));
    }
    parts.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> Object {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_calm_cluster_has_a_short_line() {
        let counts = Counts {
            nodes: 3,
            nodes_ready: 3,
            ..Counts::default()
        };
        assert_eq!(line(&counts, 0, "; "), "3 nodes ready; no pods; settled");
    }

    #[test]
    fn what_is_not_settled_is_named() {
        let mut counts = Counts {
            nodes: 2,
            nodes_ready: 1,
            unsettled: vec!["deployment/web 1 of 3 ready".to_owned(), "x".to_owned()],
            ..Counts::default()
        };
        for pod in [
            r#"{"metadata": {"name": "a"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}"#,
            r#"{"metadata": {"name": "b"}, "status": {"phase": "Running"}}"#,
            r#"{"metadata": {"name": "c"}, "status": {"phase": "Pending"}}"#,
            r#"{"metadata": {"name": "d", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}"#,
        ] {
            counts.pods.add(&object(pod));
        }
        assert_eq!(
            line(&counts, 1, "; "),
            "1 of 2 nodes ready; 4 pods: 1 ready, 1 not ready, 1 pending, 1 terminating; \
             not settled: deployment/web 1 of 3 ready, and 1 more; 1 line is in the log"
        );
    }

    #[test]
    fn a_workload_is_settled_when_all_its_pods_are_new_and_ready() {
        let of = |seen: i64, ready: i64, updated: i64| {
            object(&format!(
                r#"{{"metadata": {{"name": "web", "generation": 2}}, "spec": {{"replicas": 3}},
                    "status": {{"observedGeneration": {seen}, "readyReplicas": {ready}, "updatedReplicas": {updated}}}}}"#
            ))
            .unsettled("deployment")
        };
        assert_eq!(of(2, 3, 3), None);
        assert!(of(1, 3, 3).is_some(), "the controller has not seen it yet");
        assert!(of(2, 3, 2).is_some(), "one is old");
        assert_eq!(of(2, 1, 3).as_deref(), Some("deployment/web 1 of 3 ready"));
        let daemons = r#"{"metadata": {"name": "log"}, "status": {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2}}"#;
        assert_eq!(object(daemons).unsettled("daemonset"), None);
    }
}
