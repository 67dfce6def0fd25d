//! What a change does to the graph, and what it enqueues. Pure.
//!
//! Mirrors `GraphBuilder.processGraphChanges` upstream. There the informers feed a queue that one
//! goroutine drains; here a change is applied where it is seen, under the graph's lock, so there is no
//! queue to grow.

use std::sync::Arc;

use api::{Meta, OwnerRef, Uid};

use super::graph::{FOREGROUND, Graph, KindNumber, KnownOwner, Node, ORPHAN, Slot};
use super::identity::Identity;

/// Whom a change concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ToEnqueue {
    /// Objects that may have to be deleted.
    pub delete: Vec<Uid>,
    /// The same, but after a pause: we are guessing.
    pub delete_later: Vec<Uid>,
    /// Objects that go but leave their dependents behind.
    pub orphan: Vec<Uid>,
    /// Dependents whose owner lives in another namespace.
    pub warnings: Vec<Warning>,
}

/// `dependent` refers to `owner` as if it were in its own namespace.
#[derive(Debug, PartialEq, Eq)]
pub struct Warning {
    pub dependent: Identity,
    pub owner: Identity,
}

impl Graph {
    /// An informer has shown an object, new or changed.
    pub fn observe(&mut self, kind: KindNumber, old: Option<&Meta>, new: &Meta) -> ToEnqueue {
        let mut to_enqueue = ToEnqueue::default();
        let last = old;
        let old = last.filter(|old| !is_restored(old, new));
        let was_gone = self.absent.has_any_name_of(&new.uid);
        self.note_present(kind, new);
        let slot = match self.find(&new.uid) {
            Some(slot) => {
                if was_gone && self.node(slot).is_virtual {
                    self.list_dependents(slot);
                }
                self.unveil(slot, kind, new, &mut to_enqueue);
                self.change_owners(slot, &new.owners, &mut to_enqueue);
                if old.is_none() && last.is_some() {
                    let node = self.node_mut(slot);
                    (node.being_deleted, node.deleting_dependents) = (false, false);
                }
                self.node_mut(slot).being_deleted |= new.is_terminating();
                slot
            }
            None => {
                let slot = self.put(Node {
                    uid: new.uid.clone(),
                    namespace: new.namespace.clone(),
                    name: new.name.clone(),
                    owners: new.owners.clone(),
                    dependents: Vec::new(),
                    kind,
                    is_virtual: false,
                    being_deleted: new.is_terminating(),
                    deleting_dependents: new.is_terminating() && new.has_finalizer(FOREGROUND),
                });
                if was_gone {
                    self.list_dependents(slot);
                }
                self.add_to_owners(slot, &new.owners, &mut to_enqueue);
                slot
            }
        };
        self.transitions(slot, old, new, &mut to_enqueue);
        to_enqueue
    }

    /// An informer tells of an object again that it has shown before: so it does when it had to list all anew, and a server
    /// that was restored from a backup may have undone a write of ours that no informer saw. Upstream goes on believing in
    /// that write.
    pub fn review(&mut self, kind: KindNumber, held: &Meta) -> ToEnqueue {
        if let Some(slot) = self.find(&held.uid) {
            self.node_mut(slot).being_deleted = held.is_terminating();
        }
        let mut to_enqueue = self.observe(kind, None, held);
        let solid = KnownOwner::Observed {
            deleting_dependents: false,
        };
        let is_solid = |owner: &OwnerRef| self.known_owner(owner, &held.namespace) == solid;
        if !held.is_terminating() && !held.owners.iter().all(is_solid) {
            to_enqueue.delete.push(held.uid.clone());
        }
        to_enqueue
    }

    /// An informer has seen an object go.
    pub fn gone(&mut self, kind: KindNumber, last: &Meta) -> ToEnqueue {
        let mut to_enqueue = ToEnqueue::default();
        if let Some(slot) = self.find(&last.uid) {
            self.unveil(slot, kind, last, &mut to_enqueue);
            let identity = self.identity_of(kind, last);
            self.remove(slot, identity, &mut to_enqueue);
        }
        to_enqueue
    }

