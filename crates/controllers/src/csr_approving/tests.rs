//! Which requests are recognized, then the whole against the embedded API server.
//! Upstream: TestHandle, TestRecognizers.

use api::decision::{Class, Line};
use api::kinds::CertificateSigningRequest as Csr;
use api::{Resource, ResourceType};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use testkit::World;

use super::{Reason, Recognized, Step, controller, next_step};
use crate::certificates::{MalformedRequest, Signer};

const NODE_CLIENT: &str = include_str!("../certificates/testdata/node-client.csr");
const NODE_SERVING: &str = include_str!("../certificates/testdata/node-serving.csr");
const JANE: &str = include_str!("../certificates/testdata/jane.csr");

const KUBELET: [&str; 2] = ["digital signature", "client auth"];

fn request(pem: &str, signer: &str, usages: &[&str], user: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {
            "request": BASE64_STANDARD.encode(pem), "signerName": signer, "usages": usages,
            "username": user,
        },
    })
}

fn check(request: &Value, expected: &str) {
    let read = Csr::decode(request.to_string().as_bytes()).unwrap();
    let step = match next_step(&read) {
        Step::Ask(recognized) => format!("{recognized:?}"),
        Step::Leave(reason) => format!("{reason:?}"),
    };
    assert_eq!(step, expected, "{request}");
}

// Upstream: TestRecognizers (both tables).
#[test]
fn only_kubelet_client_requests_are_recognized() {
    let signer = Signer::KubeletClient.name();
    let of = |pem: &str, signer: &str, usages: &[&str], user: &str, expected: &str| {
        check(&request(pem, signer, usages, user), expected);
    };
    let me = "system:node:node-0";
    of(
        NODE_CLIENT,
        signer,
        &KUBELET,
        me,
        "[SelfNodeClient, NodeClient]",
    );
    let rsa = ["key encipherment", "digital signature", "client auth"];
    of(
        NODE_CLIENT,
        signer,
        &rsa,
        me,
        "[SelfNodeClient, NodeClient]",
    );
    of(
        NODE_CLIENT,
        signer,
        &KUBELET,
        "system:node:node-1",
        "[NodeClient]",
    );
    of(
        NODE_CLIENT,
        signer,
        &KUBELET,
        "system:bootstrap:abcdef",
        "[NodeClient]",
    );
    of(
        NODE_CLIENT,
        Signer::ApiServerClient.name(),
        &KUBELET,
        me,
        "NotRecognized",
    );
    of(
        NODE_CLIENT,
        Signer::LegacyUnknown.name(),
        &KUBELET,
        me,
        "NotRecognized",
    );
    of(
        NODE_CLIENT,
        Signer::KubeletServing.name(),
        &KUBELET,
        me,
        "NotRecognized",
    );
    of(
        NODE_CLIENT,
        "example.com/not-correct",
        &KUBELET,
        me,
        "NotRecognized",
    );
    let both = ["digital signature", "client auth", "server auth"];
    of(NODE_CLIENT, signer, &both, me, "NotRecognized");
    of(NODE_CLIENT, signer, &KUBELET, "joe", "[NodeClient]");
    of(NODE_CLIENT, "", &KUBELET, me, "NotRecognized");
    of(NODE_CLIENT, signer, &["client auth"], me, "NotRecognized");
    of(
        NODE_CLIENT,
        signer,
        &["server auth", "digital signature"],
        me,
        "NotRecognized",
    );
    of(NODE_SERVING, signer, &KUBELET, me, "NotRecognized");
    of(JANE, signer, &KUBELET, "jane", "NotRecognized");
    of("nonsense", signer, &KUBELET, me, "Malformed(NotPem)");
}

#[test]
fn what_was_decided_is_left_alone() {
    let with = |status: Value, expected: &str| {
        let mut request = request(NODE_CLIENT, Signer::KubeletClient.name(), &KUBELET, "x");
        request["status"] = status;
        check(&request, expected);
    };
    with(json!({"certificate": "YQ=="}), "Issued");
    with(json!({"conditions": [{"type": "Approved"}]}), "Approved");
    with(json!({"conditions": [{"type": "Denied"}]}), "Denied");
    with(json!({"conditions": [{"type": "Failed"}]}), "[NodeClient]");
}

