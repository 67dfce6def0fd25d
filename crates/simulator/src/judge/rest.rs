//! What must hold when nothing changes any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::{DaemonSet, Pod, StatefulSet};
use api::{Gates, Meta, Resource, Uid};
use controllers::replicaset::ReplicaOwner;
use controllers::{
    daemonset, deployment, garbage_collector, job, namespace, node_lifecycle, pod_gc, replicaset,
    statefulset,
};
use runtime::{Informers, Metrics, Store};

use super::{Judge, Mirror};

type Verdict = Result<(), String>;

const FOREGROUND: &str = "foregroundDeletion";

/// upstream's `--terminated-pod-gc-threshold`; no run has so many pods.
const FINISHED_PODS_MAX: usize = 12_500;

impl Judge {
    /// Is every object as it should be?
    pub(crate) fn check_converged(&self, gates: Gates) -> Verdict {
        let mut inner = self.lock();
        let now = inner.clock.now();
        inner.checks += 1;
        inner.mirror.converged(gates, now)
    }

    /// Is what the managers say true, now that they have nothing more to do?
    pub(crate) fn check_settled(&self) -> Verdict {
        let mut inner = self.lock();
        inner.checks += 1;
        inner.mirror.settled()
    }

    /// Does a manager's cache hold what the server holds?
    pub(crate) fn check_caches(&self, informers: &Informers) -> Verdict {
        let mut inner = self.lock();
        inner.checks += 1;
        let mirror = &inner.mirror;
        same(&mirror.pods, &informers.store())?;
        same(&mirror.sets, &informers.store())?;
        same(&mirror.controllers, &informers.store())?;
        same(&mirror.deployments, &informers.store())?;
        same(&mirror.stateful, &informers.store())?;
        same(&mirror.daemons, &informers.store())?;
        same(&mirror.revisions, &informers.store())?;
        same(&mirror.claims, &informers.store())?;
        same(&mirror.nodes, &informers.store())?;
        same(&mirror.namespaces, &informers.store())?;
        same(&mirror.accounts, &informers.store())?;
        same(&mirror.secrets, &informers.store())?;
        same(&mirror.roles, &informers.store())?;
        same(&mirror.jobs, &informers.store())
    }
}

impl Judge {
    /// Has a manager finished everything? One that stands by has not begun.
    pub(crate) fn check_pending_work(&self, identity: Option<&str>, metrics: &Metrics) -> Verdict {
        let mut inner = self.lock();
        if identity.is_some() && identity != inner.mirror.leader.as_deref() {
            return Ok(());
        }
        inner.checks += 1;
        for (name, ends) in metrics.pending_work().look() {
            if let Some(key) = ends.busy.first() {
                return Err(format!("{name}: {key} is stuck in the queue"));
            }
            let mut failing = ends.failing.iter();
            if let Some(key) = failing.find(|key| !inner.mirror.waits_for_a_name(&name, key)) {
                return Err(format!("{name}: {key} fails, although all has converged"));
            }
            if let Some(key) = ends.expecting.first() {
                return Err(format!("{name}: {key} expects what never comes"));
            }
            let dead = |key: &&String| !inner.mirror.has(&name, key);
            if let Some(key) = ends.held.iter().find(dead) {
                return Err(format!("{name} remembers {key}, which does not exist"));
            }
        }
        Ok(())
    }
}

fn same<K: Resource + PartialEq>(truth: &Store<K>, cache: &Arc<Store<K>>) -> Verdict {
    let held: BTreeMap<Uid, Arc<K>> = by_uid(cache);
    for object in truth.list() {
        match held.get(&object.meta().uid) {
            Some(cached) if **cached == *object => {}
            Some(_) => {
                return Err(format!(
                    "the cache of {} is behind for {}",
                    K::TYPE,
                    object.key()
                ));
            }
            None => return Err(format!("the cache of {} lacks {}", K::TYPE, object.key())),
        }
    }
    if held.len() != truth.len() {
        let (cached, real) = (held.len(), truth.len());
        return Err(format!(
            "the cache of {} holds {cached} objects, the server {real}",
            K::TYPE
        ));
    }
    Ok(())
}

