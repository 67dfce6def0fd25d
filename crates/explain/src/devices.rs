//! Claims for devices: who reserves them, and why they are not allocated; pods that wait for devices, or whose device is
//! tainted.

use api::Resource;
use api::decision::{counted, reasons};
use api::kinds::{DeviceClass, Pod, ResourceClaim};
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{list, number, text, time, truth};
use crate::kinds::{Kind, Need};
use crate::time::{reason, sentence};
use crate::words::Reason;
use crate::{Draft, Help, Obstacle, State, storage};

/// How many devices, or who uses them, are named.
const NAMED_MAX: usize = 5;

pub(crate) const CLAIM: Kind = Kind {
    resource: ResourceClaim::TYPE,
    inputs: &[],
    needs: &[Need::All(Pod::TYPE), Need::All(DeviceClass::TYPE)],
    explain: explain_claim,
    tells_deletion: false,
};

pub(crate) fn explain_claim(facts: &Facts, draft: &mut Draft<'_>) {
    let claim = &facts.object;
    for request in list(claim, "/spec/devices/requests") {
        draft.wants(wants(request));
    }
    let consumers = list(claim, "/status/reservedFor");
    match devices(claim) {
        held if held.is_empty() => draft.sees("no devices are allocated"),
        held => draft.sees(format!("devices {}", some(&held))),
    }
    let users: Vec<String> = consumers.iter().map(consumer).collect();
    draft.sees(match users.is_empty() {
        true => "not reserved".to_owned(),
        false => format!("reserved for {}", some(&users)),
    });
    if claim.pointer("/status/allocation").is_some() {
        let verdict = match users.len() {
            0 => "is allocated and not used".to_owned(),
            _ => format!("is allocated and reserved for {}", some(&users)),
        };
        return draft.conclude(State::Settled, verdict);
    }
    conclude_unallocated(facts, draft);
}

/// Devices are chosen with the node of a pod: a claim that no pod uses waits for one.
fn conclude_unallocated(facts: &Facts, draft: &mut Draft<'_>) {
    let claim = &facts.object;
    let waiting: Vec<&Value> = facts
        .of_kind("Pod")
        .filter(|pod| names_claim(pod, text(claim, "/metadata/name")))
        .filter(|pod| text(pod, "/spec/nodeName").is_empty())
        .collect();
    let Some(first) = waiting.first() else {
        let verdict = match facts.unread.contains("Pod") {
            true => "is not allocated; whether a pod waits for it could not be read",
            false => {
                "is not allocated: devices are chosen when a pod that uses it is scheduled, and none waits"
            }
        };
        let state = match facts.unread.contains("Pod") {
            true => State::Unknown,
            false => State::Settled,
        };
        return draft.conclude(state, verdict);
    };
    for pod in &waiting {
        draft.in_the_way(
            Obstacle::of(
                pod,
                Reason::quoting("waits for it: ", &scheduler_says(facts, pod)),
            )
            .since(time(pod, "/metadata/creationTimestamp")),
        );
    }
    let pod = facts.name_of(first);
    if let Some(class) = missing_class(facts, claim) {
        draft.offer(Some(Help {
            command: "kubectl get deviceclasses".to_owned(),
            why: "shows the classes that there are".to_owned(),
        }));
        let verdict = format!("is not allocated: device class {class} does not exist");
        return draft.conclude(State::Stuck, verdict);
    }
    let verdict = format!(
        "is not allocated: {pod} cannot be scheduled: {}",
        scheduler_says(facts, first)
    );
    draft.offer(Some(Help {
        command: "kubectl get resourceslices".to_owned(),
        why: "shows which devices there are, and where".to_owned(),
    }));
    draft.conclude(State::Stuck, verdict);
}

fn scheduler_says(facts: &Facts, pod: &Value) -> String {
    let held = crate::json::condition(pod, "PodScheduled");
    let message = held.map_or("", |held| text(held, "/message"));
    let events = facts.messages(pod, "FailedScheduling");
    match (message, events.first()) {
        ("", Some(event)) => (*event).to_owned(),
        ("", None) => "the scheduler has not tried it yet".to_owned(),
        (message, _) => message.to_owned(),
    }
}

/// `2 devices of class gpu`, `all devices of class gpu`, `the first that can be had of …`
fn wants(request: &Value) -> String {
    let name = text(request, "/name");
    let of = |choice: &Value| {
        let class = text(choice, "/deviceClassName");
        let selectors = match list(choice, "/selectors").len() {
            0 => String::new(),
            count => format!(" (selected by {})", counted(count, "expression")),
        };
        let access = match truth(choice, "/adminAccess") {
            true => ", with admin access beside their users",
            false => "",
        };
        let count = number(choice, "/count").max(1);
        match text(choice, "/allocationMode") {
            "All" => format!("all devices of class {class}{selectors}{access}"),
            _ => format!(
                "{} of class {class}{selectors}{access}",
                counted(count, "device")
            ),
        }
    };
    match request.get("exactly") {
        Some(exactly) => format!("{} ({name})", of(exactly)),
        None => {
            let choices: Vec<String> = list(request, "/firstAvailable").iter().map(of).collect();
            format!(
                "the first that can be had of {} ({name})",
                choices.join("; ")
            )
        }
    }
}