async fn world() -> World {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

// Upstream: TestHandle (allowed).
#[tokio::test(start_paused = true)]
async fn who_is_permitted_is_approved() {
    let world = world().await;
    let signer = Signer::KubeletClient.name();
    world
        .create(&Csr::TYPE, request(NODE_CLIENT, signer, &KUBELET, ""))
        .await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 2, "{writes:?}");
    let request = world.get(&Csr::TYPE, "c").await.unwrap();
    let spec = &request["spec"];
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": spec["username"], "groups": spec["groups"],
                "resourceAttributes": {
                    "group": "certificates.k8s.io", "resource": "certificatesigningrequests",
                    "subresource": "nodeclient", "verb": "create", "version": "*",
                },
            },
        })
    );
    assert!(
        writes[1]
            .path
            .ends_with("/certificatesigningrequests/c/approval")
    );
    assert_eq!(
        writes[1].body["status"],
        json!({"conditions": [{
            "type": "Approved", "status": "True", "reason": "AutoApproved",
            "message": "Auto approving kubelet client certificate after SubjectAccessReview.",
        }]})
    );
    let condition = &request["status"]["conditions"][0];
    assert_eq!(condition["lastUpdateTime"], "2024-01-01T00:00:00Z");
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

/// Creates the request as somebody who may ask for certificates, and nothing else.
async fn ask_as(world: &World, user: &str, request: &Value) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "bootstrappers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let bindings = ResourceType::cluster(
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
    );
    world.create(&bindings, binding).await;
    let asked = http::Request::post("/apis/certificates.k8s.io/v1/certificatesigningrequests")
        .header("Impersonate-User", user)
        .header("Content-Type", "application/json")
        .body(bytes::Bytes::from(request.to_string()));
    world.user.request(asked.unwrap()).await.unwrap();
}

// Upstream: TestHandle (not allowed).
#[tokio::test(start_paused = true)]
async fn a_user_without_permission_is_not_approved_and_retried() {
    let world = world().await;
    let user = "system:node:node-0";
    let request = request(NODE_CLIENT, Signer::KubeletClient.name(), &KUBELET, "");
    ask_as(&world, user, &request).await;
    world.wait_until_idle().await;
    let reviews = world.writes();
    let asked = |at: usize| reviews[at].body["spec"]["resourceAttributes"]["subresource"].clone();
    assert_eq!([asked(0), asked(1)], ["selfnodeclient", "nodeclient"]);
    assert!(reviews.len() <= 20, "later each time: {}", reviews.len());
    let request = world.get(&Csr::TYPE, "c").await.unwrap();
    assert_eq!(request["spec"]["username"], user);
    assert!(request["status"]["conditions"].is_null());
}

// Upstream: TestHandle (an error).
#[tokio::test(start_paused = true)]
async fn a_review_that_fails_is_tried_again() {
    let world = world().await;
    world.refuse("POST", "subjectaccessreviews", 500, 2);
    let signer = Signer::KubeletClient.name();
    world
        .create(&Csr::TYPE, request(NODE_CLIENT, signer, &KUBELET, ""))
        .await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "POST subjectaccessreviews -> 500 ×2\nPOST subjectaccessreviews\nPUT certificatesigningrequests/c/approval"
    );
}

/// A person may approve it, and that is said once, by those who wait for it.
#[test]
fn a_request_that_is_not_approved_here_is_not_waited_for() {
    let user = "jane".to_owned();
    let recognized = vec![Recognized::NodeClient];
    for reason in [
        Reason::NotRecognized,
        Reason::NotPermitted { user, recognized },
        Reason::Malformed(MalformedRequest::NotPem),
    ] {
        let line = Line::from(&reason);
        assert_eq!(line.class, Class::States, "{line}");
    }
}
