//! Plans first, then the whole against the embedded API server, whose discovery says what each test wants.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{ClusterTrustBundle, Namespace};
use api::{ObjectId, Resource};
use runtime::controller::Tick;
use runtime::{Metrics, Reconcile, Report, Store};
use serde_json::{Value, json};
use testkit::{World, Write};
use tokio::time::Instant;

use super::{Publisher, Publishing, SIGNER, Step, controller, measured, plan};

const ROOT: &str = "the root\n";

/// sha256("the root\n"), the first twelve bytes.
const NAME: &str = "kubernetes.io:kube-apiserver-serving:38b2cd4b0fe41697f3be0a8e";

fn bundle(name: &str, content: &str) -> Arc<ClusterTrustBundle> {
    let json = json!({"metadata": {"name": name, "uid": format!("{name}'s")}, "spec": {"signerName": SIGNER, "trustBundle": content}});
    Arc::new(ClusterTrustBundle::decode(json.to_string().as_bytes()).unwrap())
}

fn check(bundles: &[(&str, &str)], expected: &str) {
    let right = super::bundle_name(SIGNER, ROOT);
    let bundles: Vec<_> = bundles
        .iter()
        .map(|(name, content)| bundle(if *name == "right" { &right } else { name }, content))
        .collect();
    let steps = plan(SIGNER, &bundles, ROOT).steps;
    let steps: Vec<String> = steps
        .iter()
        .map(|step| match step {
            Step::Create => "create".to_owned(),
            Step::Update(_) => "update".to_owned(),
            Step::Delete(surplus) => format!("delete {}", surplus.metadata.name),
        })
        .collect();
    assert_eq!(steps.join(", "), expected, "{bundles:?}");
}

// Upstream: TestCTBPublisherSync (7 rows; those about other signers are in `bundles_of_other_signers_are_left_alone`).
#[test]
fn one_bundle_with_the_right_name_and_content_stays() {
    check(&[], "create");
    check(&[("right", ROOT)], "");
    check(&[("right", "old")], "update");
    check(&[("right", ROOT), ("x:2", ROOT)], "delete x:2");
    check(&[("right", "old"), ("x:2", ROOT)], "update, delete x:2");
    check(&[("x:1", ROOT)], "create, delete x:1");
}

#[test]
fn the_name_is_the_signer_and_a_hash() {
    // printf 'the root\n' | sha256sum | cut -c-24
    let name = super::bundle_name(SIGNER, ROOT);
    assert_eq!(name, NAME);
    assert_ne!(name, super::bundle_name(SIGNER, "another"));
}

/// What one sync writes and decides about where the cache has these bundles. The server knows none of them, and the root is
/// no certificate: what is sent is looked at, not what it answers.
async fn sync(bundles: &[Arc<ClusterTrustBundle>]) -> (Vec<String>, Vec<ObjectId>) {
    let world = World::new().await;
    let context = world.context();
    let store = Arc::new(Store::new());
    for bundle in bundles {
        store.put(bundle.clone());
    }
    let publisher = Publisher {
        publishing: Publishing {
            measured: measured(&context.metrics),
            context: context.clone(),
            signer: SIGNER,
            root_ca: ROOT.into(),
        },
        bundles: store,
    };
    let report = Report::new("test", &context.decisions, context.clock.now());
    let _ = publisher.reconcile(&Tick, &report).await;
    let writes = world.writes();
    let line = |write: &Write| {
        let path = write.path.rsplit('/').next().unwrap_or_default();
        let path = path.replace("%3A", ":");
        format!("{} {path} {}", write.method, write.body)
    };
    let writes = writes.iter().map(line).collect();
    (writes, context.decisions.objects("test"))
}

async fn synced(bundles: &[Arc<ClusterTrustBundle>]) -> Vec<String> {
    sync(bundles).await.0
}

