//! ImagePolicyWebhook, whose server is one that a kubeconfig names.

use super::*;
use crate::admission::{PluginConfigurations, PluginSettings, Plugins};
use crate::outbound::Backend;

const PODS: &str = "/api/v1/namespaces/default/pods";

const REVIEW: &str = "imagepolicy.k8s.io/v1alpha1";

/// A server that asks about images, with this in the plugin's configuration; nobody answers at first.
fn asking(policy: Value) -> (Server, Arc<World>) {
    let world = Arc::new(World {
        respond: Mutex::new(None),
        calls: Mutex::default(),
        targets: Mutex::default(),
    });
    let outbound = world.clone();
    let plugins = Plugins::chosen(
        &["ImagePolicyWebhook".to_owned()],
        &["ServiceAccount".to_owned()],
    );
    let configuration = json!({"imagePolicy": policy});
    let told = PluginConfigurations::from([("ImagePolicyWebhook".to_owned(), configuration)]);
    let backend = |_: &str| {
        Ok(Backend {
            origin: "https://images.example.com".to_owned(),
            path: "/policy".to_owned(),
            authorization: Some("Bearer secret".to_owned()),
            target: Target {
                is_https: true,
                authority: "images.example.com:443".to_owned(),
                ..Target::default()
            },
        })
    };
    let server = Server::with(|options| {
        options.outbound = Some(Arc::new(outbound));
        options.settings.plugins = plugins.unwrap();
        let settings = PluginSettings::new(options.settings.plugins, &told, backend);
        options.settings.plugin_settings = settings.unwrap();
    });
    (server, world)
}

/// Answers with a code, and with what is said of the images: bad ones are refused, good ones are not.
fn judging(world: &Arc<World>, code: u16) {
    world.respond_with(move |_, review| {
        let images = review["spec"]["containers"].as_array().unwrap();
        let is_bad = images.iter().any(|one| one["image"] == "bad");
        let status = match is_bad {
            true => json!({"allowed": false, "reason": "not allowed"}),
            false => json!({"allowed": true}),
        };
        let answer = json!({"apiVersion": REVIEW, "kind": "ImageReview", "status": status});
        let body = match code {
            200 => answer.to_string(),
            _ => "HTTP Error\n".to_owned(),
        };
        Box::pin(async move { (code, body) })
    });
}

fn pod(images: &[&str], init: &[&str]) -> Value {
    let containers = |prefix: &str, images: &[&str]| -> Value {
        let all = images.iter().enumerate();
        all.map(|(index, image)| json!({"name": format!("{prefix}{index}"), "image": image}))
            .collect()
    };
    json!({"metadata": {"generateName": "p-"},
        "spec": {"containers": containers("c", images), "initContainers": containers("i", init)}})
}

async fn said(server: &Server, pod: Value) -> String {
    match server.post(PODS, pod).await {
        (201, _) => String::new(),
        (403, status) => {
            let message = status["message"].as_str().unwrap();
            let (_, why) = message.split_once(" is forbidden: ").unwrap();
            why.to_owned()
        }
        other => panic!("{other:?}"),
    }
}

const DENIED: &str = "image policy webhook backend denied one or more images: not allowed";

/// UPSTREAM: TestContainerCombinations.
#[tokio::test(start_paused = true)]
async fn pods_with_images_that_are_refused_are_refused() {
    let (server, world) = asking(json!({"allowTTL": -1, "denyTTL": -1}));
    judging(&world, 200);
    for (images, init, expected) in [
        (&["good"][..], &[][..], ""),
        (&["bad"], &[], DENIED),
        (&["bad", "good"], &[], DENIED),
        (&["good", "good"], &[], ""),
        (&["bad", "bad"], &[], DENIED),
        (&["good"], &["bad"], DENIED),
        (&["bad"], &["good"], DENIED),
        (&["good"], &["good"], ""),
    ] {
        let said = said(&server, pod(images, init)).await;
        assert_eq!(said, expected, "{images:?} {init:?}");
    }
    // Others have no images, and are nobody's business.
    let before = world.calls.lock().len();
    server.config_map("m", json!({"a": "1"})).await;
    assert_eq!(world.calls.lock().len(), before);
}

