//! DefaultStorageClass, StorageObjectInUseProtection and PersistentVolumeClaimResize.

use std::sync::Arc;

use serde_json::Value;

use super::{Context, Operation, Request, built_in};
use crate::fields::{at, entry, flag, list, set, text};
use crate::resources;
use crate::status::Status;

/// The newest of the default classes; the name decides between equally new ones.
pub(super) fn set_default_class(context: &Context<'_>, claim: &mut Value) {
    // A beta annotation is an answer too.
    let beta = entry(
        claim,
        "metadata.annotations",
        "volume.beta.kubernetes.io/storage-class",
    );
    if beta.is_some() || !at(claim, "spec.storageClassName").is_null() {
        return;
    }
    let classes = context
        .cluster
        .list(built_in("storage.k8s.io", "StorageClass"), "");
    let is_default = |class: &Arc<Value>| {
        [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ]
        .iter()
        .any(|key| entry(class, "metadata.annotations", key) == Some("true"))
    };
    if let Some(class) = newest(classes.into_iter().filter(is_default)) {
        set(
            claim,
            "spec.storageClassName",
            at(&class, "metadata.name").clone(),
        );
    }
}

pub(super) fn newest(objects: impl Iterator<Item = Arc<Value>>) -> Option<Arc<Value>> {
    objects.min_by(|a, b| {
        let created = |object: &Value| text(object, "metadata.creationTimestamp").to_owned();
        let name = |object: &Value| text(object, "metadata.name").to_owned();
        created(b)
            .cmp(&created(a))
            .then_with(|| name(a).cmp(&name(b)))
    })
}

/// A finalizer that stays until nothing uses the object.
pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = list(object, "metadata.finalizers").to_vec();
    if !finalizers.iter().any(|given| given == finalizer) {
        finalizers.push(finalizer.into());
        set(object, "metadata.finalizers", finalizers);
    }
}

pub(super) fn check_resize(
    context: &Context<'_>,
    request: &Request<'_>,
    claim: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let Some(old) = old else { return Ok(()) };
    if !request.is("", "PersistentVolumeClaim")
        || request.operation != Operation::Update
        || request.subresource.is_some()
    {
        return Ok(());
    }
    let size = |claim: &Value| {
        resources::quantity(at(claim, "spec.resources.requests.storage")).unwrap_or_default()
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if text(old, "status.phase") != "Bound" {
        return Err(request.forbidden("Only bound persistent volume claims can be expanded"));
    }
    let (class, before) = (class_of(claim), class_of(old));
    let grows = |name: &str| {
        let class = context
            .cluster
            .get(built_in("storage.k8s.io", "StorageClass"), "", name);
        class.is_some_and(|class| flag(&class, "allowVolumeExpansion"))
    };
    if class.is_empty() || class != before || !grows(class) {
        return Err(request.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ));
    }
    Ok(())
}

fn class_of(claim: &Value) -> &str {
    let beta = entry(
        claim,
        "metadata.annotations",
        "volume.beta.kubernetes.io/storage-class",
    );
    beta.unwrap_or_else(|| text(claim, "spec.storageClassName"))
}
