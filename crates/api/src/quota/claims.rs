//! Claims: their number and size, in all and by storage class.

use super::one;
use crate::amounts::Amounts;
use crate::kinds::PersistentVolumeClaim;
use crate::quantity::Quantity;

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn tracks(resource: &str) -> bool {
    let plain = resource.split_once(BY_CLASS).map(|(_, plain)| plain);
    [CLAIMS, STORAGE].contains(&plain.unwrap_or(resource))
}

pub(super) fn usage(claim: &PersistentVolumeClaim, counts_allocated: bool) -> Amounts {
    let size = size(claim, counts_allocated);
    let mut usage = Amounts::from([(CLAIMS.into(), one())]);
    let class = claim.metadata.annotation(BETA_CLASS);
    let class = class.or(claim.spec.storage_class_name.as_deref());
    if let Some(class) = class.filter(|class| !class.is_empty()) {
        usage.insert(format!("{class}{BY_CLASS}{CLAIMS}").into(), one());
        usage.insert(format!("{class}{BY_CLASS}{STORAGE}").into(), size.clone());
    }
    usage.insert(STORAGE.into(), size);
    usage
}

/// What was asked for, or what an expansion has got as far as, in whole bytes.
fn size(claim: &PersistentVolumeClaim, counts_allocated: bool) -> Quantity {
    let mut size = claim.spec.storage.clone();
    if let Some(allocated) = &claim.status.allocated_storage
        && counts_allocated
        && *allocated > size
        && !size.is_zero()
    {
        size = allocated.clone();
    }
    size.round_up(0);
    size
}
