//! The volume claims of a pod: which are missing, and who should own them. Pure.
//!
//! | when scaled | when deleted | owner |
//! |---|---|---|
//! | retain | retain | nobody |
//! | retain | delete | the set |
//! | delete | retain | the pod, once it is condemned |
//! | delete | delete | the set; the pod instead, once it is condemned |
//!
//! What is owned goes with its owner, by the garbage collector's hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::json::Node;
use api::kinds::{ClaimRetentionPolicy, PersistentVolumeClaim, Pod, StatefulSet};
use api::{Meta, OwnerRef, Resource, Uid};

use super::identity::{claim_name, claim_templates, ordinals, pod_name};
use crate::workload::claim::controller_reference;

/// The claims that the caches know, by name.
pub type Claims = BTreeMap<String, Arc<PersistentVolumeClaim>>;

/// The pod that claims are for, whether it exists or not.
#[derive(Clone, Debug)]
pub struct ClaimOwner<'a> {
    pub set: &'a StatefulSet,
    pub ordinal: i32,
    /// Empty for a pod that does not exist yet.
    pub uid: Uid,
}

/// What is to be done about the claims of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimWork {
    /// Claims that do not exist: their names, and which template they come from.
    pub missing: Vec<(String, usize)>,
    /// Claims that are on their way out; the pod must wait for new ones.
    pub leaving: Vec<String>,
    /// Claims whose owner references do not follow the retention policy.
    pub update_owners: Vec<String>,
    /// Claims that somebody else manages: the policy cannot apply to them.
    pub conflicting: Vec<String>,
}

impl ClaimWork {
    pub fn is_empty(&self) -> bool {
        self == &ClaimWork::default()
    }
}

