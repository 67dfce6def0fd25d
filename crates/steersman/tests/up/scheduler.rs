//! Go's kube-scheduler and ours on the same cluster, asked the same questions.
//!
//! Each case is two pods that differ in the name of their scheduler alone and that no node will take. Both
//! schedulers have to say why, in the same words.

use real_tests::installation::{Installation, KUBERNETES};
use real_tests::process::Process;
use serde_json::{Value, json};

use crate::home::{Api, Home, until};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Two nodes with little room, one with a taint, one that is cordoned below.
const NODES: &str = "
nodes:
- name: plain
  count: 2
  zones: [a, b]
  capacity: {cpu: 4, memory: 8Gi, pods: 20}
- name: tainted
  taints: [{key: dedicated, value: db, effect: NoSchedule}]
- name: cordoned
  labels: {special: 'yes'}
";

#[test]
fn both_schedulers_say_the_same() {
    let scheduler = Installation::of(KUBERNETES)
        .unwrap()
        .command("kube-scheduler");
    if !scheduler.is_file() {
        let remedy = format!(
            "{} is not built; run `cargo xtask real build`",
            scheduler.display()
        );
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{remedy}"
        );
        eprintln!("SKIPPED the comparison with kube-scheduler: {remedy}");
        return;
    }
    let home = Home::new("schedulers");
    let nodes = home.file("nodes.yaml", NODES);
    // Nobody makes the claim that a pod waits for: else it would be placed, and between equal nodes Go draws lots.
    let up = home.up(&[
        "--in-memory",
        "--node-config",
        &nodes,
        "--controllers=*,-ephemeral-volume-controller",
    ]);
    let api = up.api();
    prepare(&api);
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": up.kubeconfig()},
        "leaderElection": {"leaderElect": false},
        "profiles": [{"schedulerName": "real"}],
    });
    let config = home.file("scheduler.yaml", &config.to_string());
    let arguments = [
        format!("--config={config}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    let running = Process::start("kube-scheduler", &scheduler, &arguments, &home.0).unwrap();
    for (name, more) in cases() {
        for by in ["real", "ours"] {
            let scheduler = if by == "real" {
                "real"
            } else {
                "default-scheduler"
            };
            api.create(PODS, &pod(&format!("{name}-{by}"), scheduler, more.clone()));
        }
    }
    let mut differences = Vec::new();
    for (name, _) in cases() {
        let [real, ours] = ["real", "ours"].map(|by| verdict(&api, &format!("{name}-{by}")));
        let ours = ours.replace("-ours", "-real");
        if real != ours {
            differences.push(format!("{name}:\n  real {real}\n  ours {ours}"));
        }
    }
    running.kill();
    up.stop();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Pods in the way, a class that never preempts, claims that are not as they should be.
fn prepare(api: &Api) {
    let cordon = json!({"spec": {"unschedulable": true}});
    api.send("PATCH", "/api/v1/nodes/cordoned-0", &cordon)
        .unwrap();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    api.create(
        classes,
        &json!({"metadata": {"name": "polite"}, "value": 100, "preemptionPolicy": "Never"}),
    );
    api.create(classes, &json!({"metadata": {"name": "low"}, "value": -5}));
    let claim = |name: &str, class: &str, volume: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class, "volumeName": volume,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
    };
    let moon = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["moon"]});
    api.create("/api/v1/persistentvolumes", &json!({
        "metadata": {"name": "far"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "hostPath": {"path": "/far"}, "claimRef": {"namespace": "default", "name": "far"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [moon]}]}},
        },
    }));
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    api.create(claims, &claim("far", "by-hand", "far"));
    api.create(claims, &claim("unbound", "nobodys", ""));
    api.await_value(&format!("{claims}/far"), "/status/phase", &json!("Bound"));
    for node in ["plain-0", "plain-1"] {
        let away = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"noisy": "yes"}}}]);
        let spec = json!({
            "nodeName": node,
            "containers": [{
                "name": "c", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}],
                "resources": {"requests": {"cpu": "2"}},
            }],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": away}},
        });
        let there = json!({"metadata": {"name": format!("there-{node}"), "labels": {"app": "there"}}, "spec": spec});
        until("the pod to be taken", || {
            api.send("POST", PODS, &there).is_ok()
        });
        let path = format!("{PODS}/there-{node}");
        api.await_value(&path, "/status/phase", &json!("Running"));
    }
}

