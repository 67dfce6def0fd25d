//! A simulated provisioner: makes volumes for claims, as the driver of a cloud does.
//!
//! It serves every StorageClass but those whose volumes are made by hand, so that manifests written for some cloud come
//! up here too, and makes a default class `standard`, and `immediate` and `broken` beside it, where there are none of these
//! names.
//! A claim that the binder has marked with a provisioner gets a volume of its own; one that was made here and is
//! released goes, if that is its policy. Who binds them is the controller manager. [`plan`] decides, this file
//! carries it out. No byte is ever stored.

mod modify;
mod plan;

use std::borrow::Cow;
use std::sync::Arc;

use api::kinds::{VolumeAttachment, VolumeAttributesClass};
use api::{Clock, Istr, Key, Resource};
use client::{Client, DeleteOptions};
use runtime::controller::Controller;
use runtime::{
    Change, Error, EventType, IndexValue, Informers, Next, ObjectRef, Queue, Reconcile, Recorder,
    Report, Store,
};
use serde_json::{Value, json};

use crate::attacher::BY_VOLUME;
use crate::kubelet::RETRY;
use crate::node::Node;
use crate::storage::{FAILS, PersistentVolume, PersistentVolumeClaim, StorageClass};
use plan::{ClaimPlan, Surroundings};

const DEFAULT_CLASS: &str = "standard";
const BROKEN_CLASS: &str = "broken";
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
    attributes: Arc<Store<VolumeAttributesClass>>,
    attachments: Arc<Store<VolumeAttachment>>,
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
        let attributes = informers.of::<VolumeAttributesClass>();
        let attachments = informers.of::<VolumeAttachment>();
        attachments.add_index(&BY_VOLUME);
        let provisioner = Arc::new(Provisioner {
            client,
            recorder,
            claims: claims.store().clone(),
            volumes: volumes.store().clone(),
            classes: classes.store().clone(),
            nodes: nodes.store().clone(),
            attributes: attributes.store().clone(),
            attachments: attachments.store().clone(),
        });
        let claim_queue = Arc::new(Queue::new(RETRY));
        let volume_queue = Arc::new(Queue::new(RETRY));
        provisioner.listen(informers, &claim_queue, &volume_queue);
        let waits_for = vec![
            claims.synced(),
            volumes.synced(),
            classes.synced(),
            nodes.synced(),
            attributes.synced(),
            attachments.synced(),
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
        let to_claims = claims.clone();
        informers
            .of::<PersistentVolumeClaim>()
            .on_change(move |change| to_claims.add(change.object().key()));
        let to_volumes = volumes.clone();
        informers
            .of::<PersistentVolume>()
            .on_change(move |change| to_volumes.add(change.object().key()));
        let to_volumes = volumes.clone();
        informers.of::<VolumeAttachment>().on_change(move |change| {
            // A released volume waits for the last of its attachments.
            if let Change::Deleted(gone) = change
                && let Some(name) = &gone.spec.source.persistent_volume_name
            {
                to_volumes.add(Key::new("", name));
            }
        });
        let (to_claims, seen) = (claims.clone(), self.clone());
        informers.of::<VolumeAttributesClass>().on_change(move |_| {
            let modified = seen.claims.list();
            let modified = modified
                .iter()
                .filter(|claim| claim.new_attributes().is_some());
            modified.for_each(|claim| to_claims.add(claim.key()));
        });
        let (to_claims, seen) = (claims.clone(), self.clone());
        informers.of::<StorageClass>().on_change(move |_| {
            let waiting = seen.claims.list();
            let waiting = waiting.iter().filter(|claim| !claim.is_bound());
            waiting.for_each(|claim| to_claims.add(claim.key()));
        });
    }

    async fn sync_claim(&self, key: &Key) -> Result<Next, Error> {
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
            ClaimPlan::Provision { driver, node } => {
                self.provision(&claim, class.as_deref(), &driver, node.as_deref())
                    .await?;
            }
            ClaimPlan::Grow { volume, size } => self.grow(&claim, &volume, &size).await?,
            ClaimPlan::Modify { volume, target } => self.modify(&claim, &volume, &target).await?,
        }
        Ok(Next::AwaitChange)
    }

    fn plan_claim(&self, claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> ClaimPlan {
        let around = Surroundings {
            class,
            volumes: &self.volumes.list(),
            has_own: self.volumes.find("", &volume_name(claim)).is_some(),
        };
        plan::plan_claim(claim, &around)
    }

    async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        class: Option<&StorageClass>,
        driver: &str,
        node: Option<&str>,
    ) -> Result<(), Error> {
        let name = volume_name(claim);
        let fails = class.and_then(|class| class.parameters.get(FAILS));
        if fails.map(Istr::as_str) == Some("provision") {
            let message = "failed to provision volume: volumes of this class fail on purpose";
            self.emit_failure(claim, message.to_owned());
            return Ok(());
        }
        let attributes = claim.new_attributes();
        if let Some(missing) = attributes.filter(|name| self.attributes.find("", name).is_none()) {
            // The class wakes the claim when it comes.
            let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
            let message = format!(
                "failed to provision volume with StorageClass {class:?}: volumeattributesclasses.storage.k8s.io {missing:?} not found"
            );
            self.emit_failure(claim, message);
            return Ok(());
        }
        let policy = class
            .and_then(|class| class.reclaim_policy.as_deref())
            .unwrap_or("Delete");
        let mut spec = json!({
            "capacity": {"storage": claim.requested()},
            "accessModes": claim.spec.access_modes,
            "claimRef": claim_reference(claim),
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": claim.spec.storage_class_name,
            "csi": {"driver": csi_driver(driver), "volumeHandle": name},
        });
        if !claim.spec.volume_mode.is_empty() {
            spec["volumeMode"] = json!(claim.spec.volume_mode);
        }
        if let Some(attributes) = attributes {
            spec["volumeAttributesClassName"] = json!(attributes);
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
        let made = self
            .client
            .create(&PersistentVolume::TYPE, "", volume.to_string())
            .await;
        match made {
            // Made before a restart.
            Err(error) if error.is_already_exists() => return Ok(()),
            other => drop(other?),
        }
        let message = format!("Successfully provisioned volume {name}");
        self.recorder.event(
            &ObjectRef::of(claim),
            EventType::Normal,
            "ProvisioningSucceeded",
            message,
        );
        Ok(())
    }

    fn emit_failure(&self, claim: &PersistentVolumeClaim, message: String) {
        let object = ObjectRef::of(claim);
        self.recorder
            .event(&object, EventType::Warning, "ProvisioningFailed", message);
    }

    async fn sync_volume(&self, key: &Key) -> Result<Next, Error> {
        let Some(volume) = self.volumes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        if !plan::is_to_be_deleted(&volume) {
            return Ok(Next::AwaitChange);
        }
        let value = IndexValue::Text(Istr::new(&key.name));
        if let Some(held) = self.attachments.by(&BY_VOLUME, &value).first() {
            let node = &held.spec.node_name;
            let message = format!(
                "persistentvolume {} is still attached to node {node}",
                key.name
            );
            let object = ObjectRef::of(&*volume);
            self.recorder
                .event(&object, EventType::Warning, "VolumeFailedDelete", message);
            return Ok(Next::AwaitChange);
        }
        let options = DeleteOptions::exactly(&volume.metadata.uid);
        let deleted = self
            .client
            .delete(&PersistentVolume::TYPE, "", &key.name, &options)
            .await;
        tolerate_gone(deleted.map(|_| ()))?;
        Ok(Next::AwaitChange)
    }
}

