//! Carries plans out: creates and deletes attachments, patches the lists of nodes, emits events. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{AttachedVolume, Node, Pod, VolumeAttachment};
use api::{Istr, Key, MicroTime, ObjectId, Resource};
use client::{DeleteOptions, ListOptions, Patch};
use runtime::events::ObjectRef;
use runtime::{Error, EventType, Next, Report};
use serde_json::{Value, json};

use super::AttachDetach;
use super::memory::ATTACH_TIMEOUT;
use super::names::{attachment_name, csi_parts};
use super::plan::{Force, Place, Plan, Snapshot, Source, Step};
use super::{inline, reason};

/// What is true until a time is no longer true a moment after it.
const A_MOMENT: Duration = Duration::from_millis(1);

impl AttachDetach {
    /// Does everything that one plan asks for; the first failure is returned, and does not keep the rest from being
    /// done.
    pub(super) async fn apply(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        report: &Report<'_>,
        now: MicroTime,
    ) -> Result<Next, Error> {
        self.decide(snapshot, plan, report);
        let mut waits = Vec::new();
        let mut failure = None;
        for (node, step) in &plan.steps {
            let place = &snapshot.places[node];
            if plan.lists(snapshot, node) != place.is_listed {
                self.node_queue.add(node.clone());
            }
            let done = match step {
                Step::Attach => self.attach(snapshot, node, place).await,
                Step::Detach { force } => self.detach(snapshot, node, place, *force, now).await,
                Step::Keep => {
                    self.announce(snapshot, node, place);
                    Ok(())
                }
                Step::AwaitAttach { error } => {
                    let error = error.as_deref();
                    waits.push(self.await_attach(snapshot, node, place, error, now));
                    Ok(())
                }
                Step::Blocked { by } => {
                    self.emit_blocked(snapshot, node, place, by);
                    Ok(())
                }
                Step::Refuse { driver } => {
                    self.refuse(snapshot, node, place, driver);
                    Ok(())
                }
                Step::AwaitUnmount { until } => {
                    let wait = until.map(|at| at.since(now) + A_MOMENT);
                    waits.push(wait);
                    Ok(())
                }
                Step::AwaitDeletion | Step::AwaitDetach { .. } => {
                    let deleted = place.memory.deleted.as_ref();
                    waits.push(deleted.map(|held| held.until.since(now) + A_MOMENT));
                    Ok(())
                }
                Step::List | Step::Unlist => Ok(()),
            };
            failure = failure.or(done.err());
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(Next::after_first(waits)),
        }
    }

    /// Puts on record what is about to happen: for the pods that it is about, and for the volume.
    fn decide(&self, snapshot: &Snapshot, plan: &Plan, report: &Report<'_>) {
        let mut about_volume: Vec<Line> = Vec::new();
        for (node, step) in &plan.steps {
            let place = &snapshot.places[node];
            let is_old = matches!(step, Step::Keep) && place.memory.is_announced;
            if is_old {
                continue;
            }
            let line = reason::line(snapshot, plan, node, step);
            for pod in &place.pods {
                report.decide(ObjectId::of(&**pod), [line.clone()]);
            }
            about_volume.push(line);
        }
        if let Some(object) = &snapshot.object
            && !about_volume.is_empty()
        {
            report.decide(ObjectId::of(&**object), about_volume);
        }
    }

