//! Nobody can read, through a policy, parameters that they may not read themselves.
// UPSTREAM: pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding}/authz.go.

use super::rules::Attributes;
use super::{Identity, MASTERS};
use crate::fields::text;
use crate::kinds::{self, Kind};
use crate::server::Shared;
use crate::status::{Cause, Status};
use serde_json::Value;

const GROUP: &str = "admissionregistration.k8s.io";

/// 422 if a policy or binding names parameters that its writer may not read.
pub(crate) fn check(
    shared: &Shared,
    identity: &Identity,
    kind: &Kind,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let spec = &new["spec"];
    if kind.group != GROUP || kind.custom().is_some() || identity.is_in(MASTERS) {
        return Ok(());
    }
    let same = |name: &str| old.is_some_and(|old| old["spec"][name] == spec[name]);
    let found = match kind.kind.strip_suffix("Binding") {
        None if spec["paramKind"].is_null() || same("paramKind") => None,
        None => may_read_kind(shared, identity, &spec["paramKind"])
            .err()
            .map(|why| ("spec.paramKind", why)),
        Some(_) if spec["paramRef"].is_null() => None,
        Some(_) if same("paramRef") && same("policyName") => None,
        Some(policy) => may_read_params(shared, identity, policy, spec)
            .err()
            .map(|why| ("spec.paramRef", why)),
    };
    match found {
        None => Ok(()),
        Some((field, why)) => {
            let message = format!("Forbidden: {why}");
            let cause = Cause::new(field, "FieldValueForbidden", message);
            let name = text(new, "metadata.name");
            Err(Status::invalid(&kind.group, &kind.kind, name, vec![cause]))
        }
    }
}

fn may_read_kind(shared: &Shared, identity: &Identity, params: &Value) -> Result<(), String> {
    let wanted = Wanted::of(shared, params);
    match wanted.is_allowed(shared, identity, "get", "*", "*") {
        true => Ok(()),
        false => Err(format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(identity),
            text(params, "kind"),
            text(params, "apiVersion")
        )),
    }
}

fn may_read_params(
    shared: &Shared,
    identity: &Identity,
    policy_kind: &str,
    spec: &Value,
) -> Result<(), String> {
    let reference = &spec["paramRef"];
    let name = text(reference, "name");
    let verb = if name.is_empty() { "list" } else { "get" };
    let policy_name = text(spec, "policyName");
    let policy = kinds::find(GROUP, policy_kind).and_then(|kind| {
        let stored = shared.store.get(kind, policy_name)?;
        Some(stored.value(kind))
    });
    let params = policy.as_ref().map(|policy| &policy["spec"]["paramKind"]);
    let params = params.filter(|params| params.is_object());
    let wanted = params.map_or_else(Wanted::default, |params| Wanted::of(shared, params));
    if wanted.is_allowed(shared, identity, verb, text(reference, "namespace"), name) {
        return Ok(());
    }
    let user = shown(identity);
    let all = format!(
        "to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
    );
    Err(match params {
        _ if policy.is_none() => format!("unable to get policy {policy_name} {all}"),
        Some(params) if wanted.resource == "*" => format!(
            "unable to resolve paramKind &ParamKind{{APIVersion:{},Kind:{},}} {all}",
            text(params, "apiVersion"),
            text(params, "kind")
        ),
        _ => format!(
            "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
        ),
    })
}

/// The resource that must be readable: what cannot be told stands for everything.
struct Wanted {
    group: String,
    resource: String,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            group: "*".to_owned(),
            resource: "*".to_owned(),
        }
    }
}

impl Wanted {
    fn of(shared: &Shared, params: &Value) -> Wanted {
        let version = text(params, "apiVersion");
        let served = shared.registry();
        let resource = served.kind(version, text(params, "kind"));
        Wanted {
            group: version
                .split_once('/')
                .map_or("", |(group, _)| group)
                .to_owned(),
            resource: resource.map_or("*".to_owned(), |kind| kind.plural.to_string()),
        }
    }

    fn is_allowed(
        &self,
        shared: &Shared,
        identity: &Identity,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> bool {
        let asked = Attributes {
            verb,
            namespace,
            group: &self.group,
            resource: &self.resource,
            name,
            ..Attributes::default()
        };
        shared.rbac.allows(&shared.store, identity, &asked)
    }
}

/// A user as Go prints one.
fn shown(identity: &Identity) -> String {
    let extra: Vec<String> = identity
        .extra
        .iter()
        .map(|(key, values)| format!("{key}:[{}]", values.join(" ")))
        .collect();
    format!(
        "&{{{} {} [{}] map[{}]}}",
        identity.user,
        identity.uid,
        identity.groups.join(" "),
        extra.join(" ")
    )
}
