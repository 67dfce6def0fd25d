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
use std::fmt;
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
    /// `ClusterRoleBinding "b" of ClusterRole "r"`: reviews say it.
    source: String,
    subjects: Vec<Holder>,
    rules: Arc<Vec<Rule>>,
}

/// One of those to whom a binding gives a role.
enum Holder {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
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
        if identity.is_in(MASTERS) {
            return (true, String::new());
        }
        let allows = |authorizer: &Authorizer| match authorizer {
            Authorizer::AlwaysAllow => Some(String::new()),
            Authorizer::AlwaysDeny => None,
            Authorizer::Node => nodes::decide(store, identity, asked)?
                .ok()
                .map(|()| String::new()),
            Authorizer::Rbac => self.source_of(store, identity, asked),
        };
        match self.authorizers.iter().find_map(allows) {
            Some(reason) => (true, reason),
            None => (false, self.why_not(store, identity, asked)),
        }
    }

    /// By which binding the user may, in upstream's words.
    fn source_of(
        &self,
        store: &Store,
        identity: &Identity,
        asked: &Attributes<'_>,
    ) -> Option<String> {
        let policy = self.policy(store);
        policy.grants(asked.namespace).find_map(|grant| {
            let holder = grant.holder(identity)?;
            let is_allowed = grant.rules.iter().any(|rule| rule.allows(asked));
            is_allowed.then(|| format!("RBAC: allowed by {} to {holder}", grant.source))
        })
    }

    /// All rules that a user has in a namespace ("" for the whole cluster).
    pub(crate) fn rules_of(
        &self,
        store: &Store,
        identity: &Identity,
        namespace: &str,
    ) -> Vec<Arc<Vec<Rule>>> {
        let policy = self.policy(store);
        policy
            .grants(namespace)
            .filter(|grant| grant.holder(identity).is_some())
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

impl Policy {
    /// What counts in a namespace ("" for the whole cluster).
    fn grants(&self, namespace: &str) -> impl Iterator<Item = &Grant> {
        let in_namespace = self.namespaced.get(namespace);
        let in_namespace = in_namespace.filter(|_| !namespace.is_empty());
        self.cluster
            .iter()
            .chain(in_namespace.into_iter().flatten())
    }
}

impl Grant {
    /// As whom a user has the rules.
    fn holder(&self, identity: &Identity) -> Option<&Holder> {
        self.subjects.iter().find(|subject| subject.is(identity))
    }
}

impl Holder {
    fn is(&self, identity: &Identity) -> bool {
        match self {
            Holder::User(name) => *name == identity.user,
            Holder::Group(name) => identity.groups.contains(name),
            Holder::ServiceAccount { namespace, name } => identity
                .user
                .strip_prefix("system:serviceaccount:")
                .and_then(|account| account.split_once(':'))
                .is_some_and(|account| account == (namespace, name)),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::User(name) => write!(f, "User {}", go_quote(name)),
            Holder::Group(name) => write!(f, "Group {}", go_quote(name)),
            // UPSTREAM: the namespace comes last.
            Holder::ServiceAccount { namespace, name } => {
                write!(
                    f,
                    "ServiceAccount {}",
                    go_quote(&format!("{name}/{namespace}"))
                )
            }
        }
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
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (binding_name, role) = (text(&binding["metadata"]["name"]), &binding["roleRef"]);
    let (kind, shown) = match namespace {
        "" => ("ClusterRoleBinding", binding_name),
        namespace => ("RoleBinding", format!("{binding_name}/{namespace}")),
    };
    let holder = |subject: &Value| {
        let name = text(&subject["name"]);
        Some(match subject["kind"].as_str()? {
            "User" => Holder::User(name),
            "Group" => Holder::Group(name),
            "ServiceAccount" => {
                let namespace = subject["namespace"]
                    .as_str()
                    .unwrap_or(namespace)
                    .to_owned();
                Holder::ServiceAccount { namespace, name }
            }
            _ => return None,
        })
    };
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    Grant {
        source: format!(
            "{kind} {} of {} {}",
            go_quote(&shown),
            text(&role["kind"]),
            go_quote(&text(&role["name"]))
        ),
        subjects: subjects.filter_map(holder).collect(),
        rules,
    }
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
