//! How deep what clients send may nest, and how large its numbers may be: never so that the stack, the store or those
//! who read it end there.

use super::*;
use crate::rest::strict::MAX_DEPTH;
use api::protobuf::Writer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// An envelope around the bytes of a message.
fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.message(1, |meta| {
        meta.text(1, api_version);
        meta.text(2, kind);
    });
    writer.bytes(2, message);
    [b"k8s\0".as_slice(), &writer.finish()].concat()
}

/// A ControllerRevision whose data is another one, and so on.
fn nested_revisions(levels: usize) -> Vec<u8> {
    let mut body = envelope("apps/v1", "ControllerRevision", b"");
    for _ in 1..levels {
        let mut revision = Writer::default();
        revision.message(2, |data| data.bytes(1, &body));
        body = envelope("apps/v1", "ControllerRevision", &revision.finish());
    }
    body
}

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({"a": inner}))
}

fn refused_as_too_deep((code, status): &(u16, Value)) {
    assert_eq!(*code, 400, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("exceeded max depth") || message.contains("nested too deeply"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn embedded_protobuf_counts_for_the_depth_of_the_whole() {
    let server = Server::new();
    // Every kind is read before anyone asks whether it belongs there, and everyone may ask what they may do.
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for levels in [80, 110, 2_000, 20_000] {
        let body = nested_revisions(levels);
        let answer = server.call(Method::POST, path, PROTOBUF, body.into()).await;
        if levels == 80 {
            assert_eq!(answer.0, 400, "{}", answer.1);
        } else {
            refused_as_too_deep(&answer);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_several_levels_of_json_are_bounded_too() {
    let server = Server::new();
    // Each property is two levels of JSON, and one message with a map's entry around it.
    let mut schema = Writer::default();
    schema.text(5, "object");
    let mut schema = schema.finish();
    for _ in 0..70 {
        let mut outer = Writer::default();
        outer.text(5, "object");
        // JSONSchemaProps.properties
        outer.message(29, |entry| {
            entry.text(1, "a");
            entry.bytes(2, &schema);
        });
        schema = outer.finish();
    }
    let mut definition = Writer::default();
    definition.message(1, |metadata| metadata.text(1, "widgets.example.com"));
    definition.message(2, |spec| {
        spec.text(1, "example.com");
        spec.message(3, |names| {
            names.text(1, "widgets");
            names.text(4, "Widget");
        });
        spec.text(4, "Namespaced");
        spec.message(7, |version| {
            version.text(1, "v1");
            version.flag(2, true);
            version.flag(3, true);
            version.message(4, |validation| validation.bytes(1, &schema));
        });
    });
    let body = envelope(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &definition.finish(),
    );
    let answer = server
        .call(Method::POST, DEFINITIONS, PROTOBUF, body.into())
        .await;
    refused_as_too_deep(&answer);
}

#[tokio::test(start_paused = true)]
async fn managed_fields_of_clients_are_not_deeper_than_objects() {
    let server = Server::new();
    let object = |name: &str, levels: usize| {
        let mut object = json!({
            "metadata": {"name": name, "managedFields": [
                {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "FIELDS"},
            ]},
        })
        .to_string();
        let fields = "{\"f:a\":".repeat(levels - 1) + "{}" + &"}".repeat(levels - 1);
        object = object.replace("\"FIELDS\"", &fields);
        Bytes::from(object)
    };
    let json = "application/json";
    let answer = server
        .call(Method::POST, CONFIG_MAPS, json, object("deep", 50_000))
        .await;
    refused_as_too_deep(&answer);
    server.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let answer = server
        .call(Method::PUT, &path, json, object("a", 50_000))
        .await;
    refused_as_too_deep(&answer);
    let merge = "application/merge-patch+json";
    let answer = server
        .call(Method::PATCH, &path, merge, object("a", 50_000))
        .await;
    refused_as_too_deep(&answer);
    // The deepest that is taken can be read again.
    let answer = server
        .call(Method::POST, CONFIG_MAPS, json, object("edge", MAX_DEPTH))
        .await;
    assert_eq!(answer.0, 201, "{}", answer.1);
    let (code, labelled) = server
        .patch(
            &format!("{CONFIG_MAPS}/edge"),
            "merge-patch",
            json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await;
    assert_eq!((code, &labelled["metadata"]["name"]), (200, &json!("edge")));
}

/// A kind that keeps whatever its objects have.
async fn free_kind(server: &Server) -> String {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let (code, answer) = server.post(DEFINITIONS, definition).await;
    assert_eq!(code, 201, "{answer}");
    "/apis/example.com/v1/namespaces/default/widgets".to_owned()
}

#[tokio::test(start_paused = true)]
async fn whatever_is_stored_can_be_read_again() {
    let server = Server::new();
    let widgets = free_kind(&server).await;
    let widget = |name: &str, levels: usize| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": nested(levels)});
    let (mut taken, mut refused) = (0, 0);
    for levels in [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 6, 200] {
        for apply in [false, true] {
            let name = format!("w{levels}-{apply}");
            let body: Bytes = widget(&name, levels).to_string().into();
            let path = format!("{widgets}/{name}");
            let (code, answer) = if apply {
                let query = format!("{path}?fieldManager=m");
                let kind = "application/apply-patch+yaml";
                server.call(Method::PATCH, &query, kind, body).await
            } else {
                server
                    .call(Method::POST, &widgets, "application/json", body)
                    .await
            };
            if code != 201 {
                refused += 1;
                assert_eq!(code, 400, "{levels} {answer}");
                continue;
            }
            taken += 1;
            // As it is read by those who change it.
            let labels = json!({"metadata": {"labels": {"a": "b"}}});
            let (code, patched) = server.patch(&path, "merge-patch", labels).await;
            assert_eq!(code, 200, "{levels} {patched}");
            assert_eq!(patched["spec"], nested(levels), "{levels}");
        }
    }
    assert_eq!((taken, refused), (2, 6));
}

#[tokio::test(start_paused = true)]
async fn annotations_that_become_fields_are_shallow() {
    let server = Server::new();
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let behavior = nested(MAX_DEPTH).to_string();
    let key = "autoscaling.alpha.kubernetes.io/behavior";
    let object = json!({
        "metadata": {"name": "a", "annotations": {key: behavior}},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}},
    });
    let (code, answer) = server.post(path, object).await;
    assert_eq!(code, 201, "{answer}");
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/a";
    let (_, stored) = server.get(path).await;
    assert_eq!(stored["metadata"]["annotations"][key], behavior, "{stored}");
    assert!(stored["spec"]["behavior"]["a"].is_null());
}

#[tokio::test(start_paused = true)]
async fn deletions_end_within_the_years_that_can_be_written() {
    let server = Server::new();
    server.service_account().await;
    for (name, query) in [
        ("own", String::new()),
        ("asked", format!("?gracePeriodSeconds={}", i64::MAX)),
    ] {
        let object = json!({"metadata": {"name": name}, "spec": {
            "nodeName": "n", "terminationGracePeriodSeconds": i64::MAX, "containers": [{"name": "c", "image": "i"}],
        }});
        assert_eq!(server.post(PODS, object).await.0, 201);
        let path = format!("{PODS}/{name}");
        let (code, deleted) = server.delete(&format!("{path}{query}")).await;
        assert_eq!(code, 200, "{deleted}");
        let until = &deleted["metadata"]["deletionTimestamp"];
        assert_eq!(until, "9999-12-31T23:59:59Z");
        // Sooner after all.
        let (_, sooner) = server.delete(&format!("{path}?gracePeriodSeconds=5")).await;
        let until = &sooner["metadata"]["deletionTimestamp"];
        assert_eq!(until, "2023-11-14T22:13:25Z");
    }
    // Kinds that keep no generation take what a client sends.
    let object =
        json!({"metadata": {"name": "g", "generation": i64::MAX, "finalizers": ["example.com/a"]}});
    assert_eq!(server.post(CONFIG_MAPS, object).await.0, 201);
    let (_, deleting) = server.delete(&format!("{CONFIG_MAPS}/g")).await;
    assert_eq!(deleting["metadata"]["generation"], i64::MAX, "{deleting}");
}

#[tokio::test(start_paused = true)]
async fn quantities_and_times_are_those_that_others_can_read() {
    let server = Server::new();
    server.service_account().await;
    let pod = |cpu: &str| {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}},
        ]}})
    };
    let (code, created) = server.post(PODS, pod("1e999999999")).await;
    assert_eq!(code, 201, "{created}");
    let limit = &created["spec"]["containers"][0]["resources"]["limits"]["cpu"];
    assert_eq!(limit, "1e99");
    for time in ["-000005-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00"] {
        let lease = json!({"metadata": {"name": "l"}, "spec": {"renewTime": time}});
        let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        assert_eq!(server.post(path, lease).await.0, 400, "{time}");
        let event = json!({
            "metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "firstTimestamp": time,
        });
        let path = "/api/v1/namespaces/default/events";
        assert_eq!(server.post(path, event).await.0, 400, "{time}");
    }
}

