//! The rights that a cluster gives a controller manager must suffice, and not one more is asked for.

use std::time::Duration;

use real_tests::audit;
use real_tests::kubelet::{AutomaticKubelet, Ending, Heartbeats, Kubelet};
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation, manager};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const APPS: &str = "/apis/apps/v1/namespaces/default";
const BATCH: &str = "/apis/batch/v1/namespaces/default";

/// A kubelet that stops posting status is noticed while the test lasts.
const SHORT_PATIENCE: [&str; 2] = ["--node-monitor-period=1s", "--node-monitor-grace-period=8s"];

const KINDS: [(&str, &str, &str); 3] = [
    ("Deployment", "deployments", "deployment-controller"),
    ("StatefulSet", "statefulsets", "statefulset-controller"),
    ("DaemonSet", "daemonsets", "daemonset-controller"),
];

#[test]
fn go_is_never_refused() {
    never_refused(Flavor::Go);
}

#[test]
fn ours_is_never_refused() {
    never_refused(Flavor::Ours);
}

/// All controllers, each through its own service account with upstream's bootstrap roles.
fn never_refused(flavor: Flavor) {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster
        .api
        .create(accounts, &json!({"metadata": {"name": "default"}}))
        .unwrap();
    let options = ManagerOptions {
        use_service_account_credentials: true,
        flags: SHORT_PATIENCE.map(str::to_owned).to_vec(),
        ..ManagerOptions::default()
    };
    let mut running = Manager::start(&cluster, flavor, &options).unwrap();
    cluster
        .api
        .create("/api/v1/nodes", &json!({"metadata": {"name": "node-0"}}))
        .unwrap();
    cluster
        .api
        .merge_patch("/api/v1/nodes/node-0", &json!({"spec": {"taints": null}}))
        .unwrap();
    let _kubelet = AutomaticKubelet::start(&cluster.api, "default", 2);

    for (kind, plural, _) in &KINDS {
        let path = format!("{APPS}/{plural}/{}", kind.to_lowercase());
        let is_daemon = *kind == "DaemonSet";
        cluster
            .api
            .create(&format!("{APPS}/{plural}"), &workload(kind))
            .unwrap();
        wait_status(
            &cluster,
            &path,
            if is_daemon {
                "numberReady"
            } else {
                "readyReplicas"
            },
            1,
        );
        let image = json!([{"name": "main", "image": "example.invalid/main:2"}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
        cluster.api.merge_patch(&path, &patch).unwrap();
        let field = if is_daemon {
            "updatedNumberScheduled"
        } else {
            "updatedReplicas"
        };
        wait_status(&cluster, &path, field, 1);
        cluster
            .api
            .delete(&path, &json!({"propagationPolicy": "Foreground"}))
            .unwrap();
    }
    run_job(&cluster);
    wait::until("the last pod to go", PATIENCE, || {
        let pods = cluster.api.list("/api/v1/namespaces/default/pods")?;
        Ok(if pods.is_empty() {
            Seen::Ready(())
        } else {
            Seen::NotYet(format!("{} pods", pods.len()))
        })
    })
    .unwrap();
    keep_house(&cluster);
    running.check_alive().unwrap();

    let entries = audit::read(&cluster.audit_log()).unwrap();
    let by_manager: Vec<_> = entries
        .into_iter()
        .filter(audit::Entry::is_manager)
        .collect();
    let controllers = KINDS.iter().map(|(_, _, controller)| controller);
    for controller in controllers.chain(&HOUSEKEEPERS).chain(&["job-controller"]) {
        let account = format!(":{}", manager::service_account(controller));
        let acted = by_manager
            .iter()
            .any(|entry| entry.user.username.ends_with(&account));
        assert!(
            acted,
            "{controller} did not act through its service account"
        );
    }
    // Rules of priority and fairness, and those who read audit logs, go by these names.
    for entry in &by_manager {
        let (user, agent) = (&entry.user.username, &entry.user_agent);
        if user.starts_with("system:serviceaccount:") {
            let in_form = agent.starts_with("kube-controller-manager/v")
                && agent.ends_with(&format!("/{user}"));
            assert!(in_form, "{user} calls itself {agent}");
        }
    }
    let mut refused = audit::forbidden(&by_manager);
    // That is no lack of rights: nobody may create anything in a namespace that goes away.
    refused.retain(|line| !line.ends_with("because it is being terminated"));
    assert_eq!(refused, [] as [String; 0]);
}

/// A job that counts a pod, lets others go, deletes them, and is deleted itself.
fn run_job(cluster: &Cluster) {
    let (jobs, path) = (format!("{BATCH}/jobs"), format!("{BATCH}/jobs/job"));
    let mut job = workload("Job");
    job["apiVersion"] = json!("batch/v1");
    let mut template = job["spec"]["template"].take();
    template["spec"]["restartPolicy"] = json!("Never");
    job["spec"] = json!({"parallelism": 2, "completions": 4, "template": template});
    cluster.api.create(&jobs, &job).unwrap();
    wait_status(cluster, &path, "ready", 2);
    let kubelet = Kubelet::new(&cluster.api, "default");
    let pod = kubelet.pods("app=job").unwrap().remove(0);
    let name = pod["metadata"]["name"].as_str().unwrap();
    let ending = Ending::default();
    kubelet.set_phase(name, "Succeeded", &ending).unwrap();
    wait_status(cluster, &path, "succeeded", 1);
    let patch = json!({"spec": {"suspend": true}});
    cluster.api.merge_patch(&path, &patch).unwrap();
    wait_status(cluster, &path, "active", 0);
    let options = json!({"propagationPolicy": "Background"});
    cluster.api.delete(&path, &options).unwrap();
}

/// Those that write in [`keep_house`], apart from the tokens controller, which acts as the manager itself.
const HOUSEKEEPERS: [&str; 9] = [
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
];

/// Something for every housekeeping controller to do.
fn keep_house(cluster: &Cluster) {
    let api = &cluster.api;
    let object = |kind: &str, name: &str| json!({"kind": kind, "metadata": {"name": name}});
    api.create("/api/v1/namespaces", &object("Namespace", "shop"))
        .unwrap();
    wait_present(cluster, "/api/v1/namespaces/shop/serviceaccounts/default");
    let root = "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt";
    wait_present(cluster, root);
    api.merge_patch(root, &json!({"data": {"ca.crt": "wrong"}}))
        .unwrap();
    let token = json!({
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token",
    });
    api.create("/api/v1/namespaces/shop/secrets", &token)
        .unwrap();
    wait_field(
        cluster,
        "/api/v1/namespaces/shop/secrets/token",
        "/data/namespace",
    );

    // The pod garbage collector deletes a pod that was deleted before it had a node.
    let held = json!({
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "example.invalid/main"}]},
    });
    let pod = "/api/v1/namespaces/shop/pods/held";
    api.create("/api/v1/namespaces/shop/pods", &held).unwrap();
    api.delete(pod, &json!({"gracePeriodSeconds": 30})).unwrap();
    wait::until("the pod to fail", PATIENCE, || {
        let phase = api.get(pod)?["status"]["phase"].to_string();
        Ok(match phase.contains("Failed") {
            true => Seen::Ready(()),
            false => Seen::NotYet(phase),
        })
    })
    .unwrap();
    api.merge_patch(pod, &json!({"metadata": {"finalizers": null}}))
        .unwrap();

    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.invalid/job"}]}});
    let job = json!({"metadata": {"name": "job"}, "spec": {"ttlSecondsAfterFinished": 1, "suspend": true, "template": template}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    api.create(jobs, &job).unwrap();
    let failed = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [failed("FailureTarget"), failed("Failed")]}});
    api.merge_patch(&format!("{jobs}/job/status"), &status)
        .unwrap();
    wait_gone(cluster, &format!("{jobs}/job"));

    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let part = json!({"metadata": {"name": "part", "labels": {"part-of": "all"}}, "rules": rules});
    api.create(roles, &part).unwrap();
    let all = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part-of": "all"}}]}});
    api.create(roles, &all).unwrap();
    wait_field(cluster, &format!("{roles}/all"), "/rules/0/verbs");

    lose_a_node(cluster);
    api.delete("/api/v1/namespaces/shop", &json!({})).unwrap();
    wait_gone(cluster, "/api/v1/namespaces/shop");
}