/// `gpu.example.com/node-1/gpu-0`
fn devices(claim: &Value) -> Vec<String> {
    let results = list(claim, "/status/allocation/devices/results").iter();
    results.map(device_name).collect()
}

fn device_name(result: &Value) -> String {
    let part = |path| text(result, path);
    format!("{}/{}/{}", part("/driver"), part("/pool"), part("/device"))
}

fn consumer(consumer: &Value) -> String {
    let kind = text(consumer, "/resource").trim_end_matches('s');
    format!("{kind}/{}", text(consumer, "/name"))
}

fn some(names: &[String]) -> String {
    match names.len().checked_sub(NAMED_MAX) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMED_MAX].join(", ")),
    }
}

/// Does the pod name the claim, or was it created for the pod from a template?
fn names_claim(pod: &Value, claim: &str) -> bool {
    claims_of(pod).any(|name| name == claim)
}

/// The claims of a pod that have names.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let named = list(pod, "/spec/resourceClaims").iter();
    let generated = list(pod, "/status/resourceClaimStatuses").iter();
    named
        .chain(generated)
        .map(|entry| text(entry, "/resourceClaimName"))
        .filter(|name| !name.is_empty())
}

/// A class that the claim names and that is not there; none where classes could not be read.
fn missing_class<'a>(facts: &Facts, claim: &'a Value) -> Option<&'a str> {
    if facts.unread.contains("DeviceClass") {
        return None;
    }
    let requests = list(claim, "/spec/devices/requests").iter();
    let choices = requests.flat_map(|request| {
        let exactly = request.get("exactly").into_iter();
        exactly.chain(list(request, "/firstAvailable"))
    });
    let mut classes = choices.map(|choice| text(choice, "/deviceClassName"));
    let is_there = |class: &str| {
        let mut known = facts.of_kind("DeviceClass");
        known.any(|known| text(known, "/metadata/name") == class)
    };
    classes.find(|class| !class.is_empty() && !is_there(class))
}

/// What a pod waits for that has no node and asks for devices.
pub(crate) enum Unclaimed {
    /// A claim that is not there.
    NoClaim(Reason),
    /// A claim that has no devices.
    NoDevices(Reason),
}

/// Why a pod that has no node waits for devices; none where it does not.
pub(crate) fn unclaimed(facts: &Facts, pod: &Value) -> Option<Unclaimed> {
    if list(pod, "/spec/resourceClaims").is_empty() {
        return None;
    }
    if let Some(wait) = storage::waits(facts, pod)
        && [
            reasons::NO_CLAIM,
            reasons::CLAIM_REFUSED,
            reasons::TOO_MANY_CONSUMERS,
        ]
        .contains(&&*wait.reason)
    {
        let told = reason(&wait, facts.now);
        return Some(Unclaimed::NoClaim(told.after("for devices it ")));
    }
    if facts.unread.contains("ResourceClaim") {
        return None;
    }
    let claims: Vec<&Value> = facts.of_kind("ResourceClaim").collect();
    let is_its = |claim: &&Value, name: &str| text(claim, "/metadata/name") == name;
    for entry in list(pod, "/spec/resourceClaims") {
        let named = text(entry, "/resourceClaimName");
        if !named.is_empty() && !claims.iter().any(|claim| is_its(claim, named)) {
            let why = format!("its resource claim {named} does not exist");
            return Some(Unclaimed::NoClaim(why.into()));
        }
    }
    let unallocated = claims_of(pod).find_map(|name| {
        let claim = claims.iter().copied().find(|claim| is_its(claim, name))?;
        let has_devices = claim.pointer("/status/allocation").is_some();
        (!has_devices).then_some((name, claim))
    });
    let (name, claim) = unallocated?;
    Some(Unclaimed::NoDevices(
        match missing_class(facts, claim) {
            Some(class) => {
                format!(
                    "its resource claim {name} names device class {class}, which does not exist"
                )
            }
            None => format!("its resource claim {name} has no devices yet"),
        }
        .into(),
    ))
}

/// Devices of the pod that have a taint which drives pods away, by what their slices and rules say: and what happens to it.
pub(crate) fn tainted(facts: &Facts, pod: &Value) -> Option<String> {
    let decided = facts.decisions_about(pod);
    let last = decided
        .iter()
        .filter_map(|decided| decided.decisions.last());
    let mut lines = last.flat_map(|decision| decision.lines.iter());
    let found =
        lines.find(|line| [reasons::EVICTED_LATER, reasons::EVICTED].contains(&&*line.reason))?;
    let told = sentence(found, facts.now);
    Some(match text(pod, "/metadata/deletionTimestamp") {
        "" => format!("its device is tainted: it {told}"),
        _ => format!("its device is tainted: {told}"),
    })
}
