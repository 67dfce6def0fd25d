//! Which admission plugins run, by upstream's names.

use super::{Operation, Request};
use crate::fields::{at, list, list_mut, set, text};
use crate::status::{Cause, Status};
use serde_json::{Value, json};

/// An admission plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    AlwaysAdmit,
    AlwaysDeny,
    AlwaysPullImages,
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
    DefaultIngressClass,
    DefaultStorageClass,
    DefaultTolerationSeconds,
    DenyServiceExternalIps,
    EventRateLimit,
    ExtendedResourceToleration,
    ImagePolicyWebhook,
    JobValidation,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    NamespaceAutoProvision,
    NamespaceExists,
    NamespaceLifecycle,
    NodeDeclaredFeatureValidator,
    NodeRestriction,
    OwnerReferencesPermissionEnforcement,
    PersistentVolumeClaimResize,
    PodGroupProtection,
    PodGroupWorkloadExists,
    PodNodeSelector,
    PodResizeValidator,
    PodSecurity,
    PodTolerationRestriction,
    PodTopologyLabels,
    Priority,
    ResourceQuota,
    RuntimeClass,
    ServiceAccount,
    StorageObjectInUseProtection,
    TaintNodesByCondition,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
}

/// UPSTREAM: all plugins in the order in which they run, and whether they are on unless told otherwise.
const ALL: [(&str, bool, Plugin); 41] = [
    ("AlwaysAdmit", false, Plugin::AlwaysAdmit),
    (
        "NamespaceAutoProvision",
        false,
        Plugin::NamespaceAutoProvision,
    ),
    ("NamespaceLifecycle", true, Plugin::NamespaceLifecycle),
    ("NamespaceExists", false, Plugin::NamespaceExists),
    (
        "LimitPodHardAntiAffinityTopology",
        false,
        Plugin::LimitPodHardAntiAffinityTopology,
    ),
    ("LimitRanger", true, Plugin::LimitRanger),
    ("ServiceAccount", true, Plugin::ServiceAccount),
    ("NodeRestriction", false, Plugin::NodeRestriction),
    ("TaintNodesByCondition", true, Plugin::TaintNodesByCondition),
    ("AlwaysPullImages", false, Plugin::AlwaysPullImages),
    ("ImagePolicyWebhook", false, Plugin::ImagePolicyWebhook),
    ("PodSecurity", true, Plugin::PodSecurity),
    ("PodNodeSelector", false, Plugin::PodNodeSelector),
    ("Priority", true, Plugin::Priority),
    (
        "DefaultTolerationSeconds",
        true,
        Plugin::DefaultTolerationSeconds,
    ),
    (
        "PodTolerationRestriction",
        false,
        Plugin::PodTolerationRestriction,
    ),
    ("EventRateLimit", false, Plugin::EventRateLimit),
    (
        "ExtendedResourceToleration",
        false,
        Plugin::ExtendedResourceToleration,
    ),
    ("DefaultStorageClass", true, Plugin::DefaultStorageClass),
    (
        "StorageObjectInUseProtection",
        true,
        Plugin::StorageObjectInUseProtection,
    ),
    ("PodGroupProtection", true, Plugin::PodGroupProtection),
    (
        "OwnerReferencesPermissionEnforcement",
        false,
        Plugin::OwnerReferencesPermissionEnforcement,
    ),
    (
        "PersistentVolumeClaimResize",
        true,
        Plugin::PersistentVolumeClaimResize,
    ),
    ("RuntimeClass", true, Plugin::RuntimeClass),
    ("CertificateApproval", true, Plugin::CertificateApproval),
    ("CertificateSigning", true, Plugin::CertificateSigning),
    (
        "ClusterTrustBundleAttest",
        true,
        Plugin::ClusterTrustBundleAttest,
    ),
    (
        "CertificateSubjectRestriction",
        true,
        Plugin::CertificateSubjectRestriction,
    ),
    ("DefaultIngressClass", true, Plugin::DefaultIngressClass),
    (
        "DenyServiceExternalIPs",
        false,
        Plugin::DenyServiceExternalIps,
    ),
    ("PodTopologyLabels", true, Plugin::PodTopologyLabels),
    (
        "PodGroupWorkloadExists",
        true,
        Plugin::PodGroupWorkloadExists,
    ),
    (
        "NodeDeclaredFeatureValidator",
        true,
        Plugin::NodeDeclaredFeatureValidator,
    ),
    ("JobValidation", true, Plugin::JobValidation),
    ("PodResizeValidator", true, Plugin::PodResizeValidator),
    (
        "MutatingAdmissionPolicy",
        true,
        Plugin::MutatingAdmissionPolicy,
    ),
    (
        "MutatingAdmissionWebhook",
        true,
        Plugin::MutatingAdmissionWebhook,
    ),
    (
        "ValidatingAdmissionPolicy",
        true,
        Plugin::ValidatingAdmissionPolicy,
    ),
    (
        "ValidatingAdmissionWebhook",
        true,
        Plugin::ValidatingAdmissionWebhook,
    ),
    ("ResourceQuota", true, Plugin::ResourceQuota),
    ("AlwaysDeny", false, Plugin::AlwaysDeny),
];

/// A choice of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugins(u64);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("admission plugin {name:?} is unknown; known are {}", names().collect::<Vec<_>>().join(", "))]
    Unknown { name: String },
    #[error("{0} in enable-admission-plugins and disable-admission-plugins overlapped")]
    Both(String),
}

/// All plugins of upstream.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, ..)| *name)
}

