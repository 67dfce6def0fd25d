//! Simulated kubelets: one object plays them all.
//!
//! Each pod that is bound to a node is a key in a queue; a look at it runs the state machine of
//! [`lifecycle`] and writes what it says. Each node is a key in another queue: [`node`] registers it,
//! renews its lease and reports its conditions. There is no task per node and nothing is polled, so a
//! thousand nodes cost what they write.
//!
//! A kubelet keeps no state of its own that matters: after a restart everything follows from the objects.

mod addresses;
mod admission;
mod lifecycle;
pub(crate) mod node;
mod sources;
mod take_over;
pub(crate) mod volumes;

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::collections::HashSet;
use api::kinds::PodIps;
use api::{Clock, Istr, Key, MicroTime, Resource, Uid};
use bytes::Bytes;
use client::{Client, DeleteOptions, Patch};
use runtime::controller::Controller;
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Error, EventType, Index, IndexValue, Informers, Next, ObjectRef, Queue, Reconcile,
    Recorder, Report, Store, Written,
};

use crate::behaviour::{Behaviour, NODE_GONE, NODE_SILENT, NOW, POD_CRASH_AT};
use crate::config::Config;
use crate::containers::{sub_paths, termination};
use crate::identity::NodeClients;
use crate::node::Node;
use crate::pod::{ContainerState, Pod};
use crate::stages::Stages;
use crate::storage::PersistentVolumeClaim;
use addresses::Addresses;
use lifecycle::{Advance, Facts, PodEvent, Rejection};
use sources::Sources;
use volumes::Volumes;

/// Plays the kubelets of all nodes.
pub(crate) struct Kubelets {
    clients: Arc<NodeClients>,
    clock: Clock,
    /// One of them speaks for a pod, always the same.
    recorders: Vec<Recorder>,
    stages: Stages,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Node>>,
    /// None where nobody makes volumes: then none is waited for.
    volumes: Option<Arc<Volumes>>,
    /// None where ConfigMaps and Secrets are taken to be there.
    sources: Option<Sources>,
    queue: Arc<Queue>,
    written: Written,
    local: Mutex<Local>,
}

/// What a kubelet could find out again by looking at its pods.
#[derive(Default)]
struct Local {
    addresses: Addresses,
    images: BTreeMap<Istr, BTreeSet<Istr>>,
    /// Pods, by uid, that were admitted and whose informer has not seen them start yet.
    admitted: HashSet<Uid>,
    /// Pods whose annotations have been complained about, by key, with the complaint.
    complaints: BTreeMap<Key, Vec<String>>,
    /// When pods with something to tell each time that it happens were looked at.
    looks: BTreeMap<Key, MicroTime>,
}

/// Pods by the node they are bound to.
pub(crate) const BY_NODE: Index<Pod> = Index {
    name: "node",
    values: |pod, found| {
        if pod.is_assigned() {
            found(IndexValue::Text(pod.node_name.clone()));
        }
    },
};

/// Looks at several pods at once, so that a slow API server delays one of them and not all.
const WORKERS: usize = 16;

/// With more pods waiting than anyone can follow on a screen, intermediate states are not worth a write.
const BUSY: usize = 50;

/// Up to here every event is worth waiting for; beyond, events are dropped rather than pods delayed.
const MANY: usize = 2000;

/// Time enough to write hundreds of events, unless the API server takes none.
const PATIENCE: Duration = Duration::from_millis(100);

/// A pod that we have written to is looked at when the write comes back; should it not, then after this.
const WRITE_SEEN_WITHIN: Duration = Duration::from_secs(2);

/// 5 ms doubling to 10 s: a kubelet that cannot write its status does not stay away for a quarter of an hour.
pub(crate) const RETRY: Backoff =
    Backoff::exponential(Duration::from_millis(5), Duration::from_secs(10));

