//! Volumes and claims, storage classes, attachments and CSI objects.

use std::collections::{BTreeMap, BTreeSet};

use api::syntax;
use serde_json::{Value, json};

use super::place::{Errors, Place};
use super::selectors;
use super::volumes::volume_source;
use crate::resources::quantity;

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

pub(super) fn claim_spec(errors: &mut Errors, spec: &Place<'_>) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "at least 1 access mode is required");
    }
    let selector = spec.field("selector");
    selectors::label_selector(errors, &selector);
    access_modes(errors, &modes);
    let resources_place = spec.field("resources");
    let requests = resources_place.field("requests");
    let size = requests.field("storage");
    // UPSTREAM: the path leaves out `requests`.
    let shown = resources_place.key("storage");
    match quantity(size.value) {
        None => errors.required(&shown, ""),
        Some(size_given) if size_given.sign() <= 0 => {
            errors.invalid(&shown.showing(size.value), "must be greater than zero")
        }
        Some(_) => {}
    }
    for name in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.field(name);
        if !class.text().is_empty() {
            errors.syntax(&class, syntax::validate_dns1123_subdomain);
        }
    }
    errors.one_of_if_set(&spec.field("volumeMode"), &VOLUME_MODES);
    for name in ["dataSource", "dataSourceRef"] {
        let source = spec.field(name);
        if source.is_set() {
            errors.need(&source.field("name"));
            errors.need(&source.field("kind"));
            if source.field("apiGroup").text().is_empty()
                && source.field("kind").text() != "PersistentVolumeClaim"
            {
                errors.invalid(
                    &source,
                    "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                );
            }
        }
    }
}