    /// The API server knows no object by this name and uid.
    pub fn denied(&mut self, identity: &Identity) -> ToEnqueue {
        let mut to_enqueue = ToEnqueue::default();
        let Some(slot) = self.find(&identity.uid) else {
            return to_enqueue;
        };
        let node = self.node(slot);
        let (is_virtual, same) = (node.is_virtual, self.identity(node) == *identity);
        if !is_virtual && !same {
            // Some dependent had the coordinates wrong; the object itself is there.
            let (matching, _) = self.partition(slot, identity);
            self.lost_owner(&matching, identity, &mut to_enqueue);
            return to_enqueue;
        }
        let (matching, others) = self.partition(slot, identity);
        if !is_virtual || others.is_empty() {
            self.remove(slot, identity.clone(), &mut to_enqueue);
            return to_enqueue;
        }
        // Dependents disagree about what their owner is called: one name less to try.
        self.lost_owner(&matching, identity, &mut to_enqueue);
        if same && let Some(alternative) = self.alternative(&others, identity) {
            self.rename(slot, alternative);
            to_enqueue.delete_later.push(identity.uid.clone());
        }
        to_enqueue
    }

    /// An owner that is observed is not absent, whatever was said before: a server that was restored from a backup has objects
    /// again that were deleted. Upstream takes them for gone until it is started anew, and may collect what is theirs.
    fn note_present(&mut self, kind: KindNumber, seen: &Meta) {
        if self.absent.has_any_name_of(&seen.uid) {
            let identity = self.identity_of(kind, seen);
            self.absent.is_present(&identity);
        }
    }

    /// A node that was hearsay is real. Dependents that had its coordinates wrong are looked at.
    fn unveil(&mut self, slot: Slot, kind: KindNumber, meta: &Meta, to_enqueue: &mut ToEnqueue) {
        if !self.node(slot).is_virtual {
            return;
        }
        let observed = self.identity_of(kind, meta);
        if self.identity(self.node(slot)) != observed {
            let (_, wrong) = self.partition(slot, &observed);
            for dependent in wrong {
                let node = self.node(dependent);
                if !observed.namespace.is_empty() && node.namespace != observed.namespace {
                    self.warn(dependent, &observed.uid, to_enqueue);
                }
                to_enqueue.delete.push(self.node(dependent).uid.clone());
            }
            self.rename(slot, observed);
        }
        self.node_mut(slot).is_virtual = false;
    }

    fn rename(&mut self, slot: Slot, identity: Identity) {
        let kind = self.kind(&identity.api_version, &identity.kind);
        let node = self.node_mut(slot);
        node.kind = kind;
        node.namespace = identity.namespace;
        node.name = identity.name;
    }

    fn change_owners(&mut self, slot: Slot, new: &Arc<[OwnerRef]>, to_enqueue: &mut ToEnqueue) {
        let old = self.node(slot).owners.clone();
        if Arc::ptr_eq(&old, new) || old == *new {
            return;
        }
        let old_of = |uid: &Uid| old.iter().rfind(|owner| owner.uid == *uid);
        let mut added: Vec<OwnerRef> = Vec::new();
        for owner in new.iter() {
            match old_of(&owner.uid) {
                None => added.push(owner.clone()),
                Some(before) if blocks(before) && !blocks(owner) => {
                    self.enqueue_if_known(&owner.uid, to_enqueue);
                }
                Some(_) => {}
            }
        }
        for owner in old.iter() {
            let kept = new.iter().any(|held| held.uid == owner.uid);
            if !kept && blocks(owner) {
                self.enqueue_if_known(&owner.uid, to_enqueue);
            }
        }
        self.node_mut(slot).owners = new.clone();
        self.add_to_owners(slot, &added, to_enqueue);
        for owner in old.iter() {
            if !new.iter().any(|held| held.uid == owner.uid) {
                self.remove_dependent(&owner.uid, slot);
            }
        }
    }

