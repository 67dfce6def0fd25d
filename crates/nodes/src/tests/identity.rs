//! TLS bootstrap of simulated kubelets. The tests approve and sign.

use std::sync::Arc;

use api::ResourceType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Patch, Transport};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};
use testkit::World;
use tower::ServiceExt;

use super::{NODES, PODS, pass, pod};
use crate::identity::{Bootstrap, Credentials};
use crate::{Cluster, Config};

const REQUESTS: ResourceType = ResourceType::cluster(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
);
const TOKEN: &str = "abcdef.0123456789abcdef";

/// By what was written, and what: method and path.
type Log = Arc<Mutex<Vec<(String, String)>>>;

async fn bootstrapping() -> (World, Log) {
    let mut world = World::new().await;
    let log = Log::default();
    let (server, noted, count) = (world.server.clone(), log.clone(), Mutex::new(0));
    let bootstrap = Bootstrap {
        token: TOKEN.to_owned(),
        connect: Arc::new(move |credentials| {
            let by = match credentials {
                Credentials::Token(token) => {
                    assert_eq!(token, TOKEN);
                    "token".to_owned()
                }
                Credentials::Certificate { certificate, key } => {
                    assert!(
                        certificate.contains("BEGIN CERTIFICATE") && key.contains("PRIVATE KEY")
                    );
                    *count.lock() += 1;
                    format!("certificate {}", count.lock())
                }
            };
            let (inner, noted) = (server.transport(), noted.clone());
            Ok(Transport::new(tower::service_fn(
                move |request: http::Request<bytes::Bytes>| {
                    let what = format!("{} {}", request.method(), request.uri().path());
                    noted.lock().push((by.clone(), what));
                    inner.clone().oneshot(request)
                },
            )))
        }),
    };
    let cluster = Cluster::new(
        world.client.clone(),
        Config::with_nodes(1),
        world.clock.clone(),
        world.rng.fork(),
    );
    let stop = world.stop();
    world.run(cluster.bootstrapped(bootstrap).run(stop));
    pass(&world, 5).await;
    (world, log)
}

async fn requests(world: &World, signer: &str) -> Vec<Value> {
    let all = world.list(&REQUESTS).await;
    let of_signer =
        |request: &Value| request["spec"]["signerName"] == format!("kubernetes.io/{signer}");
    all.into_iter().filter(of_signer).collect()
}

/// Approves a request and signs it with a certificate that is good from New Year 2024 for so many days.
async fn sign(world: &World, request: &Value, days: u8) {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, key);
    let pem = STANDARD
        .decode(request["spec"]["request"].as_str().unwrap())
        .unwrap();
    let pem = String::from_utf8(pem).unwrap();
    let mut asked = CertificateSigningRequestParams::from_pem(&pem).unwrap();
    asked.params.not_before = rcgen::date_time_ymd(2024, 1, 1);
    asked.params.not_after = rcgen::date_time_ymd(2024, 1, 1 + days);
    let certificate = asked.signed_by(&issuer).unwrap().pem();
    let name = request["metadata"]["name"].as_str().unwrap();
    let approved = json!({"type": "Approved", "status": "True", "reason": "Test", "message": ""});
    for (subresource, status) in [
        ("approval", json!({"conditions": [approved]})),
        (
            "status",
            json!({"certificate": STANDARD.encode(certificate)}),
        ),
    ] {
        let patch = Patch::Merge(json!({"status": status}).to_string().into());
        world
            .user
            .patch(&REQUESTS, "", name, Some(subresource), &patch)
            .await
            .unwrap();
    }
}

