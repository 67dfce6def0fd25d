//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::kinds::{POD_GROUP_PROTECTION, Pod, PodGroup};
use api::{Meta, Resource};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

const UNUSED: &str = "pod groups lose their protection when no pod of theirs is active";

#[derive(Default)]
pub struct PodGroupProtectionOracle;

impl Oracle for PodGroupProtectionOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let Some(before) = change.before::<PodGroup>() else {
            return no_business(DESCRIPTOR.name, change);
        };
        let after = change.after::<PodGroup>();
        if after.is_some_and(|after| after.metadata.has_finalizer(POD_GROUP_PROTECTION)) {
            return Ok(());
        }
        // UPSTREAM: only caches are asked.
        let pods = world.store::<Pod>().list();
        world.check(UNUSED, world.sight(&pods), || {
            safe(&before, user(world, &before.metadata).as_deref())
        })
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let groups = world.store::<PodGroup>().list();
        groups.iter().try_for_each(|group| {
            let is_used = user(world, &group.metadata).is_some();
            converged(group, is_used)
        })
    }

    fn may_stay(&self, world: &World, plural: &str, meta: &Meta) -> bool {
        plural == PodGroup::TYPE.plural && user(world, meta).is_some()
    }
}

fn user(world: &World, group: &Meta) -> Option<Arc<Pod>> {
    let pods = world.store::<Pod>().in_namespace(&group.namespace);
    let now = world.now().time();
    pods.into_iter().find(|pod| {
        let is_member = pod.pod_group().is_some_and(|name| **name == *group.name);
        is_member && !pod.is_finished() && world.was_seen(&pod.metadata, now)
    })
}

/// No group loses its protection that an active pod names: `before` has lost it.
pub fn safe(before: &PodGroup, user: Option<&Pod>) -> Verdict {
    let key = before.metadata.key();
    match user {
        _ if !before.metadata.is_terminating() => {
            Err(format!("pod group {key} lost its protection for no reason"))
        }
        Some(pod) => Err(format!(
            "pod group {key} lost its protection while pod {} is active",
            pod.metadata.name
        )),
        None => Ok(()),
    }
}

/// No group is kept from being deleted without an active pod.
pub fn converged(group: &PodGroup, is_used: bool) -> Verdict {
    let meta = &group.metadata;
    let is_held = meta.is_terminating() && meta.has_finalizer(POD_GROUP_PROTECTION);
    match is_held && !is_used {
        true => Err(format!(
            "pod group {} is kept and none of its pods is active",
            meta.key()
        )),
        false => Ok(()),
    }
}
