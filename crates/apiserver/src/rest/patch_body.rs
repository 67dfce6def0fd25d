//! The body of a PATCH, and the object that it makes as messages show it.

use super::body::{content_type, faults, parse_error};
use super::go_json;
use super::strict::{self, Fault, Read, Source};
use crate::schema::{self, Shape, Type};
use crate::status::Status;
use http::HeaderMap;
use serde_json::{Map, Value, json};

pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(super) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// A patch, and what `fieldValidation` may want to hear of it.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub(crate) value: Value,
    pub(super) faults: Vec<Fault>,
}

/// UPSTREAM: three kinds of patches are read by two libraries, each of which has words of its own. One of them reads
/// patches only where `fieldValidation` asks for it.
pub(crate) fn parse(headers: &HeaderMap, body: &[u8], is_validated: bool) -> Result<Patch, Status> {
    let patch_type = content_type(headers);
    let wrong = |why: String| {
        Status::bad_request(match (patch_type, is_validated) {
            (STRATEGIC_PATCH, _) | (JSON_PATCH, false) => why,
            (_, true) => format!("error decoding patch: {why}"),
            (_, false) => "Invalid JSON Patch".to_owned(),
        })
    };
    let Read { value, duplicates } =
        strict::json(body).map_err(|error| wrong(parse_error(body, &error)))?;
    let (of_list, of_item) = match is_validated {
        true => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
        false => ("jsonpatch.Patch", "jsonpatch.Operation"),
    };
    match (patch_type, value) {
        (JSON_PATCH, Value::Null) => Ok(Patch {
            value: json!([]),
            faults: Vec::new(),
        }),
        (JSON_PATCH, Value::Array(operations)) => {
            let mut unknown = Vec::new();
            for (index, operation) in operations.iter().enumerate() {
                check_operation(index, operation, of_item, &mut unknown).map_err(wrong)?;
            }
            let mut faults = faults(duplicates, unknown, Source::JsonPatch);
            strict::sort_by_place(body, &mut faults);
            Ok(Patch {
                value: Value::Array(operations),
                faults,
            })
        }
        (JSON_PATCH, other) => Err(wrong(go_json::mismatch(&other, of_list))),
        (MERGE_PATCH, Value::Null) => Err(Status::bad_request("Invalid JSON Patch")),
        (_, Value::Null) => Ok(Patch {
            value: Value::Object(Map::new()),
            faults: Vec::new(),
        }),
        (_, value @ Value::Object(_)) => Ok(Patch {
            value,
            faults: faults(duplicates, Vec::new(), Source::Json),
        }),
        (_, other) => Err(wrong(go_json::mismatch(&other, "map[string]interface {}"))),
    }
}

fn check_operation(
    index: usize,
    operation: &Value,
    of_item: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let members = match operation {
        Value::Null => return Ok(()),
        Value::Object(members) => members,
        other => return Err(go_json::mismatch(other, of_item)),
    };
    for (name, member) in members {
        match (name.as_str(), member) {
            ("value", _) | ("op" | "path" | "from", Value::Null | Value::String(_)) => {}
            ("op" | "path" | "from", other) => {
                let found = schema::json_type(other);
                return Err(format!(
                    "json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name} of type string"
                ));
            }
            _ => unknown.push(format!("[{index}].{name}")),
        }
    }
    Ok(())
}

/// What a JSON patch or a merge patch has made of an object, as JSON. UPSTREAM: what the patch went through is sorted by
/// name; the rest is printed from structs, whose members have an order.
pub(super) fn print_patched(patched: &Value, ty: Option<&'static Type>, patch: &Value) -> String {
    let mut out = String::new();
    match patch {
        Value::Array(operations) => write(&mut out, patched, ty, Some(&places(operations))),
        patch => write(&mut out, patched, ty, Some(patch)),
    }
    out
}

