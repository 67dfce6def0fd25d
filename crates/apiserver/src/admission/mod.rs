//! What the server decides about a request beyond the object's own rules: the default admission
//! plugins of kube-apiserver, as functions over what is stored.
//!
//! [`mutate`] runs on the defaulted object before its strategy, [`review`] after validation, as
//! upstream orders them, and [`charge`] within the write, so that it sees the very state that the write
//! will change; what it wants written beside the object (quota usage, IP addresses) comes back as
//! [`Change`]s for the same transaction. All read the cluster through [`Cluster`].

mod allocation;
mod certificates;
mod devices;
mod limits;
mod namespace;
mod networking;
mod node_restriction;
mod plugins;
mod pod_security;
mod pods;
mod quota;
mod quota_objects;
mod service_account;
mod storage;
#[cfg(test)]
pub(crate) mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use allocation::{
    DEFAULT_SERVICE_CIDR, addresses as cluster_ips, marker as address_marker,
};
pub use allocation::{Networks, released_by_deletion};
pub(crate) use namespace::check_lifecycle;
pub(crate) use node_restriction::check as check_node;
pub use plugins::{Plugin, PluginError, Plugins, names as plugin_names};
pub(crate) use pods::place_of;
pub(crate) use quota::recount as recount_quotas;

use crate::auth::Identity;
use crate::kinds::{self, Kind, Subresource};
use crate::settings::Settings;
use crate::status::{Status, Subject};

/// Read access to the state that a write is about to change.
pub trait Cluster {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// All objects of a kind in a namespace, or in all of them for "".
    fn list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>>;
    /// Whether the user may act on a signer (`approve`, `sign`) in `certificates.k8s.io`.
    fn may(&self, user: &Identity, verb: &str, resource: &str, name: &str) -> bool;
}

/// Everything a decision may depend on.
pub struct Context<'a> {
    pub cluster: &'a dyn Cluster,
    pub user: &'a Identity,
    pub random: &'a api::Rng,
    pub networks: &'a Networks,
    pub settings: &'a Settings,
    pub now: api::MicroTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// What is being asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub operation: Operation,
    pub kind: &'a Kind,
    /// "" for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    pub subresource: Option<Subresource>,
}

/// A write that belongs to the admitted one and must happen with it (not in a dry run).
#[derive(Clone, Debug)]
pub enum Change {
    Put(Arc<Kind>, Value),
    Delete {
        kind: Arc<Kind>,
        namespace: String,
        name: String,
    },
}

/// What [`review`] and [`charge`] have to say about a request that it lets through.
#[derive(Debug, Default)]
pub struct Verdict {
    /// For `Warning` headers.
    pub warnings: Vec<String>,
    /// For the audit log.
    pub audit_annotations: Vec<(String, String)>,
    pub changes: Vec<Change>,
}

/// Lets the plugins change a new or updated object. Deletions have no object: pass null.
pub fn mutate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    namespace::check_lifecycle(context, request)?;
    let on = |plugin| context.settings.plugins.has(plugin);
    let creating = request.operation == Operation::Create && request.subresource.is_none();
    // UPSTREAM: a pod gets its service account first.
    if !(creating && request.is("", "Pod")) {
        node_restriction::check(context, request, object, old)?;
    }
    if request.operation == Operation::Delete {
        return Ok(());
    }
    let updating = request.operation == Operation::Update && request.subresource.is_none();
    match (&*request.kind.group, &*request.kind.kind) {
        ("", "Pod") if creating => mutate_new_pod(context, request, object, old)?,
        ("", "Pod") if updating => {
            if on(Plugin::AlwaysPullImages) {
                plugins::pull_always(object);
            }
            if on(Plugin::DefaultTolerationSeconds) {
                pods::add_default_tolerations(context, object);
            }
        }
        ("", "Node") if creating && on(Plugin::TaintNodesByCondition) => {
            pods::taint_new_node(object)
        }
        ("", "PersistentVolumeClaim") if creating => {
            if on(Plugin::DefaultStorageClass) {
                storage::set_default_class(context, object);
            }
            if on(Plugin::StorageObjectInUseProtection) {
                storage::protect(object, "kubernetes.io/pvc-protection");
            }
        }
        ("", "PersistentVolume") if creating && on(Plugin::StorageObjectInUseProtection) => {
            storage::protect(object, "kubernetes.io/pv-protection")
        }
        ("storage.k8s.io", "VolumeAttributesClass")
            if creating && on(Plugin::StorageObjectInUseProtection) =>
        {
            storage::protect(object, "kubernetes.io/vac-protection")
        }
        ("", "Service") if request.subresource.is_none() => {
            allocation::allocate(context, request, object, old)?
        }
        ("networking.k8s.io", "Ingress") if creating && on(Plugin::DefaultIngressClass) => {
            networking::set_default_class(context, object)
        }
        ("certificates.k8s.io", "CertificateSigningRequest") if creating => {
            certificates::record_user(context, object)
        }
        _ => {}
    }
    Ok(())
}