/// Does the pod mount this claim?
fn uses(pod: &Pod, claim: &Meta) -> bool {
    let mut volumes = pod.volumes().iter();
    volumes.any(|volume| *volume.claim_name == *claim.name)
}

fn by_uid<K: Resource>(store: &Store<K>) -> BTreeMap<Uid, Arc<K>> {
    let objects = store.list().into_iter();
    objects
        .map(|object| (object.meta().uid.clone(), object))
        .collect()
}

impl Mirror {
    /// Is there such an object, in the kind that the controller or queue of this name works on?
    fn has(&self, name: &str, key: &str) -> bool {
        let (namespace, object) = key.split_once('/').unwrap_or(("", key));
        match name {
            "replicaset" | "replicaset-controller" => self.sets.find(namespace, object).is_some(),
            "replicationmanager" | "replicationcontroller-controller" => {
                self.controllers.find(namespace, object).is_some()
            }
            "deployment" => self.deployments.find(namespace, object).is_some(),
            "statefulset" => self.stateful.find(namespace, object).is_some(),
            "daemonset" | "daemonset-controller" => self.daemons.find(namespace, object).is_some(),
            "namespace" | "serviceaccount" => self.namespaces.find("", object).is_some(),
            "job" | "job-controller" => self.jobs.find(namespace, object).is_some(),
            "ttlcontroller" => self.nodes.find("", object).is_some(),
            // Queues of things that come and go by themselves.
            _ => true,
        }
    }

    /// A pod that another controller has adopted, or that the set does not select, may bear a name that a StatefulSet
    /// needs: then the set waits for ever, as it does upstream.
    fn name_is_taken(&self, set: &StatefulSet) -> bool {
        let meta = &set.metadata;
        let start = set.spec.ordinals.start;
        let wanted = start..start.saturating_add(set.replicas());
        let is_of_set = |pod: &Pod| {
            let ordinal = pod.metadata.name.strip_prefix(&*meta.name);
            let ordinal = ordinal.and_then(|rest| rest.strip_prefix('-'));
            let ordinal = ordinal.and_then(|ordinal| ordinal.parse::<i32>().ok());
            ordinal.is_some_and(|ordinal| wanted.contains(&ordinal))
        };
        let is_anothers = |pod: &Pod| match pod.metadata.controller() {
            Some(owner) => owner.uid != meta.uid,
            None => !set.spec.selector.matches(&pod.metadata.labels),
        };
        let pods = self.pods.in_namespace(&meta.namespace);
        pods.iter().any(|pod| is_of_set(pod) && is_anothers(pod))
    }

    /// Is this key of this queue a StatefulSet that cannot have one of its pods?
    fn waits_for_a_name(&self, queue: &str, key: &str) -> bool {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let set = self.stateful.find(namespace, name);
        queue == "statefulset" && set.is_some_and(|set| self.name_is_taken(&set))
    }

    /// Holds even if a user has paused, suspended or broken something, and while nodes are silent.
    fn settled(&self) -> Verdict {
        let lives = |namespace: &str| {
            let held = self.namespaces.find("", namespace);
            held.is_some_and(|held| !held.metadata.is_terminating())
        };
        for set in self.sets.list() {
            if lives(&set.metadata.namespace) {
                replicaset::converged(&*set, &self.pods_of(&set.metadata.uid))?;
            }
        }
        for set in self.controllers.list() {
            if lives(&set.metadata.namespace) {
                replicaset::converged(&*set, &self.pods_of(&set.metadata.uid))?;
            }
        }
        for held in self.jobs.list() {
            job::converged(&held, &self.pods_of(&held.metadata.uid))?;
        }
        let deployments = self.deployments.list();
        let deployments = deployments.iter().map(|held| {
            let pods = self.sets_of(&held.metadata.uid).into_iter();
            let pods: i32 = pods.map(|set| set.status.replicas).sum();
            let status = &held.status;
            (
                &held.metadata,
                status.observed_generation,
                status.replicas,
                pods,
            )
        });
        let stateful = self.stateful.list();
        let stateful = stateful.iter().map(|held| {
            let pods = self.pods_of(&held.metadata.uid).len();
            let (status, pods) = (&held.status, i32::try_from(pods).unwrap_or(i32::MAX));
            (
                &held.metadata,
                status.observed_generation,
                status.replicas,
                pods,
            )
        });
        let is_stale = |(meta, observed, said, seen): &(&Meta, i64, i32, i32)| {
            !meta.is_terminating() && (*observed != meta.generation || said != seen)
        };
        if let Some((meta, observed, said, seen)) = deployments.chain(stateful).find(is_stale) {
            return Err(format!(
                "{}: status says (replicas, generation) ({said}, {observed}), it is ({seen}, {})",
                meta.key(),
                meta.generation
            ));
        }
        garbage_collector::converged(self.all())?;
        self.released()
    }

