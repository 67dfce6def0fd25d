//! A simulated provisioner: gives claims their volumes.
//!
//! It serves every StorageClass but those whose volumes are made by hand, so that manifests written for some
//! cloud come up here too, and makes a default class `standard` when there is none of that name. Because no
//! pv-binder need run beside it, it binds both sides itself, and takes volumes away when
//! their claim is gone; each step is safe to be done by that controller as well. [`plan`] decides, this file carries it out. No byte is ever stored.

mod plan;

use std::sync::Arc;

use api::{Clock, Key, Resource};
use bytes::Bytes;
use client::{Client, DeleteOptions, Patch};
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::{
    Change, Error, EventType, Informers, Next, ObjectRef, Queue, Reconcile, Recorder, Report, Store,
};
use serde_json::{Value, json};

use crate::kubelet::RETRY;
use crate::node::Node;
use crate::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use plan::{ClaimPlan, Surroundings, VolumePlan};

const DEFAULT_CLASS: &str = "standard";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const PROVISIONER: &str = "steersman.dev/simulated";
const ZONE: &str = "topology.kubernetes.io/zone";

pub(crate) struct Provisioner {
    client: Client,
    recorder: Recorder,
    claims: Arc<Store<PersistentVolumeClaim>>,
    volumes: Arc<Store<PersistentVolume>>,
    classes: Arc<Store<StorageClass>>,
    nodes: Arc<Store<Node>>,
}

/// Looks after claims; [`ForVolumes`] after volumes.
struct ForClaims(Arc<Provisioner>);
struct ForVolumes(Arc<Provisioner>);

impl Provisioner {
    pub(crate) fn controllers(
        client: Client,
        recorder: Recorder,
        informers: &Informers,
        clock: &Clock,
    ) -> [Controller; 2] {
        let claims = informers.of::<PersistentVolumeClaim>();
        let volumes = informers.of::<PersistentVolume>();
        let classes = informers.of::<StorageClass>();
        let nodes = informers.of::<Node>();
        let provisioner = Arc::new(Provisioner {
            client,
            recorder,
            claims: claims.store().clone(),
            volumes: volumes.store().clone(),
            classes: classes.store().clone(),
            nodes: nodes.store().clone(),
        });
        let claim_queue = Arc::new(Queue::new(RETRY));
        let volume_queue = Arc::new(Queue::new(RETRY));
        provisioner.listen(informers, &claim_queue, &volume_queue);
        let waits_for = vec![
            claims.synced(),
            volumes.synced(),
            classes.synced(),
            nodes.synced(),
        ];
        // One worker: two claims must not take the same volume.
        let controller = |name, queue, reconciler| Controller {
            waits_for: waits_for.clone(),
            ..Controller::plain(name, queue, reconciler, clock.clone())
        };
        [
            controller(
                "simulated-claims",
                claim_queue,
                Arc::new(ForClaims(provisioner.clone())),
            ),
            controller(
                "simulated-volumes",
                volume_queue,
                Arc::new(ForVolumes(provisioner)),
            ),
        ]
    }

    /// Which changes wake which claims and volumes.
    fn listen(self: &Arc<Self>, informers: &Informers, claims: &Arc<Queue>, volumes: &Arc<Queue>) {
        let (to_claims, to_volumes) = (claims.clone(), volumes.clone());
        let seen = self.clone();
        informers
            .of::<PersistentVolumeClaim>()
            .on_change(move |change| {
                let claim = change.object();
                to_claims.add(claim.key());
                if let Change::Deleted(_) = change {
                    for volume in seen.volumes.list() {
                        let held = volume.spec.claim_ref.as_ref();
                        if held.is_some_and(|held| held.uid == claim.metadata.uid) {
                            to_volumes.add(volume.key());
                        }
                    }
                }
            });
        let (to_claims, to_volumes) = (claims.clone(), volumes.clone());
        let seen = self.clone();
        informers.of::<PersistentVolume>().on_change(move |change| {
            to_volumes.add(change.object().key());
            seen.wake_unbound(&to_claims);
        });
        let (to_claims, seen) = (claims.clone(), self.clone());
        informers
            .of::<StorageClass>()
            .on_change(move |_| seen.wake_unbound(&to_claims));
    }

    fn wake_unbound(&self, queue: &Queue) {
        for claim in self.claims.list() {
            let has_volume = self.volumes.find("", &claim.spec.volume_name).is_some();
            if !claim.is_bound() || !has_volume {
                queue.add(claim.key());
            }
        }
    }

