//! Nodes: whether they speak, what they lack, and what their taints do to pods.

use serde_json::Value;

use crate::facts::Facts;
use crate::help::Help;
use crate::json::{condition, list, text, time, truth};
use crate::time::human;
use crate::{Obstacle, State, Telling};

/// Conditions that are bad when they are true, and what they mean.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "is short of memory"),
    ("DiskPressure", "is short of disk"),
    ("PIDPressure", "is short of process numbers"),
    ("NetworkUnavailable", "has no network"),
];

pub(crate) fn tell(facts: &Facts, told: &mut Telling<'_>) {
    let node = &facts.object;
    let name = text(node, "/metadata/name");
    told.wants("to be ready, and to take pods");
    let taints: Vec<String> = list(node, "/spec/taints").iter().map(taint).collect();
    told.sees(match taints.is_empty() {
        true => "no taints".to_owned(),
        false => format!("taints {}", taints.join(", ")),
    });
    for (kind, what) in PRESSURES {
        if let Some(held) = condition(node, kind).filter(|held| text(held, "/status") == "True") {
            told.in_the_way(obstacle(facts, held, what.to_owned()));
        }
    }
    let Some(ready) = condition(node, "Ready") else {
        told.offer(look(name));
        return told.conclude(State::Stuck, "has never reported: its kubelet may not run");
    };
    let drives = list(node, "/spec/taints").iter();
    let drives = drives.filter(|taint| text(taint, "/effect") == "NoExecute");
    let consequence = match drives.count() {
        0 => "",
        _ => "; pods that do not tolerate its taints are driven away",
    };
    match text(ready, "/status") {
        "True" if truth(node, "/spec/unschedulable") => {
            told.offer(Some(Help {
                command: format!("kubectl uncordon {name}"),
                why: "lets it take new pods again".to_owned(),
            }));
            told.conclude(
                State::Settled,
                "is ready, but takes no new pods: somebody has cordoned it",
            );
        }
        "True" => told.conclude(State::Settled, format!("is ready{consequence}")),
        "False" => {
            let message = text(ready, "/message");
            told.in_the_way(obstacle(facts, ready, format!("is not ready: {message}")));
            told.offer(look(name));
            told.conclude(
                State::Stuck,
                format!("is not ready: {message}{consequence}"),
            );
        }
        _ => {
            let heard = time(ready, "/lastHeartbeatTime");
            let since = heard.map_or(String::new(), |at| {
                let ago = human(facts.now.unix() - at.unix());
                format!(" since {at} ({ago} ago)")
            });
            told.in_the_way(obstacle(
                facts,
                ready,
                format!("its kubelet has said nothing{since}"),
            ));
            told.offer(look(name));
            told.conclude(
                State::Stuck,
                format!("is silent: its kubelet has said nothing{since}{consequence}"),
            );
        }
    }
}

fn taint(taint: &Value) -> String {
    let (key, value) = (text(taint, "/key"), text(taint, "/value"));
    let effect = text(taint, "/effect");
    match value.is_empty() {
        true => format!("{key}:{effect}"),
        false => format!("{key}={value}:{effect}"),
    }
}

fn obstacle(facts: &Facts, condition: &Value, why: String) -> Obstacle {
    Obstacle {
        object: facts.name_of(&facts.object),
        more: 0,
        why,
        since: time(condition, "/lastTransitionTime"),
        passing: false,
    }
}

fn look(name: &str) -> Option<Help> {
    Some(Help {
        command: format!("kubectl describe node {name}"),
        why: "shows what it said last; if it is gone for good, delete the Node".to_owned(),
    })
}