#[tokio::test(start_paused = true)]
async fn updates_and_ephemeral_containers_are_asked_about_and_a_status_is_not() {
    let (server, world) = asking(json!({"allowTTL": -1, "denyTTL": -1}));
    judging(&world, 200);
    let mut named = pod(&["good"], &["fine"]);
    named["metadata"] = json!({"name": "p", "annotations": {
        "my.image-policy.k8s.io/ticket": "1", "image-policy.k8s.io/no": "2", "other": "3"}});
    assert_eq!(server.post(PODS, named).await.0, 201);
    let path = format!("{PODS}/p");
    let asked = || world.calls.lock().last().unwrap().clone();
    let annotations = json!({"my.image-policy.k8s.io/ticket": "1"});
    let review = |containers: Value| {
        let spec =
            json!({"containers": containers, "annotations": annotations, "namespace": "default"});
        json!({"kind": "ImageReview", "apiVersion": REVIEW, "metadata": {}, "spec": spec, "status": {"allowed": false}})
    };
    let both = json!([{"image": "good"}, {"image": "fine"}]);
    assert_eq!(asked(), ("/policy".to_owned(), review(both)));
    let image = |image: &str| json!({"spec": {"containers": [{"name": "c0", "image": image}]}});
    let (code, _) = server
        .patch(&path, "strategic-merge-patch", image("bad"))
        .await;
    assert_eq!(code, 403);
    let debug =
        |image: &str| json!({"spec": {"ephemeralContainers": [{"name": "d", "image": image}]}});
    let ephemeral = format!("{path}/ephemeralcontainers");
    let (code, refused) = server
        .patch(&ephemeral, "strategic-merge-patch", debug("bad"))
        .await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        format!("pods \"p\" is forbidden: {DENIED}")
    );
    assert_eq!(asked().1, review(json!([{"image": "bad"}])));
    let (code, _) = server
        .patch(&ephemeral, "strategic-merge-patch", debug("good"))
        .await;
    assert_eq!(code, 200);
    let before = world.calls.lock().len();
    let status = json!({"status": {"phase": "Running"}});
    let (code, _) = server
        .patch(&format!("{path}/status"), "merge-patch", status)
        .await;
    assert_eq!((code, world.calls.lock().len()), (200, before));
}

/// UPSTREAM: TestWebhookCache.
#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_a_while_and_failures_are_not() {
    let (server, world) = asking(json!({"allowTTL": 200, "denyTTL": 100}));
    let error = "an error on the server (\"unknown\") has prevented the request from succeeding";
    for image in ["test", "test2"] {
        for (code, expected) in [
            (500, error),
            (404, "the server could not find the requested resource"),
            (403, "unknown"),
            (
                401,
                "the server has asked for the client to provide credentials",
            ),
            (200, ""),
            (500, ""),
        ] {
            judging(&world, code);
            assert_eq!(said(&server, pod(&[image], &[])).await, expected, "{code}");
        }
    }
    judging(&world, 200);
    assert_eq!(said(&server, pod(&["bad"], &[])).await, DENIED);
    judging(&world, 404);
    assert_eq!(said(&server, pod(&["bad"], &[])).await, DENIED);
    let lost = "the server could not find the requested resource";
    tokio::time::advance(std::time::Duration::from_secs(101)).await;
    assert_eq!(said(&server, pod(&["bad"], &[])).await, lost);
    assert_eq!(said(&server, pod(&["test"], &[])).await, "");
    tokio::time::advance(std::time::Duration::from_secs(100)).await;
    assert_eq!(said(&server, pod(&["test"], &[])).await, lost);
}

#[tokio::test(start_paused = true)]
async fn what_fails_in_passing_is_tried_again() {
    let (server, world) = asking(json!({"retryBackoff": 1000}));
    let begun = tokio::time::Instant::now();
    let asked = || world.calls.lock().len();
    judging(&world, 500);
    assert!(!said(&server, pod(&["a"], &[])).await.is_empty());
    assert_eq!(asked(), 5);
    // 1 s, 1.5 s, 2.25 s and 3.4 s, and up to a fifth more.
    let waited = begun.elapsed().as_secs_f64();
    assert!((8.1..=9.8).contains(&waited), "{waited}");
    judging(&world, 404);
    said(&server, pod(&["a"], &[])).await;
    assert_eq!(asked(), 6);
}

/// UPSTREAM: TestDefaultAllow.
#[tokio::test(start_paused = true)]
async fn without_an_answer_the_default_holds() {
    for (default_allow, expected) in [
        (true, ""),
        (
            false,
            "Post \"https://images.example.com/policy?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused",
        ),
    ] {
        let (server, world) = asking(json!({"defaultAllow": default_allow}));
        for image in ["bad", "good"] {
            assert_eq!(said(&server, pod(&[image], &[])).await, expected);
        }
        world.respond_with(|_, _| {
            Box::pin(async { (200, "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}".to_owned()) })
        });
        let wrong = said(&server, pod(&["good"], &[])).await;
        assert_eq!(wrong.is_empty(), default_allow, "{wrong}");
        // Who says nothing of it refuses.
        let silent = json!({"kind": "ImageReview", "apiVersion": REVIEW}).to_string();
        world.respond_with(move |_, _| {
            let silent = silent.clone();
            Box::pin(async { (200, silent) })
        });
        assert_eq!(
            said(&server, pod(&["good"], &[])).await,
            "one or more images rejected by webhook backend"
        );
    }
}
