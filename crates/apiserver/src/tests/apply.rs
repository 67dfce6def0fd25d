//! Server-side apply through the API.

use super::*;

async fn apply(server: &Server, path: &str, query: &str, body: Value) -> (u16, Value) {
    let path = format!("{path}?{query}");
    server
        .call(
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            body.to_string().into(),
        )
        .await
}

fn config(replicas: i64) -> Value {
    let mut config = deployment("web");
    config["apiVersion"] = json!("apps/v1");
    config["kind"] = json!("Deployment");
    config["spec"]["replicas"] = json!(replicas);
    config
}

fn managers(value: &Value) -> Vec<String> {
    let list = value["metadata"]["managedFields"].as_array().unwrap();
    list.iter()
        .map(|m| {
            format!(
                "{} {}",
                m["manager"].as_str().unwrap(),
                m["operation"].as_str().unwrap()
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_creates_names_what_it_creates() {
    let server = Server::new();
    let path = format!("{CONFIG_MAPS}/a");
    let config = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}});
    let nameless = config(json!({}));
    let (code, refused) = apply(&server, &path, "fieldManager=me", nameless.clone()).await;
    assert_eq!(
        (code, &refused["message"]),
        (
            400,
            &json!(
                "the name of the object (a based on URL) was undeterminable: name must be provided"
            )
        )
    );
    let named = config(json!({"name": "a"}));
    let (code, created) = apply(&server, &path, "fieldManager=me", named).await;
    assert_eq!(code, 201, "{created}");
    // What is there has a name.
    let (code, same) = apply(&server, &path, "fieldManager=me", nameless).await;
    assert_eq!(code, 200, "{same}");
}

#[tokio::test(start_paused = true)]
async fn applies_create_then_change_then_do_nothing() {
    let server = Server::new();
    let path = format!("{DEPLOYMENTS}/web");
    let (code, created) = apply(&server, &path, "fieldManager=me", config(1)).await;
    assert_eq!(
        (code, managers(&created)),
        (201, vec!["me Apply".to_owned()]),
        "{created}"
    );
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(fields["f:spec"]["f:replicas"], json!({}));
    assert!(
        fields["f:spec"].get("f:revisionHistoryLimit").is_none(),
        "defaults belong to nobody"
    );
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    let (code, same) = apply(&server, &path, "fieldManager=me", config(1)).await;
    assert_eq!((code, revision(&same)), (200, revision(&created)));
    let (_, changed) = apply(&server, &path, "fieldManager=me", config(3)).await;
    assert_eq!(
        (
            &changed["spec"]["replicas"],
            &changed["metadata"]["generation"]
        ),
        (&json!(3), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn giving_up_all_that_was_applied_of_the_metadata_leaves_the_name() {
    let server = Server::new();
    let path = format!("{CONFIG_MAPS}/a");
    let config = |more: Value| {
        let mut config = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "default"}, "data": {"key": "value"}});
        if !more.is_null() {
            config["metadata"]["labels"] = more;
        }
        config
    };
    let labels = json!({"app": "web"});
    let (code, _) = apply(&server, &path, "fieldManager=me", config(labels)).await;
    assert_eq!(code, 201);
    let (code, changed) = apply(&server, &path, "fieldManager=me", config(Value::Null)).await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(changed["metadata"]["name"], "a");
    assert_eq!(changed["metadata"]["labels"], Value::Null);
    let fields = &changed["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*fields, json!({"f:data": {"f:key": {}}}));
}

#[tokio::test(start_paused = true)]
async fn what_stands_twice_is_named_with_its_line() {
    let server = Server::new();
    let path = format!("{CONFIG_MAPS}/a?fieldManager=me&fieldValidation=Strict");
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  a: c\n";
    let patch = "application/apply-patch+yaml";
    let (code, refused) = server.call(Method::PATCH, &path, patch, body.into()).await;
    let twice = "yaml: unmarshal errors:\n  line 6: key \"a\" already set in map";
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            400,
            &*format!("error strict decoding YAML: error converting YAML to JSON: {twice}")
        )
    );
    let path = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let yaml = "application/yaml";
    let (code, refused) = server.call(Method::POST, &path, yaml, body.into()).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(code, 400);
    assert!(
        message.ends_with(&format!("strict decoding error: {twice}")),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_refused_unless_forced() {
    let server = Server::new();
    let path = format!("{DEPLOYMENTS}/web");
    apply(&server, &path, "fieldManager=me", config(1)).await;
    let body = json!({"spec": {"replicas": 4}});
    server
        .patch(&format!("{path}?fieldManager=scaler"), "merge-patch", body)
        .await;
    let (code, status) = apply(&server, &path, "fieldManager=me", config(1)).await;
    assert_eq!(code, 409);
    assert_eq!(status["details"]["causes"][0]["field"], ".spec.replicas");
    let (code, value) = apply(&server, &path, "fieldManager=me&force=true", config(1)).await;
    assert_eq!(
        (code, &value["spec"]["replicas"], managers(&value)),
        (200, &json!(1), vec!["me Apply".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn status_has_its_own_owners() {
    let server = Server::new();
    let path = format!("{DEPLOYMENTS}/web");
    apply(&server, &path, "fieldManager=me", config(1)).await;
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1}, "spec": {"replicas": 9}});
    let (code, value) = apply(
        &server,
        &format!("{path}/status"),
        "fieldManager=controller",
        status,
    )
    .await;
    assert_eq!(
        (
            code,
            &value["status"]["replicas"],
            &value["spec"]["replicas"]
        ),
        (200, &json!(1), &json!(1)),
        "{value}"
    );
    let entry = value["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|m| m["manager"] == "controller")
        .unwrap();
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:replicas": {}}}))
    );
}

#[tokio::test(start_paused = true)]
async fn bad_applies_are_refused() {
    let server = Server::new();
    let path = format!("{DEPLOYMENTS}/web");
    assert_eq!(apply(&server, &path, "", config(1)).await.0, 422);
    assert_eq!(
        apply(
            &server,
            &path,
            "fieldManager=me",
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replcas": 1}})
        )
        .await
        .0,
        500
    );
    assert_eq!(
        apply(
            &server,
            &path,
            "fieldManager=me",
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"managedFields": [{"manager": "x"}]}})
        )
        .await
        .0,
        400
    );
    assert_eq!(
        apply(&server, &path, "fieldManager=me", json!([])).await.0,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn replicas_are_applied_through_scale() {
    let server = Server::new();
    server.post(DEPLOYMENTS, deployment("web")).await;
    let apply = |manager: &str, replicas: u32, force: bool| {
        let path = format!("{DEPLOYMENTS}/web/scale?fieldManager={manager}&force={force}");
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": replicas}});
        let server = &server;
        async move {
            let body = scale.to_string().into();
            server
                .call(Method::PATCH, &path, "application/apply-patch+yaml", body)
                .await
        }
    };
    let (code, status) = apply("ci", 6, false).await;
    let message = "Apply failed with 1 conflict: conflict with \"unknown\" using autoscaling/v1: .spec.replicas";
    assert_eq!((code, &status["message"]), (409, &json!(message)));
    let (code, scale) = apply("ci", 6, true).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(6)));
    let (code, status) = apply("other", 5, false).await;
    assert_eq!(code, 409, "{status}");
    let (_, object) = server.get(&format!("{DEPLOYMENTS}/web")).await;
    let owned = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["manager"] == "ci")
        .unwrap();
    let expected = json!({"apiVersion": "apps/v1", "fieldsType": "FieldsV1", "manager": "ci", "operation": "Apply",
        "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
    assert_eq!(owned, &expected);
}

/// Inside the server, managed fields are texts: what a client sends as text must not end up among them.
#[tokio::test(start_paused = true)]
async fn managed_fields_that_are_no_objects_are_nobodys() {
    let server = Server::new();
    let entry = |fields: Value| json!([{"manager": "evil", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let evil = json!("{}},\"spec\":{\"a\":{");
    let path = format!("{CONFIG_MAPS}/a");
    let body = json!({"metadata": {"name": "a", "managedFields": entry(evil.clone())}, "data": {"k": "1"}});
    let (code, created) = server.post(CONFIG_MAPS, body.clone()).await;
    assert_eq!(
        (code, managers(&created)),
        (201, vec!["unknown Update".to_owned()])
    );
    assert_eq!(server.put(&path, body).await.0, 200);
    let merge = json!({"metadata": {"managedFields": entry(evil.clone())}, "data": {"k": "2"}});
    for kind in ["merge-patch", "strategic-merge-patch"] {
        let (code, patched) = server.patch(&path, kind, merge.clone()).await;
        assert_eq!(code, 200, "{patched}");
    }
    for operations in [
        json!([{"op": "replace", "path": "/metadata/managedFields/0/fieldsV1", "value": evil}]),
        json!([{"op": "replace", "path": "/metadata/managedFields", "value": entry(evil.clone())}]),
        json!([{"op": "copy", "from": "/metadata/managedFields/0/fieldsV1", "path": "/data"}]),
        json!([{"op": "test", "path": "/metadata/managedFields/0/fieldsV1/f:data/f:k", "value": {}}]),
        json!([{"op": "replace", "path": "/data/k", "value": "3"}]),
    ] {
        let (code, patched) = server.patch(&path, "json-patch", operations.clone()).await;
        assert!(code == 200 || code == 422, "{operations}: {code} {patched}");
    }
    let (code, stored) = server.get(&path).await;
    assert_eq!((code, &stored["data"]["k"]), (200, &json!("3")));
    assert!(stored.get("spec").is_none(), "{stored}");
    let entries = stored["metadata"]["managedFields"].as_array();
    for entry in entries.into_iter().flatten() {
        assert!(entry["fieldsV1"].is_object(), "{entry}");
    }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What `kubectl apply` without `--server-side` makes.
async fn client_side_applied(server: &Server, replicas: i64) -> Value {
    let mut object = config(replicas);
    let text = object.to_string();
    object["metadata"]["annotations"] = json!({LAST_APPLIED: text});
    let path = format!("{DEPLOYMENTS}?fieldManager=kubectl-client-side-apply");
    let (code, created) = server.post(&path, object).await;
    assert_eq!(code, 201, "{created}");
    created
}

fn last_applied(object: &Value) -> Value {
    let text = object["metadata"]["annotations"][LAST_APPLIED].as_str();
    serde_json::from_str(text.unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_kubectl_applies_is_written_down_where_it_was_before() {
    let server = Server::new();
    client_side_applied(&server, 1).await;
    let path = format!("{DEPLOYMENTS}/web");
    let mut wanted = config(3);
    wanted["metadata"]["namespace"] = json!("default");
    let (code, applied) = apply(&server, &path, "fieldManager=kubectl", wanted.clone()).await;
    assert_eq!((code, &applied["spec"]["replicas"]), (200, &json!(3)));
    assert_eq!(last_applied(&applied), wanted);
    let (_, same) = apply(&server, &path, "fieldManager=kubectl", wanted.clone()).await;
    assert_eq!(revision(&same), revision(&applied));
    // Others have nothing to do with it.
    let (_, other) = apply(&server, &path, "fieldManager=me&force=true", config(4)).await;
    assert_eq!(other["spec"]["replicas"], 4);
    assert_eq!(last_applied(&other), wanted);
    // Where it is not, it does not come.
    let (_, fresh) = {
        let path = format!("{DEPLOYMENTS}/fresh");
        let mut object = config(1);
        object["metadata"]["name"] = json!("fresh");
        apply(&server, &path, "fieldManager=kubectl", object).await
    };
    assert!(fresh["metadata"]["annotations"].is_null(), "{fresh}");
}

#[tokio::test(start_paused = true)]
async fn kubectl_takes_over_what_is_as_it_applied_it() {
    let server = Server::new();
    client_side_applied(&server, 1).await;
    let path = format!("{DEPLOYMENTS}/web");
    // Someone has scaled it since: that is theirs.
    let scaled = json!({"spec": {"replicas": 5}});
    let query = format!("{path}?fieldManager=someone");
    assert_eq!(server.patch(&query, "merge-patch", scaled).await.0, 200);
    let mut wanted = config(3);
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!("new");
    let (code, status) = apply(&server, &path, "fieldManager=kubectl", wanted.clone()).await;
    assert_eq!(code, 409, "{status}");
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, [".spec.replicas"]);
    wanted["spec"]["replicas"] = json!(5);
    let (code, taken) = apply(&server, &path, "fieldManager=kubectl", wanted).await;
    assert_eq!(code, 200, "{taken}");
}

/// The name is nobody's field, and yet the metadata does not go with the last label.
#[tokio::test(start_paused = true)]
async fn the_last_label_that_was_applied_can_be_left_out() {
    let server = Server::new();
    let path = "/api/v1/namespaces/default/configmaps/c";
    let object = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}});
    let (code, _) = apply(
        &server,
        path,
        "fieldManager=me",
        object(json!({"name": "c", "labels": {"a": "b"}, "annotations": {}})),
    )
    .await;
    assert_eq!(code, 201);
    let (code, left) = apply(
        &server,
        path,
        "fieldManager=me",
        object(json!({"name": "c"})),
    )
    .await;
    assert_eq!(
        (code, &left["metadata"]["name"]),
        (200, &json!("c")),
        "{left}"
    );
    assert_eq!(left["metadata"]["labels"], Value::Null);
}
