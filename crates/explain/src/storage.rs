//! Claims and volumes: what they are bound to, and who uses them.

use api::Resource;
use api::decision::controllers::PERSISTENT_VOLUME_BINDER_EVENTS;
use api::decision::{Class, Line, reasons};
use api::kinds::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{list, text, time};
use crate::kinds::{Kind, Need};
use crate::time::{human, reason, sentence};
use crate::words::Reason;
use crate::{Draft, Obstacle, State, help};

/// How many users are named.
const USERS_MAX: usize = 5;

pub(crate) const CLAIM: Kind = Kind {
    resource: PersistentVolumeClaim::TYPE,
    inputs: &[],
    needs: &[Need::All(Pod::TYPE), Need::AttributesClass],
    explain: explain_claim,
    tells_deletion: false,
};

pub(crate) const VOLUME: Kind = Kind {
    resource: PersistentVolume::TYPE,
    inputs: &[],
    needs: &[Need::ClaimOfVolume],
    explain: explain_volume,
    tells_deletion: false,
};

pub(crate) fn explain_claim(facts: &Facts, draft: &mut Draft<'_>) {
    let claim = &facts.object;
    let size = text(claim, "/spec/resources/requests/storage");
    let class = match text(claim, "/spec/storageClassName") {
        "" => "of no class".to_owned(),
        class => format!("of class {class}"),
    };
    let modes = modes(claim);
    draft.wants(format!("a volume {class} with {size}{modes}"));
    let phase = text(claim, "/status/phase");
    match text(claim, "/spec/volumeName") {
        "" => draft.sees(format!("phase {phase}, no volume")),
        volume => draft.sees(format!("phase {phase}, volume {volume}")),
    }
    let users: Vec<String> = users(facts, claim)
        .map(|pod| text(pod, "/metadata/name").to_owned())
        .collect();
    if !users.is_empty() {
        draft.sees(format!("used by {}", names(&users)));
    }
    let missing = missing_attributes_class(facts, claim);
    if let Some(class) = missing {
        draft.sees(format!("VolumeAttributesClass {class} does not exist"));
        let hint = format!("create the VolumeAttributesClass {class}, or name another one");
        draft.offer(help::hint(hint));
    }
    match phase {
        "Bound" => conclude_bound(claim, missing, draft),
        "Lost" => draft.conclude(
            State::Stuck,
            "has lost its volume: what was on it is gone, and the claim gets no other",
        ),
        _ => conclude_pending(facts, missing, draft),
    }
}

fn conclude_bound(claim: &Value, missing: Option<&str>, draft: &mut Draft<'_>) {
    let bound = format!("is bound to {}", text(claim, "/spec/volumeName"));
    match missing {
        Some(class) => draft.conclude(
            State::Stuck,
            format!("{bound}, which cannot get the attributes of {class}: there is no such VolumeAttributesClass"),
        ),
        None => draft.conclude(State::Settled, bound),
    }
}

/// The attributes class that the claim asks for and its volume does not have, if there is none of that name; none where
/// classes could not be read.
fn missing_attributes_class<'a>(facts: &Facts, claim: &'a Value) -> Option<&'a str> {
    let class = text(claim, "/spec/volumeAttributesClassName");
    let is_needless = class.is_empty()
        || class == text(claim, "/status/currentVolumeAttributesClassName")
        || facts.unread.contains("VolumeAttributesClass");
    let mut known = facts.of_kind("VolumeAttributesClass");
    (!is_needless && !known.any(|known| text(known, "/metadata/name") == class)).then_some(class)
}

/// What the provisioner said last, if it could not make the volume. The binder has events of that reason, too: of
/// classes that do not exist.
fn provisioning_failure(facts: &Facts) -> Option<&str> {
    let failures = facts.events_of(&facts.object, "ProvisioningFailed");
    let by_binder = |event: &&Value| {
        let by = [
            text(event, "/source/component"),
            text(event, "/reportingComponent"),
        ];
        by.contains(&PERSISTENT_VOLUME_BINDER_EVENTS)
    };
    let failure = failures.into_iter().find(|event| !by_binder(event))?;
    Some(text(failure, "/message"))
}

