//! Conversion webhooks: `host` at v1, which is stored, is `hostname` at v2.

mod managed;

use super::webhooks::{World, server};
use super::*;
use std::sync::Arc;

const V1: &str = "/apis/example.com/v1/namespaces/default/sites";
const V2: &str = "/apis/example.com/v2/namespaces/default/sites";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(storage: &str) -> Value {
    let version = |name: &str, field: &str| {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}, "replicas": {"type": "integer"}}});
        let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": name == storage,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [{"name": "Host", "type": "string", "jsonPath": format!(".spec.{field}")}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "sites", "singular": "site", "kind": "Site", "listKind": "SiteList"},
            "versions": [version("v1", "host"), version("v2", "hostname")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://127.0.0.1:9443/convert"}, "conversionReviewVersions": ["v1"]}},
        },
    })
}

/// Renames the field, and does to the result what the test wants.
fn converts(world: &Arc<World>, change: impl Fn(&mut Value) + Send + Sync + 'static) {
    let change = Arc::new(change);
    world.respond_with(move |_, review| {
        let change = change.clone();
        Box::pin(async move {
            let request = &review["request"];
            let to = request["desiredAPIVersion"].as_str().unwrap();
            let (from_field, to_field) = match to {
                "example.com/v2" => ("host", "hostname"),
                _ => ("hostname", "host"),
            };
            let objects = request["objects"].as_array().unwrap().iter().map(|object| {
                let mut object = object.clone();
                object["apiVersion"] = json!(to);
                if let Some(spec) = object["spec"].as_object_mut()
                    && let Some(value) = spec.remove(from_field)
                {
                    spec.insert(to_field.to_owned(), value);
                }
                change(&mut object);
                object
            });
            let objects: Vec<Value> = objects.collect();
            let response = json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects});
            let answer = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response});
            (200, answer.to_string())
        })
    });
}

async fn defined() -> (Server, Arc<World>) {
    let (server, world) = server();
    converts(&world, |_| {});
    let (code, answer) = server.post(CRDS, definition("v1")).await;
    assert_eq!(code, 201, "{answer}");
    (server, world)
}

fn site(version: &str, field: &str, host: &str) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Site", "metadata": {"name": host},
        "spec": {field: host, "replicas": 1}})
}

#[tokio::test(start_paused = true)]
async fn every_version_sees_its_own_fields() {
    let (server, world) = defined().await;
    let (code, created) = server.post(V2, site("v2", "hostname", "a")).await;
    assert_eq!(
        (code, &created["spec"]["hostname"]),
        (201, &json!("a")),
        "{created}"
    );
    assert_eq!(created["apiVersion"], "example.com/v2");
    let (_, first) = server.get(&format!("{V1}/a")).await;
    assert_eq!(
        (&first["apiVersion"], &first["spec"]),
        (
            &json!("example.com/v1"),
            &json!({"host": "a", "replicas": 1})
        )
    );
    server.post(V1, site("v1", "host", "b")).await;
    let (_, list) = server.get(V2).await;
    let hosts: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["spec"]["hostname"])
        .collect();
    assert_eq!(hosts, ["a", "b"]);
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v2");
    // What was converted once is known.
    let calls = world.calls.lock().len();
    server.get(V2).await;
    server.get(V1).await;
    assert_eq!(world.calls.lock().len(), calls);
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = server.send(Method::GET, V2, "", accept, Bytes::new()).await;
    let table = table.into_body().collect().await.unwrap().to_bytes();
    let table: Value = serde_json::from_slice(&table).unwrap();
    assert_eq!(table["rows"][1]["cells"], json!(["b", "b"]));
}

