//! NamespaceLifecycle and NamespaceExists: nothing is created where there is no namespace, or where one is going away.

use super::{Context, Operation, Plugin, Request, built_in};
use crate::fields::text;
use crate::status::{Cause, Status, Subject};

/// The namespaces that the server itself needs.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

pub(crate) fn check_lifecycle(context: &Context<'_>, request: &Request<'_>) -> Result<(), Status> {
    let plugins = context.settings.plugins;
    let has_lifecycle = plugins.has(Plugin::NamespaceLifecycle);
    if !has_lifecycle && !plugins.has(Plugin::NamespaceExists) {
        return Ok(());
    }
    if request.is("", "Namespace") {
        let forbidden = has_lifecycle
            && request.operation == Operation::Delete
            && IMMORTAL.contains(&request.name);
        return if forbidden {
            Err(request.forbidden("this namespace may not be deleted"))
        } else {
            Ok(())
        };
    }
    let is_review = request.is("authorization.k8s.io", "LocalSubjectAccessReview");
    if request.namespace.is_empty() || request.operation == Operation::Delete || is_review {
        return Ok(());
    }
    let Some(namespace) = context
        .cluster
        .get(built_in("", "Namespace"), "", request.namespace)
    else {
        return Err(Status::not_found(Subject {
            group: "",
            plural: "namespaces",
            name: request.namespace,
        }));
    };
    if !has_lifecycle
        || request.operation != Operation::Create
        || text(&namespace, "status.phase") != "Terminating"
    {
        return Ok(());
    }
    let name = request.namespace;
    let mut status = request.forbidden(&format!(
        "unable to create new content in namespace {name} because it is being terminated"
    ));
    let message = format!("namespace {name} is being terminated");
    status.details.causes.push(Cause::new(
        "metadata.namespace",
        "NamespaceTerminating",
        message,
    ));
    Err(status)
}
