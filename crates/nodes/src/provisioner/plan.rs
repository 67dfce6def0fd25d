//! What becomes of a claim, and of a volume: pure.

use std::sync::Arc;

use api::{LabelSelector, Quantity, Resource};

use crate::scheduler::SELECTED_NODE;
use crate::storage::{BindingMode, PersistentVolume, PersistentVolumeClaim, StorageClass};

/// What should happen to a claim.
#[derive(Debug, PartialEq)]
pub(super) enum ClaimPlan {
    Nothing,
    /// It names no class, but there is a default one now.
    AdoptClass(String),
    /// Take this volume, on both sides.
    Bind(Arc<PersistentVolume>),
    /// Make a volume, reachable from the node if one is given.
    Provision {
        node: Option<String>,
    },
    /// Its volume is gone.
    Lose,
    /// Say why nothing happens.
    Explain(&'static str, &'static str),
}

/// What should happen to a volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum VolumePlan {
    Nothing,
    Delete,
    SetPhase(&'static str),
}

/// Everything that a claim's fate depends on.
pub(super) struct Surroundings<'a> {
    pub(super) class: Option<&'a StorageClass>,
    pub(super) default_class: Option<&'a str>,
    /// All volumes, in any order.
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    /// Can the volume be reached from the node?
    pub(super) reaches: &'a dyn Fn(&PersistentVolume, &str) -> bool,
}

/// The provisioner of classes whose volumes people make by hand.
const BY_HAND: &str = "kubernetes.io/no-provisioner";

pub(super) fn plan_claim(claim: &PersistentVolumeClaim, around: &Surroundings<'_>) -> ClaimPlan {
    if claim.metadata.is_terminating() {
        return ClaimPlan::Nothing;
    }
    if !claim.spec.volume_name.is_empty() {
        return plan_named(claim, around);
    }
    let Some(class_name) = &claim.spec.storage_class_name else {
        return match around.default_class {
            Some(name) => ClaimPlan::AdoptClass(name.to_owned()),
            None => take_or(claim, "", None, around, NO_CLASS),
        };
    };
    let node = claim.metadata.annotation(SELECTED_NODE);
    let Some(class) = around.class else {
        return take_or(claim, class_name, node, around, NO_CLASS);
    };
    let waits = class.volume_binding_mode == BindingMode::WaitForFirstConsumer;
    if waits && node.is_none() {
        return WAITING;
    }
    let otherwise = match class.provisioner == BY_HAND {
        true => NO_CLASS,
        false => ClaimPlan::Provision {
            node: node.map(str::to_owned),
        },
    };
    take_or(claim, class_name, node, around, otherwise)
}

const NO_CLASS: ClaimPlan = ClaimPlan::Explain(
    "FailedBinding",
    "no persistent volumes available for this claim and no storage class is set",
);
const WAITING: ClaimPlan = ClaimPlan::Explain(
    "WaitForFirstConsumer",
    "waiting for first consumer to be created before binding",
);

/// A claim that says which volume it wants, or has.
fn plan_named(claim: &PersistentVolumeClaim, around: &Surroundings<'_>) -> ClaimPlan {
    let volume = around
        .volumes
        .iter()
        .find(|one| *one.metadata.name == *claim.spec.volume_name);
    match volume {
        Some(volume) if !is_free_for(volume, claim) => ClaimPlan::Nothing,
        Some(volume)
            if !claim.is_bound()
                || !is_taken_by(volume, claim)
                || volume.status.phase != "Bound" =>
        {
            ClaimPlan::Bind(volume.clone())
        }
        Some(_) => ClaimPlan::Nothing,
        None if claim.status.phase == "Bound" => ClaimPlan::Lose,
        None => ClaimPlan::Nothing,
    }
}

