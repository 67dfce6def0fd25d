//! What must hold once nothing changes any more.

use api::Resource;

use super::plan::{Action, Snapshot, plan};
use crate::service_endpoints::not_ours;

/// The Endpoints object says what the pods say, all of it or as much as it may hold.
pub fn converged(snapshot: &Snapshot) -> Result<(), String> {
    let service = &snapshot.service;
    if service.metadata.is_terminating() || not_ours(service).is_some() {
        return Ok(());
    }
    let plan = plan(snapshot);
    let held = snapshot.endpoints.as_ref().map_or(0, |held| held.addresses);
    match plan.action {
        Action::Nothing => Ok(()),
        Action::Create => Err(format!("{} has no Endpoints", service.key())),
        Action::Update => Err(format!(
            "{}: Endpoints have {held} addresses that are not those of its {} pods",
            service.key(),
            snapshot.pods.len()
        )),
    }
}
