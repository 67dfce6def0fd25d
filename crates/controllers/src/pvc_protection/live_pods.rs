//! The pods of a namespace as the API server has them now.
//!
//! A namespace may have thousands of pods, and thousands of claims that are deleted at once. One list answers for every
//! claim that was being deleted when it began: a pod that is not in it is not started with such a claim any more.

use std::sync::Arc;
use std::time::Duration;

use api::collections::HashSet;
use api::kinds::{PVC_PROTECTION, PersistentVolumeClaim, Pod};
use api::{Istr, Resource, Uid};
use bytes::Bytes;
use client::{Client, ListOptions};
use parking_lot::Mutex;
use runtime::{Error, Store};
use tokio::time::Instant;

use super::plan::{Use, user_among};
use crate::storage::protection::{Need, need};

/// How long what a list said is worth: as long as it takes to get to the other claims in the queue.
pub const FRESH: Duration = Duration::from_secs(1);

/// Pods of one page.
const PAGE: u32 = 500;

/// What the last list said.
#[derive(Default)]
pub struct LivePods(Mutex<Option<Answer>>);

struct Answer {
    namespace: Istr,
    at: Instant,
    /// Claims that no pod used, each until somebody has asked for it.
    unused: HashSet<Uid>,
}

impl LivePods {
    /// A pod on a node that uses the claim, which is being deleted; `claims` are those of the cache.
    pub async fn user(
        &self,
        client: &Client,
        claim: &PersistentVolumeClaim,
        claims: &Store<PersistentVolumeClaim>,
    ) -> Result<Option<Arc<Pod>>, Error> {
        if self.take(claim) {
            return Ok(None);
        }
        let namespace = &claim.metadata.namespace;
        let is_leaving = |claim: &PersistentVolumeClaim| {
            need(&claim.metadata, PVC_PROTECTION) == Some(Need::Remove)
        };
        // Before the list: those that are deleted while it runs are none of its business.
        let (mut leaving, at) = (claims.select(namespace, is_leaving), Instant::now());
        let pods = list(client, namespace).await?;
        leaving.retain(|one| user_among(&pods, one, Use::Deletion).is_none());
        let unused = leaving.iter().map(|one| one.metadata.uid.clone());
        let others = unused.filter(|uid| *uid != claim.metadata.uid);
        *self.0.lock() = Some(Answer {
            namespace: namespace.clone(),
            at,
            unused: others.collect(),
        });
        Ok(user_among(&pods, claim, Use::Deletion).cloned())
    }

    /// Has a list of a moment ago said that nobody uses the claim? It says so once.
    fn take(&self, claim: &PersistentVolumeClaim) -> bool {
        let mut held = self.0.lock();
        let Some(answer) = held.as_mut() else {
            return false;
        };
        answer.namespace == claim.metadata.namespace
            && answer.at.elapsed() < FRESH
            && answer.unused.remove(&claim.metadata.uid)
    }
}

pub async fn list(client: &Client, namespace: &str) -> Result<Vec<Arc<Pod>>, Error> {
    let options = ListOptions {
        limit: Some(PAGE),
        ..ListOptions::default()
    };
    let mut pods = Vec::new();
    let take = |item: Bytes| {
        let pod = Pod::decode(&item).map_err(|error| Error::Retry(error.to_string()))?;
        pods.push(Arc::new(pod));
        Ok::<(), Error>(())
    };
    client
        .list_all(&Pod::TYPE, namespace, options, take)
        .await?;
    Ok(pods)
}