/// A provisioner that has not made a volume by now is worth a look.
const PROVISIONER_PATIENCE_SECONDS: i64 = 60;

/// What a claim that is not bound waits for, by what the binder last decided.
fn conclude_pending(facts: &Facts, missing: Option<&str>, draft: &mut Draft<'_>) {
    let no_class = |class: &str| format!("VolumeAttributesClass {class} does not exist");
    let Some(wait) = waits(facts, &facts.object) else {
        return match missing.map(no_class) {
            Some(why) => draft.conclude(State::Stuck, format!("is not bound: {why}")),
            None => draft.conclude(
                State::Unknown,
                "is not bound, and no binder of this manager says why",
            ),
        };
    };
    let created = time(&facts.object, "/metadata/creationTimestamp");
    let age = created.map_or(0, |created| facts.now.unix() - created.unix());
    match &*wait.reason {
        reasons::WAITS_FOR_PROVISIONER if let Some(why) = missing.map(no_class) => {
            draft.conclude(State::Stuck, format!("{}: {why}", wait.what));
        }
        reasons::WAITS_FOR_PROVISIONER if let Some(why) = provisioning_failure(facts) => {
            let command = format!("describe {}", draft.explanation.object);
            let why_help = "shows what its provisioner says, which tries again";
            draft.offer(help::on(facts, &command, why_help));
            draft.conclude(State::Stuck, format!("{}: {why}", wait.what));
        }
        reasons::WAITS_FOR_PROVISIONER if age > PROVISIONER_PATIENCE_SECONDS => draft.conclude(
            State::Stuck,
            format!("{}, for {} now", wait.what, human(age)),
        ),
        reasons::WAITS_FOR_PROVISIONER => {
            draft.conclude(State::Progressing, sentence(&wait, facts.now));
        }
        reason if FOR_CONSUMER.contains(&reason) => {
            draft.conclude(State::Progressing, sentence(&wait, facts.now));
        }
        _ => draft.conclude(State::Stuck, sentence(&wait, facts.now)),
    }
}

/// What a claim of a class with `WaitForFirstConsumer` waits for, in decisions and in events alike.
const FOR_CONSUMER: [&str; 2] = ["WaitForFirstConsumer", "WaitForPodScheduled"];

/// Is a claim bound as soon as a pod that uses it has a node? By what the binder last decided, or by what it told the
/// claim where another manager runs.
pub(crate) fn waits_for_consumer(facts: &Facts, claim: &Value) -> bool {
    if text(claim, "/status/phase") == "Bound" {
        return false;
    }
    match waits(facts, claim) {
        Some(wait) => FOR_CONSUMER.contains(&&*wait.reason),
        None => FOR_CONSUMER
            .iter()
            .any(|reason| !facts.messages(claim, reason).is_empty()),
    }
}

/// What the last decision about an object waits for.
pub(crate) fn waits(facts: &Facts, object: &Value) -> Option<Line> {
    let decided = facts.decisions_about(object);
    let lines = decided
        .iter()
        .filter_map(|decided| decided.decisions.last());
    let mut lines = lines.flat_map(|decision| decision.lines.iter());
    lines.find(|line| line.class == Class::Waits).cloned()
}

