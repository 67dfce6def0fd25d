//! Servers that stop, crash and come back while a rollout is on its way; that forget their history, change
//! their certificates and refuse requests.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use real_tests::audit::{self, Level};
use real_tests::installation::Installation;
use real_tests::kubelet::AutomaticKubelet;
use real_tests::proxy::Proxy;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation, manager};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(180);
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: usize = 12;
const CONTROLLERS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

/// What befalls a rollout; it begins the rollout itself, at the worst moment.
type Fault = fn(&mut Bed, Rollout);
/// The number of a template.
type Rollout = usize;

/// Servers that go away: what a connection leads to is gone.
const SERVERS: [(&str, Fault); 4] = [
    ("kube-apiserver crashes", |bed, rollout| {
        bed.roll(rollout);
        bed.cluster.take_apiserver().unwrap().kill();
        bed.cluster.start_apiserver().unwrap();
    }),
    ("kube-apiserver is stopped", |bed, rollout| {
        bed.roll(rollout);
        bed.cluster.take_apiserver().unwrap().stop().unwrap();
        bed.cluster.start_apiserver().unwrap();
    }),
    ("etcd restarts", |bed, rollout| {
        bed.roll(rollout);
        bed.cluster.take_etcd().unwrap().stop().unwrap();
        bed.cluster.start_etcd().unwrap();
    }),
    ("kube-apiserver hangs", |bed, rollout| {
        bed.roll(rollout);
        let apiserver = bed.cluster.take_apiserver().unwrap();
        apiserver.signal("STOP").unwrap();
        std::thread::sleep(Duration::from_secs(3));
        apiserver.signal("CONT").unwrap();
        apiserver.kill();
        bed.cluster.start_apiserver().unwrap();
    }),
];

/// Servers that are there and do not do what they did before.
const TERMS: [(&str, Fault); 3] = [
    ("history is compacted while disconnected", compaction),
    ("certificates are rotated", rotation),
    ("the flow schema is tight", throttling),
];

#[test]
fn a_rollout_survives_servers_that_go_away_with_go() {
    rollout_survives(Flavor::Go, &SERVERS, false);
}

#[test]
fn a_rollout_survives_servers_that_go_away_with_ours() {
    rollout_survives(Flavor::Ours, &SERVERS, false);
}

#[test]
fn a_rollout_survives_compaction_rotation_and_throttling_with_go() {
    rollout_survives(Flavor::Go, &TERMS, true);
}

#[test]
fn a_rollout_survives_compaction_rotation_and_throttling_with_ours() {
    rollout_survives(Flavor::Ours, &TERMS, true);
}

/// What it is made of, in the order in which it ends.
struct Bed {
    _kubelet: AutomaticKubelet,
    manager: Manager,
    /// The manager's only way to the server, where a test is to cut it.
    proxy: Option<Proxy>,
    cluster: Cluster,
    /// Pods that the fault itself deleted: so many more are created.
    deleted: usize,
}

fn rollout_survives(flavor: Flavor, faults: &[(&str, Fault)], through_proxy: bool) {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let mut bed = Bed::start(&installation, flavor, through_proxy);
    bed.cluster.api.create(DEPLOYMENTS, &deployment()).unwrap();
    wait_complete(&bed.cluster);
    for (number, (what, fault)) in faults.iter().enumerate() {
        let template = number + 2;
        fault(&mut bed, template);
        let started = Instant::now();
        wait_complete(&bed.cluster);
        let took = started.elapsed().as_secs();
        installation::say(&format!(
            "{}: {took} s from the end of \"{what}\" to the end of the rollout",
            flavor.name()
        ));
        bed.manager.check_alive().unwrap();
        nothing_is_duplicated(&bed, what, template);
    }
}

