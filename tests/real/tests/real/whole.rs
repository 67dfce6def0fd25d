//! All controllers at once, on a cluster that uses every kind that they act upon: managers take each other's place, again
//! and again, while part of the cluster is under load. What rests stays as it is.
//!
//! Go's manager in the place of another of its kind gives the measure: what that writes, any may write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use real_tests::kubelet::{AutomaticKubelet, AutomaticScheduler, Ending, Heartbeats, Kubelet};
use real_tests::snapshot::{self, Snapshot};
use real_tests::wait::{self, Seen};
use real_tests::{
    Api, Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, audit, installation, manager,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// Nothing was written for so long: the cluster rests. Retries come sooner; what comes later comes by the clock.
const QUIET: Duration = Duration::from_secs(8);
/// A manager that writes for longer than this fights with something.
const REST_DEADLINE: Duration = Duration::from_secs(90);
const NODES: [&str; 3] = ["node-0", "node-1", "node-2"];
/// The namespace under load: what happens there is checked at the end.
const BUSY: &str = "busy";
const WHOLE: &str = "/api/v1/namespaces/whole";
const LOAD: &str = "/apis/apps/v1/namespaces/busy/deployments/load";

/// What is swapped in after Go's own baseline. More by `STEERSMAN_SWAPS=10`.
const SWAPS: usize = 4;

/// What kubeadm gives, and those that nobody has on by default.
const FLAGS: [&str; 3] = [
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.244.0.0/16",
    "--service-cluster-ip-range=10.0.0.0/16",
];
const CONTROLLERS: &str = "*,bootstrapsigner,tokencleaner,selinux-warning-controller";

/// What no controller keeps in a cache, and matters to those who walk through all kinds or allocate devices.
const OTHERS: [&str; 2] = ["customresourcedefinitions", "deviceclasses"];

#[test]
fn all_controllers_take_over_again_and_again_and_rewrite_nothing() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let swaps = std::env::var("STEERSMAN_SWAPS");
    let swaps = swaps.map_or(SWAPS, |count| {
        count.parse().expect("STEERSMAN_SWAPS is a number")
    });
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let options = ManagerOptions {
        controllers: vec![CONTROLLERS.to_owned()],
        use_service_account_credentials: true,
        flags: FLAGS.map(str::to_owned).to_vec(),
        ..ManagerOptions::default()
    };
    let manager = Manager::start_named(&cluster, Flavor::Go, "first", &options).unwrap();
    let _actors = build(&cluster);
    let load = Load::start(&cluster.api);
    let mut world = World {
        cluster: &cluster,
        options,
        log: audit::Reader::default(),
        running: Some(manager),
        count: 0,
    };
    world.rest();
    let kinds = Snapshot::take(&cluster.api).unwrap();
    // One of each must be there at rest, or the set exercises less than it says.
    let wanted = manager::cached().into_iter().chain(OTHERS);
    let missing: Vec<_> = wanted
        .filter(|kind| !kinds.kinds().contains(kind) && !snapshot::LEFT_OUT.contains(kind))
        .collect();
    assert_eq!(missing, [] as [&str; 0], "nothing is there of these kinds");

    let mut allowed = world.swap(Flavor::Go);
    allowed.extend(world.swap(Flavor::Go));
    for number in 0..swaps {
        let flavor = [Flavor::Ours, Flavor::Go][number % 2];
        let written = world.swap(flavor);
        let unmeant: Vec<String> = written
            .iter()
            .filter(|(what, _)| !allowed.contains_key(*what))
            .map(|(what, how)| format!("{what} {how}"))
            .collect();
        assert!(
            unmeant.is_empty(),
            "swap {number} to {} wrote what Go in the place of Go does not:\n{}",
            flavor.name(),
            unmeant.join("\n")
        );
    }
    load.stop();
    check_load(&cluster);
    world.running.take().map(Manager::stop).transpose().unwrap();
    let entries = audit::read(&cluster.audit_log()).unwrap();
    let by_manager: Vec<_> = entries
        .into_iter()
        .filter(audit::Entry::is_manager)
        .collect();
    let mut refused = audit::forbidden(&by_manager);
    // That is no lack of rights: nobody may create anything in a namespace that goes away.
    refused.retain(|line| !line.ends_with("because it is being terminated"));
    assert_eq!(refused, [] as [String; 0]);
}

struct World<'a> {
    cluster: &'a Cluster,
    options: ManagerOptions,
    log: audit::Reader,
    running: Option<Manager>,
    count: usize,
}

