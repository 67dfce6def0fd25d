//! StatefulSets and DaemonSets.

use serde_json::Value;

use crate::facts::Facts;
use crate::json::{number, text};
use crate::replicas::{conclude_by_pods, note_paused_writes, note_pods, note_refusal, wanted};
use crate::words::pods;
use crate::{State, Telling, disruption, help};

pub(crate) fn tell(facts: &Facts, told: &mut Telling<'_>) {
    let set = &facts.object;
    let numbers = match facts.kind() {
        "StatefulSet" => stateful(set),
        _ => daemon(set),
    };
    told.wants(numbers.wants(set));
    if let Some(line) = strategy(set) {
        told.wants(line);
    }
    told.sees(format!(
        "{}, {} updated, {} ready, {} available",
        pods(numbers.current),
        numbers.updated,
        numbers.ready,
        numbers.available
    ));
    note_paused_writes(facts, set, told);
    disruption::tell(facts, set, told);
    let blocked = help_by_decision(facts, told);
    let refused = note_refusal(facts, set, told);
    let stuck = note_pods(facts, set, told) || blocked;
    let on_delete = text(set, "/spec/updateStrategy/type") == "OnDelete";
    let complete = numbers.available >= numbers.wanted && numbers.current == numbers.wanted;
    if refused {
        told.conclude(State::Stuck, "the API server refuses to create its pods");
    } else if complete && numbers.updated >= numbers.to_update {
        told.conclude(
            State::Settled,
            format!(
                "is complete: {} pods are available, {} updated",
                numbers.available, numbers.updated
            ),
        );
    } else if complete && on_delete {
        told.conclude(
            State::Stuck,
            format!(
                "{} pods wait to be deleted by somebody before they are updated (OnDelete)",
                numbers.wanted - numbers.updated
            ),
        );
    } else {
        conclude_by_pods(told, stuck, numbers.available, numbers.wanted);
    }
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
            true => format!("a pod of {images} on each of {} nodes", self.wanted),
            false => format!("{} of {images}", pods(self.wanted)),
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
        return Some("old pods to stay until somebody deletes them (OnDelete)".to_owned());
    }
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
    (partition > 0)
        .then(|| format!("pods below ordinal {partition} to stay as they are (partition)"))
}

/// Some waits can be ended by one command, and the decision names the pod. Says whether nothing else ends them.
fn help_by_decision(facts: &Facts, told: &mut Telling<'_>) -> bool {
    let mut blocked = false;
    let waits = told.explanation.waits.clone();
    for line in &waits {
        if let Some((_, rest)) = line.split_once(": delete ")
            && let Some(pod) = rest.split(' ').next()
        {
            blocked = true;
            let command = format!("delete pod {pod}");
            told.offer(help::on(
                facts,
                &command,
                "lets the rollout go on with the wanted revision",
            ));
        }
        if line.contains("(OnDelete)") {
            let command = "get pods -L controller-revision-hash";
            let why = "shows which pods are old; delete them when it suits you";
            told.offer(help::on(facts, command, why));
        }
    }
    blocked
}
