//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::kinds::{PersistentVolumeClaim, Pod};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business, owner_of};

#[derive(Default)]
pub struct EphemeralVolumeOracle;

impl Oracle for EphemeralVolumeOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match change.created::<PersistentVolumeClaim>() {
            // The pod may be gone since; the collector deals with the rest.
            Some(claim) => match owner_of::<Pod>(world, &claim.metadata) {
                Some(pod) => safe(&claim, &pod),
                None if claim.metadata.controller().is_none() => {
                    no_business(DESCRIPTOR.name, change)
                }
                None => Ok(()),
            },
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let pods = world.store::<Pod>().list();
        pods.iter()
            .try_for_each(|pod| converged(pod, |name| claim_of(world, pod, name)))
    }
}

fn claim_of(world: &World, pod: &Pod, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
    let claims = world.store::<PersistentVolumeClaim>();
    claims.find(&pod.metadata.namespace, name)
}

/// A claim is created for an ephemeral volume of the pod that it belongs to, and bears its name.
pub fn safe(claim: &PersistentVolumeClaim, pod: &Pod) -> Result<(), String> {
    let mut volumes = pod.volumes().iter().filter(|volume| volume.is_ephemeral);
    match volumes.any(|volume| *volume.claim_name == *claim.metadata.name) {
        true => Ok(()),
        false => Err(format!(
            "claim {} was created for pod {}, which has no such volume",
            claim.metadata.key(),
            pod.metadata.name
        )),
    }
}

/// No pod lacks a claim that it could have.
pub fn converged(
    pod: &Pod,
    claim_named: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
) -> Result<(), String> {
    if pod.metadata.is_terminating() {
        return Ok(());
    }
    for volume in pod.volumes().iter().filter(|volume| volume.is_ephemeral) {
        let name = format!("{}-{}", pod.metadata.name, volume.name);
        match claim_named(&name) {
            None => return Err(format!("pod {} lacks its claim {name}", pod.metadata.key())),
            // UPSTREAM: behind somebody else's claim nothing is looked at any more.
            Some(held) if !held.metadata.is_controlled_by(&pod.metadata.uid) => return Ok(()),
            Some(_) => {}
        }
    }
    Ok(())
}
