//! Our controller manager on the API servers of other minor releases: what a cluster that is upgraded,
//! or that is not upgraded yet, has to carry.

use std::time::Duration;

use real_tests::installation::{self, Installation};
use real_tests::kubelet::AutomaticKubelet;
use real_tests::wait::{self, Seen};
use real_tests::{Api, Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, audit};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// From the oldest release that is promised to work to the next one.
const MINORS: std::ops::RangeInclusive<u32> = 33..=37;
const SHOP: &str = "/api/v1/namespaces/shop";
const APPS: &str = "/apis/apps/v1/namespaces/shop";

#[test]
fn every_minor_in_the_cache_carries_workloads_from_birth_to_end() {
    // The pinned release must be there in continuous integration; the others may be.
    if installation::for_test().is_none() {
        return;
    }
    for minor in MINORS {
        match Installation::serving(minor) {
            Ok(installation) => smoke(&installation),
            Err(error) => installation::say(&format!("1.{minor}: skipped: {error:#}")),
        }
    }
}

#[test]
fn a_group_that_the_server_lacks_turns_off_what_needs_it_until_it_comes() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        apiserver_flags: vec!["--runtime-config=batch/v1=false".to_owned()],
        ..ClusterOptions::default()
    };
    let mut cluster = Cluster::start(&installation, options).unwrap();
    let mut manager = Manager::start(&cluster, Flavor::Ours, &ManagerOptions::default()).unwrap();
    let log = manager.process().log().to_owned();
    let says = |what: &str| {
        let text = std::fs::read_to_string(&log).unwrap();
        let lines = text.lines();
        lines
            .filter(|line| {
                line.contains("jobs.batch")
                    && !line.contains("cronjobs.batch")
                    && line.contains(what)
            })
            .count()
    };
    const OFF: &str = "the API server does not serve this kind";
    const ON: &str = "the API server serves this kind now";
    const NOT_BUILT: &str = "This build does not have these controllers";

    // Whoever needs no Jobs works, and one line says who does not.
    let api = &cluster.api;
    open_shop(api);
    create(api, &format!("{APPS}/deployments"), workload("deployments"));
    until(api, &format!("{APPS}/deployments/deployments"), |found| {
        found.is_some_and(|object| object["status"]["replicas"] == 3)
    });
    assert_eq!((says(OFF), says(ON)), (1, 0));
    let text = std::fs::read_to_string(&log).unwrap();
    let not_built = text.lines().filter(|line| line.contains(NOT_BUILT));
    assert_eq!(not_built.count(), 0, "everything is built");

    // The same cluster with the group: nobody restarts the manager.
    cluster.take_apiserver().unwrap().stop().unwrap();
    cluster.set_apiserver_flags(&[]);
    cluster.start_apiserver().unwrap();
    let jobs = "/apis/batch/v1/namespaces/shop/jobs";
    let template = json!({"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.invalid/main:1"}],
    }});
    create(
        &cluster.api,
        jobs,
        json!({"metadata": {"name": "late"}, "spec": {"template": template}}),
    );
    until(&cluster.api, &format!("{jobs}/late"), |found| {
        found.is_some_and(|job| job["status"]["active"] == 1)
    });
    assert_eq!((says(OFF), says(ON)), (1, 1));
    manager.check_alive().unwrap();
}