impl Reconcile for ForClaims {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_claim(key).await
    }
}

impl Reconcile for ForVolumes {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_volume(key).await
    }
}

/// Makes the classes of the box, as far as there are none of their names: one that binds where the first consumer runs,
/// which is the default unless another one is, one that binds at once, and one whose volumes cannot be attached. Volumes
/// of all can grow.
pub(crate) async fn ensure_classes(
    client: &Client,
    classes: &Store<StorageClass>,
) -> Result<(), client::Error> {
    let has_default = classes
        .list()
        .iter()
        .any(|one| one.metadata.annotation(IS_DEFAULT) == Some("true"));
    let wanted = [
        (DEFAULT_CLASS, !has_default, "WaitForFirstConsumer"),
        ("immediate", false, "Immediate"),
        (BROKEN_CLASS, false, "WaitForFirstConsumer"),
    ];
    for (name, is_default, mode) in wanted {
        if classes.find("", name).is_some() {
            continue;
        }
        let parameters = (name == BROKEN_CLASS).then(|| json!({FAILS: "attach"}));
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "parameters": parameters,
            "metadata": {"name": name, "annotations": {IS_DEFAULT: is_default.to_string()}},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": mode,
            "allowVolumeExpansion": true,
        });
        match client
            .create(&StorageClass::TYPE, "", class.to_string())
            .await
        {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What a provisioner is called where its name has to be a domain: `disk.example.com` for `example.com/disk`.
fn csi_driver(provisioner: &str) -> Cow<'_, str> {
    match provisioner.split_once('/') {
        Some((domain, name)) => format!("{name}.{domain}").into(),
        None => provisioner.into(),
    }
}

fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid)
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

/// What is gone, or was recreated, needs no patch: the informer will say what is there.
fn tolerate_gone(outcome: Result<(), client::Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => Ok(other?),
    }
}
