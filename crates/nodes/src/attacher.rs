//! A simulated attacher: does what a driver's external-attacher does, for every driver.
//!
//! A VolumeAttachment gets the finalizer of its driver, its volume too, and is attached at once; one that is being
//! deleted is detached, and goes. A volume whose class says that attaching fails is never attached, and nothing is
//! attached to a node that does not exist, until it does. A volume that does not exist is waited for. Nodes say by a CSINode how many volumes they can have, and a
//! CSIDriver says that the simulated driver has to be asked.

use std::sync::Arc;

use api::kinds::{CsiDriver, VolumeAttachment};
use api::{Clock, Istr, Key, Meta, Resource, ResourceType};
use bytes::Bytes;
use client::{Client, Patch};
use runtime::controller::Controller;
use runtime::{Change, Error, Index, IndexValue, Informers, Next, Queue, Reconcile, Report, Store};
use serde_json::{Value, json};

use crate::kubelet::RETRY;
use crate::node::Node;
use crate::storage::{FAILS, PersistentVolume, StorageClass};

/// What `steersman.dev/simulated` is called where a name has to be a domain.
const DRIVER: &str = "simulated.steersman.dev";

/// How many volumes a node can have.
const VOLUMES_MAX: i64 = 128;

const CSI_NODES: ResourceType =
    ResourceType::cluster("storage.k8s.io", "v1", "csinodes", "CSINode");

/// Attachments by the volumes that they name.
pub(crate) const BY_VOLUME: Index<VolumeAttachment> = Index {
    name: "volume",
    values: |attachment, found| {
        if let Some(name) = &attachment.spec.source.persistent_volume_name {
            found(IndexValue::Text(name.clone()));
        }
    },
};

/// Attachments by the nodes that they name.
const BY_NODE: Index<VolumeAttachment> = Index {
    name: "node",
    values: |attachment, found| found(IndexValue::Text(attachment.spec.node_name.clone())),
};

pub(crate) struct Attacher {
    client: Client,
    clock: Clock,
    attachments: Arc<Store<VolumeAttachment>>,
    volumes: Arc<Store<PersistentVolume>>,
    classes: Arc<Store<StorageClass>>,
    nodes: Arc<Store<Node>>,
}

struct ForAttachments(Arc<Attacher>);
struct ForVolumes(Arc<Attacher>);
struct ForNodes(Arc<Attacher>);

impl Attacher {
    pub(crate) fn controllers(
        client: Client,
        informers: &Informers,
        clock: &Clock,
    ) -> [Controller; 3] {
        let attachments = informers.of::<VolumeAttachment>();
        attachments.add_index(&BY_VOLUME);
        attachments.add_index(&BY_NODE);
        let volumes = informers.of::<PersistentVolume>();
        let classes = informers.of::<StorageClass>();
        let nodes = informers.of::<Node>();
        let attacher = Arc::new(Attacher {
            client,
            clock: clock.clone(),
            attachments: attachments.store().clone(),
            volumes: volumes.store().clone(),
            classes: classes.store().clone(),
            nodes: nodes.store().clone(),
        });
        let queues: [Arc<Queue>; 3] = std::array::from_fn(|_| Arc::new(Queue::new(RETRY)));
        let [of_attachments, of_volumes, of_nodes] = queues.clone();
        let woken = of_volumes.clone();
        let (waiting, held_up) = (of_attachments.clone(), attachments.store().clone());
        attachments.on_change(move |change| {
            of_attachments.add(change.object().key());
            // The last one that goes may be what its volume waits for.
            if let Change::Deleted(gone) = change
                && let Some(name) = &gone.spec.source.persistent_volume_name
            {
                woken.add(Key::new("", name));
            }
        });
        let (awaiting, of_volume) = (queues[0].clone(), attachments.store().clone());
        volumes.on_change(move |change| {
            if change.object().metadata.is_terminating() {
                of_volumes.add(change.object().key());
            }
            if let Change::Added(volume) = change {
                let value = IndexValue::Text(Istr::new(&volume.metadata.name));
                for attachment in of_volume.by(&BY_VOLUME, &value) {
                    awaiting.add(attachment.key());
                }
            }
        });
        nodes.on_change(move |change| {
            if let Change::Added(node) = change {
                of_nodes.add(node.key());
                let value = IndexValue::Text(Istr::new(node.name()));
                for attachment in held_up.by(&BY_NODE, &value) {
                    waiting.add(attachment.key());
                }
            }
        });
        let waits_for = [
            attachments.synced(),
            volumes.synced(),
            classes.synced(),
            nodes.synced(),
        ];
        let [one, two, three] = queues;
        let built = |name, queue, reconciler| Controller {
            waits_for: waits_for.to_vec(),
            workers: 4,
            ..Controller::plain(name, queue, reconciler, clock.clone())
        };
        [
            built(
                "simulated-attachments",
                one,
                Arc::new(ForAttachments(attacher.clone())),
            ),
            built(
                "simulated-attached-volumes",
                two,
                Arc::new(ForVolumes(attacher.clone())),
            ),
            built("simulated-csi-nodes", three, Arc::new(ForNodes(attacher))),
        ]
    }

