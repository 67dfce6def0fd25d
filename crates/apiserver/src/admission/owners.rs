//! OwnerReferencesPermissionEnforcement: nobody makes garbage collection do what he may not do himself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Context, Operation, Request};
use crate::fields::{flag, list, text};
use crate::kinds::Subresource;
use crate::status::Status;

const OWNERS: &str = "metadata.ownerReferences";

pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    // UPSTREAM: these cannot change owners whoever writes them, which their strategies see to.
    let is_exempt = request.is("", "Pod")
        && matches!(
            request.subresource,
            Some(Subresource::Status | Subresource::Binding)
        );
    let before = old.map_or(&[][..], |old| list(old, OWNERS));
    let owners = list(new, OWNERS);
    if is_exempt || owners == before {
        return Ok(());
    }
    if request.operation != Operation::Create {
        let decision = ask(context, "delete", about(request));
        if !decision.allowed {
            let why = format!(
                "cannot set an ownerRef on a resource you can't delete: {}, <nil>",
                decision.reason
            );
            return Err(request.forbidden(&why));
        }
    }
    let blocked = before
        .iter()
        .filter(|held| flag(held, "blockOwnerDeletion"));
    let blocked: BTreeSet<&str> = blocked.map(|held| text(held, "uid")).collect();
    let was_blocking = |owner: &Value| blocked.contains(text(owner, "uid"));
    let blocking: Vec<&Value> = owners
        .iter()
        .filter(|owner| flag(owner, "blockOwnerDeletion") && !was_blocking(owner))
        .collect();
    let everything = cel::Resource {
        group: "*".into(),
        resource: "*".into(),
        subresource: "finalizers".into(),
        name: "*".into(),
        ..cel::Resource::default()
    };
    if blocking.is_empty() || ask(context, "update", everything).allowed {
        return Ok(());
    }
    blocking
        .into_iter()
        .try_for_each(|owner| check_owner(context, request, owner))
}

/// Whoever keeps an owner from being deleted could have put a finalizer on it.
fn check_owner(context: &Context<'_>, request: &Request<'_>, owner: &Value) -> Result<(), Status> {
    let (version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
    let registry = context.cluster.registry();
    let Some(known) = registry.kind(version, kind) else {
        let why = format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}: no matches for kind \"{kind}\" in version \"{version}\""
        );
        return Err(request.forbidden(&why));
    };
    let finalizers = cel::Resource {
        group: known.group.to_string(),
        resource: known.plural.to_string(),
        subresource: "finalizers".into(),
        // An owner is in the same namespace, or in none.
        namespace: match known.namespaced {
            true => request.namespace.to_owned(),
            false => String::new(),
        },
        name: text(owner, "name").to_owned(),
        ..cel::Resource::default()
    };
    let decision = ask(context, "update", finalizers);
    match decision.allowed {
        true => Ok(()),
        false => Err(request.forbidden(&format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {}, <nil>",
            decision.reason
        ))),
    }
}

fn about(request: &Request<'_>) -> cel::Resource {
    cel::Resource {
        group: request.kind.group.to_string(),
        resource: request.kind.plural.to_string(),
        subresource: request
            .subresource
            .map_or_else(String::new, |part| part.name().to_owned()),
        namespace: request.namespace.to_owned(),
        name: request.name.to_owned(),
        ..cel::Resource::default()
    }
}

fn ask(context: &Context<'_>, verb: &str, resource: cel::Resource) -> cel::Decision {
    let check = cel::Check::Resource(cel::Asker::User, resource);
    context.cluster.decide(context.user, &check, verb)
}