impl<'a> ClaimOwner<'a> {
    pub fn of(set: &'a StatefulSet, pod: &Pod, ordinal: i32) -> ClaimOwner<'a> {
        ClaimOwner {
            set,
            ordinal,
            uid: pod.metadata.uid.clone(),
        }
    }

    pub fn name(&self) -> String {
        pod_name(self.set, self.ordinal)
    }

    fn names(&self) -> impl Iterator<Item = String> {
        claim_templates(self.set).map(|template| claim_name(self.set, &template, self.ordinal))
    }

    pub fn work(&self, claims: &Claims) -> ClaimWork {
        let mut work = ClaimWork::default();
        for (index, name) in self.names().enumerate() {
            let Some(claim) = claims.get(&name) else {
                work.missing.push((name, index));
                continue;
            };
            let meta = &claim.metadata;
            if meta.is_terminating() {
                work.leaving.push(name.clone());
            }
            if !self.is_up_to_date(meta) {
                work.update_owners.push(name.clone());
            }
            if self.has_other_controller(meta) {
                work.conflicting.push(name);
            }
        }
        work
    }

    /// A claim that the pod before this one still owns goes away with that pod: a new pod that used
    /// it now would lose its volume.
    pub fn stale_claim(&self, claims: &Claims) -> Option<String> {
        if self
            .set
            .spec
            .persistent_volume_claim_retention_policy
            .when_scaled
            != ClaimRetentionPolicy::Delete
        {
            return None;
        }
        self.names().find(|name| {
            claims
                .get(name)
                .is_some_and(|claim| self.has_stale_pod(&claim.metadata))
        })
    }

    /// The owner references that a claim should have in place of `held`.
    pub fn owners(&self, held: &Meta) -> Vec<OwnerRef> {
        let conflict = self.has_other_controller(held);
        let mut owners: Vec<OwnerRef> = held
            .owners
            .iter()
            .filter(|owner| !self.names_set(owner) && !self.names_pod(owner))
            .cloned()
            .collect();
        if conflict {
            return owners;
        }
        let (set, pod) = self.wanted();
        let wanted = [
            set.then(|| controller_reference(self.set)),
            pod.then(|| self.pod_reference()),
        ];
        for reference in wanted.into_iter().flatten() {
            // UPSTREAM: who owns it already, though by another name or version, is not named twice.
            if !owners.iter().any(|owner| owner.uid == reference.uid) {
                owners.push(reference);
            }
        }
        owners
    }

    /// True also for claims that must not be touched.
    pub fn is_up_to_date(&self, claim: &Meta) -> bool {
        if self.has_stale_set(claim) || self.has_stale_pod(claim) {
            return true;
        }
        let (by_set, by_pod) = (
            owned_by(claim, &self.set.metadata.uid),
            owned_by(claim, &self.uid),
        );
        if self.has_other_controller(claim) {
            return !by_set && !by_pod;
        }
        !self.owns_without_control(claim) && (by_set, by_pod) == self.wanted()
    }

    /// Should the set own the claim, should the pod?
    fn wanted(&self) -> (bool, bool) {
        use ClaimRetentionPolicy::{Delete, Retain};
        let policy = &self.set.spec.persistent_volume_claim_retention_policy;
        let condemned = !ordinals(self.set).contains(&self.ordinal);
        match (policy.when_scaled, policy.when_deleted) {
            (Retain, Retain) => (false, false),
            (Retain, Delete) => (true, false),
            (Delete, Retain) => (false, condemned),
            (Delete, Delete) => (!condemned, condemned),
        }
    }

    fn has_other_controller(&self, claim: &Meta) -> bool {
        use ClaimRetentionPolicy::Retain;
        let policy = &self.set.spec.persistent_volume_claim_retention_policy;
        if (policy.when_scaled, policy.when_deleted) == (Retain, Retain) {
            // A set that retains everything need not own anything.
            return false;
        }
        claim.owners.iter().any(|owner| {
            if self.names_set(owner) {
                owner.uid != self.set.metadata.uid
            } else if self.names_pod(owner) {
                owner.uid != self.uid
            } else {
                owner.controller == Some(true)
            }
        })
    }

    pub(super) fn owns_without_control(&self, claim: &Meta) -> bool {
        claim.owners.iter().any(|owner| {
            (owner.uid == self.set.metadata.uid || owner.uid == self.uid)
                && owner.controller != Some(true)
        })
    }

    fn has_stale_set(&self, claim: &Meta) -> bool {
        let named = claim.owners.iter().find(|owner| self.names_set(owner));
        named.is_some_and(|owner| owner.uid != self.set.metadata.uid)
    }

    fn has_stale_pod(&self, claim: &Meta) -> bool {
        let named = claim.owners.iter().find(|owner| self.names_pod(owner));
        named.is_some_and(|owner| owner.uid != self.uid)
    }

    fn names_set(&self, owner: &OwnerRef) -> bool {
        owner.api_version == *StatefulSet::TYPE.api_version()
            && owner.kind == *StatefulSet::TYPE.kind
            && owner.name == *self.set.metadata.name
    }

    fn names_pod(&self, owner: &OwnerRef) -> bool {
        owner.api_version == "v1" && owner.kind == "Pod" && owner.name == *self.name()
    }

    fn pod_reference(&self) -> OwnerRef {
        OwnerRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: self.name().as_str().into(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

fn owned_by(claim: &Meta, uid: &Uid) -> bool {
    claim.owners.iter().any(|owner| owner.uid == *uid)
}

/// The claim that template number `index` asks for, under a name of its own.
pub(super) fn claim_body(set: &StatefulSet, index: usize, name: &str) -> Node {
    let mut claim = set.spec.volume_claim_templates[index].clone();
    claim.set(&["apiVersion"], Node::text("v1"));
    claim.set(&["kind"], Node::text("PersistentVolumeClaim"));
    claim.set(&["metadata", "name"], Node::text(name));
    claim.set(
        &["metadata", "namespace"],
        Node::text(&set.metadata.namespace),
    );
    for (key, value) in set.spec.selector.match_labels.iter() {
        claim.set(&["metadata", "labels", key], Node::text(value));
    }
    claim
}