impl World<'_> {
    /// Another manager in the place of the one that runs. What was written until all rests again, outside of what is
    /// under load: objects that came, went or were rewritten, events, and requests, whether or not they changed something.
    fn swap(&mut self, flavor: Flavor) -> BTreeMap<String, String> {
        let api = &self.cluster.api;
        let objects = || Snapshot::take(api).unwrap().without_namespace(BUSY);
        let (before, told_before) = (objects(), snapshot::events(api, BUSY).unwrap());
        self.running.take().map(Manager::stop).transpose().unwrap();
        self.log.read_new(&self.cluster.audit_log()).unwrap();
        let name = format!("{}-{}", flavor.name(), self.count);
        self.count += 1;
        let manager = Manager::start_named(self.cluster, flavor, &name, &self.options);
        self.running = Some(manager.unwrap());
        let mut written = self.rest();
        for (path, how) in before.changes(&objects()) {
            written.insert(format!("object {path}"), how);
        }
        for (event, count) in snapshot::events(api, BUSY).unwrap() {
            let earlier = told_before.get(&event).copied().unwrap_or(0);
            if count > earlier {
                let how = format!("{count} times, {earlier} before");
                written.insert(format!("event {event}"), how);
            }
        }
        written
    }

    /// Waits until the manager works and has written nothing for a while where there is no load; what it wrote there.
    fn rest(&mut self) -> BTreeMap<String, String> {
        let (mut last, mut works) = (Instant::now(), false);
        let mut written = BTreeMap::new();
        wait::until("the cluster to rest", REST_DEADLINE, || {
            for entry in self.log.read_new(&self.cluster.audit_log())? {
                if !entry.is_manager() || !entry.is_write() {
                    continue;
                }
                works |= entry.namespace() == BUSY;
                if let Some(what) = request(&entry) {
                    written.insert(what, format!("({})", entry.code()));
                    last = Instant::now();
                }
            }
            Ok(match works && last.elapsed() >= QUIET {
                true => Seen::Ready(()),
                false => Seen::NotYet(format!("works: {works}, written: {written:?}")),
            })
        })
        .unwrap();
        self.running
            .as_mut()
            .map(Manager::check_alive)
            .transpose()
            .unwrap();
        written
    }
}

/// A request that may change an object outside of the load, without what tells one from another.
fn request(entry: &audit::Entry) -> Option<String> {
    let resource = entry.resource();
    // Reviews and tokens are questions; events are counted elsewhere.
    let asks = ["reviews", "leases", "events", "serviceaccounts/token"];
    // A namespace that is held is tried repeatedly; what comes of that is seen in the objects.
    let retried = entry.verb == "deletecollection";
    if retried || entry.namespace() == BUSY || asks.iter().any(|part| resource.contains(part)) {
        return None;
    }
    let verb = match entry.verb.as_str() {
        "update" | "patch" => "change",
        verb => verb,
    };
    let name = entry.object_ref.as_ref().map_or("", |object| &object.name);
    let who = entry.user.username.rsplit(':').next().unwrap_or("");
    Some(format!(
        "request {verb} {resource} {}/{name} by {who}",
        entry.namespace()
    ))
}

/// Those who act beside the managers, for as long as the test lasts.
struct Actors {
    _heartbeats: Heartbeats,
    _scheduler: AutomaticScheduler,
    _kubelets: [AutomaticKubelet; 2],
}

/// Creates all of it, and does what kubelets, drivers and users have to do until it can rest.
fn build(cluster: &Cluster) -> Actors {
    let api = &cluster.api;
    for name in NODES {
        create_node(api, name);
    }
    create(cluster, "kinds.yaml");
    let actors = Actors {
        _heartbeats: Heartbeats::start(api).unwrap(),
        // The last one has a taint that drives away who does not tolerate it.
        _scheduler: AutomaticScheduler::start(api, &NODES[..2]),
        _kubelets: ["whole", BUSY]
            .map(|namespace| AutomaticKubelet::start_with_addresses(api, namespace, 1)),
    };
    for namespace in ["whole", BUSY, "leaving"] {
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        until(api, &account, "/metadata/name", &json!("default"));
    }
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    wait::until("widgets to be served", PATIENCE, || {
        let conditions = api.get(definition)?["status"]["conditions"].to_string();
        Ok(
            match conditions.contains("\"Established\"") && api.get("/apis/example.com/v1").is_ok()
            {
                true => Seen::Ready(()),
                false => Seen::NotYet(conditions),
            },
        )
    })
    .unwrap();
    create(cluster, "objects.yaml");
    own_by_widget(api);
    act_as_storage(api);
    act_as_devices(api);
    run_workloads(api);
    api.delete("/api/v1/namespaces/leaving", &json!({}))
        .unwrap();
    // Held by who uses them.
    api.delete(&format!("{WHOLE}/persistentvolumeclaims/disk"), &json!({}))
        .unwrap();
    api.delete("/api/v1/persistentvolumes/db-0", &json!({}))
        .unwrap();
    api.delete(
        "/apis/storage.k8s.io/v1/volumeattributesclasses/leaving",
        &json!({}),
    )
    .unwrap();
    actors
}

