//! Types and expressions first, then the whole against the embedded API server.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::ValidatingAdmissionPolicy;
use api::{Resource, ResourceType};
use cel::Decl;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use testkit::World;

use super::{Checked, Gvk, check, controller, schema, types_to_check};
use crate::discovery::{Discovery, Served};

fn policy(spec: Value) -> ValidatingAdmissionPolicy {
    let json = json!({"metadata": {"name": "p", "generation": 1}, "spec": spec});
    ValidatingAdmissionPolicy::decode(json.to_string().as_bytes()).unwrap()
}

fn served() -> Discovery {
    let of = |group: &'static str,
              version: &'static str,
              plural: &'static str,
              kind: &'static str| Served {
        resource: ResourceType::namespaced(group, version, plural, kind),
        other_names: Vec::new(),
        verbs: Vec::new(),
        has_scale: false,
        preferred: true,
    };
    Discovery {
        resources: vec![
            of("", "v1", "pods", "Pod"),
            of("", "v1", "events", "Event"),
            of("apps", "v1", "deployments", "Deployment"),
            of("batch", "v1", "jobs", "Job"),
            of("events.k8s.io", "v1", "events", "Event"),
        ],
        failed: Vec::new(),
    }
}

/// The types that rules name, each given as groups, versions and resources.
fn check_types(rules: &[[&[&str]; 3]], expected: Expect) {
    let rules: Vec<Value> = rules
        .iter()
        .map(|[groups, versions, resources]| {
            json!({"apiGroups": groups, "apiVersions": versions, "resources": resources})
        })
        .collect();
    let policy = policy(json!({"matchConstraints": {"resourceRules": rules}}));
    let types: Vec<String> = types_to_check(&policy, &served())
        .iter()
        .map(ToString::to_string)
        .collect();
    expected.assert_eq(&types.join("; "));
}

// Upstream: TestExtractTypeNames.
#[test]
fn types_are_those_that_rules_name_without_wildcards() {
    check_types(
        &[[&["apps"], &["v1"], &["deployments"]]],
        expect!["apps/v1, Kind=Deployment"],
    );
    check_types(
        &[[
            &["batch", "apps"],
            &["v1", "v2"],
            &["jobs", "deployments", "deployments/scale", "*"],
        ]],
        expect!["apps/v1, Kind=Deployment; batch/v1, Kind=Job"],
    );
    check_types(
        &[
            [&["*"], &["v1"], &["jobs"]],
            [&["apps"], &["*"], &["deployments"]],
            [&["apps"], &["v1"], &["nothing"]],
        ],
        expect![""],
    );
    check_types(
        &[[&[""], &["v1"], &["events", "pod"]]],
        expect!["/v1, Kind=Event; /v1, Kind=Pod; events.k8s.io/v1, Kind=Event"],
    );
    check_types(&[], expect![""]);
}

