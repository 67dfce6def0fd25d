//! Acting as someone else, for those who may.

use super::rules::Attributes;
use super::{AUTHENTICATED, Identity};
use crate::rest::query::percent_decode;
use crate::server::Shared;
use crate::status::{Status, Subject};
use http::HeaderMap;
use std::sync::Arc;

/// What all headers begin with that say whom to act as: most requests have none of them.
const PREFIX: &str = "impersonate-";
const EXTRA: &str = "impersonate-extra-";

/// The user that the request wants to act as, or the caller itself.
pub(crate) fn impersonate(
    shared: &Shared,
    caller: Arc<Identity>,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, Status> {
    let Some(wanted) = wanted(headers)? else {
        return Ok(caller);
    };
    let mut asked: Vec<(&str, &str, String, String)> = vec![match service_account(&wanted.user) {
        Some((namespace, name)) => ("", "serviceaccounts", namespace.to_owned(), name.to_owned()),
        None => ("", "users", String::new(), wanted.user.clone()),
    }];
    asked.extend(
        wanted
            .groups
            .iter()
            .map(|group| ("", "groups", String::new(), group.clone())),
    );
    if !wanted.uid.is_empty() {
        asked.push((
            "authentication.k8s.io",
            "uids",
            String::new(),
            wanted.uid.clone(),
        ));
    }
    for (group, resource, namespace, name) in &asked {
        let attributes = Attributes {
            verb: "impersonate",
            group,
            resource,
            namespace,
            name,
            ..Attributes::default()
        };
        check(shared, &caller, &attributes)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            let attributes = Attributes {
                verb: "impersonate",
                group: "authentication.k8s.io",
                resource: "userextras",
                subresource: key,
                name: value,
                ..Attributes::default()
            };
            check(shared, &caller, &attributes)?;
        }
    }
    Ok(Arc::new(complete(wanted)))
}

fn check(shared: &Shared, caller: &Identity, asked: &Attributes<'_>) -> Result<(), Status> {
    if shared.rbac.allows(&shared.store, caller, asked) {
        return Ok(());
    }
    let scope = if asked.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", asked.namespace)
    };
    let why = format!(
        "User \"{}\" cannot impersonate resource \"{}\" in API group \"{}\" {scope}",
        caller.user, asked.resource, asked.group
    );
    Err(Status::forbidden(
        Subject {
            group: asked.group,
            plural: asked.resource,
            name: asked.name,
        },
        &why,
    ))
}

fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let mut wanted = Identity {
        user: text("impersonate-user"),
        uid: text("impersonate-uid"),
        ..Identity::default()
    };
    let groups = headers.get_all("impersonate-group");
    wanted.groups = groups
        .iter()
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
            wanted
                .extra
                .entry(percent_decode(key).into_owned())
                .or_default()
                .push(value.to_owned());
        }
    }
    if wanted.user.is_empty() {
        if wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty() {
            return Ok(None);
        }
        return Err(Status::bad_request(
            "requested impersonation without a user: set Impersonate-User",
        ));
    }
    Ok(Some(wanted))
}

/// Adds the groups that such a user always has.
fn complete(mut identity: Identity) -> Identity {
    if let Some((namespace, _)) = service_account(&identity.user) {
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
        if identity.groups.is_empty() {
            identity.groups.extend(groups);
        }
    }
    let default = if identity.user == "system:anonymous" {
        "system:unauthenticated"
    } else {
        AUTHENTICATED
    };
    if !identity.is_in(default) {
        identity.groups.push(default.to_owned());
    }
    identity
}

fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}
