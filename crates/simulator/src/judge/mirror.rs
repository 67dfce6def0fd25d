//! What is really in the API server, object by object.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;

use api::kinds::{
    ClusterRole, ConfigMap, ControllerRevision, DaemonSet, Deployment, Job, Metadata, Namespace,
    Node, PersistentVolumeClaim, Pod, ReplicaSet, ReplicationController, Secret, ServiceAccount,
    StatefulSet,
};
use api::{Meta, Resource, Uid};
use apiserver::Changed;
use runtime::triggers::by_controller;
use runtime::{IndexValue, Store};
use rustc_hash::FxHasher;

use crate::cluster::LEASE;

pub(crate) struct Mirror {
    pub(crate) pods: Store<Pod>,
    pub(crate) sets: Store<ReplicaSet>,
    pub(crate) controllers: Store<ReplicationController>,
    pub(crate) deployments: Store<Deployment>,
    pub(crate) stateful: Store<StatefulSet>,
    pub(crate) daemons: Store<DaemonSet>,
    pub(crate) revisions: Store<ControllerRevision>,
    pub(crate) claims: Store<PersistentVolumeClaim>,
    pub(crate) nodes: Store<Node>,
    pub(crate) namespaces: Store<Namespace>,
    pub(crate) accounts: Store<ServiceAccount>,
    pub(crate) secrets: Store<Secret>,
    pub(crate) config_maps: Store<ConfigMap>,
    pub(crate) roles: Store<ClusterRole>,
    pub(crate) jobs: Store<Job>,
    /// Everything but events, as the garbage collector sees it.
    pub(crate) metas: BTreeMap<Uid, (Cow<'static, str>, Meta)>,
    /// Pods that were let go by their set, by namespace and name.
    left: BTreeSet<(String, String)>,
    /// Claims whose volume is gone, by namespace and name.
    lost: BTreeSet<(String, String)>,
    /// How often each event was made anew, by what it says about what.
    told: BTreeMap<u64, u32>,
    /// Events that are there, by name.
    events: BTreeSet<(String, String)>,
    /// How often processes that write events began, or began to lead.
    pub(crate) lives: u32,
    /// Who holds the managers' lease.
    pub(crate) leader: Option<String>,
}

/// One object, as far as checks care what it is.
#[derive(Clone)]
pub(crate) enum Object {
    Pod(Arc<Pod>),
    Set(Arc<ReplicaSet>),
    Controller(Arc<ReplicationController>),
    Deployment(Arc<Deployment>),
    Stateful(Arc<StatefulSet>),
    Daemon(Arc<DaemonSet>),
    Revision(Arc<ControllerRevision>),
    Claim(Arc<PersistentVolumeClaim>),
    Node(Arc<Node>),
    Namespace(Arc<Namespace>),
    Account(Arc<ServiceAccount>),
    Secret(Arc<Secret>),
    ConfigMap(Arc<ConfigMap>),
    Role(Arc<ClusterRole>),
    Job(Arc<Job>),
    Other(Arc<Metadata>),
}

impl Object {
    pub(crate) fn meta(&self) -> &Meta {
        match self {
            Object::Pod(object) => &object.metadata,
            Object::Set(object) => &object.metadata,
            Object::Controller(object) => &object.metadata,
            Object::Deployment(object) => &object.metadata,
            Object::Stateful(object) => &object.metadata,
            Object::Daemon(object) => &object.metadata,
            Object::Revision(object) => &object.metadata,
            Object::Claim(object) => &object.metadata,
            Object::Node(object) => &object.metadata,
            Object::Namespace(object) => &object.metadata,
            Object::Account(object) => &object.metadata,
            Object::Secret(object) => &object.metadata,
            Object::ConfigMap(object) => &object.metadata,
            Object::Role(object) => &object.metadata,
            Object::Job(object) => &object.metadata,
            Object::Other(object) => &object.metadata,
        }
    }