impl Default for Plugins {
    /// Those that upstream has on by default.
    fn default() -> Plugins {
        let on = ALL.iter().filter(|(_, on, _)| *on);
        Plugins(on.fold(0, |bits, (_, _, plugin)| bits | bit(*plugin)))
    }
}

impl Plugins {
    /// `--enable-admission-plugins` and `--disable-admission-plugins` upon the defaults.
    pub fn chosen(enabled: &[String], disabled: &[String]) -> Result<Plugins, Vec<PluginError>> {
        let mut plugins = Plugins::default();
        let mut errors = Vec::new();
        for (names, on) in [(disabled, false), (enabled, true)] {
            for name in names {
                if on && disabled.contains(name) {
                    errors.push(PluginError::Both(name.clone()));
                    continue;
                }
                match (ALL.iter().find(|(known, ..)| known == name), on) {
                    (None, _) => errors.push(PluginError::Unknown { name: name.clone() }),
                    (Some((_, _, plugin)), true) => plugins.0 |= bit(*plugin),
                    (Some((_, _, plugin)), false) => plugins.0 &= !bit(*plugin),
                }
            }
        }
        match errors.is_empty() {
            true => Ok(plugins),
            false => Err(errors),
        }
    }

    /// `--admission-control`: these and no others.
    pub fn only(names: &[String]) -> Result<Plugins, Vec<PluginError>> {
        let is_off = |name: &&str| !names.iter().any(|wanted| wanted == name);
        let off: Vec<String> = self::names().filter(is_off).map(str::to_owned).collect();
        Plugins::chosen(names, &off)
    }

    pub fn with_node_restriction(mut self) -> Plugins {
        self.0 |= bit(Plugin::NodeRestriction);
        self
    }

    /// Whether the plugin of a name is one of these.
    pub(super) fn has_named(self, name: &str) -> bool {
        let plugin = ALL.iter().find(|(known, ..)| *known == name);
        plugin.is_some_and(|(.., plugin)| self.has(*plugin))
    }

    pub fn has(self, plugin: Plugin) -> bool {
        self.0 & bit(plugin) != 0
    }
}

fn bit(plugin: Plugin) -> u64 {
    1 << plugin as u32
}

/// AlwaysPullImages: nobody uses an image that another pod of the node was allowed to pull.
pub(super) fn pull_always(pod: &mut Value) {
    for path in ["spec.initContainers", "spec.containers"] {
        for container in list_mut(pod, path).into_iter().flatten() {
            set(container, "imagePullPolicy", json!("Always"));
        }
    }
}

/// DenyServiceExternalIPs: no address may be added that is not the server's to give.
pub(super) fn check_external_ips(
    request: &Request<'_>,
    service: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let held = old.map_or(&[][..], |old| list(old, "spec.externalIPs"));
    let is_new = |address: &&Value| !held.contains(address);
    match list(service, "spec.externalIPs").iter().find(is_new) {
        Some(_) => Err(request.forbidden("Use of external IPs is denied by admission control")),
        None => Ok(()),
    }
}

/// Containers of a server that is told to allow no privileged ones.
pub(super) fn check_privileged(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    let Some((path, spec)) = pod_spec(request, object) else {
        return Ok(());
    };
    let mut causes = Vec::new();
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in list(spec, containers).iter().enumerate() {
            if at(container, "securityContext.privileged") == &Value::Bool(true) {
                causes.push(Cause::new(
                    format!("{path}.{containers}[{index}].securityContext.privileged"),
                    "FieldValueForbidden",
                    "Forbidden: disallowed by cluster policy",
                ));
            }
        }
    }
    if causes.is_empty() || request.operation == Operation::Delete {
        return Ok(());
    }
    let kind = request.kind;
    let name = text(object, "metadata.name");
    Err(Status::invalid(&kind.group, &kind.kind, name, causes))
}

fn pod_spec<'a>(request: &Request<'_>, object: &'a Value) -> Option<(String, &'a Value)> {
    if request.is("", "Pod") {
        return Some(("spec".to_owned(), at(object, "spec")));
    }
    let path = format!("{}.spec", request.kind.pod_template()?);
    let spec = at(object, &path);
    spec.is_object().then_some((path, spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn flags_change_the_defaults() {
        let plugins =
            Plugins::chosen(&owned(&["NodeRestriction"]), &owned(&["ServiceAccount"])).unwrap();
        assert!(plugins.has(Plugin::NodeRestriction) && plugins.has(Plugin::LimitRanger));
        assert!(!plugins.has(Plugin::ServiceAccount) && !plugins.has(Plugin::AlwaysDeny));
        let only = Plugins::only(&owned(&["AlwaysDeny"])).unwrap();
        assert!(only.has(Plugin::AlwaysDeny) && !only.has(Plugin::LimitRanger));
    }

    #[test]
    fn what_cannot_be_turned_on_is_refused_by_name() {
        let refused = Plugins::chosen(&owned(&["Nothing"]), &[]).unwrap_err();
        assert_eq!(refused.len(), 1);
        assert!(refused[0].to_string().contains("\"Nothing\" is unknown"));
        let both = Plugins::chosen(&owned(&["Priority"]), &owned(&["Priority"]));
        assert_eq!(both, Err(vec![PluginError::Both("Priority".into())]));
    }

    #[test]
    fn each_plugin_has_a_bit_and_a_name() {
        let mut bits: Vec<u64> = ALL.iter().map(|one| bit(one.2)).collect();
        let count = bits.len();
        bits.sort_unstable();
        bits.dedup();
        assert_eq!(bits.len(), count);
    }
}
