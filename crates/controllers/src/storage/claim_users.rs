//! Which pods use a claim.

use api::Istr;
use api::kinds::{PersistentVolumeClaim, Pod, Volume};
use runtime::{Index, IndexValue};

/// Pods by the claims that they name, also by those that are created for them.
pub(crate) const BY_CLAIM: Index<Pod> = Index {
    name: "claim",
    values: |pod, found| {
        for volume in pod.volumes() {
            let namespace = pod.metadata.namespace.clone();
            found(IndexValue::In(namespace, volume.claim_name.clone()));
        }
    },
};

/// Where [`BY_CLAIM`] has the pods of this claim.
pub(crate) fn users_of(claim: &PersistentVolumeClaim) -> IndexValue {
    let meta = &claim.metadata;
    IndexValue::In(meta.namespace.clone(), Istr::new(&meta.name))
}

/// Does this volume of the pod stand for this very claim? One that was created for another pod may bear the name that
/// an ephemeral volume asks for.
pub(crate) fn stands_for(pod: &Pod, volume: &Volume, claim: &PersistentVolumeClaim) -> bool {
    let (pod, claim) = (&pod.metadata, &claim.metadata);
    *volume.claim_name == *claim.name
        && pod.namespace == claim.namespace
        && (!volume.is_ephemeral || claim.is_controlled_by(&pod.uid))
}