fn deployments() -> Vec<Checked> {
    let document = json!({"components": {"schemas": {
        "Deployment": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
            "properties": {"spec": {"description": "x", "allOf": [{"$ref": "#/components/schemas/Spec"}], "default": {}}}},
        "Spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "surge": {"$ref": "#/components/schemas/IntOrString"},
            "next": {"$ref": "#/components/schemas/Spec"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
        "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    }}});
    let gvk = Gvk::new("apps/v1", "Deployment");
    let schema = schema::resolve(&document, &gvk).unwrap();
    let decl = Arc::new(Decl::from_schema(&schema, &gvk.kind, true).unwrap());
    let other = Gvk::new("apps/v1", "Other");
    assert!(schema::resolve(&document, &other).is_none());
    vec![Checked { gvk, decl }]
}

fn check_expressions(spec: Value, expected: Expect) {
    let params = Decl::from_schema(
        &json!({"type": "object", "properties": {"most": {"type": "integer"}}}),
        "Limit",
        true,
    );
    let params = params.map(Arc::new);
    let warnings = check(&policy(spec), &deployments(), params.as_ref());
    let shown: Vec<String> = warnings
        .iter()
        .map(|warning| format!("{}: {}", warning.field_ref, warning.warning))
        .collect();
    expected.assert_eq(&shown.join(""));
}

// Upstream: TestTypeChecking, TestTypeCheck.
#[test]
fn expressions_that_do_not_fit_are_named() {
    check_expressions(
        json!({"validations": [
            {"expression": "object.spec.replicas > 1 && oldObject.spec.labels['a'] == 'b'"},
            {"expression": "object.spec.surge == 1 || object.spec.surge == '10%'", "messageExpression": "object.metadata.name"},
            {"expression": "object.kind == 'x' && !has(object.spec.next)"},
            {"expression": "authorizer.group('').resource('pods').check('get').allowed() && namespaceObject.metadata.name != request.name"},
        ]}),
        expect![""],
    );
    check_expressions(
        json!({"validations": [
            {"expression": "object.spec.replicas < 100"},
            {"expression": "object.spec.replicas > '1' && object.spec.nothing == 1", "messageExpression": "string(object.none)"},
        ]}),
        expect![[r#"
            spec.validations[1].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'
             | object.spec.replicas > '1' && object.spec.nothing == 1
             | .....................^
            ERROR: <input>:1:42: undefined field 'nothing'
             | object.spec.replicas > '1' && object.spec.nothing == 1
             | .........................................^
            spec.validations[1].messageExpression: apps/v1, Kind=Deployment: ERROR: <input>:1:14: undefined field 'none'
             | string(object.none)
             | .............^
        "#]],
    );
}

#[test]
fn variables_and_parameters_have_types() {
    let validations = json!([{"expression": "variables.many && params.most > variables.count"}]);
    let variables = json!([
        {"name": "count", "expression": "object.spec.replicas"},
        {"name": "many", "expression": "variables.count > 5"},
    ]);
    let mut spec = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}, "variables": variables, "validations": validations});
    check_expressions(spec.clone(), expect![""]);
    spec["variables"][0]["expression"] = json!("object.kind");
    check_expressions(
        spec,
        expect![[r#"
            spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:31: found no matching overload for '_>_' applied to '(int, string)'
             | variables.many && params.most > variables.count
             | ..............................^
        "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn each_generation_is_checked_once() {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    let rule = |resource: &str| json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule("deployments")]}, "validations": [
            {"expression": "object.spec.replicas > 1"},
            {"expression": "object.spec.template.spec.containers.all(c, c.image == 1)"},
        ]},
    });
    let made = world.create(&ValidatingAdmissionPolicy::TYPE, policy).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    let warning = "apps/v1, Kind=Deployment: ERROR: <input>:1:53: found no matching overload for '_==_' applied to '(string, int)'\n \
        | object.spec.template.spec.containers.all(c, c.image == 1)\n | ....................................................^\n";
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "p", "uid": made["metadata"]["uid"]},
            "status": {"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
                {"fieldRef": "spec.validations[1].expression", "warning": warning}]}},
        })
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");

    let fixed = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
    world
        .patch(&ValidatingAdmissionPolicy::TYPE, "p", fixed)
        .await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "PATCH validatingadmissionpolicies/p/status"
    );
    let policy = world
        .get(&ValidatingAdmissionPolicy::TYPE, "p")
        .await
        .unwrap();
    // The last warning takes the empty list around it along.
    assert_eq!(policy["status"], json!({"observedGeneration": 2}));
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_created_anew_is_not_taken_for_the_one_before() {
    let of = |expression: &str| {
        let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]});
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]},
        })
    };
    let kind = ValidatingAdmissionPolicy::TYPE;
    // Whatever request of the controller is on its way when the policy is deleted.
    for halves in 1..16 {
        let mut world = World::new().await;
        let running = controller(&world.context(), 5).run(world.stop());
        world.run(running);
        world.start().await;
        world.create(&kind, of("true")).await;
        world.wait_until_idle().await;
        world.slow_down(Duration::from_secs(1));
        let changed = json!({"spec": {"validations": [{"expression": "1 == 1"}]}});
        world.patch(&kind, "p", changed).await;
        tokio::time::sleep(Duration::from_millis(500 * halves)).await;
        world.delete(&kind, "p").await;
        world.create(&kind, of("object.nothing == 1")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let policy = world.get(&kind, "p").await.unwrap();
        let status = &policy["status"];
        assert_eq!(status["observedGeneration"], 1, "{halves} {status}");
        let warnings = &status["typeChecking"]["expressionWarnings"];
        assert!(warnings[0]["warning"].is_string(), "{halves} {status}");
    }
}
