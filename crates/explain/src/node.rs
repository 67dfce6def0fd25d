//! Nodes: whether their kubelets post status, what they lack, and what their taints do to pods.

use api::MicroTime;
use api::Resource;
use api::decision::reasons;
use api::kinds::Node;
use serde_json::Value;

use crate::facts::Facts;
use crate::help::Help;
use crate::json::{condition, list, text, time, truth};
use crate::kinds::{Kind, Need};
use crate::time::{human, sentence};
use crate::words::Reason;
use crate::{Draft, Obstacle, State, disruption, storage};

/// Conditions that are bad when they are true, and what they mean.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "is short of memory"),
    ("DiskPressure", "is short of disk"),
    ("PIDPressure", "is short of process numbers"),
    ("NetworkUnavailable", "has no network"),
];

pub(crate) const KIND: Kind = Kind {
    resource: Node::TYPE,
    inputs: &[],
    needs: &[Need::AroundNode],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let node = &facts.object;
    let name = text(node, "/metadata/name");
    draft.wants("to be ready, and to take pods");
    let taints: Vec<String> = list(node, "/spec/taints").iter().map(taint).collect();
    draft.sees(match taints.is_empty() {
        true => "no taints".to_owned(),
        false => format!("taints {}", taints.join(", ")),
    });
    for (kind, what) in PRESSURES {
        if let Some(held) = condition(node, kind).filter(|held| text(held, "/status") == "True") {
            draft.in_the_way(obstacle(facts, held, what.into()));
        }
    }
    let Some(ready) = condition(node, "Ready") else {
        draft.offer(describe(name));
        return draft.conclude(State::Stuck, "kubelet never posted status: it may not run");
    };
    let mut taints = list(node, "/spec/taints").iter();
    let consequence = match taints.any(|taint| text(taint, "/effect") == "NoExecute") {
        true => "; pods that do not tolerate its taints are evicted",
        false => "",
    };
    let lacks_range = lacks_range(facts, node);
    match text(ready, "/status") {
        "True" if truth(node, "/spec/unschedulable") => {
            draft.offer(Some(Help {
                command: format!("kubectl uncordon {name}"),
                why: "lets it take new pods again".to_owned(),
            }));
            draft.conclude(
                State::Settled,
                "is ready, but cordoned: it takes no new pods",
            );
        }
        "True" if lacks_range.is_some() => {
            let why = lacks_range.unwrap_or_default();
            draft.in_the_way(
                Obstacle::of(node, why.clone()).since(time(node, "/metadata/creationTimestamp")),
            );
            let verdict = format!("is ready, but its pods get no addresses: it {why}{consequence}");
            draft.conclude(State::Stuck, verdict);
        }
        "True" => draft.conclude(State::Settled, format!("is ready{consequence}")),
        "False" => {
            let what = is_not_ready(ready);
            draft.in_the_way(obstacle(facts, ready, what.clone()).in_verdict());
            draft.offer(describe(name));
            draft.conclude(State::Stuck, format!("{what}{consequence}"));
        }
        _ => {
            let what = stopped_posting(facts, node).after("kubelet ");
            draft.in_the_way(obstacle(facts, ready, what.clone()).in_verdict());
            draft.offer(start(node));
            draft.offer(describe(name));
            draft.conclude(State::Stuck, format!("{what}{consequence}"));
        }
    }
    disruption::explain_node(facts, draft);
}

/// Why a node has no range for its pods, by what the node-ipam controller last decided, or told the node where another
/// manager runs. Without either it may be that nobody is to give it one.
fn lacks_range(facts: &Facts, node: &Value) -> Option<String> {
    if !text(node, "/spec/podCIDR").is_empty() {
        return None;
    }
    let wait = storage::waits(facts, node).filter(|wait| wait.reason == reasons::EXHAUSTED);
    if let Some(wait) = wait {
        return Some(sentence(&wait, facts.now));
    }
    let told = facts.messages(node, "CIDRNotAvailable");
    let told = told.first()?;
    Some(format!("has no range for its pods: {told}"))
}

