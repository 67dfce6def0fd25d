//! Nobody can give away, through a role or a binding, what they do not have.
// UPSTREAM: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased.

use super::rbac::rules_in;
use super::rules::{Attributes, Rule};
use super::{Identity, MASTERS};
use crate::kinds::{self, Kind};
use crate::server::Shared;
use crate::status::{Status, Subject};
use serde_json::Value;
use std::cell::Cell;

const GROUP: &str = "rbac.authorization.k8s.io";

/// No more permissions than these are named in one refusal: the verbs, groups, resources and names of a rule multiply.
const MAX_NAMED: usize = 100;

/// What a comparison of the granted rules with those held may take, in words compared: some rules of thousands of words
/// are compared for hours, part by part. Rules of a thousand names each are compared a hundred times within it.
const MAX_EFFORT: usize = 100_000_000;

/// Metadata that the garbage collector writes, and the record of who wrote it.
const COLLECTOR_METADATA: [&str; 3] = ["finalizers", "managedFields", "ownerReferences"];

/// Who writes what.
pub(crate) struct Write<'a> {
    pub(crate) kind: &'a Kind,
    /// Of the request: a create has none, so that `escalate` on some names does not help there.
    pub(crate) requested_name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) new: &'a Value,
    pub(crate) old: Option<&'a Value>,
}

/// 403 if writing a role or binding would grant more than its writer holds.
pub(crate) fn check(shared: &Shared, identity: &Identity, write: &Write<'_>) -> Result<(), Status> {
    if write.kind.group != GROUP || write.kind.custom().is_some() || identity.is_in(MASTERS) {
        return Ok(());
    }
    // Nothing else is exempt: a label can put a role into an aggregated one.
    let collected = write
        .old
        .is_some_and(|old| differs_for_collector_only(write.new, old));
    if collected {
        return Ok(());
    }
    let check = Check {
        shared,
        identity,
        write,
    };
    match &*write.kind.kind {
        "Role" | "ClusterRole" => check.role(),
        "RoleBinding" | "ClusterRoleBinding" => check.binding(),
        _ => Ok(()),
    }
}

struct Check<'a> {
    shared: &'a Shared,
    identity: &'a Identity,
    write: &'a Write<'a>,
}

impl Check<'_> {
    fn role(&self) -> Result<(), Status> {
        let Write { kind, new, old, .. } = self.write;
        if self.may("escalate", &kind.plural, self.write.requested_name) {
            return Ok(());
        }
        self.holds(&rules_in(new))?;
        // What it selects can be anything, and taking a selector away keeps what was gathered from being narrowed.
        let aggregates = has_aggregation_rule(new) || old.is_some_and(has_aggregation_rule);
        if aggregates && self.holds(&full_authority()).is_err() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(self.forbidden(why));
        }
        Ok(())
    }

    fn binding(&self) -> Result<(), Status> {
        let (reference, namespace) = (&self.write.new["roleRef"], self.write.namespace);
        let name = reference["name"].as_str().unwrap_or_default();
        let role_kind = match reference["kind"].as_str() {
            Some("Role") => "Role",
            _ => "ClusterRole",
        };
        let Some(role_kind) = kinds::find(GROUP, role_kind) else {
            return Ok(());
        };
        if self.may("bind", &role_kind.plural, name) {
            return Ok(());
        }
        let key = if role_kind.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        };
        let Some(role) = self.shared.store.get(role_kind, &key) else {
            return Err(Status::not_found(Subject {
                group: GROUP,
                plural: &role_kind.plural,
                name,
            }));
        };
        self.holds(&rules_in(&role.value(role_kind)))
    }

    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let asked = Attributes {
            verb,
            group: GROUP,
            resource,
            namespace: self.write.namespace,
            name,
            ..Attributes::default()
        };
        let Check {
            shared, identity, ..
        } = self;
        shared.rbac.allows(&shared.store, identity, &asked)
    }

    /// Whether the writer has all that these rules grant.
    fn holds(&self, granted: &[Rule]) -> Result<(), Status> {
        let (identity, shared) = (self.identity, self.shared);
        let held = shared
            .rbac
            .rules_of(&shared.store, identity, self.write.namespace);
        let effort = Cell::new(0_usize);
        let covered = |part: &Rule| {
            held.iter().flat_map(|rules| rules.iter()).any(|rule| {
                effort.set(effort.get().saturating_add(rule.effort(part)));
                effort.get() <= MAX_EFFORT && rule.covers(part)
            })
        };
        // As a whole first: most rules are, and the parts of one that is not can be very many.
        let missing = granted
            .iter()
            .filter(|rule| rule.is_mixed() || !covered(rule))
            .flat_map(Rule::split)
            .filter(|part| !covered(part));
        let mut missing: Vec<String> = missing.take(MAX_NAMED).map(|rule| rule.text()).collect();
        if effort.get() > MAX_EFFORT {
            return Err(self.forbidden(
                "its rules have too many words to be compared with the permissions currently held; divide them among several roles",
            ));
        }
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort();
        let groups: Vec<String> = identity
            .groups
            .iter()
            .map(|group| format!("\"{group}\""))
            .collect();
        Err(self.forbidden(&format!(
            "user \"{}\" (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            identity.user,
            groups.join(" "),
            missing.join("\n")
        )))
    }

    fn forbidden(&self, why: &str) -> Status {
        let subject = Subject {
            group: GROUP,
            plural: &self.write.kind.plural,
            name: self.write.new["metadata"]["name"]
                .as_str()
                .unwrap_or_default(),
        };
        Status::forbidden(subject, why)
    }
}

fn has_aggregation_rule(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"]
        .as_array()
        .is_some_and(|selectors| !selectors.is_empty())
}

/// Everything: what only a cluster administrator holds.
fn full_authority() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule {
            verbs: all(),
            groups: all(),
            resources: all(),
            ..Rule::default()
        },
        Rule {
            verbs: all(),
            urls: all(),
            ..Rule::default()
        },
    ]
}

/// Whether an update changes nothing but what the garbage collector needs to change before it can delete.
fn differs_for_collector_only(new: &Value, old: &Value) -> bool {
    let (Some(after), Some(before)) = (new.as_object(), old.as_object()) else {
        return false;
    };
    let (Some(meta_after), Some(meta_before)) =
        (new["metadata"].as_object(), old["metadata"].as_object())
    else {
        return false;
    };
    let same = |after: &serde_json::Map<String, Value>,
                before: &serde_json::Map<String, Value>,
                exempt: &[&str]| {
        let names = after.keys().chain(before.keys());
        names
            .filter(|name| !exempt.contains(&name.as_str()))
            .all(|name| after.get(name) == before.get(name))
    };
    same(after, before, &["metadata"]) && same(meta_after, meta_before, &COLLECTOR_METADATA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_collectors_metadata_is_exempt() {
        let old = json!({"metadata": {"name": "a", "finalizers": ["x"]}, "rules": []});
        let check = |new: Value, exempt: bool| {
            assert_eq!(differs_for_collector_only(&new, &old), exempt, "{new}");
        };
        check(json!({"metadata": {"name": "a"}, "rules": []}), true);
        check(
            json!({"metadata": {"name": "a", "ownerReferences": [{}], "managedFields": []}, "rules": []}),
            true,
        );
        check(
            json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "rules": []}),
            false,
        );
        check(json!({"metadata": {"name": "a"}}), false);
        check(
            json!({"metadata": {"name": "a"}, "rules": [], "aggregationRule": {}}),
            false,
        );
    }
}
