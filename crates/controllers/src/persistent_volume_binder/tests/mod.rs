//! Matching and plans in a terse notation first, then the whole against the embedded API server.

mod claims;
mod latest;
mod matching;
mod metrics;
mod reclaims;
mod states;
mod sync;
mod volumes;

use std::sync::Arc;

use api::Resource;
use api::kinds::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Map, Value, json};

/// `name word word=value …`: what a word means stands where it is read.
struct Words<'a> {
    name: &'a str,
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Words<'a> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let words = words.map(|word| word.split_once('=').unwrap_or((word, "")));
        Words {
            name,
            words: words.collect(),
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        let found = self.words.iter().find(|(word, _)| *word == key);
        found.map(|(_, value)| *value)
    }

    fn modes(&self) -> Vec<&'static str> {
        let modes = self.get("modes").unwrap_or("RWO").split(',');
        let long = |mode: &str| match mode {
            "RWO" => "ReadWriteOnce",
            "ROX" => "ReadOnlyMany",
            "RWX" => "ReadWriteMany",
            _ => "ReadWriteOncePod",
        };
        modes.map(long).collect()
    }
}

fn labels(text: Option<&str>) -> Value {
    let pairs = text.unwrap_or_default().split(',');
    let pairs = pairs.filter_map(|pair| pair.split_once(':'));
    let pairs: Map<String, Value> = pairs
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    Value::Object(pairs)
}

/// `v1 size=5Gi class=fast modes=RWO,ROX claim=shop/data/uid phase=Available`, and `by-us` if the controller bound it.
fn volume_json(text: &str) -> Value {
    let words = Words::new(text);
    let claim = words.get("claim").map(|claim| {
        let mut parts = claim.split('/');
        let mut next = || parts.next().unwrap_or_default();
        json!({"namespace": next(), "name": next(), "uid": next()})
    });
    let mut annotations = json!({});
    if words.get("by-us").is_some() {
        annotations["pv.kubernetes.io/bound-by-controller"] = json!("yes");
    }
    for (word, key) in [
        ("made-by", "pv.kubernetes.io/provisioned-by"),
        ("migrated", "pv.kubernetes.io/migrated-to"),
        ("beta", "volume.beta.kubernetes.io/storage-class"),
        ("was", "volume.alpha.kubernetes.io/pre-resize-capacity"),
    ] {
        if let Some(value) = words.get(word) {
            annotations[key] = json!(value);
        }
    }
    let finalizers: Vec<&str> = words
        .get("held")
        .into_iter()
        .flat_map(|held| held.split(','))
        .collect();
    let mut spec = json!({
        "capacity": {"storage": words.get("size").unwrap_or("5Gi")}, "accessModes": words.modes(),
        "storageClassName": words.get("class").unwrap_or_default(), "claimRef": claim,
        "persistentVolumeReclaimPolicy": words.get("policy").unwrap_or("Retain"),
        "volumeMode": words.get("mode").unwrap_or("Filesystem"), "volumeAttributesClassName": words.get("attributes"),
    });
    let (source, given) = match words.get("source").unwrap_or("hostPath") {
        "nfs" => ("nfs", json!({"server": "s", "path": "/p"})),
        "csi" => ("csi", json!({"driver": "d", "volumeHandle": "h"})),
        "iscsi" => (
            "iscsi",
            json!({"targetPortal": "t", "iqn": "iqn.2001-04.com.example:x", "lun": 0}),
        ),
        _ => (
            "hostPath",
            json!({"path": words.get("path").unwrap_or("/tmp/data")}),
        ),
    };
    spec[source] = given;
    let deleted_at = words.get("leaving").map(|_| "2024-01-01T00:00:00Z");
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": words.name, "uid": format!("uid-{}", words.name), "annotations": annotations,
            "labels": labels(words.get("labels")), "deletionTimestamp": deleted_at, "finalizers": finalizers,
        },
        "spec": spec, "status": {"phase": words.get("phase").unwrap_or("Available")},
    })
}

fn volume(text: &str) -> Arc<PersistentVolume> {
    Arc::new(PersistentVolume::decode(volume_json(text).to_string().as_bytes()).unwrap())
}

/// `data size=5Gi class=fast volume=v1 done by-us node=n1 phase=Pending`
fn claim_json(text: &str) -> Value {
    let words = Words::new(text);
    let mut annotations = json!({});
    for (word, key, value) in [
        ("done", "pv.kubernetes.io/bind-completed", Some("yes")),
        ("by-us", "pv.kubernetes.io/bound-by-controller", Some("yes")),
        ("node", "volume.kubernetes.io/selected-node", None),
        ("beta", "volume.beta.kubernetes.io/storage-class", None),
        ("asked", "volume.kubernetes.io/storage-provisioner", None),
        (
            "asked-beta",
            "volume.beta.kubernetes.io/storage-provisioner",
            None,
        ),
        ("migrated", "pv.kubernetes.io/migrated-to", None),
    ] {
        if let Some(given) = words.get(word) {
            annotations[key] = json!(value.unwrap_or(given));
        }
    }
    let selector = words
        .get("selects")
        .map(|text| json!({"matchLabels": labels(Some(text))}));
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": words.name, "namespace": "shop", "uid": words.get("uid").unwrap_or("u1"), "annotations": annotations,
        },
        "spec": {
            "accessModes": words.modes(), "storageClassName": words.get("class"),
            "volumeName": words.get("volume").unwrap_or_default(), "volumeMode": words.get("mode").unwrap_or("Filesystem"),
            "resources": {"requests": {"storage": words.get("size").unwrap_or("5Gi")}}, "selector": selector,
            "volumeAttributesClassName": words.get("attributes"),
        },
        "status": {"phase": words.get("phase").unwrap_or("Pending")},
    })
}

fn claim(text: &str) -> Arc<PersistentVolumeClaim> {
    Arc::new(PersistentVolumeClaim::decode(claim_json(text).to_string().as_bytes()).unwrap())
}