/// What is asked of the schedulers, by name: parts of a pod.
fn cases() -> Vec<(&'static str, Value)> {
    let asking = |requests: Value| json!({"spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": requests}}]}});
    let spec = |spec: Value| json!({"spec": spec});
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    let near = |labels: Value| {
        required(
            json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]),
        )
    };
    let naming = |node: &str| {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let terms = required(json!({"nodeSelectorTerms": [{"matchFields": [field]}]}));
        json!({"spec": {
            "affinity": {"nodeAffinity": terms},
            "containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100"}}}],
        }})
    };
    let labelled = json!([{"key": "rack", "operator": "Exists"}]);
    let labelled = required(json!({"nodeSelectorTerms": [{"matchExpressions": labelled}]}));
    let spread = |key: &str| {
        json!({"spec": {"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "there"}},
        }]}})
    };
    let mounting = |claim: &str| {
        spec(json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
    };
    let ephemeral =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let ephemeral =
        json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": ephemeral}}}]);
    let port =
        json!({"name": "c", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}]});
    vec![
        ("too-much-cpu", asking(json!({"cpu": "100"}))),
        ("no-room-now", asking(json!({"cpu": "3"}))),
        (
            "too-much-of-all",
            asking(json!({"cpu": "100", "memory": "999Gi"})),
        ),
        ("selector", spec(json!({"nodeSelector": {"rack": "7"}}))),
        (
            "selector-of-the-cordoned",
            spec(json!({"nodeSelector": {"special": "yes"}})),
        ),
        (
            "node-affinity",
            spec(json!({"affinity": {"nodeAffinity": labelled}})),
        ),
        ("names-a-node", naming("plain-1")),
        ("names-no-node", naming("plain-9")),
        ("host-port", spec(json!({"containers": [port]}))),
        (
            "near-nobody",
            spec(json!({"affinity": {"podAffinity": near(json!({"app": "nobody"}))}})),
        ),
        (
            "away-from-them",
            spec(json!({"affinity": {"podAntiAffinity": near(json!({"app": "there"}))}})),
        ),
        (
            "not-wanted-there",
            json!({"metadata": {"labels": {"noisy": "yes"}}}),
        ),
        ("spread-without-label", spread("rack")),
        ("claim-missing", mounting("nope")),
        ("claim-unbound", mounting("unbound")),
        ("claim-elsewhere", mounting("far")),
        ("claim-to-be-made", spec(json!({"volumes": ephemeral}))),
        (
            "never-preempts",
            merged(
                asking(json!({"cpu": "3"})),
                json!({"spec": {"priorityClassName": "polite"}}),
            ),
        ),
        (
            "unimportant",
            merged(
                asking(json!({"cpu": "3"})),
                json!({"spec": {"priorityClassName": "low"}}),
            ),
        ),
        (
            "tolerant",
            merged(
                asking(json!({"cpu": "100"})),
                json!({"spec": {"tolerations": [{"operator": "Exists"}]}}),
            ),
        ),
        (
            "gated",
            spec(json!({"schedulingGates": [{"name": "example.com/wait"}]})),
        ),
    ]
}

fn pod(name: &str, scheduler: &str, more: Value) -> Value {
    let plain = json!({
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "nginx"}]},
    });
    merged(plain, more)
}

fn merged(mut into: Value, more: Value) -> Value {
    match (&mut into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                let held = into.remove(&key).unwrap_or(Value::Null);
                into.insert(key, merged(held, value));
            }
        }
        (into, more) => *into = more,
    }
    into
}

/// Where the pod went, or why it went nowhere.
fn verdict(api: &Api, name: &str) -> String {
    let mut verdict = String::new();
    until(&format!("a verdict on {name}"), || {
        let pod = api.get(&format!("{PODS}/{name}"));
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            verdict = format!("on {node}");
        }
        let conditions = pod["status"]["conditions"].as_array();
        for one in conditions.into_iter().flatten() {
            if one["type"] == "PodScheduled" && verdict.is_empty() {
                verdict = format!("{}: {}", one["reason"], one["message"]);
            }
        }
        !verdict.is_empty()
    });
    verdict
}
