//! DefaultIngressClass.

use std::sync::Arc;

use serde_json::Value;

use super::storage::newest;
use super::{Context, built_in};
use crate::fields::{at, entry, set};

pub(super) fn set_default_class(context: &Context<'_>, ingress: &mut Value) {
    let annotated = entry(
        ingress,
        "metadata.annotations",
        "kubernetes.io/ingress.class",
    )
    .is_some();
    if annotated || !at(ingress, "spec.ingressClassName").is_null() {
        return;
    }
    let classes = context
        .cluster
        .list(built_in("networking.k8s.io", "IngressClass"), "");
    let is_default = |class: &Arc<Value>| {
        entry(
            class,
            "metadata.annotations",
            "ingressclass.kubernetes.io/is-default-class",
        ) == Some("true")
    };
    if let Some(class) = newest(classes.into_iter().filter(is_default)) {
        set(
            ingress,
            "spec.ingressClassName",
            at(&class, "metadata.name").clone(),
        );
    }
}