fn create(cluster: &Cluster, file: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("whole")
        .join(file);
    let path = path.display().to_string();
    cluster.kubectl(&["create", "--filename", &path]).unwrap();
}

fn create_node(api: &Api, name: &str) {
    let node = json!({"metadata": {
        "name": name, "labels": {"alive": "true"},
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
    }});
    api.create("/api/v1/nodes", &node).unwrap();
    let path = format!("/api/v1/nodes/{name}");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    api.strategic_patch(&format!("{path}/status"), &ready)
        .unwrap();
    until(api, &path, "/spec/taints", &Value::Null);
    if name == "node-2" {
        let worn =
            json!({"spec": {"taints": [{"key": "example.com/worn", "effect": "NoExecute"}]}});
        api.merge_patch(&path, &worn).unwrap();
    }
}

fn own_by_widget(api: &Api) {
    let widget = api
        .get("/apis/example.com/v1/namespaces/whole/widgets/owner")
        .unwrap();
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": widget["metadata"]["uid"]});
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": [owner]}});
    api.create(&format!("{WHOLE}/configmaps"), &owned).unwrap();
}

/// What a CSI driver and a kubelet do for the pod that mounts a disk; and a user asks for more of another.
fn act_as_storage(api: &Api) {
    for claim in ["disk", "grows", "data-db-0", "data-db-1", "scratch-data"] {
        let claim = format!("{WHOLE}/persistentvolumeclaims/{claim}");
        until(api, &claim, "/status/phase", &json!("Bound"));
    }
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let name = wait::until("an attachment", PATIENCE, || {
        let all = api.list(attachments)?;
        let name = all.first().and_then(|one| one["metadata"]["name"].as_str());
        Ok(match name {
            Some(name) => Seen::Ready(name.to_owned()),
            None => Seen::NotYet("there is none".to_owned()),
        })
    })
    .unwrap();
    let attached = json!({"status": {"attached": true}});
    api.merge_patch(&format!("{attachments}/{name}/status"), &attached)
        .unwrap();
    let volume = "kubernetes.io/csi/disk.example.com^disk";
    let attached = "/status/volumesAttached/0/name";
    until(api, "/api/v1/nodes/node-0", attached, &json!(volume));
    let in_use = json!({"status": {"volumesInUse": [volume]}});
    api.merge_patch("/api/v1/nodes/node-0/status", &in_use)
        .unwrap();
    let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    api.merge_patch(&format!("{WHOLE}/persistentvolumeclaims/grows"), &more)
        .unwrap();
}

/// What the scheduler does for a claim: a device that is worn, which the claim tolerates.
fn act_as_devices(api: &Api) {
    let pod = format!("{WHOLE}/pods/device");
    let claim = "/status/resourceClaimStatuses/0/resourceClaimName";
    let name = wait::until("a claim", PATIENCE, || {
        let pod = api.get(&pod)?;
        Ok(match pod.pointer(claim).and_then(Value::as_str) {
            Some(name) => Seen::Ready(name.to_owned()),
            None => Seen::NotYet(pod["status"].to_string()),
        })
    })
    .unwrap();
    let tolerations =
        json!([{"key": "example.com/worn", "operator": "Exists", "effect": "NoExecute"}]);
    let device = json!({"request": "r", "driver": "gpu.example.com", "pool": "gpus", "device": "gpu-0", "tolerations": tolerations});
    let uid = api.get(&pod).unwrap()["metadata"]["uid"].take();
    let user = json!({"resource": "pods", "name": "device", "uid": uid});
    let status = json!({"status": {"allocation": {"devices": {"results": [device]}}, "reservedFor": [user]}});
    let claim = format!("/apis/resource.k8s.io/v1/namespaces/whole/resourceclaims/{name}");
    api.merge_patch(&format!("{claim}/status"), &status)
        .unwrap();
}