    async fn look_at_claim(&self, key: &Key) -> Result<Next, Error> {
        let Some(claim) = self.claims.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let class = claim
            .spec
            .storage_class_name
            .as_deref()
            .and_then(|name| self.classes.find("", name));
        match self.plan_claim(&claim, class.as_deref()) {
            ClaimPlan::Nothing => {}
            ClaimPlan::AdoptClass(name) => {
                self.patch_claim(&claim, None, json!({"spec": {"storageClassName": name}}))
                    .await?;
            }
            ClaimPlan::Bind(volume) => self.bind(&claim, &volume).await?,
            ClaimPlan::Provision { node } => {
                let made = self
                    .provision(&claim, class.as_deref(), node.as_deref())
                    .await?;
                self.bind(&claim, &made).await?;
            }
            ClaimPlan::Lose => {
                self.patch_claim(&claim, Some("status"), json!({"status": {"phase": "Lost"}}))
                    .await?;
                let message =
                    "Bound claim has lost its PersistentVolume. Data on this volume is lost!";
                self.recorder.event(
                    &ObjectRef::of(&*claim),
                    EventType::Warning,
                    "ClaimLost",
                    message,
                );
            }
            ClaimPlan::Explain(reason, message) => {
                self.recorder
                    .event(&ObjectRef::of(&*claim), EventType::Normal, reason, message);
            }
        }
        Ok(Next::AwaitChange)
    }

    fn plan_claim(&self, claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> ClaimPlan {
        let default_class = self.default_class();
        let around = Surroundings {
            class,
            default_class: default_class.as_deref(),
            volumes: &self.volumes.list(),
            reaches: &|volume, node| self.reaches(volume, node),
        };
        plan::plan_claim(claim, &around)
    }

    /// The newest class that says it is the default, as upstream picks it.
    fn default_class(&self) -> Option<String> {
        let classes = self.classes.list();
        let defaults = classes
            .iter()
            .filter(|one| one.metadata.annotation(IS_DEFAULT) == Some("true"));
        let newest = defaults.max_by(|one, two| {
            let age = |class: &StorageClass| class.metadata.created_at;
            age(one)
                .cmp(&age(two))
                .then_with(|| two.key().cmp(&one.key()))
        });
        newest.map(|class| class.metadata.name.to_string())
    }

    fn reaches(&self, volume: &PersistentVolume, node: &str) -> bool {
        let Some(required) = volume.required_nodes() else {
            return true;
        };
        let found = self.nodes.find("", node);
        found.is_some_and(|node| {
            required
                .matches(node.name(), node.labels())
                .unwrap_or(false)
        })
    }

    async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        class: Option<&StorageClass>,
        node: Option<&str>,
    ) -> Result<PersistentVolume, Error> {
        let name = format!("pvc-{}", claim.metadata.uid);
        let driver = class.map_or(PROVISIONER, |class| class.provisioner.as_str());
        let policy = class
            .and_then(|class| class.reclaim_policy.as_deref())
            .unwrap_or("Delete");
        let mut spec = json!({
            "capacity": {"storage": claim.requested()},
            "accessModes": claim.spec.access_modes,
            "claimRef": claim_reference(claim),
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": claim.spec.storage_class_name,
            "csi": {"driver": driver, "volumeHandle": name},
        });
        if !claim.spec.volume_mode.is_empty() {
            spec["volumeMode"] = json!(claim.spec.volume_mode);
        }
        // A volume is reachable throughout its zone, as a cloud's disks are; everywhere where there are none.
        let zone = node.and_then(|node| self.nodes.find("", node));
        if let Some(zone) = zone.and_then(|node| node.labels().get(ZONE).map(str::to_owned)) {
            let term =
                json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
            spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
        }
        let volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}},
            "spec": spec,
        });
        let made = match self
            .client
            .create(&PersistentVolume::TYPE, "", volume.to_string())
            .await
        {
            Ok(made) => made,
            // Made before a restart that kept us from binding it.
            Err(error) if error.is_already_exists() => {
                self.client.get(&PersistentVolume::TYPE, "", &name).await?
            }
            Err(error) => return Err(error.into()),
        };
        let message = format!("Successfully provisioned volume {name}");
        self.recorder.event(
            &ObjectRef::of(claim),
            EventType::Normal,
            "ProvisioningSucceeded",
            message,
        );
        PersistentVolume::decode(&made).map_err(|error| Error::Retry(error.to_string()))
    }

    /// Both sides, each told of the other; safe to do again.
    async fn bind(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), Error> {
        let name = &*volume.metadata.name;
        if volume
            .spec
            .claim_ref
            .as_ref()
            .is_none_or(|held| held.uid != claim.metadata.uid)
        {
            let spec = json!({"spec": {"claimRef": claim_reference(claim)}});
            self.patch_volume(volume, None, spec).await?;
        }
        if volume.status.phase != "Bound" {
            self.patch_volume(
                volume,
                Some("status"),
                json!({"status": {"phase": "Bound"}}),
            )
            .await?;
        }
        // A scheduler takes a claim for bound only when this says so.
        const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
        if claim.spec.volume_name.is_empty() || claim.metadata.annotation(COMPLETED).is_none() {
            let driver = volume
                .metadata
                .annotation("pv.kubernetes.io/provisioned-by");
            let mut annotations = json!({COMPLETED: "yes"});
            if claim.spec.volume_name.is_empty() {
                annotations["pv.kubernetes.io/bound-by-controller"] = json!("yes");
            }
            if let Some(driver) = driver {
                annotations["volume.kubernetes.io/storage-provisioner"] = json!(driver);
            }
            let patch =
                json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}});
            self.patch_claim(claim, None, patch).await?;
        }
        if claim.status.phase != "Bound" {
            let status = json!({
                "phase": "Bound",
                "accessModes": volume.spec.access_modes,
                "capacity": volume.spec.capacity,
            });
            self.patch_claim(claim, Some("status"), json!({"status": status}))
                .await?;
        }
        Ok(())
    }

    async fn look_at_volume(&self, key: &Key) -> Result<Next, Error> {
        let Some(volume) = self.volumes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let held = volume.spec.claim_ref.as_ref();
        let claim = held.and_then(|held| self.claims.find(&held.namespace, &held.name));
        match plan::plan_volume(&volume, claim.as_deref()) {
            VolumePlan::Nothing => {}
            VolumePlan::SetPhase(phase) => {
                self.patch_volume(&volume, Some("status"), json!({"status": {"phase": phase}}))
                    .await?;
            }
            VolumePlan::Delete => {
                let options = DeleteOptions {
                    uid: Some(volume.metadata.uid.clone()),
                    ..DeleteOptions::default()
                };
                let deleted = self
                    .client
                    .delete(&PersistentVolume::TYPE, "", &key.name, &options)
                    .await;
                tolerate_gone(deleted.map(|_| ()))?;
            }
        }
        Ok(Next::AwaitChange)
    }

    async fn patch_claim(
        &self,
        claim: &PersistentVolumeClaim,
        subresource: Option<&str>,
        patch: Value,
    ) -> Result<(), Error> {
        let meta = &claim.metadata;
        let patch = with_uid(patch, &meta.uid.to_string());
        let kind = &PersistentVolumeClaim::TYPE;
        let patched = self
            .client
            .patch(kind, &meta.namespace, &meta.name, subresource, &patch)
            .await;
        tolerate_gone(patched.map(|_| ()))
    }

    async fn patch_volume(
        &self,
        volume: &PersistentVolume,
        subresource: Option<&str>,
        patch: Value,
    ) -> Result<(), Error> {
        let meta = &volume.metadata;
        let patch = with_uid(patch, &meta.uid.to_string());
        let patched = self
            .client
            .patch(&PersistentVolume::TYPE, "", &meta.name, subresource, &patch)
            .await;
        tolerate_gone(patched.map(|_| ()))
    }
}

