//! What other people's software showed about the server: operators, their definitions, and how they apply objects.

use super::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GEARS: &str = "/apis/example.com/v1/namespaces/default/gears";

fn definition() -> Value {
    let schema = json!({"type": "object", "description": "A gear turns.", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "description": "How many teeth."}, "note": {"type": "string"},
            "color": {"type": "string", "default": "red"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}}},
        "status": {"type": "object", "default": {"phase": "New"}, "properties": {"phase": {"type": "string"}}}}});
    let other = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "maximum": 50}, "extra": {"type": "string"}}}}});
    let version = |name: &str, schema: Value| {
        json!({"name": name, "served": true, "storage": name == "v1",
        "deprecated": name == "v1beta1", "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}})
    };
    json!({"metadata": {"name": "gears.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"},
        "versions": [version("v1", schema), version("v2", other.clone()), version("v1beta1", other)]}})
}

async fn with_gears() -> Server {
    let server = Server::new();
    let (code, created) = server.post(CRDS, definition()).await;
    assert_eq!(code, 201, "{created}");
    server
}

fn gear(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Gear", "metadata": {"name": name}, "spec": spec})
}

async fn apply(server: &Server, manager: &str, object: &Value) -> (u16, Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let path = format!("{GEARS}/{name}?fieldManager={manager}");
    let body = object.to_string().into();
    let kind = "application/apply-patch+yaml";
    server.call(Method::PATCH, &path, kind, body).await
}

#[tokio::test(start_paused = true)]
async fn a_status_has_its_default_from_the_start() {
    let server = with_gears().await;
    let mut object = gear("v1", "a", json!({"size": 1, "list": [{"a": null}]}));
    object["status"] = json!({"phase": "Sent"});
    let (code, created) = server.post(GEARS, object).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["status"], json!({"phase": "New"}));
    assert_eq!(created["spec"]["list"], json!([{}]));
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_in_another_version_is_checked_by_it_and_stored_by_the_stored_one() {
    let server = with_gears().await;
    let other = GEARS.replace("/v1/", "/v2/");
    let (code, refused) = server
        .post(&other, gear("v2", "b", json!({"size": 51})))
        .await;
    assert_eq!(code, 422, "{refused}");
    let sent = gear("v2", "b", json!({"size": 2, "extra": "x"}));
    let (code, created) = server.post(&other, sent).await;
    assert_eq!(
        (code, &created["spec"]),
        (201, &json!({"size": 2})),
        "{created}"
    );
    let (_, stored) = server.get(&format!("{GEARS}/b")).await;
    assert_eq!(stored["spec"], json!({"size": 2, "color": "red"}));
    let (_, shown) = server.get(&format!("{other}/b")).await;
    assert_eq!(
        shown["spec"],
        json!({"size": 2}),
        "pruned to the version asked for"
    );
}