/// The smallest volume that is there already and suits, or else `otherwise`.
fn take_or(
    claim: &PersistentVolumeClaim,
    class: &str,
    node: Option<&str>,
    around: &Surroundings<'_>,
    otherwise: ClaimPlan,
) -> ClaimPlan {
    let suits = |volume: &&Arc<PersistentVolume>| {
        suits(claim, class, volume) && node.is_none_or(|node| (around.reaches)(volume, node))
    };
    let size = |volume: &Arc<PersistentVolume>| volume.spec.capacity.get("storage").cloned();
    let best = around.volumes.iter().filter(suits).min_by(|one, two| {
        // A volume that was made for this claim comes before all others.
        let foreign = |volume: &PersistentVolume| !is_taken_by(volume, claim);
        (foreign(one), size(one), one.key()).cmp(&(foreign(two), size(two), two.key()))
    });
    match best {
        Some(volume) => ClaimPlan::Bind(volume.clone()),
        None => otherwise,
    }
}

fn suits(claim: &PersistentVolumeClaim, class: &str, volume: &PersistentVolume) -> bool {
    let spec = &volume.spec;
    let nothing = Quantity::default();
    let wanted = claim.requested().unwrap_or(&nothing);
    let labels_match =
        LabelSelector::compile_optional(claim.spec.selector.as_ref()).is_ok_and(|selector| {
            claim.spec.selector.is_none() || selector.matches(&volume.metadata.labels)
        });
    let mode = |mode: &str| if mode.is_empty() { "Filesystem" } else { mode }.to_owned();
    !volume.metadata.is_terminating()
        && spec.storage_class_name == *class
        && is_free_for(volume, claim)
        && spec.capacity.get("storage").unwrap_or(&nothing) >= wanted
        && claim
            .spec
            .access_modes
            .iter()
            .all(|one| spec.access_modes.contains(one))
        && mode(&claim.spec.volume_mode) == mode(&spec.volume_mode)
        && labels_match
}

/// Free, or kept for this very claim.
fn is_free_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.spec.claim_ref.as_ref().is_none_or(|held| {
        let meta = &claim.metadata;
        held.namespace == meta.namespace
            && *held.name == *meta.name
            && (held.uid.is_empty() || held.uid == meta.uid)
    })
}

fn is_taken_by(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let held = volume.spec.claim_ref.as_ref();
    held.is_some_and(|held| held.uid == claim.metadata.uid)
}