/// Why a volume of the pod is not attached to its node, and whether time alone will help: by what the attach-detach
/// controller last decided, or by what it told the pod where another manager runs.
pub(crate) fn unattached(facts: &Facts, pod: &Value) -> Option<Unattached> {
    let decided = facts.decisions_about(pod);
    let last = decided
        .iter()
        .filter_map(|decided| decided.decisions.last());
    let mut lines = last.flat_map(|decision| decision.lines.iter());
    let found = lines.find(|line| ATTACHING.contains(&&*line.reason));
    if let Some(line) = found {
        if line.reason == reasons::ATTACHED {
            return None;
        }
        let is_passing = match &*line.reason {
            reasons::MULTI_ATTACH => line.until.is_some(),
            reasons::ATTACHES | reasons::WAITS_FOR_ATTACH | reasons::WAITS_FOR_DETACH => true,
            _ => false,
        };
        return Some(Unattached {
            why: reason(line, facts.now),
            passing: is_passing,
            is_timed: line.until.is_some(),
        });
    }
    let events = facts.messages(pod, "FailedAttachVolume");
    let is_attached = !facts.messages(pod, "SuccessfulAttachVolume").is_empty();
    let message = events.first().filter(|_| !is_attached)?;
    Some(Unattached {
        why: Reason::quoting("", message),
        passing: false,
        is_timed: false,
    })
}

/// The pod that is being deleted on another node and has a claim of this one.
pub(crate) fn holder<'a>(facts: &'a Facts, pod: &Value) -> Option<&'a Value> {
    let node = text(pod, "/spec/nodeName");
    let volumes = list(pod, "/spec/volumes").iter();
    let claims: Vec<&str> = volumes
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
        .collect();
    let uses_one = |other: &&Value| {
        let mut volumes = list(other, "/spec/volumes").iter();
        volumes.any(|volume| claims.contains(&text(volume, "/persistentVolumeClaim/claimName")))
    };
    facts.of_kind("Pod").filter(uses_one).find(|other| {
        let its_node = text(other, "/spec/nodeName");
        !text(other, "/metadata/deletionTimestamp").is_empty()
            && !its_node.is_empty()
            && its_node != node
    })
}

/// A volume that keeps a pod from starting.
pub(crate) struct Unattached {
    pub why: Reason,
    /// It resolves by itself.
    pub passing: bool,
    /// The sentence says until when.
    pub is_timed: bool,
}

/// The reasons of what the attach-detach controller decides about a pod.
const ATTACHING: [&str; 7] = [
    reasons::ATTACHED,
    reasons::ATTACHES,
    reasons::ATTACH_FAILS,
    reasons::WAITS_FOR_ATTACH,
    reasons::WAITS_FOR_DETACH,
    reasons::MULTI_ATTACH,
    reasons::NOT_ATTACHED,
];

pub(crate) fn explain_volume(facts: &Facts, draft: &mut Draft<'_>) {
    let volume = &facts.object;
    let size = text(volume, "/spec/capacity/storage");
    draft.wants(format!("to give {size}{} to a claim", modes(volume)));
    let policy = text(volume, "/spec/persistentVolumeReclaimPolicy");
    let phase = text(volume, "/status/phase");
    let claim = match text(volume, "/spec/claimRef/name") {
        "" => "no claim".to_owned(),
        name => format!("claim {}/{name}", text(volume, "/spec/claimRef/namespace")),
    };
    draft.sees(format!("phase {phase}, {claim}, reclaim policy {policy}"));
    match phase {
        "Bound" => draft.conclude(State::Settled, format!("is bound to {claim}")),
        "Available" if claim != "no claim" => {
            draft.conclude(
                State::Settled,
                format!("waits for {claim}, which it is kept for"),
            );
        }
        "Available" => draft.conclude(State::Settled, "waits for a claim that it suits"),
        "Released" if policy == "Retain" => draft.conclude(
            State::Settled,
            "its claim is gone; it is retained with what is on it until a user deletes it",
        ),
        "Released" if policy == "Delete" => conclude_deletion(facts, draft),
        "Failed" => draft.conclude(
            State::Stuck,
            format!(
                "could not be reclaimed: {}",
                text(volume, "/status/message")
            ),
        ),
        _ => {}
    }
}

