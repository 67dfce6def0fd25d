//! Kinds and verbs of which each is admitted in its own way.

use super::*;

#[tokio::test(start_paused = true)]
async fn deletions_show_what_is_to_be_deleted() {
    let (server, world) = server();
    for name in ["a", "b"] {
        server.config_map(name, json!({})).await;
    }
    server.validating("v", json!([hook("v")])).await;
    world.answer(|_, _| deny("keep it"));
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(server.delete(&path).await.0, 403);
    assert_eq!(server.delete(CONFIG_MAPS).await.0, 403);
    world.answer(|_, _| allow());
    let body = json!({"gracePeriodSeconds": 5, "propagationPolicy": "Background"}).to_string();
    let deleted = server
        .call(Method::DELETE, &path, "application/json", body.into())
        .await;
    assert_eq!(deleted.0, 200, "{}", deleted.1);
    let request = world.last();
    assert_eq!(
        (&request["operation"], &request["object"], &request["name"]),
        (&json!("DELETE"), &Value::Null, &json!("a"))
    );
    assert_eq!(request["oldObject"]["metadata"]["name"], "a");
    let options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 5, "propagationPolicy": "Background"});
    assert_eq!(request["options"], options);
    assert_eq!(server.delete(CONFIG_MAPS).await.0, 200);
    // UPSTREAM: the deletions of a collection have no name.
    assert_eq!(world.last().get("name"), None);
    assert_eq!(
        server.get(CONFIG_MAPS).await.1["items"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_cannot_be_patched() {
    let (server, world) = server();
    server.config_map("a", json!({})).await;
    server.mutating("m", json!([hook("v")])).await;
    world.answer(|_, _| patch(json!([{"op": "add", "path": "/data/b", "value": "2"}])));
    let (code, status) = server.delete(&format!("{CONFIG_MAPS}/a")).await;
    let why = "Internal error occurred: admission webhook \"v.example.com\" attempted to modify the object, which is not supported for this operation";
    assert_eq!((code, &status["message"]), (500, &json!(why)));
}

#[tokio::test(start_paused = true)]
async fn services_get_addresses_after_they_were_changed_and_before_they_are_judged() {
    let (server, world) = server();
    let services = "/api/v1/namespaces/default/services";
    server
        .mutating("m", json!([on(hook("m"), "", "services")]))
        .await;
    server
        .validating("v", json!([on(hook("v"), "", "services")]))
        .await;
    let other = server.server.clone();
    world.respond_with(move |path, review| {
        let other = other.clone();
        Box::pin(async move {
            let object = &review["request"]["object"];
            let address = object["spec"]["clusterIP"].clone();
            if path == "/m" {
                assert_eq!(address, Value::Null);
                let port = json!([{"op": "add", "path": "/spec/ports/0/port", "value": 81}]);
                return (200, reviewed(&review, patch(port)));
            }
            assert_eq!(object["spec"]["ports"][0]["port"], 81);
            let kind = crate::kinds::find("", "Service").unwrap();
            let is_first = other.shared().store.get(kind, "default/thief").is_none();
            if is_first {
                // Somebody else gets the address meanwhile.
                let thief = json!({"metadata": {"name": "thief", "namespace": "default"}, "spec": {"clusterIP": address, "clusterIPs": [address]}});
                let written: Result<_, ()> = other.shared().store.write(|transaction| {
                    transaction.put(kind, "default/thief", &thief, None);
                    Ok(())
                });
                written.unwrap();
            }
            (200, reviewed(&review, allow()))
        })
    });
    let body = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let (code, created) = server.post(services, body).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["ports"][0]["port"], 81);
    let thief = server.get(&format!("{services}/thief")).await.1;
    assert_ne!(created["spec"]["clusterIP"], thief["spec"]["clusterIP"]);
    let address = created["spec"]["clusterIP"].as_str().unwrap();
    let marker = format!("/apis/networking.k8s.io/v1/ipaddresses/{address}");
    assert_eq!(server.get(&marker).await.0, 200);
    assert_eq!(world.paths(), ["/m", "/v", "/m", "/v"]);
}

#[tokio::test(start_paused = true)]
async fn the_names_of_new_objects_are_made_after_webhooks_changed_them() {
    let (server, world) = server();
    server.mutating("m", json!([hook("m")])).await;
    server.validating("v", json!([hook("v")])).await;
    world.answer(|path, request| {
        let name = &request["object"]["metadata"]["name"];
        assert_eq!(name.is_null(), path == "/m", "{path}: {name}");
        // Whoever validates is told the name that was made up.
        assert_eq!(request.get("name").unwrap_or(&Value::Null), name);
        allow()
    });
    let (code, answer) = server
        .post(CONFIG_MAPS, json!({"metadata": {"generateName": "g-"}}))
        .await;
    assert_eq!(code, 201, "{answer}");
    world.answer(|_, _| patch(json!([{"op": "add", "path": "/metadata/name", "value": "given"}])));
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    server.delete(path).await;
    let (_, named) = server.post(CONFIG_MAPS, json!({"metadata": {}})).await;
    assert_eq!(named["metadata"]["name"], "given");
}

#[tokio::test(start_paused = true)]
async fn applies_pass_webhooks_as_creates_and_updates() {
    let (server, world) = server();
    server.mutating("m", json!([hook("m")])).await;
    world.answer(|_, _| patch(json!([{"op": "add", "path": "/data/hook", "value": "h"}])));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
    let apply = async |body: &Value| {
        let path = format!("{CONFIG_MAPS}/m?fieldManager=me");
        server
            .call(
                Method::PATCH,
                &path,
                "application/apply-patch+yaml",
                body.to_string().into(),
            )
            .await
    };
    let (code, created) = apply(&body).await;
    assert_eq!(
        (code, &created["data"]),
        (201, &json!({"a": "1", "hook": "h"})),
        "{created}"
    );
    assert_eq!(world.last()["operation"], "CREATE");
    let (code, _) = apply(&body).await;
    assert_eq!((code, &world.last()["operation"]), (200, &json!("UPDATE")));
    let fields = created["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(fields.len(), 1);
    assert_eq!(fields[0]["fieldsV1"], json!({"f:data": {"f:a": {}}}));
}

#[tokio::test(start_paused = true)]
async fn subresources_are_asked_about_as_what_they_are() {
    let (server, world) = server();
    server.post(DEPLOYMENTS, deployment("d")).await;
    server.pod("p", "").await;
    server
        .mutating(
            "m",
            json!([
                on(hook("scale"), "apps", "deployments/scale"),
                on(hook("status"), "apps", "deployments/status"),
                on(hook("pods"), "", "pods/*"),
            ]),
        )
        .await;
    world.answer(|path, _| match path {
        "/scale" => patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
        _ => deny("no"),
    });
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}});
    let (code, scaled) = server.put(&format!("{DEPLOYMENTS}/d/scale"), scale).await;
    assert_eq!(
        (code, &scaled["spec"]["replicas"]),
        (200, &json!(7)),
        "{scaled}"
    );
    let request = world.last();
    let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(
        (&request["kind"], &request["subResource"]),
        (&kind, &json!("scale"))
    );
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);
    assert_eq!(
        server.get(&format!("{DEPLOYMENTS}/d")).await.1["spec"]["replicas"],
        7
    );
    // The object itself is none of theirs.
    assert_eq!(
        server
            .patch(
                &format!("{DEPLOYMENTS}/d"),
                "merge-patch",
                json!({"spec": {"replicas": 1}})
            )
            .await
            .0,
        200
    );
    let status = json!({"status": {"replicas": 1}});
    assert_eq!(
        server
            .patch(&format!("{DEPLOYMENTS}/d/status"), "merge-patch", status)
            .await
            .0,
        403
    );
    let eviction = json!({"metadata": {"name": "p"}});
    assert_eq!(
        server.post(&format!("{PODS}/p/eviction"), eviction).await.0,
        403
    );
    assert_eq!(
        (&world.last()["kind"]["kind"], &world.last()["operation"]),
        (&json!("Eviction"), &json!("CREATE"))
    );
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(
        server.post(&format!("{PODS}/p/binding"), binding).await.0,
        403
    );
    assert_eq!(world.last()["kind"]["kind"], "Binding");
    assert_eq!(
        server
            .post(
                &format!("{PODS}/p/exec?command=ls&command=-l&stdout=true"),
                Value::Null
            )
            .await
            .0,
        403
    );
    let request = world.last();
    assert_eq!(
        request["object"],
        json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdout": true, "command": ["ls", "-l"]})
    );
    assert_eq!(
        (&request["operation"], &request["options"]),
        (&json!("CONNECT"), &Value::Null)
    );
}

/// UPSTREAM: what an author says of a deletion is dropped before webhooks are asked, what they say is kept.
#[tokio::test(start_paused = true)]
async fn a_webhook_may_say_that_a_new_object_is_being_deleted() {
    let (server, world) = server();
    server.mutating("m", json!([hook("v")])).await;
    let time = "2026-01-02T03:04:05Z";
    world.answer(move |_, request| {
        let metadata = &request["object"]["metadata"];
        assert_eq!(metadata["deletionTimestamp"], Value::Null);
        patch(json!([{"op": "add", "path": "/metadata/deletionTimestamp", "value": time}]))
    });
    let metadata = json!({"name": "a", "finalizers": ["example.com/x"],
        "deletionTimestamp": "2020-01-01T00:00:00Z"});
    let (code, created) = server
        .post(CONFIG_MAPS, json!({"metadata": metadata}))
        .await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["deletionTimestamp"], time);
    let (_, stored) = server.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(stored["metadata"]["deletionTimestamp"], time);
}
