//! A node and its kubelet's signs of life: registration, conditions, lease.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::CONTROLLER_MANAGED_ATTACH;
use api::taints::{Taint, TaintEffect};
use api::{Clock, Istr, Key, MicroTime, Resource, ResourceType, Uid};
use bytes::Bytes;
use client::{Client, DeleteOptions, Patch};
use runtime::controller::Controller;
use runtime::{
    Change, Error, EventType, Informers, Next, ObjectRef, Queue, Reconcile, Recorder, Report, Store,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::take_over::{Shares, addresses};
use super::volumes::Volumes;
use super::{RETRY, is_served};
use crate::behaviour::NODE_GONE;
use crate::config::{Config, NodeConfig};
use crate::identity::NodeClients;
use crate::node::Node;
use crate::pod::Pod;
use crate::storage::{PersistentVolume, PersistentVolumeClaim};

const LEASES: ResourceType =
    ResourceType::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// UPSTREAM: a lease lasts 40 s and is renewed four times as often.
const LEASE_SECONDS: i64 = 40;
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// UPSTREAM: a status that did not change is still reported every five minutes.
const REPORT_EVERY: Duration = Duration::from_secs(300);

/// A kubelet that waits for its certificate looks this often whether it is there.
pub(crate) const CERTIFICATE_AWAITED: Duration = Duration::from_secs(1);

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// What the nodes say they run. The version is that of the API we speak.
const KUBELET_VERSION: &str = "v1.36.3";

/// Plays what kubelets do for their nodes.
pub(crate) struct NodeLife {
    clients: Arc<NodeClients>,
    clock: Clock,
    recorder: Recorder,
    nodes: Arc<Store<Node>>,
    volumes: Option<Arc<Volumes>>,
    shares: Shares,
    signs: Mutex<BTreeMap<Key, Signs>>,
}

/// When a node was last heard of, by our own doing.
#[derive(Clone, Default)]
struct Signs {
    renewed_at: Option<MicroTime>,
    reported_at: Option<MicroTime>,
    has_lease: bool,
}

/// What a node says every ten seconds: the most frequent write of all.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec<'a> {
    holder_identity: &'a str,
    lease_duration_seconds: i64,
    renew_time: MicroTime,
}

#[derive(Serialize)]
struct LeasePatch<'a> {
    spec: &'a LeaseSpec<'a>,
}

#[derive(Serialize)]
struct StatusPatch {
    status: serde_json::Map<String, Value>,
}

