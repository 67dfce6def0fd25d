//! What the simulator holds the controller to.

use std::sync::Arc;

use api::Istr;
use api::kinds::{CsiDriver, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};

use super::DESCRIPTOR;
use super::invariants::{
    converged_attachment, converged_list, converged_pod, safe_attach, safe_detach,
};
use super::names::{attachment_name, csi_parts};
use crate::oracle::{Change, Oracle, Sight, Verdict, World, no_business};
use crate::storage::claim_users::stands_for;

#[derive(Default)]
pub struct AttachDetachOracle;

impl Oracle for AttachDetachOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        if let Some(attachment) = change.created::<VolumeAttachment>() {
            return check_attach(world, &attachment);
        }
        if let Some(attachment) = change.ending::<VolumeAttachment>() {
            return check_detach(world, &attachment);
        }
        if let Some((before, after)) = change.updated::<Node>() {
            let mut expected = (*before).clone();
            expected.status.volumes_attached = after.status.volumes_attached.clone();
            expected.metadata.resource_version = after.metadata.resource_version;
            return match expected == *after {
                true => Ok(()),
                false => Err(format!(
                    "more than the list of node {} was changed",
                    after.metadata.name
                )),
            };
        }
        match change.gone::<VolumeAttachment>().is_some() {
            true => Ok(()),
            false => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for pod in world.store::<Pod>().list() {
            let node = world.store::<Node>().find("", &pod.node_name);
            let node = node.filter(|node| node.is_attach_managed());
            let Some(node) = node.filter(|_| !pod.has_left_volumes()) else {
                continue;
            };
            for object in volumes_of(world, &pod) {
                check_pod(world, &pod, &node, &object)?;
            }
        }
        for attachment in world.store::<VolumeAttachment>().list() {
            let Some(volume) = volume_of(world, &attachment) else {
                continue;
            };
            let node = world.store::<Node>().find("", &attachment.spec.node_name);
            let is_needed = user_of(world, &attachment).is_some();
            converged_attachment(&attachment, &volume, node.as_deref(), is_needed)?;
        }
        let attachments = world.store::<VolumeAttachment>().list();
        for node in world.store::<Node>().list() {
            let on_node = attachments
                .iter()
                .filter(|held| *held.spec.node_name == *node.metadata.name && held.is_attached());
            let attached: Vec<Istr> = on_node.filter_map(|held| volume_of(world, held)).collect();
            converged_list(&node, &attached)?;
        }
        Ok(())
    }
}

fn check_attach(world: &World, attachment: &VolumeAttachment) -> Verdict {
    let Some(object) = object_of(world, attachment) else {
        return Ok(());
    };
    let mut others = attachments_of(world, &object);
    others.retain(|other| other.metadata.name != attachment.metadata.name);
    let sight = world.sight(&others);
    world.check("attach: one node", sight, || {
        safe_attach(attachment, &object, &others)
    })
}

fn check_detach(world: &World, attachment: &VolumeAttachment) -> Verdict {
    let Some(volume) = volume_of(world, attachment) else {
        return Ok(());
    };
    let node = world.store::<Node>().find("", &attachment.spec.node_name);
    let user = user_of(world, attachment);
    let nodes: Vec<Arc<Node>> = node.iter().cloned().collect();
    let pods: Vec<Arc<Pod>> = user.iter().cloned().collect();
    let is_behind = world.may_lag::<PersistentVolumeClaim>() || world.may_lag::<PersistentVolume>();
    let sight = world
        .sight(&nodes)
        .max(world.sight(&pods))
        .max(Sight::unless(is_behind));
    let now = world.latest_now();
    world.check("detach: not in use", sight, || {
        safe_detach(attachment, &volume, node.as_deref(), user.as_deref(), now)
    })
}

fn check_pod(world: &World, pod: &Pod, node: &Node, object: &PersistentVolume) -> Verdict {
    let Some(volume) = object.unique_name() else {
        return Ok(());
    };
    let Some((driver, handle)) = csi_parts(&volume) else {
        return Ok(());
    };
    let held = world.store::<CsiDriver>().find("", driver);
    if held.is_some_and(|held| held.spec.attach_required == Some(false)) {
        return Ok(());
    }
    let name = attachment_name(driver, handle, &node.metadata.name);
    let attachment = world.store::<VolumeAttachment>().find("", &name);
    let is_held_elsewhere = !object.spec.is_shared() && !attachments_of(world, object).is_empty();
    converged_pod(pod, &volume, node, attachment.as_deref(), is_held_elsewhere)
}

fn object_of(world: &World, attachment: &VolumeAttachment) -> Option<Arc<PersistentVolume>> {
    let name = attachment.spec.source.persistent_volume_name.as_ref()?;
    world.store::<PersistentVolume>().find("", name)
}

fn volume_of(world: &World, attachment: &VolumeAttachment) -> Option<Istr> {
    object_of(world, attachment)?.unique_name()
}

fn attachments_of(world: &World, object: &PersistentVolume) -> Vec<Arc<VolumeAttachment>> {
    let mut all = world.store::<VolumeAttachment>().list();
    all.retain(|held| {
        let name = held.spec.source.persistent_volume_name.as_deref();
        name == Some(&*object.metadata.name)
    });
    all
}

/// The volumes that a pod needs through claims that are bound to them.
fn volumes_of(world: &World, pod: &Pod) -> Vec<Arc<PersistentVolume>> {
    let claims = world.store::<PersistentVolumeClaim>();
    let found = pod.volumes().iter().filter_map(|volume| {
        let claim = claims.find(&pod.metadata.namespace, &volume.claim_name)?;
        let object = world
            .store::<PersistentVolume>()
            .find("", &claim.spec.volume_name)?;
        let held = object.spec.claim_ref.as_ref()?;
        let is_bound = claim.status.phase == "Bound"
            && held.uid == claim.metadata.uid
            && stands_for(pod, volume, &claim);
        is_bound.then_some(object)
    });
    found.collect()
}

/// A pod that needs what is attached, on the node that it is attached to.
fn user_of(world: &World, attachment: &VolumeAttachment) -> Option<Arc<Pod>> {
    let object = object_of(world, attachment)?;
    let volume = object.unique_name()?;
    let driver = csi_parts(&volume).map(|(driver, _)| driver)?;
    let held = world.store::<CsiDriver>().find("", driver);
    if held.is_some_and(|held| held.spec.attach_required == Some(false)) {
        return None;
    }
    let pods = world.store::<Pod>().list();
    let is_user = |pod: &Arc<Pod>| {
        pod.node_name == attachment.spec.node_name
            && !pod.has_left_volumes()
            && volumes_of(world, pod)
                .iter()
                .any(|needed| needed.metadata.name == object.metadata.name)
    };
    pods.into_iter().find(is_user)
}