/// `claim` is the claim that the volume's reference names, if there is one of that name.
pub(super) fn plan_volume(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> VolumePlan {
    let phase = volume.status.phase.as_str();
    if volume.metadata.is_terminating() {
        return VolumePlan::Nothing;
    }
    let Some(held) = &volume.spec.claim_ref else {
        return to_phase(phase, "Available");
    };
    if held.uid.is_empty() {
        // Reserved by hand for a claim that is still to come.
        return to_phase(phase, "Available");
    }
    if claim.is_some_and(|claim| claim.metadata.uid == held.uid) {
        return VolumePlan::Nothing;
    }
    // A volume that is bound is protected: it is released before it is deleted.
    match (
        phase,
        volume.spec.persistent_volume_reclaim_policy == "Delete",
    ) {
        ("Released", true) => VolumePlan::Delete,
        _ => to_phase(phase, "Released"),
    }
}

fn to_phase(held: &str, wanted: &'static str) -> VolumePlan {
    match held == wanted {
        true => VolumePlan::Nothing,
        false => VolumePlan::SetPhase(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claim(spec: Value, annotations: Value, phase: &str) -> PersistentVolumeClaim {
        let mut spec = spec;
        spec["resources"] = json!({"requests": {"storage": "5Gi"}});
        let json = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "u1", "annotations": annotations},
            "spec": spec, "status": {"phase": phase},
        });
        PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap()
    }

    fn volume(name: &str, size: &str, class: &str, claim_ref: Value) -> Arc<PersistentVolume> {
        let json = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": size}, "storageClassName": class, "claimRef": claim_ref,
                "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
            },
        });
        Arc::new(PersistentVolume::decode(json.to_string().as_bytes()).unwrap())
    }

    fn class(mode: &str, provisioner: &str) -> StorageClass {
        let json = json!({"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode});
        StorageClass::decode(json.to_string().as_bytes()).unwrap()
    }

    fn check(
        claim: &PersistentVolumeClaim,
        class: Option<&StorageClass>,
        volumes: &[Arc<PersistentVolume>],
    ) -> String {
        let around = Surroundings {
            class,
            default_class: Some("standard"),
            volumes,
            reaches: &|_, _| true,
        };
        match plan_claim(claim, &around) {
            ClaimPlan::Bind(volume) => format!("bind {}", volume.metadata.name),
            ClaimPlan::Explain(reason, _) => reason.to_owned(),
            ClaimPlan::Provision { node } => format!("provision {}", node.unwrap_or_default()),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn claims_get_the_smallest_volume_that_suits_or_a_new_one() {
        let fast = json!({"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]});
        let immediate = class("Immediate", "any.example.com");
        let wanted = claim(fast.clone(), json!({}), "Pending");
        let volumes = [
            volume("large", "100Gi", "fast", json!(null)),
            volume("small", "1Gi", "fast", json!(null)),
            volume("right", "5Gi", "fast", json!(null)),
            volume("other", "5Gi", "slow", json!(null)),
            volume(
                "taken",
                "5Gi",
                "fast",
                json!({"namespace": "x", "name": "y", "uid": "z"}),
            ),
        ];
        assert_eq!(check(&wanted, Some(&immediate), &volumes), "bind right");
        assert_eq!(
            check(&wanted, Some(&immediate), &volumes[1..2]),
            "provision "
        );
        let made_for = volume(
            "made",
            "9Gi",
            "fast",
            json!({"namespace": "shop", "name": "data", "uid": "u1"}),
        );
        assert_eq!(
            check(&wanted, Some(&immediate), &[volumes[2].clone(), made_for]),
            "bind made"
        );
        let by_hand = class("Immediate", BY_HAND);
        assert_eq!(check(&wanted, Some(&by_hand), &[]), "FailedBinding");
        assert_eq!(check(&wanted, None, &[]), "FailedBinding");
    }

    #[test]
    fn a_class_that_waits_does_so_until_a_node_is_selected() {
        let waits = class("WaitForFirstConsumer", "any.example.com");
        let fast = json!({"storageClassName": "fast"});
        let unselected = claim(fast.clone(), json!({}), "Pending");
        assert_eq!(
            check(&unselected, Some(&waits), &[]),
            "WaitForFirstConsumer"
        );
        let selected = claim(fast, json!({SELECTED_NODE: "node-1"}), "Pending");
        assert_eq!(check(&selected, Some(&waits), &[]), "provision node-1");
    }

    #[test]
    fn claims_without_a_class_adopt_the_default_one() {
        let bare = claim(json!({}), json!({}), "Pending");
        assert_eq!(check(&bare, None, &[]), r#"AdoptClass("standard")"#);
    }

    #[test]
    fn a_bound_claim_whose_volume_is_gone_is_lost() {
        let bound = claim(json!({"volumeName": "v"}), json!({}), "Bound");
        assert_eq!(check(&bound, None, &[]), "Lose");
        let half = volume(
            "v",
            "5Gi",
            "",
            json!({"namespace": "shop", "name": "data", "uid": "u1"}),
        );
        assert_eq!(check(&bound, None, &[half]), "bind v");
        let foreign = volume(
            "v",
            "5Gi",
            "",
            json!({"namespace": "shop", "name": "other", "uid": "u2"}),
        );
        assert_eq!(check(&bound, None, &[foreign]), "Nothing");
    }

    #[test]
    fn volumes_follow_their_claims() {
        let owner = claim(json!({}), json!({}), "Bound");
        let reference = json!({"namespace": "shop", "name": "data", "uid": "u1"});
        let held = volume("v", "5Gi", "", reference.clone());
        assert_eq!(plan_volume(&held, Some(&owner)), VolumePlan::Nothing);
        assert_eq!(plan_volume(&held, None), VolumePlan::SetPhase("Released"));
        let mut released = (*held).clone();
        released.status.phase = "Released".into();
        assert_eq!(plan_volume(&released, None), VolumePlan::Delete);
        let mut kept = (*held).clone();
        kept.spec.persistent_volume_reclaim_policy = "Retain".into();
        assert_eq!(plan_volume(&kept, None), VolumePlan::SetPhase("Released"));
        let free = volume("v", "5Gi", "", json!(null));
        assert_eq!(plan_volume(&free, None), VolumePlan::SetPhase("Available"));
    }
}