/// The containers that operations go through, as a tree.
fn places(operations: &[Value]) -> Value {
    let mut tree = json!({});
    let members = |operation: &Value| {
        ["path", "from"].map(|name| operation[name].as_str().unwrap_or_default().to_owned())
    };
    for path in operations.iter().flat_map(members) {
        let mut place = &mut tree;
        let mut steps: Vec<String> = path.split('/').map(unescaped).collect();
        steps.pop();
        for step in steps.into_iter().skip(1) {
            place = &mut place[step];
            if place.is_null() {
                *place = json!({});
            }
        }
    }
    tree
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

fn write(out: &mut String, value: &Value, ty: Option<&'static Type>, touched: Option<&Value>) {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            if let (Some(ty), None) = (ty, touched) {
                // The numbers of protobuf were given in the order of the structs.
                let number = |name: &str| ty.field(name).map_or(u32::MAX, |field| field.number);
                names.sort_by_key(|name| number(name));
            }
            out.push('{');
            for (index, name) in names.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                let inner = ty
                    .and_then(|ty| ty.field(name))
                    .and_then(|field| of(&field.ty));
                let below = touched.and_then(|touched| touched.get(name));
                write(
                    out,
                    &members[name],
                    inner,
                    below.filter(|below| !below.is_null()),
                );
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                let below = touched.and_then(|touched| {
                    let by_step = touched.get(index.to_string());
                    by_step.or_else(|| touched.get(index))
                });
                write(out, item, ty, below);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// The type of what a field, its items or its members hold.
fn of(shape: &'static Shape) -> Option<&'static Type> {
    match shape {
        Shape::Ref(ty) => Some(ty.get()),
        Shape::List(item) | Shape::Map(item) => of(item),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(patch_type: &'static str, body: &str, is_validated: bool) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, patch_type.parse().unwrap());
        match parse(&headers, body.as_bytes(), is_validated) {
            Ok(patch) => patch.value.to_string(),
            Err(status) => status.message,
        }
    }

    #[test]
    fn what_is_no_patch_is_refused_in_upstreams_words() {
        let check = |patch_type, body, validated: &str, ignored: &str| {
            assert_eq!(refused(patch_type, body, true), validated, "{body}");
            assert_eq!(refused(patch_type, body, false), ignored, "{body}");
        };
        let literal = "invalid character 'o' in literal null (expecting 'u')";
        check(
            JSON_PATCH,
            "nonsense",
            &format!("error decoding patch: {literal}"),
            literal,
        );
        check(
            JSON_PATCH,
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        );
        check(JSON_PATCH, "null", "[]", "[]");
        check(
            JSON_PATCH,
            r#"[{"op": 1}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            // Nobody asks what it is then, and it does not apply.
            "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        );
        check(
            MERGE_PATCH,
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            "Invalid JSON Patch",
        );
        check(
            MERGE_PATCH,
            "null",
            "Invalid JSON Patch",
            "Invalid JSON Patch",
        );
        check(
            STRATEGIC_PATCH,
            "{",
            "unexpected end of JSON input",
            "unexpected end of JSON input",
        );
        check(STRATEGIC_PATCH, "null", "{}", "{}");
    }

    #[test]
    fn operations_have_faults_of_their_own() {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, JSON_PATCH.parse().unwrap());
        let body = r#"[{"oop": 1, "op": "add", "op": "test", "path": "/a"}]"#;
        let patch = parse(&headers, body.as_bytes(), true).unwrap();
        let faults: Vec<String> = patch.faults.iter().map(Fault::to_string).collect();
        assert_eq!(
            faults,
            [
                "json patch unknown field \"[0].oop\"",
                "json patch duplicate field \"[0].op\""
            ]
        );
    }

    #[test]
    fn a_patched_object_is_sorted_where_the_patch_went() {
        let ty = schema::type_for("", "v1", "Pod");
        let pod = json!({
            "kind": "Pod", "metadata": {"uid": "u", "labels": {"b": "1"}, "name": "a", "namespace": "n"},
            "spec": {"containers": [{"image": "i", "name": "c"}], "hostname": 1},
        });
        let patch = json!([{"op": "add", "path": "/metadata/labels/b"}]);
        assert_eq!(
            print_patched(&pod, ty, &patch),
            r#"{"kind":"Pod","metadata":{"labels":{"b":"1"},"name":"a","namespace":"n","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}],"hostname":1}}"#
        );
        assert_eq!(
            print_patched(&pod, ty, &json!({"spec": {"hostname": 1}})),
            r#"{"kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","labels":{"b":"1"}},"spec":{"containers":[{"name":"c","image":"i"}],"hostname":1}}"#
        );
    }
}