fn mutate_new_pod(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let on = |plugin| context.settings.plugins.has(plugin);
    if on(Plugin::LimitRanger) {
        limits::set_defaults(context, request, pod);
    }
    if on(Plugin::ServiceAccount) {
        service_account::admit(context, request, pod)?;
    }
    node_restriction::check(context, request, pod, old)?;
    if on(Plugin::AlwaysPullImages) {
        plugins::pull_always(pod);
    }
    if on(Plugin::Priority) {
        pods::set_priority(context, request, pod)?;
    }
    if on(Plugin::DefaultTolerationSeconds) {
        pods::add_default_tolerations(context, pod);
    }
    if on(Plugin::RuntimeClass) {
        pods::apply_runtime_class(context, request, pod)?;
    }
    if on(Plugin::PodTopologyLabels) {
        pods::label_topology(context, pod);
    }
    Ok(())
}

/// Lets the plugins refuse a request. What they read may change before the write, as it may upstream.
pub fn review(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<Verdict, Status> {
    let on = |plugin| context.settings.plugins.has(plugin);
    let mut verdict = Verdict::default();
    if on(Plugin::AlwaysDeny) {
        return Err(request.forbidden("admission control is denying all modifications"));
    }
    if request.operation == Operation::Delete {
        return Ok(verdict);
    }
    if request.subresource.is_none() {
        verdict.warnings = crate::warnings::of(request.kind, object, old);
        let idle = crate::warnings::without_effect(request.kind);
        verdict.warnings.extend(idle);
    }
    if !context.settings.allow_privileged {
        plugins::check_privileged(request, object)?;
    }
    if on(Plugin::LimitRanger) {
        limits::check(context, request, object)?;
    }
    if on(Plugin::Priority) {
        pods::check_priority_class(context, request, object, old)?;
    }
    if on(Plugin::DenyServiceExternalIps) && request.is("", "Service") {
        plugins::check_external_ips(request, object, old)?;
    }
    if on(Plugin::PersistentVolumeClaimResize) {
        storage::check_resize(context, request, object, old)?;
    }
    certificates::check(context, request, object, old)?;
    devices::check_admin_access(context, request, object)?;
    if on(Plugin::PodSecurity) {
        pod_security::check(context, request, object, old, &mut verdict)?;
    }
    Ok(verdict)
}

/// Takes what a request uses up (quota, addresses), or refuses it: within the write.
pub fn charge(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    if request.operation == Operation::Delete {
        return Ok(());
    }
    if context.settings.plugins.has(Plugin::ResourceQuota) {
        quota::check(context, request, object, old, verdict)?;
    }
    allocation::record(request, object, old, verdict);
    Ok(())
}

/// Whether mutating admission of a kind takes something that no other request may get: then all of it happens
/// within the write.
pub(crate) fn allocates(kind: &Kind) -> bool {
    kind.is("", "Service")
}

pub(crate) fn namespaces() -> &'static Arc<Kind> {
    built_in("", "Namespace")
}

impl Request<'_> {
    fn is(&self, group: &str, kind: &str) -> bool {
        self.kind.is(group, kind)
    }

    /// 403, in the words of an admission plugin.
    fn forbidden(&self, why: &str) -> Status {
        let subject = Subject {
            group: &self.kind.group,
            plural: &self.kind.plural,
            name: self.name,
        };
        Status::forbidden(subject, why)
    }
}

/// A built-in kind that the plugins look up.
fn built_in(group: &str, kind: &str) -> &'static Arc<Kind> {
    kinds::find(group, kind).expect("the plugins name kinds that are in the table")
}

/// Several reasons as upstream prints an aggregate: bare when there is one, in brackets otherwise.
fn aggregate(mut reasons: Vec<String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    match reasons.len() {
        0 => None,
        1 => reasons.pop(),
        _ => Some(format!("[{}]", reasons.join(", "))),
    }
}
