//! Nobody can give away, through a role or a binding, what they do not have.

use super::rbac::rules_in;
use super::rules::{Attributes, Rule};
use super::{Identity, MASTERS};
use crate::kinds::{self, Kind};
use crate::server::Shared;
use crate::status::{Status, Subject};
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

/// 403 if writing a role or binding would grant more than its writer holds.
pub(crate) fn check(
    shared: &Shared,
    identity: &Identity,
    kind: &Kind,
    namespace: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if kind.group != GROUP || identity.is_in(MASTERS) {
        return Ok(());
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    let may = |verb: &str, resource: &str, name: &str| {
        let asked = Attributes {
            verb,
            group: GROUP,
            resource,
            namespace,
            name,
            ..Attributes::default()
        };
        shared.rbac.allows(&shared.store, identity, &asked)
    };
    let (granted, excused) = match &*kind.kind {
        "Role" | "ClusterRole" => {
            if old.is_some_and(|old| old["rules"] == new["rules"]) {
                return Ok(());
            }
            (rules_in(new), may("escalate", &kind.plural, name))
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            if old.is_some_and(|old| {
                old["roleRef"] == new["roleRef"] && old["subjects"] == new["subjects"]
            }) {
                return Ok(());
            }
            let role = new["roleRef"]["name"].as_str().unwrap_or_default();
            let role_kind = if new["roleRef"]["kind"] == "Role" {
                "Role"
            } else {
                "ClusterRole"
            };
            let Some(role_kind) = kinds::find(GROUP, role_kind) else {
                return Ok(());
            };
            let excused = may("bind", &role_kind.plural, role);
            let key = if role_kind.namespaced {
                format!("{namespace}/{role}")
            } else {
                role.to_owned()
            };
            let stored = shared.store.get(role_kind, &key);
            if !excused && stored.is_none() {
                return Err(Status::not_found(Subject {
                    group: GROUP,
                    plural: &role_kind.plural,
                    name: role,
                }));
            }
            (
                stored
                    .map(|stored| rules_in(&stored.value(role_kind)))
                    .unwrap_or_default(),
                excused,
            )
        }
        _ => return Ok(()),
    };
    if excused {
        return Ok(());
    }
    let held = shared.rbac.rules_of(&shared.store, identity, namespace);
    let covered = |part: &Rule| {
        held.iter()
            .any(|rules| rules.iter().any(|rule| rule.covers(part)))
    };
    let missing: Vec<Rule> = granted
        .iter()
        .flat_map(Rule::split)
        .filter(|part| !covered(part))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = missing.iter().map(Rule::text).collect();
    let why = format!(
        "user \"{}\" (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        identity.user,
        identity
            .groups
            .iter()
            .map(|group| format!("\"{group}\""))
            .collect::<Vec<_>>()
            .join(" "),
        texts.join("\n")
    );
    Err(Status::forbidden(
        Subject {
            group: GROUP,
            plural: &kind.plural,
            name,
        },
        &why,
    ))
}
