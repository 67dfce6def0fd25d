//! Which changes enqueue whom.

use std::fmt;
use std::sync::Arc;

use api::kinds::{Pod, PodClaim, PodGroup, ResourceClaim, ResourceClaimTemplate};
use api::{Gates, Istr, Key, Resource, Uid};
use parking_lot::Mutex;
use runtime::{Change, Context, Index, IndexValue, Lru, Queue, Store};

use super::plan::{Known, Requester, plan};
use super::release::is_done;

/// What a sync is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    Claim(Key),
    Pod(Key),
    PodGroup(Key),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Claim(key) => write!(f, "claim:{key}"),
            Item::Pod(key) => write!(f, "pod:{key}"),
            Item::PodGroup(key) => write!(f, "podgroup:{key}"),
        }
    }
}

/// UPSTREAM: so many of those that are gone are remembered. Of others the API server is asked.
const DELETED_MAX: usize = 500;

/// Pods by the claims that they use.
const PODS_BY_CLAIM: Index<Pod> = Index {
    name: "resource claim",
    values: |pod, found| by_claim(&pod.metadata.namespace, pod.claims(), found),
};

const PODS_BY_TEMPLATE: Index<Pod> = Index {
    name: "resource claim template",
    values: |pod, found| by_template(&pod.metadata.namespace, pod.claims(), found),
};

const PODS_BY_GROUP: Index<Pod> = Index {
    name: "pod group",
    values: |pod, found| {
        if let Some(group) = pod.pod_group() {
            found(IndexValue::In(
                pod.metadata.namespace.clone(),
                group.clone(),
            ));
        }
    },
};

const GROUPS_BY_CLAIM: Index<PodGroup> = Index {
    name: "resource claim",
    values: |group, found| by_claim(&group.metadata.namespace, &group.claims, found),
};

const GROUPS_BY_TEMPLATE: Index<PodGroup> = Index {
    name: "resource claim template",
    values: |group, found| by_template(&group.metadata.namespace, &group.claims, found),
};

fn by_claim(namespace: &Istr, claims: &[PodClaim], found: &mut dyn FnMut(IndexValue)) {
    for name in claims.iter().filter_map(PodClaim::claim_name) {
        found(IndexValue::In(namespace.clone(), name.clone()));
    }
}

fn by_template(namespace: &Istr, claims: &[PodClaim], found: &mut dyn FnMut(IndexValue)) {
    for name in claims.iter().filter_map(PodClaim::template) {
        found(IndexValue::In(namespace.clone(), name.clone()));
    }
}

/// The caches, and who is gone from them.
pub struct Caches {
    pub pods: Arc<Store<Pod>>,
    pub claims: Arc<Store<ResourceClaim>>,
    templates: Arc<Store<ResourceClaimTemplate>>,
    /// None unless groups may have claims.
    pub groups: Option<Arc<Store<PodGroup>>>,
    gates: Gates,
    deleted: Mutex<Lru<Uid, ()>>,
}

impl Caches {
    pub fn new(context: &Context, has_groups: bool) -> Caches {
        let informers = &context.informers;
        let pods = informers.of::<Pod>();
        pods.add_index(&PODS_BY_CLAIM);
        pods.add_index(&PODS_BY_TEMPLATE);
        let claims = informers.of::<ResourceClaim>();
        claims.add_index(&runtime::triggers::by_controller());
        let groups = has_groups.then(|| {
            pods.add_index(&PODS_BY_GROUP);
            let groups = informers.of::<PodGroup>();
            groups.add_index(&GROUPS_BY_CLAIM);
            groups.add_index(&GROUPS_BY_TEMPLATE);
            groups.store().clone()
        });
        Caches {
            pods: pods.store().clone(),
            claims: claims.store().clone(),
            templates: informers.store::<ResourceClaimTemplate>(),
            groups,
            gates: context.gates,
            deleted: Mutex::new(Lru::new(DELETED_MAX)),
        }
    }

