//! What becomes of a volume whose claim is gone. Pure.

use api::kinds::{PersistentVolume, Phase, Pod};
use serde_json::{Value, json};

use super::annotations::{MIGRATED_TO, PROVISIONED_BY};
use super::claim::Event;
use crate::config::Recycler;

/// The name of what makes, deletes and recycles folders of a machine.
pub const HOST_PATH: &str = "kubernetes.io/host-path";

/// Where recyclers run.
pub const RECYCLER_NAMESPACE: &str = "default";

#[derive(Clone, Debug, PartialEq)]
pub enum Reclaim {
    /// It is retained, or a driver deletes it.
    Leave,
    /// Nothing is left of it but the object.
    Delete,
    /// A pod empties it, if it is of a kind that can be emptied.
    Recycle,
    /// Nothing can reclaim it: its phase is Failed.
    Fail(Event),
    /// What deletes such volumes cannot delete this one: the same, and it counts as a failed operation.
    FailDelete(Event),
}

/// Why a volume is not deleted.
enum Undeletable {
    NoPlugin(String),
    Refused(String),
}

pub fn plan(volume: &PersistentVolume) -> Reclaim {
    let migrated = volume.metadata.annotation(MIGRATED_TO).unwrap_or_default();
    match volume.spec.reclaim_policy.as_str() {
        _ if !migrated.is_empty() => Reclaim::Leave,
        "Retain" => Reclaim::Leave,
        "Delete" => match deletable(volume) {
            Ok(true) => Reclaim::Delete,
            Ok(false) => Reclaim::Leave,
            Err(Undeletable::NoPlugin(message)) => {
                Reclaim::Fail(Event::warning("VolumeFailedDelete", message))
            }
            Err(Undeletable::Refused(message)) => {
                Reclaim::FailDelete(Event::warning("VolumeFailedDelete", message))
            }
        },
        "Recycle" => Reclaim::Recycle,
        _ => Reclaim::Fail(Event::warning(
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy",
        )),
    }
}

pub fn has_recycler(volume: &PersistentVolume) -> bool {
    volume.spec.host_path.is_some() || volume.spec.nfs.is_some()
}

/// Is it ours to delete, and not a driver's?
fn deletable(volume: &PersistentVolume) -> Result<bool, Undeletable> {
    let name = &volume.metadata.name;
    let provisioner = volume
        .metadata
        .annotation(PROVISIONED_BY)
        .unwrap_or_default();
    match provisioner {
        HOST_PATH => {}
        "" if volume.spec.csi.is_some() => return Ok(false),
        "" if volume.spec.host_path.is_some() => {}
        "" => {
            let why = match volume.spec.nfs {
                Some(_) => "no deletable volume plugin matched",
                None => "no volume plugin matched",
            };
            return Err(Undeletable::NoPlugin(format!(
                "error getting deleter volume plugin for volume {name:?}: {why}"
            )));
        }
        "kubernetes.io/nfs" => {
            let why = "no deletable volume plugin matched";
            return Err(Undeletable::NoPlugin(why.to_owned()));
        }
        other if other.starts_with("kubernetes.io/") => {
            let why = format!("no volume plugin matched name: {other}");
            return Err(Undeletable::NoPlugin(why));
        }
        _ => return Ok(false),
    }
    let Some(held) = &volume.spec.host_path else {
        return Err(Undeletable::Refused(format!(
            "failed to create deleter for volume {name:?}: spec.PersistentVolumeSource.HostPath is nil"
        )));
    };
    // UPSTREAM: anywhere in the path.
    let is_temporary = held
        .path
        .split_once("/tmp/")
        .is_some_and(|(_, rest)| !rest.is_empty());
    match is_temporary {
        true => Ok(true),
        false => Err(Undeletable::Refused(format!(
            "host_path deleter only supports /tmp/.+ but received provided {}",
            held.path
        ))),
    }
}

/// How far the recycling of a volume has come, by its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recycling {
    Start,
    Wait,
    Done,
    Failed,
}

pub fn recycling(pod: Option<&Pod>) -> Recycling {
    match pod {
        None => Recycling::Start,
        // Its name is not free yet.
        Some(pod) if pod.metadata.is_terminating() => Recycling::Wait,
        Some(pod) => match pod.status.phase {
            Phase::Succeeded => Recycling::Done,
            Phase::Failed => Recycling::Failed,
            Phase::Pending | Phase::Running | Phase::Unknown => Recycling::Wait,
        },
    }
}

pub fn recycler_name(volume: &str) -> String {
    format!("recycler-for-{volume}")
}

/// The volume that a pod recycles, by its name.
pub fn recycled_by(pod: &Pod) -> Option<&str> {
    let meta = &pod.metadata;
    let name = meta.name.strip_prefix("recycler-for-")?;
    (meta.namespace == RECYCLER_NAMESPACE).then_some(name)
}

/// The pod that empties a volume.
pub fn recycler(volume: &PersistentVolume, settings: &Recycler) -> Value {
    let (source, least, increment) = match (&volume.spec.host_path, &volume.spec.nfs) {
        (Some(held), _) => (
            json!({"name": "vol", "hostPath": {"path": held.path}}),
            settings.minimum_timeout_host_path,
            settings.increment_timeout_host_path,
        ),
        (None, held) => (
            json!({"name": "vol", "nfs": held.as_ref().map(|held| json!({"server": held.server, "path": held.path}))}),
            settings.minimum_timeout_nfs,
            settings.increment_timeout_nfs,
        ),
    };
    let size = volume.spec.storage.as_ref().map_or(0, |size| size.value());
    let by_size = (size >> 30).saturating_mul(increment.into());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": recycler_name(&volume.metadata.name), "namespace": RECYCLER_NAMESPACE},
        "spec": {
            "activeDeadlineSeconds": by_size.max(least.into()),
            "restartPolicy": "Never",
            "volumes": [source],
            "containers": [{
                "name": "pv-recycler",
                "image": "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
                "command": ["/bin/sh"],
                "args": ["-c", "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1"],
                "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
            }],
        },
    })
}
