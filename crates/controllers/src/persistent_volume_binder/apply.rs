//! Everything that is written to claims and volumes. Decides nothing.

use std::sync::Arc;

use api::decision::Line;
use api::json::Node;
use api::kinds::{PersistentVolume, PersistentVolumeClaim, Rewritten, migrated_to};
use api::{Istr, ObjectId, Quantity};
use runtime::{Error, Report};
use serde_json::json;

use super::annotations::{
    BETA_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_TO, Migration, PROVISIONER,
    finalizers, migration_of_claim, migration_of_volume,
};
use super::claim::{Event, StatusChange, status_change};
use super::matching::is_bound_to;
use super::{Binder, Latest};
use crate::storage::live::Live;

/// What an earlier write of the same sync left, if there was one.
type Draft<K> = Option<Live<K>>;

const ANNOTATIONS: [&str; 2] = ["metadata", "annotations"];

impl Binder {
    /// Both sides are told of each other, in upstream's order, as far as they are not.
    pub(super) async fn bind(
        &self,
        volume: &Arc<PersistentVolume>,
        claim: &Arc<PersistentVolumeClaim>,
        report: &Report<'_>,
    ) -> Result<(), Error> {
        let names_it = volume
            .spec
            .claim_ref
            .as_ref()
            .is_some_and(|held| is_bound_to(volume, claim) && held.uid == claim.metadata.uid);
        let (volume_name, claim_name) = (&volume.metadata.name, &claim.spec.volume_name);
        let is_named = **claim_name == **volume_name;
        let is_completed = claim.metadata.annotation(BIND_COMPLETED).is_some();
        if !names_it || !is_named || !is_completed {
            let line = Line::acts("Binds", format!("binds it to volume {volume_name}"));
            report.decide(ObjectId::of(&**claim), [line]);
        }
        let (mut volume_draft, mut claim_draft) = (None, None);
        let volume = match names_it {
            true => volume.clone(),
            false => {
                let reserved = self.reserved.reserve(volume_name);
                let _until_it_is_written = reserved.ok_or_else(|| {
                    Error::Retry(format!("volume {volume_name} is just being bound"))
                })?;
                self.name_claim(&mut volume_draft, volume, claim).await?
            }
        };
        let volume = self
            .put_phase_of(&mut volume_draft, &volume, "Bound", "")
            .await?;
        let claim = match is_named && is_completed {
            true => claim.clone(),
            false => {
                self.name_volume(&mut claim_draft, claim, volume_name)
                    .await?
            }
        };
        self.put_claim_status_of(&mut claim_draft, &claim, "Bound", Some(&volume))
            .await
    }

