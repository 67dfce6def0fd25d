//! The definition itself: what is filled in, what is refused, which kinds it makes.

use super::conversion::Conversion;
use super::schema::Schema;
use super::{CustomVersion, ScalePaths, approval, version_priority};
use crate::fields::{at, set};
use crate::kinds::{Head, Kind, Origin, Subresource, Verbs};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in names, status and conditions: a definition is established as it is written.
pub(crate) fn complete(definition: &mut Value, now: &str) {
    let kind = text(definition, "spec.names.kind").to_owned();
    if text(definition, "spec.names.singular").is_empty() {
        set(
            definition,
            "spec.names.singular",
            json!(kind.to_lowercase()),
        );
    }
    if text(definition, "spec.names.listKind").is_empty() {
        set(
            definition,
            "spec.names.listKind",
            json!(format!("{kind}List")),
        );
    }
    if text(definition, "spec.conversion.strategy").is_empty() {
        set(definition, "spec.conversion", json!({"strategy": "None"}));
    }
    let storage = versions(definition)
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| version["name"].clone());
    let mut stored: Vec<Value> = at(definition, "status.storedVersions")
        .as_array()
        .cloned()
        .unwrap_or_default();
    if let Some(storage) = storage.filter(|storage| !stored.contains(storage)) {
        stored.push(storage);
    }
    let mut conditions = at(definition, "status.conditions")
        .as_array()
        .cloned()
        .unwrap_or_default();
    for (name, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        if !conditions.iter().any(|condition| condition["type"] == name) {
            conditions.push(json!({"type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}));
        }
    }
    let place = conditions
        .iter()
        .position(|condition| condition["type"] == approval::CONDITION);
    let before = place.map(|place| conditions.remove(place));
    conditions.extend(approval::condition(definition, before.as_ref(), now));
    let names = at(definition, "spec.names").clone();
    set(
        definition,
        "status",
        json!({"acceptedNames": names, "storedVersions": stored, "conditions": conditions}),
    );
}

/// The kinds of a definition's served versions.
pub(crate) fn kinds_of(definition: &Value) -> Vec<Kind> {
    let versions = versions(definition);
    let schemas = versions
        .iter()
        .map(|version| Schema::new(schema_of(version)));
    let schemas: Vec<Arc<Schema>> = schemas.map(Arc::new).collect();
    let all = || versions.iter().zip(&schemas);
    let stored = all().find(|(version, _)| version["storage"] == true);
    let storage_schema = stored.map(|(_, schema)| schema.clone()).unwrap_or_default();
    let served = all().filter(|(version, _)| version["served"] == true);
    let conversion = Conversion::of(definition, &schemas);
    let kind = |(version, schema): (&Value, &Arc<Schema>)| {
        let is_stored = version["storage"] == true;
        let schema = schema.clone();
        let mut custom = custom_version(definition, version);
        custom.converts = !is_stored && !schema.is_same_as(&storage_schema);
        custom.conversion = conversion.clone();
        custom.schema = schema;
        custom.storage_schema = storage_schema.clone();
        kind_of(definition, version, custom)
    };
    let mut kinds: Vec<Kind> = served.map(kind).collect();
    let is_like_first = |kind: &Kind| kind.selectable_fields == kinds[0].selectable_fields;
    let fields_differ = conversion.is_some() || !kinds.iter().all(is_like_first);
    if fields_differ {
        for kind in &mut kinds {
            kind.fields_vary = true;
        }
    }
    kinds
}

/// The kind whose objects the definition stores, which are there whether or not any version is served.
pub(crate) fn stored_kind(definition: &Value) -> Option<Kind> {
    let versions = versions(definition);
    let stored = versions.iter().find(|version| version["storage"] == true);
    let version = stored.or(versions.first())?;
    // Nothing is checked by it.
    let custom = custom_version(definition, version);
    Some(kind_of(definition, version, custom))
}

fn schema_of(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

fn kind_of(definition: &Value, version: &Value, custom: CustomVersion) -> Kind {
    let owned = |path: &str| Cow::<'static, str>::Owned(text(definition, path).to_owned());
    let list = |path: &str| {
        strings(at(definition, path))
            .into_iter()
            .map(Cow::Owned)
            .collect::<Vec<_>>()
    };
    let mut subresources = Vec::new();
    if custom.scale.is_some() {
        subresources.push(Subresource::Scale);
    }
    if custom.has_status {
        subresources.push(Subresource::Status);
    }
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    let fields = fields.filter_map(|field| field["jsonPath"].as_str());
    Kind {
        group: owned("spec.group"),
        version: Cow::Owned(version["name"].as_str().unwrap_or_default().to_owned()),
        kind: owned("spec.names.kind"),
        plural: owned("spec.names.plural"),
        singular: owned("spec.names.singular"),
        short_names: list("spec.names.shortNames"),
        categories: list("spec.names.categories"),
        namespaced: text(definition, "spec.scope") == "Namespaced",
        verbs: Verbs::All,
        subresources,
        generation: true,
        unconditional_update: false,
        create_on_update: false,
        preview: false,
        selectable_fields: fields
            .map(|path| Cow::Owned(path.trim_start_matches('.').to_owned()))
            .collect(),
        fields_vary: false,
        origin: Origin::Custom(Arc::new(custom)),
        schema_since: 0,
        storage: (owned("spec.group"), owned("spec.names.plural")),
        head: Head::default(),
    }
}

fn custom_version(definition: &Value, version: &Value) -> CustomVersion {
    let scale = &version["subresources"]["scale"];
    let path = |member: &str| scale[member].as_str().map(str::to_owned);
    let name = version["name"].as_str().unwrap_or_default();
    let kind = text(definition, "spec.names.kind");
    let default_warning = || {
        let group = text(definition, "spec.group");
        let instead = versions(definition)
            .iter()
            .filter(|other| other["served"] == true && other["deprecated"] != true)
            .filter_map(|other| other["name"].as_str())
            .filter(|other| version_priority(name) < version_priority(other))
            .max_by_key(|other| version_priority(other));
        let instead = instead
            .map(|other| format!("; use {group}/{other} {kind}"))
            .unwrap_or_default();
        format!("{group}/{name} {kind} is deprecated{instead}")
    };
    let warning = version["deprecationWarning"].as_str().map(str::to_owned);
    CustomVersion {
        columns: version["additionalPrinterColumns"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
        has_status: version["subresources"]["status"].is_object(),
        scale: scale.is_object().then(|| ScalePaths {
            spec_replicas: path("specReplicasPath").unwrap_or_default(),
            status_replicas: path("statusReplicasPath").unwrap_or_default(),
            label_selector: path("labelSelectorPath"),
        }),
        deprecation_warning: (version["deprecated"] == true)
            .then(|| warning.unwrap_or_else(default_warning)),
        digest: crate::documents::digest_of(version),
        ..CustomVersion::default()
    }
}

fn versions(definition: &Value) -> &[Value] {
    definition["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
