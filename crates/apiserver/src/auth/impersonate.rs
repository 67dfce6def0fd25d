//! Acting as someone else, for those who may.

use super::rules::Attributes;
use super::{AUTHENTICATED, Identity, UNAUTHENTICATED};
use crate::rest::query::percent_decode;
use crate::server::Shared;
use crate::status::{Status, Subject};
use api::syntax::{validate_dns1123_label, validate_dns1123_subdomain};
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;

/// What all headers begin with that say whom to act as: most requests have none of them.
const PREFIX: &str = "impersonate-";
const EXTRA: &str = "extra-";

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
    let resource = match asked.subresource {
        "" => asked.resource.to_owned(),
        subresource => format!("{}/{subresource}", asked.resource),
    };
    let why = format!(
        "User \"{}\" cannot impersonate resource \"{resource}\" in API group \"{}\" {scope}",
        caller.user, asked.group
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
    let mut wanted = Identity::default();
    let mut asked = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix(PREFIX)?, value)))
        .peekable();
    if asked.peek().is_none() {
        return Ok(None);
    }
    for (name, value) in asked {
        // Whatever it stands for: without it the caller would act with other rights than were asked for.
        let value = text(name, value)?;
        match name {
            // UPSTREAM: the first one counts.
            "user" if wanted.user.is_empty() => wanted.user = value,
            "uid" if wanted.uid.is_empty() => wanted.uid = value,
            "group" => wanted.groups.push(value),
            _ => {
                if let Some(key) = name.strip_prefix(EXTRA) {
                    let key = extra_key(key);
                    wanted.extra.entry(key).or_default().push(value);
                }
            }
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

/// Go's clients send names as they are, so the bytes are UTF-8 and need not be ASCII.
fn text(name: &str, value: &HeaderValue) -> Result<String, Status> {
    match str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Status::bad_request(format!(
            "invalid header Impersonate-{name}: the value is not valid UTF-8"
        ))),
    }
}

/// UPSTREAM: a key that is not well encoded stands for itself.
fn extra_key(encoded: &str) -> String {
    let is_hex = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let decoded = percent_decode(encoded);
    let is_text = !decoded.contains(char::REPLACEMENT_CHARACTER);
    match is_text && encoded.split('%').skip(1).all(is_hex) {
        true => decoded.into_owned(),
        false => encoded.to_owned(),
    }
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
    let is_anonymous = identity.user == "system:anonymous";
    let default = if is_anonymous {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    // UPSTREAM: who asks for a user that is not authenticated gets one.
    let is_settled = identity.is_in(default) || (!is_anonymous && identity.is_in(UNAUTHENTICATED));
    if !is_settled {
        identity.groups.push(default.to_owned());
    }
    identity
}

/// Namespace and name, if both are well formed: any other name is that of a user, which other permissions are for.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let is_valid =
        validate_dns1123_label(namespace).is_empty() && validate_dns1123_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_keys_are_decoded_where_they_are_well_encoded() {
        for (encoded, key) in [
            ("scopes", "scopes"),
            ("acme.com%2fproject", "acme.com/project"),
            ("%c3%bc", "ü"),
            ("%zz%41", "%zz%41"),
            ("%41%4", "%41%4"),
            ("%ff", "%ff"),
        ] {
            assert_eq!(extra_key(encoded), key);
        }
    }
}
