//! What must hold of attachments and lists. Pure.

use std::sync::Arc;

use api::kinds::{Node, PersistentVolume, Pod, VolumeAttachment};
use api::{Istr, MicroTime};

use super::plan::UNMOUNT_MAX;

/// A volume that only one node may have is never attached to a second one.
pub fn safe_attach(
    attachment: &VolumeAttachment,
    object: &PersistentVolume,
    others: &[Arc<VolumeAttachment>],
) -> Result<(), String> {
    let node = &attachment.spec.node_name;
    let other = others.iter().find(|other| other.spec.node_name != *node);
    match other {
        Some(other) if !object.spec.is_shared() => Err(format!(
            "volume {} is attached to {node}, and {} has it already",
            object.metadata.name, other.spec.node_name
        )),
        _ => Ok(()),
    }
}

/// Nothing that a kubelet uses is detached, unless its node is out of service, or not ready and was waited for; nothing
/// that a pod needs is detached at all.
pub fn safe_detach(
    attachment: &VolumeAttachment,
    volume: &Istr,
    node: Option<&Node>,
    needed_by: Option<&Pod>,
    now: MicroTime,
) -> Result<(), String> {
    let name = &attachment.spec.node_name;
    if let Some(pod) = needed_by {
        return Err(format!(
            "volume {volume} was detached from {name}, where pod {} needs it",
            pod.metadata.key()
        ));
    }
    let Some(node) = node.filter(|node| node.uses_volume(volume)) else {
        return Ok(());
    };
    let mut taints = node.spec.taints.iter();
    if taints.any(|taint| taint.key == "node.kubernetes.io/out-of-service") {
        return Ok(());
    }
    let waited = now.since(attachment.metadata.created_at);
    match node.is_ready() || waited < UNMOUNT_MAX {
        true => Err(format!(
            "volume {volume} was detached from {name}, which uses it"
        )),
        false => Ok(()),
    }
}

/// What a pod needs is attached to its node, and its kubelet can know.
pub fn converged_pod(
    pod: &Pod,
    volume: &Istr,
    node: &Node,
    attachment: Option<&VolumeAttachment>,
    is_held_elsewhere: bool,
) -> Result<(), String> {
    let (key, name) = (pod.metadata.key(), &node.metadata.name);
    let problem = match attachment {
        None if is_held_elsewhere => return Ok(()),
        None => "is not asked for",
        Some(held) if held.status.attach_error.is_some() => return Ok(()),
        Some(held) if !held.is_attached() => "is not attached",
        Some(_) if !node.lists_attached(volume) => "is not listed",
        Some(_) => return Ok(()),
    };
    Err(format!(
        "pod {key} needs volume {volume}, which {problem} on {name}"
    ))
}

/// Nothing is attached that no pod needs and no kubelet uses.
pub fn converged_attachment(
    attachment: &VolumeAttachment,
    volume: &Istr,
    node: Option<&Node>,
    is_needed: bool,
) -> Result<(), String> {
    let is_used = node.is_some_and(|node| node.uses_volume(volume));
    match is_needed || is_used || attachment.status.detach_error.is_some() {
        true => Ok(()),
        false => Err(format!(
            "volume {volume} is attached to {}, where no pod uses it",
            attachment.spec.node_name
        )),
    }
}

/// A node lists nothing that is not attached to it.
pub fn converged_list(node: &Node, attached: &[Istr]) -> Result<(), String> {
    let listed = node.status.volumes_attached.iter().map(|held| &held.name);
    let mut of_drivers = listed.filter(|name| super::names::csi_parts(name).is_some());
    match of_drivers.find(|name| !attached.contains(name)) {
        Some(name) => Err(format!(
            "node {} lists volume {name}, which is not attached to it",
            node.metadata.name
        )),
        None => Ok(()),
    }
}
