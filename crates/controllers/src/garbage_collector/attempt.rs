//! One attempt to deal with one object: what is known, what follows, and doing it.

use std::sync::Arc;

use api::decision::Line;
use api::{Istr, Meta, OwnerRef, ResourceType, Uid};
use futures_util::{StreamExt, stream};
use runtime::{Error, Next, Report};
use tokio::time::Instant;

use super::Collector;
use super::decide::{self, Action, OwnerState, Reason};
use super::graph::{FOREGROUND, Item, KnownOwner, ORPHAN};
use super::identity::Identity;
use super::writes::{self, Target, Written};
use crate::workload::claim::aggregate;

/// Dependents of one owner that are orphaned at the same time; flow control has the last word.
const ORPHANED_AT_ONCE: usize = 50;

/// What is known of an owner after asking.
enum Fetched {
    State(OwnerState),
    /// A cluster-scoped object names a namespaced owner. No retry will make sense of it.
    OutOfReach,
}

impl Collector {
    pub(super) async fn attempt_to_delete(
        self: &Arc<Collector>,
        uid: &Uid,
        report: &Report<'_>,
    ) -> Result<Next, Error> {
        let Some(item) = self.graph.lock().item(uid) else {
            return Ok(Next::AwaitChange);
        };
        if let Some((action, reason)) = decide::decide_deleting(&item) {
            self.apply(&item, action, &reason, None, report).await?;
            return Ok(Next::AwaitChange);
        }
        let resource = self
            .resource(&item.identity.api_version, &item.identity.kind)
            .await?;
        if resource.namespaced && item.identity.namespace.is_empty() {
            return Ok(Next::AwaitChange);
        }
        let Some(latest) = self.latest(&item, &resource).await? else {
            self.deny(&item.identity);
            return Ok(Next::AwaitChange);
        };
        let Some(owners) = self.classify(&item.identity.namespace, &latest).await? else {
            return Ok(Next::AwaitChange);
        };
        let (action, reason) = decide::decide(&item, &latest, &owners);
        self.apply(&item, action, &reason, Some(&latest), report)
            .await?;
        // No informer has shown the object yet: if it goes unseen, nobody would tell.
        Ok(if item.is_virtual && self.graph.has(uid) {
            Next::WithBackoff
        } else {
            Next::AwaitChange
        })
    }

    /// Removes the owner from the references of its dependents, and then its finalizer.
    pub(super) async fn attempt_to_orphan(self: &Arc<Collector>, uid: &Uid) -> Result<Next, Error> {
        let (item, dependents) = {
            let graph = self.graph.lock();
            match graph.item(uid) {
                Some(item) => (item, graph.dependents(uid)),
                None => return Ok(Next::AwaitChange),
            }
        };
        let results: Vec<Result<(), Error>> = stream::iter(dependents)
            .map(|dependent| self.orphan(dependent, uid))
            .buffered(ORPHANED_AT_ONCE)
            .collect()
            .await;
        aggregate(results.into_iter().filter_map(Result::err).collect())?;
        self.remove_finalizer(&item, ORPHAN).await?;
        Ok(Next::AwaitChange)
    }

    async fn orphan(self: &Arc<Collector>, dependent: Identity, owner: &Uid) -> Result<(), Error> {
        let resource = self
            .resource(&dependent.api_version, &dependent.kind)
            .await?;
        let target = self.target(&resource, &dependent);
        target
            .remove_owners(std::slice::from_ref(owner))
            .await
            .map_err(|error| Error::Retry(format!("orphaning {dependent} failed, {error}")))?;
        Ok(())
    }

    /// The object as the cache has it, or as the server has it where the cache does not know it.
    async fn latest(&self, item: &Item, resource: &ResourceType) -> Result<Option<Meta>, Error> {
        if !item.is_virtual
            && let Some(known) = self.cached(&item.identity, resource)
            // Without a revision a deletion could not tell that the cache was behind.
            && known.resource_version > 0
        {
            return Ok(Some(known));
        }
        Ok(self.target(resource, &item.identity).get().await?)
    }

    fn cached(&self, identity: &Identity, resource: &ResourceType) -> Option<Meta> {
        self.monitors
            .lock()
            .find(resource, &identity.namespace, &identity.name)
            .filter(|meta| meta.uid == identity.uid)
    }

    /// The state of each owner; `None` when one is out of reach.
    async fn classify(
        self: &Arc<Collector>,
        namespace: &Istr,
        latest: &Meta,
    ) -> Result<Option<Vec<(OwnerRef, OwnerState)>>, Error> {
        let mut owners = Vec::with_capacity(latest.owners.len());
        for owner in latest.owners.iter() {
            let known = self.graph.lock().known_owner(owner, namespace);
            let state = match known {
                KnownOwner::Absent => OwnerState::Dangling,
                KnownOwner::Observed {
                    deleting_dependents: true,
                } => OwnerState::Waiting,
                KnownOwner::Observed { .. } => OwnerState::Solid,
                KnownOwner::Unknown => match self.fetch_owner(owner, namespace).await? {
                    Fetched::State(state) => state,
                    Fetched::OutOfReach => return Ok(None),
                },
            };
            owners.push((owner.clone(), state));
        }
        Ok(Some(owners))
    }