    /// The volume names the claim.
    async fn name_claim(
        &self,
        draft: &mut Draft<PersistentVolume>,
        volume: &Arc<PersistentVolume>,
        claim: &PersistentVolumeClaim,
    ) -> Result<Arc<PersistentVolume>, Error> {
        let meta = &claim.metadata;
        let reference = json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": meta.namespace, "name": meta.name,
            "uid": meta.uid, "resourceVersion": meta.resource_version.to_string(),
        });
        // A user who named the claim chose it.
        let is_chosen = is_bound_to(volume, claim);
        self.edit_on(draft, &self.volumes, volume, None, |whole| {
            whole.set(&["spec", "claimRef"], Node::of(&reference));
            if !is_chosen {
                annotate(whole, BOUND_BY_CONTROLLER, "yes");
            }
        })
        .await
    }

    /// The claim names the volume.
    async fn name_volume(
        &self,
        draft: &mut Draft<PersistentVolumeClaim>,
        claim: &Arc<PersistentVolumeClaim>,
        volume: &str,
    ) -> Result<Arc<PersistentVolumeClaim>, Error> {
        let is_chosen = *claim.spec.volume_name == *volume;
        self.edit_on(draft, &self.claims, claim, None, |whole| {
            whole.set(&["spec", "volumeName"], Node::text(volume));
            if !is_chosen {
                annotate(whole, BOUND_BY_CONTROLLER, "yes");
            }
            annotate(whole, BIND_COMPLETED, "yes");
        })
        .await
    }

    /// Takes a volume back from the claim that it names. A user's choice stays, without the uid of that claim.
    pub(super) async fn unbind(&self, volume: &Arc<PersistentVolume>) -> Result<(), Error> {
        let mut draft = None;
        let is_ours = volume.metadata.annotation(BOUND_BY_CONTROLLER).is_some();
        let unbound = self
            .edit_on(
                &mut draft,
                &self.volumes,
                volume,
                None,
                |whole| match is_ours {
                    true => {
                        whole.remove(&["spec", "claimRef"]);
                        whole.remove(&["metadata", "annotations", BOUND_BY_CONTROLLER]);
                    }
                    false => drop(whole.remove(&["spec", "claimRef", "uid"])),
                },
            )
            .await?;
        self.put_phase_of(&mut draft, &unbound, "Available", "")
            .await
            .map(drop)
    }

    pub(super) async fn put_phase(
        &self,
        volume: &Arc<PersistentVolume>,
        phase: &str,
        message: &str,
    ) -> Result<Arc<PersistentVolume>, Error> {
        self.put_phase_of(&mut None, volume, phase, message).await
    }

    async fn put_phase_of(
        &self,
        draft: &mut Draft<PersistentVolume>,
        volume: &Arc<PersistentVolume>,
        phase: &str,
        message: &str,
    ) -> Result<Arc<PersistentVolume>, Error> {
        if volume.status.phase == phase {
            return Ok(volume.clone());
        }
        self.edit_on(draft, &self.volumes, volume, Some("status"), |whole| {
            whole.set(&["status", "phase"], Node::text(phase));
            match message {
                "" => drop(whole.remove(&["status", "message"])),
                message => whole.set(&["status", "message"], Node::text(message)),
            }
        })
        .await
    }

    pub(super) async fn put_claim_status(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        phase: &'static str,
        volume: Option<&PersistentVolume>,
    ) -> Result<(), Error> {
        self.put_claim_status_of(&mut None, claim, phase, volume)
            .await
    }

    async fn put_claim_status_of(
        &self,
        draft: &mut Draft<PersistentVolumeClaim>,
        claim: &Arc<PersistentVolumeClaim>,
        phase: &'static str,
        volume: Option<&PersistentVolume>,
    ) -> Result<(), Error> {
        let change =
            status_change(claim, phase, volume, self.context.gates).map_err(Error::Retry)?;
        if change.is_empty() {
            return Ok(());
        }
        let edit = |whole: &mut Node| apply_status(whole, &change);
        self.edit_on(draft, &self.claims, claim, Some("status"), edit)
            .await
            .map(drop)
    }

    pub(super) async fn assign_class(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        class: &str,
    ) -> Result<(), Error> {
        let edit = |whole: &mut Node| {
            whole.set(&["spec", "storageClassName"], Node::text(class));
        };
        let written = self.edit(&self.claims, claim, None, edit).await;
        self.metrics.class_assigned(written.is_ok());
        written.map(drop)
    }

    /// Says in the claim who is to make a volume for it.
    pub(super) async fn ask_provisioner(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        provisioner: &str,
    ) -> Result<(), Error> {
        if claim.metadata.annotation(PROVISIONER) == Some(provisioner) {
            return Ok(());
        }
        let edit = |whole: &mut Node| {
            annotate(whole, BETA_PROVISIONER, provisioner);
            annotate(whole, PROVISIONER, provisioner);
            match migrated_to(provisioner) {
                Some(driver) => annotate(whole, MIGRATED_TO, driver),
                None => drop(whole.remove(&["metadata", "annotations", MIGRATED_TO])),
            }
        };
        let written = self.edit(&self.claims, claim, None, edit).await;
        if let Err(error) = &written {
            let message = format!("Error saving claim: {error}");
            let event = Event::warning("ProvisioningFailed", message);
            self.emit(&**claim, Some(&event));
            self.metrics.failed(provisioner, "provision");
        }
        written.map(drop)
    }

    /// Fixes what a claim says about who has taken over from its provisioner.
    pub(super) async fn anneal_claim(
        &self,
        claim: Arc<PersistentVolumeClaim>,
    ) -> Result<Arc<PersistentVolumeClaim>, Error> {
        let Some(migration) = migration_of_claim(&claim) else {
            return Ok(claim);
        };
        let edit = |whole: &mut Node| migrate(whole, migration);
        self.edit(&self.claims, &claim, None, edit).await
    }

    /// The same for a volume, and its finalizers that say who deletes it.
    pub(super) async fn anneal_volume(
        &self,
        volume: Arc<PersistentVolume>,
    ) -> Result<Arc<PersistentVolume>, Error> {
        let (migration, mut wanted) = (migration_of_volume(&volume), finalizers(&volume));
        if volume.metadata.is_terminating() {
            // None can be added any more.
            wanted = wanted.filter(|wanted| wanted.len() < volume.metadata.finalizers.len());
        }
        if migration.is_none() && wanted.is_none() {
            return Ok(volume);
        }
        self.edit(&self.volumes, &volume, None, |whole| {
            if let Some(migration) = migration {
                migrate(whole, migration);
            }
            if let Some(wanted) = &wanted {
                set_finalizers(whole, wanted);
            }
        })
        .await
    }

    /// Writes an object on top of the revision that was decided on, and notes what came of it.
    pub(super) async fn edit<K: Rewritten>(
        &self,
        latest: &Latest<K>,
        object: &Arc<K>,
        subresource: Option<&str>,
        edit: impl FnOnce(&mut Node),
    ) -> Result<Arc<K>, Error> {
        self.edit_on(&mut None, latest, object, subresource, edit)
            .await
    }

    /// As `edit`, for one of several writes in a row: each changes what the API server answered to the one before. For
    /// the first of them the object is read, unless the cache has the whole of it.
    async fn edit_on<K: Rewritten>(
        &self,
        draft: &mut Draft<K>,
        latest: &Latest<K>,
        object: &Arc<K>,
        subresource: Option<&str>,
        edit: impl FnOnce(&mut Node),
    ) -> Result<Arc<K>, Error> {
        let client = &self.context.client;
        let mut live = match draft.take().or_else(|| Live::kept(object)) {
            Some(live) => live,
            None => Live::read_unchanged(client, object.meta()).await?,
        };
        live.put(client, subresource, edit).await?;
        let written = live.view.clone();
        latest.note(written.clone());
        *draft = Some(live);
        Ok(written)
    }
}

