//! What SELinux means for the volumes of a pod: a view of its own, because nobody else reads it of every pod.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};

use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

/// How a pod asks that labels are set file by file.
pub const SELINUX_RECURSIVE: &str = "Recursive";
/// How labels are set by default, where the volume can be mounted with one.
pub const SELINUX_MOUNT_OPTION: &str = "MountOption";

#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodLabels {
    pub metadata: Meta,
    pub phase: Istr,
    /// `spec.securityContext.seLinuxChangePolicy`.
    pub change_policy: Option<Istr>,
    /// The volumes that a container mounts, with the labels of those containers that have one: `user:role:type:level`, of
    /// which any part may be empty.
    pub mounts: BTreeMap<Istr, BTreeSet<Istr>>,
    /// The claims of its volumes, by the names of the volumes; those of ephemeral volumes are named after both.
    pub claims: BTreeMap<Istr, Istr>,
}

crate::view!(PodLabels, ResourceType::namespaced("", "v1", "pods", "Pod"));

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    security_context: SecurityContext,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    phase: Istr,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SecurityContext {
    #[serde(rename = "seLinuxOptions")]
    options: Option<Options>,
    #[serde(rename = "seLinuxChangePolicy")]
    change_policy: Option<Istr>,
}

#[derive(Clone, Deserialize, Default)]
#[serde(default)]
struct Options {
    user: String,
    role: String,
    #[serde(rename = "type")]
    type_: String,
    level: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    #[serde(deserialize_with = "or_default")]
    security_context: SecurityContext,
    #[serde(deserialize_with = "or_default")]
    volume_mounts: Vec<Mount>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Mount {
    name: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: Istr,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: Istr,
}

impl Options {
    /// UPSTREAM: what is left out is filled in on the node, whose defaults nobody knows here.
    fn label(&self) -> Istr {
        let label = format!("{}:{}:{}:{}", self.user, self.role, self.type_, self.level);
        match label.as_str() {
            ":::" => Istr::default(),
            label => Istr::new(label),
        }
    }
}

impl<'de> Deserialize<'de> for PodLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PodLabels, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let spec = &wire.spec;
        let containers = spec.init_containers.iter().chain(&spec.containers);
        let mut mounts: BTreeMap<Istr, BTreeSet<Istr>> = BTreeMap::new();
        for container in containers.chain(&spec.ephemeral_containers) {
            let own = container.security_context.options.as_ref();
            let options = own.or(spec.security_context.options.as_ref());
            for mount in &container.volume_mounts {
                let labels = mounts.entry(mount.name.clone()).or_default();
                labels.extend(options.map(Options::label));
            }
        }
        let claims = spec.volumes.iter().filter_map(|volume| {
            let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(source), _) => source.claim_name.clone(),
                (None, Some(_)) => Istr::new(&format!("{}-{}", wire.metadata.name, volume.name)),
                (None, None) => return None,
            };
            Some((volume.name.clone(), claim))
        });
        Ok(PodLabels {
            claims: claims.collect(),
            mounts,
            phase: wire.status.phase,
            change_policy: wire.spec.security_context.change_policy.clone(),
            metadata: wire.metadata,
        })
    }
}

impl PodLabels {
    pub fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}