#[tokio::test(start_paused = true)]
async fn decisions_are_about_bundles_that_there_are() {
    let (_, decided) = sync(&[]).await;
    assert_eq!(decided, [], "the server has refused to create it");
    for (bundle, others) in [
        (bundle(NAME, "old"), vec![]),
        (bundle("x:2", ROOT), vec![bundle(NAME, ROOT)]),
    ] {
        let held: Vec<_> = others.into_iter().chain([bundle.clone()]).collect();
        let (_, decided) = sync(&held).await;
        assert_eq!(decided, [ObjectId::of(&*bundle)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_is_written_whole() {
    let spec = json!({"signerName": SIGNER, "trustBundle": ROOT});
    let created = json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
        "metadata": {"name": NAME}, "spec": spec,
    });
    let expected = format!("POST clustertrustbundles {created}");
    assert_eq!(synced(&[]).await, [expected]);

    let written = synced(&[bundle(NAME, "old")]).await;
    let [put] = written.as_slice() else {
        panic!("{written:?}");
    };
    let at = put.find('{').unwrap();
    let body: Value = serde_json::from_str(&put[at..]).unwrap();
    assert!(put.starts_with(&format!("PUT {NAME} ")), "{put}");
    assert_eq!(body["spec"], spec);
    assert_eq!(body["metadata"]["name"], NAME);

    let written = synced(&[bundle(NAME, ROOT), bundle("x:2", ROOT)]).await;
    assert_eq!(written.len(), 1);
    assert!(written[0].starts_with("DELETE x:2 "), "{written:?}");
    assert!(synced(&[bundle(NAME, ROOT)]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn bundles_of_other_signers_are_left_alone() {
    let other = |name: &str, signer: &str| {
        let json = json!({"metadata": {"name": name, "uid": name}, "spec": {"signerName": signer, "trustBundle": "x"}});
        Arc::new(ClusterTrustBundle::decode(json.to_string().as_bytes()).unwrap())
    };
    let others = [other("nosigner", ""), other("signer:one", "signer")];
    let written = synced(&others).await;
    assert_eq!(written.len(), 1, "{written:?}");
    assert!(written[0].starts_with("POST "), "{written:?}");
    let [one, two] = others;
    assert!(synced(&[one, two, bundle(NAME, ROOT)]).await.is_empty());
}

/// A server whose discovery knows bundles in these versions only.
fn serve(world: &World, versions: &[&str]) {
    let resource = json!({
        "resource": "clustertrustbundles", "responseKind": {"kind": "ClusterTrustBundle"},
        "scope": "Cluster", "verbs": ["create", "list", "watch"],
    });
    let version = |name: &&str| json!({"version": name, "resources": [resource]});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    let group = json!({"metadata": {"name": "certificates.k8s.io"}, "versions": versions});
    world.answer("/apis", json!({"items": [group]}));
}

async fn first_path(world: &World) -> String {
    world.wait_until_idle().await;
    let writes = world.writes();
    writes
        .first()
        .map_or_else(String::new, |write| write.path.clone())
}

#[tokio::test(start_paused = true)]
async fn the_newest_version_that_the_server_has_is_used() {
    for (versions, expected) in [
        (&["v1beta1", "v1alpha1"][..], "v1beta1"),
        (&["v1alpha1"][..], "v1alpha1"),
    ] {
        let mut world = World::new().await;
        serve(&world, versions);
        let running = controller(&world.context(), SIGNER, ROOT);
        let stop = world.stop();
        world.run(running.run(stop));
        world.start().await;
        let expected = format!("/apis/certificates.k8s.io/{expected}/clustertrustbundles");
        assert_eq!(first_path(&world).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_bundles_is_asked_again() {
    let mut world = World::new().await;
    serve(&world, &[]);
    let running = controller(&world.context(), SIGNER, ROOT);
    let stop = world.stop();
    world.run(running.run(stop));
    world.start().await;
    assert_eq!(first_path(&world).await, "");
    serve(&world, &["v1beta1"]);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(!first_path(&world).await.is_empty());
}

// Upstream: TestSyncCounter (5 rows).
#[tokio::test(start_paused = true)]
async fn lookups_are_counted_by_status_code() {
    let metrics = Metrics::new();
    let measured = measured(&metrics);
    let client = World::new().await.client;
    let missing = client.get(&Namespace::TYPE, "", "none").await.err();
    let bad = client.create(&Namespace::TYPE, "", "{").await.err();
    let no_answer = client::Error::InvalidRequest("test".to_owned());
    measured.on_sync(Instant::now(), None);
    for error in [missing.as_ref(), bad.as_ref(), Some(&no_answer)] {
        assert!(error.is_some());
        measured.on_sync(Instant::now(), error);
    }
    let families = metrics.registry().gather();
    let name = "clustertrustbundle_publisher_sync_total";
    let family = families.iter().find(|found| found.name() == name);
    let samples = family.unwrap().get_metric().iter();
    let codes: Vec<&str> = samples.map(|one| one.get_label()[0].value()).collect();
    assert_eq!(codes, ["200", "400", "404", "500"]);
}