/// What is wrong with a node as far as its pods are concerned: `kubelet of node-1 stopped posting status 5m ago …`
pub(crate) fn problem(facts: &Facts, node: &Value) -> Option<Reason> {
    let name = text(node, "/metadata/name");
    let ready = condition(node, "Ready")?;
    match text(ready, "/status") {
        "True" => None,
        "False" => Some(is_not_ready(ready).after(&format!("node {name} "))),
        _ => Some(stopped_posting(facts, node).after(&format!("kubelet of {name} "))),
    }
}

fn is_not_ready(ready: &Value) -> Reason {
    Reason::quoting("is not ready: ", text(ready, "/message"))
}

/// When the kubelet stopped posting status. It reports its status every few minutes, and renews its lease every few
/// seconds: the later of the two counts.
fn stopped_posting(facts: &Facts, node: &Value) -> Reason {
    let name = text(node, "/metadata/name");
    let lease = facts
        .of_kind("Lease")
        .find(|lease| text(lease, "/metadata/name") == name);
    let renewed = lease.and_then(|lease| MicroTime::parse(text(lease, "/spec/renewTime")));
    let reported = condition(node, "Ready").and_then(|ready| time(ready, "/lastHeartbeatTime"));
    let last = reported
        .into_iter()
        .chain(renewed.map(|at| at.time()))
        .max();
    let is_unread = facts.unread.contains("Lease") && renewed.is_none();
    let (stopped, unread) = match is_unread {
        true => ("last posted node status", "; its lease could not be read"),
        false => ("stopped posting status", ""),
    };
    match last {
        None => Reason::from(format!("{stopped}{unread}")),
        Some(at) => {
            let ago = human(facts.now.unix() - at.unix());
            Reason::from(format!("{stopped} {ago} ago")).with_detail(&format!(" ({at}){unread}"))
        }
    }
}

/// The node that a pod is on, as far as it was read.
pub(crate) fn of_pod<'a>(facts: &'a Facts, pod: &Value) -> Option<&'a Value> {
    let name = text(pod, "/spec/nodeName");
    facts
        .all_of_kind("Node")
        .find(|node| text(node, "/metadata/name") == name)
}

/// The names of nodes that have to be read before it is known why their pods are not ready.
pub fn unknown_nodes_of_pods(facts: &Facts) -> impl Iterator<Item = &str> {
    let waits = |pod: &&Value| {
        let ready = condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True");
        let ended = matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
        !ready && !ended && of_pod(facts, pod).is_none()
    };
    let pods = facts.all_of_kind("Pod").filter(waits);
    pods.map(|pod| text(pod, "/spec/nodeName"))
        .filter(|name| !name.is_empty())
}

/// The names of nodes beside the one asked about whose kubelets stopped posting status.
pub fn unreachable_nodes(facts: &Facts) -> impl Iterator<Item = &str> {
    let is_unreachable = |node: &&Value| {
        condition(node, "Ready").is_some_and(|ready| text(ready, "/status") == "Unknown")
    };
    let nodes = facts.of_kind("Node").filter(is_unreachable);
    nodes.map(|node| text(node, "/metadata/name"))
}

fn taint(taint: &Value) -> String {
    let (key, value) = (text(taint, "/key"), text(taint, "/value"));
    let effect = text(taint, "/effect");
    match value.is_empty() {
        true => format!("{key}:{effect}"),
        false => format!("{key}={value}:{effect}"),
    }
}

fn obstacle(facts: &Facts, condition: &Value, why: Reason) -> Obstacle {
    Obstacle::of(&facts.object, why).since(time(condition, "/lastTransitionTime"))
}

/// The annotation of a simulated node whose kubelet `steersman node stop` has stopped.
pub const NODE_STOPPED: &str = "steersman.dev/silent";

/// What brings a simulated node back.
pub(crate) fn start(node: &Value) -> Option<Help> {
    let is_stopped = node["metadata"]["annotations"][NODE_STOPPED] == "true";
    is_stopped.then(|| Help {
        command: format!("steersman node start {}", text(node, "/metadata/name")),
        why: "starts its kubelet, which was stopped".to_owned(),
    })
}

fn describe(name: &str) -> Option<Help> {
    Some(Help {
        command: format!("kubectl describe node {name}"),
        why: "shows what it reported last; if it is gone for good, delete the Node".to_owned(),
    })
}
