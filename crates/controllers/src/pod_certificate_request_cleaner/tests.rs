//! The whole against the embedded API server, then ages.

use std::time::Duration;

use api::Resource;
use api::kinds::PodCertificateRequest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use testkit::World;

use super::controller;

// Upstream: TestPCRCleaner (4 rows: the state of a request does not matter, its age does).
#[tokio::test(start_paused = true)]
async fn requests_go_after_fifteen_minutes() {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    let stub = CertificateParams::new([]).unwrap();
    let stub = stub.serialize_request(&KeyPair::generate().unwrap());
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
        "metadata": {"name": "r"}, "spec": {
            "signerName": "example.com/s", "podName": "p", "podUID": "p", "nodeName": "n", "nodeUID": "n",
            "serviceAccountName": "a", "serviceAccountUID": "a",
            "stubPKCS10Request": BASE64_STANDARD.encode(stub.unwrap().der()),
        },
    });
    let made = world.create(&PodCertificateRequest::TYPE, request).await;
    tokio::time::sleep(Duration::from_secs(14 * 60)).await;
    assert_eq!(world.written(), "");
    tokio::time::sleep(Duration::from_secs(6 * 60)).await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body["preconditions"]["uid"],
        made["metadata"]["uid"]
    );
    assert!(world.get(&PodCertificateRequest::TYPE, "r").await.is_none());
}

#[test]
fn a_request_is_old_to_the_second() {
    let denied = json!({"conditions": [{"type": "Denied", "status": "True", "reason": "Foo", "message": "abc"}]});
    let now = api::MicroTime::parse("2025-01-01T00:30:00Z").unwrap();
    for status in [json!({}), denied] {
        let is_old = |at: &str| {
            let json =
                json!({"metadata": {"name": "r", "creationTimestamp": at}, "status": status});
            let request = PodCertificateRequest::decode(json.to_string().as_bytes()).unwrap();
            super::is_old(&request, now)
        };
        assert!(!is_old("2025-01-01T00:15:01Z"));
        assert!(is_old("2025-01-01T00:15:00Z"));
        assert!(is_old("2025-01-01T00:14:59Z"));
    }
}
