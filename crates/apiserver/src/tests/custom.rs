//! Custom resource definitions from creation to deletion.

use super::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "default": "red"}, "replicas": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "ready": {"type": "boolean"}}}}});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        })
    };
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"]},
        "versions": [version("v1", true), version("v1beta1", false)]}})
}

async fn with_widgets() -> Server {
    let server = Server::new();
    let (code, created) = server.post(CRDS, definition()).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["status"]["conditions"][1]["type"], "Established");
    server
}

fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size, "extra": true}})
}

#[tokio::test(start_paused = true)]
async fn objects_are_pruned_defaulted_and_checked() {
    let server = with_widgets().await;
    let (code, created) = server.post(WIDGETS, widget("a", 1)).await;
    assert_eq!(
        (code, &created["spec"]),
        (201, &json!({"size": 1, "color": "red"})),
        "{created}"
    );
    assert_eq!(created["metadata"]["generation"], 1);
    let (code, status) = server.post(WIDGETS, widget("b", 0)).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (422, &json!("spec.size"))
    );
    let (code, _) = server
        .post(&format!("{WIDGETS}?fieldValidation=Strict"), widget("c", 1))
        .await;
    assert_eq!(code, 400);
    assert_eq!(
        server
            .patch(&format!("{WIDGETS}/a"), "strategic-merge-patch", json!({}))
            .await
            .0,
        415
    );
    let unconditional = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 2}});
    assert_eq!(
        server.put(&format!("{WIDGETS}/a"), unconditional).await.0,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn subresources_versions_and_discovery() {
    let server = with_widgets().await;
    server.post(WIDGETS, widget("a", 1)).await;
    let (_, value) = server
        .patch(
            &format!("{WIDGETS}/a/status"),
            "merge-patch",
            json!({"status": {"ready": true}, "spec": {"size": 9}}),
        )
        .await;
    assert_eq!(
        (&value["status"]["ready"], &value["spec"]["size"]),
        (&json!(true), &json!(1))
    );
    let (_, scale) = server
        .patch(
            &format!("{WIDGETS}/a/scale"),
            "merge-patch",
            json!({"spec": {"replicas": 3}}),
        )
        .await;
    assert_eq!(scale["spec"]["replicas"], 3, "{scale}");
    let (_, other) = server
        .get("/apis/example.com/v1beta1/namespaces/default/widgets/a")
        .await;
    assert_eq!(
        (&other["apiVersion"], &other["spec"]["replicas"]),
        (&json!("example.com/v1beta1"), &json!(3))
    );
    let (_, list) = server.get("/apis/example.com/v1").await;
    assert_eq!(list["resources"][0]["shortNames"], json!(["wi"]));
    assert_eq!(server.get("/openapi/v3/apis/example.com/v1").await.0, 200);
    let table = server
        .send(
            Method::GET,
            WIDGETS,
            "",
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            Bytes::new(),
        )
        .await;
    let table: Value =
        serde_json::from_slice(&table.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(
        (
            &table["columnDefinitions"][1]["name"],
            &table["rows"][0]["cells"][1]
        ),
        (&json!("Size"), &json!(1))
    );
    let apply = widget("b", 2);
    let mut apply = apply;
    apply["spec"].as_object_mut().unwrap().remove("extra");
    let path = format!("{WIDGETS}/b?fieldManager=me");
    let (code, applied) = server
        .call(
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            apply.to_string().into(),
        )
        .await;
    assert_eq!(code, 201, "{applied}");
    assert_eq!(
        applied["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {"f:size": {}}})
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along() {
    let server = with_widgets().await;
    server.post(WIDGETS, widget("a", 1)).await;
    let mut held = widget("held", 1);
    held["metadata"]["finalizers"] = json!(["x/y"]);
    server.post(WIDGETS, held).await;
    server.delete(&format!("{CRDS}/widgets.example.com")).await;
    assert_eq!(server.get(&format!("{WIDGETS}/a")).await.0, 404);
    assert!(
        server.get(&format!("{WIDGETS}/held")).await.1["metadata"]["deletionTimestamp"].is_string()
    );
    server
        .patch(
            &format!("{WIDGETS}/held"),
            "merge-patch",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    assert_eq!(
        server.get(&format!("{CRDS}/widgets.example.com")).await.0,
        404
    );
    assert_eq!(
        server.get(WIDGETS).await,
        (404, json!("404 page not found\n")),
        "its group is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn bad_definitions_are_refused() {
    let server = Server::new();
    let mut wrong_name = definition();
    wrong_name["metadata"]["name"] = json!("gadgets.example.com");
    assert_eq!(server.post(CRDS, wrong_name).await.0, 422);
    let mut no_schema = definition();
    no_schema["spec"]["versions"][0]
        .as_object_mut()
        .unwrap()
        .remove("schema");
    assert_eq!(server.post(CRDS, no_schema).await.0, 422);
    let mut two_storages = definition();
    two_storages["spec"]["versions"][1]["storage"] = json!(true);
    assert_eq!(server.post(CRDS, two_storages).await.0, 422);
}

/// The code of a creation, and its warnings.
async fn warned(server: &Server, path: &str, body: Value) -> (u16, Vec<String>) {
    let body = Bytes::from(body.to_string());
    let response = server
        .send(Method::POST, path, "application/json", "*/*", body)
        .await;
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned());
    (response.status().as_u16(), warnings.collect())
}

#[tokio::test(start_paused = true)]
async fn what_has_no_effect_is_warned_about() {
    let server = Server::new();
    let group = "/apis/admissionregistration.k8s.io/v1";
    let path = format!("{group}/validatingadmissionpolicybindings");
    for (actions, expected) in [(json!(["Deny"]), 0), (json!(["Deny", "Audit"]), 1)] {
        let name = format!("b{expected}");
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": actions}});
        let (code, warnings) = warned(&server, &path, binding).await;
        assert_eq!((code, warnings.len()), (201, expected), "{warnings:?}");
    }
}

/// A definition of someone else's resource, at a version that nobody serves.
fn definition_of(plural: &str, group: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
        },
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v9", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn causes(status: &Value) -> Vec<(&str, &str)> {
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    causes
        .map(|cause| {
            (
                cause["field"].as_str().unwrap(),
                cause["message"].as_str().unwrap(),
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_cannot_be_defined() {
    let server = Server::new();
    let built_in = "the resource or kind is built into the API server and cannot be defined";
    for (plural, group, kind) in [
        ("deployments", "apps", "Mine"),
        ("mine", "apps", "Deployment"),
        ("clusterrolebindings", "rbac.authorization.k8s.io", "Mine"),
        ("mine", "rbac.authorization.k8s.io", "ClusterRole"),
        ("events", "events.k8s.io", "Mine"),
        ("subjectaccessreviews", "authorization.k8s.io", "Mine"),
    ] {
        let (code, status) = server.post(CRDS, definition_of(plural, group, kind)).await;
        assert_eq!(code, 422, "{plural}.{group} {status}");
        let causes = causes(&status);
        let is_named = |(field, message): &(&str, &str)| {
            *field == "metadata.name" && message.ends_with(built_in)
        };
        assert!(causes.iter().any(is_named), "{causes:?}");
        let is_bare = causes.contains(&(
            "spec.group",
            "Invalid value: \"apps\": should be a domain with at least one dot",
        ));
        assert_eq!(is_bare, group == "apps", "{causes:?}");
    }
    let (code, status) = server
        .post(
            CRDS,
            definition_of("mine", "rbac.authorization.k8s.io", "Mine"),
        )
        .await;
    assert_eq!(code, 201, "{status}");
}

/// One that came in some other way: out of an older data folder, or by being restored.
#[tokio::test(start_paused = true)]
async fn a_definition_never_owns_what_is_built_in() {
    let server = Server::new();
    let (code, _) = server.post(DEPLOYMENTS, deployment("a")).await;
    assert_eq!(code, 201);
    let mut stray = definition_of("deployments", "apps", "Deployment");
    stray["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    server.server.restore(stray).unwrap();
    let path = "/apis/apps/v9/namespaces/default/deployments";
    assert_eq!(server.get(path).await.0, 404);
    let (code, _) = server.delete(&format!("{CRDS}/deployments.apps")).await;
    assert_eq!(code, 200);
    assert_eq!(server.get(&format!("{CRDS}/deployments.apps")).await.0, 404);
    assert_eq!(server.get(&format!("{DEPLOYMENTS}/a")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn objects_go_with_their_definition_even_if_no_version_is_served() {
    let server = with_widgets().await;
    assert_eq!(server.post(WIDGETS, widget("a", 1)).await.0, 201);
    let path = format!("{CRDS}/widgets.example.com");
    let unserved = json!([
        {"op": "replace", "path": "/spec/versions/0/served", "value": false},
        {"op": "replace", "path": "/spec/versions/1/served", "value": false},
    ]);
    let (code, answer) = server.patch(&path, "json-patch", unserved).await;
    assert_eq!(code, 200, "{answer}");
    server.delete(&path).await;
    assert_eq!(server.get(&path).await.0, 404);
    assert_eq!(server.post(CRDS, definition()).await.0, 201);
    let (_, list) = server.get(WIDGETS).await;
    assert_eq!(names(&list), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn groups_of_the_community_need_approval() {
    let server = Server::new();
    let definition = |annotation: Value| {
        let mut definition = definition_of("gadgets", "gadgets.k8s.io", "Gadget");
        definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        definition
    };
    let (code, status) = server.post(CRDS, definition(Value::Null)).await;
    assert_eq!(code, 422, "{status}");
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    assert_eq!(
        causes(&status),
        [(field, format!("Required value: {must}, {see}").as_str())]
    );
    let (code, status) = server.post(CRDS, definition(json!("maybe"))).await;
    assert_eq!(code, 422, "{status}");
    let (code, created) = server
        .post(CRDS, definition(json!("unapproved, for a test")))
        .await;
    assert_eq!(code, 201, "{created}");
    let condition = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .find(|one| one["type"] == "KubernetesAPIApprovalPolicyConformant");
        let found = found.unwrap();
        (found["status"].clone(), found["reason"].clone())
    };
    assert_eq!(
        condition(&created),
        (json!("False"), json!("UnapprovedAnnotation"))
    );
    let url = "https://github.com/kubernetes/kubernetes/pull/1";
    let approve = json!({"metadata": {"annotations": {"api-approved.kubernetes.io": url}}});
    let path = format!("{CRDS}/gadgets.gadgets.k8s.io");
    let (_, approved) = server.patch(&path, "merge-patch", approve).await;
    assert_eq!(
        condition(&approved),
        (json!("True"), json!("ApprovedAnnotation"))
    );
}

fn renamed(plural: &str, kind: &str) -> Value {
    let mut definition = definition();
    definition["metadata"]["name"] = json!(format!("{plural}.example.com"));
    definition["spec"]["names"] = json!({"plural": plural, "kind": kind});
    definition
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_compiled_when_it_changes_and_not_with_every_other() {
    let server = with_widgets().await;
    let served = |plural: &str| {
        let registry = server.server.shared().registry();
        registry.resource("example.com", "v1", plural).cloned()
    };
    let before = served("widgets").unwrap();
    assert_eq!(server.post(CRDS, renamed("gadgets", "Gadget")).await.0, 201);
    assert!(std::sync::Arc::ptr_eq(&before, &served("widgets").unwrap()));
    let path = format!("{CRDS}/widgets.example.com");
    let short = json!({"spec": {"names": {"shortNames": ["wdg"]}}});
    assert_eq!(server.patch(&path, "merge-patch", short).await.0, 200);
    assert_eq!(served("widgets").unwrap().short_names, ["wdg"]);
    assert_eq!(
        server
            .delete(&format!("{CRDS}/gadgets.example.com"))
            .await
            .0,
        200
    );
    assert!(served("gadgets").is_none() && served("widgets").is_some());
}

#[tokio::test(start_paused = true)]
async fn patterns_that_cost_too_much_are_refused() {
    let server = Server::new();
    let mut definition = definition();
    let properties = (0..100).map(|number| {
        // A few letters that compile to a megabyte each.
        let pattern = format!(r"(\w{{1,{}}}){{40}}", number + 30);
        (
            format!("p{number}"),
            json!({"type": "string", "pattern": pattern}),
        )
    });
    let schema = json!({"type": "object", "properties": Value::Object(properties.collect())});
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    let (code, status) = server.post(CRDS, definition).await;
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("expression too large"), "{message}");
}

/// UPSTREAM: every read prunes and defaults by the schema that is in force.
#[tokio::test(start_paused = true)]
async fn objects_follow_a_schema_that_changed_after_they_were_stored() {
    let server = with_widgets().await;
    let path = format!("{CRDS}/widgets.example.com");
    let (code, _) = server.post(WIDGETS, widget("old", 1)).await;
    assert_eq!(code, 201);
    let mut changed = definition();
    for version in changed["spec"]["versions"].as_array_mut().unwrap() {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        spec.as_object_mut().unwrap().remove("color");
        spec["shape"] = json!({"type": "string", "default": "round"});
        version["selectableFields"] = json!([{"jsonPath": ".spec.shape"}]);
    }
    let (_, held) = server.get(&path).await;
    changed["metadata"]["resourceVersion"] = held["metadata"]["resourceVersion"].clone();
    let (code, said) = server.put(&path, changed).await;
    assert_eq!(code, 200, "{said}");
    let expected = json!({"size": 1, "shape": "round"});
    let (_, read) = server.get(&format!("{WIDGETS}/old")).await;
    assert_eq!(read["spec"], expected);
    let (_, list) = server.get(WIDGETS).await;
    assert_eq!(list["items"][0]["spec"], expected);
    let (_, list) = server
        .get(&format!("{WIDGETS}?fieldSelector=spec.shape=round"))
        .await;
    assert_eq!(names(&list), ["old"]);
    let (_, list) = server
        .get(&format!("{WIDGETS}?fieldSelector=spec.shape=flat"))
        .await;
    assert!(names(&list).is_empty());
    // The revision is that of the last write, until somebody writes.
    assert_eq!(
        read["metadata"]["resourceVersion"],
        list_item_revision(&server).await
    );
    let patched = server
        .patch(
            &format!("{WIDGETS}/old"),
            "merge-patch",
            json!({"spec": {"size": 2}}),
        )
        .await;
    assert_eq!(patched.1["spec"], json!({"size": 2, "shape": "round"}));
    // A definition that changes otherwise leaves stored objects alone.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    server.patch(&path, "merge-patch", label).await;
    let registry = server.server.shared.registry();
    let kind = registry.resource("example.com", "v1", "widgets").unwrap();
    assert!(kind.schema_since < revision(&patched.1));
}

async fn list_item_revision(server: &Server) -> Value {
    let (_, list) = server.get(WIDGETS).await;
    list["items"][0]["metadata"]["resourceVersion"].clone()
}