#[tokio::test(start_paused = true)]
async fn an_applier_that_leaves_out_the_spec_takes_it_along() {
    let server = with_gears().await;
    let whole = gear("v1", "a", json!({"size": 1, "note": "x"}));
    assert_eq!(apply(&server, "me", &whole).await.0, 201);
    let less = gear("v1", "a", json!({"note": "x"}));
    let (code, refused) = apply(&server, "me", &less).await;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(refused["details"]["causes"][0]["message"], "Required value");
    let mut none = less;
    none.as_object_mut().unwrap().remove("spec");
    let (code, applied) = apply(&server, "me", &none).await;
    assert_eq!(code, 200, "{applied}");
    assert!(applied.get("spec").is_none(), "{applied}");
    assert!(
        applied["metadata"].get("managedFields").is_none(),
        "{applied}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_applied_null_is_a_value_that_does_not_fit() {
    let server = with_gears().await;
    let null = gear("v1", "a", json!({"size": 1, "note": null}));
    let (code, refused) = apply(&server, "me", &null).await;
    assert_eq!(code, 422, "{refused}");
    let defaulted = gear("v1", "a", json!({"size": 1, "color": null}));
    let (code, applied) = apply(&server, "me", &defaulted).await;
    assert_eq!((code, &applied["spec"]["color"]), (201, &json!("red")));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_may_carry_a_revision() {
    let server = Server::new();
    let sent = json!({"metadata": {"name": "a", "resourceVersion": "17"}});
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    let (code, shown) = server.post(&dry, sent.clone()).await;
    assert_eq!(
        (code, &shown["metadata"]["resourceVersion"]),
        (201, &json!("17"))
    );
    assert_eq!(server.post(CONFIG_MAPS, sent).await.0, 500);
    // Validation comes first.
    let bad = json!({"metadata": {"name": "A_", "resourceVersion": "17"}});
    assert_eq!(server.post(CONFIG_MAPS, bad).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn events_are_selected_by_the_names_of_their_group() {
    let server = Server::new();
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Because", "type": "Normal", "reportingComponent": "me", "reportingInstance": "x",
        "action": "a", "eventTime": "2024-01-01T00:00:00.000000Z"});
    let (code, created) = server
        .post("/api/v1/namespaces/default/events", event)
        .await;
    assert_eq!(code, 201, "{created}");
    let new = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=";
    let core = "/api/v1/namespaces/default/events?fieldSelector=";
    for (path, count) in [
        (
            format!("{new}regarding.name=p,reportingController=me,type=Normal"),
            1,
        ),
        (format!("{new}regarding.name=q"), 0),
        (
            format!("{core}involvedObject.name=p,type=Normal,source=me"),
            1,
        ),
    ] {
        let (code, list) = server.get(&path).await;
        assert_eq!(code, 200, "{path} {list}");
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{path}");
    }
    for path in [
        format!("{new}involvedObject.name=p"),
        format!("{new}source=me"),
        format!("{core}regarding.name=p"),
    ] {
        assert_eq!(server.get(&path).await.0, 400, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn components_of_the_same_process_are_listed() {
    let server = Server::with(|options| options.components = &["controller-manager", "scheduler"]);
    let (_, list) = server.get("/api/v1/componentstatuses").await;
    let names: Vec<_> = list["items"].as_array().unwrap().iter().collect();
    let names: Vec<_> = names.iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["controller-manager", "etcd-0", "scheduler"]);
    assert_eq!(
        server.get("/api/v1/componentstatuses/scheduler").await.0,
        200
    );
    let (_, alone) = Server::new().get("/api/v1/componentstatuses").await;
    assert_eq!(alone["items"].as_array().unwrap().len(), 1);
}

async fn warnings(server: &Server, method: Method, path: &str, body: &Value) -> Vec<String> {
    let body = body.to_string().into();
    let response = server
        .send(method, path, "application/json", "application/json", body)
        .await;
    let said = response.headers().get_all("warning").iter();
    said.map(|text| text.to_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn older_versions_loose_finalizers_and_odd_formats_are_warned_about() {
    let server = with_gears().await;
    let old = GEARS.replace("/v1/", "/v1beta1/");
    assert_eq!(
        warnings(&server, Method::GET, &old, &Value::Null).await,
        ["299 - \"example.com/v1beta1 Gear is deprecated; use example.com/v2 Gear\""]
    );
    let mut object = gear("v1", "a", json!({"size": 1}));
    object["metadata"]["finalizers"] = json!(["loose", "example.com/fine"]);
    assert_eq!(
        warnings(&server, Method::POST, GEARS, &object).await,
        [
            "299 - \"metadata.finalizers: \\\"loose\\\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers\""
        ]
    );
    let mut odd = definition();
    odd["metadata"]["name"] = json!("cogs.example.com");
    odd["spec"]["names"] = json!({"plural": "cogs", "kind": "Cog"});
    let spec = &mut odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["note"]["format"] = json!("quantity");
    assert_eq!(
        warnings(&server, Method::POST, CRDS, &odd).await,
        ["299 - \"unrecognized format \\\"quantity\\\"\""]
    );
}

#[tokio::test(start_paused = true)]
async fn documents_explain_built_in_and_custom_kinds() {
    let server = with_gears().await;
    let (_, pods) = server.get("/openapi/v3/api/v1").await;
    let spec = &pods["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    assert!(spec["description"].is_string(), "{spec}");
    assert!(spec["properties"]["nodeName"]["description"].is_string());
    let (_, gears) = server.get("/openapi/v3/apis/example.com/v1").await;
    let gear = &gears["components"]["schemas"]["com.example.v1.Gear"];
    assert_eq!(gear["description"], "A gear turns.");
    let size = &gear["properties"]["spec"]["properties"]["size"];
    assert_eq!(size["description"], "How many teeth.");
    let (_, all) = server.get("/openapi/v2").await;
    assert_eq!(
        all["definitions"]["com.example.v1.Gear"]["description"],
        "A gear turns."
    );
    // A new definition changes the address of its own documents and of no others.
    let (_, before) = server.get("/openapi/v3").await;
    let label = json!({"spec": {"names": {"shortNames": ["g"]}}});
    server
        .patch(&format!("{CRDS}/gears.example.com"), "merge-patch", label)
        .await;
    let mut prose = definition();
    prose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("It turns.");
    let patch = json!({"spec": {"versions": prose["spec"]["versions"]}});
    let (code, _) = server
        .patch(&format!("{CRDS}/gears.example.com"), "merge-patch", patch)
        .await;
    assert_eq!(code, 200);
    let (_, after) = server.get("/openapi/v3").await;
    let changed = |path: &str| before["paths"][path] != after["paths"][path];
    assert!(
        changed("apis/example.com/v1") && !changed("apis/example.com/v2") && !changed("api/v1")
    );
}

/// UPSTREAM: NamespaceAutoProvision's TestAdmission.
#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_made_where_that_is_asked_for() {
    let names = ["NamespaceAutoProvision".to_owned()];
    let server = Server::with(|options| {
        options.settings.plugins = crate::admission::Plugins::chosen(&names, &[]).unwrap();
    });
    let maps = "/api/v1/namespaces/new/configmaps";
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(
        server
            .post(&format!("{maps}?dryRun=All"), map.clone())
            .await
            .0,
        404
    );
    assert_eq!(server.post(maps, map.clone()).await.0, 201);
    let (code, namespace) = server.get("/api/v1/namespaces/new").await;
    assert_eq!(
        (code, &namespace["status"]["phase"]),
        (200, &json!("Active"))
    );
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        server
            .post("/api/v1/namespaces/No_Name/configmaps", map.clone())
            .await
            .0,
        404
    );
    assert_eq!(Server::new().post(maps, map).await.0, 404);
}