    fn converged(&self, gates: Gates, now: api::MicroTime) -> Verdict {
        for set in self.sets.list() {
            replicaset::converged(&*set, &self.pods_of(&set.metadata.uid))?;
        }
        for set in self.controllers.list() {
            replicaset::converged(&*set, &self.pods_of(&set.metadata.uid))?;
        }
        for deployment in self.deployments.list() {
            let uid = &deployment.metadata.uid;
            deployment::converged(&deployment, &self.sets_of(uid))?;
        }
        for set in self.stateful.list() {
            let (uid, pods) = (&set.metadata.uid, self.pods_of(&set.metadata.uid));
            let never_runs = |pod: &Arc<Pod>| !pod.is_ready() && self.has_lost_its_volume(pod);
            if self.name_is_taken(&set) || pods.iter().any(never_runs) {
                continue;
            }
            statefulset::converged(&set, &pods, &self.revisions_of(uid))?;
            let claims = self.claims_kept_in_order(&set.metadata.namespace);
            statefulset::claims_converged(&set, &claims)?;
        }
        for set in self.daemons.list() {
            self.daemon_converged(&set, gates, now)?;
        }
        self.jobs_converged()?;
        // In the end every node speaks.
        node_lifecycle::converged(&self.nodes.list(), |_| true)?;
        pod_gc::converged(&self.pods.list(), &self.nodes.list(), FINISHED_PODS_MAX)?;
        for held in self.namespaces.list() {
            let name = &*held.metadata.name;
            let content = self.all().filter(|meta| meta.namespace == *name).count();
            namespace::converged(&held, content)?;
        }
        garbage_collector::converged(self.all())?;
        self.housekeeping_converged(now)?;
        self.tells_once()?;
        self.no_leftovers()
    }

    fn daemon_converged(&self, set: &Arc<DaemonSet>, gates: Gates, now: api::MicroTime) -> Verdict {
        let uid = &set.metadata.uid;
        let revisions = self.revisions_of(uid);
        let newest = revisions.iter().max_by_key(|held| held.revision);
        let hash = newest.and_then(|held| {
            let hash = held.metadata.labels.get("controller-revision-hash");
            hash.map(str::to_owned)
        });
        let (nodes, pods) = (self.nodes.list(), self.pods_of(uid));
        daemonset::history_bounded(set, &pods, &revisions)?;
        daemonset::converged(set, &nodes, &pods, &hash.unwrap_or_default(), gates, now)
    }

    /// Nothing is half gone, and no pod that a workload selects is without an owner.
    fn no_leftovers(&self) -> Verdict {
        let going = self
            .metas
            .values()
            .find(|(plural, meta)| meta.is_terminating() && !self.may_stay(plural, meta));
        if let Some((plural, meta)) = going {
            return Err(format!("{plural} {} is still being deleted", meta.key()));
        }
        for (plural, meta) in self.metas.values() {
            let namespace = &meta.namespace;
            if !namespace.is_empty() && self.namespaces.find("", namespace).is_none() {
                return Err(format!("{plural} {} is in no namespace", meta.key()));
            }
        }
        self.released()?;
        let orphan = |pod: &&Arc<Pod>| pod.metadata.controller().is_none() && pod.is_active();
        for pod in self.pods.list().iter().filter(orphan) {
            let meta = &pod.metadata;
            let sets = self.sets.in_namespace(&meta.namespace);
            let selects = |set: &&Arc<api::kinds::ReplicaSet>| set.selects(&meta.labels);
            if let Some(set) = sets.iter().find(selects) {
                let name = &set.metadata.name;
                return Err(format!(
                    "{} is selected by {name} and was not adopted",
                    meta.key()
                ));
            }
        }
        Ok(())
    }

