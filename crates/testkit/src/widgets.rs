//! A custom kind for tests: widgets, which hold whatever they are given.

use api::ResourceType;
use serde_json::json;

use crate::World;

pub const WIDGET: ResourceType = ResourceType::namespaced("example.com", "v1", "widgets", "Widget");

const DEFINITION: ResourceType = ResourceType::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

impl World {
    /// Lets the server serve widgets.
    pub async fn define_widgets(&self) {
        let definition = json!({
            "apiVersion": DEFINITION.api_version(), "kind": DEFINITION.kind,
            "metadata": {"name": WIDGET.to_string()},
            "spec": {
                "group": WIDGET.group, "scope": "Namespaced",
                "names": {"plural": WIDGET.plural, "singular": "widget", "kind": WIDGET.kind, "listKind": "WidgetList"},
                "versions": [{"name": WIDGET.version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        self.create(&DEFINITION, definition).await;
    }

    /// Takes the kind away again, and all widgets with it.
    pub async fn undefine_widgets(&self) {
        self.delete(&DEFINITION, &WIDGET.to_string()).await;
    }
}
