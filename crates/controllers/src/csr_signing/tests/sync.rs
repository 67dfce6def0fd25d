//! Requests through the embedded API server. Upstream: TestHandle, TestCertificateController.

use std::time::Duration;

use api::kinds::CertificateSigningRequest as Csr;
use api::{Key, Resource, Rng};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair};
use runtime::Context;
use serde_json::{Value, json};
use testkit::World;

use super::super::{CaSource, controller, serial};
use super::{CA_CERTIFICATE, CA_KEY, JANE, NODE_CLIENT, NODE_SERVING, encoded};
use crate::certificates::Signer;

#[test]
fn serial_numbers_reveal_no_other_random_numbers() {
    let (one, same) = (Rng::from_seed(7), Rng::from_seed(7));
    let (first, second) = (serial(&one), serial(&one));
    assert_ne!(first, second);
    assert_eq!(first, serial(&same), "the simulator repeats it");
    let other = Rng::from_seed(7);
    let drawn = [other.next_u128(), other.next_u128()];
    assert!(!drawn.contains(&first) && !drawn.contains(&second));
}

fn fixed(certificate: &str, key: &str) -> CaSource {
    CaSource::Fixed {
        certificate: certificate.into(),
        key: key.into(),
    }
}

async fn world_with(sources: Vec<(Signer, CaSource)>) -> World {
    let mut world = World::new().await;
    let context = world.context();
    run(&mut world, &context, sources).await;
    world
}

async fn run(world: &mut World, context: &Context, sources: Vec<(Signer, CaSource)>) {
    let ttl = Duration::from_secs(24 * 3600);
    let running = controller(context, sources, ttl, world.rng.fork(), 5).run(world.stop());
    world.run(running);
    world.start().await;
}

async fn world() -> World {
    let source = fixed(CA_CERTIFICATE, CA_KEY);
    world_with(Signer::ALL.map(|signer| (signer, source.clone())).to_vec()).await
}

async fn ask(world: &World, pem: &str, signer: &str, usages: &[&str]) {
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {"request": encoded(pem), "signerName": signer, "usages": usages},
    });
    world.create(&Csr::TYPE, request).await;
}

async fn decide(world: &World, decision: &str) {
    let condition = json!({
        "type": decision, "status": "True", "reason": "r", "message": "m",
        "lastUpdateTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z",
    });
    let patch = json!({"status": {"conditions": [condition]}});
    world
        .patch_subresource(&Csr::TYPE, "c", Some("approval"), patch)
        .await;
}

async fn status(world: &World) -> Value {
    let request = world.get(&Csr::TYPE, "c").await.unwrap();
    request["status"].clone()
}

/// What becomes of a request: `signed`, `left`, or why it has failed.
async fn check(pem: &str, signer: &str, usages: &[&str], decision: &str, expected: &str) {
    let world = world().await;
    ask(&world, pem, signer, usages).await;
    if !decision.is_empty() {
        decide(&world, decision).await;
    }
    world.wait_until_idle().await;
    let status = status(&world).await;
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut failed = conditions.filter(|one| one["type"] == "Failed");
    let outcome = match failed.next() {
        Some(failed) => failed["message"].as_str().unwrap_or_default(),
        None if status["certificate"].is_string() => "signed",
        None => "left",
    };
    assert_eq!(outcome, expected, "{signer} {usages:?}");
    let wanted = match expected {
        "left" => "",
        _ => "PUT certificatesigningrequests/c/status",
    };
    assert_eq!(world.written(), wanted);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "a second sync writes nothing");
}

const KUBELET: [&str; 2] = ["digital signature", "client auth"];

