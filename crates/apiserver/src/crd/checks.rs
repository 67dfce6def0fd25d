//! What a definition must be: names, versions, structural schemas, columns and scale paths.

use super::lifecycle::is_built_in;
use super::patterns::Patterns;
use super::schema::Ready;
use super::{approval, rules, structural};
use crate::fields::{at, text};
use crate::status::Cause;
use api::syntax;
use serde_json::{Map, Value};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// What is wrong with a definition, and with how it differs from the one that it replaces.
pub(crate) fn validate(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Faults::default();
    // A label or a condition makes nothing wrong that was right, and looking at a large schema takes its time.
    if old.is_some_and(|old| old["spec"] == definition["spec"]) {
        return approval::validate(definition, old).into_iter().collect();
    }
    names(&mut faults, definition);
    if old.is_none() {
        // It never changes afterwards.
        group(&mut faults, definition);
    }
    versions(&mut faults, definition, old);
    faults.0.extend(crate::validation::conversion(definition));
    if at(definition, "spec.preserveUnknownFields") == true {
        faults.invalid(
            "spec.preserveUnknownFields",
            &Value::Bool(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    faults.0.extend(approval::validate(definition, old));
    if let Some(old) = old {
        for field in [
            "spec.scope",
            "spec.names.kind",
            "spec.group",
            "spec.names.plural",
        ] {
            if at(old, field) != at(definition, field) {
                faults.invalid(field, at(definition, field), "field is immutable");
            }
        }
    }
    faults.0
}

#[derive(Default)]
struct Faults(Vec<Cause>, Patterns);

impl Faults {
    fn add(&mut self, field: &str, reason: &str, message: impl Into<String>) {
        self.0.push(Cause::new(field, reason, message));
    }

    fn invalid(&mut self, field: &str, value: &Value, why: &str) {
        let shown = match value {
            Value::String(text) => syntax::go_quote(text),
            other => other.to_string(),
        };
        self.add(
            field,
            "FieldValueInvalid",
            format!("Invalid value: {shown}: {why}"),
        );
    }

    fn required(&mut self, field: &str, why: &str) {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        self.add(field, "FieldValueRequired", message);
    }

    fn label(&mut self, field: &str, value: &str) {
        for fault in syntax::validate_dns1035_label(value) {
            self.invalid(field, &Value::from(value), &fault);
        }
    }
}

fn names(faults: &mut Faults, definition: &Value) {
    for field in [
        "spec.group",
        "spec.names.plural",
        "spec.names.kind",
        "spec.scope",
    ] {
        if text(definition, field).is_empty() {
            faults.required(field, "");
        }
    }
    if text(definition, "spec.names.kind").is_empty() {
        // They follow from the kind where it is known.
        faults.required("spec.names.listKind", "");
        faults.required("spec.names.singular", "");
    }
    let (group, plural) = (
        text(definition, "spec.group"),
        text(definition, "spec.names.plural"),
    );
    let name = text(definition, "metadata.name");
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        faults.invalid("metadata.name", &Value::from(name), why);
    }
    if !plural.is_empty() {
        faults.label("spec.names.plural", plural);
    }
    for list in ["shortNames", "categories"] {
        let items = at(definition, "spec.names")[list]
            .as_array()
            .into_iter()
            .flatten();
        for (index, item) in items.enumerate() {
            let field = format!("spec.names.{list}[{index}]");
            faults.label(&field, item.as_str().unwrap_or_default());
        }
    }
    let scope = text(definition, "spec.scope");
    if !matches!(scope, "" | "Namespaced" | "Cluster") {
        let why = format!(
            "Unsupported value: \"{scope}\": supported values: \"Cluster\", \"Namespaced\""
        );
        faults.add("spec.scope", "FieldValueNotSupported", why);
    }
}

/// A group is a domain, and the kinds that are built in are no one's to define.
fn group(faults: &mut Faults, definition: &Value) {
    let group = text(definition, "spec.group");
    if group.is_empty() {
        return;
    }
    let problems = syntax::validate_dns1123_subdomain(group);
    if !problems.is_empty() {
        faults.invalid("spec.group", &Value::from(group), &problems.join(","));
    } else if !group.contains('.') {
        let why = "should be a domain with at least one dot";
        faults.invalid("spec.group", &Value::from(group), why);
    }
    let names = at(definition, "spec.names");
    if is_built_in(group, text(names, "plural"), text(names, "kind")) {
        let name = at(definition, "metadata.name");
        let why = "the resource or kind is built into the API server and cannot be defined";
        faults.invalid("metadata.name", name, why);
    }
}

fn versions(faults: &mut Faults, definition: &Value, old: Option<&Value>) {
    let versions = at(definition, "spec.versions")
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let stored = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if stored != 1 {
        let why = "Invalid value: must have exactly one version marked as storage version";
        faults.add("spec.versions", "FieldValueInvalid", why);
    }
    for (index, version) in versions.iter().enumerate() {
        let own = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        faults.label(&format!("{own}.name"), name);
        // UPSTREAM: with a single version, its parts are named as if they were the definition's own.
        let single = versions.len() == 1;
        if single {
            faults.label("spec.version", name);
        }
        let (base, schema_base) = if single {
            (
                "spec".to_owned(),
                "spec.validation.openAPIV3Schema".to_owned(),
            )
        } else {
            (own.clone(), format!("{own}.schema.openAPIV3Schema"))
        };
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            faults.required(&format!("{own}.schema.openAPIV3Schema"), "");
        } else if schema.get("type").is_none() {
            faults.required(
                &format!("{schema_base}.type"),
                "must not be empty at the root",
            );
        } else if schema["type"] != "object" {
            faults.invalid(
                &format!("{schema_base}.type"),
                &schema["type"],
                "must be object at the root",
            );
        } else {
            let before = faults.0.len();
            metadata(faults, &schema_base, schema);
            structure(faults, &schema_base, schema);
            // Rules are looked at once the schema itself is right: their types come from it.
            if faults.0.len() == before {
                let old = old.map(|old| at(old, "spec.versions"));
                faults.0.extend(rules::verify(&schema_base, schema, old));
            }
        }
        scale(faults, &base, &version["subresources"]["scale"]);
        columns(faults, &base, &version["additionalPrinterColumns"]);
    }
}

/// Of the metadata, a schema may speak of the names alone: the rest is the same for all kinds.
fn metadata(faults: &mut Faults, base: &str, schema: &Value) {
    let metadata = &schema["properties"]["metadata"];
    let members = metadata["properties"].as_object();
    let others = members
        .into_iter()
        .flatten()
        .any(|(name, _)| name != "name" && name != "generateName");
    if others {
        let why = "Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified";
        faults.add(
            &format!("{base}.properties[metadata]"),
            "FieldValueForbidden",
            why,
        );
    }
}

fn structure(faults: &mut Faults, path: &str, schema: &Value) {
    if schema.get("$ref").is_some() {
        let why = "Forbidden: $ref is not supported";
        faults.add(&format!("{path}.$ref"), "FieldValueForbidden", why);
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(why) = faults.1.add(pattern)
    {
        faults.invalid(&format!("{path}.pattern"), &schema["pattern"], &why);
    }
    let kind = schema["type"].as_str();
    if let Some(kind) = kind
        && !TYPES.contains(&kind)
    {
        let list = TYPES.map(|kind| format!("\"{kind}\"")).join(", ");
        let why = format!("Unsupported value: \"{kind}\": supported values: {list}");
        faults.add(&format!("{path}.type"), "FieldValueNotSupported", why);
    }
    if kind == Some("array") && !schema["items"].is_object() {
        faults.required(&format!("{path}.items"), "must be specified");
    }
    if let Some(default) = schema.get("default")
        && kind.is_none_or(|kind| TYPES.contains(&kind))
    {
        default_fits(faults, path, schema, default);
    }
    let free = |schema: &Value| {
        schema["x-kubernetes-int-or-string"] == true
            || schema["x-kubernetes-preserve-unknown-fields"] == true
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.properties[{name}]");
        if property.get("type").is_none() && !free(property) {
            faults.required(
                &format!("{path}.type"),
                "must not be empty for specified object fields",
            );
        }
        structure(faults, &path, property);
    }
    for member in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(member).filter(|inner| inner.is_object()) {
            structure(faults, &format!("{path}.{member}"), inner);
        }
    }
}

fn default_fits(faults: &mut Faults, path: &str, schema: &Value, default: &Value) {
    let mut plain = schema.clone();
    if let Some(map) = plain.as_object_mut() {
        map.remove("default");
    }
    let ready = Ready::new(plain);
    for fault in structural::validate(&ready, &ready.value, default, None) {
        // The checker names the value itself by an empty path.
        faults.add(&format!("{path}.default"), &fault.reason, fault.message);
    }
}

fn scale(faults: &mut Faults, base: &str, scale: &Value) {
    if !scale.is_object() {
        return;
    }
    for (member, root) in [
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
    ] {
        let field = format!("{base}.subresources.scale.{member}");
        let path = scale[member].as_str().unwrap_or_default();
        if path.is_empty() {
            faults.required(&field, "");
        } else if !path.starts_with(&format!("{root}.")) {
            let why = format!("should be a json path under {root}");
            faults.invalid(&field, &scale[member], &why);
        }
    }
}

fn columns(faults: &mut Faults, base: &str, columns: &Value) {
    let none = Map::new();
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let column = column.as_object().unwrap_or(&none);
        let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
        let field = |name: &str| format!("{base}.additionalPrinterColumns[{index}].{name}");
        if text("name").is_empty() {
            faults.required(&field("name"), "");
        }
        if text("type").is_empty() {
            let why = format!("must be one of {}", COLUMN_TYPES.join(","));
            faults.required(&field("type"), &why);
        } else if !COLUMN_TYPES.contains(&text("type")) {
            let why = format!("must be one of {}", COLUMN_TYPES.join(","));
            faults.invalid(&field("type"), &Value::from(text("type")), &why);
        }
        if text("jsonPath").is_empty() {
            faults.required(&field("JSONPath"), "");
        } else if !text("jsonPath").starts_with('.') {
            let why = "must be a simple json path starting with .";
            faults.invalid(&field("JSONPath"), &Value::from(text("jsonPath")), why);
        }
    }
}
