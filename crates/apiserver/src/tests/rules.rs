//! Rules in schemas of custom resources, from the definition to the objects.

use super::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GEARS: &str = "/apis/example.com/v1/namespaces/default/gears";

fn definition(schema: Value) -> Value {
    json!({"metadata": {"name": "gears.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}}]}})
}

fn ruled(spec: Value) -> Value {
    definition(json!({"type": "object", "properties": {"spec": spec}}))
}

async fn with(schema: Value) -> Server {
    let server = Server::new();
    let (code, created) = server.post(CRDS, schema).await;
    assert_eq!(code, 201, "{created}");
    server
}

fn gear(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": spec})
}

fn causes(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    causes
        .map(|cause| format!("{} {}", text(cause, "field"), text(cause, "message")))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn objects_that_break_a_rule_are_refused_in_its_words() {
    let server = with(ruled(json!({
        "type": "object",
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "message": "min must not exceed max"},
            {"rule": "self.max < 100", "messageExpression": "'max is %d'.format([self.max])", "fieldPath": ".max", "reason": "FieldValueForbidden"},
            {"rule": "!has(self.names) || self.names.all(n, n.startsWith('g-'))"},
        ],
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"},
            "names": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10,
                "x-kubernetes-validations": [{"rule": "self != 'g-bad'", "reason": "FieldValueDuplicate"}]}},
        },
    })))
    .await;
    let fine = gear(json!({"min": 1, "max": 2, "names": ["g-a"]}));
    let (code, created) = server.post(GEARS, fine).await;
    assert_eq!(code, 201, "{created}");
    let bad = gear(json!({"min": 500, "max": 200, "names": ["x", "g-bad"]}));
    let (code, status) = server.post(GEARS, bad).await;
    assert_eq!(code, 422, "{status}");
    assert_eq!(
        causes(&status),
        [
            "spec Invalid value: min must not exceed max",
            "spec.max Forbidden: max is 200",
            "spec Invalid value: failed rule: !has(self.names) || self.names.all(n, n.startsWith('g-'))",
            "spec.names[1] Duplicate value: \"g-bad\"",
        ]
    );
    let (code, status) = server.post(GEARS, gear(json!({"min": 1}))).await;
    assert_eq!(code, 422, "{status}");
    assert_eq!(
        causes(&status)[0],
        "spec Invalid value: \"object\": no such key: max evaluating rule: min must not exceed max"
    );
    let (code, status) = server
        .post(GEARS, gear(json!({"min": "x", "max": 1})))
        .await;
    assert_eq!(code, 422, "{status}");
    assert!(causes(&status)[1].starts_with("<nil> Invalid value: null: some validation rules"));
}

