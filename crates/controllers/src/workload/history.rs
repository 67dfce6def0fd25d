//! Revision history: the templates that a StatefulSet or DaemonSet has had, kept as
//! ControllerRevisions so that it can tell old pods from new ones and go back.
//!
//! Names and data are byte for byte upstream's, see [`RevisionData`].

use std::sync::Arc;

use api::kinds::{ControllerRevision, RevisionData};
use api::names::cut;
use api::{LabelSet, Meta, OwnerRef, Resource, Selector};
use bytes::Bytes;
use client::{Client, DeleteOptions, Error, Patch};
use runtime::Store;
use serde::Serialize;
use serde_json::value::RawValue;

use super::candidates;

/// The label that repeats the hash in a revision's name.
pub const REVISION_HASH: &str = "controller.kubernetes.io/hash";

/// Leaves room in 253 bytes for a dash and any hash.
const NAME_PREFIX_MAX: usize = 223;

/// A revision that does not exist yet.
#[derive(Clone, Debug)]
pub struct NewRevision {
    pub labels: LabelSet,
    pub annotations: LabelSet,
    pub owner: OwnerRef,
    pub data: RevisionData,
    pub number: i64,
}

/// Reads and writes the revisions of owners.
#[derive(Clone)]
pub struct History {
    client: Client,
    revisions: Arc<Store<ControllerRevision>>,
}

/// `prefix-hash`, cut to what fits a name.
pub fn revision_name(prefix: &str, hash: &str) -> String {
    format!("{}-{hash}", cut(prefix, NAME_PREFIX_MAX))
}

/// Oldest first: by number, then by creation, then by name.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|one, two| {
        let order = |held: &ControllerRevision| (held.revision, held.metadata.created_at);
        order(one)
            .cmp(&order(two))
            .then_with(|| one.metadata.name.cmp(&two.metadata.name))
    });
}

/// The number for a revision after these, which are sorted.
pub fn next_number(revisions: &[Arc<ControllerRevision>]) -> i64 {
    revisions.last().map_or(1, |last| last.revision + 1)
}

/// The newest of the revisions that hold exactly this data.
pub fn newest_equal<'a>(
    revisions: &'a [Arc<ControllerRevision>],
    data: &RevisionData,
) -> Option<&'a Arc<ControllerRevision>> {
    revisions.iter().rev().find(|held| held.data == *data)
}

/// Which of the sorted revisions to delete so that at most `limit` remain that nobody uses.
pub fn plan_truncation(
    revisions: &[Arc<ControllerRevision>],
    is_live: impl Fn(&ControllerRevision) -> bool,
    limit: i32,
) -> Vec<Arc<ControllerRevision>> {
    // UPSTREAM: a negative limit keeps everything.
    let Ok(limit) = usize::try_from(limit) else {
        return Vec::new();
    };
    let mut unused: Vec<Arc<ControllerRevision>> = revisions
        .iter()
        .filter(|held| !is_live(held))
        .cloned()
        .collect();
    unused.truncate(unused.len().saturating_sub(limit));
    unused
}

impl History {
    /// The store needs the index [`by_controller`](runtime::triggers::by_controller); the builder of the controller adds it.
    pub fn new(client: Client, revisions: Arc<Store<ControllerRevision>>) -> History {
        History { client, revisions }
    }

    /// Revisions that the owner controls, and orphans of its namespace that `selector` matches:
    /// what [`Claimer::claim`](super::Claimer::claim) decides about.
    pub fn candidates(&self, owner: &Meta, selector: &Selector) -> Vec<Arc<ControllerRevision>> {
        let mut found = candidates(owner, &self.revisions);
        found.retain(|held| {
            let meta = &held.metadata;
            meta.controller().is_some() || selector.matches(&meta.labels)
        });
        found
    }

