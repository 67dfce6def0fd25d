//! One manager is stopped and another takes its place: nothing that runs may notice.

use std::collections::BTreeMap;
use std::time::Duration;

use real_tests::audit::{self, Level};
use real_tests::kubelet::{AutomaticKubelet, Ending, Kubelet};
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation, manager};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// How long the new manager is watched before it is believed to leave everything alone.
const WATCHED: Duration = Duration::from_secs(8);
const APPS: &str = "/apis/apps/v1/namespaces/default";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

#[derive(Clone, Copy)]
struct Workload {
    kind: &'static str,
    plural: &'static str,
    name: &'static str,
    controllers: &'static [&'static str],
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        kind: "Deployment",
        plural: "deployments",
        name: "web",
        controllers: &["deployment-controller", "replicaset-controller"],
    },
    Workload {
        kind: "StatefulSet",
        plural: "statefulsets",
        name: "db",
        controllers: &["statefulset-controller"],
    },
    Workload {
        kind: "DaemonSet",
        plural: "daemonsets",
        name: "agent",
        controllers: &["daemonset-controller"],
    },
];

#[test]
fn go_replaces_go() {
    swap(Flavor::Go, Flavor::Go, &WORKLOADS);
}

#[test]
fn ours_replaces_go_and_go_replaces_ours() {
    swap(Flavor::Go, Flavor::Ours, &ours_already());
}

/// What our manager made, under names and hashes of its own, is kept by Go's.
#[test]
fn go_replaces_ours_and_ours_replaces_go() {
    swap(Flavor::Ours, Flavor::Go, &ours_already());
}

/// Every kind of workload whose controllers are ours already.
fn ours_already() -> Vec<Workload> {
    let mut workloads = WORKLOADS.to_vec();
    workloads.retain(|workload| manager::ours_has(workload.controllers));
    workloads
}

fn swap(first: Flavor, second: Flavor, workloads: &[Workload]) {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        audit: Level::Objects,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&installation, options).unwrap();
    let controllers = workloads.iter().flat_map(|workload| workload.controllers);
    let controllers = controllers.chain(&["job-controller"]);
    let options = ManagerOptions {
        controllers: controllers.map(|name| (*name).to_owned()).collect(),
        use_service_account_credentials: true,
        ..ManagerOptions::default()
    };
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster
        .api
        .create(accounts, &json!({"metadata": {"name": "default"}}))
        .unwrap();

    let running = Manager::start(&cluster, first, &options).unwrap();
    build_workloads(&cluster, workloads);
    let before = identities(&cluster);
    running.stop().unwrap();

    for (round, flavor) in [second, first].into_iter().enumerate() {
        let name = format!("round-{round}");
        let mut running = Manager::start_named(&cluster, flavor, &name, &options).unwrap();
        leaves_everything_alone(&cluster, &mut running, &before);
        if round == 1 {
            rollout_goes_on(&cluster);
            finish_job(&cluster);
        }
        running.stop().unwrap();
    }
}

/// Workloads with a past: rolled twice, scaled, and one paused in the middle of a rollout.
fn build_workloads(cluster: &Cluster, workloads: &[Workload]) {
    let api = &cluster.api;
    for number in 0..3 {
        let node = json!({"metadata": {"name": format!("node-{number}")}});
        api.create("/api/v1/nodes", &node).unwrap();
        api.merge_patch(
            &format!("/api/v1/nodes/node-{number}"),
            &json!({"spec": {"taints": null}}),
        )
        .unwrap();
    }
    {
        let _kubelet = AutomaticKubelet::start(api, "default", 2);
        begin_job(cluster);
        for workload in workloads {
            let path = format!("{APPS}/{}", workload.plural);
            api.create(&path, &object(workload.kind, workload.name, 3))
                .unwrap();
        }
        workloads
            .iter()
            .for_each(|workload| wait_complete(cluster, workload.plural, workload.name));
        for version in ["2", "3"] {
            for Workload { plural, name, .. } in workloads {
                let patch = json!({"spec": {"template": template(name, version)}});
                api.merge_patch(&format!("{APPS}/{plural}/{name}"), &patch)
                    .unwrap();
            }
            workloads
                .iter()
                .for_each(|workload| wait_complete(cluster, workload.plural, workload.name));
        }
        for Workload { plural, name, .. } in workloads
            .iter()
            .filter(|workload| workload.kind != "DaemonSet")
        {
            api.merge_patch(
                &format!("{APPS}/{plural}/{name}"),
                &json!({"spec": {"replicas": 5}}),
            )
            .unwrap();
            wait_complete(cluster, plural, name);
        }
        api.create(
            &format!("{APPS}/deployments"),
            &object("Deployment", "halfway", 4),
        )
        .unwrap();
        wait_complete(cluster, "deployments", "halfway");
    }
    // Without a kubelet the new pods stay unready, and the rollout is paused where it stands.
    api.merge_patch(
        &format!("{APPS}/deployments/halfway"),
        &json!({"spec": {"template": template("halfway", "2")}}),
    )
    .unwrap();
    wait_field(
        cluster,
        "deployments/halfway",
        "/status/updatedReplicas",
        &json!(2),
    );
    api.merge_patch(
        &format!("{APPS}/deployments/halfway"),
        &json!({"spec": {"paused": true}}),
    )
    .unwrap();
    wait_field(
        cluster,
        "deployments/halfway",
        "/status/observedGeneration",
        &json!(3),
    );
}

