//! What the collector asks of the API server.

use api::kinds::Metadata;
use api::{Meta, OwnerRef, Resource, ResourceType, Uid};
use client::{Client, DeleteOptions, Patch, Propagation};
use serde_json::{Value, json};

use super::identity::Identity;

/// One object on the server.
pub(super) struct Target<'a> {
    pub client: &'a Client,
    pub resource: &'a ResourceType,
    pub identity: &'a Identity,
}

/// Whether the object was still there to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// It, or at least the one with this uid, is gone.
    Gone,
}

/// How often a conflict is met with a fresh read before the work queue takes over. Upstream's number.
const ATTEMPTS: usize = 4;

impl Target<'_> {
    fn namespace(&self) -> &str {
        if self.resource.namespaced {
            &self.identity.namespace
        } else {
            ""
        }
    }

    /// The object as it is now; `None` when there is none with this uid.
    pub(super) async fn get(&self) -> Result<Option<Meta>, client::Error> {
        let found = get(
            self.client,
            self.resource,
            self.namespace(),
            &self.identity.name,
        )
        .await?;
        Ok(found.filter(|meta| meta.uid == self.identity.uid))
    }

    /// Deletes exactly what `latest` shows. If the object has changed since but its owners have not,
    /// it is deleted as it is: updates that have nothing to do with owners must not save it.
    pub(super) async fn delete(
        &self,
        latest: &Meta,
        propagation: Propagation,
    ) -> Result<Written, client::Error> {
        let mut options = DeleteOptions {
            resource_version: Some(latest.resource_version).filter(|version| *version > 0),
            propagation: Some(propagation),
            ..DeleteOptions::exactly(&self.identity.uid)
        };
        let first = self.delete_with(&options).await;
        let Err(error) = &first else {
            return first;
        };
        if !error.is_conflict() {
            return first;
        }
        match self.get().await {
            Ok(None) => Ok(Written::Gone),
            Ok(Some(live)) if live.owners == latest.owners => {
                options.resource_version = None;
                self.delete_with(&options).await
            }
            _ => first,
        }
    }

    async fn delete_with(&self, options: &DeleteOptions) -> Result<Written, client::Error> {
        let (namespace, name) = (self.namespace(), &self.identity.name);
        let deleted = self.client.delete(self.resource, namespace, name, options);
        not_found_is_success(deleted.await.map(drop))
    }

    /// Takes owners off the list. Gives the new state where the server tells.
    pub(super) async fn remove_owners(&self, owners: &[Uid]) -> Result<Written, client::Error> {
        let entries: Vec<Value> = owners
            .iter()
            .map(|uid| json!({"$patch": "delete", "uid": uid}))
            .collect();
        let patch = json!({"metadata": {"uid": self.identity.uid, "ownerReferences": entries}});
        let rest = |meta: &Meta| {
            let kept = meta
                .owners
                .iter()
                .filter(|held| !owners.contains(&held.uid));
            kept.cloned().collect()
        };
        not_found_is_success(self.patch_owners(patch, rest).await.map(drop))
    }

    /// Makes all its references non-blocking; gives the revision that this led to.
    pub(super) async fn unblock_owners(&self, owners: &[OwnerRef]) -> Result<u64, client::Error> {
        let unblocked = |owner: &OwnerRef| OwnerRef {
            block_owner_deletion: Some(false),
            ..owner.clone()
        };
        let blocking: Vec<OwnerRef> = owners
            .iter()
            .filter(|owner| owner.block_owner_deletion == Some(true))
            .map(unblocked)
            .collect();
        let patch = json!({"metadata": {"uid": self.identity.uid, "ownerReferences": blocking}});
        let rest = |meta: &Meta| meta.owners.iter().map(unblocked).collect();
        self.patch_owners(patch, rest).await
    }

    /// A strategic merge patch; custom resources know only merge patches, which need the whole list.
    async fn patch_owners(
        &self,
        strategic: Value,
        whole: impl Fn(&Meta) -> Vec<OwnerRef>,
    ) -> Result<u64, client::Error> {
        let patch = Patch::Strategic(strategic.to_string().into());
        match self.patch(&patch).await {
            Err(error) if error.status().is_some_and(|status| status.code == 415) => {
                let Some(meta) = self.get().await? else {
                    return Err(error);
                };
                let list = whole(&meta);
                let merge = json!({"metadata": {
                    "resourceVersion": meta.resource_version.to_string(),
                    "ownerReferences": if list.is_empty() { Value::Null } else { json!(list) },
                }});
                self.patch(&Patch::Merge(merge.to_string().into())).await
            }
            other => other,
        }
    }

    /// Removes a finalizer; `known` is what the cache says, which may spare a read.
    pub(super) async fn remove_finalizer(
        &self,
        known: Option<Meta>,
        finalizer: &str,
    ) -> Result<Written, client::Error> {
        let mut known = known;
        let mut attempts = 0;
        loop {
            let meta = match known.take() {
                Some(meta) => meta,
                None => match self.get().await? {
                    Some(meta) => meta,
                    None => return Ok(Written::Gone),
                },
            };
            if !meta.has_finalizer(finalizer) {
                return Ok(Written::Done);
            }
            let rest: Vec<&str> = meta
                .finalizers
                .iter()
                .map(|held| held.as_str())
                .filter(|held| *held != finalizer)
                .collect();
            let patch = json!({"metadata": {
                "resourceVersion": meta.resource_version.to_string(),
                "finalizers": if rest.is_empty() { Value::Null } else { json!(rest) },
            }});
            let patched = self.patch(&Patch::Merge(patch.to_string().into())).await;
            attempts += 1;
            match patched {
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {}
                other => return not_found_is_success(other.map(drop)),
            }
        }
    }

    async fn patch(&self, patch: &Patch) -> Result<u64, client::Error> {
        let (namespace, name) = (self.namespace(), &self.identity.name);
        let patched = self
            .client
            .patch(self.resource, namespace, name, None, patch);
        let answer = patched.await?;
        Ok(crate::workload::status::revision(&answer))
    }
}

/// The metadata of an object; `None` when it is not there.
pub(super) async fn get(
    client: &Client,
    resource: &ResourceType,
    namespace: &str,
    name: &str,
) -> Result<Option<Meta>, client::Error> {
    match client.get_metadata(resource, namespace, name).await {
        Ok(body) => Ok(Metadata::decode(&body)
            .inspect_err(|error| tracing::warn!(%error, "cannot read an object's metadata"))
            .ok()
            .map(|found| found.metadata)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn not_found_is_success(
    result: Result<impl Sized, client::Error>,
) -> Result<Written, client::Error> {
    match result {
        Ok(_) => Ok(Written::Done),
        Err(error) if error.is_not_found() => Ok(Written::Gone),
        Err(error) => Err(error),
    }
}