    /// May something stay half gone? Volumes are the provisioner's, and one whose claim came back with a restored server
    /// is stuck. A claim waits for the last pod that uses it: one that was taken from its set runs on.
    fn may_stay(&self, plural: &str, meta: &Meta) -> bool {
        let pods = || self.pods.in_namespace(&meta.namespace).into_iter();
        let own = || self.pods_of(&meta.uid).into_iter();
        match plural {
            "persistentvolumes" => true,
            "persistentvolumeclaims" => pods().any(|pod| uses(&pod, meta)),
            "pods" => pods().any(|pod| {
                pod.metadata.uid == meta.uid
                    && (self.waits_for_its_claim(&pod) || self.waits_for_its_successor(&pod))
            }),
            "statefulsets" => {
                meta.has_finalizer(FOREGROUND) && own().any(|pod| self.waits_for_its_claim(&pod))
            }
            _ => false,
        }
    }

    /// UPSTREAM: a pod that a smaller set makes go owns the claims that go with it. If the set is deleted in the foreground
    /// then, so is the pod: it waits until its claims are gone, and they until no pod uses them, for ever.
    fn waits_for_its_claim(&self, pod: &Pod) -> bool {
        let meta = &pod.metadata;
        let blocks = |owner: &api::OwnerRef| {
            owner.uid == meta.uid && owner.block_owner_deletion == Some(true)
        };
        let claims = self.claims.in_namespace(&meta.namespace);
        let mut claims = claims.iter().map(|claim| &claim.metadata);
        meta.has_finalizer(FOREGROUND)
            && claims.any(|claim| {
                claim.is_terminating() && uses(pod, claim) && claim.owners.iter().any(blocks)
            })
    }

    /// UPSTREAM: the last pod of an index that failed, and may be tried again, is held until there is another one: it knows
    /// how often the index has failed. A job that may run no pods holds it as long.
    fn waits_for_its_successor(&self, pod: &Pod) -> bool {
        let meta = &pod.metadata;
        let owner = meta.controller().filter(|owner| owner.kind == "Job");
        let found = owner.and_then(|owner| self.jobs.find(&meta.namespace, &owner.name));
        found.is_some_and(|job| job::awaits_successor(&job, &self.pods_of(&job.metadata.uid), pod))
    }

    /// No pod belongs to somebody who does not select it.
    fn released(&self) -> Verdict {
        for pod in self.pods.list().iter().filter(|pod| pod.is_active()) {
            let (namespace, labels) = (&pod.metadata.namespace, &pod.metadata.labels);
            let Some(owner) = pod.metadata.controller() else {
                continue;
            };
            let name = &owner.name;
            let (uid, selects) = match owner.kind.as_str() {
                "ReplicaSet" => match self.sets.find(namespace, name) {
                    Some(set) => (set.metadata.uid.clone(), set.selects(labels)),
                    None => continue,
                },
                "ReplicationController" => match self.controllers.find(namespace, name) {
                    Some(set) => (set.metadata.uid.clone(), set.selects(labels)),
                    None => continue,
                },
                "StatefulSet" => match self.stateful.find(namespace, name) {
                    Some(set) => (set.metadata.uid.clone(), set.spec.selector.matches(labels)),
                    None => continue,
                },
                "DaemonSet" => match self.daemons.find(namespace, name) {
                    Some(set) => (set.metadata.uid.clone(), set.spec.selector.matches(labels)),
                    None => continue,
                },
                _ => continue,
            };
            if uid == owner.uid && !selects {
                let pod = &pod.metadata.name;
                return Err(format!(
                    "{pod} is not selected by {name} and was not released"
                ));
            }
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Meta> + Clone {
        self.metas.values().map(|(_, meta)| meta)
    }
}