/// A job with one of three indexes done and two under way.
fn begin_job(cluster: &Cluster) {
    let mut template = template("work", "1");
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {
            "completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 1,
            "template": template,
        },
    });
    cluster.api.create(JOBS, &job).unwrap();
    wait_job(cluster, "/status/ready", &json!(2));
    end_pods(
        cluster,
        "app=work,batch.kubernetes.io/job-completion-index=0",
    );
    wait_job(cluster, "/status/completedIndexes", &json!("0"));
    wait_job(cluster, "/status/ready", &json!(2));
}

fn finish_job(cluster: &Cluster) {
    for index in [1, 2] {
        let selector = format!("app=work,batch.kubernetes.io/job-completion-index={index}");
        end_pods(cluster, &selector);
    }
    wait_job(cluster, "/status/conditions/1/type", &json!("Complete"));
    wait_job(cluster, "/status/succeeded", &json!(3));
}

fn end_pods(cluster: &Cluster, selector: &str) {
    let kubelet = Kubelet::new(&cluster.api, "default");
    for pod in kubelet.pods(selector).unwrap() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let ending = Ending::default();
        kubelet.set_phase(name, "Succeeded", &ending).unwrap();
    }
}

fn wait_job(cluster: &Cluster, pointer: &str, expected: &Value) {
    wait_at(cluster, &format!("{JOBS}/work"), pointer, expected);
}

fn template(name: &str, version: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": format!("example.invalid/{name}:{version}"),
            "args": ["<&>", "é"], "resources": {"limits": {"cpu": "0.5"}}}]},
    })
}

fn object(kind: &str, name: &str, replicas: u32) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name, "1")},
    });
    if kind != "DaemonSet" {
        object["spec"]["replicas"] = json!(replicas);
    }
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!(name);
        object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    }
    object
}

/// Every pod is of the newest template and ready, in the terms of each kind.
fn wait_complete(cluster: &Cluster, plural: &str, name: &str) {
    wait::until(&format!("{plural}/{name}"), PATIENCE, || {
        let object = cluster.api.get(&format!("{APPS}/{plural}/{name}"))?;
        let status = &object["status"];
        let wanted = match plural {
            "daemonsets" => &status["desiredNumberScheduled"],
            _ => &object["spec"]["replicas"],
        };
        let counted = match plural {
            "daemonsets" => [
                &status["updatedNumberScheduled"],
                &status["numberReady"],
                &status["numberAvailable"],
            ],
            _ => [
                &status["updatedReplicas"],
                &status["readyReplicas"],
                &status["replicas"],
            ],
        };
        let seen = status["observedGeneration"] == object["metadata"]["generation"];
        let complete = seen && counted.into_iter().all(|count| count == wanted);
        Ok(if complete {
            Seen::Ready(())
        } else {
            Seen::NotYet(status.to_string())
        })
    })
    .unwrap();
}

fn wait_field(cluster: &Cluster, target: &str, pointer: &str, expected: &Value) {
    wait_at(cluster, &format!("{APPS}/{target}"), pointer, expected);
}

fn wait_at(cluster: &Cluster, path: &str, pointer: &str, expected: &Value) {
    wait::until(path, PATIENCE, || {
        let object = cluster.api.get(path)?;
        let seen = object.pointer(pointer).cloned().unwrap_or(Value::Null);
        Ok(if seen == *expected {
            Seen::Ready(())
        } else {
            Seen::NotYet(seen.to_string())
        })
    })
    .unwrap();
}

/// Name and uid of all that a restart or a new revision would change.
fn identities(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in [
        "/api/v1/namespaces/default/pods".to_owned(),
        "/api/v1/namespaces/default/persistentvolumeclaims".to_owned(),
        format!("{APPS}/replicasets"),
        format!("{APPS}/controllerrevisions"),
    ] {
        for object in cluster.api.list(&path).unwrap() {
            let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
            found.insert(format!("{path}/{}", text("name")), text("uid"));
        }
    }
    found
}

fn leaves_everything_alone(
    cluster: &Cluster,
    running: &mut Manager,
    before: &BTreeMap<String, String>,
) {
    let mut reader = audit::Reader::default();
    reader.read_new(&cluster.audit_log()).unwrap();
    std::thread::sleep(WATCHED);
    running.check_alive().unwrap();
    let name = running.flavor.name();
    assert_eq!(
        identities(cluster),
        *before,
        "the {name} manager replaced something"
    );
    let writes: Vec<String> = reader
        .read_new(&cluster.audit_log())
        .unwrap()
        .iter()
        .filter(|entry| entry.is_manager() && entry.is_write() && entry.namespace() == "default")
        .map(|entry| format!("{} {}", entry.verb, entry.request_uri))
        .collect();
    assert_eq!(
        writes,
        [] as [String; 0],
        "the {name} manager wrote where nothing was to do"
    );
}

fn rollout_goes_on(cluster: &Cluster) {
    let kubelet = Kubelet::new(&cluster.api, "default");
    assert_eq!(
        kubelet.pods("app=halfway").unwrap().len(),
        5,
        "three old pods and two new ones"
    );
    let _automatic = AutomaticKubelet::start(&cluster.api, "default", 2);
    cluster
        .api
        .merge_patch(
            &format!("{APPS}/deployments/halfway"),
            &json!({"spec": {"paused": false}}),
        )
        .unwrap();
    wait_complete(cluster, "deployments", "halfway");
}