#[tokio::test(start_paused = true)]
async fn rules_about_changes_see_what_was_there() {
    let server = with(ruled(json!({
        "type": "object",
        "properties": {
            "color": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]},
            "first": {"type": "string", "x-kubernetes-validations": [
                {"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": true, "message": "begins new"}]},
            "parts": {"type": "array", "maxItems": 4, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n", "message": "must not shrink"}]}},
        },
    })))
    .await;
    let part = |name: &str, n: i64| json!({"name": name, "n": n});
    let (code, status) = server.post(GEARS, gear(json!({"first": "old"}))).await;
    assert_eq!((code, causes(&status).len()), (422, 1), "{status}");
    let first =
        gear(json!({"color": "red", "first": "new", "parts": [part("a", 1), part("b", 2)]}));
    let (code, created) = server.post(GEARS, first).await;
    assert_eq!(code, 201, "{created}");
    let patch = json!({"spec": {"color": "blue", "first": "any", "parts": [part("b", 1), part("c", 0), part("a", 3)]}});
    let (code, status) = server
        .patch(&format!("{GEARS}/a"), "merge-patch", patch)
        .await;
    assert_eq!(code, 422, "{status}");
    assert_eq!(
        causes(&status),
        [
            "spec.color Invalid value: \"blue\": is immutable",
            "spec.parts[0] Invalid value: must not shrink",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn definitions_whose_rules_do_not_compile_are_refused() {
    let server = Server::new();
    let spec = json!({
        "type": "object",
        "x-kubernetes-validations": [
            {"rule": "self.nothing == 1"},
            {"rule": "self.a"},
            {"rule": "self.list.all(x, self.list.all(y, x == y))"},
            {"rule": "self.a == 'x'", "optionalOldSelf": true},
            {"rule": "self.a == 'x'", "messageExpression": "1"},
        ],
        "properties": {"a": {"type": "string"}, "list": {"type": "array", "items": {"type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}},
    });
    let (code, status) = server.post(CRDS, ruled(spec)).await;
    assert_eq!(code, 422, "{status}");
    let causes = causes(&status);
    let base = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations";
    let rule = |text: &str| {
        format!(
            "{{\"Rule\":\"{text}\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}"
        )
    };
    let undefined = format!(
        "{base}[0].rule Invalid value: {}: compilation failed: ERROR: <input>:1:5: undefined field 'nothing'\n | self.nothing == 1\n | ....^",
        rule("self.nothing == 1")
    );
    assert!(causes.contains(&undefined), "{causes:#?}");
    let no_bool = format!(
        "{base}[1].rule Invalid value: {}: cel expression must evaluate to a bool",
        rule("self.a")
    );
    assert!(causes.contains(&no_bool), "{causes:#?}");
    for part in [
        "estimated rule cost exceeds budget by factor of more than 100x",
        "may not be set if oldSelf is not used in rule",
        "messageExpression must evaluate to a string",
        "oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[spec].properties[list]",
    ] {
        assert!(
            causes.iter().any(|cause| cause.contains(part)),
            "{part}: {causes:#?}"
        );
    }
    let empty = json!({"type": "object", "x-kubernetes-validations": [{"rule": ""}, {"rule": "true", "reason": "Odd"}]});
    let (code, status) = server.post(CRDS, ruled(empty)).await;
    assert_eq!(code, 422, "{status}");
    assert!(self::causes(&status)[0].ends_with("Required value: rule is not specified"));
}

#[tokio::test(start_paused = true)]
async fn what_was_wrong_before_and_is_not_touched_is_let_through() {
    let plain =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let server = with(ruled(plain)).await;
    let (code, _) = server
        .post(GEARS, gear(json!({"a": "wrong", "b": "x"})))
        .await;
    assert_eq!(code, 201);
    let schema = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/x-kubernetes-validations",
        "value": [{"rule": "self == 'right'"}]}]);
    let path = format!("{CRDS}/gears.example.com");
    let (code, status) = server.patch(&path, "json-patch", schema).await;
    assert_eq!(code, 200, "{status}");
    let patch = json!({"spec": {"b": "y"}});
    let (code, kept) = server
        .patch(&format!("{GEARS}/a"), "merge-patch", patch)
        .await;
    assert_eq!(code, 200, "{kept}");
    let patch = json!({"spec": {"a": "still wrong"}});
    let (code, status) = server
        .patch(&format!("{GEARS}/a"), "merge-patch", patch)
        .await;
    assert_eq!(code, 422, "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_request_has_a_budget_for_all_rules() {
    let rule = json!({"rule": "self.all(x, self.all(y, x != 'never' && y != 'never'))"});
    let list = json!({"type": "array", "maxItems": 200, "items": {"type": "string", "maxLength": 8},
        "x-kubernetes-validations": [rule]});
    let server = with(ruled(
        json!({"type": "object", "properties": {"list": list}}),
    ))
    .await;
    let many: Vec<String> = (0..200).map(|n| format!("x{n}")).collect();
    let (code, created) = server.post(GEARS, gear(json!({"list": many}))).await;
    assert_eq!(code, 201, "{created}");
}
