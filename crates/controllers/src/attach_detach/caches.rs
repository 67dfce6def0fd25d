//! What the caches say of one volume: where it is attached, and which pods need it where.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{CsiDriver, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use api::{Istr, Key, Resource};
use parking_lot::Mutex;
use runtime::{Context, Index, IndexValue, Store};

use super::memory::Memory;
use super::names::{
    BY_ATTACHED_NODE, BY_INLINE_SPEC, BY_INLINE_VOLUME, BY_NODE, BY_UNIQUE_NAME, BY_VOLUME,
    attachment_name, csi_parts, flex_driver, inline_name, is_built_in,
};
use super::plan::{Attacher, Place, Snapshot, Source};
use super::users::Users;
use crate::storage::claim_users::{self, stands_for};
use crate::storage::latest::Latest;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub struct Caches {
    pub pods: Arc<Store<Pod>>,
    pub claims: Arc<Store<PersistentVolumeClaim>>,
    pub volumes: Arc<Store<PersistentVolume>>,
    pub nodes: Latest<Node>,
    pub attachments: Arc<Store<VolumeAttachment>>,
    pub drivers: Arc<Store<CsiDriver>>,
    pub memory: Memory,
    users: Users,
    /// What nodes that are gone had in use when they were last seen, as long as anything is attached to them.
    vanished: Mutex<HashMap<Istr, Box<[Istr]>>>,
    /// What attachments are of whose PersistentVolume is gone: their names do not tell.
    orphans: Mutex<HashMap<Arc<str>, Istr>>,
}

impl Caches {
    pub fn new(context: &Context) -> Caches {
        let informers = &context.informers;
        let pods = informers.of::<Pod>();
        pods.add_index(&claim_users::BY_CLAIM);
        pods.add_index(&BY_INLINE_VOLUME);
        pods.add_index(&BY_NODE);
        let volumes = informers.of::<PersistentVolume>();
        volumes.add_index(&BY_UNIQUE_NAME);
        informers.of::<Node>().add_index(&LISTED_ON);
        let attachments = informers.of::<VolumeAttachment>();
        attachments.add_index(&BY_VOLUME);
        attachments.add_index(&BY_INLINE_SPEC);
        attachments.add_index(&BY_ATTACHED_NODE);
        Caches {
            pods: pods.store().clone(),
            claims: informers.store(),
            volumes: volumes.store().clone(),
            nodes: Latest::new(informers.store()),
            attachments: attachments.store().clone(),
            drivers: informers.store(),
            memory: Memory::default(),
            users: Users::default(),
            vanished: Mutex::default(),
            orphans: Mutex::default(),
        }
    }

    pub fn snapshot(&self, volume: &Istr) -> Snapshot {
        let mut snapshot = Snapshot {
            volume: volume.clone(),
            attacher: self.attacher_of(volume),
            is_shared: true,
            name: csi_parts(volume)
                .map_or(&**volume, |(_, handle)| handle)
                .to_owned(),
            ..Snapshot::default()
        };
        let objects = by(&self.volumes, &BY_UNIQUE_NAME, volume);
        for object in &objects {
            self.add_claimed(object, &mut snapshot);
        }
        self.add_inline(volume, &mut snapshot);
        if let Some(object) = objects.into_iter().next() {
            snapshot.name = object.metadata.name.to_string();
            snapshot.is_shared = object.spec.is_shared();
            snapshot.object = Some(object);
        }
        for attachment in self.attachments_of(volume) {
            let node = attachment.spec.node_name.clone();
            snapshot.places.entry(node).or_default().attachment = Some(attachment);
        }
        self.add_listed(volume, &mut snapshot);
        self.add_remembered(volume, &mut snapshot);
        let mut memory = self.memory.of(volume);
        for (node, place) in &mut snapshot.places {
            place.memory = memory.remove(node).unwrap_or_default();
            self.read_node(volume, node, place);
            place.pods.sort_by_key(|pod| pod.metadata.key());
        }
        snapshot
    }

    fn attacher_of(&self, volume: &str) -> Attacher {
        if is_built_in(volume) {
            return Attacher::Kubelet;
        }
        if let Some(driver) = flex_driver(volume) {
            return Attacher::Program(Istr::new(driver));
        }
        let driver = csi_parts(volume).and_then(|(driver, _)| self.drivers.find("", driver));
        match driver.is_some_and(|driver| driver.spec.attach_required == Some(false)) {
            true => Attacher::Needless,
            false => Attacher::Driver,
        }
    }