/// A rollout, a Job that is done and one that is under way.
fn run_workloads(api: &Api) {
    let apps = "/apis/apps/v1/namespaces/whole";
    let web = format!("{apps}/deployments/web");
    until(api, &web, "/status/readyReplicas", &json!(3));
    let image = json!([{"name": "main", "image": "example.invalid/web:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
    api.strategic_patch(&web, &patch).unwrap();
    until(api, &web, "/status/observedGeneration", &json!(2));
    until(api, &web, "/status/updatedReplicas", &json!(3));
    until(api, &web, "/status/replicas", &json!(3));
    until(api, &web, "/status/readyReplicas", &json!(3));
    until(
        api,
        &format!("{apps}/statefulsets/db"),
        "/status/readyReplicas",
        &json!(2),
    );
    until(
        api,
        &format!("{apps}/daemonsets/agent"),
        "/status/numberReady",
        &json!(3),
    );
    let kubelet = Kubelet::new(api, "whole");
    let jobs = "/apis/batch/v1/namespaces/whole/jobs";
    let first = "app=working,batch.kubernetes.io/job-completion-index=0";
    for (job, selector, ready, done) in [("done", "app=done", 1, 1), ("working", first, 2, 1)] {
        let path = format!("{jobs}/{job}");
        until(api, &path, "/status/ready", &json!(ready));
        for pod in kubelet.pods(selector).unwrap() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            kubelet
                .set_phase(name, "Succeeded", &Ending::default())
                .unwrap();
        }
        until(api, &path, "/status/succeeded", &json!(done));
    }
    until(api, &format!("{jobs}/working"), "/status/ready", &json!(2));
}

fn until(api: &Api, path: &str, pointer: &str, expected: &Value) {
    wait::until(path, PATIENCE, || {
        let object = api.get(path)?;
        let seen = object.pointer(pointer).cloned().unwrap_or(Value::Null);
        Ok(match seen == *expected {
            true => Seen::Ready(()),
            false => Seen::NotYet(format!("{pointer} is {seen} in {object}")),
        })
    })
    .unwrap();
}

/// A user who scales, rolls and deletes in a namespace of their own, whoever manages it at the moment.
struct Load {
    stopping: Arc<AtomicBool>,
    worker: JoinHandle<()>,
}

/// Between two things that the user does.
const ACT_EVERY: Duration = Duration::from_millis(1500);

impl Load {
    fn start(api: &Api) -> Load {
        let stopping = Arc::new(AtomicBool::new(false));
        let (api, told) = (api.clone(), Arc::clone(&stopping));
        let worker = std::thread::spawn(move || {
            for turn in 0_usize.. {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                act(&api, turn).expect("the user may do that");
                std::thread::sleep(ACT_EVERY);
            }
        });
        Load { stopping, worker }
    }

    fn stop(self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.worker.join().expect("the load ended well");
    }
}

fn act(api: &Api, turn: usize) -> anyhow::Result<()> {
    match turn % 3 {
        0 => {
            let replicas = [2, 5, 3, 4][turn / 3 % 4];
            let patch = json!({"spec": {"replicas": replicas}});
            api.merge_patch(LOAD, &patch).map(drop)
        }
        1 => {
            let pods = Kubelet::new(api, BUSY).pods("app=load")?;
            let name = pods
                .first()
                .and_then(|pod| pod["metadata"]["name"].as_str());
            let Some(name) = name else {
                return Ok(());
            };
            // It may have gone by itself in the meantime.
            let _ = api.delete(
                &format!("/api/v1/namespaces/{BUSY}/pods/{name}"),
                &json!({}),
            );
            Ok(())
        }
        _ => {
            let image = format!("example.invalid/load:{}", turn / 3 % 2);
            let containers = json!([{"name": "main", "image": image}]);
            let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            api.strategic_patch(LOAD, &patch).map(drop)
        }
    }
}

/// After all of it there is what was asked for, and each pod was told of once.
fn check_load(cluster: &Cluster) {
    let api = &cluster.api;
    api.merge_patch(LOAD, &json!({"spec": {"replicas": 3}}))
        .unwrap();
    wait::until("the load to end", PATIENCE, || {
        let load = api.get(LOAD)?;
        let status = &load["status"];
        let seen = status["observedGeneration"] == load["metadata"]["generation"];
        let counts = ["replicas", "updatedReplicas", "readyReplicas"];
        let pods = Kubelet::new(api, BUSY).pods("")?.len();
        Ok(
            match seen && pods == 3 && counts.iter().all(|count| status[*count] == 3) {
                true => Seen::Ready(()),
                false => Seen::NotYet(format!("{pods} pods, {status}")),
            },
        )
    })
    .unwrap();
    let mut told = BTreeSet::new();
    for event in api
        .list(&format!("/api/v1/namespaces/{BUSY}/events"))
        .unwrap()
    {
        let reason = event["reason"].as_str().unwrap_or("");
        if matches!(reason, "SuccessfulCreate" | "SuccessfulDelete") {
            let message = event["message"].as_str().unwrap_or("").to_owned();
            assert!(event["count"].as_u64().unwrap_or(1) <= 1, "twice: {event}");
            assert!(told.insert(message), "twice: {event}");
        }
    }
    assert!(told.len() > 10, "{} pods came and went", told.len());
}
