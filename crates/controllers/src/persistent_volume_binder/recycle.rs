//! Volumes whose claim is gone: released, then retained, deleted or emptied by a pod.

use std::sync::Arc;

use api::decision::Line;
use api::kinds::{PersistentVolume, Pod};
use api::{Istr, Key, ObjectId, Resource};
use client::DeleteOptions;
use runtime::{Error, IndexValue, Report};
use serde_json::Value;

use super::Binder;
use super::annotations::DELETED_BY_US;
use super::apply::set_finalizers;
use super::claim::Event;
use super::reclaim::{
    self, HOST_PATH, RECYCLER_NAMESPACE, Reclaim, Recycling, has_recycler, recycler, recycler_name,
    recycling,
};
use super::volume::is_released;
use crate::storage::claim_users;

impl Binder {
    pub(super) async fn reclaim(
        &self,
        volume: &Arc<PersistentVolume>,
        report: &Report<'_>,
    ) -> Result<(), Error> {
        let volume = match volume.status.phase.as_str() {
            "Released" | "Failed" => volume.clone(),
            _ => self.put_phase(volume, "Released", "").await?,
        };
        let planned = reclaim::plan(&volume);
        match planned {
            Reclaim::Leave => Ok(()),
            Reclaim::Fail(event) => self.fail(&volume, &event).await,
            Reclaim::FailDelete(event) => {
                self.metrics.failed(HOST_PATH, "delete");
                self.fail(&volume, &event).await
            }
            Reclaim::Delete => {
                let line = Line::acts("Deletes", "deletes it").because("its claim is gone");
                report.decide(ObjectId::of(&*volume), [line]);
                self.delete(&volume).await
            }
            Reclaim::Recycle => self.recycle(&volume, report).await,
        }
    }

    async fn fail(&self, volume: &Arc<PersistentVolume>, event: &Event) -> Result<(), Error> {
        if volume.status.phase == "Failed" {
            return Ok(());
        }
        let failed = self.put_phase(volume, "Failed", &event.message).await?;
        self.emit(&*failed, Some(event));
        Ok(())
    }