/// A chain of objects that each operation hangs below another: no single one of them is deep.
#[tokio::test(start_paused = true)]
async fn operations_of_a_json_patch_cannot_pile_up() {
    let server = Server::new();
    server.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let end = "/a".repeat(99);
    let piled = |times: usize, operation: &str| {
        let mut operations = vec![json!({"op": "add", "path": "/x", "value": nested(100)})];
        for _ in 0..times {
            let below = format!("/y{end}/x");
            operations.push(json!({"op": "add", "path": "/y", "value": nested(100)}));
            operations.push(json!({"op": operation, "from": "/x", "path": below}));
            operations.push(json!({"op": "move", "from": "/y", "path": "/x"}));
        }
        Value::Array(operations)
    };
    for (times, operation) in [(2, "move"), (20, "copy"), (300, "move")] {
        let (code, status) = server
            .patch(&path, "json-patch", piled(times, operation))
            .await;
        assert!(matches!(code, 400 | 422), "{status}");
    }
    // Many that are not deep are none of that.
    let many = (0..2_000).map(|n| {
        let to = format!("/metadata/annotations/a{n}");
        json!({"op": "copy", "from": "/metadata/labels/app", "path": to})
    });
    let first = json!({"op": "add", "path": "/metadata/annotations", "value": {}});
    let many: Value = std::iter::once(first).chain(many).collect();
    let (code, answer) = server.patch(&path, "json-patch", many).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn objects_do_not_grow_beyond_what_etcd_takes() {
    let server = Server::new();
    server.service_account().await;
    let refused = |(code, status): (u16, Value)| {
        assert_eq!(
            (code, &status["reason"], &status["message"]),
            (
                413,
                &json!("RequestEntityTooLarge"),
                &json!("Request entity too large: etcdserver: request is too large")
            )
        );
    };
    let pod = |name: &str, length: usize| {
        let container = json!({"name": "c", "image": "i", "args": ["x".repeat(length)]});
        json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
    };
    refused(server.post(PODS, pod("a", 1_600_000)).await);
    assert_eq!(server.post(PODS, pod("a", 1_500_000)).await.0, 201);
    // Little by little.
    let widgets = free_kind(&server).await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(server.post(&widgets, widget).await.0, 201);
    let path = format!("{widgets}/w");
    for part in 0..3 {
        let grown = json!({"spec": {format!("part{part}"): "x".repeat(600_000)}});
        let answer = server.patch(&path, "merge-patch", grown).await;
        if part == 2 {
            refused(answer);
        } else {
            assert_eq!(answer.0, 200);
        }
    }
    // By aliases, of which little is sent.
    let text = "x".repeat(20_000);
    let aliases = "*a, ".repeat(100);
    let yaml = format!(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: aliased}}\na: &a {text}\nb: [{aliases}]\n"
    );
    refused(
        server
            .call(Method::POST, &widgets, "application/yaml", yaml.into())
            .await,
    );
}