    /// Pods that need the volume through its claim.
    fn add_claimed(&self, object: &PersistentVolume, snapshot: &mut Snapshot) {
        let Some(claim) = self.claim_of(object) else {
            return;
        };
        let value = claim_users::users_of(&claim);
        for pod in self.pods.by(&claim_users::BY_CLAIM, &value) {
            let mut volumes = pod.volumes().iter();
            if needs_volumes(&pod) && volumes.any(|volume| stands_for(&pod, volume, &claim)) {
                let place = snapshot.places.entry(pod.node_name.clone()).or_default();
                place.source = Some(Source::Volume(Istr::new(&object.metadata.name)));
                self.users.add(&snapshot.volume, &pod);
                place.pods.push(pod);
            }
        }
    }

    /// Pods that have needed the volume and are still there: their claim may be gone.
    fn add_remembered(&self, volume: &Istr, snapshot: &mut Snapshot) {
        for (key, uid) in self.users.of(volume) {
            let pod = self.pods.get(&key);
            let Some(pod) = pod.filter(|pod| pod.metadata.uid == uid && needs_volumes(pod)) else {
                self.users.remove(volume, &key);
                continue;
            };
            if snapshot.object.is_none() && !snapshot.places.contains_key(&pod.node_name) {
                // Nothing to detach, and nothing left that could be attached.
                continue;
            }
            let place = snapshot.places.entry(pod.node_name.clone()).or_default();
            if let Some(object) = &snapshot.object {
                let source = || Source::Volume(Istr::new(&object.metadata.name));
                place.source.get_or_insert_with(source);
            }
            if !place.pods.iter().any(|held| held.metadata.uid == uid) {
                place.pods.push(pod);
            }
        }
    }

    /// The claim that the volume is bound to, if both sides say so.
    fn claim_of(&self, object: &PersistentVolume) -> Option<Arc<PersistentVolumeClaim>> {
        let held = object.spec.claim_ref.as_ref()?;
        let claim = self.claims.find(&held.namespace, &held.name)?;
        let is_bound = claim.status.phase == "Bound"
            && *claim.spec.volume_name == *object.metadata.name
            && claim.metadata.uid == held.uid;
        is_bound.then_some(claim)
    }

    /// Pods that the volume stands in.
    fn add_inline(&self, volume: &Istr, snapshot: &mut Snapshot) {
        for pod in by(&self.pods, &BY_INLINE_VOLUME, volume) {
            let mut volumes = pod.inline_volumes().iter();
            let Some(inline) = volumes.find(|inline| inline.unique_name == *volume) else {
                continue;
            };
            if !needs_volumes(&pod) {
                continue;
            }
            snapshot.is_shared &= inline.is_shared;
            snapshot.name = match csi_parts(volume) {
                Some((driver, handle)) => format!("{driver}-{handle}"),
                None => inline.name.to_string(),
            };
            let place = snapshot.places.entry(pod.node_name.clone()).or_default();
            let source = Source::Inline(pod.metadata.key(), inline.name.clone());
            place.source.get_or_insert(source);
            if !place.pods.iter().any(|held| Arc::ptr_eq(held, &pod)) {
                place.pods.push(pod);
            }
        }
    }

    /// Nodes whose lists name a volume that nothing else tells of.
    fn add_listed(&self, volume: &Istr, snapshot: &mut Snapshot) {
        for node in self
            .nodes
            .store()
            .by(&LISTED_ON, &IndexValue::Text(volume.clone()))
        {
            let name = Istr::new(&node.metadata.name);
            snapshot.places.entry(name).or_default();
        }
    }

    fn read_node(&self, volume: &Istr, name: &Istr, place: &mut Place) {
        let Some(node) = self.nodes.get(&Key::new("", name)) else {
            // Nobody can say any more what is mounted there; what was last said holds, if we heard it.
            let vanished = self.vanished.lock();
            let used = vanished.get(name);
            place.is_in_use = used.is_none_or(|used| used.contains(volume));
            return;
        };
        place.is_managed = node.is_attach_managed();
        place.is_ready = node.is_ready();
        place.is_out_of_service = node
            .spec
            .taints
            .iter()
            .any(|taint| taint.key == OUT_OF_SERVICE);
        place.is_in_use = node.uses_volume(volume);
        place.is_listed = node.lists_attached(volume);
    }

    fn attachments_of(&self, volume: &Istr) -> Vec<Arc<VolumeAttachment>> {
        let Some((driver, handle)) = csi_parts(volume) else {
            return Vec::new();
        };
        let mut found = by(&self.attachments, &BY_INLINE_SPEC, volume);
        for object in by(&self.volumes, &BY_UNIQUE_NAME, volume) {
            let name = Istr::new(&object.metadata.name);
            found.extend(by(&self.attachments, &BY_VOLUME, &name));
        }
        let orphans = self.orphans.lock();
        let orphaned = orphans.iter().filter(|(_, of)| *of == volume);
        found.extend(orphaned.filter_map(|(name, _)| self.attachments.find("", name)));
        // Somebody else's attachment of the same volume has another name.
        found.retain(|attachment| {
            let node = &attachment.spec.node_name;
            *attachment.metadata.name == *attachment_name(driver, handle, node)
        });
        found
    }

