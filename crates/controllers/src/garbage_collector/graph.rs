//! Who owns whom, in compact form.
//!
//! Nodes live in slots and refer to each other by slot number; names, namespaces and owner lists are
//! the very allocations that the informers hold. An object costs a bit over a hundred bytes here.
//! An owner that nobody has seen yet is a *virtual* node: its coordinates are hearsay until an
//! informer shows the object or the API server denies it.

use std::sync::Arc;

use api::collections::HashMap;
use api::{Istr, Meta, OwnerRef, Uid};

use super::absent::AbsentOwners;
use super::identity::Identity;

/// Upstream's finalizer for foreground deletion.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Upstream's finalizer for orphaning.
pub(super) const ORPHAN: &str = "orphan";

#[derive(Default)]
pub struct Graph {
    slots: Vec<Option<Node>>,
    free: Vec<Slot>,
    by_uid: HashMap<Uid, Slot>,
    kinds: Vec<(Istr, Istr)>,
    kind_numbers: HashMap<(Istr, Istr), KindNumber>,
    pub(super) absent: AbsentOwners,
}

pub(super) type Slot = u32;

/// An apiVersion and kind that the graph has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindNumber(u32);

pub(super) struct Node {
    pub uid: Uid,
    pub namespace: Istr,
    pub name: Arc<str>,
    pub owners: Arc<[OwnerRef]>,
    pub dependents: Vec<Slot>,
    pub kind: KindNumber,
    /// Never seen by an informer.
    pub is_virtual: bool,
    pub being_deleted: bool,
    /// Being deleted in the foreground: it goes after its dependents.
    pub deleting_dependents: bool,
}

/// What the graph knows about one object, for a decision.
#[derive(Clone, Debug)]
pub struct Item {
    pub identity: Identity,
    pub is_virtual: bool,
    pub being_deleted: bool,
    pub deleting_dependents: bool,
    pub owners: Arc<[OwnerRef]>,
    pub dependents: usize,
    /// Some dependent is itself being deleted in the foreground.
    pub dependent_deletes_dependents: bool,
    /// Dependents that hold up a foreground deletion, and whether they are deleting their own.
    pub blocking: Vec<(Uid, bool)>,
}

/// What the graph knows about an owner without asking anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownOwner {
    Absent,
    /// Seen by an informer under the very coordinates of the reference.
    Observed {
        deleting_dependents: bool,
    },
    Unknown,
}

impl Graph {
    /// The number of a kind, new or known.
    pub fn kind(&mut self, api_version: &Istr, kind: &Istr) -> KindNumber {
        let key = (api_version.clone(), kind.clone());
        if let Some(number) = self.kind_numbers.get(&key) {
            return *number;
        }
        let number = KindNumber(self.kinds.len() as u32);
        self.kinds.push(key.clone());
        self.kind_numbers.insert(key, number);
        number
    }

