//! Schemas on values: what is removed, what is filled in, what is refused.

use super::*;
use crate::crd::schema::Ready;
use crate::status::Cause;
use serde_json::json;

fn schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 5},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "x-kubernetes-list-type": "set"},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "additionalProperties": true},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "note": {"type": "string"},
                "count": {"type": "integer", "format": "int32", "default": 1}}}},
        "ratio": {"type": "number", "multipleOf": 0.5},
        "level": {"type": "integer", "enum": [1, 2]},
        "when": {"type": "string", "format": "date-time"},
        "odd": {"type": "string", "format": "quantity"},
        "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "either": {"type": "string", "anyOf": [{"minLength": 5}, {"pattern": "^x"}]},
        "both": {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}], "not": {"enum": [2]}},
    }}}})
}

#[test]
fn unknown_fields_go_unless_kept() {
    let mut value = json!({"apiVersion": "v1", "metadata": {"x": 1}, "extra": 1, "spec": {"size": 1, "siz": 2,
        "any": {"q": {}}, "labels": {"a": "b"}, "free": {"a": {"b": 1}, "c": 1}}});
    // `additionalProperties: true` knows members, but nothing of what is in them.
    assert_eq!(
        prune(&schema(), &mut value),
        ["extra", "spec.free.a.b", "spec.siz"]
    );
    assert_eq!(
        value,
        json!({"apiVersion": "v1", "metadata": {"x": 1}, "spec": {"size": 1, "any": {"q": {}}, "labels": {"a": "b"},
            "free": {"a": {}, "c": 1}}})
    );
}

#[test]
fn nulls_go_from_items_and_maps_where_nothing_takes_their_place() {
    let mut value = json!({"spec": {"color": null, "name": null, "labels": {"a": null, "b": "c"},
        "parts": [{"name": "x", "note": null, "count": null}], "tags": [null], "any": {"q": null}}});
    prune_nulls(&schema(), &mut value);
    assert_eq!(
        value,
        json!({"spec": {"color": null, "labels": {"b": "c"}, "parts": [{"name": "x", "count": null}], "tags": [null],
            "any": {"q": null}}})
    );
    default(&schema(), &mut value);
    assert_eq!(
        value,
        json!({"spec": {"color": "red", "labels": {"b": "c"}, "parts": [{"name": "x", "count": 1}], "tags": [null],
            "any": {"q": null}}})
    );
}

fn texts(causes: &[Cause]) -> Vec<String> {
    let shown = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
    causes.iter().map(shown).collect()
}

fn check(spec: Value, expected: &[&str]) {
    let ready = Ready::new(schema());
    let object = json!({"spec": spec});
    let mut causes = validate(&ready, &ready.value, &object, None);
    causes.extend(validate_lists(&ready.value, &object));
    assert_eq!(texts(&causes), expected, "{object}");
}

