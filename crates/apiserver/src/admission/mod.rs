//! What the server decides about a request beyond the object's own rules: the default admission
//! plugins of kube-apiserver, as functions over what is stored.
//!
//! [`mutate`] runs on the defaulted object and [`allocate`] once webhooks have changed it, both before its strategy;
//! [`review`] runs after validation, as upstream orders them, and [`charge`] within the write, so that it sees the very state that the write
//! will change; what it wants written beside the object (quota usage, IP addresses) comes back as
//! [`Change`]s for the same transaction. All read the cluster through [`Cluster`]. Policies that users write come last in
//! [`mutate`] and in [`review`]: see `policy`.

mod allocation;
mod certificates;
mod configuration;
mod devices;
mod event_limits;
mod gangs;
mod limits;
mod namespace;
mod networking;
mod node_restriction;
mod owners;
mod placement;
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

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use allocation::{
    DEFAULT_SERVICE_CIDR, addresses as cluster_ips, marker as address_marker,
};
pub use allocation::{Networks, released_by_deletion};
pub use configuration::{
    PluginConfigurations, PluginSettings, Source, document as plugin_document,
    sources as plugin_sources,
};
pub(crate) use namespace::check_lifecycle;
pub(crate) use node_restriction::check as check_node;
pub use plugins::{Plugin, PluginError, Plugins, names as plugin_names};
pub(crate) use pod_security::{Level, Version};
pub(crate) use pods::place_of;
pub(crate) use quota::recount as recount_quotas;

use crate::auth::Identity;
use crate::kinds::{self, Kind, Registry, Subresource};
use crate::metrics::admission::PolicyCheck;
use crate::policy::{self, Policies};
use crate::settings::Settings;
use crate::status::{Status, Subject};
use crate::storage::Store;

/// Read access to the state that a write is about to change.
pub trait Cluster {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// All objects of a kind in a namespace, or in all of them for "".
    fn list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>>;
    /// Whether the user may act on a signer (`approve`, `sign`) in `certificates.k8s.io`.
    fn may(&self, user: &Identity, verb: &str, resource: &str, name: &str) -> bool;
    /// What a user, or the service account that is asked for instead, may do.
    fn decide(&self, user: &Identity, check: &cel::Check, verb: &str) -> cel::Decision;
    /// The kinds that are served.
    fn registry(&self) -> Arc<Registry>;
    /// The admission policies in force.
    fn policies(&self) -> Arc<Policies>;
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
    Connect,
}

impl Operation {
    /// As rules and admission requests spell it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
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
    /// The kind at the version asked for.
    pub asked: &'a Arc<Kind>,
    /// What the object is where it is not of that kind, as with `scale`: apiVersion and kind.
    pub object_type: Option<(&'static str, &'static str)>,
    pub dry_run: bool,
    /// Whether policies have been asked already, about what this request follows from.
    pub is_admitted: bool,
    /// `CreateOptions` and its like, as far as anybody looks at them.
    pub options: &'a Value,
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
    pub annotations: BTreeMap<String, String>,
    pub changes: Vec<Change>,
    /// For metrics.
    pub(crate) policy_checks: Vec<PolicyCheck>,
}

/// Lets the plugins change a new or updated object. Deletions have no object: pass null.
pub fn mutate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    built_in_plugins(context, request, object, old)?;
    let policies = context
        .settings
        .plugins
        .has(Plugin::MutatingAdmissionPolicy);
    if request.operation == Operation::Delete || !policies {
        return Ok(());
    }
    policy::mutate(context, request, object, old, |object| {
        built_in_plugins(context, request, object, old)
    })
}

