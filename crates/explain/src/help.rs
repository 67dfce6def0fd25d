//! The one command that would help.

use api::kinds::WorkloadKind;
use serde::Serialize;
use serde_json::Value;

use crate::facts::{Facts, group_of};
use crate::json::{list, text};
use crate::pod::Cause;
use crate::references::{self, Broken};
use crate::refusal::Refusal;
use crate::{finalizers, node, scheduling, storage};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Help {
    /// Empty where a controller knows what to do, but no single command does it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// What it does, or what to look for in what it prints.
    pub why: String,
}

/// What a controller says that a user can do.
pub(crate) fn hint(hint: String) -> Option<Help> {
    (!hint.is_empty()).then(|| Help {
        command: String::new(),
        why: hint,
    })
}

/// A command on an object, with its namespace.
pub(crate) fn on(facts: &Facts, command: &str, why: &str) -> Option<Help> {
    let namespace = match facts.namespace() {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    Some(Help {
        command: format!("kubectl {command}{namespace}"),
        why: why.to_owned(),
    })
}

pub(crate) fn for_pod(facts: &Facts, pod: &Value, cause: &Cause) -> Option<Help> {
    let name = text(pod, "/metadata/name");
    let node_name = text(pod, "/spec/nodeName");
    let log = |container: &str, previous: &str| {
        let command = format!("logs {name} -c {container}{previous}");
        on(facts, &command, "shows what it said before it ended")
    };
    match cause {
        Cause::Terminating
        | Cause::Young
        | Cause::Starting
        | Cause::Unscheduled
        | Cause::Succeeded => None,
        Cause::OtherScheduler => hint(format!(
            "see that {} runs: spec.schedulerName names it, and no other scheduler takes this pod",
            text(pod, "/spec/schedulerName")
        )),
        Cause::Held => finalizer(facts, pod),
        Cause::NodeUnreachable => node::of_pod(facts, pod)
            .and_then(node::start)
            .or_else(|| {
                Some(Help {
                    command: format!("kubectl describe node {node_name}"),
                    why: "shows whether the node is still there; if it is gone for good, delete the Node"
                        .into(),
                })
            }),
        Cause::Gated => on(
            facts,
            &format!("get pod {name} -o jsonpath='{{.spec.schedulingGates}}'"),
            "shows who holds it; its owner has to remove the gate",
        ),
        Cause::Unschedulable => unschedulable(facts, pod),
        // What the controller of claims says helps more than anything else.
        Cause::NoDeviceClaim if !facts.decisions_about(pod).is_empty() => None,
        Cause::NoDeviceClaim => on(
            facts,
            "get resourceclaims,resourceclaimtemplates",
            "shows which claims there are",
        ),
        Cause::NoDevices => Some(Help {
            command: "kubectl get resourceslices".into(),
            why: "shows which devices there are, and where; \"kubectl get deviceclasses\" how they are called".into(),
        }),
        Cause::Claim(claim) => on(
            facts,
            &format!("describe pvc {claim}"),
            "shows why the claim is not bound",
        ),
        Cause::NoClaim(claim) => on(
            facts,
            "get pvc",
            &format!("shows which claims there are; create {claim}, or name another one"),
        ),
        Cause::Image { .. } => fix_image(facts, pod, cause),
        Cause::Mount if storage::holder(facts, pod).is_some() => holds_volume(facts, pod),
        Cause::Configuration | Cause::Mount => missing(facts, pod).or_else(|| describe(facts, name)),
        Cause::Gate | Cause::Failed => describe(facts, name),
        Cause::Exited { container } => log(container, ""),
        Cause::Crash { container } => log(container, " --previous"),
        Cause::Unready => on(
            facts,
            &format!("logs {name} --all-containers"),
            "shows what it is busy with; kubectl describe pod shows the rest",
        ),
        Cause::Probe { container } => on(
            facts,
            &format!("logs {name} -c {container}"),
            "shows why it does not answer",
        ),
    }
}

fn describe(facts: &Facts, pod: &str) -> Option<Help> {
    let why = "shows its events and what it refers to";
    on(facts, &format!("describe pod {pod}"), why)
}

/// What a kubelet that cannot start a container or mount a volume misses.
fn missing(facts: &Facts, pod: &Value) -> Option<Help> {
    let mut references = references::of(pod).into_iter();
    let broken = references.find_map(|reference| Some((reference.broken(facts)?, reference)));
    let Some((broken, reference)) = broken else {
        let is_root = references::may_run_as_root(pod);
        let why = "set securityContext.runAsUser to another user than 0, or take an image that does not run as root";
        return is_root.then(|| hint(why.to_owned())).flatten();
    };
    let name = &reference.name;
    match broken {
        Broken::NoKey(key) => {
            let command = format!("edit {} {name}", reference.kind.to_lowercase());
            let why = format!("add the key {key}; the container starts once it is there");
            on(facts, &command, &why)
        }
        Broken::Absent => {
            let create = match reference.kind {
                "Secret" => "create secret generic",
                _ => "create configmap",
            };
            let command = format!("{create} {name} --from-literal=KEY=VALUE");
            let why = "creates what is missing; the pod starts once it is there";
            on(facts, &command, why)
        }
    }
}

/// What gets a volume away from a pod that is on its way out, on a node that does not say that it has stopped.
fn holds_volume(facts: &Facts, pod: &Value) -> Option<Help> {
    let holder = storage::holder(facts, pod)?;
    node::of_pod(facts, holder).and_then(node::start).or_else(|| {
        let name = text(holder, "/metadata/name");
        on(
            facts,
            &format!("delete pod {name} --force"),
            "removes the pod that uses the volume, which is detached six minutes later; only if its node is gone for good",
        )
    })
}

fn unschedulable(facts: &Facts, pod: &Value) -> Option<Help> {
    let (command, why) = match scheduling::obstacle(facts, pod) {
        Some(scheduling::Obstacle::AntiAffinity) => {
            let why = "shows where they run; add a node, ask for fewer, or prefer to keep away instead of requiring it";
            return on(facts, "get pods -o wide", why);
        }
        Some(scheduling::Obstacle::Room) => (
            "kubectl describe nodes",
            "shows what takes the room; free some, or add a node",
        ),
        Some(scheduling::Obstacle::Taints) => (
            "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints",
            "shows which taint the pod would have to tolerate",
        ),
        Some(scheduling::Obstacle::Labels) => (
            "kubectl get nodes --show-labels",
            "shows which labels the nodes have",
        ),
        None => ("kubectl get nodes -o wide", "shows which nodes there are"),
    };
    Some(Help {
        command: command.into(),
        why: why.into(),
    })
}

/// Images are set where the template is.
fn fix_image(facts: &Facts, pod: &Value, cause: &Cause) -> Option<Help> {
    let Cause::Image { container } = cause else {
        return None;
    };
    let owner = facts.name_of(&facts.object);
    let why = "gives it an image that exists";
    let workload = WorkloadKind::of(group_of(&facts.object), facts.kind());
    match workload.is_some_and(|found| found.rolls_out) {
        true => on(facts, &format!("set image {owner} {container}=IMAGE"), why),
        false => {
            let name = text(pod, "/metadata/name");
            on(
                facts,
                &format!("describe pod {name}"),
                "shows what the registry answered",
            )
        }
    }
}

/// What to do about finalizers that nobody removes.
pub(crate) fn finalizer(facts: &Facts, object: &Value) -> Option<Help> {
    let name = facts.name_of(object);
    if !finalizers::foreign(object) {
        return None;
    }
    let namespace = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    Some(Help {
        command: format!(
            "kubectl patch {name}{namespace} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
        ),
        why: "removes the finalizer; only if its controller is gone for good".into(),
    })
}

/// What to do when the API server refuses to create pods.
pub(crate) fn refused(facts: &Facts, refusal: Option<&Refusal>) -> Option<Help> {
    match refusal {
        Some(Refusal::Quota(refusal)) => {
            let why = match refusal.is_unspecified {
                true => {
                    "shows what each pod has to request; set it in the template, or defaults in a LimitRange"
                }
                false => "shows what is used; raise the quota or ask for less",
            };
            on(facts, &format!("describe quota {}", refusal.quota), why)
        }
        Some(Refusal::NoServiceAccount(_)) => on(
            facts,
            "get serviceaccounts",
            "shows whether the account exists",
        ),
        Some(Refusal::PodSecurity) => Some(Help {
            command: format!("kubectl get ns {} --show-labels", facts.namespace()),
            why: "shows the policy of the namespace; change the pod template, or the policy".into(),
        }),
        None => {
            let name = facts.name_of(&facts.object);
            on(
                facts,
                &format!("describe {name}"),
                "shows all that the API server said",
            )
        }
    }
}

/// Back to what worked, if anything did.
pub(crate) fn undo(facts: &Facts) -> Option<Help> {
    let name = facts.name_of(&facts.object);
    on(
        facts,
        &format!("rollout undo {name}"),
        "goes back to the revision before",
    )
}

/// The containers' images of a template: `nginx:1.27` or `nginx:1.27, proxy:2`.
pub(crate) fn images(object: &Value) -> String {
    list(object, "/spec/template/spec/containers")
        .iter()
        .map(|container| text(container, "/image"))
        .collect::<Vec<_>>()
        .join(", ")
}
