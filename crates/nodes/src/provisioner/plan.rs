//! Which claim gets which volume: pure.

use std::sync::Arc;

use api::Quantity;

use crate::scheduler::SELECTED_NODE;
use crate::storage::{BindingMode, PersistentVolume, PersistentVolumeClaim, StorageClass};

/// What should happen to a claim.
#[derive(Debug, PartialEq)]
pub(super) enum ClaimPlan {
    Nothing,
    /// Make a volume in the name of this driver, reachable from the node if one is given.
    Provision {
        driver: String,
        node: Option<String>,
    },
    /// Its volume grows to this size, and it has that much then.
    Grow {
        volume: Arc<PersistentVolume>,
        size: Quantity,
    },
    /// Its volume gets the attributes of this class.
    Modify {
        volume: Arc<PersistentVolume>,
        target: String,
    },
}

/// Everything that a claim's fate depends on.
pub(super) struct Surroundings<'a> {
    pub(super) class: Option<&'a StorageClass>,
    /// All volumes, in any order.
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    /// Was a volume made for it already?
    pub(super) has_own: bool,
}

/// By which the binder asks for a volume.
const ASKED: &str = "volume.kubernetes.io/storage-provisioner";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

pub(super) fn plan_claim(claim: &PersistentVolumeClaim, around: &Surroundings<'_>) -> ClaimPlan {
    if claim.is_bound() {
        return plan_growth(claim, around);
    }
    let is_named = !claim.spec.volume_name.is_empty();
    if claim.metadata.is_terminating() || is_named || around.has_own {
        return ClaimPlan::Nothing;
    }
    let Some(class) = around.class else {
        return ClaimPlan::Nothing;
    };
    let node = claim.metadata.annotation(SELECTED_NODE);
    let waits = class.volume_binding_mode == BindingMode::WaitForFirstConsumer;
    let asked = claim.metadata.annotation(ASKED);
    let is_for_somebody = !waits || node.is_some();
    match asked.filter(|_| is_for_somebody) {
        Some(driver) => ClaimPlan::Provision {
            driver: driver.to_owned(),
            node: node.map(str::to_owned),
        },
        None => ClaimPlan::Nothing,
    }
}

/// A bound claim that asks for more than it has, or for other attributes, gets it, if a driver made its volume.
fn plan_growth(claim: &PersistentVolumeClaim, around: &Surroundings<'_>) -> ClaimPlan {
    let is_its = |volume: &&Arc<PersistentVolume>| {
        let held = volume.spec.claim_ref.as_ref();
        *volume.metadata.name == *claim.spec.volume_name
            && held.is_some_and(|held| held.uid == claim.metadata.uid)
    };
    let has = claim.status.capacity.get("storage");
    match (around.volumes.iter().find(is_its), claim.requested()) {
        (Some(volume), Some(size)) if is_drivers(volume) && has.is_some_and(|has| has < size) => {
            ClaimPlan::Grow {
                volume: volume.clone(),
                size: size.clone(),
            }
        }
        (Some(volume), _) if is_drivers(volume) => match claim.new_attributes() {
            Some(target) => ClaimPlan::Modify {
                volume: volume.clone(),
                target: target.to_string(),
            },
            None => ClaimPlan::Nothing,
        },
        _ => ClaimPlan::Nothing,
    }
}

/// Was the volume made by a driver, and is it released and to be deleted?
pub(super) fn is_to_be_deleted(volume: &PersistentVolume) -> bool {
    is_drivers(volume)
        && volume.status.phase == "Released"
        && volume.spec.persistent_volume_reclaim_policy == "Delete"
        && !volume.metadata.is_terminating()
}

