//! Defaults of pods and what is in them: containers, probes, volumes.

use serde_json::{Map, Value, json};

use super::{Object, is_missing, object_in, objects_in, set_empty, set_missing, text};
use crate::resources;

/// Files of Secrets, ConfigMaps and the like: rw-r--r--.
const FILE_MODE: i64 = 0o644;

pub(super) fn of(name: &str) -> Option<fn(&mut Object)> {
    Some(match name.strip_prefix("api.core.v1.")? {
        "Pod" => pod,
        "PodSpec" => pod_spec,
        "PodStatus" => |status| {
            same_addresses(status, "podIP", "podIPs");
            same_addresses(status, "hostIP", "hostIPs");
        },
        "Container" | "EphemeralContainer" => container,
        "ContainerPort" => |port| set_empty(port, "protocol", "TCP"),
        "Probe" => probe,
        "GRPCAction" => |action| set_missing(action, "service", ""),
        "HTTPGetAction" => http_get,
        "ObjectFieldSelector" => |selector| set_empty(selector, "apiVersion", "v1"),
        "FileKeySelector" => |selector| set_missing(selector, "optional", false),
        "Volume" => volume,
        "SecretVolumeSource"
        | "ConfigMapVolumeSource"
        | "DownwardAPIVolumeSource"
        | "ProjectedVolumeSource" => |source| set_missing(source, "defaultMode", FILE_MODE),
        // An hour: the shortest a kubelet may ask for is ten minutes.
        "ServiceAccountTokenProjection" => |source| set_missing(source, "expirationSeconds", 3600),
        "HostPathVolumeSource" => |source| set_missing(source, "type", ""),
        "ISCSIVolumeSource" | "ISCSIPersistentVolumeSource" => {
            |source| set_empty(source, "iscsiInterface", "default")
        }
        "RBDVolumeSource" | "RBDPersistentVolumeSource" => rbd,
        "ScaleIOVolumeSource" | "ScaleIOPersistentVolumeSource" => scale_io,
        "AzureDiskVolumeSource" => azure_disk,
        _ => return None,
    })
}

/// One address and the list of addresses: the single one wins where they differ, as older kubelets know only it.
fn same_addresses(status: &mut Object, single: &str, plural: &str) {
    let address = text(status, single).to_owned();
    let addresses = status.get(plural).and_then(Value::as_array);
    let first = addresses
        .and_then(|list| list.first())
        .map(|item| item["ip"].clone());
    match first {
        Some(first) if address.is_empty() => {
            status.insert(single.to_owned(), first);
        }
        Some(first) if first == address.as_str() => {}
        None if address.is_empty() => {}
        _ => {
            status.insert(plural.to_owned(), json!([{"ip": address}]));
        }
    }
}

fn pod(pod: &mut Object) {
    let spec = object_in(pod, "spec");
    for list in ["containers", "initContainers"] {
        for container in objects_in(spec, list) {
            let resources = object_in(container, "resources");
            request_what_is_limited(resources);
        }
    }
    pod_level_resources(spec);
    set_missing(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            for port in objects_in(spec, list).flat_map(|container| objects_in(container, "ports"))
            {
                let number = port.get("containerPort").cloned().unwrap_or(json!(0));
                set_empty(port, "hostPort", number);
            }
        }
    }
}

fn request_what_is_limited(resources: &mut Object) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object) else {
        return;
    };
    let requests = resources.get("requests").and_then(Value::as_object);
    let is_requested = |name: &str| requests.is_some_and(|requests| requests.contains_key(name));
    // Nearly always nothing: this runs twice for each pod, and most say both.
    let missing: Vec<_> = limits
        .iter()
        .filter(|(name, _)| !is_requested(name))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    if requests.is_none() || !missing.is_empty() {
        object_in(resources, "requests").extend(missing);
    }
}

/// What a pod as a whole asks for follows from its containers where it says only a limit.
fn pod_level_resources(spec: &mut Object) {
    let Some(given) = spec.get("resources").and_then(Value::as_object) else {
        return;
    };
    let list = |name: &str| {
        given
            .get(name)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (mut limits, mut requests) = (list("limits"), list("requests"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let whole = Value::Object(Map::from_iter([(
        "spec".to_owned(),
        Value::Object(spec.clone()),
    )]));
    for (name, amount) in resources::container_limits(&whole) {
        let huge_pages = name.starts_with("hugepages-");
        if huge_pages && !requests.contains_key(&*name) {
            limits
                .entry(&*name)
                .or_insert_with(|| amount.to_string().into());
        }
    }
    if !limits.is_empty() {
        for (name, amount) in resources::container_requests(&whole) {
            if matches!(name.as_str(), "cpu" | "memory") {
                requests
                    .entry(&*name)
                    .or_insert_with(|| amount.to_string().into());
            }
        }
        for (name, amount) in &limits {
            if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
                requests
                    .entry(name.clone())
                    .or_insert_with(|| amount.clone());
            }
        }
    }
    let resources = object_in(spec, "resources");
    for (name, list) in [("limits", limits), ("requests", requests)] {
        if !list.is_empty() {
            resources.insert(name.to_owned(), Value::Object(list));
        }
    }
}

fn pod_spec(spec: &mut Object) {
    // The older name is kept as an alias of the newer one, which wins.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    if !account.is_empty() {
        let account = Value::from(account);
        spec.insert("serviceAccount".to_owned(), account.clone());
        spec.insert("serviceAccountName".to_owned(), account);
    }
    set_empty(spec, "dnsPolicy", "ClusterFirst");
    set_empty(spec, "restartPolicy", "Always");
    set_missing(spec, "securityContext", json!({}));
    set_missing(spec, "terminationGracePeriodSeconds", 30);
    set_empty(spec, "schedulerName", "default-scheduler");
}

fn container(container: &mut Object) {
    let policy = pull_policy(text(container, "image"));
    set_empty(container, "imagePullPolicy", policy);
    set_empty(container, "terminationMessagePath", "/dev/termination-log");
    set_empty(container, "terminationMessagePolicy", "File");
}

/// Images without a tag, or with `latest`, are pulled always.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let is_reference = !name.is_empty()
        && !last
            .split(':')
            .next()
            .unwrap_or_default()
            .bytes()
            .any(|byte| byte.is_ascii_uppercase());
    match (tag, digest) {
        (Some("latest"), _) => "Always",
        (None, None) if is_reference => "Always",
        _ => "IfNotPresent",
    }
}

fn probe(probe: &mut Object) {
    for (name, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        set_empty(probe, name, value);
    }
}

fn http_get(action: &mut Object) {
    set_empty(action, "path", "/");
    set_empty(action, "scheme", "HTTP");
}

fn volume(volume: &mut Object) {
    if volume
        .iter()
        .all(|(name, value)| name == "name" || value.is_null())
    {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let policy = pull_policy(text(image, "reference"));
        set_empty(image, "pullPolicy", policy);
    }
}

fn rbd(source: &mut Object) {
    set_empty(source, "pool", "rbd");
    set_empty(source, "user", "admin");
    set_empty(source, "keyring", "/etc/ceph/keyring");
}

fn scale_io(source: &mut Object) {
    set_empty(source, "storageMode", "ThinProvisioned");
    set_empty(source, "fsType", "xfs");
}

fn azure_disk(source: &mut Object) {
    set_missing(source, "cachingMode", "ReadWrite");
    set_missing(source, "fsType", "ext4");
    set_missing(source, "kind", "Shared");
    if is_missing(source, "readOnly") {
        source.insert("readOnly".to_owned(), false.into());
    }
}