/// The manager cannot connect while the objects it watches change, the server restarts and etcd forgets
/// what came before: where it left off is gone, and it has to list again.
fn compaction(bed: &mut Bed, rollout: Rollout) {
    let pods = "/api/v1/namespaces/default/pods";
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let before = bed.cluster.api.get(pods).unwrap();
    bed.roll(rollout);
    bed.proxy.as_ref().unwrap().cut();
    let mut log = audit::Reader::default();
    log.read_new(&bed.cluster.audit_log()).unwrap();
    let api = bed.cluster.api.clone();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let mark = json!({"metadata": {"labels": {"marked": "meanwhile"}}});
    for set in api.list(sets).unwrap() {
        api.merge_patch(&format!("{sets}/{}", name(&set)), &mark)
            .unwrap();
    }
    api.merge_patch(&format!("{DEPLOYMENTS}/web"), &mark)
        .unwrap();
    let now = json!({"gracePeriodSeconds": 0});
    let pod = name(&api.list(pods).unwrap()[0]);
    api.delete(&format!("{pods}/{pod}"), &now).unwrap();
    bed.deleted += 1;
    bed.cluster.take_apiserver().unwrap().kill();
    bed.cluster.compact().unwrap();
    bed.cluster.start_apiserver().unwrap();

    let version = before["metadata"]["resourceVersion"].as_str().unwrap();
    let resume = format!("{pods}?watch=true&resourceVersion={version}");
    let mut answer = Value::Null;
    api.watch(&resume, Duration::from_secs(10), |event| {
        answer = event["object"]["code"].clone();
        false
    })
    .unwrap();
    assert_eq!(answer, 410, "what a watch from before gets");
    bed.proxy.as_ref().unwrap().fix();
    for resource in ["pods", "replicasets", "deployments"] {
        wait_logged(bed, &mut log.clone(), "a new list", |entry| {
            let lists =
                entry.verb == "list" || entry.request_uri.contains("sendInitialEvents=true");
            lists && entry.resource() == resource && entry.code() == 200
        });
    }
}

/// The server shows another certificate to who connects, and so does the manager, without a restart.
fn rotation(bed: &mut Bed, rollout: Rollout) {
    let mut log = audit::Reader::default();
    let seen = log.read_new(&bed.cluster.audit_log()).unwrap();
    let seen: BTreeSet<String> = seen
        .iter()
        .filter_map(|entry| Some(entry.user.credential()?.to_owned()))
        .collect();
    bed.manager.rotate_certificate(&bed.cluster).unwrap();
    bed.cluster.rotate_serving_certificate().unwrap();
    bed.roll(rollout);
    // Certificates are shown at the start of a connection, and this one would live for hours.
    bed.proxy.as_ref().unwrap().cut();
    bed.proxy.as_ref().unwrap().fix();
    // Files are looked at now and then, and only by who has something to ask: annotations of a Deployment
    // are copied to its ReplicaSets.
    let mut asked = 0;
    wait::until("the new certificate", PATIENCE, || {
        asked += 1;
        let annotation = json!({"metadata": {"annotations": {"asked": asked.to_string()}}});
        let path = format!("{DEPLOYMENTS}/web");
        bed.cluster.api.merge_patch(&path, &annotation)?;
        logged(bed, &mut log, &|entry| {
            let credential = entry.user.credential();
            entry.code() < 300 && credential.is_some_and(|id| !seen.contains(id))
        })
    })
    .unwrap();
}

/// One request of the manager at a time; every other is refused with 429.
fn throttling(bed: &mut Bed, rollout: Rollout) {
    let base = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let level = json!({
        "metadata": {"name": "tight"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    });
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true});
    let schema = json!({
        "metadata": {"name": "tight"},
        "spec": {
            "priorityLevelConfiguration": {"name": "tight"},
            // Before every other but the one that exempts administrators.
            "matchingPrecedence": 2,
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": manager::USER}}],
                "resourceRules": [everything],
            }],
        },
    });
    let api = &bed.cluster.api;
    api.create(&format!("{base}/prioritylevelconfigurations"), &level)
        .unwrap();
    api.create(&format!("{base}/flowschemas"), &schema).unwrap();
    wait::until("the flow schema to be in force", PATIENCE, || {
        let schema = api.get(&format!("{base}/flowschemas/tight"))?;
        Ok(match schema["status"]["conditions"][0]["status"].as_str() {
            // The condition says whether the level is missing.
            Some("False") => Seen::Ready(()),
            _ => Seen::NotYet(schema["status"].to_string()),
        })
    })
    .unwrap();
    let mut log = audit::Reader::default();
    log.read_new(&bed.cluster.audit_log()).unwrap();
    bed.roll(rollout);
    wait_logged(bed, &mut log, "a refusal", |entry| entry.code() == 429);
}