    /// Creates a revision under a name made of the owner's and the hash. A name that is taken by
    /// other data raises the collision count and thereby changes the hash; one that is taken by the
    /// same data is the revision we wanted.
    pub async fn create(
        &self,
        owner: &Meta,
        revision: &NewRevision,
        collision_count: &mut i32,
    ) -> Result<Arc<ControllerRevision>, Error> {
        // UPSTREAM: after a collision the label keeps the first hash.
        let hash = revision.data.hash(Some(*collision_count));
        let labels = revision.labels.with(REVISION_HASH, &hash);
        let labelled = NewRevision {
            labels,
            ..revision.clone()
        };
        loop {
            let hash = revision.data.hash(Some(*collision_count));
            let name = revision_name(&owner.name, &hash);
            match self.create_named(&owner.namespace, &name, &labelled).await {
                Err(error) if error.is_already_exists() => {
                    let held: ControllerRevision =
                        self.client.get_as(&owner.namespace, &name).await?;
                    if held.data == revision.data {
                        return Ok(Arc::new(held));
                    }
                    *collision_count += 1;
                }
                other => return other,
            }
        }
    }

    /// Creates a revision under a name of the caller's making; a taken name is the caller's to handle.
    pub async fn create_named(
        &self,
        namespace: &str,
        name: &str,
        revision: &NewRevision,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let body = revision.body(name);
        let answer = self
            .client
            .create(&ControllerRevision::TYPE, namespace, body)
            .await?;
        read(&answer)
    }

    /// Makes an old revision the newest by giving it a new number.
    pub async fn renumber(
        &self,
        revision: &Arc<ControllerRevision>,
        number: i64,
    ) -> Result<Arc<ControllerRevision>, Error> {
        if revision.revision == number {
            return Ok(revision.clone());
        }
        self.patch(revision, serde_json::json!({"revision": number}))
            .await
    }

    /// Sets one label.
    pub async fn label(
        &self,
        revision: &ControllerRevision,
        key: &str,
        value: &str,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let patch = serde_json::json!({"metadata": {"labels": {key: value}}});
        self.patch(revision, patch).await
    }

    /// Deletes revisions that nobody needs; one that is gone already is as good as deleted.
    pub async fn truncate(&self, surplus: &[Arc<ControllerRevision>]) -> Result<(), Error> {
        for revision in surplus {
            match self.delete(revision).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    async fn delete(&self, revision: &ControllerRevision) -> Result<(), Error> {
        let meta = &revision.metadata;
        let options = DeleteOptions::exactly(&meta.uid);
        self.client
            .delete(
                &ControllerRevision::TYPE,
                &meta.namespace,
                &meta.name,
                &options,
            )
            .await
            .map(drop)
    }

    async fn patch(
        &self,
        revision: &ControllerRevision,
        mut patch: serde_json::Value,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let meta = &revision.metadata;
        patch["metadata"]["uid"] = serde_json::json!(meta.uid);
        let patch = Patch::Merge(patch.to_string().into());
        let answer = self
            .client
            .patch(
                &ControllerRevision::TYPE,
                &meta.namespace,
                &meta.name,
                None,
                &patch,
            )
            .await?;
        read(&answer)
    }
}

impl NewRevision {
    fn body(&self, name: &str) -> Bytes {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            api_version: &'static str,
            kind: &'static str,
            metadata: Metadata<'a>,
            data: &'a RawValue,
            revision: i64,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "LabelSet::is_empty")]
            labels: &'a LabelSet,
            #[serde(skip_serializing_if = "LabelSet::is_empty")]
            annotations: &'a LabelSet,
            owner_references: [&'a OwnerRef; 1],
        }
        let data = serde_json::from_str(self.data.as_str()).expect("revision data is JSON");
        let body = Body {
            api_version: "apps/v1",
            kind: "ControllerRevision",
            metadata: Metadata {
                name,
                labels: &self.labels,
                annotations: &self.annotations,
                owner_references: [&self.owner],
            },
            data,
            revision: self.number,
        };
        serde_json::to_vec(&body)
            .expect("our own values serialise")
            .into()
    }
}

fn read(answer: &[u8]) -> Result<Arc<ControllerRevision>, Error> {
    ControllerRevision::decode(answer)
        .map(Arc::new)
        .map_err(|source| Error::Decode {
            request: "a write of a ControllerRevision".into(),
            excerpt: String::new(),
            source: source.into(),
        })
}

#[cfg(test)]
mod tests;