impl Reconcile for ForClaims {
    fn reconcile<'a>(
        &'a self,
        key: &'a Key,
        _: &'a Report<'_>,
    ) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.0.look_at_claim(key))
    }
}

impl Reconcile for ForVolumes {
    fn reconcile<'a>(
        &'a self,
        key: &'a Key,
        _: &'a Report<'_>,
    ) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.0.look_at_volume(key))
    }
}

/// Makes the default class, unless there is a class of that name. It is marked as default only where no
/// other one is.
pub(crate) async fn ensure_default_class(
    client: &Client,
    classes: &Store<StorageClass>,
) -> Result<(), client::Error> {
    if classes.find("", DEFAULT_CLASS).is_some() {
        return Ok(());
    }
    let has_default = classes
        .list()
        .iter()
        .any(|one| one.metadata.annotation(IS_DEFAULT) == Some("true"));
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": DEFAULT_CLASS, "annotations": {IS_DEFAULT: (!has_default).to_string()}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    match client
        .create(&StorageClass::TYPE, "", class.to_string())
        .await
    {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

fn claim_reference(claim: &PersistentVolumeClaim) -> Value {
    let meta = &claim.metadata;
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": &*meta.name,
        "uid": meta.uid,
    })
}

/// The patch, for the object with this uid alone.
fn with_uid(mut patch: Value, uid: &str) -> Patch {
    patch["metadata"]["uid"] = json!(uid);
    Patch::Merge(Bytes::from(patch.to_string()))
}

/// What is gone, or was recreated, needs no patch: the informer will say what is there.
fn tolerate_gone(outcome: Result<(), client::Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => Ok(other?),
    }
}
