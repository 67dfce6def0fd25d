//! Claims that find their volumes, and what the two take in memory.

use anyhow::Result;
use real_tests::installation::Installation;
use real_tests::{Api, Flavor};
use serde_json::json;

use super::Options;
use super::fixtures::wait_for;
use super::scenarios::{both, size, until_caches_are_full};
use super::stage::{Phase, Stage, in_parallel, same_controllers};

const CLAIMS: usize = 1000;
/// Volumes and claims that are bound already and only kept.
const KEPT: usize = 5000;
/// A large set of volumes has so many times as many as a small one.
const TIMES: usize = 10;
const SMALL_VOLUMES: usize = 1000;
const SMALL_CLAIMS: usize = 100;
/// Sizes are mixed: 1 to so many Gi.
const SIZES: usize = 20;

pub(super) const VOLUME_PATH: &str = "/api/v1/persistentvolumes";
pub(super) const CLAIM_PATH: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(super) const DRIVER: &str = "disk.example.com";

pub(super) fn claims(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let claims = size(options, CLAIMS);
    both(installation, options, reverse, |stage, flavor| {
        let mut phases = vec![bind(stage, flavor, "bound", claims, claims)?];
        phases.extend(keep(stage, options, flavor)?);
        Ok(phases)
    })
}

/// Matching a claim should not take longer where there are more volumes.
pub(super) fn matching(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let (volumes, claims) = (size(options, SMALL_VOLUMES), size(options, SMALL_CLAIMS));
    let mut phases = both(installation, options, reverse, |stage, flavor| {
        Ok(vec![bind(stage, flavor, "small", volumes, claims)?])
    })?;
    phases.extend(both(installation, options, reverse, |stage, flavor| {
        let (volumes, claims) = (volumes * TIMES, claims * TIMES);
        Ok(vec![bind(stage, flavor, "large", volumes, claims)?])
    })?);
    Ok(phases)
}

/// Claims come to volumes that are there.
fn bind(
    stage: &mut Stage,
    flavor: Flavor,
    name: &'static str,
    volumes: usize,
    claims: usize,
) -> Result<Phase> {
    let api = stage.cluster.api.clone();
    let gibibytes = |number: usize| 1 + number * 7 % SIZES;
    in_parallel(volumes, |number| {
        let volume = json!({
            "metadata": {"name": format!("volume-{number}")},
            "spec": {
                "capacity": {"storage": format!("{}Gi", gibibytes(number))},
                "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "static",
                "csi": {"driver": DRIVER, "volumeHandle": format!("handle-{number}")},
            },
        });
        api.create(VOLUME_PATH, &volume).map(drop)
    })?;
    let mut manager = stage.start_manager(flavor, &same_controllers())?;
    wait_for(&api, VOLUME_PATH, volumes, |volume| {
        volume["status"]["phase"] == "Available"
    })?;
    let bound = stage.measure(name, claims, &mut manager, |cluster| {
        in_parallel(claims, |number| {
            let claim = json!({
                "metadata": {"name": format!("claim-{number}")},
                "spec": {
                    "storageClassName": "static", "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": format!("{}Gi", gibibytes(number))}},
                },
            });
            cluster.api.create(CLAIM_PATH, &claim).map(drop)
        })?;
        wait_for(&cluster.api, CLAIM_PATH, claims, is_bound)
    })?;
    manager.kill();
    Ok(bound)
}

/// A manager that starts without the kept ones, one that starts with claims and volumes, and one with attachments, too.
fn keep(stage: &mut Stage, options: &Options, flavor: Flavor) -> Result<Vec<Phase>> {
    let kept = size(options, KEPT);
    let look = |stage: &mut Stage, name| {
        until_caches_are_full(stage, flavor, &same_controllers(), (name, kept))
    };
    let empty = look(stage, "empty")?;
    let api = stage.cluster.api.clone();
    create_bound(&api, "kept", kept)?;
    let filled = look(stage, "filled")?;
    in_parallel(kept, |number| {
        // Of a volume that is gone: nobody detaches it, because nobody knows what it was.
        let attachment = json!({
            "metadata": {"name": format!("csi-{number:064}"), "annotations": {"csi.alpha.kubernetes.io/node-id": format!("node-{number}")}},
            "spec": {"attacher": DRIVER, "nodeName": format!("node-{number}"), "source": {"persistentVolumeName": format!("gone-{number}")}},
        });
        api.create("/apis/storage.k8s.io/v1/volumeattachments", &attachment)
            .map(drop)
    })?;
    let attached = look(stage, "attached")?;
    Ok(vec![empty, filled, attached])
}

/// Volumes and claims that belong to each other, as the binder leaves them.
pub(super) fn create_bound(api: &Api, prefix: &str, count: usize) -> Result<()> {
    in_parallel(count, |number| {
        let name = format!("{prefix}-{number}");
        let claim = json!({
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {
                "storageClassName": "bound", "volumeName": name, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        let claim = api.create(CLAIM_PATH, &claim)?;
        let status = json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
        api.merge_patch(&format!("{CLAIM_PATH}/{name}/status"), &status)?;
        let volume = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "bound",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": claim["metadata"]["uid"]},
                "csi": {"driver": DRIVER, "volumeHandle": format!("{prefix}-handle-{number}")},
            },
        });
        api.create(VOLUME_PATH, &volume)?;
        let status = json!({"status": {"phase": "Bound"}});
        api.merge_patch(&format!("{VOLUME_PATH}/{name}/status"), &status)
            .map(drop)
    })
}

fn is_bound(claim: &serde_json::Value) -> bool {
    claim["status"]["phase"] == "Bound"
}