    async fn sync_attachment(&self, key: &Key) -> Result<Next, Error> {
        let Some(attachment) = self.attachments.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let finalizer = finalizer_of(&attachment.spec.attacher);
        let meta = &attachment.metadata;
        if meta.is_terminating() {
            self.set_finalizer::<VolumeAttachment>(meta, &finalizer, false)
                .await?;
            return Ok(Next::AwaitChange);
        }
        let name = attachment.spec.source.persistent_volume_name.as_ref();
        let volume = name.and_then(|name| self.volumes.find("", name));
        // What is attached stays so when its node goes: the controller asks for the detachment.
        if attachment.status.attached || name.is_some() && volume.is_none() {
            return Ok(Next::AwaitChange);
        }
        if let Some(error) = self.failure(&attachment.spec.node_name, volume.as_deref()) {
            let held = attachment.status.attach_error.as_ref();
            if held.is_none_or(|held| *held.message != *error) {
                let now = self.clock.now().time();
                let status =
                    json!({"attached": false, "attachError": {"time": now, "message": error}});
                self.put_status(meta, status).await?;
            }
            return Ok(Next::AwaitChange);
        }
        self.set_finalizer::<VolumeAttachment>(meta, &finalizer, true)
            .await?;
        if let Some(volume) = volume.filter(|volume| !volume.metadata.is_terminating()) {
            self.set_finalizer::<PersistentVolume>(&volume.metadata, &finalizer, true)
                .await?;
        }
        self.put_status(meta, json!({"attached": true, "attachError": null}))
            .await?;
        Ok(Next::AwaitChange)
    }

    /// Why the volume cannot be attached: there is no such node, or its class says so.
    fn failure(&self, node: &str, volume: Option<&PersistentVolume>) -> Option<String> {
        if self.nodes.find("", node).is_none() {
            return Some(format!("node {node:?} not found"));
        }
        let class = self.classes.find("", &volume?.spec.storage_class_name)?;
        let fails = class.parameters.get(FAILS).map(Istr::as_str);
        (fails == Some("attach")).then(|| {
            "rpc error: code = Internal desc = volumes of this class fail on purpose".to_owned()
        })
    }

    async fn put_status(&self, meta: &Meta, status: Value) -> Result<(), Error> {
        let body = json!({"metadata": {"uid": meta.uid}, "status": status});
        let patch = Patch::Merge(Bytes::from(body.to_string()));
        let kind = VolumeAttachment::TYPE;
        let put = self
            .client
            .patch(&kind, "", &meta.name, Some("status"), &patch)
            .await;
        tolerate_gone(put)
    }

    /// A volume that is being deleted goes when nothing of it is attached.
    async fn sync_volume(&self, key: &Key) -> Result<Next, Error> {
        let volume = self.volumes.get(key);
        let Some(volume) = volume.filter(|volume| volume.metadata.is_terminating()) else {
            return Ok(Next::AwaitChange);
        };
        let value = IndexValue::Text(Istr::new(&key.name));
        if self.attachments.by(&BY_VOLUME, &value).is_empty() {
            let held = volume.metadata.finalizers.iter();
            let ours = held.filter(|name| name.starts_with(PREFIX));
            for finalizer in ours {
                self.set_finalizer::<PersistentVolume>(&volume.metadata, finalizer, false)
                    .await?;
            }
        }
        Ok(Next::AwaitChange)
    }

    async fn set_finalizer<K: Resource>(
        &self,
        meta: &Meta,
        finalizer: &str,
        is_wanted: bool,
    ) -> Result<(), Error> {
        if meta.has_finalizer(finalizer) == is_wanted {
            return Ok(());
        }
        let others = meta.finalizers.iter().filter(|held| **held != *finalizer);
        let mut finalizers: Vec<&str> = others.map(Istr::as_str).collect();
        finalizers.extend(is_wanted.then_some(finalizer));
        let body = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version.to_string(), "finalizers": finalizers,
        }});
        let patch = Patch::Merge(Bytes::from(body.to_string()));
        let put = self
            .client
            .patch(&K::TYPE, "", &meta.name, None, &patch)
            .await;
        match put {
            // What was decided on is not what is there: the next look is about to come.
            Err(error) if error.is_conflict() => Err(Error::Retry(error.to_string())),
            other => tolerate_gone(other),
        }
    }

    async fn sync_node(&self, key: &Key) -> Result<Next, Error> {
        let Some(node) = self.nodes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let name = node.name();
        let body = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {
                "name": name,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
                ],
            },
            "spec": {"drivers": [{
                "name": DRIVER, "nodeID": name, "allocatable": {"count": VOLUMES_MAX},
                "topologyKeys": ["topology.kubernetes.io/zone"],
            }]},
        });
        match self.client.create(&CSI_NODES, "", body.to_string()).await {
            Err(error) if !error.is_already_exists() => Err(error.into()),
            _ => Ok(Next::AwaitChange),
        }
    }
}

impl Reconcile for ForAttachments {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_attachment(key).await
    }
}

impl Reconcile for ForVolumes {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_volume(key).await
    }
}

impl Reconcile for ForNodes {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_node(key).await
    }
}

/// Says that the simulated driver has to be asked.
pub(crate) async fn ensure_driver(client: &Client) -> Result<(), client::Error> {
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"attachRequired": true, "podInfoOnMount": false, "volumeLifecycleModes": ["Persistent"]},
    });
    match client
        .create(&CsiDriver::TYPE, "", driver.to_string())
        .await
    {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

const PREFIX: &str = "external-attacher/";

/// UPSTREAM: as external-attacher calls it: what is no letter, digit or dash becomes a dash.
fn finalizer_of(driver: &str) -> String {
    let sane = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    let driver: String = driver.chars().map(sane).collect();
    format!("{PREFIX}{driver}")
}

fn tolerate_gone<T>(outcome: Result<T, client::Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}