/// The plugins that come before policies and webhooks.
fn built_in_plugins(
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
            if let Some(old) = old.filter(|_| on(Plugin::Priority)) {
                pods::keep_priority(object, old);
            }
            if on(Plugin::DefaultTolerationSeconds) {
                pods::add_default_tolerations(context, object);
            }
            placement::add_tolerations(context, request, object)?;
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
        ("scheduling.k8s.io", "PodGroup") if creating && on(Plugin::PodGroupProtection) => {
            storage::protect(object, "scheduling.k8s.io/podgroup-protection")
        }
        ("storage.k8s.io", "VolumeAttributesClass")
            if creating && on(Plugin::StorageObjectInUseProtection) =>
        {
            storage::protect(object, "kubernetes.io/vac-protection")
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
    placement::select_nodes(context, request, pod)?;
    if on(Plugin::Priority) {
        pods::set_priority(context, request, pod)?;
    }
    if on(Plugin::DefaultTolerationSeconds) {
        pods::add_default_tolerations(context, pod);
    }
    placement::add_tolerations(context, request, pod)?;
    if on(Plugin::RuntimeClass) {
        pods::apply_runtime_class(context, request, pod)?;
    }
    if on(Plugin::PodTopologyLabels) {
        pods::label_topology(context, pod);
    }
    Ok(())
}

/// Lets the plugins refuse a request. What they read may change before the write, as it may upstream. What the verdict
/// says by then holds for refusals, too. Deletions have no object: pass null.
pub fn review(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let on = |plugin| context.settings.plugins.has(plugin);
    if on(Plugin::AlwaysDeny) {
        return Err(request.forbidden("admission control is denying all modifications"));
    }
    if matches!(request.operation, Operation::Create | Operation::Update)
        && request.object_type.is_none()
    {
        review_object(context, request, object, old, verdict)?;
    }
    match on(Plugin::ValidatingAdmissionPolicy) {
        true => policy::validate(context, request, object, old, verdict),
        false => Ok(()),
    }
}

fn review_object(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let on = |plugin| context.settings.plugins.has(plugin);
    if request.subresource.is_none() {
        verdict.warnings = crate::warnings::of(request.kind, object, old);
        let idle =
            crate::warnings::without_effect(request.kind, object, context.settings.audit.is_some());
        verdict.warnings.extend(idle);
        if request.is("apiregistration.k8s.io", "APIService") {
            let registry = context.cluster.registry();
            let unused = crate::aggregation::warning(&registry, object);
            verdict.warnings.extend(unused);
        }
    }
    if !context.settings.allow_privileged {
        plugins::check_privileged(request, object)?;
    }
    if let Some(limits) = &context.settings.plugin_settings.event_limits {
        limits.check(context, request, object)?;
    }
    placement::check(context, request, object)?;
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
    if on(Plugin::OwnerReferencesPermissionEnforcement) {
        owners::check(context, request, object, old)?;
    }
    certificates::check(context, request, object, old)?;
    devices::check_admin_access(context, request, object)?;
    if on(Plugin::PodGroupWorkloadExists) {
        gangs::check_template(context, request, object)?;
    }
    if on(Plugin::JobValidation) {
        gangs::check_parallelism(context, request, object, old)?;
    }
    if on(Plugin::PodSecurity) {
        pod_security::check(context, request, object, old, verdict)?;
    }
    Ok(())
}

/// Chooses addresses and ports for what needs them, once nobody changes it any more.
pub(crate) fn allocate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    match allocates(request.kind) && request.subresource.is_none() {
        true => allocation::allocate(context, request, object, old),
        false => Ok(()),
    }
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

/// Whether writing a kind takes something that no other request may get. Then it is made ready within the write, or, if
/// it has to wait for someone, made ready again when anyone else may have taken the same.
pub(crate) fn allocates(kind: &Kind) -> bool {
    kind.is("", "Service")
}

/// The last change of anything that addresses and ports are chosen by.
pub(crate) fn allocated_by(store: &Store) -> u64 {
    let kinds = [
        built_in("", "Service"),
        built_in("networking.k8s.io", "IPAddress"),
        built_in("networking.k8s.io", "ServiceCIDR"),
    ];
    let changes = kinds.map(|kind| store.last_change(kind));
    changes.into_iter().max().unwrap_or(0)
}

pub(crate) fn namespaces() -> &'static Arc<Kind> {
    built_in("", "Namespace")
}

impl Request<'_> {
    fn is(&self, group: &str, kind: &str) -> bool {
        self.kind.is(group, kind)
    }

    /// 403, in the words of an admission plugin.
    pub(crate) fn forbidden(&self, why: &str) -> Status {
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
pub(crate) fn aggregate(mut reasons: Vec<String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    match reasons.len() {
        0 => None,
        1 => reasons.pop(),
        _ => Some(format!("[{}]", reasons.join(", "))),
    }
}