impl Kubelets {
    /// The controller that looks after pods.
    pub(crate) fn controller(
        clients: Arc<NodeClients>,
        clock: Clock,
        recorders: Vec<Recorder>,
        config: &Config,
        volumes: Option<Arc<Volumes>>,
        informers: &Informers,
    ) -> Controller {
        let (pods, nodes) = (informers.of::<Pod>(), informers.of::<Node>());
        pods.add_index(&BY_NODE);
        let queue = Arc::new(Queue::new(RETRY));
        let sources = config
            .waits_for_sources
            .then(|| Sources::new(informers, &queue));
        let mut waits_for = vec![pods.synced(), nodes.synced()];
        waits_for.extend(sources.iter().flat_map(Sources::synced));
        let kubelets = Arc::new(Kubelets {
            clients,
            clock,
            recorders,
            stages: config.stages.clone(),
            pods: pods.store().clone(),
            nodes: nodes.store().clone(),
            volumes: volumes.clone(),
            sources,
            queue: queue.clone(),
            written: Written::default(),
            local: Mutex::default(),
        });
        let told = kubelets.clone();
        pods.on_change(move |change| told.pod_changed(&change));
        let told = kubelets.clone();
        nodes.on_change(move |change| told.node_changed(&change));
        if let Some(volumes) = volumes {
            let (claims, woken) = (informers.of::<PersistentVolumeClaim>(), queue.clone());
            waits_for.push(claims.synced());
            claims.on_change(move |change| {
                let users = volumes.users(change.object());
                users.iter().for_each(|pod| woken.add(pod.key()));
            });
        }
        let clock = kubelets.clock.clone();
        Controller {
            workers: WORKERS,
            waits_for,
            ..Controller::plain("simulated-kubelets", queue, kubelets, clock)
        }
    }

    fn pod_changed(&self, change: &Change<'_, Pod>) {
        let pod = change.object();
        if !pod.is_assigned() {
            return;
        }
        if let Change::Deleted(_) = change {
            let key = pod.key();
            self.written.forget(&key);
            let mut local = self.lock();
            local.addresses.release(&key);
            local.admitted.remove(&pod.metadata.uid);
            local.complaints.remove(&key);
            local.looks.remove(&key);
            return;
        }
        if pod.status.start_time.is_some() {
            self.lock().admitted.remove(&pod.metadata.uid);
        }
        self.learn_addresses(pod);
        self.queue.add(pod.key());
    }

    /// All addresses in use are known before the first one is given out: both informers are complete by then.
    fn learn_addresses(&self, pod: &Pod) {
        if !pod.status.ips.is_empty() && !pod.spec.host_network {
            let addresses = &mut self.lock().addresses;
            addresses.learn(&pod.key(), &pod.node_name, &pod.status.ips);
        }
    }

