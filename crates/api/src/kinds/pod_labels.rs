//! What SELinux means for the volumes of a pod: a view of its own, because nobody else reads it of every pod.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};

use super::pod::WireVolume;
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
    /// What volumes that stand in it are called by lists of attached volumes, by their names.
    pub inline: BTreeMap<Istr, Istr>,
}

crate::view!(PodLabels, ResourceType::namespaced("", "v1", "pods", "Pod"));

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Wire<'a> {
    metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Spec<'a> {
    #[serde(deserialize_with = "or_default")]
    security_context: SecurityContext,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<WireVolume<'a>>,
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
        let meta = &wire.metadata;
        let claims = spec.volumes.iter().filter_map(|volume| {
            let volume = volume.view(&meta.name)?;
            Some((volume.name, volume.claim_name))
        });
        let inline = spec.volumes.iter().filter_map(|volume| {
            let volume = volume.inline(&meta.namespace)?;
            Some((volume.name, volume.unique_name))
        });
        Ok(PodLabels {
            claims: claims.collect(),
            inline: inline.collect(),
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