    async fn attach(&self, snapshot: &Snapshot, node: &Istr, place: &Place) -> Result<(), Error> {
        let (driver, handle) = csi_parts(&snapshot.volume).unwrap_or_default();
        let source = match &place.source {
            Some(Source::Volume(name)) => json!({"persistentVolumeName": name}),
            Some(Source::Inline(pod, volume)) => {
                let spec = self.inline_spec(snapshot, pod, volume).await?;
                json!({"inlineVolumeSpec": spec})
            }
            None => return Ok(()),
        };
        let body = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": attachment_name(driver, handle, node)},
            "spec": {"attacher": driver, "nodeName": node, "source": source},
        });
        let kind = VolumeAttachment::TYPE;
        let created = self
            .context
            .client
            .create(&kind, "", body.to_string())
            .await;
        match created {
            Ok(body) => {
                if let Ok(attachment) = VolumeAttachment::decode(&body) {
                    let key = Key::new("", &snapshot.volume);
                    let revision = attachment.metadata.resource_version;
                    self.consistency.note::<VolumeAttachment>(&key, revision);
                }
                Ok(())
            }
            // The cache will say so in a moment.
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => {
                let text = format!("kubernetes.io/csi: attacher.Attach failed: {error}");
                let message = reason::failed(&snapshot.name, &text);
                self.emit(&place.pods, EventType::Warning, reason::FAILED, &message);
                Err(error.into())
            }
        }
    }

    /// What a driver is told of a volume that stands in a pod. The cache does not keep that much of pods.
    async fn inline_spec(
        &self,
        snapshot: &Snapshot,
        pod: &Key,
        volume: &str,
    ) -> Result<Value, Error> {
        let retry = |error: String| Error::Retry(error);
        // Upstream's role may list pods, and not get them.
        let options = ListOptions {
            field_selector: Some(format!("metadata.name={}", pod.name)),
            ..ListOptions::default()
        };
        let (client, kind) = (&self.context.client, Pod::TYPE);
        let page = client.list(&kind, &pod.namespace, &options).await?;
        let body = page.items.first().map_or(&b"{}"[..], |item| item);
        let whole: Value =
            serde_json::from_slice(body).map_err(|error| retry(error.to_string()))?;
        let volumes = whole["spec"]["volumes"].as_array();
        let mut volumes = volumes.into_iter().flatten();
        let found = volumes.find(|one| one["name"] == *volume);
        let spec = found.and_then(|one| inline::spec_of(one, &snapshot.volume, &pod.namespace));
        spec.ok_or_else(|| retry(format!("pod {pod} has no volume {volume} any more")))
    }

    async fn detach(
        &self,
        snapshot: &Snapshot,
        node: &Istr,
        place: &Place,
        force: Option<Force>,
        now: MicroTime,
    ) -> Result<(), Error> {
        let Some(attachment) = &place.attachment else {
            return Ok(());
        };
        let client = &self.context.client;
        if force.is_none() {
            self.check_unused(snapshot, node).await?;
        }
        let meta = &attachment.metadata;
        let options = DeleteOptions {
            uid: Some(meta.uid.clone()),
            ..DeleteOptions::default()
        };
        match client
            .delete(&VolumeAttachment::TYPE, "", &meta.name, &options)
            .await
        {
            // A conflict is no proof that it is gone: somebody may have written to it at the same time.
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        if let Some(force) = force {
            self.metrics.on_forced(force);
        }
        let uid = meta.uid.clone();
        self.caches
            .memory
            .change(&snapshot.volume, node, |entry| entry.on_deleted(uid, now));
        Ok(())
    }

    /// The kubelet may have begun to use the volume while the cache did not look.
    async fn check_unused(&self, snapshot: &Snapshot, node: &Istr) -> Result<(), Error> {
        let node = match self.context.client.get_as::<Node>("", node).await {
            Ok(node) => node,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match node.uses_volume(&snapshot.volume) {
            false => Ok(()),
            true => Err(Error::Retry(format!(
                "DetachVolume failed for volume \"{}\": volume is still in use by node, according to Node status",
                snapshot.name
            ))),
        }
    }

    /// Tells pods that what they waited for is there.
    fn announce(&self, snapshot: &Snapshot, node: &Istr, place: &Place) {
        let memory = &place.memory;
        let is_news = memory.awaited_since.is_some() || !place.is_listed;
        if is_news && !memory.is_announced {
            let message = reason::attached(&snapshot.name);
            self.emit(&place.pods, EventType::Normal, reason::ATTACHED, &message);
        }
        self.caches.memory.change(&snapshot.volume, node, |entry| {
            entry.is_announced = true;
            (entry.awaited_since, entry.failures) = (None, 0);
        });
    }

    /// Tells pods what is wrong, now and then. When is the next time?
    fn await_attach(
        &self,
        snapshot: &Snapshot,
        node: &Istr,
        place: &Place,
        error: Option<&str>,
        now: MicroTime,
    ) -> Option<Duration> {
        let memory = &place.memory;
        if let Some(message) = reason::due_failure(snapshot, error, memory, now) {
            self.emit(&place.pods, EventType::Warning, reason::FAILED, &message);
            let mut wait = None;
            self.caches.memory.change(&snapshot.volume, node, |entry| {
                wait = Some(entry.on_failure(now));
            });
            return match error {
                Some(_) => wait,
                None => Some(ATTACH_TIMEOUT),
            };
        }
        let since = memory.awaited_since.unwrap_or(now);
        let at = match error {
            Some(_) => memory.told_again_at,
            None => since.plus(ATTACH_TIMEOUT),
        };
        Some(at.since(now))
    }

    fn emit_blocked(&self, snapshot: &Snapshot, node: &Istr, place: &Place, by: &[Istr]) {
        if place.memory.is_blocked_told {
            return;
        }
        for pod in &place.pods {
            let message = reason::multi_attach(snapshot, by, pod);
            let pod = std::slice::from_ref(pod);
            self.emit(pod, EventType::Warning, reason::FAILED, &message);
        }
        self.caches
            .memory
            .change(&snapshot.volume, node, |entry| entry.is_blocked_told = true);
    }

    fn refuse(&self, snapshot: &Snapshot, node: &Istr, place: &Place, driver: &str) {
        if place.memory.is_blocked_told {
            return;
        }
        let message = reason::refused(&snapshot.name, driver);
        self.emit(&place.pods, EventType::Warning, reason::FAILED, &message);
        self.caches
            .memory
            .change(&snapshot.volume, node, |entry| entry.is_blocked_told = true);
    }

    fn emit(&self, pods: &[Arc<Pod>], kind: EventType, reason: &'static str, message: &str) {
        for pod in pods {
            let object = ObjectRef::of(&**pod);
            self.context.recorder.event(&object, kind, reason, message);
        }
    }

    /// Writes the list of a node.
    pub(super) async fn put_list(&self, node: &Node, list: &[AttachedVolume]) -> Result<(), Error> {
        let meta = &node.metadata;
        // UPSTREAM: an empty list is left out.
        let list = (!list.is_empty()).then_some(list);
        let patch = json!({"metadata": {"uid": meta.uid}, "status": {"volumesAttached": list}});
        let patch = Patch::Merge(patch.to_string().into());
        let (client, kind) = (&self.context.client, Node::TYPE);
        match client
            .patch(&kind, "", &meta.name, Some("status"), &patch)
            .await
        {
            Ok(body) => {
                if let Ok(node) = Node::decode(&body) {
                    self.caches.nodes.note(Arc::new(node));
                }
                Ok(())
            }
            // Of a conflict nobody knows more: others write to nodes all the time, or another one has its name.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
