//! What a kubelet may do: upstream's node authorizer.
//!
//! A node may read the objects that its own pods refer to, and nobody else's. Upstream keeps a graph for this;
//! here the pods of the node are looked through, because a machine of the size that this server is for has few
//! real kubelets.

use super::Identity;
use super::rbac::rules_in;
use super::rules::{Attributes, Rule};
use crate::fields::{at, list, text};
use crate::kinds;
use crate::storage::{Store, Stored};
use api::selector::FieldSelector;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// The group of all nodes, and what their user names begin with.
const GROUP: &str = "system:nodes";
const PREFIX: &str = "system:node:";

/// What kubelets with leases renew, and where.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// What every node may do, whatever is stored under the role's name.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let roles = crate::bootstrap::rbac_objects(crate::bootstrap::Previews::ALL);
    let node = roles
        .iter()
        .find(|role| role["kind"] == "ClusterRole" && role["metadata"]["name"] == "system:node");
    node.map(rules_in).unwrap_or_default()
});

/// The name of the node that a user is.
pub(crate) fn node_of<'a>(user: &'a str, groups: &[String]) -> Option<&'a str> {
    let name = user.strip_prefix(PREFIX)?;
    groups.iter().any(|group| group == GROUP).then_some(name)
}

/// Whether a node may do what it asks for; the error says why not, if there is more to say than no. `None`: it
/// is no node.
pub(crate) fn decide(
    store: &Store,
    identity: &Identity,
    asked: &Attributes<'_>,
) -> Option<Result<(), String>> {
    let node = node_of(&identity.user, &identity.groups)?;
    if node.is_empty() {
        return Some(Err(format!("unknown node for user \"{}\"", identity.user)));
    }
    let request = Request { store, node, asked };
    Some(request.decide())
}

struct Request<'a> {
    store: &'a Store,
    node: &'a str,
    asked: &'a Attributes<'a>,
}

type Decision = Result<(), String>;

fn refuse(why: impl Into<String>) -> Decision {
    Err(why.into())
}