#[tokio::test(start_paused = true)]
async fn approved_requests_are_signed_by_the_rules_of_their_signer() {
    let approved = async |pem: &str, signer: Signer, usages: &[&str], expected: &str| {
        check(pem, signer.name(), usages, "Approved", expected).await;
    };
    let kubelet = Signer::KubeletClient;
    approved(NODE_CLIENT, kubelet, &KUBELET, "signed").await;
    let with_rsa = ["digital signature", "key encipherment", "client auth"];
    approved(NODE_CLIENT, kubelet, &with_rsa, "signed").await;
    let serving = ["digital signature", "server auth"];
    approved(NODE_SERVING, Signer::KubeletServing, &serving, "signed").await;
    let with_rsa = ["digital signature", "key encipherment", "server auth"];
    approved(NODE_SERVING, Signer::KubeletServing, &with_rsa, "signed").await;
    let client = Signer::ApiServerClient;
    approved(JANE, client, &["client auth"], "signed").await;
    approved(JANE, client, &KUBELET, "signed").await;
    let with_rsa = ["client auth", "digital signature", "key encipherment"];
    approved(JANE, client, &with_rsa, "signed").await;
    let dns = "DNS subjectAltNames are not allowed";
    approved(NODE_SERVING, kubelet, &KUBELET, dns).await;
    let nodes = "subject organization is not system:nodes";
    approved(JANE, kubelet, &KUBELET, nodes).await;
    let usage = "invalid usage for client certificate: server auth";
    approved(JANE, client, &["server auth"], usage).await;
    let both = ["server auth", "client auth", "digital signature"];
    approved(JANE, client, &both, usage).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_approved_or_not_ours_is_left_alone() {
    let kubelet = Signer::KubeletClient.name();
    check(NODE_CLIENT, kubelet, &KUBELET, "", "left").await;
    check(NODE_CLIENT, kubelet, &KUBELET, "Denied", "left").await;
    check(JANE, "example.com/x", &KUBELET, "Approved", "left").await;
    let unknown = "kubernetes.io/not-recognised";
    check(JANE, unknown, &KUBELET, "Approved", "left").await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_status_is_written_back_with_one_pem_block() {
    let world = world().await;
    ask(
        &world,
        JANE,
        Signer::ApiServerClient.name(),
        &["client auth"],
    )
    .await;
    decide(&world, "Approved").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    let body = &writes[0].body;
    assert_eq!(body["spec"], json!({}));
    assert_eq!(
        body["status"]["conditions"],
        json!([{
            "type": "Approved", "status": "True", "reason": "r", "message": "m",
            "lastUpdateTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z",
        }])
    );
    let pem = BASE64_STANDARD.decode(body["status"]["certificate"].as_str().unwrap());
    let pem = String::from_utf8(pem.unwrap()).unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n"), "{pem}");
    assert!(pem.ends_with("\n-----END CERTIFICATE-----\n"), "{pem}");
    assert!(pem.lines().all(|line| line.len() <= 64), "{pem}");
    let again = world.get(&Csr::TYPE, "c").await.unwrap();
    assert_eq!(
        again["status"]["certificate"],
        body["status"]["certificate"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_condition_with_upstreams_words() {
    let world = world().await;
    ask(
        &world,
        JANE,
        Signer::ApiServerClient.name(),
        &["server auth"],
    )
    .await;
    decide(&world, "Approved").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(
        writes[0].body["status"]["conditions"][1],
        json!({
            "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
            "message": "invalid usage for client certificate: server auth",
            "lastUpdateTime": "2024-01-01T00:00:00Z",
        })
    );
    // The server adds when that began.
    let failed = &status(&world).await["conditions"][1];
    assert_eq!(failed["lastTransitionTime"], "2024-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn a_ca_that_cannot_be_used_stops_its_own_signer_alone() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.not_after = rcgen::date_time_ymd(2023, 12, 31);
    let ended = params.self_signed(&key).unwrap();
    let world = world_with(vec![
        (
            Signer::KubeletClient,
            fixed(&ended.pem(), &key.serialize_pem()),
        ),
        (Signer::ApiServerClient, fixed(CA_CERTIFICATE, CA_KEY)),
        (
            Signer::KubeletServing,
            fixed(CA_CERTIFICATE, &key.serialize_pem()),
        ),
    ])
    .await;
    let serving = ["digital signature", "server auth"];
    for (name, pem, signer, usages) in [
        ("ended", NODE_CLIENT, Signer::KubeletClient, KUBELET),
        ("good", JANE, Signer::ApiServerClient, KUBELET),
        ("unfit", NODE_SERVING, Signer::KubeletServing, serving),
    ] {
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {"request": encoded(pem), "signerName": signer.name(), "usages": usages},
        });
        world.create(&Csr::TYPE, request).await;
        let condition =
            json!({"type": "Approved", "status": "True", "reason": "r", "message": "m"});
        let patch = json!({"status": {"conditions": [condition]}});
        world
            .patch_subresource(&Csr::TYPE, name, Some("approval"), patch)
            .await;
    }
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "PUT certificatesigningrequests/good/status"
    );
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_ca_that_is_not_there_yet_signs_once_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = CaSource::Files {
        certificate: path("ca.crt"),
        key: path("ca.key"),
    };
    let world = world_with(vec![(Signer::KubeletClient, source)]).await;
    ask(&world, NODE_CLIENT, Signer::KubeletClient.name(), &KUBELET).await;
    decide(&world, "Approved").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    std::fs::write(path("ca.crt"), "not yet").unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(world.written(), "", "it is no certificate yet");
    std::fs::write(path("ca.crt"), CA_CERTIFICATE).unwrap();
    std::fs::write(path("ca.key"), CA_KEY).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let written = world.written();
    assert!(
        written.starts_with("PUT certificatesigningrequests/"),
        "{written}"
    );
}

/// Who approves it learns before that nobody can sign it, and when that is over.
#[tokio::test(start_paused = true)]
async fn what_waits_for_approval_says_that_it_could_not_be_signed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = CaSource::Files {
        certificate: path("ca.crt"),
        key: path("ca.key"),
    };
    let mut world = World::new().await;
    let context = world.context();
    run(&mut world, &context, vec![(Signer::KubeletClient, source)]).await;
    let said = || {
        let decided = context
            .decisions
            .get(context.controller, &Key::new("", "c"))
            .pop();
        let lines = decided.unwrap().lines;
        let said: Vec<String> = lines.iter().map(ToString::to_string).collect();
        said.join("; ")
    };
    let waits = "waits to be approved: nothing is signed that is not approved";
    ask(&world, NODE_CLIENT, Signer::KubeletClient.name(), &KUBELET).await;
    world.wait_until_idle().await;
    let unread = said();
    assert!(
        unread.starts_with(&format!("{waits}; cannot be signed: error reading CA file")),
        "{unread}"
    );
    std::fs::write(path("ca.crt"), CA_CERTIFICATE).unwrap();
    std::fs::write(path("ca.key"), CA_KEY).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(said(), waits);
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_approval_says_that_its_signer_has_no_ca_or_one_that_has_ended() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.not_after = rcgen::date_time_ymd(2023, 12, 31);
    let ended = params.self_signed(&key).unwrap();
    let ended = fixed(&ended.pem(), &key.serialize_pem());
    for (sources, expected) in [
        (
            vec![(Signer::KubeletServing, ended.clone())],
            "no CA is given for signer kubernetes.io/kube-apiserver-client-kubelet",
        ),
        (
            vec![(Signer::KubeletClient, ended)],
            "the signer has expired: NotAfter=2023-12-31T00:00:00Z",
        ),
    ] {
        let mut world = World::new().await;
        let context = world.context();
        run(&mut world, &context, sources).await;
        ask(&world, NODE_CLIENT, Signer::KubeletClient.name(), &KUBELET).await;
        world.wait_until_idle().await;
        let decided = context
            .decisions
            .get(context.controller, &Key::new("", "c"))
            .pop();
        let lines = decided.unwrap().lines;
        assert_eq!(lines.last().unwrap().why, expected);
        assert_eq!(lines.len(), 2);
    }
}
