//! What a step is called: in events for pods, and in decisions.

use std::sync::Arc;

use api::decision::{Line, agree, reasons};
use api::kinds::Pod;
use api::{Istr, MicroTime, Time};

use super::memory::{ATTACH_TIMEOUT, Entry};
use super::names::csi_parts;
use super::plan::{Force, Plan, Snapshot, Step};

/// The reasons of events about pods.
pub const ATTACHED: &str = "SuccessfulAttachVolume";
pub const FAILED: &str = "FailedAttachVolume";

/// What upstream says when an attachment is there.
pub fn attached(name: &str) -> String {
    // UPSTREAM: the blank at the end is where an error would follow.
    format!("AttachVolume.Attach succeeded for volume \"{name}\" ")
}

pub fn failed(name: &str, error: &str) -> String {
    format!("AttachVolume.Attach failed for volume \"{name}\" : {error}")
}

/// What is wrong with an attachment that is waited for, if it is time to say so.
pub fn due_failure(
    snapshot: &Snapshot,
    error: Option<&str>,
    memory: &Entry,
    now: MicroTime,
) -> Option<String> {
    if let Some(error) = error {
        return (now >= memory.told_again_at).then(|| failed(&snapshot.name, error));
    }
    let since = memory.awaited_since?;
    let is_late = now >= since.plus(ATTACH_TIMEOUT);
    is_late.then(|| {
        let (driver, handle) = csi_parts(&snapshot.volume).unwrap_or_default();
        let error = format!(
            "timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"
        );
        failed(&snapshot.name, &error)
    })
}

/// Why a volume that only one node may have cannot be had, in the words for one pod: it must not learn the names of pods
/// of other namespaces.
pub fn multi_attach(snapshot: &Snapshot, by: &[Istr], pod: &Pod) -> String {
    let others = users(snapshot, by);
    let (local, foreign): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) = others
        .into_iter()
        .partition(|other| other.metadata.namespace == pod.metadata.namespace);
    let names: Vec<&str> = local.iter().map(|pod| &*pod.metadata.name).collect();
    let names = names.join(", ");
    let foreign = foreign.len();
    let why = match (local.is_empty(), foreign) {
        (true, 0) => {
            "Volume is already exclusively attached to one node and can't be attached to another"
                .to_owned()
        }
        (true, _) => {
            format!("Volume is already used by {foreign} pod(s) in different namespaces")
        }
        (false, 0) => format!("Volume is already used by pod(s) {names}"),
        (false, _) => format!(
            "Volume is already used by pod(s) {names} and {foreign} pod(s) in different namespaces"
        ),
    };
    format!("Multi-Attach error for volume \"{}\" {why}", snapshot.name)
}

/// Pods that need the volume on any of these nodes.
fn users<'a>(snapshot: &'a Snapshot, nodes: &[Istr]) -> Vec<&'a Arc<Pod>> {
    let places = nodes.iter().filter_map(|node| snapshot.places.get(node));
    places.flat_map(|place| &place.pods).collect()
}

/// The same step for `steersman why`, for the pods that wait and for the volume.
pub fn line(snapshot: &Snapshot, plan: &Plan, node: &Istr, step: &Step) -> Line {
    let name = &snapshot.name;
    match step {
        Step::Keep => Line::states(
            reasons::ATTACHED,
            format!("volume {name} is attached to {node}"),
        ),
        Step::List => Line::acts(reasons::ATTACHES, format!("offers volume {name} to {node}")),
        Step::Attach => Line::acts(
            reasons::ATTACHES,
            format!("attaches volume {name} to {node}"),
        )
        .because("a pod on that node needs it"),
        Step::AwaitAttach { error } => {
            let driver = csi_parts(&snapshot.volume).map_or("", |(driver, _)| driver);
            let what = format!("waits until volume {name} is attached to {node}");
            match error {
                Some(error) => Line::waits(reasons::ATTACH_FAILS, what)
                    .because(format!("driver {driver} says: {error}")),
                None => Line::waits(reasons::WAITS_FOR_ATTACH, what)
                    .because(format!("driver {driver} has not said that it is")),
            }
        }
        Step::AwaitDeletion => Line::waits(
            reasons::WAITS_FOR_DETACH,
            format!("waits until volume {name} is detached from {node}, to attach it again"),
        ),
        Step::Blocked { by } => blocked(snapshot, plan, node, by),
        Step::AwaitUnmount { until: Some(at) } => Line::waits(
            "WaitsForUnmount",
            format!("detaches volume {name} from {node} by force"),
        )
        .because("its kubelet says that it is in use, and the node is not ready")
        .until(at.time()),
        Step::AwaitUnmount { until: None } => Line::waits(
            "WaitsForUnmount",
            format!("keeps volume {name} attached to {node}"),
        )
        .because("its kubelet says that it is in use"),
        Step::Unlist => Line::acts("Detaches", format!("takes volume {name} from {node}"))
            .because("no pod there needs it"),
        Step::Detach { force } => {
            let line = Line::acts("Detaches", format!("detaches volume {name} from {node}"));
            line.because(match force {
                None => "no pod there needs it",
                Some(Force::Timeout) => "it was waited for long enough",
                Some(Force::OutOfService) => "the node is out of service",
            })
        }
        Step::AwaitDetach { error } => {
            let line = Line::waits(
                reasons::WAITS_FOR_DETACH,
                format!("waits until volume {name} is detached from {node}"),
            );
            match error {
                Some(error) => line.because(format!("its driver says: {error}")),
                None => line.because("its driver has not said that it is"),
            }
        }
        Step::Refuse { driver } => Line::states(
            reasons::NOT_ATTACHED,
            format!("volume {name} is not attached to {node}"),
        )
        .because(format!("the FlexVolume driver {driver} is not called")),
    }
}

fn blocked(snapshot: &Snapshot, plan: &Plan, node: &Istr, by: &[Istr]) -> Line {
    let name = &snapshot.name;
    let nodes: Vec<&str> = by.iter().map(Istr::as_str).collect();
    let pods: Vec<String> = users(snapshot, by)
        .iter()
        .map(|pod| pod.metadata.key().to_string())
        .collect();
    let is_attached = format!("only one node may have it, and {} does", nodes.join(", "));
    let why = match pods.is_empty() {
        true => is_attached,
        false => {
            let need = agree(pods.len() as u64, "needs", "need");
            format!("{is_attached}, where {} {need} it", pods.join(", "))
        }
    };
    let at = forced_at(plan, by);
    let how = if at.is_some() { "waits to" } else { "cannot" };
    Line::waits(
        reasons::MULTI_ATTACH,
        format!("{how} attach volume {name} to {node}"),
    )
    .because(why)
    .until(at)
}

/// When the last of these nodes loses the volume by force, if time does that.
fn forced_at(plan: &Plan, nodes: &[Istr]) -> Option<Time> {
    let at = |node: &Istr| match plan.steps.get(node) {
        Some(Step::AwaitUnmount { until }) => until.map(MicroTime::time),
        _ => None,
    };
    let all: Option<Vec<Time>> = nodes.iter().map(at).collect();
    all.and_then(|all| all.into_iter().max())
}

/// What a pod of a volume that is refused is told.
pub fn refused(name: &str, driver: &str) -> String {
    format!(
        "FlexVolume driver {driver} of volume \"{name}\" is not called to attach it: a volume that needs that cannot be \
         mounted"
    )
}