impl Request<'_> {
    fn decide(&self) -> Decision {
        let Attributes {
            verb,
            group,
            resource,
            subresource,
            ..
        } = *self.asked;
        match (group, resource) {
            ("", "secrets" | "configmaps") => self.read_related(),
            ("", "persistentvolumeclaims") if subresource == "status" => match verb {
                "update" | "patch" => self.related(),
                _ => refuse("can only get/update/patch this type"),
            },
            ("", "persistentvolumeclaims" | "persistentvolumes")
            | ("resource.k8s.io", "resourceclaims")
            | ("storage.k8s.io", "volumeattachments") => self.get_related(),
            ("", "serviceaccounts") => self.service_account(),
            ("", "nodes") => self.own_node(),
            ("", "pods") => self.pod(),
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.slice(),
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate_request(),
            _ if RULES.iter().any(|rule| rule.allows(self.asked)) => Ok(()),
            _ => refuse(""),
        }
    }

    fn get_related(&self) -> Decision {
        if self.asked.verb != "get" {
            return refuse("can only get individual resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return refuse("cannot get subresource");
        }
        self.related()
    }

    fn read_related(&self) -> Decision {
        if !matches!(self.asked.verb, "get" | "list" | "watch") {
            return refuse("can only read resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if self.asked.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.related()
    }

    fn related(&self) -> Decision {
        if self.asked.name.is_empty() {
            return refuse("No Object name found");
        }
        if self.is_related() {
            return Ok(());
        }
        let node = self.node;
        refuse(format!(
            "no relationship found between node '{node}' and this object"
        ))
    }

    fn service_account(&self) -> Decision {
        let Attributes {
            verb, subresource, ..
        } = *self.asked;
        if verb == "get" && subresource.is_empty() {
            return self.read_related();
        }
        if verb != "create" || self.asked.name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        }
        if subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        self.related()
    }

    fn own_node(&self) -> Decision {
        let (node, name) = (self.node, self.asked.name);
        match (self.asked.subresource, self.asked.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => refuse(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            ("", "get" | "list" | "watch") => refuse(format!(
                "node '{node}' cannot read '{name}', only its own Node object"
            )),
            _ => refuse(""),
        }
    }

    fn pod(&self) -> Decision {
        match (self.asked.subresource, self.asked.verb) {
            ("", "get") => self.get_related(),
            ("", "list" | "watch") if self.selects_own("spec.nodeName") => Ok(()),
            ("", "list" | "watch") if !self.asked.name.is_empty() => self.related(),
            ("", "list" | "watch") => {
                refuse("can only list/watch pods with spec.nodeName field selector")
            }
            // Admission sees to it that they are its own.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => refuse(""),
        }
    }

    fn lease(&self) -> Decision {
        if !is_plain_verb(self.asked.verb) {
            return refuse("can only get, create, update, patch, or delete a node lease");
        }
        if self.asked.namespace != LEASE_NAMESPACE {
            return refuse(format!(
                "can only access leases in the \"{LEASE_NAMESPACE}\" system namespace"
            ));
        }
        if self.asked.verb != "create" && self.asked.name != self.node {
            return refuse("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    fn csi_node(&self) -> Decision {
        if !is_plain_verb(self.asked.verb) {
            return refuse("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.asked.subresource.is_empty() {
            return refuse("cannot authorize CSINode subresources");
        }
        if self.asked.verb != "create" && self.asked.name != self.node {
            return refuse("can only access CSINode with the same name as the requesting node");
        }
        Ok(())
    }

    fn slice(&self) -> Decision {
        if !self.asked.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match self.asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(),
            _ if self.selects_own("spec.nodeName") => Ok(()),
            _ => refuse(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
        }
    }

    fn pod_certificate_request(&self) -> Decision {
        if !self.asked.subresource.is_empty() {
            return refuse("nodes may not access the status subresource of PodCertificateRequests");
        }
        match self.asked.verb {
            // NodeRestriction looks into it.
            "create" => Ok(()),
            "get" => self.related(),
            "list" | "watch" if self.selects_own("spec.nodeName") => Ok(()),
            "list" | "watch" => {
                refuse("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => refuse(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    /// Whether the request selects by a field that must be this node's name.
    fn selects_own(&self, field: &str) -> bool {
        let Ok(selector) = FieldSelector::parse(self.asked.field_selector) else {
            return false;
        };
        let mut requirements = selector.requirements().iter();
        requirements.any(|one| one.field == field && !one.negated && one.value == self.node)
    }

    /// Whether there is a way from the object to the node.
    fn is_related(&self) -> bool {
        let name = self.asked.name;
        match self.asked.resource {
            "pods" => self
                .find("", "Pod")
                .is_some_and(|pod| text(&pod, "spec.nodeName") == self.node),
            "volumeattachments" => self.names_node("storage.k8s.io", "VolumeAttachment"),
            "resourceslices" => self.names_node("resource.k8s.io", "ResourceSlice"),
            "podcertificaterequests" => {
                self.names_node("certificates.k8s.io", "PodCertificateRequest")
            }
            "persistentvolumes" => self
                .find("", "PersistentVolume")
                .is_some_and(|volume| self.uses_volume(&volume)),
            "secrets" => {
                self.a_pod(self.asked.namespace, |pod| {
                    referred(pod).0.contains(&name.to_owned())
                }) || self.secret_of_volume()
            }
            "configmaps" => self.a_pod(self.asked.namespace, |pod| {
                referred(pod).1.contains(&name.to_owned())
            }),
            "persistentvolumeclaims" => {
                self.a_pod(self.asked.namespace, |pod| uses_claim(pod, name))
            }
            "resourceclaims" => {
                self.a_pod(self.asked.namespace, |pod| uses_resource_claim(pod, name))
            }
            "serviceaccounts" => self.a_pod(self.asked.namespace, |pod| {
                text(pod, "spec.serviceAccountName") == name
            }),
            _ => false,
        }
    }

    fn find(&self, group: &str, kind: &str) -> Option<Value> {
        let kind = kinds::find(group, kind)?;
        let key = if kind.namespaced {
            format!("{}/{}", self.asked.namespace, self.asked.name)
        } else {
            self.asked.name.to_owned()
        };
        Some(self.store.get(kind, &key)?.value(kind))
    }

    fn names_node(&self, group: &str, kind: &str) -> bool {
        self.find(group, kind)
            .is_some_and(|object| text(&object, "spec.nodeName") == self.node)
    }

    /// Whether something holds for a pod on this node. UPSTREAM: a mirror pod gives no rights.
    fn a_pod(&self, namespace: &str, holds: impl Fn(&Value) -> bool) -> bool {
        let Some(kind) = kinds::find("", "Pod") else {
            return false;
        };
        let mut fields = kind.selectable_fields.iter();
        let Some(index) = fields.position(|field| field == "spec.nodeName") else {
            return false;
        };
        let on_node = |pod: &&Arc<Stored>| pod.field(kind, index) == self.node;
        let pods = self.store.list_newest(kind, &format!("{namespace}/"));
        pods.iter().filter(on_node).any(|pod| {
            let pod = pod.value(kind);
            let annotations = at(&pod, "metadata.annotations");
            annotations.get("kubernetes.io/config.mirror").is_none() && holds(&pod)
        })
    }

    fn uses_volume(&self, volume: &Value) -> bool {
        let claim = at(volume, "spec.claimRef");
        self.a_pod(text(claim, "namespace"), |pod| {
            uses_claim(pod, text(claim, "name"))
        })
    }

    /// Whether the secret belongs to a volume that a pod of this node uses.
    fn secret_of_volume(&self) -> bool {
        let Some(kind) = kinds::find("", "PersistentVolume") else {
            return false;
        };
        let volumes = self.store.list_newest(kind, "");
        volumes.iter().any(|volume| {
            let volume = volume.value(kind);
            let wanted = (self.asked.namespace.to_owned(), self.asked.name.to_owned());
            volume_secrets(&volume).contains(&wanted) && self.uses_volume(&volume)
        })
    }
}

fn is_plain_verb(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

/// The claim of an ephemeral volume is named after the pod and the volume.
fn uses_claim(pod: &Value, claim: &str) -> bool {
    list(pod, "spec.volumes").iter().any(|volume| {
        text(volume, "persistentVolumeClaim.claimName") == claim
            || (at(volume, "ephemeral").is_object()
                && format!("{}-{}", text(pod, "metadata.name"), text(volume, "name")) == claim)
    })
}

fn uses_resource_claim(pod: &Value, claim: &str) -> bool {
    let named = |path: &str| {
        list(pod, path)
            .iter()
            .any(|one| text(one, "resourceClaimName") == claim)
    };
    named("spec.resourceClaims")
        || named("status.resourceClaimStatuses")
        || text(pod, "status.extendedResourceClaimStatus.resourceClaimName") == claim
}

/// The secrets and config maps that a pod refers to.
pub(crate) fn referred(pod: &Value) -> (Vec<String>, Vec<String>) {
    let mut found = Referred::default();
    for secret in list(pod, "spec.imagePullSecrets") {
        found.secret(text(secret, "name"));
    }
    for path in [
        "spec.containers",
        "spec.initContainers",
        "spec.ephemeralContainers",
        "spec.volumes",
    ] {
        found.collect(at(pod, path));
    }
    (found.secrets, found.config_maps)
}

#[derive(Default)]
struct Referred {
    secrets: Vec<String>,
    config_maps: Vec<String>,
}

impl Referred {
    /// References have telling names wherever they stand.
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                match name.as_str() {
                    "secretRef" | "secretKeyRef" | "nodePublishSecretRef" => {
                        self.secret(text(member, "name"));
                    }
                    // A volume has `secretName`, a source of a projected one has `name`.
                    "secret" | "azureFile" => {
                        self.secret(text(member, "secretName"));
                        self.secret(text(member, "name"));
                    }
                    "configMapRef" | "configMapKeyRef" | "configMap" => {
                        let name = text(member, "name");
                        self.config_maps
                            .extend((!name.is_empty()).then(|| name.to_owned()));
                    }
                    _ => self.collect(member),
                }
            }),
            _ => {}
        }
    }

    fn secret(&mut self, name: &str) {
        self.secrets
            .extend((!name.is_empty()).then(|| name.to_owned()));
    }
}

/// (namespace, name) of the secrets of a volume that kubelets need.
fn volume_secrets(volume: &Value) -> Vec<(String, String)> {
    let own = text(volume, "spec.claimRef.namespace");
    let mut secrets = Vec::new();
    let mut add = |namespace: &str, name: &str| {
        let namespace = if namespace.is_empty() { own } else { namespace };
        if !name.is_empty() {
            secrets.push((namespace.to_owned(), name.to_owned()));
        }
    };
    let azure = at(volume, "spec.azureFile");
    add(text(azure, "secretNamespace"), text(azure, "secretName"));
    for source in [
        "cephfs",
        "cinder",
        "flexVolume",
        "iscsi",
        "rbd",
        "scaleIO",
        "storageos",
    ] {
        let reference = at(at(at(volume, "spec"), source), "secretRef");
        add(text(reference, "namespace"), text(reference, "name"));
    }
    for name in [
        "nodeStageSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let reference = at(at(volume, "spec.csi"), name);
        add(text(reference, "namespace"), text(reference, "name"));
    }
    secrets
}