#[test]
fn values_are_checked() {
    check(
        json!({"size": 3, "port": "http", "tags": ["a"], "when": "2024-01-01T00:00:00Z", "odd": "x"}),
        &[],
    );
    check(json!({}), &["spec.size: Required value"]);
    check(
        json!({"size": "big"}),
        &[
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ],
    );
    check(
        json!({"size": 9}),
        &["spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5"],
    );
    check(
        json!({"size": 2.5}),
        &[
            "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\"",
            "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.size",
        ],
    );
    check(
        json!({"size": 1, "color": "green", "level": 3}),
        &[
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
            "spec.level: Unsupported value: 3: supported values: \"1\", \"2\"",
        ],
    );
    check(
        json!({"size": 1, "name": "AB"}),
        &["spec.name: Invalid value: \"AB\": spec.name in body should match '^[a-z]+$'"],
    );
    check(
        json!({"size": 1, "name": "ABCD"}),
        &["spec.name: Too long: may not be more than 3 bytes"],
    );
    check(
        json!({"size": 1, "tags": ["a", "a", "a"]}),
        &[
            "spec.tags: Too many: 3: must have at most 2 items",
            "spec.tags[1]: Duplicate value: \"a\"",
        ],
    );
    check(
        json!({"size": 1, "labels": {"a": 1}}),
        &[
            "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: \"integer\"",
        ],
    );
    check(
        json!({"size": 1, "port": true}),
        &[
            "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
        ],
    );
    check(
        json!({"size": 1, "parts": [{"count": 4_000_000_000_i64}]}),
        &[
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.parts[0].count",
        ],
    );
    check(
        json!({"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}),
        &["spec.parts[1]: Duplicate value: {\"name\":\"a\"}"],
    );
}

#[test]
fn formats_and_combinations_are_checked() {
    check(
        json!({"size": 1, "when": "yesterday"}),
        &[
            "spec.when: Invalid value: \"yesterday\": spec.when in body must be of type date-time: \"yesterday\"",
        ],
    );
    check(
        json!({"size": 1, "when": 5}),
        &[
            "spec.when: Invalid value: \"int64\": spec.when in body must be of type date-time: \"int64\"",
        ],
    );
    check(
        json!({"size": 1, "ratio": 0.25}),
        &["spec.ratio: Invalid value: 0.25: spec.ratio in body should be a multiple of 0.5"],
    );
    check(
        json!({"size": 1, "ratio": 1}),
        &[
            "spec.ratio: Invalid value: 0: factor MultipleOf declared for spec.ratio must be positive: 0",
        ],
    );
    check(
        json!({"size": 1, "choice": {}}),
        &[
            "<nil>: Invalid value: \"\": \"spec.choice\" must validate one and only one schema (oneOf). Found none valid",
            "spec.choice.a: Required value",
        ],
    );
    check(
        json!({"size": 1, "choice": {"a": "x", "b": "y"}}),
        &[
            "<nil>: Invalid value: \"\": \"spec.choice\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ],
    );
    check(
        json!({"size": 1, "either": "abc"}),
        &[
            "<nil>: Invalid value: \"\": \"spec.either\" must validate at least one schema (anyOf)",
            "spec.either: Invalid value: \"abc\": spec.either in body should be at least 5 chars long",
        ],
    );
    check(
        json!({"size": 1, "both": 7}),
        &[
            "spec.both: Invalid value: 7: spec.both in body should be less than or equal to 3",
            "<nil>: Invalid value: \"\": \"spec.both\" must validate all the schemas (allOf)",
        ],
    );
    check(
        json!({"size": 1, "both": 2}),
        &["<nil>: Invalid value: \"\": \"spec.both\" must not validate the schema (not)"],
    );
}

#[test]
fn what_was_wrong_and_is_unchanged_is_let_through() {
    let ready = Ready::new(schema());
    let old = json!({"spec": {"size": 9, "name": "ABC", "parts": [{"name": "a", "count": "x"}]}});
    let mut new = old.clone();
    new["spec"]["color"] = json!("blue");
    new["spec"]["parts"] = json!([{"name": "b"}, {"name": "a", "count": "x"}]);
    assert!(validate(&ready, &ready.value, &new, Some(&old)).is_empty());
    new["spec"]["name"] = json!("XYZ");
    let causes = texts(&validate(&ready, &ready.value, &new, Some(&old)));
    assert_eq!(
        causes,
        ["spec.name: Invalid value: \"XYZ\": spec.name in body should match '^[a-z]+$'"]
    );
    assert_eq!(validate(&ready, &ready.value, &new, None).len(), 3);
}

#[test]
fn defaults_are_bounded_in_all() {
    let large = "x".repeat(1 << 20);
    let schema = json!({"properties": {"list": {"items": {"type": "string", "default": large}}}});
    let mut value = json!({"list": vec![Value::Null; 1000]});
    default(&schema, &mut value);
    let filled = value["list"].as_array().unwrap().iter();
    assert_eq!(filled.filter(|item| item.is_string()).count(), 15);
}

/// Each value of a long list is looked up in a long enumeration, and few faults name all of it.
#[test]
fn long_enumerations_are_searched_and_said_once() {
    const COUNT: usize = 200_000;
    let names: Vec<String> = (0..COUNT).map(|number| format!("value{number}")).collect();
    let numbers: Vec<i64> = (0..COUNT as i64).collect();
    let schema = json!({"type": "object", "properties": {
        "names": {"type": "array", "items": {"type": "string", "enum": names}},
        "numbers": {"type": "array", "items": {"type": "number", "enum": numbers}},
    }});
    let ready = Ready::new(schema);
    let check = |object: Value| validate(&ready, &ready.value, &object, None);
    let reversed: Vec<&String> = names.iter().rev().collect();
    assert!(check(json!({"names": reversed, "numbers": numbers})).is_empty());
    for (object, words) in [
        (json!({"numbers": [-3]}), "Unsupported value: -3"),
        (json!({"names": ["value"]}), "Unsupported value: \"value\""),
    ] {
        let causes = check(object);
        let said = &causes[0].message;
        assert!(said.starts_with(words), "{}", &said[..100]);
    }
    let causes = check(json!({"names": vec!["other"; COUNT]}));
    assert_eq!(causes.len(), 1000);
    let length: usize = causes.iter().map(|cause| cause.message.len()).sum();
    assert!(length < 100 << 20, "{length}");
}