    /// `status.observedGeneration`, where there is one.
    pub(crate) fn observed(&self) -> Option<i64> {
        Some(match self {
            Object::Set(object) => object.status.observed_generation,
            Object::Controller(object) => object.status.observed_generation,
            Object::Deployment(object) => object.status.observed_generation,
            Object::Stateful(object) => object.status.observed_generation,
            Object::Daemon(object) => object.status.observed_generation,
            _ => return None,
        })
    }
}

impl Mirror {
    pub(super) fn new() -> Mirror {
        let mirror = Mirror {
            pods: Store::new(),
            sets: Store::new(),
            controllers: Store::new(),
            deployments: Store::new(),
            stateful: Store::new(),
            daemons: Store::new(),
            revisions: Store::new(),
            claims: Store::new(),
            nodes: Store::new(),
            namespaces: Store::new(),
            accounts: Store::new(),
            secrets: Store::new(),
            config_maps: Store::new(),
            roles: Store::new(),
            jobs: Store::new(),
            metas: BTreeMap::new(),
            left: BTreeSet::new(),
            lost: BTreeSet::new(),
            told: BTreeMap::new(),
            events: BTreeSet::new(),
            lives: 0,
            leader: None,
        };
        mirror.pods.add_index(&by_controller());
        mirror.sets.add_index(&by_controller());
        mirror.revisions.add_index(&by_controller());
        mirror
    }

    /// Takes a change in; gives the object before and after it.
    pub(super) fn apply(&mut self, changed: &Changed) -> (Option<Object>, Option<Object>) {
        let (before, after) = match &*changed.plural {
            "pods" => keep(&self.pods, changed, Object::Pod),
            "replicasets" => keep(&self.sets, changed, Object::Set),
            "replicationcontrollers" => keep(&self.controllers, changed, Object::Controller),
            "deployments" => keep(&self.deployments, changed, Object::Deployment),
            "statefulsets" => keep(&self.stateful, changed, Object::Stateful),
            "daemonsets" => keep(&self.daemons, changed, Object::Daemon),
            "controllerrevisions" => keep(&self.revisions, changed, Object::Revision),
            "persistentvolumeclaims" => {
                self.note_claim(changed);
                keep(&self.claims, changed, Object::Claim)
            }
            "nodes" => keep(&self.nodes, changed, Object::Node),
            "namespaces" => keep(&self.namespaces, changed, Object::Namespace),
            "serviceaccounts" => keep(&self.accounts, changed, Object::Account),
            "secrets" => keep(&self.secrets, changed, Object::Secret),
            "configmaps" => keep(&self.config_maps, changed, Object::ConfigMap),
            "clusterroles" => keep(&self.roles, changed, Object::Role),
            "jobs" => keep(&self.jobs, changed, Object::Job),
            "events" => {
                self.note_event(changed);
                return (None, None);
            }
            "leases" => {
                self.note_lease(changed);
                return (None, None);
            }
            _ => self.other(changed),
        };
        if let (Some(Object::Pod(before)), Some(Object::Pod(after))) = (&before, &after)
            && before.metadata.controller().is_some()
            && after.metadata.controller().is_none()
        {
            let name = (changed.namespace.clone(), changed.name.clone());
            self.left.insert(name);
        }
        if let Some(Object::Pod(pod)) = &after
            && let Some(owner) = pod.metadata.controller()
            && owner.kind == "StatefulSet"
        {
            // It has a pod of this name again, and looks at its claims.
            let name = (changed.namespace.clone(), changed.name.clone());
            self.left.remove(&name);
        }
        match (&after, &before) {
            (Some(object), _) => {
                let meta = object.meta();
                let entry = (changed.plural.clone(), meta.clone());
                self.metas.insert(meta.uid.clone(), entry);
            }
            (None, Some(object)) => {
                self.metas.remove(&object.meta().uid);
            }
            (None, None) => {}
        }
        (before, after)
    }

    /// A kind that no check looks into.
    fn other(&mut self, changed: &Changed) -> (Option<Object>, Option<Object>) {
        let Ok(object) = Metadata::decode(&changed.body) else {
            return (None, None);
        };
        let object = Object::Other(Arc::new(object));
        let held = self.metas.get(&object.meta().uid).map(|(_, meta)| {
            Object::Other(Arc::new(Metadata {
                metadata: meta.clone(),
            }))
        });
        match changed.is_deleted {
            true => (held.or(Some(object)), None),
            false => (held, Some(object)),
        }
    }

    /// Notes whether a claim still has its volume.
    fn note_claim(&mut self, changed: &Changed) {
        let claim: serde_json::Value = serde_json::from_slice(&changed.body).unwrap_or_default();
        let name = (changed.namespace.clone(), changed.name.clone());
        match claim["status"]["phase"] == "Lost" && !changed.is_deleted {
            true => self.lost.insert(name),
            false => self.lost.remove(&name),
        };
    }

