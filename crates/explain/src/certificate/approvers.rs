//! Who may approve a request, by cluster roles: it takes `update` on its approval, and `approve` on its signer.

use api::ResourceType;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::facts::Facts;
use crate::json::{list, text};

/// Every client with a token or a certificate is in this group.
const AUTHENTICATED: &str = "group system:authenticated";

/// What a cluster role gives of the two that it takes.
#[derive(Clone, Copy, Debug, Default)]
struct Rights {
    update: bool,
    approve: bool,
}

impl Rights {
    fn and(self, other: Rights) -> Rights {
        Rights {
            update: self.update || other.update,
            approve: self.approve || other.approve,
        }
    }

    fn suffice(self) -> bool {
        self.update && self.approve
    }
}

pub(super) const CLUSTER_ROLE_BINDING: ResourceType = ResourceType::cluster(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
);

/// Users, groups and service accounts that may approve the request of this name for this signer.
pub(super) fn of(facts: &Facts, signer: &str, request: &str) -> Vec<String> {
    let roles: BTreeMap<&str, Rights> = facts
        .of_kind("ClusterRole")
        .map(|role| (text(role, "/metadata/name"), rights(role, signer, request)))
        .collect();
    let mut held: BTreeMap<String, Rights> = BTreeMap::new();
    let mut groups_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for binding in facts.of_kind("ClusterRoleBinding") {
        let Some(given) = roles.get(text(binding, "/roleRef/name")) else {
            continue;
        };
        for bound in list(binding, "/subjects") {
            let name = subject(bound);
            let all = held.entry(name.clone()).or_default();
            *all = all.and(*given);
            groups_of.insert(name, groups(bound));
        }
    }
    let of = |name: &String| held.get(name).copied().unwrap_or_default();
    let may = |name: &&String| {
        let groups = groups_of.get(*name).into_iter().flatten();
        groups
            .fold(of(name), |all, group| all.and(of(group)))
            .suffice()
    };
    let named: BTreeSet<&String> = held.keys().filter(may).collect();
    let named = named
        .into_iter()
        .filter(|name| *name != "group system:masters");
    // Who has neither of the two gets both from the group of everybody, which is named then.
    let gives = |name: &&String| {
        let own = of(name);
        own.update || own.approve
    };
    named.filter(gives).cloned().collect()
}

fn rights(role: &Value, signer: &str, request: &str) -> Rights {
    let domain = signer.split('/').next().unwrap_or_default();
    let all_of_domain = format!("{domain}/*");
    let rules = list(role, "/rules").iter();
    rules.fold(Rights::default(), |all, rule| {
        all.and(Rights {
            update: allows(
                rule,
                "update",
                "certificatesigningrequests/approval",
                &[request],
            ) || allows(rule, "update", "*/approval", &[request]),
            approve: allows(rule, "approve", "signers", &[signer, &all_of_domain]),
        })
    })
}

/// Does a rule allow this, of the objects of one of these names?
fn allows(rule: &Value, verb: &str, resource: &str, names: &[&str]) -> bool {
    let texts = |field: &str| list(rule, field).iter().filter_map(Value::as_str);
    let has = |field: &str, wanted: &str| texts(field).any(|held| held == wanted || held == "*");
    let is_named = list(rule, "/resourceNames").is_empty()
        || texts("/resourceNames").any(|name| names.contains(&name));
    has("/verbs", verb)
        && has("/apiGroups", "certificates.k8s.io")
        && has("/resources", resource)
        && is_named
}

/// `group security`, `service account ops/bot`
fn subject(subject: &Value) -> String {
    let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
    match kind {
        "ServiceAccount" => format!("service account {}/{name}", text(subject, "/namespace")),
        kind => format!("{} {name}", kind.to_lowercase()),
    }
}

/// The groups that a subject is in by what it is.
fn groups(subject: &Value) -> Vec<String> {
    let mut groups = vec![AUTHENTICATED.to_owned()];
    if text(subject, "/kind") == "ServiceAccount" {
        let namespace = text(subject, "/namespace");
        groups.push("group system:serviceaccounts".to_owned());
        groups.push(format!("group system:serviceaccounts:{namespace}"));
    }
    groups
}
