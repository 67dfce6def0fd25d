//! StatefulSets and DaemonSets.

use api::Resource;
use api::decision::{agree, counted, reasons};
use api::kinds::{ControllerRevision, DaemonSet, Node, PersistentVolumeClaim, Pod, StatefulSet};
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{labels, number, text};
use crate::kinds::{Kind, Need};
use crate::replicas::{
    conclude_by_pods, conclude_refused, note_pods, note_refusal, note_unobserved, wanted,
};
use crate::{Draft, State, disruption, help};

pub(crate) const STATEFUL_SET: Kind = Kind {
    resource: StatefulSet::TYPE,
    inputs: &[
        ControllerRevision::TYPE,
        PersistentVolumeClaim::TYPE,
        Pod::TYPE,
    ],
    needs: &[
        Need::Selected(ControllerRevision::TYPE),
        Need::Pods,
        Need::All(PersistentVolumeClaim::TYPE),
        Need::Budgets,
        Need::Owner,
    ],
    explain: |facts, draft| explain(facts, stateful(&facts.object), draft),
    tells_deletion: false,
};

pub(crate) const DAEMON_SET: Kind = Kind {
    resource: DaemonSet::TYPE,
    inputs: &[ControllerRevision::TYPE, Node::TYPE, Pod::TYPE],
    needs: &[
        Need::Selected(ControllerRevision::TYPE),
        Need::Pods,
        Need::All(PersistentVolumeClaim::TYPE),
        Need::Budgets,
        Need::All(Node::TYPE),
        Need::Owner,
    ],
    explain: |facts, draft| explain(facts, daemon(&facts.object), draft),
    tells_deletion: false,
};

fn explain(facts: &Facts, numbers: Numbers, draft: &mut Draft<'_>) {
    let set = &facts.object;
    draft.wants(numbers.wants(set));
    if let Some(line) = strategy(set) {
        draft.wants(line);
    }
    draft.sees(format!(
        "{}, {} updated, {} ready, {} available",
        counted(numbers.current, "pod"),
        numbers.updated,
        numbers.ready,
        numbers.available
    ));
    note_unobserved(facts, set, draft);
    disruption::explain(facts, set, draft);
    let blocked = help_by_decision(facts, draft);
    let refused = note_refusal(facts, set, draft);
    let stuck = note_pods(facts, set, draft) || blocked;
    let on_delete = text(set, "/spec/updateStrategy/type") == "OnDelete";
    let outdated = numbers.wanted - numbers.updated;
    let complete = numbers.available >= numbers.wanted && numbers.current == numbers.wanted;
    if refused {
        conclude_refused(draft);
    } else if let Some(why) = matches_no_node(facts, &numbers) {
        draft.conclude(State::Stuck, why);
        draft.offer(Some(help::Help {
            command: "kubectl get nodes --show-labels".to_owned(),
            why: "shows which labels the nodes have".to_owned(),
        }));
    } else if complete && numbers.updated >= numbers.to_update {
        draft.conclude(
            State::Settled,
            format!(
                "is complete: {} available, {} updated",
                counted(numbers.available, "pod"),
                numbers.updated
            ),
        );
    } else if complete && on_delete {
        draft.conclude(
            State::Stuck,
            format!(
                "leaves {} alone until a user deletes {} (OnDelete)",
                counted(outdated, "outdated pod"),
                agree(outdated, "it", "them")
            ),
        );
    } else {
        conclude_by_pods(draft, stuck, numbers.available, numbers.wanted);
    }
}