/// With all default controllers, each through its own service account.
fn smoke(installation: &Installation) {
    let version = &installation.kubernetes_version;
    let cluster = Cluster::start(installation, ClusterOptions::default()).unwrap();
    let api = &cluster.api;
    assert_eq!(api.get("/version").unwrap()["gitVersion"], **version);
    let options = ManagerOptions {
        use_service_account_credentials: true,
        ..ManagerOptions::default()
    };
    let mut manager = Manager::start(&cluster, Flavor::Ours, &options).unwrap();
    create(
        api,
        "/api/v1/nodes",
        json!({"metadata": {"name": "node-0"}}),
    );
    // Admission taints a node that no kubelet has called ready yet.
    api.merge_patch("/api/v1/nodes/node-0", &json!({"spec": {"taints": null}}))
        .unwrap();
    open_shop(api);
    let kubelet = AutomaticKubelet::start(api, "shop", 2);

    let up = |path: &str, updated: &str, ready: &str, count: u64| {
        until(api, path, |found| {
            found.is_some_and(|object| {
                let status = &object["status"];
                status["observedGeneration"] == object["metadata"]["generation"]
                    && status[updated] == count
                    && status[ready] == count
            })
        });
    };
    let kinds = [
        ("deployments", "updatedReplicas", "readyReplicas", 3),
        ("statefulsets", "updatedReplicas", "readyReplicas", 3),
        ("daemonsets", "updatedNumberScheduled", "numberReady", 1),
    ];
    for (plural, updated, ready, count) in kinds {
        create(api, &format!("{APPS}/{plural}"), workload(plural));
        let path = format!("{APPS}/{plural}/{plural}");
        up(&path, updated, ready, count);
        let containers = json!([{"name": "main", "image": "example.invalid/main:2"}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        api.merge_patch(&path, &patch).unwrap();
        up(&path, updated, ready, count);
    }
    let deployment = format!("{APPS}/deployments/deployments");
    let foreground = json!({"propagationPolicy": "Foreground"});
    api.delete(&deployment, &foreground).unwrap();
    until(api, &deployment, |found| found.is_none());
    let left = format!("{SHOP}/pods?labelSelector=app%3Ddeployments");
    assert_eq!(api.list(&left).unwrap(), [] as [Value; 0], "on {version}");
    api.delete(SHOP, &json!({})).unwrap();
    until(api, SHOP, |found| found.is_none());
    drop(kubelet);

    manager.check_alive().unwrap();
    let entries = audit::read(&cluster.audit_log()).unwrap();
    let by_manager: Vec<_> = entries
        .into_iter()
        .filter(audit::Entry::is_manager)
        .collect();
    assert!(
        !by_manager.is_empty(),
        "{version}: nothing in the audit log"
    );
    let mut refused = audit::forbidden(&by_manager);
    // That is no lack of rights: nobody may create anything in a namespace that goes away.
    refused.retain(|line| !line.ends_with("because it is being terminated"));
    assert_eq!(refused, [] as [String; 0], "on {version}");
    let errors = manager.process().repeated_errors().unwrap();
    assert!(errors.is_empty(), "on {version}, repeatedly: {errors:#?}");
    installation::say(&format!("{version}: workloads came, rolled and went"));
}

/// A namespace that pods can be made in: its account is there.
fn open_shop(api: &Api) {
    let shop = json!({"metadata": {"name": "shop"}});
    create(api, "/api/v1/namespaces", shop);
    let account = format!("{SHOP}/serviceaccounts/default");
    until(api, &account, |found| found.is_some());
}

fn create(api: &Api, path: &str, object: Value) {
    api.create(path, &object).unwrap();
}

fn until(api: &Api, path: &str, fits: impl Fn(Option<&Value>) -> bool) {
    wait::until(path, PATIENCE, || {
        let found = api.find(path)?;
        Ok(if fits(found.as_ref()) {
            Seen::Ready(())
        } else {
            Seen::NotYet(found.map_or("nothing".to_owned(), |object| object.to_string()))
        })
    })
    .unwrap();
}

/// Named after its kind; with three replicas where that is asked of it.
fn workload(plural: &str) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": plural}},
        "template": {
            "metadata": {"labels": {"app": plural}},
            "spec": {"containers": [{"name": "main", "image": "example.invalid/main:1"}]},
        },
    });
    if plural != "daemonsets" {
        spec["replicas"] = json!(3);
    }
    if plural == "statefulsets" {
        spec["serviceName"] = json!(plural);
    }
    json!({"metadata": {"name": plural}, "spec": spec})
}
