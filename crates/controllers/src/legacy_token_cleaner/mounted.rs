//! Every place where a pod can name a secret. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

/// Adds the names of all secrets that a pod uses.
pub fn mounted_secrets(pod: &Value, names: &mut BTreeSet<String>) {
    let spec = &pod["spec"];
    let mut add = |name: &Value| {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            names.insert(name.to_owned());
        }
    };
    for secret in items(&spec["imagePullSecrets"]) {
        add(&secret["name"]);
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(&spec[containers]) {
            for source in items(&container["envFrom"]) {
                add(&source["secretRef"]["name"]);
            }
            for variable in items(&container["env"]) {
                add(&variable["valueFrom"]["secretKeyRef"]["name"]);
            }
        }
    }
    for volume in items(&spec["volumes"]) {
        add(&volume["secret"]["secretName"]);
        add(&volume["azureFile"]["secretName"]);
        add(&volume["csi"]["nodePublishSecretRef"]["name"]);
        for kind in [
            "cephfs",
            "cinder",
            "flexVolume",
            "rbd",
            "scaleIO",
            "iscsi",
            "storageos",
        ] {
            add(&volume[kind]["secretRef"]["name"]);
        }
        for source in items(&volume["projected"]["sources"]) {
            add(&source["secret"]["name"]);
        }
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