fn is_drivers(volume: &PersistentVolume) -> bool {
    let made_by = volume.metadata.annotation(PROVISIONED_BY);
    made_by.is_some_and(|name| !name.starts_with("kubernetes.io/"))
        || volume.metadata.annotation(MIGRATED_TO).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Resource;
    use serde_json::{Value, json};

    fn claim(annotations: Value) -> PersistentVolumeClaim {
        let json = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "u1", "annotations": annotations},
            "spec": {
                "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "5Gi"}},
            },
            "status": {"phase": "Pending"},
        });
        PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap()
    }

    fn volume(name: &str, size: &str, claim_ref: Value) -> Arc<PersistentVolume> {
        let json = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": size}, "storageClassName": "fast", "claimRef": claim_ref,
                "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
            },
            "status": {"phase": "Available"},
        });
        Arc::new(PersistentVolume::decode(json.to_string().as_bytes()).unwrap())
    }

    fn check(mode: &str, annotations: Value, volumes: &[Arc<PersistentVolume>]) -> String {
        let json =
            json!({"metadata": {"name": "fast"}, "provisioner": "p", "volumeBindingMode": mode});
        let class = StorageClass::decode(json.to_string().as_bytes()).unwrap();
        let around = Surroundings {
            class: Some(&class),
            volumes,
            has_own: volumes.iter().any(|one| *one.metadata.name == *"pvc-u1"),
        };
        match plan_claim(&claim(annotations), &around) {
            ClaimPlan::Nothing => String::new(),
            ClaimPlan::Provision { driver, node } => {
                format!("provision {driver} {}", node.unwrap_or_default())
            }
            ClaimPlan::Grow { volume, size } => format!("grow {} {size}", volume.metadata.name),
            ClaimPlan::Modify { volume, target } => {
                format!("modify {} {target}", volume.metadata.name)
            }
        }
    }

    #[test]
    fn a_volume_is_made_for_a_claim_that_asks_for_one() {
        let asked = json!({ASKED: "p"});
        assert_eq!(check("Immediate", json!({}), &[]), "");
        assert_eq!(check("Immediate", asked.clone(), &[]), "provision p ");
        let own = volume("pvc-u1", "5Gi", json!(null));
        assert_eq!(check("Immediate", asked.clone(), &[own]), "");
        assert_eq!(check("WaitForFirstConsumer", asked, &[]), "");
        let both = json!({ASKED: "p", SELECTED_NODE: "n1"});
        assert_eq!(check("WaitForFirstConsumer", both, &[]), "provision p n1");
    }

    #[test]
    fn a_bound_claim_that_asks_for_more_gets_it() {
        let check = |wants: &str, has: &str, by: &str| {
            let json = json!({
                "metadata": {"name": "data", "namespace": "shop", "uid": "u1"},
                "spec": {"volumeName": "v", "resources": {"requests": {"storage": wants}}},
                "status": {"phase": "Bound", "capacity": {"storage": has}},
            });
            let claim = PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap();
            let json = json!({
                "metadata": {"name": "v", "annotations": {PROVISIONED_BY: by}},
                "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "u1"}},
            });
            let volume = PersistentVolume::decode(json.to_string().as_bytes()).unwrap();
            let around = Surroundings {
                class: None,
                volumes: &[Arc::new(volume)],
                has_own: false,
            };
            matches!(plan_claim(&claim, &around), ClaimPlan::Grow { .. })
        };
        assert!(check("2Gi", "1Gi", "p"));
        assert!(!check("1Gi", "1Gi", "p"));
        assert!(!check("2Gi", "1Gi", "kubernetes.io/host-path"));
    }

    #[test]
    fn released_volumes_of_drivers_go() {
        let volume = |by: &str, phase: &str, policy: &str| {
            let mut volume = (*volume("v", "5Gi", json!(null))).clone();
            let json = json!({"metadata": {"name": "v", "annotations": {PROVISIONED_BY: by}}});
            volume.metadata = PersistentVolume::decode(json.to_string().as_bytes())
                .unwrap()
                .metadata;
            volume.status.phase = phase.into();
            volume.spec.persistent_volume_reclaim_policy = policy.into();
            is_to_be_deleted(&volume)
        };
        assert!(volume("p", "Released", "Delete"));
        assert!(!volume("p", "Bound", "Delete"));
        assert!(!volume("p", "Released", "Retain"));
        assert!(!volume("kubernetes.io/host-path", "Released", "Delete"));
    }
}