#[tokio::test(start_paused = true)]
async fn every_way_to_write_works_at_any_version() {
    let (server, _) = defined().await;
    server.post(V1, site("v1", "host", "a")).await;
    let path = format!("{V2}/a");
    let (code, patched) = server
        .patch(&path, "merge-patch", json!({"spec": {"hostname": "b"}}))
        .await;
    assert_eq!(
        (code, &patched["spec"]["hostname"]),
        (200, &json!("b")),
        "{patched}"
    );
    let (_, first) = server.get(&format!("{V1}/a")).await;
    assert_eq!(first["spec"]["host"], "b");
    // Nothing changes, and nothing is written.
    let (_, same) = server
        .patch(&path, "merge-patch", json!({"spec": {"hostname": "b"}}))
        .await;
    assert_eq!(revision(&same), revision(&patched));
    let mut replaced = patched.clone();
    replaced["spec"]["hostname"] = json!("c");
    let (code, replaced) = server.put(&path, replaced).await;
    assert_eq!(
        (code, &replaced["spec"]["hostname"]),
        (200, &json!("c")),
        "{replaced}"
    );
    let apply = json!({"apiVersion": "example.com/v2", "kind": "Site", "spec": {"hostname": "d"}});
    let uri = format!("{path}?fieldManager=me&force=true");
    let (code, applied) = server
        .call(
            Method::PATCH,
            &uri,
            "application/apply-patch+yaml",
            apply.to_string().into(),
        )
        .await;
    assert_eq!(
        (code, &applied["spec"]["hostname"]),
        (200, &json!("d")),
        "{applied}"
    );
    let (code, _) = server
        .patch(
            &format!("{path}/status"),
            "merge-patch",
            json!({"status": {"replicas": 4}}),
        )
        .await;
    assert_eq!(code, 200);
    let (_, scale) = server
        .patch(
            &format!("{path}/scale"),
            "merge-patch",
            json!({"spec": {"replicas": 5}}),
        )
        .await;
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["replicas"]),
        (&json!(5), &json!(4)),
        "{scale}"
    );
    let (_, first) = server.get(&format!("{V1}/a")).await;
    assert_eq!(first["spec"], json!({"host": "d", "replicas": 5}));
    server
        .patch(
            &path,
            "merge-patch",
            json!({"metadata": {"finalizers": ["example.com/x"]}}),
        )
        .await;
    let (code, pending) = server.delete(&path).await;
    assert_eq!(
        (code, &pending["spec"]["hostname"]),
        (200, &json!("d")),
        "{pending}"
    );
    let (code, last) = server
        .patch(
            &path,
            "merge-patch",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    assert_eq!(
        (code, &last["spec"]["hostname"]),
        (200, &json!("d")),
        "{last}"
    );
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn watches_show_their_version() {
    let (server, _) = defined().await;
    server.post(V1, site("v1", "host", "a")).await;
    let uri = format!("{V2}?watch=true");
    let response = server
        .send(Method::GET, &uri, "", "application/json", Bytes::new())
        .await;
    let mut body = response.into_body();
    let mut next = async || {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        serde_json::from_slice::<Value>(&frame).unwrap()
    };
    let first = next().await;
    assert_eq!(
        (&first["type"], &first["object"]["spec"]["hostname"]),
        (&json!("ADDED"), &json!("a"))
    );
    server
        .patch(
            &format!("{V1}/a"),
            "merge-patch",
            json!({"spec": {"host": "b"}}),
        )
        .await;
    let second = next().await;
    assert_eq!(
        (&second["type"], &second["object"]["spec"]["hostname"]),
        (&json!("MODIFIED"), &json!("b"))
    );
    assert_eq!(second["object"]["apiVersion"], "example.com/v2");
    server.delete(&format!("{V1}/a")).await;
    let third = next().await;
    assert_eq!(
        (&third["type"], &third["object"]["spec"]["hostname"]),
        (&json!("DELETED"), &json!("b"))
    );
}

#[tokio::test(start_paused = true)]
async fn objects_keep_their_version_when_another_becomes_the_stored_one() {
    let (server, _) = defined().await;
    server.post(V1, site("v1", "host", "old")).await;
    let path = format!("{CRDS}/sites.example.com");
    let versions = definition("v2")["spec"]["versions"].clone();
    let (code, answer) = server
        .patch(
            &path,
            "merge-patch",
            json!({"spec": {"versions": versions}}),
        )
        .await;
    assert_eq!(code, 200, "{answer}");
    server.post(V1, site("v1", "host", "new")).await;
    for (uri, field) in [(V1, "host"), (V2, "hostname")] {
        let (_, list) = server.get(uri).await;
        let hosts: Vec<&Value> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["spec"][field])
            .collect();
        assert_eq!(hosts, ["new", "old"], "{list}");
    }
    // Without a webhook everything is shown as it is, once.
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let (code, answer) = server.patch(&path, "merge-patch", none).await;
    assert_eq!(code, 200, "{answer}");
    let response = server
        .send(Method::GET, V2, "", "application/json", Bytes::new())
        .await;
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(
        text.matches("\"apiVersion\":\"example.com/v2\"").count(),
        3,
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_as_upstream_tells_them() {
    let (server, world) = defined().await;
    server.post(V1, site("v1", "host", "a")).await;
    let check = async |expected: &str| {
        let (code, status) = server.get(&format!("{V2}/a")).await;
        let message = format!("conversion webhook for example.com/v1, Kind=Site {expected}");
        assert_eq!((code, &status["message"]), (500, &json!(message)));
        assert_eq!(status.get("reason"), None);
    };
    converts(&world, |object| object["metadata"]["name"] = json!("b"));
    check("returned invalid object: must have the same name: a != b").await;
    converts(&world, |object| {
        object["apiVersion"] = json!("example.com/v3")
    });
    check("returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)").await;
    world.respond_with(|_, review| {
        let answer = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": {"uid": review["request"]["uid"], "result": {"status": "Failure", "message": "cannot"}}});
        Box::pin(async move { (200, answer.to_string()) })
    });
    check("failed: cannot").await;
    world.respond_with(|_, _| Box::pin(async { (500, "x".to_owned()) }));
    check("failed: an error on the server (\"unknown\") has prevented the request from succeeding")
        .await;
    // What is stored can be read, and gets away.
    assert_eq!(server.get(&format!("{V1}/a")).await.0, 200);
    assert_eq!(server.post(V2, site("v2", "hostname", "c")).await.0, 500);
    assert_eq!(server.get(&format!("{V1}/c")).await.0, 404);
    assert_eq!(server.delete(&format!("{V1}/a")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn labels_may_change_and_nothing_else_of_metadata() {
    let (server, world) = defined().await;
    converts(&world, |object| {
        object["metadata"]["labels"] = json!({"converted": "yes"});
        object["metadata"]["generation"] = json!(99);
        object["spec"]["unknown"] = json!(1);
    });
    server.post(V1, site("v1", "host", "a")).await;
    let (_, shown) = server.get(&format!("{V2}/a")).await;
    assert_eq!(shown["metadata"]["labels"], json!({"converted": "yes"}));
    assert_eq!(shown["metadata"]["generation"], 1);
    assert_eq!(shown["spec"], json!({"hostname": "a", "replicas": 1}));
}

/// Issue 28: what a webhook loses is lost to those who ask it, and to what they write.
#[tokio::test(start_paused = true)]
async fn fields_that_a_webhook_loses_are_lost_in_its_version_alone() {
    let (server, world) = defined().await;
    server.post(V1, site("v1", "host", "a")).await;
    converts(&world, |object| {
        object["spec"].as_object_mut().unwrap().remove("replicas");
    });
    let (_, mut shown) = server.get(&format!("{V2}/a")).await;
    assert_eq!(shown["spec"], json!({"hostname": "a"}));
    let (_, stored) = server.get(&format!("{V1}/a")).await;
    assert_eq!(stored["spec"], json!({"host": "a", "replicas": 1}));
    shown["spec"]["hostname"] = json!("b");
    let (code, answer) = server.put(&format!("{V2}/a"), shown).await;
    assert_eq!(code, 200, "{answer}");
    let (_, stored) = server.get(&format!("{V1}/a")).await;
    assert_eq!(stored["spec"], json!({"host": "b"}));
}

/// UPSTREAM: fields are selected at the version that was asked for, in lists and in watches.
#[tokio::test(start_paused = true)]
async fn selectable_fields_are_those_of_the_version_asked_for() {
    let (server, world) = server();
    converts(&world, |_| {});
    let mut defined = definition("v1");
    for (index, field) in ["host", "hostname"].into_iter().enumerate() {
        let path = format!(".spec.{field}");
        defined["spec"]["versions"][index]["selectableFields"] = json!([{"jsonPath": path}]);
    }
    assert_eq!(server.post(CRDS, defined).await.0, 201);
    server.post(V1, site("v1", "host", "a")).await;
    server.post(V2, site("v2", "hostname", "b")).await;
    for (path, field) in [(V1, "host"), (V2, "hostname")] {
        for host in ["a", "b"] {
            let (_, list) = server
                .get(&format!("{path}?fieldSelector=spec.{field}={host}"))
                .await;
            assert_eq!(names(&list), [host], "{path}");
        }
        let query = format!("fieldSelector=spec.{field}!=a&limit=1");
        let (_, list) = server.get(&format!("{path}?{query}")).await;
        assert!(list["metadata"]["continue"].is_string(), "{list}");
        assert!(list["metadata"]["remainingItemCount"].is_null());
    }
    assert_eq!(
        server
            .get(&format!("{V2}?fieldSelector=spec.host=a"))
            .await
            .0,
        400
    );
    let path = format!("{V2}?watch=1&timeoutSeconds=1&fieldSelector=spec.hostname=b");
    let watch = server
        .send(Method::GET, &path, "", "application/json", Bytes::new())
        .await;
    let text = watch.into_body().collect().await.unwrap().to_bytes();
    let events: Vec<Value> = String::from_utf8_lossy(&text)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["object"]["spec"]["hostname"], "b");
}
