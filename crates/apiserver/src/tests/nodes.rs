//! What a kubelet may read and write.

use super::*;
use crate::auth::Identity;

fn kubelet(node: &str) -> Identity {
    Identity::new(&format!("system:node:{node}"), &["system:nodes"])
}

async fn cluster() -> Server {
    populated(Server::new()).await
}

/// With a pod on `n1` that uses a secret, and one on `n2` that does not.
async fn populated(server: Server) -> Server {
    server.service_account().await;
    for name in ["used", "other"] {
        let secret = json!({"metadata": {"name": name}});
        server
            .post("/api/v1/namespaces/default/secrets", secret)
            .await;
    }
    for (name, node, volumes) in [
        (
            "a",
            "n1",
            json!([{"name": "v", "secret": {"secretName": "used"}}]),
        ),
        ("b", "n2", json!([])),
    ] {
        let node_object = json!({"metadata": {"name": node}});
        server.post("/api/v1/nodes", node_object).await;
        let spec = json!({"nodeName": node, "volumes": volumes, "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        assert_eq!(server.post(PODS, pod).await.0, 201);
    }
    server
}

async fn check(node: &str, table: &[(&str, &str, Value, u16, &str)]) {
    check_on(&cluster().await, node, table).await;
}

async fn check_on(server: &Server, node: &str, table: &[(&str, &str, Value, u16, &str)]) {
    for (method, path, body, code, why) in table {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(*path)
            .header("content-type", content_type);
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let request = request.body(body).unwrap();
        let response = server.server.handle(request, kubelet(node)).await;
        let actual = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(actual, *code, "{path}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(why), "{path}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_what_its_pods_refer_to() {
    let secrets = "/api/v1/namespaces/default/secrets";
    let none = || Value::Null;
    let strange = ": no relationship found between node 'n1' and this object";
    check(
        "n1",
        &[
            ("GET", &format!("{secrets}/used"), none(), 200, ""),
            ("GET", &format!("{secrets}/other"), none(), 403, strange),
            ("GET", secrets, none(), 403, ": No Object name found"),
            (
                "GET",
                &format!("{secrets}?fieldSelector=metadata.name%3Dused"),
                none(),
                200,
                "",
            ),
            ("GET", &format!("{PODS}/a"), none(), 200, ""),
            ("GET", &format!("{PODS}/b"), none(), 403, strange),
            (
                "GET",
                "/api/v1/pods",
                none(),
                403,
                ": can only list/watch pods with spec.nodeName field selector",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1",
                none(),
                200,
                "",
            ),
            ("GET", "/api/v1/nodes/n1", none(), 200, ""),
            (
                "GET",
                "/api/v1/nodes/n2",
                none(),
                403,
                ": node 'n1' cannot read 'n2', only its own Node object",
            ),
            ("GET", "/api/v1/services", none(), 200, ""),
            (
                "DELETE",
                &format!("{secrets}/used"),
                none(),
                403,
                ": can only read resources of this type",
            ),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_writes_what_is_its_own() {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
    let status = json!({"status": {"phase": "Running"}});
    let labelled = |label: &str| json!({"metadata": {"labels": {label: "x"}}});
    check(
        "n1",
        &[
            ("POST", leases, lease("n1"), 201, ""),
            (
                "POST",
                leases,
                lease("n2"),
                403,
                ": can only access node lease with the same name as the requesting node",
            ),
            ("PATCH", &format!("{PODS}/a/status"), status.clone(), 200, ""),
            (
                "PATCH",
                &format!("{PODS}/b/status"),
                status,
                403,
                ": node \"n1\" can only update pod status for pods with spec.nodeName set to itself",
            ),
            (
                "POST",
                PODS,
                json!({"metadata": {"name": "c"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}),
                403,
                ": pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
            ),
            ("PATCH", "/api/v1/nodes/n1", labelled("zone"), 200, ""),
            (
                "PATCH",
                "/api/v1/nodes/n1",
                labelled("node-restriction.kubernetes.io/x"),
                403,
                ": is not allowed to modify labels: node-restriction.kubernetes.io/x",
            ),
            (
                "PATCH",
                "/api/v1/nodes/n1",
                json!({"spec": {"taints": null}}),
                403,
                ": node \"n1\" is not allowed to modify taints",
            ),
            (
                "PATCH",
                "/api/v1/nodes/n2",
                labelled("zone"),
                403,
                ": node \"n1\" is not allowed to modify node \"n2\"",
            ),
            (
                "POST",
                &format!("{PODS}/b/eviction"),
                json!({"metadata": {"name": "b"}}),
                403,
                ": node n1 can only evict pods with spec.nodeName set to itself",
            ),
            (
                "DELETE",
                &format!("{PODS}/b"),
                Value::Null,
                403,
                ": node \"n1\" can only delete pods with spec.nodeName set to itself",
            ),
            ("DELETE", &format!("{PODS}/a?gracePeriodSeconds=0"), Value::Null, 200, ""),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_tokens_for_its_own_pods() {
    let server = cluster().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    for (pod, code, why) in [
        ("a", 201, ""),
        (
            "b",
            403,
            "node requested token bound to a pod scheduled on a different node",
        ),
    ] {
        let uid = server.get(&format!("{PODS}/{pod}")).await.1["metadata"]["uid"].clone();
        let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
        let body = json!({"spec": {"boundObjectRef": reference}});
        let request = Request::builder().method("POST").uri(path);
        let request = request.body(Bytes::from(body.to_string())).unwrap();
        let response = server.server.handle(request, kubelet("n1")).await;
        assert_eq!(response.status().as_u16(), code);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(why), "{message}");
    }
}

// Upstream: Test_nodePlugin_Admit (PodCertificateRequests), TestNodeAuthorizer (podcertificaterequests).
#[tokio::test(start_paused = true)]
async fn a_node_asks_for_certificates_of_its_own_pods() {
    let server = populated(Server::with(|options| options.serves.previews = true)).await;
    let uid = async |path: &str| {
        let (_, found) = server.get(path).await;
        found["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let (pod_a, pod_b) = (
        uid(&format!("{PODS}/a")).await,
        uid(&format!("{PODS}/b")).await,
    );
    let (n1, n2) = (uid("/api/v1/nodes/n1").await, uid("/api/v1/nodes/n2").await);
    let account = uid("/api/v1/namespaces/default/serviceaccounts/default").await;
    let stub = rcgen::CertificateParams::new([]).unwrap();
    let stub = stub.serialize_request(&rcgen::KeyPair::generate().unwrap());
    let stub = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(stub.unwrap().der())
    };
    let request = |name: &str, pod: (&str, &str), node: (&str, &str), account: (&str, &str)| {
        json!({"metadata": {"name": name}, "spec": {
            "signerName": "example.com/s", "podName": pod.0, "podUID": pod.1, "nodeName": node.0,
            "nodeUID": node.1, "serviceAccountName": account.0, "serviceAccountUID": account.1,
            "stubPKCS10Request": stub,
        }})
    };
    let requests = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests";
    let (a, own, own_account) = (("a", &*pod_a), ("n1", &*n1), ("default", &*account));
    check_on(
        &server,
        "n1",
        &[
            ("POST", requests, request("r", a, own, own_account), 201, ""),
            (
                "POST",
                requests,
                request("s", ("b", &pod_b), ("n2", &n2), own_account),
                403,
                ": PodCertificateRequest.Spec.NodeName=\"n2\", which is not the requesting node \"n1\"",
            ),
            (
                "POST",
                requests,
                request("s", ("b", &pod_b), own, own_account),
                403,
                ": pod \"default/b\" is not running on node \"n1\" named in the PodCertificateRequest",
            ),
            (
                "POST",
                requests,
                request("s", ("a", "old"), own, own_account),
                500,
                &format!("names pod UID \"old\", inconsistent with the one that is there (\"{pod_a}\")"),
            ),
            (
                "POST",
                requests,
                request("s", a, own, ("other", "x")),
                403,
                ": PodCertificateRequest for pod \"default/a\" contains serviceAccountName (\"other\") that differs from running pod (\"default\")",
            ),
            ("GET", &format!("{requests}/r"), Value::Null, 200, ""),
            (
                "GET",
                requests,
                Value::Null,
                403,
                ": can only list/watch podcertificaterequests with nodeName field selector",
            ),
            ("GET", &format!("{requests}?fieldSelector=spec.nodeName=n1"), Value::Null, 200, ""),
            (
                "DELETE",
                &format!("{requests}/r"),
                Value::Null,
                403,
                ": nodes may not delete podcertificaterequests",
            ),
            (
                "PUT",
                &format!("{requests}/r/status"),
                json!({}),
                403,
                ": nodes may not access the status subresource of PodCertificateRequests",
            ),
        ],
    )
    .await;
    let other = [("GET", &*format!("{requests}/r"), Value::Null, 403, "")];
    check_on(&server, "n2", &other).await;
}