/// A node whose kubelet stops posting status, and a pod there that has to leave.
fn lose_a_node(cluster: &Cluster) {
    let api = &cluster.api;
    let _others = Heartbeats::start(api).unwrap();
    api.create("/api/v1/nodes", &json!({"metadata": {"name": "lost"}}))
        .unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    api.strategic_patch("/api/v1/nodes/lost/status", &ready)
        .unwrap();
    let tolerates = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]);
    let pod = json!({
        "metadata": {"name": "left"},
        "spec": {"tolerations": tolerates, "containers": [{"name": "main", "image": "example.invalid/main"}]},
    });
    api.create("/api/v1/namespaces/shop/pods", &pod).unwrap();
    let kubelet = Kubelet::new(api, "shop");
    kubelet.bind("left", "lost").unwrap();
    kubelet
        .set_ready("left", true, "2026-01-01T00:00:00Z")
        .unwrap();
    let pod = "/api/v1/namespaces/shop/pods/left";
    wait_field(cluster, pod, "/metadata/deletionTimestamp");
    kubelet.finish("left").unwrap();
}

fn wait_present(cluster: &Cluster, path: &str) {
    wait_field(cluster, path, "/metadata/name");
}

fn wait_field(cluster: &Cluster, path: &str, pointer: &str) {
    wait::until(path, PATIENCE, || {
        let object = cluster.api.find(path)?.unwrap_or(Value::Null);
        Ok(match object.pointer(pointer) {
            Some(_) => Seen::Ready(()),
            None => Seen::NotYet(format!("{pointer} is absent")),
        })
    })
    .unwrap();
}

fn wait_gone(cluster: &Cluster, path: &str) {
    wait::until(path, PATIENCE, || {
        Ok(match cluster.api.find(path)? {
            None => Seen::Ready(()),
            Some(object) => Seen::NotYet(object["status"].to_string()),
        })
    })
    .unwrap();
}

fn workload(kind: &str) -> Value {
    let name = kind.to_lowercase();
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/main:1"}]},
            },
        },
    });
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!(name);
    }
    object
}

fn wait_status(cluster: &Cluster, path: &str, field: &str, expected: u64) {
    wait::until(path, PATIENCE, || {
        let object = cluster.api.get(path)?;
        let seen = object["status"][field].as_u64().unwrap_or(0);
        // Jobs do not say which generation they have seen.
        let observed = &object["status"]["observedGeneration"];
        let current = object["kind"] == "Job" || *observed == object["metadata"]["generation"];
        let done = seen == expected && current;
        Ok(if done {
            Seen::Ready(())
        } else {
            Seen::NotYet(object["status"].to_string())
        })
    })
    .unwrap();
}
