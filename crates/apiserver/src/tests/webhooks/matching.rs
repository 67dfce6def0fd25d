//! Which requests webhooks are called for, and as what they see them.

use super::*;

#[tokio::test(start_paused = true)]
async fn selectors_and_rules_choose_requests() {
    let (server, world) = server();
    world.answer(|_, _| allow());
    let team = json!({"metadata": {"name": "team", "labels": {"hooks": "yes"}}});
    assert_eq!(server.post("/api/v1/namespaces", team).await.0, 201);
    let by = |name: &str, member: &str, selector: Value| with(hook(name), member, selector);
    let rule = |operations: Value, versions: Value, scope: &str| json!([{"operations": operations, "apiGroups": ["*"], "apiVersions": versions, "resources": ["*"], "scope": scope}]);
    server
        .validating(
            "v",
            json!([
                by(
                    "namespace",
                    "namespaceSelector",
                    json!({"matchLabels": {"hooks": "yes"}})
                ),
                by(
                    "object",
                    "objectSelector",
                    json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]})
                ),
                by(
                    "updates",
                    "rules",
                    rule(json!(["UPDATE"]), json!(["v1"]), "*")
                ),
                by("version", "rules", rule(json!(["*"]), json!(["v9"]), "*")),
                by(
                    "cluster",
                    "rules",
                    rule(json!(["CREATE"]), json!(["*"]), "Cluster")
                ),
                by(
                    "namespaced",
                    "rules",
                    rule(json!(["CREATE"]), json!(["*"]), "Namespaced")
                ),
            ]),
        )
        .await;
    let check = async |path: &str, body: Value, expected: &[&str]| {
        world.calls.lock().clear();
        let (code, answer) = server.post(path, body).await;
        assert_eq!(code, 201, "{answer}");
        let mut paths = world.paths();
        paths.sort();
        assert_eq!(paths, expected);
    };
    check(CONFIG_MAPS, map("m"), &["/namespaced"]).await;
    check(
        "/api/v1/namespaces/team/configmaps",
        map("m"),
        &["/namespace", "/namespaced"],
    )
    .await;
    let labelled = json!({"metadata": {"name": "l", "labels": {"app": "x"}}});
    check(CONFIG_MAPS, labelled, &["/namespaced", "/object"]).await;
    let namespace = json!({"metadata": {"name": "n", "labels": {"hooks": "yes"}}});
    check("/api/v1/namespaces", namespace, &["/cluster"]).await;
    world.calls.lock().clear();
    let status = server
        .put(
            &format!("{CONFIG_MAPS}/l"),
            json!({"metadata": {"name": "l"}}),
        )
        .await;
    assert_eq!(status.0, 200);
    // The old object still has the label.
    assert_eq!(world.paths(), ["/object", "/updates"]);
}

#[tokio::test(start_paused = true)]
async fn configurations_of_admission_are_exempt() {
    let (server, world) = server();
    let all = with(
        hook("v"),
        "rules",
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]),
    );
    server.validating("v", json!([all])).await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    assert_eq!(server.delete(path).await.0, 200);
    assert!(world.calls.lock().is_empty());
    // Gone, it has no effect any more.
    server.config_map("m", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn equivalent_versions_are_converted_both_ways() {
    let (server, world) = server();
    let v2 = json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"]}]);
    let equivalent = with(hook("equivalent"), "rules", v2.clone());
    let exact = with(
        with(hook("exact"), "rules", v2),
        "matchPolicy",
        json!("Exact"),
    );
    server.mutating("m", json!([equivalent, exact])).await;
    world.answer(|_, request| {
        assert_eq!(request["object"]["apiVersion"], "autoscaling/v2");
        assert_eq!(request["object"]["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
        patch(json!([{"op": "replace", "path": "/spec/metrics/0/resource/target/averageUtilization", "value": 70}]))
    });
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let body = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50}});
    let (code, created) = server
        .post(
            "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            body,
        )
        .await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(world.paths(), ["/equivalent"]);
    let request = world.last();
    assert_eq!(
        (
            &request["kind"]["version"],
            &request["requestKind"]["version"]
        ),
        (&json!("v2"), &json!("v1"))
    );
}

#[tokio::test(start_paused = true)]
async fn services_lead_to_what_runs_beside_the_server() {
    let (server, world) = server();
    world.answer(|_, _| allow());
    let service =
        json!({"service": {"namespace": "default", "name": "hooks", "path": "/v", "port": 8443}});
    server
        .validating("v", json!([with(hook("v"), "clientConfig", service)]))
        .await;
    let post = "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \"https://hooks.default.svc:8443/v?timeout=10s\": ";
    let check = async |expected: &str| {
        let (_, status) = server.post(CONFIG_MAPS, map("m")).await;
        assert_eq!(status["message"], format!("{post}{expected}"));
    };
    check("service \"hooks\" not found").await;
    let services = "/api/v1/namespaces/default/services";
    let body = json!({"metadata": {"name": "hooks"}, "spec": {"ports": [{"port": 8443, "name": "https"}]}});
    assert_eq!(server.post(services, body).await.0, 201);
    check("no endpoints available for service \"hooks\"").await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = |name: &str, address: &str, target: Value| {
        json!({"metadata": {"name": name, "labels": {"kubernetes.io/service-name": "hooks"}}, "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "targetRef": target}], "ports": [{"name": "https", "port": 9443}]})
    };
    // Nothing runs in simulated pods.
    let (code, answer) = server
        .post(
            slices,
            slice("pods", "10.1.0.1", json!({"kind": "Pod", "name": "p"})),
        )
        .await;
    assert_eq!(code, 201, "{answer}");
    check("no endpoints available for service \"hooks\"").await;
    assert_eq!(
        server
            .post(slices, slice("real", "192.0.2.7", Value::Null))
            .await
            .0,
        201
    );
    server.config_map("m", json!({})).await;
    let target = world.targets.lock().last().unwrap().clone();
    assert_eq!(
        (target.authority.as_str(), target.server_name.as_deref()),
        ("192.0.2.7:9443", Some("hooks.default.svc"))
    );
}

#[tokio::test(start_paused = true)]
async fn conditions_say_whether_a_webhook_is_called() {
    let (server, world) = server();
    world.answer(|_, _| allow());
    let when = |name: &str, expression: &str, policy: &str| {
        let conditions = json!([{"name": "c", "expression": expression}]);
        let hook = with(hook(name), "failurePolicy", json!(policy));
        with(hook, "matchConditions", conditions)
    };
    let hooks = json!([
        when("named", "object.metadata.name == 'm'", "Fail"),
        when("other", "object.metadata.name == 'x'", "Fail"),
        when(
            "user",
            "request.userInfo.username == 'kubernetes-admin'",
            "Fail"
        ),
        when("ignored", "object.missing == 1", "Ignore"),
        when(
            "allowed",
            "authorizer.group('').resource('pods').check('get').allowed()",
            "Fail"
        ),
    ]);
    server.validating("v", hooks).await;
    server.config_map("m", json!({})).await;
    let mut paths = world.paths();
    paths.sort();
    assert_eq!(paths, ["/allowed", "/named", "/user"]);
    let failing = json!([when("failing", "object.missing == 1", "Fail")]);
    server.validating("w", failing).await;
    let (code, status) = server.post(CONFIG_MAPS, map("n")).await;
    let why = "configmaps \"n\" is forbidden: expression 'object.missing == 1' resulted in error: no such key: missing";
    assert_eq!((code, &status["message"]), (403, &json!(why)));
}