fn annotate(whole: &mut Node, key: &str, value: &str) {
    let annotations = whole.entry(&ANNOTATIONS);
    if annotations.is_null() {
        *annotations = Node::object();
    }
    annotations.set(&[key], Node::text(value));
}

fn migrate(whole: &mut Node, migration: Migration) {
    match migration {
        Migration::To(driver) => annotate(whole, MIGRATED_TO, driver),
        Migration::Off => drop(whole.remove(&["metadata", "annotations", MIGRATED_TO])),
    }
}

pub(super) fn set_finalizers(whole: &mut Node, wanted: &[Istr]) {
    match wanted.is_empty() {
        true => drop(whole.remove(&["metadata", "finalizers"])),
        false => whole.set(&["metadata", "finalizers"], Node::of(&wanted)),
    }
}

fn apply_status(whole: &mut Node, change: &StatusChange) {
    if let Some(phase) = change.phase {
        whole.set(&["status", "phase"], Node::text(phase));
    }
    let size = |held: &Quantity| Node::of(&json!({"storage": held}));
    let modes = change.access_modes.as_ref();
    let storage = change.storage.as_ref();
    let class = change.attributes_class.as_ref();
    let fields = [
        ("accessModes", modes.map(|held| held.as_ref().map(Node::of))),
        ("capacity", storage.map(|held| held.as_ref().map(size))),
        (
            "currentVolumeAttributesClassName",
            class.map(|held| held.as_ref().map(Node::of)),
        ),
    ];
    for (name, value) in fields {
        match value {
            Some(Some(value)) => whole.set(&["status", name], value),
            Some(None) => drop(whole.remove(&["status", name])),
            None => {}
        }
    }
}
