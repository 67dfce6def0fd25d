//! What kubelets and the scheduler would do to pods, on a cluster that has neither.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::Api;

/// How a pod ended, besides its phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending<'a> {
    pub reason: &'a str,
    pub exit_code: Option<i32>,
    /// When the container ended, an RFC 3339 time.
    pub at: &'a str,
    /// A condition that is true from then on.
    pub condition: Option<&'a str>,
}

/// Asks for no more of an object than its metadata.
const METADATA_ALONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The address of every pod where it does not matter.
const ADDRESS: &str = "10.1.0.1";

/// Acts on the pods of one namespace.
#[derive(Clone)]
pub struct Kubelet {
    api: Api,
    namespace: String,
}

impl Kubelet {
    pub fn new(api: &Api, namespace: &str) -> Kubelet {
        Kubelet {
            api: api.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// The pods that match a label selector, oldest first and then by name.
    pub fn pods(&self, selector: &str) -> Result<Vec<Value>> {
        let selector = selector.replace('=', "%3D").replace(',', "%2C");
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector={selector}",
            self.namespace
        );
        let mut pods = self.api.list(&path)?;
        pods.sort_by_key(|pod| {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or("").to_owned();
            (text("creationTimestamp"), text("name"))
        });
        Ok(pods)
    }

    /// Binds a pod to a node, as the scheduler would.
    pub fn bind(&self, pod: &str, node: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.api
            .create(&format!("{}/binding", self.path(pod)), &binding)
            .map(drop)
    }

    /// Running and ready (or not) since `since`, an RFC 3339 time.
    pub fn set_ready(&self, pod: &str, ready: bool, since: &str) -> Result<()> {
        self.patch_status(pod, &running_status(ready, since, ADDRESS))
    }

    /// A pod of which nothing was said before is running and ready. There is nothing to merge in it, and nobody reads
    /// the answer: both is cheaper for the API server.
    fn set_first_ready(&self, pod: &str, since: &str, address: &str) -> Result<()> {
        let path = format!("{}/status", self.path(pod));
        let status = json!({"status": running_status(true, since, address)});
        let headers = [
            ("Accept", METADATA_ALONE),
            ("Content-Type", "application/merge-patch+json"),
        ];
        let body = serde_json::to_vec(&status)?;
        let answer = self.api.send_with("PATCH", &path, &headers, &body)?;
        ensure!(
            answer.status == 200,
            "PATCH {path} answered {}",
            answer.status
        );
        Ok(())
    }

    /// A terminal phase: `Succeeded` or `Failed`.
    pub fn set_phase(&self, pod: &str, phase: &str, ending: &Ending<'_>) -> Result<()> {
        let mut conditions =
            vec![json!({"type": "Ready", "status": "False", "reason": format!("Pod{phase}")})];
        if let Some(condition) = ending.condition {
            conditions.push(json!({"type": condition, "status": "True"}));
        }
        let mut status = json!({"phase": phase, "conditions": conditions});
        if !ending.reason.is_empty() {
            status["reason"] = json!(ending.reason);
        }
        if let Some(code) = ending.exit_code {
            let ended = json!({"exitCode": code, "finishedAt": ending.at});
            status["containerStatuses"] = json!([{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": ended},
            }]);
        }
        self.patch_status(pod, &status)
    }

    /// What a drain asks for. A budget may say no, which is an answer too.
    pub fn evict(&self, pod: &str) -> Result<()> {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        let path = format!("{}/eviction", self.path(pod));
        let answer = self.api.send(
            "POST",
            &path,
            "application/json",
            eviction.to_string().as_bytes(),
        )?;
        match answer.status {
            201 | 429 => Ok(()),
            code => bail!("the eviction of {pod} was answered with {code}"),
        }
    }

    /// The last act of a kubelet: the pod has ended and its object may go.
    pub fn finish(&self, pod: &str) -> Result<()> {
        self.api
            .delete(&self.path(pod), &json!({"gracePeriodSeconds": 0}))
    }

    /// Finishes every pod that is being deleted; returns how many there were.
    pub fn finish_terminating(&self) -> Result<usize> {
        let pods = self.pods("")?;
        let terminating = pods
            .iter()
            .filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        let names: Vec<&str> = terminating
            .filter_map(|pod| pod["metadata"]["name"].as_str())
            .collect();
        for name in &names {
            self.finish(name)?;
        }
        Ok(names.len())
    }

    fn patch_status(&self, pod: &str, status: &Value) -> Result<()> {
        let path = format!("{}/status", self.path(pod));
        self.api
            .strategic_patch(&path, &json!({"status": status}))
            .map(drop)
    }

    fn path(&self, pod: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{pod}", self.namespace)
    }
}

fn running_status(ready: bool, since: &str, address: &str) -> Value {
    let (ready, reason) = if ready {
        ("True", "")
    } else {
        ("False", "ContainersNotReady")
    };
    let condition = |kind: &str, status: &str, reason: &str| {
        let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
        if !reason.is_empty() {
            condition["reason"] = json!(reason);
        }
        condition
    };
    json!({
        "phase": "Running", "startTime": since, "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [
            condition("PodScheduled", "True", ""),
            condition("Initialized", "True", ""),
            condition("ContainersReady", ready, reason),
            condition("Ready", ready, reason),
        ],
    })
}

