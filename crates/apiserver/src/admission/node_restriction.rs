//! NodeRestriction: a kubelet writes its own node, the pods that run there, and what goes with them.
//!
//! The node authorizer cannot look into what is written; this can. Mirrors `plugin/pkg/admission/noderestriction`.

use std::sync::Arc;

use serde_json::Value;

use super::certificates::common_name;
use super::{Context, Operation, Plugin, Request, built_in};
use crate::auth::nodes::node_of;
use crate::fields::{at, entries, entry, flag, list, remove, text};
use crate::kinds::Subresource;
use crate::status::{Status, Subject};

const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Signers of certificates that name a node.
const KUBELET_SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// UPSTREAM: labels of Kubernetes that a kubelet may set on its node, and prefixes of such.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const KUBELET_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// What of a claim's status a kubelet may write.
const CLAIM_STATUS: [&str; 4] = [
    "status.capacity",
    "status.conditions",
    "status.allocatedResourceStatuses",
    "status.allocatedResources",
];

/// Refuses what a kubelet writes beyond its own; everyone else is none of its concern.
pub(crate) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if !context.settings.plugins.has(Plugin::NodeRestriction) {
        return Ok(());
    }
    let Some(node) = node_of(&context.user.user, &context.user.groups) else {
        return Ok(());
    };
    if node.is_empty() {
        let user = &context.user.user;
        return Err(request.forbidden(&format!("could not determine node from user \"{user}\"")));
    }
    let restriction = Restriction {
        context,
        request,
        node,
        object,
        old: old.unwrap_or(&Value::Null),
    };
    restriction.check().map_err(|refused| match refused {
        Refused::Because(why) => request.forbidden(&why),
        Refused::Missing(status) => status,
    })
}

struct Restriction<'a> {
    context: &'a Context<'a>,
    request: &'a Request<'a>,
    node: &'a str,
    object: &'a Value,
    old: &'a Value,
}

enum Refused {
    Because(String),
    Missing(Status),
}

fn refuse(why: impl Into<String>) -> Result<(), Refused> {
    Err(Refused::Because(why.into()))
}

