//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::net::IpAddr;
use std::sync::Arc;

use api::conditions::{self, ConditionStatus};
use api::kinds::{SERVICE_CIDR_FINALIZER, ServiceCidr};

use super::can_go;

/// It is protected and ready; or it is being deleted, and something depends on it.
pub fn converged(
    cidr: &ServiceCidr,
    all: &[Arc<ServiceCidr>],
    allocated: impl Iterator<Item = IpAddr>,
) -> Result<(), String> {
    let name = &cidr.metadata.name;
    let ready = conditions::find(&cidr.status.conditions, "Ready");
    let status = ready.map(|ready| &ready.status);
    let is_held = cidr.metadata.has_finalizer(SERVICE_CIDR_FINALIZER);
    match (cidr.metadata.is_terminating(), status) {
        (false, Some(ConditionStatus::True)) if is_held => Ok(()),
        (false, _) => Err(format!(
            "ServiceCIDR {name} is not ready or has no finalizer"
        )),
        (true, _) if can_go(cidr, all, allocated).is_ok() => {
            Err(format!("ServiceCIDR {name} could go"))
        }
        (true, Some(ConditionStatus::False)) => Ok(()),
        (true, _) => Err(format!("ServiceCIDR {name} does not say why it stays")),
    }
}

/// Nothing of a range changes but finalizers and status, and none goes that an address depends on.
pub fn safe(before: &ServiceCidr, after: &ServiceCidr) -> Result<(), String> {
    let mut expected = before.clone();
    expected.status = after.status.clone();
    expected.metadata.finalizers = after.metadata.finalizers.clone();
    match expected == *after {
        true => Ok(()),
        false => Err(format!(
            "more than finalizers and status of ServiceCIDR {} was changed",
            after.metadata.name
        )),
    }
}
