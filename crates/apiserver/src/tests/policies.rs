//! Admission policies, from the policy to the requests that they are about.

use super::*;

pub(super) const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server with a validating policy `p` about config maps, bound by `b`.
async fn with(policy: Value, binding: Value) -> Server {
    let server = Server::new();
    server.bind(policy, binding).await;
    server
}

pub(super) fn rule(resource: &str, operations: &[&str]) -> Value {
    json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}]})
}

/// A spec about creations and updates of config maps.
fn spec(more: Value) -> Value {
    let mut spec = json!({"matchConstraints": rule("configmaps", &["CREATE", "UPDATE"])});
    let (Value::Object(spec_members), Value::Object(more)) = (&mut spec, more) else {
        panic!("both are objects");
    };
    spec_members.extend(more);
    spec
}

pub(super) fn deny() -> Value {
    json!({"validationActions": ["Deny"]})
}

impl Server {
    /// Pods run as somebody.
    pub(super) async fn make_account(&self) {
        let path = "/api/v1/namespaces/default/serviceaccounts";
        let account = json!({"metadata": {"name": "default"}});
        assert_eq!(self.post(path, account).await.0, 201);
    }

    pub(super) async fn bind(&self, policy: Value, binding: Value) {
        let path = format!("{GROUP}/validatingadmissionpolicies");
        let (code, created) = self
            .post(&path, json!({"metadata": {"name": "p"}, "spec": policy}))
            .await;
        assert_eq!(code, 201, "{created}");
        let mut binding = binding;
        binding["policyName"] = json!("p");
        let path = format!("{GROUP}/validatingadmissionpolicybindings");
        let (code, created) = self
            .post(&path, json!({"metadata": {"name": "b"}, "spec": binding}))
            .await;
        assert_eq!(code, 201, "{created}");
    }