impl Restriction<'_> {
    fn check(&self) -> Result<(), Refused> {
        let subresource = self.request.subresource;
        match (&*self.request.kind.group, &*self.request.kind.kind) {
            ("", "Pod") => match subresource {
                None => self.pod(),
                Some(Subresource::Status) => self.pod_status(),
                Some(Subresource::Eviction) => self.eviction(),
                Some(other) => refuse(format!(
                    "unexpected pod subresource \"{}\", only 'status' and 'eviction' are allowed",
                    other.name()
                )),
            },
            ("", "Node") => self.own_node(),
            ("", "PersistentVolumeClaim") => match subresource {
                Some(Subresource::Status) => self.claim_status(),
                _ => refuse("may only update PVC status"),
            },
            ("", "ServiceAccount") if subresource == Some(Subresource::Token) => self.token(),
            ("coordination.k8s.io", "Lease") => self.lease(),
            ("storage.k8s.io", "CSINode") if self.request.name != self.node => {
                refuse("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "ResourceSlice") => self.slice(),
            ("certificates.k8s.io", "CertificateSigningRequest") => self.certificate_request(),
            ("certificates.k8s.io", "PodCertificateRequest") => self.pod_certificate_request(),
            _ => Ok(()),
        }
    }

    fn pod(&self) -> Result<(), Refused> {
        let node = self.node;
        match self.request.operation {
            Operation::Create => self.mirror_pod(),
            Operation::Delete if text(self.old, "spec.nodeName") != node => refuse(format!(
                "node \"{node}\" can only delete pods with spec.nodeName set to itself"
            )),
            Operation::Delete => Ok(()),
            operation => refuse(format!(
                "unexpected operation \"{}\", node \"{node}\" can only create and delete mirror pods",
                operation.name()
            )),
        }
    }

    fn mirror_pod(&self) -> Result<(), Refused> {
        let (node, pod) = (self.node, self.object);
        if entry(pod, "metadata.annotations", MIRROR).is_none() {
            return refuse(format!(
                "pod does not have \"{MIRROR}\" annotation, node \"{node}\" can only create mirror pods"
            ));
        }
        let only = |what: &str| refuse(format!("node \"{node}\" can only create pods with {what}"));
        if text(pod, "spec.nodeName") != node {
            return only("spec.nodeName set to itself");
        }
        let owner = match list(pod, "metadata.ownerReferences") {
            [] => return only("an owner reference set to itself"),
            [owner] => owner,
            _ => return only("a single owner reference set to itself"),
        };
        let is_node = text(owner, "apiVersion") == "v1"
            && text(owner, "kind") == "Node"
            && text(owner, "name") == node;
        if !is_node {
            return only("an owner reference set to itself");
        }
        if !flag(owner, "controller") {
            return only("a controller owner reference set to itself");
        }
        if flag(owner, "blockOwnerDeletion") {
            return refuse(format!(
                "node \"{node}\" must not set blockOwnerDeletion on an owner reference"
            ));
        }
        let stored = self.find("Node", "nodes", "", node)?;
        let (given, known) = (text(owner, "uid"), text(&stored, "metadata.uid"));
        if given != known {
            return refuse(format!(
                "node {node} UID mismatch: expected {given} got {known}"
            ));
        }
        match reference(pod) {
            Some(what) => refuse(format!(
                "node \"{node}\" can not create pods that reference {what}"
            )),
            None => Ok(()),
        }
    }

    fn pod_status(&self) -> Result<(), Refused> {
        let node = self.node;
        if text(self.old, "spec.nodeName") != node {
            return refuse(format!(
                "node \"{node}\" can only update pod status for pods with spec.nodeName set to itself"
            ));
        }
        let same = |path: &str| at(self.old, path) == at(self.object, path);
        if !same("metadata.labels") {
            return refuse(format!(
                "node \"{node}\" cannot update labels through pod status"
            ));
        }
        if !same("status.resourceClaimStatuses") {
            return refuse(format!(
                "node \"{node}\" cannot update resource claim statues"
            ));
        }
        if !same("status.extendedResourceClaimStatus") {
            return refuse(format!(
                "node \"{node}\" cannot update extended resource claim status"
            ));
        }
        Ok(())
    }

    fn eviction(&self) -> Result<(), Refused> {
        let pod = self.find("Pod", "pods", self.request.namespace, self.request.name)?;
        if text(&pod, "spec.nodeName") != self.node {
            let node = self.node;
            return refuse(format!(
                "node {node} can only evict pods with spec.nodeName set to itself"
            ));
        }
        Ok(())
    }

    fn own_node(&self) -> Result<(), Refused> {
        let (node, name) = (self.node, self.request.name);
        if name != node {
            return refuse(format!(
                "node \"{node}\" is not allowed to modify node \"{name}\""
            ));
        }
        if self.request.operation == Operation::Delete {
            return Ok(());
        }
        let creating = self.request.operation == Operation::Create;
        let same = |path: &str| at(self.old, path) == at(self.object, path);
        if at(self.object, "spec.configSource").is_object() && !same("spec.configSource") {
            return refuse(if creating {
                format!("node \"{node}\" is not allowed to create pods with a non-nil configSource")
            } else {
                format!(
                    "node \"{node}\" is not allowed to update configSource to a new non-nil configSource"
                )
            });
        }
        if !creating && !same("spec.taints") {
            return refuse(format!("node \"{node}\" is not allowed to modify taints"));
        }
        if !creating && !same("metadata.ownerReferences") {
            return refuse(format!(
                "node \"{node}\" is not allowed to modify ownerReferences"
            ));
        }
        let labels = self.forbidden_labels().join(", ");
        match (labels.is_empty(), creating) {
            (true, _) => Ok(()),
            (false, true) => refuse(format!(
                "node \"{node}\" is not allowed to set the following labels: {labels}"
            )),
            (false, false) => refuse(format!("is not allowed to modify labels: {labels}")),
        }
    }

    /// Labels that changed and that a node may not set: they steer pods.
    fn forbidden_labels(&self) -> Vec<&str> {
        let path = "metadata.labels";
        let both = [(self.object, self.old), (self.old, self.object)];
        let changed = both.into_iter().flat_map(|(one, other)| {
            entries(one, path).filter(move |(key, value)| at(other, path).get(*key) != Some(*value))
        });
        let mut labels: Vec<&str> = changed.map(|(key, _)| key).collect();
        labels.retain(|label| is_forbidden(label));
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    fn claim_status(&self) -> Result<(), Refused> {
        let stripped = |claim: &Value| {
            let mut claim = claim.clone();
            for path in CLAIM_STATUS
                .into_iter()
                .chain(["metadata.resourceVersion", "metadata.managedFields"])
            {
                remove(&mut claim, path);
            }
            claim
        };
        if stripped(self.old) != stripped(self.object) {
            let node = self.node;
            return refuse(format!(
                "node \"{node}\" is not allowed to update fields other than status.quantity and status.conditions"
            ));
        }
        Ok(())
    }

    /// A token for a node must be bound to a pod that runs there, and be meant for whom the pod means it.
    fn token(&self) -> Result<(), Refused> {
        let reference = at(self.object, "spec.boundObjectRef");
        let is_pod = text(reference, "apiVersion") == "v1" && text(reference, "kind") == "Pod";
        let (name, uid) = (text(reference, "name"), text(reference, "uid"));
        if !is_pod || name.is_empty() {
            return refuse("node requested token not bound to a pod");
        }
        if uid.is_empty() {
            return refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.find("Pod", "pods", self.request.namespace, name)?;
        if text(&pod, "metadata.uid") != uid {
            return refuse(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            ));
        }
        if text(&pod, "spec.nodeName") != self.node {
            return refuse("node requested token bound to a pod scheduled on a different node");
        }
        let audience = match list(self.object, "spec.audiences") {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return refuse("node may only request 0 or 1 audiences"),
        };
        if self.is_meant_for(&pod, audience) {
            return Ok(());
        }
        let user = &self.context.user.user;
        refuse(format!(
            "audience \"{audience}\" not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        ))
    }

    /// Whether a volume of the pod asks for a token with this audience, itself or through a CSI driver.
    fn is_meant_for(&self, pod: &Value, audience: &str) -> bool {
        list(pod, "spec.volumes").iter().any(|volume| {
            let mut sources = list(volume, "projected.sources").iter();
            sources.any(|source| {
                at(source, "serviceAccountToken").is_object()
                    && text(source, "serviceAccountToken.audience") == audience
            }) || self.driver_of(pod, volume).is_some_and(|driver| {
                list(&driver, "spec.tokenRequests")
                    .iter()
                    .any(|request| text(request, "audience") == audience)
            })
        })
    }

    fn driver_of(&self, pod: &Value, volume: &Value) -> Option<Arc<Value>> {
        let cluster = self.context.cluster;
        let claim = if at(volume, "ephemeral").is_object() {
            format!("{}-{}", text(pod, "metadata.name"), text(volume, "name"))
        } else {
            text(volume, "persistentVolumeClaim.claimName").to_owned()
        };
        let mut driver = text(volume, "csi.driver").to_owned();
        if !claim.is_empty() {
            let kind = built_in("", "PersistentVolumeClaim");
            let claim = cluster.get(kind, self.request.namespace, &claim)?;
            let kind = built_in("", "PersistentVolume");
            let bound = cluster.get(kind, "", text(&claim, "spec.volumeName"))?;
            driver = text(&bound, "spec.csi.driver").to_owned();
        }
        cluster.get(built_in("storage.k8s.io", "CSIDriver"), "", &driver)
    }

    fn lease(&self) -> Result<(), Refused> {
        if self.request.namespace != LEASE_NAMESPACE {
            return refuse(format!(
                "can only access leases in the \"{LEASE_NAMESPACE}\" system namespace"
            ));
        }
        if self.request.name != self.node {
            return refuse("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    fn slice(&self) -> Result<(), Refused> {
        let (slice, verb) = match self.request.operation {
            Operation::Create => (self.object, "create"),
            Operation::Delete => (self.old, "delete"),
            Operation::Update | Operation::Connect => return Ok(()),
        };
        if text(slice, "spec.nodeName") != self.node {
            return refuse(format!(
                "can only {verb} ResourceSlice with the same NodeName as the requesting node"
            ));
        }
        Ok(())
    }

    /// A node asks for certificates of the pods that run on it, and says of all that it names what is known of it.
    fn pod_certificate_request(&self) -> Result<(), Refused> {
        if self.request.operation != Operation::Create {
            return refuse(format!(
                "unexpected operation {}",
                self.request.operation.name()
            ));
        }
        let (namespace, spec) = (self.request.namespace, at(self.object, "spec"));
        let said = |field: &str| text(spec, field);
        let node = said("nodeName");
        if node != self.node {
            return refuse(format!(
                "PodCertificateRequest.Spec.NodeName=\"{node}\", which is not the requesting node \"{}\"",
                self.node
            ));
        }
        let same_uid = |kind: &str, known: &Value, field: &str| {
            let (said, known) = (said(field), text(known, "metadata.uid"));
            match said == known {
                true => Ok(()),
                // UPSTREAM: what it knows may be old, so this is not forbidden for good.
                false => Err(Refused::Missing(Status::unexpected(format!(
                    "PodCertificateRequest names {kind} UID \"{said}\", inconsistent with the one that is there (\"{known}\")"
                )))),
            }
        };
        same_uid("node", &*self.find("Node", "nodes", "", node)?, "nodeUID")?;
        let name = said("podName");
        let pod = self.find("Pod", "pods", namespace, name)?;
        same_uid("pod", &pod, "podUID")?;
        if text(&pod, "spec.nodeName") != node {
            return refuse(format!(
                "pod \"{namespace}/{name}\" is not running on node \"{node}\" named in the PodCertificateRequest"
            ));
        }
        if entry(&pod, "metadata.annotations", MIRROR).is_some() {
            return refuse(format!("pod \"{namespace}/{name}\" is a mirror pod"));
        }
        let (account, own) = (
            said("serviceAccountName"),
            text(&pod, "spec.serviceAccountName"),
        );
        if account != own {
            return refuse(format!(
                "PodCertificateRequest for pod \"{namespace}/{name}\" contains serviceAccountName (\"{account}\") that differs from running pod (\"{own}\")"
            ));
        }
        let account = self.find("ServiceAccount", "serviceaccounts", namespace, account)?;
        same_uid("service account", &account, "serviceAccountUID")
    }

    fn certificate_request(&self) -> Result<(), Refused> {
        let signer = text(self.object, "spec.signerName");
        if self.request.operation != Operation::Create || !KUBELET_SIGNERS.contains(&signer) {
            return Ok(());
        }
        let wanted = format!("system:node:{}", self.node);
        if common_name(text(self.object, "spec.request")) != Some(wanted.clone()) {
            return refuse(format!("can only create a node CSR with CN={wanted}"));
        }
        Ok(())
    }

    fn find(
        &self,
        kind: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Refused> {
        let group = "";
        let found = self
            .context
            .cluster
            .get(built_in(group, kind), namespace, name);
        found.ok_or_else(|| {
            Refused::Missing(Status::not_found(Subject {
                group,
                plural,
                name,
            }))
        })
    }
}

/// What of the API a pod refers to: a mirror pod shows what a kubelet runs without it.
fn reference(pod: &Value) -> Option<&'static str> {
    if !text(pod, "spec.serviceAccountName").is_empty() {
        return Some("serviceaccounts");
    }
    let (secrets, maps) = crate::auth::nodes::referred(pod);
    if !secrets.is_empty() {
        return Some("secrets");
    }
    if !maps.is_empty() {
        return Some("configmaps");
    }
    if !list(pod, "spec.resourceClaims").is_empty() {
        return Some("resourceclaims");
    }
    list(pod, "spec.volumes").iter().find_map(|volume| {
        let has = |name: &str| at(volume, name).is_object();
        let projects = |name: &str| {
            let mut sources = list(volume, "projected.sources").iter();
            sources.any(|source| at(source, name).is_object())
        };
        let known = [
            (has("csi"), "csidrivers (via CSI volumes)"),
            (has("glusterfs"), "endpoints (via glusterFS volumes)"),
            (has("persistentVolumeClaim"), "persistentvolumeclaims"),
            (
                has("ephemeral"),
                "persistentvolumeclaims (via ephemeral volumes)",
            ),
            (
                projects("serviceAccountToken"),
                "serviceaccounts (via projected volumes)",
            ),
            (projects("clusterTrustBundle"), "clustertrustbundles"),
            (projects("podCertificate"), "podcertificates"),
        ];
        known.into_iter().find_map(|(is, what)| is.then_some(what))
    })
}

fn is_forbidden(label: &str) -> bool {
    let prefix = label.split_once('/').map_or("", |(prefix, _)| prefix);
    let within = |domain: &str| {
        prefix == domain
            || prefix
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    let known = KUBELET_LABELS.contains(&label) || KUBELET_PREFIXES.iter().any(|one| within(one));
    within("node-restriction.kubernetes.io")
        || ((within("kubernetes.io") || within("k8s.io")) && !known)
}
