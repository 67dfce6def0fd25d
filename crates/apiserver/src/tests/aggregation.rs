//! APIServices that another server stands behind.

use super::webhooks::{World, server};
use super::*;
use std::sync::Arc;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn api_service(group: &str, version: &str) -> Value {
    json!({"metadata": {"name": format!("{version}.{group}")}, "spec": {
        "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "wardle", "port": 7443}}})
}

/// A server with an APIService, and a Service that leads to this machine.
async fn aggregated() -> (Server, Arc<World>) {
    let (server, world) = server();
    let (code, answer) = server
        .post(SERVICES, api_service("wardle.example.com", "v1"))
        .await;
    assert_eq!(code, 201, "{answer}");
    (server, world)
}

async fn external(server: &Server) {
    let service = json!({"metadata": {"name": "wardle"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let (code, answer) = server
        .post("/api/v1/namespaces/default/services", service)
        .await;
    assert_eq!(code, 201, "{answer}");
}

fn serves(world: &World) {
    world.respond_with(|path, _| {
        Box::pin(async move {
            match path.as_str() {
                "/apis/wardle.example.com/v1" => {
                    let resources = json!([
                        {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get", "list"], "shortNames": ["fl"]},
                        {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["get"]},
                    ]);
                    (200, json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1", "resources": resources}).to_string())
                }
                "/openapi/v2" => {
                    let flunder = json!({"$ref": "#/definitions/com.example.Flunder"});
                    let pod = json!({"$ref": "#/definitions/io.k8s.api.core.v1.Pod"});
                    let document = json!({
                        "paths": {"/apis/wardle.example.com/v1/flunders": {"get": [flunder, pod]}},
                        "definitions": {
                            "com.example.Flunder": {"type": "object", "description": "theirs"},
                            "io.k8s.api.core.v1.Pod": {"description": "theirs"},
                        },
                    });
                    (200, document.to_string())
                }
                _ => (418, json!({"path": path}).to_string()),
            }
        })
    });
}

async fn condition(server: &Server) -> String {
    server.server.check_api_services().await;
    let (_, service) = server
        .get(&format!("{SERVICES}/v1.wardle.example.com"))
        .await;
    let condition = &service["status"]["conditions"][0];
    let text = |member: &str| condition[member].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn availability_is_told_by_a_condition() {
    let (server, world) = aggregated().await;
    assert_eq!(
        condition(&server).await,
        "False ServiceNotFound: service/wardle in \"default\" is not present"
    );
    external(&server).await;
    let url = "https://localhost:7443/apis/wardle.example.com/v1";
    assert_eq!(
        condition(&server).await,
        format!(
            "False FailedDiscoveryCheck: failing or missing response from {url}: Get \"{url}\": dial tcp 127.0.0.1:1: connect: connection refused"
        )
    );
    world.respond_with(|_, _| Box::pin(async { (503, String::new()) }));
    assert_eq!(
        condition(&server).await,
        format!(
            "False FailedDiscoveryCheck: failing or missing response from {url}: bad status from {url}: 503"
        )
    );
    let path = "/apis/wardle.example.com/v1/namespaces/default/flunders";
    let (code, text) = server.get(path).await;
    assert_eq!((code, text), (503, json!("service unavailable\n")));
    serves(&world);
    assert_eq!(condition(&server).await, "True Passed: all checks passed");
}

#[tokio::test(start_paused = true)]
async fn requests_are_handed_on_with_the_name_of_their_user() {
    let (server, world) = aggregated().await;
    external(&server).await;
    serves(&world);
    condition(&server).await;
    let path = "/apis/wardle.example.com/v1/namespaces/default/flunders/x?dryRun=All";
    let (code, answer) = server.put(path, json!({"a": 1})).await;
    assert_eq!(
        (code, &answer["path"]),
        (
            418,
            &json!("/apis/wardle.example.com/v1/namespaces/default/flunders/x")
        )
    );
    let (_, body) = world.calls.lock().last().unwrap().clone();
    assert_eq!(body, json!({"a": 1}));
    let target = world.targets.lock().last().unwrap().clone();
    assert_eq!(
        (target.authority.as_str(), target.insecure),
        ("localhost:7443", true)
    );
    assert_eq!(target.server_name.as_deref(), Some("wardle.default.svc"));
}

#[tokio::test(start_paused = true)]
async fn redirects_of_other_servers_are_not_handed_on() {
    let (server, world) = aggregated().await;
    external(&server).await;
    serves(&world);
    condition(&server).await;
    world.respond_with(|_, _| Box::pin(async { (302, String::new()) }));
    let path = "/apis/wardle.example.com/v1/namespaces/default/flunders/x";
    let refused = json!("the backend attempted to redirect this request, which is not permitted");
    assert_eq!(server.get(path).await, (502, refused));
}

#[tokio::test(start_paused = true)]
async fn discovery_shows_what_other_servers_serve() {
    let (server, world) = aggregated().await;
    external(&server).await;
    let named = |groups: &Value| {
        groups
            .as_array()
            .unwrap()
            .iter()
            .any(|group| group["name"] == "wardle.example.com")
    };
    // Who does not see that it is missing takes all of its objects for gone.
    assert!(named(&server.get("/apis").await.1["groups"]));
    assert_eq!(server.get("/apis/wardle.example.com").await.0, 200);
    serves(&world);
    condition(&server).await;
    assert!(named(&server.get("/apis").await.1["groups"]));
    let (code, group) = server.get("/apis/wardle.example.com").await;
    assert_eq!(
        (code, &group["preferredVersion"]["version"]),
        (200, &json!("v1"))
    );
    let (code, list) = server.get("/apis/wardle.example.com/v1").await;
    assert_eq!(
        (code, &list["resources"][0]["name"]),
        (200, &json!("flunders"))
    );
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let response = server
        .send(Method::GET, "/apis", "", accept, Bytes::new())
        .await;
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let all: Value = serde_json::from_slice(&text).unwrap();
    let last = all["items"].as_array().unwrap().last().unwrap();
    let kind = json!({"group": "wardle.example.com", "version": "v1", "kind": "Flunder"});
    let resource = json!({"resource": "flunders", "singularResource": "flunder", "scope": "Namespaced", "verbs": ["get", "list"],
        "shortNames": ["fl"], "responseKind": kind,
        "subresources": [{"subresource": "status", "verbs": ["get"], "responseKind": kind}]});
    let expected = json!({"metadata": {"name": "wardle.example.com"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [resource]}]});
    assert_eq!(last, &expected);
    let index = server.get("/openapi/v3").await.1;
    assert_eq!(
        index["paths"]["apis/wardle.example.com/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/wardle.example.com/v1"
    );
}

#[tokio::test(start_paused = true)]
async fn types_of_other_servers_are_in_the_one_document_of_v2() {
    let (server, world) = aggregated().await;
    external(&server).await;
    let flunder = "com.example.Flunder";
    assert!(server.get("/openapi/v2").await.1["definitions"][flunder].is_null());
    serves(&world);
    condition(&server).await;
    let (_, document) = server.get("/openapi/v2").await;
    let definitions = &document["definitions"];
    assert_eq!(definitions[flunder]["description"], "theirs");
    assert_ne!(
        definitions["io.k8s.api.core.v1.Pod"]["description"],
        "theirs"
    );
    // It is asked for once, and forgotten with its APIService.
    let calls = world.calls.lock().len();
    condition(&server).await;
    assert_eq!(world.calls.lock().len(), calls + 1);
    server
        .delete(&format!("{SERVICES}/v1.wardle.example.com"))
        .await;
    server.server.check_api_services().await;
    assert!(server.get("/openapi/v2").await.1["definitions"][flunder].is_null());
}

#[tokio::test(start_paused = true)]
async fn what_is_served_here_is_never_handed_on() {
    let (server, world) = server();
    external(&server).await;
    serves(&world);
    let body = api_service("apps", "v1")["spec"].clone();
    let patch = json!({"spec": body}).to_string().into();
    let path = format!("{SERVICES}/v1.apps");
    let response = server
        .send(
            Method::PATCH,
            &path,
            "application/merge-patch+json",
            "*/*",
            patch,
        )
        .await;
    let warnings = response.headers().get_all("warning").iter().count();
    assert_eq!((response.status().as_u16(), warnings), (200, 1));
    let before = world.calls.lock().len();
    assert_eq!(server.get(DEPLOYMENTS).await.1["kind"], "DeploymentList");
    assert_eq!(server.get("/apis/apps/v1").await.0, 200);
    assert_eq!(world.calls.lock().len(), before);
}