    pub fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }

    /// What the graph takes beyond what the informers hold, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let dependents: usize = self
            .slots
            .iter()
            .flatten()
            .map(|node| node.dependents.capacity() * size_of::<Slot>())
            .sum();
        // A hash map fills seven eighths of its buckets and spends a byte more on each.
        let index = self.by_uid.capacity() * 8 / 7 * (size_of::<(Uid, Slot)>() + 1);
        self.slots.capacity() * size_of::<Option<Node>>()
            + self.free.capacity() * size_of::<Slot>()
            + index
            + dependents
    }

    pub fn item(&self, uid: &Uid) -> Option<Item> {
        let node = self.node(*self.by_uid.get(uid)?);
        let blocks = |dependent: &Node| {
            // An object that owns itself cannot wait for itself.
            dependent.uid != node.uid
                && dependent
                    .owners
                    .iter()
                    .any(|owner| owner.uid == node.uid && owner.block_owner_deletion == Some(true))
        };
        let mut blocking = Vec::new();
        let mut dependent_deletes_dependents = false;
        for dependent in node.dependents.iter().map(|slot| self.node(*slot)) {
            dependent_deletes_dependents |= dependent.deleting_dependents;
            if node.deleting_dependents && blocks(dependent) {
                blocking.push((dependent.uid.clone(), dependent.deleting_dependents));
            }
        }
        Some(Item {
            identity: self.identity(node),
            is_virtual: node.is_virtual,
            being_deleted: node.being_deleted,
            deleting_dependents: node.deleting_dependents,
            owners: node.owners.clone(),
            dependents: node.dependents.len(),
            dependent_deletes_dependents,
            blocking,
        })
    }

    /// The dependents of an object, in the order in which they came.
    pub fn dependents(&self, uid: &Uid) -> Vec<Identity> {
        let Some(slot) = self.by_uid.get(uid) else {
            return Vec::new();
        };
        let node = self.node(*slot);
        node.dependents
            .iter()
            .map(|slot| self.identity(self.node(*slot)))
            .collect()
    }

    /// What can be said about the owner that an object in `namespace` refers to.
    pub fn known_owner(&self, owner: &OwnerRef, namespace: &Istr) -> KnownOwner {
        let mut identity = Identity::of_owner(owner, namespace);
        if self.absent.has(&identity) {
            return KnownOwner::Absent;
        }
        identity.namespace = Istr::default();
        if self.absent.has(&identity) {
            return KnownOwner::Absent;
        }
        let Some(node) = self.by_uid.get(&owner.uid).map(|slot| self.node(*slot)) else {
            return KnownOwner::Unknown;
        };
        let reachable = node.namespace.is_empty() || node.namespace == *namespace;
        if node.is_virtual || !reachable || !self.identity(node).is_meant_by(owner) {
            return KnownOwner::Unknown;
        }
        KnownOwner::Observed {
            deleting_dependents: node.deleting_dependents,
        }
    }

    /// Objects of a kind that no informer has shown.
    pub fn unseen_of(&self, api_version: &str, kind: &str) -> Vec<Uid> {
        let key = (Istr::new(api_version), Istr::new(kind));
        let Some(number) = self.kind_numbers.get(&key) else {
            return Vec::new();
        };
        let nodes = self.slots.iter().flatten();
        nodes
            .filter(|node| node.is_virtual && node.kind == *number)
            .map(|node| node.uid.clone())
            .collect()
    }

    /// The API server has denied that this owner exists.
    pub fn note_absent(&mut self, owner: Identity) {
        self.absent.add(owner);
    }

    /// The server has accepted a deletion: there is no way back, and no need to ask again.
    pub fn note_deletion(&mut self, uid: &Uid) {
        if let Some(slot) = self.find(uid) {
            self.node_mut(slot).being_deleted = true;
        }
    }

    pub(super) fn find(&self, uid: &Uid) -> Option<Slot> {
        self.by_uid.get(uid).copied()
    }

    /// All slots with a node.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (Slot, &Node)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(slot, node)| Some((slot, node.as_ref()?)))
    }

    pub(super) fn node(&self, slot: Slot) -> &Node {
        self.slots[slot as usize]
            .as_ref()
            .expect("slot numbers in the graph lead to nodes")
    }

    pub(super) fn node_mut(&mut self, slot: Slot) -> &mut Node {
        self.slots[slot as usize]
            .as_mut()
            .expect("slot numbers in the graph lead to nodes")
    }

    pub(super) fn identity(&self, node: &Node) -> Identity {
        let (api_version, kind) = &self.kinds[node.kind.0 as usize];
        Identity {
            kind: kind.clone(),
            api_version: api_version.clone(),
            namespace: node.namespace.clone(),
            name: node.name.clone(),
            uid: node.uid.clone(),
        }
    }

    pub(super) fn identity_of(&self, kind: KindNumber, meta: &Meta) -> Identity {
        let (api_version, kind) = &self.kinds[kind.0 as usize];
        Identity {
            kind: kind.clone(),
            api_version: api_version.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
        }
    }

    /// Nodes by uid, for pictures and checks.
    pub(super) fn nodes(&self) -> Vec<&Node> {
        let mut nodes: Vec<&Node> = self.slots.iter().flatten().collect();
        nodes.sort_by_cached_key(|node| node.uid.to_string());
        nodes
    }

    pub(super) fn put(&mut self, node: Node) -> Slot {
        let uid = node.uid.clone();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(node);
                slot
            }
            None => {
                self.slots.push(Some(node));
                (self.slots.len() - 1) as Slot
            }
        };
        self.by_uid.insert(uid, slot);
        slot
    }

    /// Takes a node out, also out of its owners' lists.
    pub(super) fn take(&mut self, slot: Slot) -> Node {
        let owners = self.node(slot).owners.clone();
        for owner in owners.iter() {
            self.remove_dependent(&owner.uid, slot);
        }
        let node = self.slots[slot as usize]
            .take()
            .expect("slot numbers in the graph lead to nodes");
        self.by_uid.remove(&node.uid);
        self.free.push(slot);
        node
    }

    pub(super) fn remove_dependent(&mut self, owner: &Uid, dependent: Slot) {
        let Some(owner) = self.find(owner) else {
            return;
        };
        let dependents = &mut self.node_mut(owner).dependents;
        if let Some(at) = dependents.iter().position(|held| *held == dependent) {
            dependents.swap_remove(at);
        }
    }
}