/// A volume that is to be deleted: its driver does so, or, of the kinds that the binder deletes, the binder at once.
fn conclude_deletion(facts: &Facts, draft: &mut Draft<'_>) {
    let volume = &facts.object;
    let annotations = volume.pointer("/metadata/annotations");
    let annotation = |name: &str| {
        let held = annotations.and_then(|held| held.get(name));
        held.and_then(Value::as_str).filter(|held| !held.is_empty())
    };
    // Those that the binder deletes itself have names of this kind.
    let is_driver = |name: &&str| !name.starts_with("kubernetes.io/");
    let driver = annotation("pv.kubernetes.io/migrated-to")
        .or_else(|| annotation("pv.kubernetes.io/provisioned-by").filter(is_driver));
    let released = time(volume, "/status/lastPhaseTransitionTime");
    let age = released.map_or(0, |released| facts.now.unix() - released.unix());
    match driver {
        Some(driver) => {
            let verdict = format!("its claim is gone; waits until {driver} has deleted it");
            draft.offer(help::hint(format!("see whether {driver} runs")));
            match age > PROVISIONER_PATIENCE_SECONDS {
                true => draft.conclude(State::Stuck, format!("{verdict}, for {} now", human(age))),
                false => draft.conclude(State::Progressing, verdict),
            }
        }
        // Drivers delete only what they have provisioned, and that is how they know.
        None if volume.pointer("/spec/csi").is_some() => {
            draft.conclude(
                State::Stuck,
                "its claim is gone; no driver deletes it: it was not provisioned by one",
            );
            let command = format!("delete persistentvolume/{}", text(volume, "/metadata/name"));
            let why = "deletes the object, and nothing of what is stored";
            draft.offer(help::on(facts, &command, why));
        }
        None => draft.conclude(State::Progressing, "its claim is gone; it is being deleted"),
    }
}

/// What keeps a claim or a volume from being deleted: who uses it.
pub(crate) fn note_users(facts: &Facts, draft: &mut Draft<'_>) {
    let object = &facts.object;
    match facts.kind() {
        "PersistentVolumeClaim" => {
            for pod in users(facts, object) {
                let node = text(pod, "/spec/nodeName");
                if node.is_empty() {
                    continue;
                }
                let command = format!("delete pod {}", text(pod, "/metadata/name"));
                let why = "allows the claim to be deleted, if the pod is not needed any more";
                draft.offer(help::on(facts, &command, why));
                draft.in_the_way(used_by(pod, format!("uses it on node {node}")));
            }
        }
        "PersistentVolume" => {
            let uid = text(object, "/spec/claimRef/uid");
            let mut claims = facts.of_kind("PersistentVolumeClaim");
            if let Some(claim) = claims.find(|claim| text(claim, "/metadata/uid") == uid) {
                draft.in_the_way(used_by(claim, "is bound to it".to_owned()));
            }
        }
        _ => {}
    }
}

fn used_by(user: &Value, why: String) -> Obstacle {
    Obstacle::of(user, why)
}

/// The pods that name a claim, also as one that was created for them.
fn users<'a>(facts: &'a Facts, claim: &'a Value) -> impl Iterator<Item = &'a Value> {
    let name = text(claim, "/metadata/name");
    facts.of_kind("Pod").filter(move |pod| {
        let pod_name = text(pod, "/metadata/name");
        list(pod, "/spec/volumes").iter().any(|volume| {
            let for_pod = || format!("{pod_name}-{}", text(volume, "/name"));
            text(volume, "/persistentVolumeClaim/claimName") == name
                || volume.get("ephemeral").is_some() && for_pod() == name
        })
    })
}

fn modes(object: &Value) -> String {
    let modes = list(object, "/spec/accessModes");
    let modes: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    match modes.is_empty() {
        true => String::new(),
        false => format!(", {}", modes.join(" and ")),
    }
}

fn names(all: &[String]) -> String {
    let named = all.iter().take(USERS_MAX).map(|name| format!("pod/{name}"));
    let named: Vec<String> = named.collect();
    match all.len().saturating_sub(USERS_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
