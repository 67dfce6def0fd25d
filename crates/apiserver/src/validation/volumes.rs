//! Volumes of pods and the sources they share with PersistentVolumes.

use std::collections::BTreeSet;

use api::syntax;

use super::containers::{
    VOLUME_FIELDS, field_reference, local_path, no_back_steps, resource_field,
};
use super::place::{Errors, Place};
use super::storage;

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Validates volumes and answers the names that mounts may use.
pub(super) fn volumes(errors: &mut Errors, volumes: &Place<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for volume in volumes.items() {
        let name = volume.field("name");
        let faults = errors.0.len();
        errors.name(&name, syntax::validate_dns1123_label);
        if names.contains(name.text()) {
            errors.duplicate(&name);
        }
        let mut given = 0;
        let sources = volume
            .value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| *key != "name" && !value.is_null());
        // UPSTREAM: emptyDir and hostPath come first, so it is the later ones that are too many.
        let mut kinds: Vec<_> = sources.map(|(key, _)| key.as_str()).collect();
        kinds.sort_by_key(|kind| (!matches!(*kind, "emptyDir"), !matches!(*kind, "hostPath")));
        for kind in kinds {
            let source = volume.field(kind);
            given += 1;
            if given > 1 {
                errors.forbidden(&source, "may not specify more than 1 volume type");
            } else {
                volume_source(errors, kind, &source);
            }
        }
        if given == 0 {
            errors.required(&volume, "must specify a volume type");
        }
        if errors.0.len() == faults {
            // UPSTREAM: a bad volume has no name that another could share.
            names.insert(name.text().to_owned());
        }
    }
    names
}

/// One source, by the name of its field.
pub(super) fn volume_source(errors: &mut Errors, kind: &str, source: &Place<'_>) {
    match kind {
        "emptyDir" => {
            let size = source.field("sizeLimit");
            if crate::resources::quantity(size.value).is_some_and(|size| size.sign() < 0) {
                errors.forbidden(&size, "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => host_path(errors, source),
        "secret" => {
            errors.need(&source.field("secretName"));
            files(errors, source, "items");
        }
        "configMap" => {
            errors.need(&source.field("name"));
            files(errors, source, "items");
        }
        "downwardAPI" => {
            mode(errors, &source.field("defaultMode"));
            let items = source.field("items");
            for item in items.items() {
                downward_file(errors, &item, source);
            }
        }
        "projected" => projected(errors, source),
        "persistentVolumeClaim" => errors.need(&source.field("claimName")),
        "nfs" => {
            errors.need(&source.field("server"));
            let path = source.field("path");
            errors.need(&path);
            if !path.text().is_empty() && !path.text().starts_with('/') {
                errors.invalid(&path, "must be an absolute path");
            }
        }
        "csi" => errors.need(&source.field("driver")),
        "ephemeral" => {
            let template = source.field("volumeClaimTemplate");
            if !template.is_set() {
                errors.required(&template, "");
            } else {
                let spec = template.field("spec");
                storage::claim_spec(errors, &spec);
            }
        }
        "iscsi" => {
            for name in ["targetPortal", "iqn"] {
                errors.need(&source.field(name));
            }
            errors.within(&source.field("lun"), 0, 255);
        }
        "gcePersistentDisk" => errors.need(&source.field("pdName")),
        "awsElasticBlockStore" | "cinder" => errors.need(&source.field("volumeID")),
        "rbd" => {
            errors.need(&source.field("monitors"));
            errors.need(&source.field("image"));
        }
        "cephfs" => errors.need(&source.field("monitors")),
        "azureFile" => {
            errors.need(&source.field("secretName"));
            errors.need(&source.field("shareName"));
        }
        "image" => {
            errors.need(&source.field("reference"));
            errors.one_of_if_set(
                &source.field("pullPolicy"),
                &["Always", "IfNotPresent", "Never"],
            );
        }
        _ => {}
    }
}

pub(super) fn host_path(errors: &mut Errors, source: &Place<'_>) {
    let path = source.field("path");
    if path.text().is_empty() {
        errors.required(&path, "");
        return;
    }
    no_back_steps(errors, &path);
    errors.one_of_if_set(&source.field("type"), &HOST_PATH_TYPES);
}

fn mode(errors: &mut Errors, place: &Place<'_>) {
    if place
        .integer()
        .is_some_and(|mode| !(0..=0o777).contains(&mode))
    {
        errors.invalid(
            place,
            "must be a number between 0 and 0777 (octal), both inclusive",
        );
    }
}

/// Keys and the files they become.
fn files(errors: &mut Errors, source: &Place<'_>, list: &str) {
    mode(errors, &source.field("defaultMode"));
    let items = source.field(list);
    for item in items.items() {
        errors.need(&item.field("key"));
        let path = item.field("path");
        errors.need(&path);
        local_path(errors, &path);
        mode(errors, &item.field("mode"));
    }
}

fn downward_file(errors: &mut Errors, item: &Place<'_>, source: &Place<'_>) {
    let path = item.field("path");
    errors.need(&path);
    local_path(errors, &path);
    let (field, resource) = (item.field("fieldRef"), item.field("resourceFieldRef"));
    if field.is_set() {
        field_reference(errors, &field, &VOLUME_FIELDS);
        if resource.is_set() {
            errors.invalid(
                source,
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if resource.is_set() {
        errors.need(&resource.field("containerName"));
        resource_field(errors, &resource);
    } else {
        errors.required(source, "one of fieldRef and resourceFieldRef is required");
    }
    mode(errors, &item.field("mode"));
}

fn projected(errors: &mut Errors, source: &Place<'_>) {
    mode(errors, &source.field("defaultMode"));
    let sources = source.field("sources");
    for one in sources.items() {
        let (secret, map) = (one.field("secret"), one.field("configMap"));
        for reference in [&secret, &map] {
            if reference.is_set() {
                errors.need(&reference.field("name"));
                files(errors, reference, "items");
            }
        }
        let downward = one.field("downwardAPI");
        let items = downward.field("items");
        for item in items.items() {
            downward_file(errors, &item, &downward);
        }
        let token = one.field("serviceAccountToken");
        if token.is_set() {
            let seconds = token.field("expirationSeconds");
            if seconds.integer().is_some_and(|seconds| seconds < 600) {
                errors.invalid(&seconds, "may not specify a duration less than 10 minutes");
            }
            // UPSTREAM: the path of this error is that of the volume source.
            if token.field("path").text().is_empty() {
                errors.required(&source.field("path"), "");
            }
        }
    }
}
