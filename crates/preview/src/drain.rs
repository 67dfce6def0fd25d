//! Drains nodes as `kubectl drain --ignore-daemonsets --force --delete-emptydir-data` does, and notes who went when and
//! what held whom.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Node, Pod};
use api::{Clock, Key, MicroTime, Resource};
use client::{Client, ListOptions, Patch};
use parking_lot::Mutex;
use runtime::{Task, spawn};
use serde_json::{Value, json};

use crate::PreviewError;

/// UPSTREAM: how long kubectl waits before it asks again for an eviction that was refused.
const ASKS_EVERY: Duration = Duration::from_secs(5);

/// How often is checked whether what was evicted is gone.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// A client waits as long as the server says; here the next attempt is soon enough.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How one drain went so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining {
    pub(crate) node: String,
    /// When its first pod was asked to leave.
    pub(crate) began: MicroTime,
    pub(crate) pods: BTreeMap<Key, Leaving>,
    /// When nothing was left on the node.
    pub(crate) done: Option<MicroTime>,
}

/// A pod on a node that is drained.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving {
    pub(crate) evicted: Option<MicroTime>,
    /// When its eviction was refused first, and how.
    pub(crate) refused: Option<(MicroTime, String)>,
    /// The DaemonSet that would put it back at once, so that it stays.
    pub(crate) stays_for: Option<String>,
    /// Nobody recreates it.
    pub(crate) is_bare: bool,
    /// What it has in volumes of its own is lost.
    pub(crate) loses_data: bool,
}

/// Drains that are under way.
#[derive(Default)]
pub(crate) struct Drains {
    all: Vec<Arc<Mutex<Draining>>>,
    _tasks: Vec<Task<()>>,
}

impl Drains {
    /// Cordons the nodes, all of them before the first eviction, and begins.
    pub(crate) async fn start(
        client: &Client,
        clock: &Clock,
        nodes: &[String],
    ) -> Result<Drains, PreviewError> {
        let mut drains = Drains::default();
        for name in nodes {
            cordon(client, name).await?;
        }
        for name in nodes {
            let draining = Arc::new(Mutex::new(Draining {
                node: name.clone(),
                began: clock.now(),
                ..Draining::default()
            }));
            drains.all.push(draining.clone());
            let task = evict_all(client.clone(), clock.clone(), draining);
            drains._tasks.push(spawn(task));
        }
        Ok(drains)
    }

    pub(crate) fn are_done(&self) -> bool {
        self.all.iter().all(|one| one.lock().done.is_some())
    }

    pub(crate) fn all(&self) -> Vec<Draining> {
        self.all.iter().map(|one| one.lock().clone()).collect()
    }
}

async fn cordon(client: &Client, name: &str) -> Result<(), PreviewError> {
    let change = json!({"spec": {"unschedulable": true}}).to_string();
    let patch = Patch::Merge(change.into());
    let answer = client.patch(&Node::TYPE, "", name, None, &patch).await;
    if answer.is_ok() {
        return Ok(());
    }
    let known = client.list(&Node::TYPE, "", &ListOptions::default()).await;
    let known = known.map(|page| page.items).unwrap_or_default();
    let known = known.iter().filter_map(|item| Node::decode(item).ok());
    let known: Vec<String> = known.map(|node| node.metadata.name.to_string()).collect();
    Err(PreviewError::NoNode {
        name: name.to_owned(),
        known: known.join(", "),
    })
}

async fn evict_all(client: Client, clock: Clock, draining: Arc<Mutex<Draining>>) {
    let node = draining.lock().node.clone();
    let mut asked: BTreeMap<Key, MicroTime> = BTreeMap::new();
    loop {
        // A server in this process answers; what it does not answer is asked for again.
        let pods = pods_on(&client, &node).await.unwrap_or_default();
        let mut left = 0;
        for (pod, loses_data) in &pods {
            if !note(&draining, pod, *loses_data) {
                continue;
            }
            left += 1;
            let key = pod.key();
            let now = clock.now();
            let is_due = asked
                .get(&key)
                .is_none_or(|last| now.since(*last) >= ASKS_EVERY);
            if pod.metadata.is_terminating() || !is_due {
                continue;
            }
            asked.insert(key.clone(), now);
            let refused = evict(&client, pod).await;
            let mut draining = draining.lock();
            let leaving = draining.pods.entry(key).or_default();
            match refused {
                None => leaving.evicted = leaving.evicted.or(Some(clock.now())),
                Some(why) if leaving.refused.is_none() => leaving.refused = Some((now, why)),
                Some(_) => {}
            }
        }
        if left == 0 {
            draining.lock().done = Some(clock.now());
            return;
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// Notes a pod; says whether it has to leave.
fn note(draining: &Mutex<Draining>, pod: &Pod, loses_data: bool) -> bool {
    let owner = pod.metadata.controller();
    let daemon = owner.filter(|owner| owner.kind == "DaemonSet");
    let mut draining = draining.lock();
    let leaving = draining.pods.entry(pod.key()).or_default();
    leaving.is_bare = owner.is_none();
    leaving.loses_data = loses_data;
    leaving.stays_for = daemon.map(|owner| format!("daemonset/{}", owner.name));
    daemon.is_none()
}

/// The pods of a node that have not ended, and whether each has volumes that go with it.
async fn pods_on(client: &Client, node: &str) -> Option<Vec<(Pod, bool)>> {
    let options = ListOptions {
        field_selector: Some(format!("spec.nodeName={node}")),
        ..ListOptions::default()
    };
    let page = client.list(&Pod::TYPE, "", &options).await.ok()?;
    let pods = page.items.iter().filter_map(|item| {
        let pod = Pod::decode(item).ok()?;
        let whole: Value = serde_json::from_slice(item).ok()?;
        let volumes = whole["spec"]["volumes"].as_array();
        let is_own = |volume: &Value| volume.get("emptyDir").is_some();
        let loses_data = volumes.is_some_and(|all| all.iter().any(is_own));
        Some((pod, loses_data))
    });
    Some(pods.filter(|(pod, _)| !pod.is_finished()).collect())
}

/// Asks for an eviction; why it was refused, if it was.
async fn evict(client: &Client, pod: &Pod) -> Option<String> {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    });
    let body = eviction.to_string();
    let pods = Pod::TYPE;
    let asked = client.create_subresource(&pods, namespace, name, "eviction", body);
    match tokio::time::timeout(ANSWERS_WITHIN, asked).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) if error.is_not_found() => None,
        Ok(Err(error)) => {
            let causes = error.status().map(|status| &status.causes);
            let cause = causes.and_then(|causes| causes.first());
            Some(match cause {
                Some(cause) => cause.message.to_string(),
                None => client::describe(&error),
            })
        }
        Err(_) => Some("a disruption budget does not allow it".to_owned()),
    }
}
