//! Deadlines first, then the whole against the embedded API server. Upstream: TestCleanerWithApprovedExpiredCSR.

use std::time::Duration;

use api::kinds::CertificateSigningRequest as Csr;
use api::{Resource, Time};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use testkit::World;

use super::{controller, deadline};
use crate::certificates::Signer;

/// 2024-01-01.
const NOW: i64 = 1_704_067_200;

fn ago(minutes: i64) -> String {
    Time::from_unix(NOW - minutes * 60).to_string()
}

fn certificate(year: i32) -> String {
    let mut params = CertificateParams::new([]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    BASE64_STANDARD.encode(made.pem())
}

/// Minutes since it was created, conditions with the minutes since each, and the certificate.
fn request(created: i64, conditions: &[(&str, i64)], certificate: &str) -> Csr {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, minutes)| json!({"type": kind, "status": "True", "lastUpdateTime": ago(*minutes)}))
        .collect();
    let request = json!({
        "metadata": {"name": "c", "creationTimestamp": ago(created)},
        "status": {"conditions": conditions, "certificate": certificate},
    });
    Csr::decode(request.to_string().as_bytes()).unwrap()
}

fn check(created: i64, conditions: &[(&str, i64)], certificate: &str, expected: &str) {
    let deadline = deadline(&request(created, conditions, certificate));
    let due = deadline.filter(|deadline| deadline.is_past(Time::from_unix(NOW).micro()));
    let due = due.map_or("kept".to_owned(), |due| format!("{:?}", due.reason));
    assert_eq!(due, expected, "{created} {conditions:?}");
}

#[test]
fn each_state_has_its_age() {
    let (good, ended) = (certificate(2030), certificate(2023));
    // Nobody has decided.
    check(24 * 60 + 1, &[], "", "Pending");
    check(24 * 60, &[], "", "kept");
    check(1, &[], "", "kept");
    // Denied, failed.
    check(9999, &[("Denied", 61)], "", "Denied");
    check(9999, &[("Denied", 60)], "", "kept");
    check(9999, &[("Failed", 61)], "", "Failed");
    check(9999, &[("Failed", 60)], "", "kept");
    // Approved and issued, approved and not.
    check(9999, &[("Approved", 61)], &good, "Issued");
    check(9999, &[("Approved", 60)], &good, "kept");
    check(9999, &[("Approved", 61)], "", "kept");
    check(9999, &[("Approved", 24 * 60 + 1)], "", "Unissued");
    check(9999, &[("Approved", 24 * 60)], "", "kept");
    // The certificate has ended.
    check(9999, &[("Approved", 1)], &ended, "Expired");
    check(9999, &[("Denied", 1)], &ended, "kept");
    // What cannot be read has not ended.
    check(9999, &[("Approved", 1)], "YQ==", "kept");
    check(9999, &[("Approved", 1)], "%%%", "kept");
    check(9999, &[("Approved", 61)], "YQ==", "Issued");
    // Approved and failed: the first age counts.
    check(9999, &[("Approved", 120), ("Failed", 50)], "", "kept");
    check(9999, &[("Approved", 61), ("Failed", 61)], "", "Failed");
    check(9999, &[("Odd", 99_999)], "", "kept");
}

#[test]
fn a_condition_without_a_time_never_gets_old() {
    let request = json!({"metadata": {"name": "c"}, "status": {"conditions": [{"type": "Denied", "status": "True"}]}});
    assert_eq!(
        deadline(&Csr::decode(request.to_string().as_bytes()).unwrap()),
        None
    );
    let request = json!({"metadata": {"name": "c"}});
    assert_eq!(
        deadline(&Csr::decode(request.to_string().as_bytes()).unwrap()),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_decides_about_is_deleted_after_a_day() {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    let pem = include_str!("../certificates/testdata/jane.csr");
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {
            "request": BASE64_STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": Signer::ApiServerClient.name(),
        },
    });
    let made = world.create(&Csr::TYPE, request).await;
    tokio::time::sleep(Duration::from_secs(24 * 3600 - 60)).await;
    assert_eq!(world.written(), "");
    tokio::time::sleep(Duration::from_secs(3600 + 120)).await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].method, "DELETE");
    let preconditions = &writes[0].body["preconditions"];
    assert_eq!(preconditions["uid"], made["metadata"]["uid"]);
    assert_eq!(
        preconditions["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    assert!(world.get(&Csr::TYPE, "c").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_again_in_an_hour() {
    let mut world = World::new().await;
    let context = world.context();
    let pem = include_str!("../certificates/testdata/jane.csr");
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {
            "request": BASE64_STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": Signer::ApiServerClient.name(),
        },
    });
    world.create(&Csr::TYPE, request).await;
    world.jump(3 * 24 * 3600);
    world.refuse("DELETE", "certificatesigningrequests/c", 500, 1);
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    assert!(world.get(&Csr::TYPE, "c").await.is_some());
    tokio::time::sleep(Duration::from_secs(3700)).await;
    assert!(world.get(&Csr::TYPE, "c").await.is_none());
}
