//! What becomes of a volume. Pure.

use api::Key;
use api::kinds::{PersistentVolume, PersistentVolumeClaim};

use super::annotations::PROVISIONED_BY;
use super::claim::Event;
use super::matching::has_same_mode;

/// What is done about a volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Its phase is Available or Bound.
    Phase(&'static str),
    /// Its claim is gone: its phase is Released, unless reclaiming has failed, and its policy is carried out.
    Reclaim,
    /// Its claim has yet to be bound to it.
    EnqueueClaim(Key),
    /// Its claim is bound to another volume: it is taken back.
    Unbind,
    /// It cannot be bound to the claim that it names: an event for each side.
    Mismatch { volume: Event, claim: Event },
}

/// `claim` is the very claim that the volume's reference means, if it is still there.
pub fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Action {
    let is_named = volume.spec.claim_ref.as_ref();
    if is_named.is_none_or(|held| held.uid.is_empty()) {
        return Action::Phase("Available");
    }
    let Some(claim) = claim else {
        return Action::Reclaim;
    };
    let name = &volume.metadata.name;
    match claim.spec.volume_name.as_str() {
        "" if !has_same_mode(volume, claim) => {
            let claim_name = &claim.metadata.name;
            let message = format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim_name:?} due to incompatible volumeMode."
            );
            let claim_message = format!(
                "Cannot bind PersistentVolume {name:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
            );
            Action::Mismatch {
                volume: Event::warning("VolumeMismatch", message),
                claim: Event::warning("VolumeMismatch", claim_message),
            }
        }
        "" => Action::EnqueueClaim(claim.metadata.key()),
        bound if *bound == **name => Action::Phase("Bound"),
        _ => {
            // It was made for the claim, which has found another meanwhile: nobody will ever use it.
            let is_spare = volume.metadata.annotation(PROVISIONED_BY).is_some()
                && volume.spec.reclaim_policy == "Delete";
            match is_spare {
                true => Action::Reclaim,
                false => Action::Unbind,
            }
        }
    }
}

/// Is the volume released, as far as its claim is known?
pub fn is_released(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> bool {
    let Some(held) = &volume.spec.claim_ref else {
        return false;
    };
    if held.uid.is_empty() {
        return false;
    }
    claim.is_none_or(|claim| {
        let bound = &claim.spec.volume_name;
        let is_its = claim.metadata.uid == held.uid;
        !is_its || !bound.is_empty() && **bound != *volume.metadata.name
    })
}