    pub(super) async fn map(&self, name: &str, data: Value) -> (u16, Value) {
        let body = json!({"metadata": {"name": name, "labels": {"app": name}}, "data": data});
        self.post(CONFIG_MAPS, body).await
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_validation_refuses_is_refused_in_its_words() {
    let policy = spec(json!({"validations": [
        {"expression": "object.data.size() < 2", "message": "too much"},
        {"expression": "!('bad' in object.data)", "reason": "Forbidden",
         "messageExpression": "'bad is ' + object.data.bad"},
    ]}));
    let server = with(policy, deny()).await;
    assert_eq!(server.map("a", json!({"k": "v"})).await.0, 201);
    let (code, status) = server.map("b", json!({"k": "v", "l": "v"})).await;
    assert_eq!(code, 422);
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too much";
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Invalid", "code": 422,
            "message": format!("configmaps \"b\" is forbidden: {why}"),
            "details": {"name": "b", "kind": "configmaps", "causes": [{"message": why}]},
        })
    );
    let (code, status) = server.map("b", json!({"bad": "wrong"})).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("denied request: bad is wrong"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn policies_follow_their_changes_and_their_bindings() {
    let policy = spec(json!({"validations": [{"expression": "false"}]}));
    let server = with(policy, deny()).await;
    let (code, status) = server.map("a", json!({})).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("denied request: failed expression: false"),
        "{message}"
    );
    let path = format!("{GROUP}/validatingadmissionpolicies/p");
    let change =
        json!([{"op": "replace", "path": "/spec/validations/0/expression", "value": "true"}]);
    assert_eq!(server.patch(&path, "json-patch", change).await.0, 200);
    assert_eq!(server.map("a", json!({})).await.0, 201);
    let change =
        json!([{"op": "replace", "path": "/spec/validations/0/expression", "value": "false"}]);
    assert_eq!(server.patch(&path, "json-patch", change).await.0, 200);
    assert_eq!(server.map("b", json!({})).await.0, 422);
    let path = format!("{GROUP}/validatingadmissionpolicybindings/b");
    assert_eq!(server.delete(&path).await.0, 200);
    assert_eq!(server.map("b", json!({})).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn warnings_are_given_and_let_through() {
    let policy =
        spec(json!({"validations": [{"expression": "has(object.data)", "message": "no data"}]}));
    let server = with(policy, json!({"validationActions": ["Warn", "Audit"]})).await;
    let body = json!({"metadata": {"name": "a"}}).to_string();
    let response = server
        .send(
            Method::POST,
            CONFIG_MAPS,
            "application/json",
            "application/json",
            body.into(),
        )
        .await;
    assert_eq!(response.status(), 201);
    let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
    assert_eq!(
        warnings,
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no data\""]
    );
}

#[tokio::test(start_paused = true)]
async fn parameters_are_found_by_name_and_by_selector() {
    let policy = json!({
        "matchConstraints": rule("secrets", &["*"]),
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "most", "expression": "int(params.data.most)"}],
        "validations": [{"expression": "size(object.data) <= variables.most",
            "messageExpression": "'more than ' + string(variables.most) + ' of ' + params.metadata.name"}],
    });
    let binding = json!({"validationActions": ["Deny"],
        "paramRef": {"selector": {"matchLabels": {"app": "limit"}}, "parameterNotFoundAction": "Deny"}});
    let server = with(policy, binding).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str| json!({"metadata": {"name": name}, "data": {"a": "", "b": ""}});
    let (code, status) = server.post(secrets, secret("x")).await;
    assert_eq!(code, 422);
    let message = status["details"]["causes"][0]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: \
         no params found for policy binding with `Deny` parameterNotFoundAction"
    );
    assert_eq!(server.map("limit", json!({"most": "2"})).await.0, 201);
    assert_eq!(server.post(secrets, secret("x")).await.0, 201);
    let path = format!("{CONFIG_MAPS}/limit");
    let change = json!({"data": {"most": "1"}});
    assert_eq!(server.patch(&path, "merge-patch", change).await.0, 200);
    let (code, status) = server.post(secrets, secret("y")).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("denied request: more than 1 of limit"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn errors_count_by_the_failure_policy() {
    for (policy, code) in [("Fail", 422), ("Ignore", 201)] {
        let validations = json!([{"expression": "object.data.missing == 'x'"}]);
        let policy = spec(json!({"failurePolicy": policy, "validations": validations}));
        let server = with(policy, deny()).await;
        let (answer, status) = server.map("a", json!({"k": "v"})).await;
        assert_eq!(answer, code, "{status}");
        if code == 422 {
            let message = status["message"].as_str().unwrap();
            let why =
                "expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
            assert!(message.ends_with(why), "{message}");
        }
        let unknown = spec(
            json!({"failurePolicy": "Fail", "paramKind": {"apiVersion": "example.com/v1", "kind": "Gear"},
            "validations": [{"expression": "true"}]}),
        );
        let server = with(unknown, deny()).await;
        let (answer, status) = server.map("a", json!({})).await;
        assert_eq!(answer, 422);
        assert_eq!(
            status["details"]["causes"][0]["message"],
            "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: \
             failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gear'"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_are_refused_and_no_op_updates_are_looked_at() {
    let policy = json!({
        "matchConstraints": rule("configmaps", &["UPDATE", "DELETE"]),
        "matchConditions": [{"name": "kept", "expression": "has(oldObject.data) && 'keep' in oldObject.data"}],
        "validations": [{"expression": "false", "messageExpression":
            "request.operation + ' ' + (object == null ? 'null' : object.metadata.name)"}],
    });
    let server = with(policy, deny()).await;
    for name in ["a", "b"] {
        assert_eq!(server.map(name, json!({"keep": ""})).await.0, 201);
    }
    assert_eq!(server.map("free", json!({})).await.0, 201);
    let path = format!("{CONFIG_MAPS}/a");
    let (code, status) = server.delete(&path).await;
    assert_eq!(code, 422);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .ends_with("denied request: DELETE null")
    );
    let (code, _) = server
        .delete(&format!("{CONFIG_MAPS}?labelSelector=app%3Db"))
        .await;
    assert_eq!(code, 422);
    assert_eq!(server.delete(&format!("{CONFIG_MAPS}/free")).await.0, 200);
    let (code, status) = server.patch(&path, "merge-patch", json!({})).await;
    assert_eq!(code, 422);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .ends_with("denied request: UPDATE a")
    );
}

#[tokio::test(start_paused = true)]
async fn expressions_see_the_request_its_namespace_and_permissions() {
    let policy = json!({
        "matchConstraints": rule("pods", &["CREATE"]),
        "validations": [{"expression": "false", "messageExpression": "[
            request.kind.kind, request.resource.resource, request.name, request.namespace, request.userInfo.username,
            string(request.dryRun), namespaceObject.metadata.name, namespaceObject.status.phase,
            string(request.options.kind)].join(' ')"}],
    });
    let server = with(policy, deny()).await;
    server.make_account().await;
    let pod =
        json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (_, status) = server
        .post(&format!("{PODS}?dryRun=All"), pod.clone())
        .await;
    let message = status["message"].as_str().unwrap();
    let why =
        "denied request: Pod pods x default kubernetes-admin true default Active CreateOptions";
    assert!(message.ends_with(why), "{message}");
    let policy = json!({
        "matchConstraints": rule("pods", &["CREATE"]),
        "validations": [
            {"expression": "authorizer.requestResource.check('create').allowed()"},
            {"expression": "authorizer.serviceAccount('default', 'nobody').group('apps').resource('deployments').namespace('default').check('delete').allowed()",
             "message": "nobody may not"},
        ],
    });
    let server = with(policy, deny()).await;
    server.make_account().await;
    let (_, status) = server.post(PODS, pod).await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("denied request: nobody may not"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn policies_do_not_apply_to_policies() {
    let policy = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
        "validations": [{"expression": "false"}],
    });
    let server = with(policy, deny()).await;
    assert_eq!(server.map("a", json!({})).await.0, 422);
    let path = format!("{GROUP}/validatingadmissionpolicybindings/b");
    assert_eq!(server.delete(&path).await.0, 200);
    assert_eq!(server.map("a", json!({})).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn costly_policies_end_with_their_budget() {
    let costly = "lists.range(90000).all(x, x >= 0)";
    let validations = vec![json!({"expression": costly}); 24];
    let policy = spec(json!({"validations": validations}));
    let server = with(policy, deny()).await;
    let (code, status) = server.map("a", json!({})).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap();
    let why = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(message.ends_with(why), "{message}");
}

/// What is wrong with a validating policy whose spec is changed like that.
async fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let server = Server::new();
    let mut spec = spec(json!({"validations": [{"expression": "true"}]}));
    change(&mut spec);
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    let (code, status) = server.post(&path, policy).await;
    assert_eq!(code, 422, "{status}");
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap().to_owned();
    causes
        .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn expressions_must_compile_and_be_of_their_type() {
    let found = faults(|spec| {
        spec["matchConditions"] = json!([{"name": "a b", "expression": " params.x "}]);
        spec["variables"] = json!([
            {"name": "one", "expression": "1"}, {"name": "in", "expression": "variables.one + 'x'"}]);
        spec["validations"] = json!([
            {"expression": "object.x +"},
            {"expression": "variables.one", "messageExpression": "authorizer.path('/x')", "message": "a\nb"},
            {"expression": "variables.two", "messageExpression": "1", "reason": "Unauthorized"}]);
        spec["auditAnnotations"] = json!([{"key": "k", "valueExpression": " 1 "}]);
    })
    .await;
    assert_eq!(
        found,
        [
            "spec.matchConditions[0].expression: Invalid value: \"params.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
            "spec.matchConditions[0].name: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "spec.variables[1].name: Invalid value: \"in\": must be a valid CEL identifier",
            "spec.variables[1].expression: Invalid value: \"variables.one + 'x'\": compilation failed: ERROR: <input>:1:15: found no matching overload for '_+_' applied to '(int, string)'\n | variables.one + 'x'\n | ..............^",
            "spec.validations[0].expression: Invalid value: \"object.x +\": compilation failed: ERROR: <input>:1:11: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.x +\n | ..........^",
            "spec.validations[1].expression: Invalid value: \"variables.one\": must evaluate to bool but got int",
            "spec.validations[1].messageExpression: Invalid value: \"authorizer.path('/x')\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | authorizer.path('/x')\n | ^",
            "spec.validations[1].message: Invalid value: \"a\\nb\": must not contain line breaks",
            "spec.validations[2].expression: Invalid value: \"variables.two\": compilation failed: ERROR: <input>:1:10: undefined field 'two'\n | variables.two\n | .........^",
            "spec.validations[2].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
            "spec.validations[2].reason: Unsupported value: \"Unauthorized\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            "spec.auditAnnotations[0].valueExpression: Invalid value: \" 1 \": must evaluate to one of [string null_type] but got int",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn variables_that_nest_too_deeply_are_refused() {
    let found = faults(|spec| {
        let step = |index: usize| {
            let before = index.checked_sub(1).map_or("1".to_owned(), |index| format!("variables.v{index}"));
            json!({"name": format!("v{index}"), "expression": format!("{before}{}", " + 1".repeat(60))})
        };
        spec["variables"] = (0..12).map(step).collect();
    })
    .await;
    assert!(
        found[0].starts_with("spec.variables[9].expression: Invalid value: "),
        "{found:?}"
    );
    assert!(found[0].ends_with("at most 600 are allowed"), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn subresources_are_admitted_as_what_they_take() {
    let resources = [
        "deployments",
        "deployments/scale",
        "pods/eviction",
        "pods/binding",
        "pods/exec",
        "serviceaccounts/token",
    ];
    let policy = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": ["", "apps"], "apiVersions": ["v1"], "operations": ["UPDATE", "CREATE", "CONNECT"], "resources": resources}]},
        "matchConditions": [{"name": "not-the-objects", "expression": "has(request.subResource) || request.operation == 'UPDATE'"}],
        "validations": [{"expression": "false", "messageExpression":
            "request.operation + ' ' + request.requestSubResource + ' ' + request.kind.group + '/' + request.kind.kind + ' ' + string(object.kind) + ' ' + (oldObject == null ? 'new' : string(oldObject.spec.replicas))"}],
    });
    let server = Server::new();
    server.make_account().await;
    let (code, created) = server.post(PODS, json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).await;
    assert_eq!(code, 201, "{created}");
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "x"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    assert_eq!(server.post(deployments, deployment).await.0, 201);
    server.bind(policy, deny()).await;
    let scale = server
        .patch(
            &format!("{deployments}/x/scale"),
            "merge-patch",
            json!({"spec": {"replicas": 3}}),
        )
        .await;
    let evict = server
        .post(
            &format!("{PODS}/x/eviction"),
            json!({"metadata": {"name": "x"}}),
        )
        .await;
    let bind = server
        .post(
            &format!("{PODS}/x/binding"),
            json!({"metadata": {"name": "x"}, "target": {"name": "n"}}),
        )
        .await;
    let exec = server
        .post(&format!("{PODS}/x/exec?command=sh"), json!({}))
        .await;
    let token = server
        .post(
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            json!({"spec": {}}),
        )
        .await;
    for ((code, status), expected) in [
        (scale, "UPDATE scale autoscaling/Scale Scale 2"),
        (evict, "CREATE eviction policy/Eviction Eviction new"),
        (bind, "CREATE binding /Binding Binding new"),
        (exec, "CONNECT exec /PodExecOptions PodExecOptions new"),
        (
            token,
            "CREATE token authentication.k8s.io/TokenRequest TokenRequest new",
        ),
    ] {
        assert_eq!(code, 422, "{status}");
        let message = status["message"].as_str().unwrap();
        assert!(
            message.ends_with(&format!("denied request: {expected}")),
            "{message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn policies_show_nobody_parameters_that_they_may_not_read() {
    let server = Server::new();
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "writer"}, "rules": rules});
    assert_eq!(
        server.post(&format!("{roles}/clusterroles"), role).await.0,
        201
    );
    let binding = json!({"metadata": {"name": "writer"}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "writer", "apiGroup": "rbac.authorization.k8s.io"}});
    assert_eq!(
        server
            .post(&format!("{roles}/clusterrolebindings"), binding)
            .await
            .0,
        201
    );
    let as_jane = async |kind: &str, body: Value| {
        let request = Request::post(format!("{GROUP}/{kind}"))
            .header("content-type", "application/json")
            .body(Bytes::from(body.to_string()));
        let jane = crate::auth::Identity::new("jane", &[]);
        let answer = server.server.handle(request.unwrap(), jane).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        (
            code,
            body["details"]["causes"][0]["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    let mut policy = spec(
        json!({"validations": [{"expression": "true"}], "paramKind": {"apiVersion": "v1", "kind": "Secret"}}),
    );
    let named = |spec: &Value| json!({"metadata": {"name": "p"}, "spec": spec});
    let (code, why) = as_jane("validatingadmissionpolicies", named(&policy)).await;
    let user = "user &{jane  [system:authenticated] map[]}";
    assert_eq!(code, 422);
    assert_eq!(
        why,
        format!(
            "Forbidden: {user} must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
        )
    );
    let path = format!("{GROUP}/validatingadmissionpolicies");
    assert_eq!(server.post(&path, named(&policy)).await.0, 201);
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "s", "namespace": "default", "parameterNotFoundAction": "Deny"}}});
    let (code, why) = as_jane("validatingadmissionpolicybindings", binding).await;
    assert_eq!(code, 422);
    assert_eq!(
        why,
        format!(
            "Forbidden: {user} does not have \"get\" permission on the object referenced by paramRef"
        )
    );
    policy["paramKind"] = Value::Null;
    let policy = json!({"metadata": {"name": "q"}, "spec": policy});
    assert_eq!(as_jane("validatingadmissionpolicies", policy).await.0, 201);
}
