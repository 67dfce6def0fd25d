//! RBAC: the rules that bindings give to users, compiled when roles or bindings change.

use super::rules::{Attributes, Rule};
use super::{Identity, MASTERS, UNAUTHENTICATED, nodes};
use crate::kinds;
use crate::rest::RequestInfo;
use crate::server::Shared;
use crate::settings::Anonymous;
use crate::status::{Status, Subject};
use crate::storage::{Store, split_key};
use api::selector::FieldSelector;
use api::syntax::go_quote;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const GROUP: &str = "rbac.authorization.k8s.io";
const KINDS: [&str; 4] = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// What anyone may read, even without credentials.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Who may be asked whether a request may be made: upstream's `--authorization-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorizer {
    AlwaysAllow,
    AlwaysDeny,
    Node,
    Rbac,
}

/// Who is asked, and the compiled policy and the revisions of roles and bindings that it is made of.
#[derive(Default)]
pub(crate) struct Rbac {
    authorizers: Vec<Authorizer>,
    compiled: Mutex<Option<([u64; 4], Arc<Policy>)>>,
}

#[derive(Default)]
struct Policy {
    cluster: Vec<Grant>,
    namespaced: BTreeMap<String, Vec<Grant>>,
}

/// Rules for some subjects.
struct Grant {
    users: Vec<String>,
    groups: Vec<String>,
    rules: Arc<Vec<Rule>>,
}

impl Rbac {
    pub(crate) fn new(authorizers: Vec<Authorizer>) -> Rbac {
        Rbac {
            authorizers,
            compiled: Mutex::default(),
        }
    }

    /// 403 unless the user may do what the request asks for.
    pub(crate) fn check(
        &self,
        shared: &Shared,
        identity: &Identity,
        info: &RequestInfo,
    ) -> Result<(), Status> {
        self.check_verb(shared, identity, info, info.verb)
    }

    /// The same for a verb that the request comes down to, such as a PUT that creates.
    pub(crate) fn check_verb(
        &self,
        shared: &Shared,
        identity: &Identity,
        info: &RequestInfo,
        verb: &str,
    ) -> Result<(), Status> {
        let selected = selected_name(info);
        let mut asked = Attributes {
            verb,
            ..attributes(info)
        };
        if asked.name.is_empty() {
            asked.name = &selected;
        }
        if self.allows(&shared.store, identity, &asked) {
            return Ok(());
        }
        if shared.settings.anonymous == Anonymous::HealthOnly {
            let public = matches!(asked.verb, "get" | "head") && is_public(asked.path);
            if public {
                return Ok(());
            }
            if identity.is_in(UNAUTHENTICATED) {
                return Err(Status::unauthorized());
            }
        }
        let why = self.why_not(&shared.store, identity, &asked);
        Err(refusal(identity, &asked, &why))
    }

    /// 403 unless the user may do what is asked for.
    pub(super) fn demand(
        &self,
        store: &Store,
        identity: &Identity,
        asked: &Attributes<'_>,
    ) -> Result<(), Status> {
        match self.allows(store, identity, asked) {
            true => Ok(()),
            false => Err(refusal(
                identity,
                asked,
                &self.why_not(store, identity, asked),
            )),
        }
    }

    pub(crate) fn allows(
        &self,
        store: &Store,
        identity: &Identity,
        asked: &Attributes<'_>,
    ) -> bool {
        let allows = |authorizer: &Authorizer| match authorizer {
            Authorizer::AlwaysAllow => true,
            Authorizer::AlwaysDeny => false,
            Authorizer::Node => {
                nodes::decide(store, identity, asked).is_some_and(|decision| decision.is_ok())
            }
            Authorizer::Rbac => self
                .rules_of(store, identity, asked.namespace)
                .iter()
                .any(|rules| rules.iter().any(|rule| rule.allows(asked))),
        };
        identity.is_in(MASTERS) || self.authorizers.iter().any(allows)
    }

    /// What there is to say about a refusal.
    fn why_not(&self, store: &Store, identity: &Identity, asked: &Attributes<'_>) -> String {
        let why = |authorizer: &Authorizer| match authorizer {
            Authorizer::Node => nodes::decide(store, identity, asked)?.err(),
            Authorizer::AlwaysDeny => Some("Everything is forbidden.".to_owned()),
            _ => None,
        };
        let reasons = self.authorizers.iter().filter_map(why);
        let reasons: Vec<String> = reasons.filter(|why| !why.is_empty()).collect();
        reasons.join("\n")
    }

    /// Whether the user may, and what reviews say about it.
    pub(crate) fn decide(
        &self,
        store: &Store,
        identity: &Identity,
        asked: &Attributes<'_>,
    ) -> (bool, String) {
        let node = nodes::decide(store, identity, asked);
        let allowed = self.allows(store, identity, asked);
        let reason = match node {
            Some(Err(why)) if !allowed => why,
            Some(Ok(())) => String::new(),
            _ if allowed && !identity.is_in(MASTERS) => {
                "RBAC: allowed by a role that is bound to the user".to_owned()
            }
            _ => String::new(),
        };
        (allowed, reason)
    }

    /// All rules that a user has in a namespace ("" for the whole cluster).
    pub(crate) fn rules_of(
        &self,
        store: &Store,
        identity: &Identity,
        namespace: &str,
    ) -> Vec<Arc<Vec<Rule>>> {
        let policy = self.policy(store);
        let in_namespace = policy
            .namespaced
            .get(namespace)
            .filter(|_| !namespace.is_empty());
        let grants = policy
            .cluster
            .iter()
            .chain(in_namespace.into_iter().flatten());
        grants
            .filter(|grant| grant.is_for(identity))
            .map(|grant| grant.rules.clone())
            .collect()
    }

