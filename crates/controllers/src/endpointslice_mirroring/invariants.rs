//! What must hold once nothing changes any more.

use api::Resource;

use super::plan::{Snapshot, plan};

/// Each address that can be mirrored is an endpoint, and nothing else is.
pub fn converged(snapshot: &Snapshot<'_>) -> Result<(), String> {
    let plan = plan(snapshot);
    let left = (plan.create.len(), plan.update.len(), plan.delete.len());
    match left {
        (0, 0, 0) => Ok(()),
        (create, update, delete) => Err(format!(
            "Endpoints {} are not mirrored: {create} slices to create, {update} to update, {delete} to delete",
            snapshot.endpoints.key()
        )),
    }
}