    pub fn known(&self) -> Known<'_> {
        Known {
            claims: &self.claims,
            templates: &self.templates,
            gates: self.gates,
        }
    }

    /// The group that the pod is scheduled with, where groups may have claims.
    pub fn group_of(&self, pod: &Pod) -> Option<Arc<PodGroup>> {
        let groups = self.groups.as_ref()?;
        groups.find(&pod.metadata.namespace, pod.pod_group()?)
    }

    pub fn is_deleted(&self, uid: &Uid) -> bool {
        self.deleted.lock().peek(uid).is_some()
    }

    fn note_deleted(&self, uid: &Uid) {
        self.deleted.lock().get_or_insert(uid.clone(), || ());
    }

    pub fn on_pod(&self, change: &Change<'_, Pod>, queue: &Queue<Item>) {
        let pod = change.object();
        if pod.claims().is_empty() && pod.extended_resource_claim().is_none() {
            return;
        }
        let is_deleted = matches!(change, Change::Deleted(_));
        if is_deleted {
            self.note_deleted(&pod.metadata.uid);
        }
        if is_deleted || is_done(pod) {
            let named = pod.claims().iter().filter_map(PodClaim::claim_name);
            let named = named.map(Istr::as_str);
            enqueue_claims(&**pod, named.chain(pod.extended_resource_claim()), queue);
            // One that was created for it and that its status does not tell of yet.
            for claim in self.created_for(&pod.metadata.uid) {
                queue.add(Item::Claim(claim.key()));
            }
        }
        if !is_deleted {
            self.enqueue_pod(pod, queue);
        }
    }

    fn created_for(&self, pod: &Uid) -> Vec<Arc<ResourceClaim>> {
        let value = IndexValue::Uid(pod.clone());
        self.claims.by(&runtime::triggers::by_controller(), &value)
    }

    /// Only if there is something to do, or to say: pods change often.
    fn enqueue_pod(&self, pod: &Pod, queue: &Queue<Item>) {
        let group = self.group_of(pod);
        let group = group.as_deref();
        if !plan(Requester::Pod { pod, group }, self.known()).is_empty() {
            queue.add(Item::Pod(pod.key()));
        }
    }

    pub fn on_claim(&self, change: &Change<'_, ResourceClaim>, queue: &Queue<Item>) {
        let claim = change.object();
        if !matches!(change, Change::Deleted(_)) {
            queue.add(Item::Claim(claim.key()));
        }
        let value = named(&**claim);
        for pod in self.pods.by(&PODS_BY_CLAIM, &value) {
            self.enqueue_pod(&pod, queue);
        }
        if let Some(groups) = &self.groups {
            for group in groups.by(&GROUPS_BY_CLAIM, &value) {
                self.enqueue_group(&group, queue);
            }
        }
    }

    pub fn on_template(&self, change: &Change<'_, ResourceClaimTemplate>, queue: &Queue<Item>) {
        if matches!(change, Change::Deleted(_)) {
            return;
        }
        let value = named(&**change.object());
        for pod in self.pods.by(&PODS_BY_TEMPLATE, &value) {
            self.enqueue_pod(&pod, queue);
        }
        if let Some(groups) = &self.groups {
            for group in groups.by(&GROUPS_BY_TEMPLATE, &value) {
                self.enqueue_group(&group, queue);
            }
        }
    }

    pub fn on_group(&self, change: &Change<'_, PodGroup>, queue: &Queue<Item>) {
        let group = change.object();
        if matches!(change, Change::Deleted(_)) {
            self.note_deleted(&group.metadata.uid);
            let named = group.claims.iter().filter_map(PodClaim::claim_name);
            enqueue_claims(&**group, named.map(Istr::as_str), queue);
        } else {
            self.enqueue_group(group, queue);
        }
        // Its pods may wait for it, or for what its status says of the claims that they share.
        for pod in self.pods.by(&PODS_BY_GROUP, &named(&**group)) {
            self.enqueue_pod(&pod, queue);
        }
    }

    fn enqueue_group(&self, group: &PodGroup, queue: &Queue<Item>) {
        if !plan(Requester::Group(group), self.known()).is_empty() {
            queue.add(Item::PodGroup(group.key()));
        }
    }
}

fn enqueue_claims<'a>(
    user: &impl Resource,
    claims: impl Iterator<Item = &'a str>,
    queue: &Queue<Item>,
) {
    for name in claims {
        queue.add(Item::Claim(Key::new(&user.meta().namespace, name)));
    }
}

/// How the indexes name an object.
fn named(object: &impl Resource) -> IndexValue {
    let meta = object.meta();
    IndexValue::In(meta.namespace.clone(), Istr::new(&meta.name))
}