fn access_modes(errors: &mut Errors, modes: &Place<'_>) {
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            errors.not_supported(&modes.showing(mode.value), &ACCESS_MODES);
        }
    }
    let exclusive = modes.items().any(|mode| mode.text() == "ReadWriteOncePod");
    if exclusive && modes.len() > 1 {
        errors.forbidden(
            modes,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

pub(super) fn claim(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    claim_spec(errors, &spec);
}

/// A claim's spec is fixed but for its size, the attributes class, and the volume it is bound to.
pub(super) fn claim_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    claim(errors, root);
    let spec = root.field("spec");
    let mut frozen = old["spec"].clone();
    crate::fields::copy(&mut frozen, spec.value, "volumeAttributesClassName");
    // A claim from before there was a default class may still get one.
    if old["spec"]["storageClassName"].is_null() {
        crate::fields::copy(&mut frozen, spec.value, "storageClassName");
    }
    let bound = old["spec"]["volumeName"]
        .as_str()
        .is_some_and(|name| !name.is_empty());
    if !bound {
        crate::fields::copy(&mut frozen, spec.value, "volumeName");
    }
    let size =
        |spec: &Value| quantity(&spec["resources"]["requests"]["storage"]).unwrap_or_default();
    let may_resize = old["status"]["phase"] == "Bound";
    if may_resize {
        crate::fields::copy(&mut frozen, spec.value, "resources.requests.storage");
    }
    if &frozen != spec.value {
        errors.forbidden(&spec, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims");
    }
    if may_resize && size(spec.value) < size(&old["spec"]) {
        let resources_place = spec.field("resources");
        let requests = resources_place.field("requests");
        errors.forbidden(
            &requests.field("storage"),
            "field can not be less than status.capacity",
        );
    }
}

pub(super) fn volume(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let modes = spec.field("accessModes");
    errors.need(&modes);
    access_modes(errors, &modes);
    capacity(errors, &spec.field("capacity"));
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.text().is_empty() {
        errors.one_of(&policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.field("nodeAffinity");
    let required = affinity.field("required");
    if required.is_set() {
        selectors::node_selector(errors, &required);
    } else if affinity.is_set() {
        errors.required(&required, "must specify required node constraints");
    }
    const SOURCES: [&str; 22] = [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "flocker",
        "nfs",
        "rbd",
        "quobyte",
        "cephfs",
        "iscsi",
        "cinder",
        "fc",
        "flexVolume",
        "azureFile",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
        "azureDisk",
        "scaleIO",
        "local",
        "storageos",
        "csi",
    ];
    let mut given = 0;
    for kind in SOURCES {
        let source = spec.field(kind);
        if !source.is_set() {
            continue;
        }
        given += 1;
        match kind {
            _ if given > 1 => errors.forbidden(&source, "may not specify more than 1 volume type"),
            "csi" => {
                errors.need(&source.field("driver"));
                errors.need(&source.field("volumeHandle"));
            }
            "local" => {
                errors.need(&source.field("path"));
                if !affinity.is_set() {
                    errors.required(&affinity, "Local volume requires node affinity");
                }
            }
            _ => volume_source(errors, kind, &source),
        }
    }
    if given == 0 {
        errors.required(&spec, "must specify a volume type");
    }
    let path = spec.field("hostPath");
    if path.field("path").text() == "/" && policy.text() == "Recycle" {
        errors.forbidden(&policy, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.field("storageClassName");
    if !class.text().is_empty() {
        errors.syntax(&class, syntax::validate_dns1123_subdomain);
    }
    errors.one_of_if_set(&spec.field("volumeMode"), &VOLUME_MODES);
}

fn capacity(errors: &mut Errors, capacity: &Place<'_>) {
    if capacity.is_empty() {
        errors.required(capacity, "");
    }
    let only_storage = capacity
        .value
        .as_object()
        .is_some_and(|entries| entries.len() == 1 && entries.contains_key("storage"));
    if !only_storage {
        let shown = if capacity.is_set() {
            capacity.value.clone()
        } else {
            json!({})
        };
        errors.not_supported(&capacity.showing(&shown), &["storage"]);
    }
    for (_, amount) in capacity.entries() {
        let Some(size) = quantity(amount.value) else {
            continue;
        };
        if size.sign() < 0 {
            let shown = json!(size.value());
            errors.invalid(&amount.showing(&shown), "must be a valid resource quantity");
        }
        if size.sign() <= 0 {
            errors.invalid(&amount, "must be greater than zero");
        }
    }
}

/// What a volume consists of never changes.
pub(super) fn volume_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    volume(errors, root);
    let spec = root.field("spec");
    const FREE: [&str; 8] = [
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "nodeAffinity",
        "volumeAttributesClassName",
    ];
    let source = |spec: &Value| -> serde_json::Map<String, Value> {
        let fields = spec.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| !FREE.contains(&name.as_str()) && *name != "volumeMode")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    if source(spec.value) != source(&old["spec"]) {
        errors.forbidden(
            &spec.field("persistentvolumesource"),
            "spec.persistentvolumesource is immutable after creation",
        );
    }
    // UPSTREAM: the path leaves out `spec`.
    let mode = spec.field("volumeMode");
    errors.immutable(
        &root.field("volumeMode").showing(mode.value),
        old["spec"].get("volumeMode").unwrap_or(&Value::Null),
    );
    let affinity = spec.field("nodeAffinity");
    if old["spec"]["nodeAffinity"].is_object() && affinity.value != &old["spec"]["nodeAffinity"] {
        errors.invalid(
            &affinity,
            "field is immutable, except for updating from beta label to GA",
        );
    }
}

pub(super) fn storage_class(errors: &mut Errors, root: &Place<'_>) {
    let provisioner = root.field("provisioner");
    if provisioner.text().is_empty() {
        errors.required(&provisioner, "");
    } else {
        let lower = json!(provisioner.text().to_lowercase());
        errors.syntax(
            &provisioner.showing(&lower),
            syntax::validate_qualified_name,
        );
    }
    let parameters = root.field("parameters");
    for (key, _) in parameters.entries() {
        if key.is_empty() {
            let shown = json!("");
            errors.invalid(&parameters.showing(&shown), "field can not be empty.");
        }
    }
    errors.one_of_if_set(&root.field("reclaimPolicy"), &["Delete", "Retain"]);
    let binding = root.field("volumeBindingMode");
    if binding.is_set() {
        errors.one_of(&binding, &["Immediate", "WaitForFirstConsumer"])
    } else {
        errors.required(&binding, "")
    }
    allowed_topologies(errors, &root.field("allowedTopologies"));
}

fn allowed_topologies(errors: &mut Errors, topologies: &Place<'_>) {
    // UPSTREAM: the list of what came before starts with as many empty terms as there are terms, so that an
    // empty term counts as a repetition.
    let mut before = vec![BTreeMap::new(); topologies.len()];
    for topology in topologies.items() {
        let expressions = topology.field("matchLabelExpressions");
        let mut term: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for expression in expressions.items() {
            let values = expression.field("values");
            let values = values.items().map(|value| value.text().to_owned());
            term.insert(expression.field("key").text().to_owned(), values.collect());
        }
        topology_term(errors, &expressions);
        for _ in before.iter().filter(|other| **other == term) {
            errors.duplicate(&expressions.showing(&Value::from("")));
        }
        before.push(term);
    }
}

fn topology_term(errors: &mut Errors, expressions: &Place<'_>) {
    let mut keys = BTreeSet::new();
    for expression in expressions.items() {
        let (key, values) = (expression.field("key"), expression.field("values"));
        errors.need(&values);
        let mut seen = BTreeSet::new();
        for value in values.items().filter(|value| !seen.insert(value.text())) {
            errors.duplicate(&value);
        }
        errors.syntax(&key, syntax::validate_qualified_name);
        if !keys.insert(key.text().to_owned()) {
            errors.duplicate(&key);
        }
    }
}

pub(super) fn storage_class_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    storage_class(errors, root);
    for name in [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ] {
        errors.immutable(&root.field(name), old.get(name).unwrap_or(&Value::Null));
    }
}

pub(super) fn attachment(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let attacher = spec.field("attacher");
    errors.need(&attacher);
    if !attacher.text().is_empty() {
        errors.syntax(&attacher, syntax::validate_dns1123_subdomain);
    }
    let source = spec.field("source");
    let given = ["persistentVolumeName", "inlineVolumeSpec"]
        .iter()
        .filter(|name| source.field(name).is_set())
        .count();
    if given != 1 {
        errors.required(
            &source,
            "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        );
    }
    errors.syntax(&spec.field("nodeName"), syntax::validate_dns1123_subdomain);
}

pub(super) fn driver(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.items() {
        if !matches!(mode.text(), "Persistent" | "Ephemeral") {
            errors.not_supported(&modes.showing(mode.value), &["Persistent", "Ephemeral"]);
        }
    }
    errors.one_of_if_set(
        &spec.field("fsGroupPolicy"),
        &["File", "None", "ReadWriteOnceWithFSType"],
    );
    let mut audiences = BTreeSet::new();
    for request in spec.field("tokenRequests").items() {
        let audience = request.field("audience");
        if !audiences.insert(audience.text().to_owned()) {
            errors.duplicate(&audience);
        }
    }
}

pub(super) fn driver_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    driver(errors, root);
    let spec = root.field("spec");
    let before = |name: &str| old["spec"].get(name).unwrap_or(&Value::Null).clone();
    // UPSTREAM: the field is misspelt.
    let attach = spec.field("attachRequired");
    errors.immutable(
        &spec.field("attachedRequired").showing(attach.value),
        &before("attachRequired"),
    );
    errors.immutable(
        &spec.field("volumeLifecycleModes"),
        &before("volumeLifecycleModes"),
    );
}

pub(super) fn csi_node(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let drivers = spec.field("drivers");
    let mut names = BTreeSet::new();
    for driver in drivers.items() {
        let name = driver.field("name");
        errors.need(&name);
        errors.need(&driver.field("nodeID"));
        if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
            errors.duplicate(&name);
        }
        let allocatable = driver.field("allocatable");
        errors.not_negative(&allocatable.field("count"));
    }
}
