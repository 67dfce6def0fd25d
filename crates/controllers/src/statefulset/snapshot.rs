//! What the caches say about one set.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::{PersistentVolumeClaim, Phase, Pod, StatefulSet};
use api::{Gates, MicroTime};
use runtime::Store;

use super::claims::{ClaimOwner, Claims};
use super::identity::{claim_name, claim_templates, ordinal, ordinals};
use super::revisions::Revisions;

pub struct Snapshot {
    pub set: Arc<StatefulSet>,
    /// Pods at their ordinals, among those that the set wants.
    pub replicas: BTreeMap<i32, Arc<Pod>>,
    /// Pods at ordinals that the set no longer wants, highest first.
    pub condemned: Vec<(i32, Arc<Pod>)>,
    /// Pods of the set whose name gives them no place; they are left alone.
    pub misnamed: Vec<Arc<Pod>>,
    pub claims: Claims,
    pub revisions: Revisions,
    pub gates: Gates,
    /// Replace pods of a superseded revision that never got ready.
    pub recover_stuck_rollouts: bool,
}

impl Snapshot {
    pub fn new(
        set: Arc<StatefulSet>,
        pods: Vec<Arc<Pod>>,
        revisions: Revisions,
        claims: &Store<PersistentVolumeClaim>,
        gates: Gates,
        recover_stuck_rollouts: bool,
    ) -> Snapshot {
        let wanted = ordinals(&set);
        let (mut replicas, mut condemned, mut misnamed) = (BTreeMap::new(), Vec::new(), Vec::new());
        for pod in pods {
            match ordinal(&set, &pod) {
                Some(ordinal) if wanted.contains(&ordinal) => {
                    replicas.insert(ordinal, pod);
                }
                Some(ordinal) => condemned.push((ordinal, pod)),
                None => misnamed.push(pod),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let mut snapshot = Snapshot {
            set,
            replicas,
            condemned,
            misnamed,
            claims: Claims::new(),
            revisions,
            gates,
            recover_stuck_rollouts,
        };
        snapshot.look_up_claims(claims);
        snapshot
    }

    /// Reads the claims of the pods that there are, and of those that can be created in this sync.
    fn look_up_claims(&mut self, store: &Store<PersistentVolumeClaim>) {
        let templates: Vec<String> = claim_templates(&self.set).collect();
        if templates.is_empty() {
            return;
        }
        let missing = self.missing().take(super::plan::CREATIONS_MAX);
        let ordinals: Vec<i32> = self
            .replicas
            .keys()
            .copied()
            .chain(self.condemned.iter().map(|(ordinal, _)| *ordinal))
            .chain(missing)
            .collect();
        for ordinal in ordinals {
            for template in &templates {
                let name = claim_name(&self.set, template, ordinal);
                if let Some(claim) = store.find(&self.set.metadata.namespace, &name) {
                    self.claims.insert(name, claim);
                }
            }
        }
    }

    /// Ordinals that the set wants and has no pod for, lowest first.
    pub fn missing(&self) -> impl Iterator<Item = i32> {
        ordinals(&self.set).filter(|ordinal| !self.replicas.contains_key(ordinal))
    }

    pub fn missing_count(&self) -> usize {
        let wanted = usize::try_from(self.set.replicas()).unwrap_or(0);
        wanted.saturating_sub(self.replicas.len())
    }

    /// Pods that have a place, wanted or not.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.replicas
            .values()
            .chain(self.condemned.iter().map(|(_, pod)| pod))
    }

    pub fn claim_owner(&self, ordinal: i32) -> ClaimOwner<'_> {
        ClaimOwner {
            set: &self.set,
            ordinal,
            uid: self
                .replicas
                .get(&ordinal)
                .map_or_else(Default::default, |pod| pod.metadata.uid.clone()),
        }
    }
}

pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == Phase::Running && pod.is_ready()
}

pub(super) fn is_unavailable(set: &StatefulSet, pod: &Pod, now: MicroTime) -> bool {
    pod.metadata.is_terminating() || !pod.is_available(set.spec.min_ready_seconds, now)
}