/// An address of 10.0.0.0/8 by the first bytes of a uid: thousands of pods rarely share one.
fn address_of(uid: &str) -> String {
    let bytes: Vec<u8> = (0..3)
        .map(|index| {
            let digits = uid.get(index * 2..index * 2 + 2).unwrap_or_default();
            u8::from_str_radix(digits, 16).unwrap_or(1)
        })
        .collect();
    format!("10.{}.{}.{}", bytes[0], bytes[1], bytes[2])
}

/// A kubelet that runs by itself: makes every pod of a namespace ready and finishes what terminates.
pub struct AutomaticKubelet {
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// How many pods may wait for a worker before the watch does.
const BACKLOG: usize = 1000;

impl AutomaticKubelet {
    /// `workers` bound how many status patches are in flight; pods are shared out by their uid.
    pub fn start(api: &Api, namespace: &str, workers: usize) -> AutomaticKubelet {
        AutomaticKubelet::with(api, namespace, workers, |_| ADDRESS.to_owned())
    }

    /// As `start`, with an address for each pod of its own.
    pub fn start_with_addresses(api: &Api, namespace: &str, workers: usize) -> AutomaticKubelet {
        AutomaticKubelet::with(api, namespace, workers, address_of)
    }

    fn with(
        api: &Api,
        namespace: &str,
        workers: usize,
        address: fn(&str) -> String,
    ) -> AutomaticKubelet {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut watch = PodWatch {
            api: api.clone(),
            namespace: namespace.to_owned(),
            stopping: Arc::clone(&stopping),
            failed: Arc::default(),
            address,
            workers: Vec::new(),
            handled: BTreeMap::new(),
            revision: String::new(),
        };
        let mut threads = Vec::new();
        for _ in 0..workers {
            let (sender, chores) = sync_channel::<Chore>(BACKLOG);
            let (kubelet, failed) = (Kubelet::new(api, namespace), Arc::clone(&watch.failed));
            watch.workers.push(sender);
            threads.push(std::thread::spawn(move || {
                for chore in chores {
                    if chore.carry_out(&kubelet).is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            }));
        }
        // It owns what the workers wait for: they end after it.
        threads.push(std::thread::spawn(move || watch.run()));
        AutomaticKubelet { stopping, threads }
    }
}

impl Drop for AutomaticKubelet {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What is to be done to one pod.
enum Chore {
    MakeReady {
        pod: String,
        since: String,
        address: String,
    },
    Finish {
        pod: String,
    },
}

impl Chore {
    fn carry_out(&self, kubelet: &Kubelet) -> Result<()> {
        match self {
            Chore::MakeReady {
                pod,
                since,
                address,
            } => kubelet.set_first_ready(pod, since, address),
            Chore::Finish { pod } => kubelet.finish(pod),
        }
    }
}

/// What a kubelet reads of a pod.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WatchedPod {
    metadata: WatchedMetadata,
    status: WatchedStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WatchedMetadata {
    name: String,
    uid: String,
    resource_version: String,
    creation_timestamp: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WatchedStatus {
    phase: String,
}

#[derive(Deserialize)]
struct PodEvent {
    r#type: String,
    object: WatchedPod,
}

/// Tells the workers what to do, by what the API server says of pods.
struct PodWatch {
    api: Api,
    namespace: String,
    stopping: Arc<AtomicBool>,
    /// A chore was refused: all pods have to be looked at again.
    failed: Arc<AtomicBool>,
    /// By the uid of a pod.
    address: fn(&str) -> String,
    workers: Vec<SyncSender<Chore>>,
    /// By uid, whether it was told to finish.
    handled: BTreeMap<String, bool>,
    revision: String,
}

impl PodWatch {
    fn run(mut self) {
        while !self.stopping.load(Ordering::Relaxed) {
            let ended_well = self.watch().is_ok();
            if self.failed.swap(false, Ordering::Relaxed) || !ended_well {
                // A server that restarts, or one that has forgotten where we were.
                self.revision.clear();
                self.handled.clear();
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn watch(&mut self) -> Result<()> {
        let path = format!(
            "/api/v1/namespaces/{}/pods?watch=true&resourceVersion={}",
            self.namespace, self.revision
        );
        let mut failure = None;
        self.api
            .clone()
            .watch_lines(&path, Duration::from_secs(1), |line| {
                failure = self.see(line).err();
                failure.is_none() && !self.stopping.load(Ordering::Relaxed)
            })?;
        failure.map_or(Ok(()), Err)
    }

    fn see(&mut self, line: &[u8]) -> Result<()> {
        let PodEvent { r#type, object } = serde_json::from_slice(line)?;
        let WatchedPod { metadata, status } = object;
        ensure!(r#type != "ERROR", "the watch ended with an error");
        self.revision = metadata.resource_version;
        let known = self.handled.get(&metadata.uid).copied();
        let finish = metadata.deletion_timestamp.is_some();
        let pod = metadata.name;
        let chore = if r#type == "DELETED" {
            self.handled.remove(&metadata.uid);
            return Ok(());
        } else if finish && known != Some(true) {
            Chore::Finish { pod }
        } else if !finish && known.is_none() && status.phase == "Pending" {
            Chore::MakeReady {
                pod,
                since: metadata.creation_timestamp,
                address: (self.address)(&metadata.uid),
            }
        } else {
            return Ok(());
        };
        let share = metadata.uid.bytes().map(usize::from).sum::<usize>() % self.workers.len();
        self.workers[share].send(chore)?;
        self.handled.insert(metadata.uid, finish);
        Ok(())
    }
}

/// A scheduler that runs by itself: binds every pod that has no node, a DaemonSet's to the one that it is for, others to
/// one of `nodes` by their uid. It looks at no resources, taints or volumes.
pub struct AutomaticScheduler {
    stopping: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

/// Between two looks at what waits.
const BIND_EVERY: Duration = Duration::from_millis(200);

impl AutomaticScheduler {
    pub fn start(api: &Api, nodes: &[&str]) -> AutomaticScheduler {
        let stopping = Arc::new(AtomicBool::new(false));
        let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        let (api, told) = (api.clone(), Arc::clone(&stopping));
        let worker = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                // A server that is busy is asked again.
                let _ = bind_all(&api, &nodes);
                std::thread::sleep(BIND_EVERY);
            }
        });
        AutomaticScheduler {
            stopping,
            worker: Some(worker),
        }
    }
}

impl Drop for AutomaticScheduler {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn bind_all(api: &Api, nodes: &[String]) -> Result<()> {
    for pod in api.list("/api/v1/pods?fieldSelector=spec.nodeName%3D")? {
        let metadata = &pod["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or("");
        if !metadata["deletionTimestamp"].is_null() {
            continue;
        }
        let share = text("uid").bytes().map(usize::from).sum::<usize>() % nodes.len();
        let node = target_node(&pod).unwrap_or(&nodes[share]);
        // One that is gone by now is nobody's.
        let _ = Kubelet::new(api, text("namespace")).bind(text("name"), node);
    }
    Ok(())
}

/// Which node the pod of a DaemonSet is for.
pub(crate) fn target_node(pod: &Value) -> Option<&str> {
    const TARGET: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
         /nodeSelectorTerms/0/matchFields/0/values/0";
    pod.pointer(TARGET)?.as_str()
}

/// Kubelets' signs of life: renews the leases of all nodes with the label `alive=true`.
pub struct Heartbeats {
    stopping: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

/// Well within the grace period that scenarios give.
const RENEW_EVERY: Duration = Duration::from_secs(1);

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

impl Heartbeats {
    /// Also makes a node that is always there: where no node at all is ready, nobody is driven away.
    pub fn start(api: &Api) -> Result<Heartbeats> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "steady", "labels": {"alive": "true"}},
        });
        api.create("/api/v1/nodes", &node)?;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        api.strategic_patch("/api/v1/nodes/steady/status", &ready)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (api, told) = (api.clone(), Arc::clone(&stopping));
        let worker = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                // A server that is busy is asked again.
                let _ = renew_all(&api);
                std::thread::sleep(RENEW_EVERY);
            }
        });
        Ok(Heartbeats {
            stopping,
            worker: Some(worker),
        })
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn renew_all(api: &Api) -> Result<()> {
    for node in api.list("/api/v1/nodes?labelSelector=alive%3Dtrue")? {
        let name = node["metadata"]["name"].as_str().unwrap_or("");
        let path = format!("{LEASES}/{name}");
        let found = api.find(&path)?;
        // What counts is that it is another time than before; who reads it goes by a clock of their own.
        let renewals = found.as_ref().map_or(0, |lease| {
            lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0) + 1
        });
        let (minutes, seconds) = (renewals / 60 % 60, renewals % 60);
        let hours = renewals / 3600;
        let spec = json!({
            "holderIdentity": name, "leaseDurationSeconds": 40, "leaseTransitions": renewals,
            "renewTime": format!("2026-01-01T{hours:02}:{minutes:02}:{seconds:02}.000000Z"),
        });
        match found {
            Some(_) => api.merge_patch(&path, &json!({"spec": spec}))?,
            None => api.create(LEASES, &json!({"metadata": {"name": name}, "spec": spec}))?,
        };
    }
    Ok(())
}