    fn enqueue_if_known(&self, uid: &Uid, to_enqueue: &mut ToEnqueue) {
        if self.find(uid).is_some() {
            to_enqueue.delete.push(uid.clone());
        }
    }

    /// Lists a node under owners that it was not listed under before.
    fn add_to_owners(&mut self, slot: Slot, owners: &[OwnerRef], to_enqueue: &mut ToEnqueue) {
        let namespace = self.node(slot).namespace.clone();
        let (mut suspicious, mut is_late) = (false, false);
        for (at, owner) in owners.iter().enumerate() {
            let known = self.find(&owner.uid);
            let owner_slot = match known {
                Some(owner_slot) => owner_slot,
                None => self.put_virtual(owner, &namespace),
            };
            // The same owner may be named twice.
            if !owners[..at].iter().any(|other| other.uid == owner.uid) {
                self.node_mut(owner_slot).dependents.push(slot);
            }
            if known.is_none() {
                to_enqueue.delete.push(owner.uid.clone());
                continue;
            }
            let node = self.node(owner_slot);
            // Its owner has seen to its dependents before this one was known. Upstream leaves it, and the owner may
            // wait for ever: a StatefulSet for a claim that this pod uses.
            is_late |= node.deleting_dependents && owner_slot != slot;
            if suspicious {
                continue;
            }
            let (elsewhere, observed) = (node.namespace != namespace, !node.is_virtual);
            if !node.namespace.is_empty() && elsewhere {
                suspicious = true;
                if observed {
                    self.warn(slot, &owner.uid, to_enqueue);
                }
            } else {
                // A virtual owner without a namespace may be a namespaced one that a cluster-scoped
                // object names.
                suspicious = !self.identity(node).is_meant_by(owner) || (elsewhere && !observed);
            }
        }
        if suspicious || is_late {
            to_enqueue.delete.push(self.node(slot).uid.clone());
        }
    }

    /// Lists under a node that had gone, and is back with a restored server, those who refer to it still. Upstream does not
    /// know them any more: it would go before dependents that hold it up, and nobody would look at them when it has gone.
    fn list_dependents(&mut self, owner: Slot) {
        let uid = self.node(owner).uid.clone();
        let refers = |node: &Node| node.owners.iter().any(|held| held.uid == uid);
        let others = self.occupied().filter(|(slot, _)| *slot != owner);
        let dependents = others.filter(|(_, node)| refers(node));
        self.node_mut(owner).dependents = dependents.map(|(slot, _)| slot).collect();
    }

    fn put_virtual(&mut self, owner: &OwnerRef, namespace: &api::Istr) -> Slot {
        let kind = self.kind(&owner.api_version, &owner.kind);
        self.put(Node {
            uid: owner.uid.clone(),
            namespace: namespace.clone(),
            name: owner.name.to_arc(),
            owners: Meta::default().owners,
            dependents: Vec::new(),
            kind,
            is_virtual: true,
            being_deleted: false,
            deleting_dependents: false,
        })
    }

    fn warn(&self, dependent: Slot, owner: &Uid, to_enqueue: &mut ToEnqueue) {
        let node = self.node(dependent);
        if let Some(reference) = node.owners.iter().find(|held| held.uid == *owner) {
            to_enqueue.warnings.push(Warning {
                dependent: self.identity(node),
                owner: Identity::of_owner(reference, &node.namespace),
            });
        }
    }

    /// Deletion that has just begun to wait for something.
    fn transitions(
        &mut self,
        slot: Slot,
        old: Option<&Meta>,
        new: &Meta,
        to_enqueue: &mut ToEnqueue,
    ) {
        let starts = |finalizer: &str| {
            let waits = |meta: &Meta| meta.is_terminating() && meta.has_finalizer(finalizer);
            waits(new) && !old.is_some_and(waits)
        };
        if starts(ORPHAN) {
            to_enqueue.orphan.push(new.uid.clone());
        } else if starts(FOREGROUND) {
            self.node_mut(slot).deleting_dependents = true;
            self.enqueue_dependents(slot, to_enqueue);
            to_enqueue.delete.push(new.uid.clone());
        }
    }

