//! One manager is stopped and another takes its place: nothing that runs may notice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use real_tests::audit::{self, Level};
use real_tests::kubelet::{AutomaticKubelet, Ending, Kubelet};
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// How long the new manager is watched before it is believed to leave everything alone.
const WATCHED: Duration = Duration::from_secs(8);
const APPS: &str = "/apis/apps/v1/namespaces/default";
/// Where things are in mid-rollout, for each of the two managers that take over to finish.
const ROUNDS: [&str; 2] = ["round-0", "round-1"];
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
    swap(Flavor::Go, Flavor::Ours, &WORKLOADS);
}

/// What our manager made, under names and hashes of its own, is kept by Go's.
#[test]
fn go_replaces_ours_and_ours_replaces_go() {
    swap(Flavor::Ours, Flavor::Go, &WORKLOADS);
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
    for namespace in ["default"].iter().chain(&ROUNDS) {
        let object = json!({"metadata": {"name": namespace}});
        if *namespace != "default" {
            cluster.api.create("/api/v1/namespaces", &object).unwrap();
        }
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let account = json!({"metadata": {"name": "default"}});
        cluster.api.create(&accounts, &account).unwrap();
    }

    let running = Manager::start(&cluster, first, &options).unwrap();
    build_workloads(&cluster, workloads);
    for namespace in ROUNDS {
        begin_rollouts(&cluster, workloads, namespace);
    }
    let mut before = identities(&cluster);
    running.stop().unwrap();

    for (namespace, flavor) in ROUNDS.into_iter().zip([second, first]) {
        let mut log = audit::Reader::default();
        log.read_new(&cluster.audit_log()).unwrap();
        let mut running = Manager::start_named(&cluster, flavor, namespace, &options).unwrap();
        leaves_everything_alone(&cluster, &mut running, &mut log, &before);
        rollouts_go_on(&cluster, workloads, namespace);
        if namespace == ROUNDS[1] {
            finish_job(&cluster);
        }
        running.check_alive().unwrap();
        running.stop().unwrap();
        before = identities(&cluster);
    }
}

/// Workloads with a past: rolled twice and scaled.
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
    }
}