impl NodeLife {
    pub(crate) fn controller(
        clients: Arc<NodeClients>,
        clock: Clock,
        recorder: Recorder,
        config: &Config,
        volumes: Option<Arc<Volumes>>,
        informers: &Informers,
    ) -> Controller {
        let nodes = informers.of::<Node>();
        let queue = Arc::new(Queue::new(RETRY));
        let life = Arc::new(NodeLife {
            clients,
            clock,
            recorder,
            nodes: nodes.store().clone(),
            volumes: volumes.clone(),
            shares: Shares::new(config),
            signs: Mutex::default(),
        });
        let (told, woken) = (life.clone(), queue.clone());
        nodes.on_change(move |change| {
            let key = change.object().key();
            match change {
                Change::Deleted(_) => told.set_signs(&key, None),
                _ => woken.add(key),
            }
        });
        let mut waits_for = vec![nodes.synced()];
        if let Some(volumes) = volumes {
            let pods = informers.of::<Pod>();
            let claims = informers.of::<PersistentVolumeClaim>();
            let made = informers.of::<PersistentVolume>();
            waits_for.extend([pods.synced(), claims.synced(), made.synced()]);
            let woken = queue.clone();
            pods.on_change(move |change| {
                let pod = change.object();
                if pod.is_assigned() && !pod.claims.is_empty() {
                    woken.add(Key::new("", &pod.node_name));
                }
            });
            let woken = queue.clone();
            claims.on_change(move |change| {
                let users = volumes.users(change.object());
                let nodes = users.iter().map(|pod| Key::new("", &pod.node_name));
                nodes.for_each(|node| woken.add(node));
            });
        }
        let clock = life.clock.clone();
        Controller {
            workers: 4,
            waits_for,
            ..Controller::plain("simulated-nodes", queue, life, clock)
        }
    }

    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        let Some(node) = self.nodes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        if node.metadata.annotation(NODE_GONE) == Some("true") {
            return Box::pin(self.remove(&node)).await;
        }
        if !is_served(&node) {
            return Ok(Next::AwaitChange);
        }
        let Some(client) = self.clients.of(node.name()) else {
            return Ok(Next::After(CERTIFICATE_AWAITED));
        };
        let now = self.clock.now();
        let mut signs = self.signs(key);
        let is_over = |at: Option<MicroTime>, every| at.is_none_or(|at| now.since(at) >= every);
        let is_ready = api::conditions::is_true(&node.status.conditions, "Ready");
        let is_foreign = node.status.addresses.is_empty();
        if is_foreign {
            Box::pin(self.take_over(&node)).await?;
        }
        if !is_ready || is_foreign || is_over(signs.reported_at, REPORT_EVERY) {
            // A restart need not report what is there already: the lease says that we live.
            if !is_ready || is_foreign || signs.reported_at.is_some() {
                // Boxed, as is all that is rare: what a look needs for a moment would make each of them large.
                Box::pin(self.report(&client, &node, is_ready, now)).await?;
            }
            signs.reported_at = Some(now);
        }
        if let Some(volumes) = &self.volumes
            && node.is_attach_managed()
        {
            let used = volumes.in_use(&node);
            if used != node.status.volumes_in_use {
                Box::pin(self.report_volumes(&client, &node, &used)).await?;
            }
        }
        if is_ready && !node.spec.taints.is_empty() {
            Box::pin(self.untaint(&node)).await?;
        }
        if is_over(signs.renewed_at, RENEW_EVERY) {
            self.renew(&client, &node, signs.has_lease, now).await?;
            signs.has_lease = true;
            signs.renewed_at = Some(now);
        }
        let due = signs.renewed_at.unwrap_or(now).plus(RENEW_EVERY);
        self.set_signs(key, Some(signs));
        Ok(Next::After(due.since(now).max(Duration::from_millis(1))))
    }

    /// Completes a Node that somebody else has created. Its range of addresses is not its own to write.
    async fn take_over(&self, node: &Node) -> Result<(), Error> {
        let annotations = match self.volumes {
            Some(_) => json!({CONTROLLER_MANAGED_ATTACH: "true"}),
            None => json!({}),
        };
        let patch = self.shares.claim(node, &self.nodes.list(), &annotations);
        let shared = self.clients.shared();
        match shared
            .patch(&Node::TYPE, "", node.name(), None, &patch)
            .await
        {
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Takes away the taint that every node is born with, which a node may not do itself. The node-lifecycle controller does so as well where
    /// it runs; whoever comes first, the other finds nothing left to do.
    async fn untaint(&self, node: &Node) -> Result<(), Error> {
        let born_with = Taint::new(NOT_READY, "", TaintEffect::NoSchedule);
        let mut taints = node.spec.taints.clone();
        taints.retain(|taint| !taint.is_same(&born_with));
        if taints.len() == node.spec.taints.len() {
            return Ok(());
        }
        let body = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version.to_string()},
            "spec": {"taints": taints},
        });
        let patch = Patch::Merge(Bytes::from(body.to_string()));
        match self
            .clients
            .shared()
            .patch(&Node::TYPE, "", node.name(), None, &patch)
            .await
        {
            // Changed meanwhile: the next look is about to come.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Writes the conditions, and all else that a kubelet says about its node.
    async fn report(
        &self,
        client: &Client,
        node: &Node,
        was_ready: bool,
        now: MicroTime,
    ) -> Result<(), Error> {
        let mut conditions = conditions(now);
        for condition in &mut conditions {
            let held = api::conditions::find(
                &node.status.conditions,
                condition["type"].as_str().unwrap_or_default(),
            );
            // The transition time stays while the status does.
            if let Some(held) = held
                && condition["status"] == held.status.as_str()
                && let Some(since) = held.last_transition_time
            {
                condition["lastTransitionTime"] = json!(since);
            }
        }
        // Moved and not copied into each other.
        let mut status = serde_json::Map::new();
        status.insert("conditions".into(), Value::Array(conditions));
        status.insert("nodeInfo".into(), node_info(node.name()));
        if node.status.addresses.is_empty() {
            let addresses = self.shares.addresses(node, &self.nodes.list());
            status.insert("addresses".into(), addresses);
        }
        if node.status.allocatable.pods == 0 {
            let capacity = NodeConfig::default_capacity();
            status.insert("capacity".into(), json!(capacity));
            status.insert("allocatable".into(), json!(capacity));
        }
        let body = serde_json::to_vec(&StatusPatch { status }).unwrap_or_default();
        let patch = Patch::Strategic(Bytes::from(body));
        let answer = client
            .patch(&Node::TYPE, "", node.name(), Some("status"), &patch)
            .await;
        match answer {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if !was_ready {
            let message = format!("Node {} status is now: NodeReady", node.name());
            let own = self.clients.recorder_of(node.name());
            own.as_ref().unwrap_or(&self.recorder).event(
                &ObjectRef::of(node),
                EventType::Normal,
                "NodeReady",
                message,
            );
        }
        Ok(())
    }

    /// Says which volumes are mounted, or about to be.
    async fn report_volumes(
        &self,
        client: &Client,
        node: &Node,
        used: &[Istr],
    ) -> Result<(), Error> {
        let used = (!used.is_empty()).then_some(used);
        let body =
            json!({"metadata": {"uid": node.metadata.uid}, "status": {"volumesInUse": used}});
        let patch = Patch::Merge(Bytes::from(body.to_string()));
        let told = client
            .patch(&Node::TYPE, "", node.name(), Some("status"), &patch)
            .await;
        match told {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    async fn renew(
        &self,
        client: &Client,
        node: &Node,
        has_lease: bool,
        now: MicroTime,
    ) -> Result<(), Error> {
        let name = node.name();
        let spec = LeaseSpec {
            holder_identity: name,
            lease_duration_seconds: LEASE_SECONDS,
            renew_time: now,
        };
        if has_lease && self.patch_lease(client, name, &spec).await? {
            return Ok(());
        }
        Box::pin(self.make_lease(client, node, &spec)).await
    }

    async fn make_lease(
        &self,
        client: &Client,
        node: &Node,
        spec: &LeaseSpec<'_>,
    ) -> Result<(), Error> {
        let name = node.name();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
                ],
            },
            "spec": spec,
        });
        match client
            .create(&LEASES, LEASE_NAMESPACE, lease.to_string())
            .await
        {
            Err(error) if error.is_already_exists() => {
                self.patch_lease(client, name, spec).await?;
                Ok(())
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Is there such a lease? If so, it is renewed.
    async fn patch_lease(
        &self,
        client: &Client,
        name: &str,
        spec: &LeaseSpec<'_>,
    ) -> Result<bool, Error> {
        let patch = serde_json::to_vec(&LeasePatch { spec }).unwrap_or_default();
        let patch = Patch::Merge(Bytes::from(patch));
        match client
            .patch(&LEASES, LEASE_NAMESPACE, name, None, &patch)
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The machine is gone: what a cloud's node controller does then.
    async fn remove(&self, node: &Node) -> Result<Next, Error> {
        let options = DeleteOptions::exactly(&node.metadata.uid);
        let deleted = self
            .clients
            .shared()
            .delete(&Node::TYPE, "", node.name(), &options)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(Next::AwaitChange),
        }
    }

    fn signs(&self, key: &Key) -> Signs {
        let held = self.signs.lock();
        held.get(key).cloned().unwrap_or_default()
    }

    fn set_signs(&self, key: &Key, signs: Option<Signs>) {
        let mut held = self.signs.lock();
        match signs {
            Some(signs) => held.insert(key.clone(), signs),
            None => held.remove(key),
        };
    }
}

impl Reconcile for NodeLife {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.sync(key).await
    }
}

/// Creates the Node object, ready from the start, as a kubelet registers itself.
pub(crate) async fn register(
    client: &Client,
    recorder: &Recorder,
    config: &NodeConfig,
    has_driver: bool,
    now: MicroTime,
) -> Result<(), client::Error> {
    let labels: BTreeMap<Istr, Istr> = config.labels.clone();
    let mut annotations = config.annotations.clone();
    if has_driver {
        let managed = (CONTROLLER_MANAGED_ATTACH.into(), "true".into());
        annotations.extend([managed]);
    }
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": config.name, "labels": labels, "annotations": annotations},
        "spec": {
            "podCIDR": config.pod_cidr,
            "podCIDRs": config.pod_cidr.iter().collect::<Vec<_>>(),
            "taints": config.taints,
        },
        "status": {
            "capacity": config.capacity,
            "allocatable": config.capacity,
            "conditions": conditions(now),
            "addresses": addresses(&config.name, &config.address),
            "nodeInfo": node_info(&config.name),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    });
    let answer = match client.create(&Node::TYPE, "", object.to_string()).await {
        Err(error) if error.is_already_exists() => return Ok(()),
        other => other?,
    };
    let made = Node::decode(&answer).unwrap_or_default();
    if made.status.addresses.is_empty() || made.status.allocatable.pods == 0 {
        // A server that keeps no status on create gets it now.
        let patch = json!({"status": object["status"]}).to_string();
        let patch = Patch::Strategic(Bytes::from(patch));
        client
            .patch(&Node::TYPE, "", &config.name, Some("status"), &patch)
            .await?;
    }
    let object = ObjectRef::named(&Node::TYPE, "", &config.name, made.metadata.uid);
    recorder.event(&object, EventType::Normal, "Starting", "Starting kubelet.");
    Ok(())
}

fn conditions(now: MicroTime) -> Vec<Value> {
    let now = now.time();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    vec![
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        condition(
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        ),
    ]
}

/// Stable ids, so that a restart reports the same machine.
fn node_info(name: &str) -> Value {
    let mut hash = api::hash::Fnv32a::new();
    hash.write(name.as_bytes());
    let bits = u128::from(hash.finish());
    let machine = Uid::from_random(bits << 96 | bits << 48 | bits);
    json!({
        "machineID": machine.to_string().replace('-', ""),
        "systemUUID": machine,
        "bootID": machine,
        "kernelVersion": "6.12.0-simulated",
        "osImage": "Simulated by Steersman",
        "containerRuntimeVersion": "simulated://1.0",
        "kubeletVersion": KUBELET_VERSION,
        "kubeProxyVersion": KUBELET_VERSION,
        "operatingSystem": "linux",
        "architecture": "amd64",
    })
}
