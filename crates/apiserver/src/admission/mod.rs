//! What the server decides about a request beyond the object's own rules: the default admission
//! plugins of kube-apiserver, as functions over what is stored.
//!
//! [`mutate`] runs on the defaulted object before its strategy, [`review`] after validation, as
//! upstream orders them, and [`charge`] within the write, so that it sees the very state that the write
//! will change; what it wants written beside the object (quota usage, IP addresses) comes back as
//! [`Change`]s for the same transaction. All read the cluster through [`Cluster`]. Policies that users write come last in
//! [`mutate`] and in [`review`]: see `policy`.

mod allocation;
mod certificates;
mod devices;
mod limits;
mod namespace;
mod networking;
mod node_restriction;
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
pub(crate) use namespace::check_lifecycle;
pub(crate) use node_restriction::check as check_node;
pub(crate) use pods::place_of;
pub(crate) use quota::recount as recount_quotas;

use crate::auth::Identity;
use crate::kinds::{self, Kind, Registry, Subresource};
use crate::policy::{self, Policies};
use crate::status::{Status, Subject};

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
}

/// Lets the plugins change a new or updated object. Deletions have no object: pass null.
pub fn mutate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    built_in_plugins(context, request, object, old)?;
    if request.operation == Operation::Delete {
        return Ok(());
    }
    policy::mutate(context, request, object, old, |object| {
        // A Service has its addresses by then, and keeps them.
        match allocates(request.kind) {
            true => Ok(()),
            false => built_in_plugins(context, request, object, old),
        }
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
    let creating = request.operation == Operation::Create && request.subresource.is_none();
    // UPSTREAM: a pod gets its service account first.
    if !(creating && request.is("", "Pod")) {
        node_restriction::check(context, request, object, old)?;
    }
    if request.operation == Operation::Delete {
        return Ok(());
    }
    match (&*request.kind.group, &*request.kind.kind) {
        ("", "Pod") if creating => {
            limits::set_defaults(context, request, object);
            service_account::admit(context, request, object)?;
            node_restriction::check(context, request, object, old)?;
            pods::set_priority(context, request, object)?;
            pods::add_default_tolerations(object);
            pods::apply_runtime_class(context, request, object)?;
            pods::label_topology(context, object);
        }
        ("", "Pod") if request.operation == Operation::Update && request.subresource.is_none() => {
            pods::add_default_tolerations(object);
        }
        ("", "Node") if creating => pods::taint_new_node(object),
        ("", "PersistentVolumeClaim") if creating => {
            storage::set_default_class(context, object);
            storage::protect(object, "kubernetes.io/pvc-protection");
        }
        ("", "PersistentVolume") if creating => {
            storage::protect(object, "kubernetes.io/pv-protection")
        }
        ("storage.k8s.io", "VolumeAttributesClass") if creating => {
            storage::protect(object, "kubernetes.io/vac-protection")
        }
        ("", "Service") if request.subresource.is_none() => {
            allocation::allocate(context, request, object, old)?
        }
        ("networking.k8s.io", "Ingress") if creating => {
            networking::set_default_class(context, object)
        }
        ("certificates.k8s.io", "CertificateSigningRequest") if creating => {
            certificates::record_user(context, object)
        }
        _ => {}
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
    if matches!(request.operation, Operation::Create | Operation::Update)
        && request.object_type.is_none()
    {
        if request.subresource.is_none() {
            verdict.warnings = crate::warnings::of(request.kind, object, old);
            let idle = crate::warnings::without_effect(request.kind, object);
            verdict.warnings.extend(idle);
        }
        limits::check(context, request, object)?;
        pods::check_priority_class(context, request, object, old)?;
        storage::check_resize(context, request, object, old)?;
        certificates::check(context, request, object, old)?;
        devices::check_admin_access(context, request, object)?;
        pod_security::check(context, request, object, old, verdict)?;
    }
    policy::validate(context, request, object, old, verdict)
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
    quota::check(context, request, object, old, verdict)?;
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
