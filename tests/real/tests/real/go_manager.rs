//! Go's controller manager, unmodified and with all its default controllers, on our API server.

use std::time::Duration;

use real_tests::embedded::Embedded;
use real_tests::kubelet::AutomaticKubelet;
use real_tests::process::remove_when_we_end;
use real_tests::wait::{self, Seen};
use real_tests::{Api, installation};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(90);

fn until(what: &str, api: &Api, path: &str, fits: impl Fn(Option<&Value>) -> bool) {
    wait::until(what, PATIENCE, || {
        let found = api.find(path)?;
        Ok(if fits(found.as_ref()) {
            Seen::Ready(())
        } else {
            Seen::NotYet(found.unwrap_or_default().to_string())
        })
    })
    .expect("it happens in time");
}

#[test]
fn the_go_manager_runs_on_our_api_server_without_complaint() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("steersman-go-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut cleaner = remove_when_we_end(&folder).unwrap();
    let embedded = Embedded::start(&folder).unwrap();
    let api = &embedded.api;
    let program = installation.command("kube-controller-manager");
    let mut manager = embedded.start_manager(&program).unwrap();

    api.create("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}))
        .unwrap();
    until(
        "a service account",
        api,
        "/api/v1/namespaces/shop/serviceaccounts/default",
        |found| found.is_some(),
    );
    until(
        "the root certificate",
        api,
        "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt",
        |found| found.is_some(),
    );
    let kubelet = AutomaticKubelet::start(api, "shop", 1);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let base = "/apis/apps/v1/namespaces/shop";
    api.create(
        &format!("{base}/deployments"),
        &json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": selector, "template": template}}),
    )
    .unwrap();
    api.create("/api/v1/namespaces/shop/services", &json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})).unwrap();
    let job = json!({"metadata": {"name": "once"}, "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}});
    api.create("/apis/batch/v1/namespaces/shop/jobs", &job)
        .unwrap();
    until(
        "the rollout",
        api,
        &format!("{base}/deployments/web"),
        |found| found.is_some_and(|web| web["status"]["availableReplicas"] == 3),
    );
    until(
        "the suspended Job",
        api,
        "/apis/batch/v1/namespaces/shop/jobs/once",
        |found| found.is_some_and(|job| job["status"]["conditions"][0]["type"] == "Suspended"),
    );
    api.strategic_patch(
        &format!("{base}/deployments/web"),
        &json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "c"}]}}}}),
    )
    .unwrap();
    until(
        "the second rollout",
        api,
        &format!("{base}/deployments/web"),
        |found| {
            found.is_some_and(|web| {
                web["status"]["updatedReplicas"] == 3 && web["status"]["replicas"] == 3
            })
        },
    );
    api.delete("/api/v1/namespaces/shop", &json!({})).unwrap();
    until(
        "the namespace to be gone",
        api,
        "/api/v1/namespaces/shop",
        |found| found.is_none(),
    );
    drop(kubelet);
    assert!(manager.ended().is_none(), "{}", manager.last_lines());

    let errors = manager.repeated_errors().unwrap();
    assert!(errors.is_empty(), "errors repeatedly: {errors:#?}");
    drop((manager, embedded));
    drop(cleaner.stdin.take());
    cleaner.wait().unwrap();
}
