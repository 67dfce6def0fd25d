//! Which revision is current: found by its data, made when there is none.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kinds::{ControllerRevision, DaemonSet, Pod, RevisionData};
use api::{Key, Resource};
use client::{Client, Patch};
use runtime::Error;

use super::pods::REVISION_HASH;
use crate::workload::Consistency;
use crate::workload::claim::controller_reference;
use crate::workload::history::{History, NewRevision, revision_name};
use crate::workload::status::{put_status, revision};

/// The current revision and the others, oldest first.
#[derive(Clone, Debug)]
pub struct Revisions {
    pub current: Arc<ControllerRevision>,
    pub old: Vec<Arc<ControllerRevision>>,
}

impl Revisions {
    /// What pods of the current revision are marked with.
    pub fn hash(&self) -> &str {
        hash(&self.current)
    }

    /// Which of the old revisions to delete: the oldest that no pod has, down to `limit` in all.
    pub fn surplus<'a>(
        &self,
        limit: i32,
        pods: impl Iterator<Item = &'a Arc<Pod>>,
    ) -> Vec<Arc<ControllerRevision>> {
        let limit = usize::try_from(limit).unwrap_or(0);
        let count = self.old.len().saturating_sub(limit);
        if count == 0 {
            return Vec::new();
        }
        let live: BTreeSet<&str> = pods.filter_map(|pod| mark(pod)).collect();
        // UPSTREAM: revisions in use count towards the limit, yet are never deleted.
        self.old
            .iter()
            .filter(|held| !live.contains(hash(held)))
            .take(count)
            .cloned()
            .collect()
    }
}

fn hash(revision: &ControllerRevision) -> &str {
    let labels = &revision.metadata.labels;
    labels.get(REVISION_HASH).unwrap_or_default()
}

/// The revision that a pod is marked with.
fn mark(pod: &Pod) -> Option<&str> {
    let mark = pod.metadata.labels.get(REVISION_HASH)?;
    (!mark.is_empty()).then_some(mark)
}

/// Finds and keeps the revisions of one set, during one reconcile.
pub(super) struct RevisionManager<'a> {
    pub client: &'a Client,
    pub history: &'a History,
    pub consistency: &'a Consistency,
    pub key: &'a Key,
    pub set: &'a DaemonSet,
}

impl RevisionManager<'_> {
    /// Sorts out the revisions that the set controls.
    pub(super) async fn resolve(
        &self,
        revisions: Vec<Arc<ControllerRevision>>,
        pods: &[Arc<Pod>],
    ) -> Result<Revisions, Error> {
        let data = self.set.spec.template.revision();
        let (mut equal, mut old) = (Vec::new(), Vec::new());
        for held in revisions {
            let held = self.labelled(held).await?;
            if held.data == *data {
                equal.push(held);
            } else {
                old.push(held);
            }
        }
        old.sort_by_key(|held| held.revision);
        let number = old.last().map_or(0, |newest| newest.revision) + 1;
        let current = match equal.len() {
            0 => self.create(data.clone(), number).await?,
            1 => equal.remove(0),
            _ => self.merge(equal, pods).await?,
        };
        let current = if current.revision < number {
            let moved = self.history.renumber(&current, number).await?;
            self.note(&moved);
            moved
        } else {
            current
        };
        Ok(Revisions { current, old })
    }

    /// Very old controllers made revisions without the label: their name will do.
    async fn labelled(
        &self,
        held: Arc<ControllerRevision>,
    ) -> Result<Arc<ControllerRevision>, Error> {
        if held.metadata.labels.contains_key(REVISION_HASH) {
            return Ok(held);
        }
        let name = held.metadata.name.clone();
        let labelled = self.history.label(&held, REVISION_HASH, &name).await?;
        self.note(&labelled);
        Ok(labelled)
    }

    async fn create(
        &self,
        data: RevisionData,
        number: i64,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let set = self.set;
        let hash = set.spec.template.short_hash(set.status.collision_count);
        let name = revision_name(&set.metadata.name, &hash);
        let new = NewRevision {
            labels: set.spec.template.labels().with(REVISION_HASH, &hash),
            annotations: set.metadata.annotations.clone(),
            owner: controller_reference(set),
            data,
            number,
        };
        let namespace = &set.metadata.namespace;
        match self.history.create_named(namespace, &name, &new).await {
            Ok(made) => {
                self.note(&made);
                Ok(made)
            }
            Err(error) if error.is_already_exists() => {
                let held: ControllerRevision = self.client.get_as(namespace, &name).await?;
                if held.data == new.data {
                    return Ok(Arc::new(held));
                }
                Err(self.count_collision(error).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Another template has the same hash: the next sync computes it with a new count. Gives the
    /// error that ends this sync.
    async fn count_collision(&self, error: client::Error) -> Result<Error, Error> {
        let meta = &self.set.metadata;
        let mut fresh: DaemonSet = self.client.get_as(&meta.namespace, &meta.name).await?;
        let (expected, held) = (
            fresh.status.collision_count,
            self.set.status.collision_count,
        );
        if expected != held {
            return Ok(Error::Retry(format!(
                "found a stale collision count ({}, expected {}) of DaemonSet {:?} while processing; will retry until it is updated",
                held.unwrap_or(0),
                expected.unwrap_or(0),
                meta.name,
            )));
        }
        fresh.status.collision_count = Some(expected.unwrap_or(0).saturating_add(1));
        let written = put_status::<DaemonSet>(self.client, &fresh.metadata, &fresh.status).await?;
        self.consistency.note::<DaemonSet>(self.key, written);
        Ok(error.into())
    }

    /// Several revisions hold the same template: the newest stays, and pods of the others become its.
    async fn merge(
        &self,
        equal: Vec<Arc<ControllerRevision>>,
        pods: &[Arc<Pod>],
    ) -> Result<Arc<ControllerRevision>, Error> {
        let newest = equal.iter().max_by_key(|held| held.revision);
        let kept = newest.expect("there are several").clone();
        let mut relabelled = false;
        for pod in pods {
            // UPSTREAM: pods of every other revision, the older templates' too.
            if mark(pod) != Some(hash(&kept)) {
                self.relabel(pod, hash(&kept)).await?;
                relabelled = true;
            }
        }
        let mut surplus = equal;
        surplus.retain(|held| held.metadata.name != kept.metadata.name);
        self.history.truncate(&surplus).await?;
        if relabelled {
            // The pods in the cache still look outdated: an update would delete them for nothing.
            let resource = Pod::TYPE.plural.into();
            return Err(Error::Stale { resource });
        }
        Ok(kept)
    }

    async fn relabel(&self, pod: &Pod, hash: &str) -> Result<(), Error> {
        let meta = &pod.metadata;
        let patch = serde_json::json!({"metadata": {"labels": {REVISION_HASH: hash}}});
        let patch = Patch::Merge(patch.to_string().into());
        let answer = self
            .client
            .patch(&Pod::TYPE, &meta.namespace, &meta.name, None, &patch)
            .await?;
        self.consistency.note::<Pod>(self.key, revision(&answer));
        Ok(())
    }

    fn note(&self, written: &ControllerRevision) {
        let version = written.metadata.resource_version;
        self.consistency
            .note::<ControllerRevision>(self.key, version);
    }
}
