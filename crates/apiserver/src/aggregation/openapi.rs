//! What other servers say of their types, as part of our `/openapi/v2`.

use super::Aggregation;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Schemas by name, and what tells them from others.
#[derive(Default)]
pub(crate) struct Definitions {
    pub(crate) schemas: Map<String, Value>,
    pub(crate) digest: String,
}

impl Aggregation {
    /// The types of all servers that answered, in the order of their APIServices' names.
    pub(crate) fn definitions(&self) -> Vec<Arc<Definitions>> {
        self.definitions.lock().values().cloned().collect()
    }
}

/// The types that the paths of a group version use, directly or through others. UPSTREAM: whatever else a server
/// describes, as it describes what all servers have, is not taken from it.
pub(crate) fn definitions(document: &Value, prefix: &str) -> Definitions {
    let mut used: BTreeMap<&str, &Value> = BTreeMap::new();
    let known = &document["definitions"];
    let paths = document["paths"].as_object().into_iter().flatten();
    let is_meant = |path: &str| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let own = paths.filter(|(path, _)| is_meant(path));
    let mut pending: Vec<&Value> = own.map(|(_, path)| path).collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => {
                let reference = members.get("$ref").and_then(Value::as_str);
                let name = reference.and_then(|text| text.strip_prefix("#/definitions/"));
                if let Some((name, schema)) = name.and_then(|name| Some((name, known.get(name)?)))
                    && used.insert(name, schema).is_none()
                {
                    pending.push(schema);
                }
                pending.extend(members.values());
            }
            _ => {}
        }
    }
    let schemas: Map<String, Value> = used
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema.clone()))
        .collect();
    let schemas = Value::Object(schemas);
    let digest = crate::documents::digest_of(&schemas);
    match schemas {
        Value::Object(schemas) => Definitions { schemas, digest },
        _ => Definitions::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_taken_from_the_paths_of_the_group_version_alone() {
        let to = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        let document = json!({
            "paths": {
                "/apis/a.io/v1/flunders": {"get": {"responses": {"200": {"schema": to("List")}}}},
                "/apis/a.io/v1beta1/flunders": {"get": {"schema": to("Beta")}},
                "/version": {"get": {"schema": to("Version")}},
            },
            "definitions": {
                "List": {"properties": {"items": {"items": to("Flunder")}}},
                "Flunder": {"properties": {"next": to("Flunder"), "gone": to("Missing")}},
                "Beta": {}, "Version": {}, "Unused": {},
            },
        });
        let found = definitions(&document, "/apis/a.io/v1");
        let names: Vec<&String> = found.schemas.keys().collect();
        assert_eq!(names, ["Flunder", "List"]);
        assert!(
            definitions(&json!({"paths": 3}), "/apis/a.io/v1")
                .schemas
                .is_empty()
        );
        assert!(definitions(&Value::Null, "/apis").schemas.is_empty());
    }
}