    /// A node that came, or came back, has pods waiting for it.
    fn node_changed(&self, change: &Change<'_, Node>) {
        let wakes = match change {
            Change::Added(_) => true,
            Change::Updated { old, new } => {
                is_served(old) != is_served(new)
                    || old.spec.pod_cidrs != new.spec.pod_cidrs
                    || old.status.volumes_attached != new.status.volumes_attached
                    || old.status.volumes_in_use != new.status.volumes_in_use
            }
            Change::Deleted(_) => false,
        };
        if wakes {
            let name = IndexValue::Text(Istr::from(change.object().name()));
            for pod in self.pods.by(&BY_NODE, &name) {
                self.queue.add(pod.key());
            }
        }
    }

    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(key).filter(|pod| pod.is_assigned()) else {
            return Ok(Next::AwaitChange);
        };
        let Some(node) = self
            .nodes
            .find("", &pod.node_name)
            .filter(|node| is_served(node))
        else {
            return Ok(Next::AwaitChange);
        };
        let Some(client) = self.clients.of(&pod.node_name) else {
            return Ok(Next::After(node::CERTIFICATE_AWAITED));
        };
        if !self.written.seen(key, pod.metadata.resource_version) {
            return Ok(Next::After(WRITE_SEEN_WITHIN));
        }
        if pod.metadata.annotation(POD_CRASH_AT) == Some(NOW) {
            return self.date_crash(key, &pod).await;
        }
        let (behaviour, problems) = Behaviour::of(&pod, &self.stages);
        self.complain(&pod, problems);
        let pod_ips = self.pod_ips(key, &pod, &node);
        let volumes = self.volumes.as_ref();
        let sources = self.sources.as_ref();
        let now = self.clock.now();
        let mount_errors = sources.map(|sources| sources.mount_errors(&pod));
        let path_errors = match sources {
            Some(_) => sub_paths::errors(&client, &pod).await?,
            None => BTreeMap::new(),
        };
        let last_look = self.lock().looks.get(key).copied();
        let mut advance = lifecycle::advance(
            &pod,
            &Facts {
                now,
                behaviour: &behaviour,
                pod_ips: &pod_ips,
                is_busy: self.queue.len() > BUSY,
                has_volumes: volumes.is_none_or(|volumes| volumes.are_there(&pod, &node)),
                has_image: &|image| self.has_image(&pod.node_name, image),
                mount_errors: &mount_errors.unwrap_or_default(),
                config_error: &|container| {
                    let error = sources?.config_error(&pod, container);
                    error.or_else(|| path_errors.get(&container.name).cloned())
                },
                rejection: self.rejection(&pod, &node),
                lacks_room: &|| admission::lacks_room(&pod, &node, &self.neighbours(&pod)),
                last_look,
            },
        );
        if let Some(status) = &mut advance.status {
            termination::add_messages(&client, &pod, &behaviour, status).await?;
        }
        let (wake_at, is_remembered) = (advance.wake_at, advance.is_remembered);
        self.apply(&client, key, &pod, &node, advance).await?;
        match is_remembered {
            true => drop(self.lock().looks.insert(key.clone(), now)),
            false if last_look.is_some() => drop(self.lock().looks.remove(key)),
            false => {}
        }
        let now = self.clock.now();
        Ok(match wake_at {
            Some(at) => Next::After(at.since(now).max(Duration::from_millis(1))),
            None => Next::AwaitChange,
        })
    }

    /// Asked before anything of the pod runs. The answer is noted under the same lock: two pods that come together
    /// do not both get the last port.
    fn rejection(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        if pod.status.start_time.is_some() {
            return None;
        }
        let neighbours = self.neighbours(pod);
        let admitted = &mut self.lock().admitted;
        let rejection = admission::reject(pod, node, &neighbours, admitted);
        if rejection.is_none() {
            admitted.insert(pod.metadata.uid.clone());
        }
        rejection
    }

    /// All pods of its node, with itself.
    fn neighbours(&self, pod: &Pod) -> Vec<Arc<Pod>> {
        let value = IndexValue::Text(pod.node_name.clone());
        self.pods.by(&BY_NODE, &value)
    }

    /// Puts the time in the place of `now`: only the kubelet's own clock will do for it.
    async fn date_crash(&self, key: &Key, pod: &Pod) -> Result<Next, Error> {
        // Statuses know whole seconds. The next one is after the start of whatever runs now.
        let at = self.clock.now().plus(Duration::from_secs(1)).time();
        let body = serde_json::json!({
            "metadata": {"uid": pod.metadata.uid, "annotations": {POD_CRASH_AT: at}},
        });
        let patch = Patch::Merge(Bytes::from(body.to_string()));
        let (namespace, name) = (key.namespace.as_str(), &*key.name);
        match self
            .clients
            .shared()
            .patch(&Pod::TYPE, namespace, name, None, &patch)
            .await
        {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(Next::AwaitChange),
        }
    }

    async fn apply(
        &self,
        client: &Client,
        key: &Key,
        pod: &Pod,
        node: &Node,
        advance: Advance,
    ) -> Result<(), Error> {
        let (namespace, name) = (key.namespace.as_str(), &*key.name);
        if let Some(status) = &advance.status {
            let patch = Patch::Strategic(lifecycle::status_patch(pod, status, node.internal_ip()));
            let answer = client
                .patch(&Pod::TYPE, namespace, name, Some("status"), &patch)
                .await;
            match answer {
                Ok(answer) => self.written.note(key, revision(&answer)),
                // Gone, or a namesake took its place: the informer will say so.
                Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.remember_images(pod, status);
        }
        for event in advance.events {
            self.tell(pod, event).await;
        }
        if advance.delete || advance.evict {
            let options = DeleteOptions {
                grace_period_seconds: advance.delete.then_some(0),
                ..DeleteOptions::exactly(&pod.metadata.uid)
            };
            match client.delete(&Pod::TYPE, namespace, name, &options).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn tell(&self, pod: &Pod, event: PodEvent) {
        let kind = match event.warning {
            true => EventType::Warning,
            false => EventType::Normal,
        };
        let object = ObjectRef::of(pod).with_field_path(event.field_path);
        let (reason, message) = (event.reason, event.message);
        let recorder = self.recorder(pod);
        if self.queue.len() < MANY {
            let told = recorder.event_in_turn(&object, kind, reason, message);
            // Whoever cannot be told in time must not keep the pod waiting.
            let _ = tokio::time::timeout(PATIENCE, told).await;
        } else {
            recorder.event(&object, kind, reason, message);
        }
    }

    fn recorder(&self, pod: &Pod) -> Recorder {
        if let Some(own) = self.clients.recorder_of(&pod.node_name) {
            return own;
        }
        let mut hash = api::hash::Fnv32a::new();
        hash.write(pod.metadata.name.as_bytes());
        self.recorders[hash.finish() as usize % self.recorders.len()].clone()
    }

    /// Says once what is wrong with the annotations of a pod.
    fn complain(&self, pod: &Pod, problems: Vec<String>) {
        let key = pod.key();
        {
            let mut local = self.lock();
            if problems.is_empty() {
                local.complaints.remove(&key);
                return;
            }
            if local.complaints.get(&key) == Some(&problems) {
                return;
            }
            local.complaints.insert(key, problems.clone());
        }
        for problem in problems {
            self.recorder(pod).event(
                &ObjectRef::of(pod),
                EventType::Warning,
                "InvalidBehaviour",
                problem,
            );
        }
    }

    fn pod_ips(&self, key: &Key, pod: &Pod, node: &Node) -> PodIps {
        if pod.spec.host_network {
            return api::ip::parse(node.internal_ip()).into_iter().collect();
        }
        if !pod.status.ips.is_empty() || pod.is_finished() {
            return pod.status.ips.clone();
        }
        let addresses = &mut self.lock().addresses;
        addresses.of(key, &pod.node_name, &node.spec.pod_cidrs)
    }

    fn has_image(&self, node: &str, image: &str) -> bool {
        let local = self.lock();
        local
            .images
            .get(node)
            .is_some_and(|images| images.contains(image))
    }

    fn remember_images(&self, pod: &Pod, status: &crate::pod::PodStatus) {
        let statuses = status.init_containers.iter().chain(&status.containers);
        let pulled = pod
            .spec
            .all_containers()
            .zip(statuses)
            .filter(|(_, status)| !matches!(status.state, ContainerState::Waiting { .. }))
            .map(|(container, _)| container.image.clone());
        let mut local = self.lock();
        local
            .images
            .entry(pod.node_name.clone())
            .or_default()
            .extend(pulled);
    }

    fn lock(&self) -> MutexGuard<'_, Local> {
        self.local.lock()
    }
}

impl Reconcile for Kubelets {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.sync(key).await
    }
}

/// Is the node's kubelet there at all?
pub(crate) fn is_served(node: &Node) -> bool {
    let says = |key| node.metadata.annotation(key) == Some("true");
    !says(NODE_SILENT) && !says(NODE_GONE)
}

/// The revision of the object that the server answered.
fn revision(answer: &Bytes) -> u64 {
    #[derive(serde::Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        resource_version: &'a str,
    }
    let answer = serde_json::from_slice::<Answer<'_>>(answer);
    answer.map_or(0, |answer| {
        answer.metadata.resource_version.parse().unwrap_or(0)
    })
}