    /// The volume as the API server has it, if it is still released.
    async fn released(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolume>>, Error> {
        let client = &self.context.client;
        let live = match client
            .get_as::<PersistentVolume>("", &volume.metadata.name)
            .await
        {
            Ok(live) if live.metadata.uid == volume.metadata.uid => live,
            Ok(_) => return Ok(None),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let held = live.spec.claim_ref.as_ref();
        let key = held.map(|held| Key::new(&held.namespace, &held.name));
        let claim = key.and_then(|key| self.claims.get(&key));
        Ok(is_released(&live, claim.as_deref()).then(|| Arc::new(live)))
    }

    /// The finalizer that is ours goes first, then the object.
    async fn delete(&self, volume: &Arc<PersistentVolume>) -> Result<(), Error> {
        let Some(mut live) = self.released(volume).await? else {
            return Ok(());
        };
        if live.metadata.has_finalizer(DELETED_BY_US) {
            let held = live.metadata.finalizers.iter();
            let wanted: Vec<Istr> = held
                .filter(|name| *name != DELETED_BY_US)
                .cloned()
                .collect();
            let edit = |whole: &mut _| set_finalizers(whole, &wanted);
            live = self.edit(&self.volumes, &live, None, edit).await?;
        }
        if live.metadata.is_terminating() {
            return Ok(());
        }
        let options = DeleteOptions::exactly(&live.metadata.uid);
        let client = &self.context.client;
        let deleted = client
            .delete(&PersistentVolume::TYPE, "", &live.metadata.name, &options)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn recycle(
        &self,
        volume: &Arc<PersistentVolume>,
        report: &Report<'_>,
    ) -> Result<(), Error> {
        let Some(live) = self.released(volume).await? else {
            return Ok(());
        };
        if let Some(users) = self.users_of_released(&live) {
            let message = format!("Volume is used by pods: {users}");
            let line = Line::waits("InUse", format!("waits until {users} is over"));
            report.decide(ObjectId::of(&*live), [line.because("a pod still uses it")]);
            self.emit(&*live, Some(&Event::normal("VolumeFailedRecycle", message)));
            return Ok(());
        }
        if !has_recycler(&live) {
            let why = "No recycler plugin found for the volume!";
            let event = Event::warning("VolumeFailedRecycle", why);
            return self.fail(&live, &event).await;
        }
        let name = recycler_name(&live.metadata.name);
        let pod = self.pods.find(RECYCLER_NAMESPACE, &name);
        let step = recycling(pod.as_deref());
        let line = match step {
            Recycling::Start => Line::acts("Recycles", format!("empties it by pod {name}")),
            Recycling::Wait => Line::waits("Recycles", format!("waits for pod {name} to empty it")),
            Recycling::Done => Line::acts("Recycled", "is free again").because("it was emptied"),
            Recycling::Failed => {
                Line::acts("RecycleFailed", format!("pod {name} could not empty it"))
            }
        };
        report.decide(ObjectId::of(&*live), [line]);
        match (step, pod) {
            (Recycling::Start, _) => self.start_recycler(&live).await,
            (Recycling::Done, Some(pod)) => self.finish_recycling(&live, &pod).await,
            (Recycling::Failed, Some(pod)) => {
                let why = self.remove_recycler(&pod).await?;
                let why =
                    why.unwrap_or_else(|| "pod failed, pod.Status.Message unknown".to_owned());
                self.fail_recycling(&live, &format!("failed to recycle volume: {why}"))
                    .await
            }
            _ => Ok(()),
        }
    }

    /// Pods that are not over and name the claim, unless another claim of that name is theirs.
    fn users_of_released(&self, volume: &PersistentVolume) -> Option<String> {
        let held = volume.spec.claim_ref.as_ref()?;
        if self
            .claims
            .get(&Key::new(&held.namespace, &held.name))
            .is_some()
        {
            return None;
        }
        let value = IndexValue::In(held.namespace.clone(), held.name.clone());
        let mut pods = self.pods.by(&claim_users::BY_CLAIM, &value);
        pods.retain(|pod| !pod.is_finished());
        let mut names: Vec<String> = pods.iter().map(|pod| pod.key().to_string()).collect();
        names.sort();
        (!names.is_empty()).then(|| names.join(","))
    }

    async fn start_recycler(&self, volume: &Arc<PersistentVolume>) -> Result<(), Error> {
        let settings = &self.settings.volume_configuration;
        let pod = recycler(volume, &settings.persistent_volume_recycler_configuration);
        let client = &self.context.client;
        let created = client
            .create_metadata_only(&Pod::TYPE, RECYCLER_NAMESPACE, pod.to_string())
            .await;
        match created {
            Ok(_) => Ok(()),
            // The cache has not seen it.
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => {
                let why = format!("unexpected error creating recycler pod:  {error}");
                self.fail_recycling(volume, &why).await
            }
        }
    }

    /// The pod goes before the volume is free: one that has done its work must not be taken for the next one's.
    async fn finish_recycling(
        &self,
        volume: &Arc<PersistentVolume>,
        pod: &Pod,
    ) -> Result<(), Error> {
        let client = &self.context.client;
        let meta = &pod.metadata;
        // The cache may show a pod that is long gone.
        let live = client.get_as::<Pod>(&meta.namespace, &meta.name).await;
        match live {
            Ok(live) if live.metadata.uid == meta.uid => {}
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.remove_recycler(pod).await?;
        self.emit(
            &**volume,
            Some(&Event::normal("VolumeRecycled", "Volume recycled")),
        );
        self.unbind(volume).await
    }

    async fn fail_recycling(&self, volume: &Arc<PersistentVolume>, why: &str) -> Result<(), Error> {
        let event = Event::warning("VolumeFailedRecycle", format!("Recycle failed: {why}"));
        self.fail(volume, &event).await
    }

    /// Deletes a recycler's pod; what its status said, if anything.
    async fn remove_recycler(&self, pod: &Pod) -> Result<Option<String>, Error> {
        let (client, meta) = (&self.context.client, &pod.metadata);
        let (namespace, name) = (&meta.namespace, &meta.name);
        let said = match client.get(&Pod::TYPE, namespace, name).await {
            Ok(body) => {
                let whole: Value = serde_json::from_slice(&body).unwrap_or_default();
                whole["status"]["message"].as_str().map(str::to_owned)
            }
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let options = DeleteOptions::exactly(&meta.uid);
        match client.delete(&Pod::TYPE, namespace, name, &options).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(said),
        }
    }
}