    /// Asks the server whether an owner exists.
    async fn fetch_owner(
        self: &Arc<Collector>,
        owner: &OwnerRef,
        namespace: &Istr,
    ) -> Result<Fetched, Error> {
        let resource = self.resource(&owner.api_version, &owner.kind).await?;
        if resource.namespaced && namespace.is_empty() {
            return Ok(Fetched::OutOfReach);
        }
        let namespace = if resource.namespaced {
            namespace.clone()
        } else {
            Istr::default()
        };
        let found = writes::get(&self.context.client, &resource, &namespace, &owner.name).await?;
        let Some(found) = found.filter(|found| found.uid == owner.uid) else {
            let absent = Identity::of_owner(owner, &namespace);
            self.graph.lock().note_absent(absent);
            return Ok(Fetched::State(OwnerState::Dangling));
        };
        let waits = found.is_terminating() && found.has_finalizer(FOREGROUND);
        Ok(Fetched::State(if waits {
            OwnerState::Waiting
        } else {
            OwnerState::Solid
        }))
    }

    async fn apply(
        self: &Arc<Collector>,
        item: &Item,
        action: Action,
        reason: &Reason,
        latest: Option<&Meta>,
        report: &Report<'_>,
    ) -> Result<(), Error> {
        if action == Action::Nothing {
            return Ok(());
        }
        report.decide(item.identity.object(), [Line::from(reason)]);
        match action {
            Action::Nothing => Ok(()),
            Action::RemoveForegroundFinalizer => self.remove_finalizer(item, FOREGROUND).await,
            Action::DeleteFirst(dependents) => {
                for uid in dependents {
                    self.to_delete.add(uid);
                }
                Ok(())
            }
            Action::RemoveReferences(owners) => {
                let resource = self
                    .resource(&item.identity.api_version, &item.identity.kind)
                    .await?;
                self.target(&resource, &item.identity)
                    .remove_owners(&owners)
                    .await?;
                Ok(())
            }
            Action::Delete {
                propagation,
                unblock,
            } => {
                let resource = self
                    .resource(&item.identity.api_version, &item.identity.kind)
                    .await?;
                let target = self.target(&resource, &item.identity);
                let mut latest = latest.cloned().unwrap_or_default();
                if unblock {
                    latest.resource_version = target.unblock_owners(&item.owners).await?;
                }
                match target.delete(&latest, propagation).await? {
                    // Of an object that no informer shows we must go on to ask.
                    Written::Done if item.is_virtual => {}
                    Written::Done => self.graph.lock().note_deletion(&item.identity.uid),
                    Written::Gone => self.deny(&item.identity),
                }
                Ok(())
            }
        }
    }

    async fn remove_finalizer(
        self: &Arc<Collector>,
        item: &Item,
        finalizer: &str,
    ) -> Result<(), Error> {
        let resource = self
            .resource(&item.identity.api_version, &item.identity.kind)
            .await?;
        let known = self.cached(&item.identity, &resource);
        let target = self.target(&resource, &item.identity);
        if target.remove_finalizer(known, finalizer).await? == Written::Gone {
            self.deny(&item.identity);
        }
        Ok(())
    }

    /// The server has no such object: the graph must not believe in it any longer.
    fn deny(&self, identity: &Identity) {
        let to_enqueue = self.graph.lock().denied(identity);
        self.enqueue(to_enqueue);
    }

    /// The resource of a kind. One that nobody knows may have come since discovery was asked.
    async fn resource(
        self: &Arc<Collector>,
        api_version: &str,
        kind: &str,
    ) -> Result<ResourceType, Error> {
        if let Some(known) = self.known_resource(api_version, kind) {
            return Ok(known);
        }
        self.sync_soon().await;
        let found = self.known_resource(api_version, kind);
        found.ok_or_else(|| {
            Error::Retry(format!(
                "unable to get REST mapping for {api_version}/{kind}."
            ))
        })
    }

    fn known_resource(&self, api_version: &str, kind: &str) -> Option<ResourceType> {
        let served = Arc::clone(&self.served.lock().found);
        let departed = || {
            let departed = self.departed.lock();
            departed.find(api_version, kind, Instant::now())
        };
        served.find(api_version, kind).cloned().or_else(departed)
    }

    fn target<'a>(&'a self, resource: &'a ResourceType, identity: &'a Identity) -> Target<'a> {
        Target {
            client: &self.context.client,
            resource,
            identity,
        }
    }
}
