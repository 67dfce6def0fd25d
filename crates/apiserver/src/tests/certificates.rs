//! Requests for certificates: what was decided and what was issued stays, and pods ask where that is served.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn asked(server: &Server) -> Value {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["a".to_owned()]).unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = json!({"metadata": {"name": "r"}, "spec": {
        "request": STANDARD.encode(pem), "usages": ["client auth"],
        "signerName": "kubernetes.io/kube-apiserver-client",
    }});
    let (code, made) = server.post(REQUESTS, request).await;
    assert_eq!(code, 201, "{made}");
    made
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Test", "message": ""})
}

/// The message of a refusal, without what all of them begin with.
async fn put(server: &Server, part: &str, request: &Value) -> String {
    let (code, answer) = server
        .put(&format!("{REQUESTS}/r/{part}"), request.clone())
        .await;
    if code == 200 {
        return String::new();
    }
    assert_eq!(code, 422, "{answer}");
    let message = answer["message"].as_str().unwrap();
    let start = "CertificateSigningRequest.certificates.k8s.io \"r\" is invalid: ";
    message.strip_prefix(start).unwrap().to_owned()
}

/// Who may ask a signer for which subject is found in any request that can be signed.
#[tokio::test(start_paused = true)]
async fn a_request_with_headers_is_taken_for_a_client() {
    let server = Server::new();
    let params = CertificateParams::new(["a".to_owned()]).unwrap();
    let made = params.serialize_request(&KeyPair::generate().unwrap());
    let pem = made.unwrap().pem().unwrap();
    let pem = pem.replacen("-----\n", "-----\nFoo: bar\n\n", 1);
    let request = json!({"metadata": {"name": "r"}, "spec": {
        "request": STANDARD.encode(pem), "usages": ["client auth"],
        "signerName": "kubernetes.io/kube-apiserver-client",
    }});
    let (code, made) = server.post(REQUESTS, request).await;
    assert_eq!(code, 201, "{made}");
}

#[tokio::test(start_paused = true)]
async fn a_denial_cannot_be_taken_back() {
    let server = Server::new();
    let mut request = asked(&server).await;
    // Nothing is decided, and nothing is all that it says.
    request["status"]["conditions"] = json!([]);
    assert_eq!(put(&server, "approval", &request).await, "");
    let (_, held) = server.get(&format!("{REQUESTS}/r")).await;
    assert_eq!(held["status"], json!({}));
    request["metadata"] = held["metadata"].clone();

    request["status"]["conditions"] = json!([condition("Denied")]);
    assert_eq!(put(&server, "approval", &request).await, "");
    request["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    request["status"]["conditions"] = json!([]);
    let removed =
        "status.conditions: Forbidden: updates may not remove a condition of type \"Denied\"";
    assert_eq!(put(&server, "approval", &request).await, removed);
    assert_eq!(put(&server, "status", &request).await, removed);
    request["status"]["conditions"] = json!([condition("Denied"), condition("Approved")]);
    assert_eq!(
        put(&server, "approval", &request).await,
        "status.conditions: Invalid value: \"Approved\": Approved and Denied conditions are mutually exclusive"
    );
}

#[tokio::test(start_paused = true)]
async fn a_signer_neither_approves_nor_signs_twice() {
    let server = Server::new();
    let mut request = asked(&server).await;
    request["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    request["status"]["conditions"] = json!([condition("Approved")]);
    assert_eq!(
        put(&server, "status", &request).await,
        "status.conditions: Forbidden: updates may not add a condition of type \"Approved\""
    );
    assert_eq!(put(&server, "approval", &request).await, "");

    let params = CertificateParams::new(["a".to_owned()]).unwrap();
    let certificate = || {
        let signed = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        json!(STANDARD.encode(signed.pem()))
    };
    request["status"]["certificate"] = certificate();
    assert_eq!(put(&server, "status", &request).await, "");
    request["status"]["certificate"] = certificate();
    assert_eq!(
        put(&server, "status", &request).await,
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    );
    // Labels may change, and nothing is looked at again.
    request["metadata"]["labels"] = json!({"a": "b"});
    let (code, updated) = server.put(&format!("{REQUESTS}/r"), request).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(updated["metadata"]["labels"], json!({"a": "b"}));
}

const POD_REQUESTS: &str =
    "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests";

#[tokio::test(start_paused = true)]
async fn a_request_of_a_pod_is_answered_by_its_signer() {
    assert_eq!(Server::new().get(POD_REQUESTS).await.0, 404);
    let server = Server::with(|options| options.serves.previews = true);
    let key = KeyPair::generate().unwrap();
    let stub = CertificateParams::new([]).unwrap();
    let stub = STANDARD.encode(stub.serialize_request(&key).unwrap().der());
    let request = json!({"metadata": {"name": "r"}, "status": {"certificateChain": "x"}, "spec": {
        "signerName": "example.com/s", "podName": "p", "podUID": "p", "nodeName": "n", "nodeUID": "n",
        "serviceAccountName": "a", "serviceAccountUID": "a", "stubPKCS10Request": stub,
    }});
    let (code, mut made) = server.post(POD_REQUESTS, request).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["maxExpirationSeconds"], 86_400);
    assert_eq!(made["status"], json!({}));
    for (selector, count) in [("spec.podName=p", 1), ("spec.nodeName=other", 0)] {
        let path = format!("{POD_REQUESTS}?fieldSelector={selector}");
        let (_, list) = server.get(&path).await;
        assert_eq!(names(&list).len(), count, "{selector}");
    }
    let denied = json!({"type": "Denied", "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z"});
    made["status"]["conditions"] = json!([denied]);
    let (code, made) = server.put(&format!("{POD_REQUESTS}/r/status"), made).await;
    assert_eq!(code, 200, "{made}");
    let mut other = made.clone();
    other["status"] = json!({});
    let (code, refused) = server.put(&format!("{POD_REQUESTS}/r/status"), other).await;
    assert_eq!(code, 422, "{refused}");
    let mut other = made;
    other["spec"]["podName"] = json!("q");
    let (code, refused) = server.put(&format!("{POD_REQUESTS}/r"), other).await;
    assert_eq!(code, 422, "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("field is immutable"), "{message}");
}