impl Bed {
    fn start(installation: &Installation, flavor: Flavor, through_proxy: bool) -> Bed {
        let flags = [
            // How long it waits for open connections when it is stopped; a minute otherwise.
            "--request-timeout=10s",
            // So little that the smallest share of it is a single request.
            "--max-requests-inflight=20",
            "--max-mutating-requests-inflight=10",
        ];
        let options = ClusterOptions {
            audit: Level::Objects,
            apiserver_flags: flags.map(str::to_owned).to_vec(),
            ..ClusterOptions::default()
        };
        let cluster = Cluster::start(installation, options).unwrap();
        let account = json!({"metadata": {"name": "default"}});
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        cluster.api.create(accounts, &account).unwrap();
        let proxy = through_proxy.then(|| Proxy::start(cluster.address()).unwrap());
        let options = ManagerOptions {
            controllers: CONTROLLERS.map(str::to_owned).to_vec(),
            server: proxy.as_ref().map(Proxy::address),
            ..ManagerOptions::default()
        };
        Bed {
            manager: Manager::start(&cluster, flavor, &options).unwrap(),
            _kubelet: AutomaticKubelet::start(&cluster.api, "default", 2),
            proxy,
            cluster,
            deleted: 0,
        }
    }

    fn roll(&self, rollout: Rollout) {
        let image = format!("example.invalid/web:{rollout}");
        let containers = json!([{"name": "main", "image": image}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let path = format!("{DEPLOYMENTS}/web");
        self.cluster.api.merge_patch(&path, &patch).unwrap();
    }
}

/// Waits for an answered request of the manager in what the log has not given yet.
fn wait_logged(
    bed: &Bed,
    log: &mut audit::Reader,
    what: &str,
    fits: impl Fn(&audit::Entry) -> bool,
) {
    wait::until(what, PATIENCE, || logged(bed, log, &fits)).unwrap();
}

fn logged(
    bed: &Bed,
    log: &mut audit::Reader,
    fits: &dyn Fn(&audit::Entry) -> bool,
) -> anyhow::Result<Seen<()>> {
    let new = log.read_new(&bed.cluster.audit_log())?;
    let found = new.iter().any(|entry| entry.is_manager() && fits(entry));
    Ok(if found {
        Seen::Ready(())
    } else {
        Seen::NotYet("nothing like it in the audit log".to_owned())
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/web:1"}]},
            },
        },
    })
}

fn wait_complete(cluster: &Cluster) {
    wait::until("the rollout", PATIENCE, || {
        let object = cluster.api.get(&format!("{DEPLOYMENTS}/web"))?;
        let status = &object["status"];
        let counted = ["updatedReplicas", "availableReplicas", "replicas"]
            .map(|field| status[field].as_u64());
        let complete = status["observedGeneration"] == object["metadata"]["generation"]
            && counted.iter().all(|count| *count == Some(PODS as u64));
        Ok(if complete {
            Seen::Ready(())
        } else {
            Seen::NotYet(status.to_string())
        })
    })
    .unwrap();
}

/// One ReplicaSet per template, the wanted pods and no other, and no pod created beyond what the
/// rollouts needed, except for creations whose answer the fault swallowed.
fn nothing_is_duplicated(bed: &Bed, what: &str, templates: usize) {
    let cluster = &bed.cluster;
    let sets = cluster
        .api
        .list("/apis/apps/v1/namespaces/default/replicasets")
        .unwrap();
    assert_eq!(sets.len(), templates, "ReplicaSets after {what}");
    let pods = cluster.api.list("/api/v1/namespaces/default/pods").unwrap();
    assert_eq!(pods.len(), PODS, "pods after {what}");
    let created = audit::read(&cluster.audit_log()).unwrap();
    let created = created
        .iter()
        .filter(|entry| entry.verb == "create" && entry.resource() == "pods" && entry.code() == 201)
        .count();
    assert!(
        created <= templates * (PODS + 1) + bed.deleted,
        "{created} pods were created for {templates} templates after {what}"
    );
}