/// Why a DaemonSet has no pods at all: no node is one that it is for.
fn matches_no_node(facts: &Facts, numbers: &Numbers) -> Option<String> {
    let set = &facts.object;
    let nodes: Vec<&Value> = facts.of_kind("Node").collect();
    let is_seen = number(set, "/status/observedGeneration") >= number(set, "/metadata/generation");
    if !numbers.daemon || numbers.wanted > 0 || nodes.is_empty() || !is_seen {
        return None;
    }
    let selector = labels(set, "/spec/template/spec/nodeSelector");
    let has = |node: &Value, key: &str, value: &str| {
        labels(node, "/metadata/labels").get(key) == Some(value)
    };
    let all = match nodes.len() {
        1 => "not the only one".to_owned(),
        count => format!("none of the {count}"),
    };
    let nobody_has = selector
        .iter()
        .find(|(key, value)| !nodes.iter().any(|node| has(node, key, value)));
    let is_selected = |node: &&&Value| selector.iter().all(|(key, value)| has(node, key, value));
    Some(
        match (nobody_has, nodes.iter().filter(is_selected).count()) {
            (Some((key, value)), _) => {
                format!("matches no node: its nodeSelector wants {key}={value}, which no node has")
            }
            (None, 0) => {
                format!("matches no node: no node has all labels of its nodeSelector, {selector}")
            }
            (None, _)
                if set
                    .pointer("/spec/template/spec/affinity/nodeAffinity")
                    .is_some() =>
            {
                format!("matches no node: its node affinity and tolerations let it onto {all}")
            }
            (None, _) => format!("matches no node: its tolerations let it onto {all}"),
        },
    )
}

struct Numbers {
    wanted: i64,
    current: i64,
    ready: i64,
    available: i64,
    updated: i64,
    /// How many the strategy lets be updated.
    to_update: i64,
    daemon: bool,
}

impl Numbers {
    fn wants(&self, set: &Value) -> String {
        let images = help::images(set);
        match self.daemon {
            true => format!("a pod of {images} on {}", counted(self.wanted, "node")),
            false => format!("{} of {images}", counted(self.wanted, "pod")),
        }
    }
}

fn stateful(set: &Value) -> Numbers {
    let of = |field: &str| number(set, &format!("/status/{field}"));
    let wanted = wanted(set);
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
    // Without a rollout in progress all pods are of the current revision, which is the update revision.
    let rolled = text(set, "/status/currentRevision") == text(set, "/status/updateRevision");
    Numbers {
        wanted,
        current: of("replicas"),
        ready: of("readyReplicas"),
        available: of("availableReplicas"),
        updated: if rolled {
            of("replicas")
        } else {
            of("updatedReplicas")
        },
        to_update: (wanted - partition).max(0),
        daemon: false,
    }
}

fn daemon(set: &Value) -> Numbers {
    let of = |field: &str| number(set, &format!("/status/{field}"));
    Numbers {
        wanted: of("desiredNumberScheduled"),
        current: of("currentNumberScheduled"),
        ready: of("numberReady"),
        available: of("numberAvailable"),
        updated: of("updatedNumberScheduled"),
        to_update: of("desiredNumberScheduled"),
        daemon: true,
    }
}

fn strategy(set: &Value) -> Option<String> {
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return Some("outdated pods to stay until a user deletes them (OnDelete)".to_owned());
    }
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
    (partition > 0)
        .then(|| format!("pods below ordinal {partition} to stay as they are (partition)"))
}

/// Some waits can be ended by one command, and the decision names the pod. Says whether nothing else ends them.
fn help_by_decision(facts: &Facts, draft: &mut Draft<'_>) -> bool {
    let mut blocked = false;
    for decided in facts.decisions_about(&facts.object) {
        let lines = decided.decisions.last().map(|last| last.lines.clone());
        for line in lines.iter().flat_map(|lines| lines.iter()) {
            match (&*line.reason, &line.object) {
                (reasons::AWAITS_SUPERSEDED, Some(pod)) => {
                    blocked = true;
                    let command = format!("delete pod {}", pod.name);
                    let why = "resumes the rollout with the wanted revision";
                    draft.offer(help::on(facts, &command, why));
                }
                (reasons::ON_DELETE, _) => {
                    let command = "get pods -L controller-revision-hash";
                    let why = "shows which pods are outdated; delete them when it suits you";
                    draft.offer(help::on(facts, command, why));
                }
                _ => {}
            }
        }
    }
    blocked
}
