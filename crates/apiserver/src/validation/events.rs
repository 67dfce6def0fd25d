//! Events: those of the core group as clients always wrote them, and those of `events.k8s.io`, which are held against
//! stricter rules. Both are stored, and named in causes, as those of the core group.

use api::json::write_go_string;
use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};

/// UPSTREAM: in bytes, though the message says characters.
const SHORT_MAX: usize = 128;
const MESSAGE_MAX: usize = 1024;

/// UPSTREAM: the fields of an ObjectReference as Go names them.
const REFERENCE: [(&str, &str); 7] = [
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
];
const SOURCE: [(&str, &str); 2] = [("Component", "component"), ("Host", "host")];

/// An event of the core group, which may change in any way.
pub(super) fn core(errors: &mut Errors, root: &Place<'_>) {
    common(errors, root, "reportingComponent");
}

pub(super) fn create(errors: &mut Errors, root: &Place<'_>) {
    common(errors, root, "reportingController");
    series(errors, root);
    errors.need(&root.field("eventTime"));
    let kind = root.field("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        invalid(
            errors,
            &kind,
            &format!("has invalid value: {}", kind.text()),
        );
    }
    let source = root.field("source");
    let old_fields = [
        ("firstTimestamp", root.field("firstTimestamp").is_set()),
        ("lastTimestamp", root.field("lastTimestamp").is_set()),
        ("count", number(&root.field("count")) != 0),
        (
            "source",
            !source.field("component").is_empty() || !source.field("host").is_empty(),
        ),
    ];
    for (name, _) in old_fields.iter().filter(|(_, is_set)| *is_set) {
        invalid(errors, &root.field(name), "needs to be unset");
    }
}

/// All but the series, and metadata, stays as it was.
pub(super) fn update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    common(errors, root, "reportingController");
    let before = Place::root(old);
    if root.field("series").value != before.field("series").value {
        series(errors, root);
    }
    // UPSTREAM: the reason is compared twice.
    for (name, shown) in [
        ("involvedObject", reference as fn(&Place<'_>) -> String),
        ("reason", text),
        ("message", text),
        ("source", source),
        ("firstTimestamp", time),
        ("lastTimestamp", time),
        ("count", |place| number(place).to_string()),
        ("reason", text),
        ("type", text),
        ("eventTime", time),
        ("action", text),
        ("related", |place| match place.is_set() {
            true => reference(place),
            false => "null".to_owned(),
        }),
        ("reportingComponent", text),
        ("reportingInstance", text),
    ] {
        let new = shown(&root.field(name));
        if new != shown(&before.field(name)) {
            let name = match name {
                "reportingComponent" => "reportingController",
                name => name,
            };
            errors.changed(&root.field(name), &new);
        }
    }
}

/// What holds for both. The reporter has another name in each.
fn common(errors: &mut Errors, root: &Place<'_>, reporter: &str) {
    let (involved, metadata) = (root.field("involvedObject"), root.field("metadata"));
    let (place, namespace) = (involved.field("namespace"), metadata.field("namespace"));
    let is_recent = root.field("eventTime").is_set();
    // Events about cluster-scoped objects live in a namespace that says so.
    let fits = match place.text() {
        "" if is_recent => matches!(namespace.text(), "default" | "kube-system"),
        "" => namespace.text() == "default",
        given => is_recent || given == namespace.text(),
    };
    if !fits {
        let given = Value::from(place.text());
        errors.invalid(&place.showing(&given), "does not match event.namespace");
    }
    if is_recent {
        recent(errors, root, reporter);
    }
}

/// An event of the newer kind says who reports what was done.
fn recent(errors: &mut Errors, root: &Place<'_>, reporter: &str) {
    let value = root.field("reportingComponent").value;
    let place = root.field(reporter);
    let place = place.showing(value);
    errors.need(&place);
    errors.syntax(&place, syntax::validate_qualified_name);
    for name in ["reportingInstance", "action", "reason"] {
        let place = root.field(name);
        errors.need(&place);
        at_most(errors, &place, SHORT_MAX);
    }
    at_most(errors, &root.field("message"), MESSAGE_MAX);
}

fn series(errors: &mut Errors, root: &Place<'_>) {
    let series = root.field("series");
    if !series.is_set() {
        return;
    }
    // UPSTREAM: these are names with a dot in them, and the value is not shown.
    if number(&series.field("count")) < 2 {
        invalid(errors, &root.field("series.count"), "should be at least 2");
    }
    if !series.field("lastObservedTime").is_set() {
        errors.required(&root.field("series.lastObservedTime"), "");
    }
}

fn at_most(errors: &mut Errors, place: &Place<'_>, most: usize) {
    if place.text().len() > most {
        invalid(
            errors,
            place,
            &format!("can have at most {most} characters"),
        );
    }
}

/// UPSTREAM: the value that is wrong is not shown.
fn invalid(errors: &mut Errors, place: &Place<'_>, detail: &str) {
    errors.invalid(&place.showing(&Value::from("")), detail);
}

fn number(place: &Place<'_>) -> i64 {
    place.integer().unwrap_or_default()
}

/// A text as messages show it.
fn text(place: &Place<'_>) -> String {
    syntax::go_quote(place.text())
}

/// A time as messages show it, or none.
fn time(place: &Place<'_>) -> String {
    place.value.to_string()
}

fn reference(place: &Place<'_>) -> String {
    go_struct(place, &REFERENCE)
}

fn source(place: &Place<'_>) -> String {
    go_struct(place, &SOURCE)
}

/// UPSTREAM: what is no simple value is shown as JSON of Go's own type, with all of its fields.
fn go_struct(place: &Place<'_>, fields: &[(&str, &str)]) -> String {
    let shown = fields.iter().map(|(shown, name)| {
        let mut field = format!("\"{shown}\":");
        write_go_string(&mut field, place.field(name).text());
        field
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}