fn written_by(log: &Log, what: &str) -> Vec<String> {
    let log = log.lock();
    let matching = log.iter().filter(|(_, written)| written.starts_with(what));
    matching.map(|(by, _)| by.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_is_registered_by_its_own_certificate_and_not_before_it_is_signed() {
    let (world, log) = bootstrapping().await;
    assert!(world.list(&NODES).await.is_empty());
    let asked = requests(&world, "kube-apiserver-client-kubelet").await;
    assert_eq!(asked.len(), 1);
    assert_eq!(
        asked[0]["spec"]["usages"],
        json!(["digital signature", "client auth"])
    );
    sign(&world, &asked[0], 1).await;
    world
        .user
        .create(&PODS, "default", pod("web", json!({})).to_string())
        .await
        .unwrap();
    pass(&world, 20).await;
    assert_eq!(world.list(&NODES).await.len(), 1);
    let pods = world.list(&PODS).await;
    assert_eq!(pods[0]["status"]["phase"], "Running");
    for (what, by) in [
        ("POST /apis/certificates.k8s.io/", "token"),
        ("POST /api/v1/nodes", "certificate 1"),
        ("POST /apis/coordination.k8s.io/", "certificate 1"),
        (
            "PATCH /api/v1/namespaces/default/pods/web/status",
            "certificate 1",
        ),
        ("POST /api/v1/namespaces/default/events", "certificate 1"),
    ] {
        assert_eq!(
            written_by(&log, what).first().map(String::as_str),
            Some(by),
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn certificates_are_renewed_before_they_end_and_the_next_one_is_used() {
    let (world, log) = bootstrapping().await;
    let signer = "kube-apiserver-client-kubelet";
    sign(&world, &requests(&world, signer).await[0], 1).await;
    pass(&world, 15 * 3600).await;
    assert_eq!(
        requests(&world, signer).await.len(),
        1,
        "it is not time yet"
    );
    // It waits for a quarter of an hour and then makes another request: one within that time is the first.
    let mut asked = Vec::new();
    for _ in 0..42 {
        pass(&world, 600).await;
        asked = requests(&world, signer).await;
        if asked.len() > 1 {
            break;
        }
    }
    assert_eq!(asked.len(), 2, "before nine tenths of the day are over");
    let is_new = |request: &&Value| request["status"]["certificate"].is_null();
    sign(&world, asked.iter().find(is_new).unwrap(), 30).await;
    // It looks for its certificate from time to time.
    pass(&world, 20).await;
    log.lock().clear();
    pass(&world, 60).await;
    let leases = written_by(&log, "PATCH /apis/coordination.k8s.io/");
    assert!(
        !leases.is_empty() && leases.iter().all(|by| by == "certificate 2"),
        "{leases:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_certificate_has_ended_bootstraps_again_by_its_token() {
    let (world, log) = bootstrapping().await;
    let signer = "kube-apiserver-client-kubelet";
    sign(&world, &requests(&world, signer).await[0], 1).await;
    pass(&world, 23 * 3600).await;
    let asks_by = || written_by(&log, "POST /apis/certificates.k8s.io/");
    log.lock().clear();
    pass(&world, 20 * 60).await;
    assert!(!asks_by().contains(&"token".to_owned()), "it is still good");
    // A request is waited for a quarter of an hour.
    pass(&world, 3600).await;
    assert!(asks_by().contains(&"token".to_owned()), "{:?}", asks_by());
    let made = |request: &&Value| {
        request["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let all = requests(&world, signer).await;
    sign(&world, all.iter().max_by_key(made).unwrap(), 30).await;
    pass(&world, 20).await;
    log.lock().clear();
    pass(&world, 60).await;
    let leases = written_by(&log, "PATCH /apis/coordination.k8s.io/");
    assert!(
        !leases.is_empty() && leases.iter().all(|by| by == "certificate 2"),
        "{leases:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_certificate_to_serve_with_waits_for_a_person_and_has_the_nodes_addresses() {
    let (world, log) = bootstrapping().await;
    sign(
        &world,
        &requests(&world, "kube-apiserver-client-kubelet").await[0],
        30,
    )
    .await;
    pass(&world, 60).await;
    let asked = requests(&world, "kubelet-serving").await;
    assert_eq!(asked.len(), 1, "and it waits");
    assert_eq!(
        written_by(&log, "POST /apis/certificates.k8s.io/")
            .last()
            .unwrap(),
        "certificate 1"
    );
    let pem = STANDARD
        .decode(asked[0]["spec"]["request"].as_str().unwrap())
        .unwrap();
    let asked_for =
        CertificateSigningRequestParams::from_pem(std::str::from_utf8(&pem).unwrap()).unwrap();
    let names = format!("{:?}", asked_for.params.subject_alt_names);
    assert!(
        names.contains("node-0") && names.contains("IpAddress"),
        "{names}"
    );
    // Denied: it asks again, after a while.
    let name = asked[0]["metadata"]["name"].as_str().unwrap();
    let denied = json!({"type": "Denied", "status": "True", "reason": "Test", "message": "no"});
    let patch = Patch::Merge(
        json!({"status": {"conditions": [denied]}})
            .to_string()
            .into(),
    );
    world
        .user
        .patch(&REQUESTS, "", name, Some("approval"), &patch)
        .await
        .unwrap();
    pass(&world, 10).await;
    assert_eq!(requests(&world, "kubelet-serving").await.len(), 2);
}