    fn policy(&self, store: &Store) -> Arc<Policy> {
        let versions =
            KINDS.map(|kind| kinds::find(GROUP, kind).map_or(0, |kind| store.last_change(kind)));
        let mut compiled = self.compiled.lock();
        if let Some((of, policy)) = &*compiled
            && *of == versions
        {
            return policy.clone();
        }
        let policy = Arc::new(compile(store));
        *compiled = Some((versions, policy.clone()));
        policy
    }
}

impl Grant {
    fn is_for(&self, identity: &Identity) -> bool {
        self.users.contains(&identity.user)
            || self
                .groups
                .iter()
                .any(|group| identity.groups.contains(group))
    }
}

fn compile(store: &Store) -> Policy {
    let all = |kind: &str| -> Vec<(Arc<str>, Value)> {
        let Some(kind) = kinds::find(GROUP, kind) else {
            return Vec::new();
        };
        store
            .list_newest(kind, "")
            .iter()
            .map(|stored| (stored.key.clone(), stored.value(kind)))
            .collect()
    };
    let rules = |kind: &str| -> BTreeMap<Arc<str>, Arc<Vec<Rule>>> {
        let parsed = all(kind)
            .into_iter()
            .map(|(key, value)| (key, Arc::new(rules_in(&value))));
        parsed.collect()
    };
    let (cluster_roles, roles) = (rules("ClusterRole"), rules("Role"));
    let mut policy = Policy::default();
    for (_, binding) in all("ClusterRoleBinding") {
        let name = binding["roleRef"]["name"].as_str().unwrap_or_default();
        if let Some(rules) = cluster_roles.get(name) {
            policy.cluster.push(grant(&binding, "", rules.clone()));
        }
    }
    for (key, binding) in all("RoleBinding") {
        let namespace = split_key(&key).0;
        let name = binding["roleRef"]["name"].as_str().unwrap_or_default();
        let rules = match binding["roleRef"]["kind"].as_str() {
            Some("ClusterRole") => cluster_roles.get(name),
            _ => roles.get(format!("{namespace}/{name}").as_str()),
        };
        if let Some(rules) = rules {
            policy
                .namespaced
                .entry(namespace.to_owned())
                .or_default()
                .push(grant(&binding, namespace, rules.clone()));
        }
    }
    policy
}

pub(crate) fn rules_in(role: &Value) -> Vec<Rule> {
    role["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .map(Rule::parse)
        .collect()
}

fn grant(binding: &Value, namespace: &str, rules: Arc<Vec<Rule>>) -> Grant {
    let mut grant = Grant {
        users: Vec::new(),
        groups: Vec::new(),
        rules,
    };
    for subject in binding["subjects"].as_array().into_iter().flatten() {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str().unwrap_or_default() {
            "User" => grant.users.push(name.to_owned()),
            "Group" => grant.groups.push(name.to_owned()),
            "ServiceAccount" => {
                let namespace = subject["namespace"].as_str().unwrap_or(namespace);
                grant
                    .users
                    .push(format!("system:serviceaccount:{namespace}:{name}"));
            }
            _ => {}
        }
    }
    grant
}

fn attributes(info: &RequestInfo) -> Attributes<'_> {
    if !info.is_resource {
        return Attributes {
            verb: info.verb,
            path: &info.path,
            ..Attributes::default()
        };
    }
    Attributes {
        verb: info.verb,
        namespace: &info.namespace,
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        name: &info.name,
        path: "",
        field_selector: info.query.get("fieldSelector"),
    }
}

/// UPSTREAM: who lists or watches by a name asks for the one object.
fn selected_name(info: &RequestInfo) -> String {
    if !matches!(info.verb, "list" | "watch" | "deletecollection") {
        return String::new();
    }
    let selector = FieldSelector::parse(info.query.get("fieldSelector")).ok();
    let named = selector.iter().flat_map(|selector| selector.requirements());
    let mut named = named.filter(|one| one.field == "metadata.name" && !one.negated);
    named
        .next()
        .map(|one| one.value.clone())
        .unwrap_or_default()
}

fn is_public(path: &str) -> bool {
    PUBLIC_PATHS.contains(&path)
        || ["/healthz/", "/livez/", "/readyz/"]
            .iter()
            .any(|prefix| path.starts_with(prefix))
}

pub(super) fn refusal(identity: &Identity, asked: &Attributes<'_>, more: &str) -> Status {
    let (user, verb) = (go_quote(&identity.user), asked.verb);
    let mut why = match (asked.path, asked.subresource) {
        ("", "") => format!("User {user} cannot {verb} resource \"{}\"", asked.resource),
        ("", part) => format!(
            "User {user} cannot {verb} resource \"{}/{part}\"",
            asked.resource
        ),
        (path, _) => format!("User {user} cannot {verb} path {}", go_quote(path)),
    };
    if asked.path.is_empty() {
        why.push_str(&format!(" in API group \"{}\" ", asked.group));
        why.push_str(&match asked.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        });
    }
    // UPSTREAM: nothing of it shall look like HTML.
    why = why
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    if !more.is_empty() {
        why.push_str(": ");
        why.push_str(more);
    }
    let subject = match asked.path {
        "" => Subject {
            group: asked.group,
            plural: asked.resource,
            name: asked.name,
        },
        _ => Subject {
            group: "",
            plural: "",
            name: "",
        },
    };
    Status::forbidden(subject, &why)
}