/// One of each kind that is paused in the middle of a rollout: what has begun is not ready, or held by a partition.
fn begin_rollouts(cluster: &Cluster, workloads: &[Workload], namespace: &str) {
    let api = &cluster.api;
    let base = format!("/apis/apps/v1/namespaces/{namespace}");
    let path = |workload: &Workload| format!("{base}/{}/{}", workload.plural, workload.name);
    {
        let _kubelet = AutomaticKubelet::start(api, namespace, 1);
        for workload in workloads {
            let mut object = object(workload.kind, workload.name, 4);
            if workload.kind == "StatefulSet" {
                object["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 2}});
            }
            let all = format!("{base}/{}", workload.plural);
            api.create(&all, &object).unwrap();
        }
        for workload in workloads {
            wait_complete_at(cluster, &path(workload));
        }
        if let Some(set) = workloads.iter().find(|set| set.kind == "StatefulSet") {
            let patch = json!({"spec": {"template": template(set.name, "2")}});
            api.merge_patch(&path(set), &patch).unwrap();
            wait_at(cluster, &path(set), "/status/updatedReplicas", &json!(2));
            wait_at(cluster, &path(set), "/status/readyReplicas", &json!(4));
        }
    }
    for workload in workloads.iter().filter(|set| set.kind != "StatefulSet") {
        let patch = json!({"spec": {"template": template(workload.name, "2")}});
        api.merge_patch(&path(workload), &patch).unwrap();
        // A quarter more than four of them, and as many less; one of a DaemonSet's.
        let (field, updated) = match workload.kind {
            "Deployment" => ("/status/updatedReplicas", 2),
            _ => ("/status/updatedNumberScheduled", 1),
        };
        wait_at(cluster, &path(workload), field, &json!(updated));
        if workload.kind == "Deployment" {
            let paused = json!({"spec": {"paused": true}});
            api.merge_patch(&path(workload), &paused).unwrap();
            let seen = "/status/observedGeneration";
            wait_at(cluster, &path(workload), seen, &json!(3));
        }
    }
}

/// What was begun by another manager is finished: what it has made stays, and nothing is begun anew.
fn rollouts_go_on(cluster: &Cluster, workloads: &[Workload], namespace: &str) {
    let api = &cluster.api;
    let updated = updated_pods(cluster, namespace);
    let revisions = |cluster: &Cluster| {
        let mut kept = identities(cluster);
        let in_place = format!("/namespaces/{namespace}/");
        kept.retain(|path, _| path.contains(&in_place) && !path.contains("/pods/"));
        kept.into_keys().collect::<Vec<_>>()
    };
    let before = revisions(cluster);
    let _kubelet = AutomaticKubelet::start(api, namespace, 2);
    let base = format!("/apis/apps/v1/namespaces/{namespace}");
    for workload in workloads {
        let path = format!("{base}/{}/{}", workload.plural, workload.name);
        let patch = match workload.kind {
            "Deployment" => json!({"spec": {"paused": false}}),
            "StatefulSet" => {
                json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
            }
            _ => json!({}),
        };
        api.merge_patch(&path, &patch).unwrap();
    }
    for workload in workloads {
        wait_complete_at(
            cluster,
            &format!("{base}/{}/{}", workload.plural, workload.name),
        );
    }
    assert_eq!(revisions(cluster), before, "in {namespace}");
    let now = updated_pods(cluster, namespace);
    let lost: Vec<_> = updated.difference(&now).collect();
    assert!(lost.is_empty(), "recreated in {namespace}: {lost:?}");
}

/// Name and uid of the pods of the second template.
fn updated_pods(cluster: &Cluster, namespace: &str) -> BTreeSet<(String, String)> {
    let pods = Kubelet::new(&cluster.api, namespace).pods("").unwrap();
    let updated = pods.iter().filter(|pod| {
        let image = pod["spec"]["containers"][0]["image"].as_str();
        image.is_some_and(|image| image.ends_with(":2"))
    });
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    updated
        .map(|pod| {
            (
                text(&pod["metadata"]["name"]),
                text(&pod["metadata"]["uid"]),
            )
        })
        .collect()
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

fn wait_complete(cluster: &Cluster, plural: &str, name: &str) {
    wait_complete_at(cluster, &format!("{APPS}/{plural}/{name}"));
}

/// Every pod is of the newest template and ready, in the terms of each kind.
fn wait_complete_at(cluster: &Cluster, path: &str) {
    wait::until(path, PATIENCE, || {
        let object = cluster.api.get(path)?;
        let status = &object["status"];
        let is_daemon = path.contains("/daemonsets/");
        let wanted = match is_daemon {
            true => &status["desiredNumberScheduled"],
            false => &object["spec"]["replicas"],
        };
        let counted = match is_daemon {
            true => [
                &status["updatedNumberScheduled"],
                &status["numberReady"],
                &status["numberAvailable"],
            ],
            false => [
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

/// Uid and revision of all that a restart or a new revision would change.
fn identities(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for namespace in ["default"].iter().chain(&ROUNDS) {
        let core = format!("/api/v1/namespaces/{namespace}");
        let apps = format!("/apis/apps/v1/namespaces/{namespace}");
        let core = ["pods", "persistentvolumeclaims"].map(|plural| format!("{core}/{plural}"));
        let apps = [
            "deployments",
            "replicasets",
            "statefulsets",
            "controllerrevisions",
        ]
        .map(|plural| format!("{apps}/{plural}"));
        for path in core.iter().chain(&apps) {
            for object in cluster.api.list(path).unwrap() {
                let metadata = &object["metadata"];
                let name = metadata["name"].as_str().unwrap();
                found.insert(format!("{path}/{name}"), identity(&object));
            }
        }
    }
    found
}

/// Whose revision is where depends on the kind.
fn identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    let revisions = [
        &metadata["annotations"]["deployment.kubernetes.io/revision"],
        &metadata["labels"]["controller-revision-hash"],
        &metadata["labels"]["pod-template-hash"],
        &object["revision"],
        &object["status"]["currentRevision"],
        &object["status"]["updateRevision"],
        &object["status"]["containerStatuses"],
    ];
    format!("{} {revisions:?}", metadata["uid"])
}

fn leaves_everything_alone(
    cluster: &Cluster,
    running: &mut Manager,
    log: &mut audit::Reader,
    before: &BTreeMap<String, String>,
) {
    std::thread::sleep(WATCHED);
    running.check_alive().unwrap();
    let name = running.flavor.name();
    assert_eq!(
        identities(cluster),
        *before,
        "the {name} manager replaced something"
    );
    // Events are writes, too.
    let places = ["default", ROUNDS[0], ROUNDS[1]];
    let in_place = |entry: &&audit::Entry| places.contains(&entry.namespace());
    let written = log.read_new(&cluster.audit_log()).unwrap();
    let writes: Vec<String> = written
        .iter()
        .filter(in_place)
        .filter(|entry| entry.is_manager() && entry.is_write())
        .map(|entry| format!("{} {}", entry.verb, entry.request_uri))
        .collect();
    assert_eq!(
        writes,
        [] as [String; 0],
        "the {name} manager wrote where nothing was to do"
    );
}
