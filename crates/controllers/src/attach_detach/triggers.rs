//! Which changes enqueue which volumes. A volume whose sync finds that a node's list should say something else enqueues the node.

use std::sync::Arc;

use api::Istr;
use api::kinds::{CsiDriver, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use runtime::controller::LoopKey;
use runtime::{Change, Loop};

use super::AttachDetach;
use super::names::csi_parts;

/// Nothing is decided before all caches are complete: what is not seen would be detached.
pub fn wait<K: LoopKey>(built: Loop<(), K>) -> Loop<(), K> {
    built
        .reads::<Pod>()
        .reads::<Node>()
        .reads::<PersistentVolumeClaim>()
        .reads::<PersistentVolume>()
        .reads::<VolumeAttachment>()
        .reads::<CsiDriver>()
}

pub fn listen(built: Loop<(), Istr>, to: &Arc<AttachDetach>) -> Loop<(), Istr> {
    let handler = || to.clone();
    let (pods, claims, volumes, attachments, drivers, nodes) = (
        handler(),
        handler(),
        handler(),
        handler(),
        handler(),
        handler(),
    );
    built
        .watches::<Pod>(move |change, _| pods.on_pod(change))
        .watches::<PersistentVolumeClaim>(move |change, _| claims.on_claim(change))
        .watches::<PersistentVolume>(move |change, _| volumes.on_volume(change))
        .watches::<VolumeAttachment>(move |change, _| attachments.on_attachment(change))
        .watches::<CsiDriver>(move |change, _| drivers.on_driver(change))
        .watches::<Node>(move |change, _| nodes.on_node(change))
}

impl AttachDetach {
    fn enqueue(&self, volumes: impl IntoIterator<Item = Istr>) {
        for volume in volumes {
            self.volume_queue.add(volume);
        }
    }

    fn on_pod(&self, change: Change<'_, Pod>) {
        let pod = change.object();
        let has_volumes = !pod.volumes().is_empty() || !pod.inline_volumes().is_empty();
        if !has_volumes || pod.node_name.is_empty() {
            return;
        }
        if let Change::Updated { old, new } = &change
            && old.node_name == new.node_name
            && old.metadata.uid == new.metadata.uid
            && old.has_left_volumes() == new.has_left_volumes()
        {
            return;
        }
        self.enqueue(self.caches.volumes_of(pod));
    }

    fn on_claim(&self, change: Change<'_, PersistentVolumeClaim>) {
        let claim = change.object();
        if !claim.spec.volume_name.is_empty() {
            self.enqueue(self.caches.volume_of_claim(claim));
        }
    }

    fn on_volume(&self, change: Change<'_, PersistentVolume>) {
        match change {
            Change::Added(volume) => self.enqueue(volume.unique_name()),
            Change::Updated { old, new } => {
                let before = old.unique_name();
                let after = new.unique_name();
                if before != after {
                    self.caches.note_orphans(old);
                    self.enqueue(before);
                }
                self.enqueue(after);
            }
            Change::Deleted(volume) => {
                self.caches.note_orphans(volume);
                self.enqueue(volume.unique_name());
            }
        }
    }

    fn on_attachment(&self, change: Change<'_, VolumeAttachment>) {
        let attachment = change.object();
        let volume = self.caches.volume_of(attachment);
        if let Change::Deleted(attachment) = &change {
            self.caches.note_detached(attachment);
        }
        if is_news_of_a_listing(&change)
            && let Some(volume) = &volume
        {
            let node = &attachment.spec.node_name;
            let memory = &self.caches.memory;
            memory.change(volume, node, |entry| entry.deleted = None);
        }
        self.enqueue(volume);
    }

    /// A driver that begins to attach, or stops to: all its volumes.
    fn on_driver(&self, change: Change<'_, CsiDriver>) {
        let driver = change.object();
        let volumes = self.caches.volumes.list();
        let names = volumes.iter().filter_map(|volume| volume.unique_name());
        self.enqueue(names.filter(|name| {
            csi_parts(name).is_some_and(|(held, _)| *held == *driver.metadata.name)
        }));
    }

    fn on_node(&self, change: Change<'_, Node>) {
        let name = Istr::new(&change.object().metadata.name);
        match change {
            Change::Updated { old, new } if is_alike(old, new) => {
                if old.status.volumes_attached == new.status.volumes_attached
                    && old.status.volumes_in_use == new.status.volumes_in_use
                {
                    return;
                }
                let lists = [&old.status.volumes_attached, &new.status.volumes_attached];
                let attached = lists.into_iter().flatten().map(|held| &held.name);
                let used = [&old.status.volumes_in_use, &new.status.volumes_in_use];
                let all = attached.chain(used.into_iter().flatten());
                // What is in both lists before and after has not changed.
                let is_news = |volume: &&Istr| {
                    old.lists_attached(volume) != new.lists_attached(volume)
                        || old.uses_volume(volume) != new.uses_volume(volume)
                };
                self.enqueue(all.filter(is_news).cloned());
            }
            Change::Deleted(node) => {
                self.caches.note_vanished(node);
                self.enqueue(self.caches.volumes_on(&name));
            }
            Change::Added(_) | Change::Updated { .. } => {
                self.caches.note_node(&name);
                self.enqueue(self.caches.volumes_on(&name));
            }
        }
    }
}

/// Is the object there whatever was deleted before? It comes back, or is told again after a listing, if the server was
/// restored from a backup.
fn is_news_of_a_listing(change: &Change<'_, VolumeAttachment>) -> bool {
    match change {
        Change::Added(_) => true,
        Change::Updated { old, new } => Arc::ptr_eq(old, new),
        Change::Deleted(_) => false,
    }
}

/// Do both say the same of how volumes are dealt with?
fn is_alike(old: &Node, new: &Node) -> bool {
    old.metadata.uid == new.metadata.uid
        && old.is_attach_managed() == new.is_attach_managed()
        && old.is_ready() == new.is_ready()
        && old.spec.taints == new.spec.taints
}