    fn enqueue_dependents(&self, slot: Slot, to_enqueue: &mut ToEnqueue) {
        let dependents = &self.node(slot).dependents;
        let uids = dependents.iter().map(|slot| self.node(*slot).uid.clone());
        to_enqueue.delete.extend(uids);
    }

    fn lost_owner(&mut self, dependents: &[Slot], owner: &Identity, to_enqueue: &mut ToEnqueue) {
        if dependents.is_empty() {
            return;
        }
        self.absent.add(owner.clone());
        let uids = dependents.iter().map(|slot| self.node(*slot).uid.clone());
        to_enqueue.delete.extend(uids);
    }

    fn remove(&mut self, slot: Slot, identity: Identity, to_enqueue: &mut ToEnqueue) {
        self.enqueue_dependents(slot, to_enqueue);
        let node = self.take(slot);
        if !node.dependents.is_empty() {
            self.absent.add(identity);
        }
        for owner in node.owners.iter() {
            let waits = |slot: Slot| self.node(slot).deleting_dependents;
            if self.find(&owner.uid).is_some_and(waits) {
                to_enqueue.delete.push(owner.uid.clone());
            }
        }
    }

    /// The dependents that call their owner by this identity, and those that call it otherwise. One
    /// with several references to the same uid may be among both.
    fn partition(&self, owner: Slot, identity: &Identity) -> (Vec<Slot>, Vec<Slot>) {
        let (mut matching, mut others) = (Vec::new(), Vec::new());
        for slot in &self.node(owner).dependents {
            let dependent = self.node(*slot);
            if !identity.namespace.is_empty() && identity.namespace != dependent.namespace {
                others.push(*slot);
                continue;
            }
            let mut references = dependent
                .owners
                .iter()
                .filter(|held| held.uid == identity.uid);
            if references.clone().any(|held| identity.is_meant_by(held)) {
                matching.push(*slot);
            }
            if references.any(|held| !identity.is_meant_by(held)) {
                others.push(*slot);
            }
        }
        (matching, others)
    }

    /// Another name that dependents use for the owner that `absent` is not: the next in order, and
    /// after the last the first again, so that all get their turn.
    fn alternative(&self, dependents: &[Slot], absent: &Identity) -> Option<Identity> {
        let cluster_scoped = absent.namespace.is_empty();
        let mut first: Option<Identity> = None;
        let mut following: Option<Identity> = None;
        for dependent in dependents.iter().map(|slot| self.node(*slot)) {
            for owner in dependent
                .owners
                .iter()
                .filter(|held| held.uid == absent.uid)
            {
                let mut candidate = Identity::of_owner(owner, &dependent.namespace);
                if cluster_scoped
                    && candidate.kind == absent.kind
                    && candidate.api_version == absent.api_version
                {
                    // The kind is cluster-scoped: the dependent's namespace says nothing.
                    candidate.namespace = api::Istr::default();
                }
                if candidate == *absent {
                    continue;
                }
                if candidate > *absent && following.as_ref().is_none_or(|held| candidate < *held) {
                    following = Some(candidate.clone());
                }
                if first.as_ref().is_none_or(|held| candidate < *held) {
                    first = Some(candidate);
                }
            }
        }
        following.or(first)
    }
}

/// Nothing that is being deleted comes back, and no revision either, unless the server was restored from before that:
/// then the object is as if it were new. Or else its dependents would go on being deleted as fast as their controller
/// makes them.
fn is_restored(old: &Meta, new: &Meta) -> bool {
    let spared = old.is_terminating() && !new.is_terminating();
    spared || new.resource_version < old.resource_version
}

fn blocks(owner: &OwnerRef) -> bool {
    owner.block_owner_deletion == Some(true)
}
