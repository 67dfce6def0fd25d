//! The schema of one kind, taken out of an OpenAPI v3 document, with what it refers to put in. Pure.

use serde_json::{Map, Value, json};

use super::Gvk;

const PREFIX: &str = "#/components/schemas/";
const GVK: &str = "x-kubernetes-group-version-kind";
/// A pod has some 5,000; what refers to itself in many ways is left without a type.
const NODES_MAX: usize = 200_000;
/// Schemas nest no deeper than bodies do.
const DEPTH_MAX: usize = 200;

/// The schema of a kind; nothing if the document does not have it.
pub(super) fn resolve(document: &Value, gvk: &Gvk) -> Option<Value> {
    let schemas = document["components"]["schemas"].as_object()?;
    let wanted = json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind});
    let is_wanted = |schema: &Value| {
        let mut names = schema[GVK].as_array().into_iter().flatten();
        names.any(|name| *name == wanted)
    };
    let (name, root) = schemas.iter().find(|(_, schema)| is_wanted(schema))?;
    let mut resolver = Resolver {
        schemas,
        visited: vec![name],
        nodes: 0,
    };
    resolver.populate(root)
}

struct Resolver<'a> {
    schemas: &'a Map<String, Value>,
    /// What is being put in, from the root on.
    visited: Vec<&'a str>,
    nodes: usize,
}

impl<'a> Resolver<'a> {
    fn populate(&mut self, schema: &'a Value) -> Option<Value> {
        self.nodes += 1;
        if self.nodes > NODES_MAX || self.visited.len() > DEPTH_MAX {
            return None;
        }
        let Some(name) = reference(schema) else {
            return self.members(schema);
        };
        // UPSTREAM: what refers to itself is an object of which nothing is known.
        if self.visited.contains(&name) {
            return Some(json!({"type": "object"}));
        }
        let target = self.schemas.get(name)?;
        self.visited.push(name);
        let populated = self.populate(target);
        self.visited.pop();
        populated
    }

    fn members(&mut self, schema: &'a Value) -> Option<Value> {
        let mut result = Map::new();
        for (name, member) in schema.as_object()? {
            let member = match name.as_str() {
                "properties" => {
                    let properties = member.as_object()?.iter();
                    let properties = properties
                        .map(|(name, schema)| Some((name.clone(), self.populate(schema)?)));
                    Value::Object(properties.collect::<Option<_>>()?)
                }
                "items" | "additionalProperties" if member.is_object() => self.populate(member)?,
                "description" => continue,
                _ => member.clone(),
            };
            result.insert(name.clone(), member);
        }
        // Built-in types say it by their format, custom ones by an extension.
        if schema["format"] == "int-or-string" {
            result.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
        }
        Some(Value::Object(result))
    }
}

/// What a schema refers to, be it wrapped to keep a description of its own.
fn reference(schema: &Value) -> Option<&str> {
    let own = schema.get("$ref");
    let wrapped = schema["allOf"].as_array().into_iter().flatten();
    let mut all = own
        .into_iter()
        .chain(wrapped.filter_map(|part| part.get("$ref")));
    all.find_map(|reference| reference.as_str()?.strip_prefix(PREFIX))
}
