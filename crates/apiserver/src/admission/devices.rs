//! Devices that others use as well are for namespaces that say so.

use serde_json::Value;

use super::{Context, Operation, Request, namespaces};
use crate::fields::{entry, list};
use crate::status::{Cause, Status};

const LABEL: &str = "resource.kubernetes.io/admin-access";

/// UPSTREAM: part of the strategies of claims and their templates, whose specs cannot change later.
pub(super) fn check_admin_access(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
) -> Result<(), Status> {
    let requests = if request.is("resource.k8s.io", "ResourceClaim") {
        "spec.devices.requests"
    } else if request.is("resource.k8s.io", "ResourceClaimTemplate") {
        "spec.spec.devices.requests"
    } else {
        return Ok(());
    };
    if request.operation != Operation::Create {
        return Ok(());
    }
    let mut requests = list(object, requests).iter();
    let Some(at) = requests.position(|request| request["exactly"]["adminAccess"] == true) else {
        return Ok(());
    };
    let namespace = context.cluster.get(namespaces(), "", request.namespace);
    let label = namespace.as_deref();
    if label.and_then(|found| entry(found, "metadata.labels", LABEL)) == Some("true") {
        return Ok(());
    }
    let cause = Cause::new(
        format!("spec.devices.requests[{at}].adminAccess"),
        "FieldValueForbidden",
        format!(
            "Forbidden: admin access to devices requires the `{LABEL}: true` label on the containing namespace"
        ),
    );
    let kind = request.kind;
    Err(Status::invalid(
        &kind.group,
        &kind.kind,
        request.name,
        vec![cause],
    ))
}