    /// UPSTREAM: a claim that has lost its volume never gets another. That happens when the server loses the volume, and
    /// whoever binds them still sees it.
    pub(super) fn has_lost_its_volume(&self, pod: &Pod) -> bool {
        let namespace = pod.metadata.namespace.to_string();
        let mut volumes = pod.volumes().iter();
        volumes.any(|volume| {
            let claim = (namespace.clone(), volume.claim_name.to_string());
            self.lost.contains(&claim)
        })
    }

    fn note_event(&mut self, changed: &Changed) {
        let name = (changed.namespace.clone(), changed.name.clone());
        if changed.is_deleted {
            self.events.remove(&name);
        } else if self.events.insert(name) {
            let event: serde_json::Value =
                serde_json::from_slice(&changed.body).unwrap_or_default();
            let mut hash = FxHasher::default();
            let object = &event["involvedObject"];
            for field in [
                &object["uid"],
                &object["fieldPath"],
                &event["reason"],
                &event["message"],
                &event["source"]["component"],
            ] {
                hash.write(field.as_str().unwrap_or_default().as_bytes());
            }
            *self.told.entry(hash.finish()).or_default() += 1;
        }
    }

    /// The same thing is told once by each life of whoever tells it, and counted after that. What was
    /// deleted with its namespace, or lost, is told again.
    pub(super) fn tells_once(&self) -> Result<(), String> {
        let most = self.told.values().max().copied().unwrap_or(0);
        match most > self.lives + 1 {
            true => Err(format!(
                "one event was made {most} times instead of being counted"
            )),
            false => Ok(()),
        }
    }

    fn note_lease(&mut self, changed: &Changed) {
        if (changed.namespace.as_str(), changed.name.as_str()) != LEASE {
            return;
        }
        let lease: serde_json::Value = serde_json::from_slice(&changed.body).unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str();
        let leader = holder
            .filter(|holder| !holder.is_empty() && !changed.is_deleted)
            .map(str::to_owned);
        self.lives += u32::from(self.leader != leader);
        self.leader = leader;
    }

    /// Claims of a namespace, but for those of pods that left their set, as long as it has no other of that name.
    ///
    /// UPSTREAM: a set looks at the claims of the pods that it has. The claim of one that was taken from it stays as
    /// it is, whatever the retention policy says.
    pub(super) fn claims_kept_in_order(&self, namespace: &str) -> Vec<Arc<PersistentVolumeClaim>> {
        let mut claims = self.claims.in_namespace(namespace);
        claims.retain(|claim| {
            let name = &claim.metadata.name;
            let is_of = |pod: &str| name.strip_suffix(pod).is_some_and(|it| it.ends_with('-'));
            let mut left = self.left.iter();
            !left.any(|(space, pod)| space == namespace && is_of(pod))
        });
        claims
    }

    pub(crate) fn pods_of(&self, owner: &Uid) -> Vec<Arc<Pod>> {
        let value = IndexValue::Uid(owner.clone());
        self.pods.by(&by_controller(), &value)
    }

    pub(crate) fn sets_of(&self, owner: &Uid) -> Vec<Arc<ReplicaSet>> {
        let value = IndexValue::Uid(owner.clone());
        self.sets.by(&by_controller(), &value)
    }

    pub(crate) fn revisions_of(&self, owner: &Uid) -> Vec<Arc<ControllerRevision>> {
        let value = IndexValue::Uid(owner.clone());
        self.revisions.by(&by_controller(), &value)
    }

    pub(crate) fn deployment_of(&self, set: &ReplicaSet) -> Option<Arc<Deployment>> {
        let owner = set.metadata.controller()?;
        let found = self
            .deployments
            .find(&set.metadata.namespace, &owner.name)?;
        (found.metadata.uid == owner.uid).then_some(found)
    }
}

fn keep<K: Resource>(
    store: &Store<K>,
    changed: &Changed,
    wrap: fn(Arc<K>) -> Object,
) -> (Option<Object>, Option<Object>) {
    let (namespace, name) = (&changed.namespace, &changed.name);
    if changed.is_deleted {
        return (store.remove(namespace, name).map(wrap), None);
    }
    match K::decode(&changed.body) {
        Ok(object) => {
            let object = Arc::new(object);
            (store.put(object.clone()).map(wrap), Some(wrap(object)))
        }
        // What the views cannot read is the business of other tests.
        Err(_) => (store.find(namespace, name).map(wrap), None),
    }
}