    /// The volume that an attachment is of.
    pub fn volume_of(&self, attachment: &VolumeAttachment) -> Option<Istr> {
        let name = attachment.spec.source.persistent_volume_name.as_ref();
        let object = name.and_then(|name| self.volumes.find("", name));
        let known = object.and_then(|object| object.unique_name());
        let known = known.or_else(|| inline_name(attachment));
        known
            .or_else(|| self.orphans.lock().get(&attachment.metadata.name).cloned())
            .or_else(|| self.volume_on_node(attachment))
    }

    /// The volume that an attachment is of, by the lists of its node: the name of an attachment is a hash of what is
    /// attached.
    fn volume_on_node(&self, attachment: &VolumeAttachment) -> Option<Istr> {
        let node = self.nodes.store().find("", &attachment.spec.node_name)?;
        let listed = node.status.volumes_attached.iter().map(|held| &held.name);
        let mut names = listed.chain(&node.status.volumes_in_use);
        let found = names.find(|volume| {
            csi_parts(volume).is_some_and(|(driver, handle)| {
                let name = attachment_name(driver, handle, &attachment.spec.node_name);
                *attachment.metadata.name == *name
            })
        })?;
        self.orphans
            .lock()
            .insert(attachment.metadata.name.clone(), found.clone());
        Some(found.clone())
    }

    /// The volumes that a pod needs, as far as they are known, or that one of its name has needed.
    pub fn volumes_of(&self, pod: &Pod) -> BTreeSet<Istr> {
        let namespace = &pod.metadata.namespace;
        let claimed = pod.volumes().iter().filter_map(|volume| {
            let claim = self.claims.find(namespace, &volume.claim_name)?;
            self.volume_of_claim(&claim)
        });
        let inline = pod.inline_volumes().iter();
        claimed
            .chain(inline.map(|inline| inline.unique_name.clone()))
            .chain(self.users.volumes_of(&pod.metadata.key()))
            .collect()
    }

    pub fn volume_of_claim(&self, claim: &PersistentVolumeClaim) -> Option<Istr> {
        let object = self.volumes.find("", &claim.spec.volume_name)?;
        object.unique_name()
    }

    /// Every volume that has to do with a node.
    pub fn volumes_on(&self, node: &Istr) -> BTreeSet<Istr> {
        let held = self.nodes.get(&Key::new("", node));
        let mut names = BTreeSet::new();
        if let Some(held) = held {
            let listed = held.status.volumes_attached.iter().map(|held| &held.name);
            names.extend(listed.chain(&held.status.volumes_in_use).cloned());
        }
        let attachments = by(&self.attachments, &BY_ATTACHED_NODE, node);
        names.extend(attachments.iter().filter_map(|held| self.volume_of(held)));
        let pods = by(&self.pods, &BY_NODE, node);
        names.extend(pods.iter().flat_map(|pod| self.volumes_of(pod)));
        names
    }

    /// A node is gone: what it used is kept in mind while anything is attached to it.
    pub fn note_vanished(&self, node: &Node) {
        let name = Istr::new(&node.metadata.name);
        if !by(&self.attachments, &BY_ATTACHED_NODE, &name).is_empty() {
            let used = node.status.volumes_in_use.clone();
            self.vanished.lock().insert(name, used);
        }
    }

    pub fn note_node(&self, name: &str) {
        self.vanished.lock().remove(name);
    }

    /// A volume is gone: its attachments do not tell any more what they are of.
    pub fn note_orphans(&self, object: &PersistentVolume) {
        let Some(volume) = object.unique_name() else {
            return;
        };
        let name = Istr::new(&object.metadata.name);
        let mut orphans = self.orphans.lock();
        for attachment in by(&self.attachments, &BY_VOLUME, &name) {
            orphans.insert(attachment.metadata.name.clone(), volume.clone());
        }
    }

    /// An attachment is gone.
    pub fn note_detached(&self, attachment: &VolumeAttachment) {
        self.orphans.lock().remove(&attachment.metadata.name);
        let node = &attachment.spec.node_name;
        if by(&self.attachments, &BY_ATTACHED_NODE, node).is_empty() {
            self.vanished.lock().remove(node);
        }
    }
}

/// Nodes by what their lists name.
pub const LISTED_ON: Index<Node> = Index {
    name: "volumes",
    values: |node, found| {
        for held in &node.status.volumes_attached {
            found(IndexValue::Text(held.name.clone()));
        }
    },
};

/// Is the pod on a node, and does it need its volumes?
fn needs_volumes(pod: &Pod) -> bool {
    !pod.node_name.is_empty() && !pod.has_left_volumes()
}

fn by<K: Resource>(store: &Store<K>, index: &Index<K>, text: &Istr) -> Vec<Arc<K>> {
    store.by(index, &IndexValue::Text(text.clone()))
}
