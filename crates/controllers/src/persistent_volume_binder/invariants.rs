//! What must hold of claims and volumes. Pure.

use std::sync::Arc;

use api::kinds::{PersistentVolume, PersistentVolumeClaim, Pod};

use crate::storage::claim_users::stands_for;

/// A volume is never given to a second claim: its reference changes from nobody's, from the same claim's, or to
/// nobody's, and to nobody's only if the claim that it named is gone or has another volume.
pub fn safe_reference(
    before: &PersistentVolume,
    after: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> Result<(), String> {
    let name = &before.metadata.name;
    let Some(held) = &before.spec.claim_ref else {
        return Ok(());
    };
    let said = format!("{}/{}", held.namespace, held.name);
    if let Some(new) = &after.spec.claim_ref
        && (new.namespace != held.namespace
            || new.name != held.name
            || !held.uid.is_empty() && !new.uid.is_empty() && new.uid != held.uid)
    {
        return Err(format!(
            "volume {name} of claim {said} was given to another"
        ));
    }
    let is_taken_back = !held.uid.is_empty()
        && after
            .spec
            .claim_ref
            .as_ref()
            .is_none_or(|new| new.uid.is_empty());
    let is_in_use = claim
        .is_some_and(|claim| claim.metadata.uid == held.uid && *claim.spec.volume_name == **name);
    match is_taken_back && is_in_use {
        true => Err(format!(
            "volume {name} was taken from claim {said}, which is bound to it"
        )),
        false => Ok(()),
    }
}

/// Nothing that is retained is deleted, and nothing that a claim or a pod uses.
pub fn safe_deletion(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
    pods: &[Arc<Pod>],
) -> Result<(), String> {
    let name = &volume.metadata.name;
    let Some(held) = &volume.spec.claim_ref else {
        return Err(format!(
            "volume {name} was deleted, which no claim ever had"
        ));
    };
    if volume.spec.reclaim_policy != "Delete" {
        let policy = &volume.spec.reclaim_policy;
        return Err(format!(
            "volume {name} was deleted, and its policy is {policy}"
        ));
    }
    let is_its = |claim: &&PersistentVolumeClaim| {
        claim.metadata.uid == held.uid && *claim.spec.volume_name == **name
    };
    let Some(claim) = claim.filter(is_its) else {
        return Ok(());
    };
    let uses = |pod: &&Arc<Pod>| {
        let mut volumes = pod.volumes().iter();
        volumes.any(|volume| stands_for(pod, volume, claim))
    };
    let by = match pods.iter().find(uses) {
        Some(pod) => format!("pod {}", pod.metadata.key()),
        None => format!("claim {}", claim.metadata.key()),
    };
    Err(format!("volume {name} was deleted while {by} uses it"))
}

/// Phases say what is so.
pub fn converged_volume(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> Result<(), String> {
    if volume.metadata.is_terminating() {
        return Ok(());
    }
    let held = volume.spec.claim_ref.as_ref();
    let held = held.filter(|held| !held.uid.is_empty());
    let claim = claim.filter(|claim| held.is_some_and(|held| held.uid == claim.metadata.uid));
    let expected: &[&str] = match (held, claim) {
        (None, _) => &["Available"],
        (Some(_), None) => &["Released", "Failed"],
        (Some(_), Some(claim)) if *claim.spec.volume_name == *volume.metadata.name => &["Bound"],
        // A mode that does not suit is a user's mistake.
        (Some(_), Some(_)) => return Ok(()),
    };
    let phase = volume.status.phase.as_str();
    match expected.contains(&phase) {
        true => Ok(()),
        false => Err(format!(
            "volume {} should be {}, and its phase is {phase}",
            volume.metadata.name, expected[0]
        )),
    }
}

/// A claim that says that it is bound has a volume that says the same, and no claim waits for a volume that suits it.
pub fn converged_claim(
    claim: &PersistentVolumeClaim,
    volume: Option<&PersistentVolume>,
    suits: Option<&PersistentVolume>,
) -> Result<(), String> {
    let key = claim.metadata.key();
    if claim.metadata.is_terminating() {
        return Ok(());
    }
    match claim.status.phase.as_str() {
        "Bound" => {
            let held = volume.and_then(|volume| volume.spec.claim_ref.as_ref());
            match held.is_some_and(|held| held.uid == claim.metadata.uid) {
                true => Ok(()),
                false => Err(format!("claim {key} is bound, and its volume is not")),
            }
        }
        "Lost" => Ok(()),
        _ => match suits {
            Some(volume) => Err(format!(
                "claim {key} waits though volume {} suits it",
                volume.metadata.name
            )),
            None => Ok(()),
        },
    }
}
