//! Claiming: which of the objects that match a selector belong to an owner.
//!
//! An owner keeps what it controls and selects, releases what it no longer selects, and adopts
//! orphans that it selects. Before it adopts, it asks the API server (not the cache) whether it
//! still exists itself: the garbage collector may just have orphaned these very objects.

use std::sync::Arc;

use api::{Istr, LabelSelector, LabelSet, Meta, OwnerRef, Resource, Uid};
use client::{Client, Patch};
use runtime::triggers::by_controller;
use runtime::{Error, IndexValue, Store, Written};
use tokio::sync::OnceCell;

use super::status::revision;

/// What to do with one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Ours already.
    Keep,
    /// An orphan that we select.
    Adopt,
    /// Ours, but no longer selected.
    Release,
    /// Somebody else's, or nobody's business of ours.
    Ignore,
}

pub fn plan_claim(owner: &Meta, selected: bool, object: &Meta) -> Claim {
    match object.controller() {
        Some(held) if held.uid != owner.uid => Claim::Ignore,
        Some(_) if selected => Claim::Keep,
        Some(_) if owner.is_terminating() => Claim::Ignore,
        Some(_) => Claim::Release,
        None if !selected || object.is_terminating() => Claim::Ignore,
        None if owner.is_terminating() => Claim::Ignore,
        None if object.namespace != owner.namespace => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// Is an orphan with these labels worth a look by an owner with this selector? An empty selector is not:
/// it would be enqueued by every orphan there is.
pub fn wants_orphan(selector: &LabelSelector, labels: &LabelSet) -> bool {
    !selector.is_empty() && selector.matches(labels)
}

/// What an owner may have a claim to: objects that it controls, and orphans of its namespace. The store needs the index
/// [`by_controller`].
pub fn candidates<K: Resource>(owner: &Meta, store: &Store<K>) -> Vec<Arc<K>> {
    let mut found = store.by(&by_controller(), &IndexValue::Uid(owner.uid.clone()));
    found.extend(store.by(&by_controller(), &IndexValue::Text(owner.namespace.clone())));
    found
}

/// Carries claims out for one owner, during one reconcile.
pub struct Claimer<'a> {
    client: &'a Client,
    owner: &'a Meta,
    reference: OwnerRef,
    /// Comes with an adoption and goes with a release.
    finalizer: Option<&'static str>,
    live: Live<'a>,
}

/// The uncached look at the owner, made at most once in a reconcile and only if something is adopted.
pub struct Live<'a> {
    client: &'a Client,
    resource: api::ResourceType,
    seen: OnceCell<Result<(), String>>,
}

impl<'a> Claimer<'a> {
    pub fn new<O: Resource>(client: &'a Client, owner: &'a O) -> Claimer<'a> {
        Claimer {
            client,
            owner: owner.meta(),
            reference: controller_reference(owner),
            finalizer: None,
            live: Live {
                client,
                resource: O::TYPE,
                seen: OnceCell::new(),
            },
        }
    }

    /// What is claimed is held by this finalizer as well.
    #[must_use]
    pub fn with_finalizer(self, name: &'static str) -> Claimer<'a> {
        Claimer {
            finalizer: Some(name),
            ..self
        }
    }

    /// The objects that belong to the owner now, after adopting and releasing.
    ///
    /// Every object is tried; what failed comes back as one error after that. What the owner has
    /// written is noted in `written`: a cache without it shows orphans that are none any more.
    pub async fn claim<K: Resource>(
        &self,
        objects: Vec<Arc<K>>,
        written: &Written,
        mut selects: impl FnMut(&K) -> bool,
    ) -> Result<Vec<Arc<K>>, Error> {
        let mut claimed = Vec::with_capacity(objects.len());
        let mut failures = Vec::new();
        for object in objects {
            let kept = match plan_claim(self.owner, selects(&object), object.meta()) {
                Claim::Keep => Ok(true),
                Claim::Ignore => Ok(false),
                Claim::Adopt => self.adopt(&*object, written).await,
                Claim::Release => self.release(&*object, written).await.map(|()| false),
            };
            match kept {
                Ok(true) => claimed.push(object),
                Ok(false) => {}
                Err(error) => failures.push(error),
            }
        }
        aggregate(failures)?;
        Ok(claimed)
    }

    async fn adopt<K: Resource>(&self, object: &K, written: &Written) -> Result<bool, Error> {
        let meta = object.meta();
        let checked = self.live.check(self.owner).await;
        checked.map_err(|reason| {
            let (kind, key, uid) = (&K::TYPE.kind, meta.key(), &meta.uid);
            Error::Retry(format!("can't adopt {kind} {key} ({uid}): {reason}"))
        })?;
        let mut patch = serde_json::json!({
            "metadata": {"ownerReferences": [self.reference], "uid": meta.uid}
        });
        if let Some(name) = self.finalizer {
            patch["metadata"]["finalizers"] = serde_json::json!([name]);
        }
        match self.patch::<K>(meta, patch, written).await {
            Ok(()) => Ok(true),
            // Gone meanwhile: nothing to adopt.
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn release<K: Resource>(&self, object: &K, written: &Written) -> Result<(), Error> {
        let meta = object.meta();
        let mut patch = serde_json::json!({
            "metadata": {
                "ownerReferences": [{"$patch": "delete", "uid": self.owner.uid}],
                "uid": meta.uid,
            }
        });
        if let Some(name) = self.finalizer {
            let removed = "$deleteFromPrimitiveList/finalizers";
            patch["metadata"][removed] = serde_json::json!([name]);
        }
        match self.patch::<K>(meta, patch, written).await {
            // Gone, or another object of that name by now (422 for the wrong uid): released either way.
            Err(error) if error.is_not_found() || error.is_invalid() => Ok(()),
            other => Ok(other?),
        }
    }

    async fn patch<K: Resource>(
        &self,
        meta: &Meta,
        patch: serde_json::Value,
        written: &Written,
    ) -> Result<(), client::Error> {
        let patch = Patch::Strategic(patch.to_string().into());
        let answer = self
            .client
            .patch(&K::TYPE, &meta.namespace, &meta.name, None, &patch)
            .await?;
        written.note(&self.owner.key(), revision(&answer));
        Ok(())
    }
}

impl Live<'_> {
    async fn check(&self, owner: &Meta) -> Result<(), String> {
        let look = || async {
            let found = self
                .client
                .get(&self.resource, &owner.namespace, &owner.name)
                .await
                .map_err(|error| error.to_string())?;
            let fresh: Fresh = serde_json::from_slice(&found).map_err(|error| error.to_string())?;
            fresh.check(&self.resource.kind, owner)
        };
        self.seen.get_or_init(look).await.clone()
    }
}

#[derive(serde::Deserialize)]
struct Fresh {
    metadata: Meta,
}

impl Fresh {
    fn check(&self, kind: &str, owner: &Meta) -> Result<(), String> {
        let key = owner.key();
        if self.metadata.uid != owner.uid {
            let (got, wanted) = (&self.metadata.uid, &owner.uid);
            return Err(format!(
                "original {kind} {key} is gone: got uid {got}, wanted {wanted}"
            ));
        }
        match self.metadata.deleted_at {
            Some(at) => Err(format!("{key} has just been deleted at {at}")),
            None => Ok(()),
        }
    }
}

/// The reference that makes `owner` the controller of an object.
pub fn controller_reference<O: Resource>(owner: &O) -> OwnerRef {
    let meta = owner.meta();
    OwnerRef {
        api_version: Istr::new(&O::TYPE.api_version()),
        kind: Istr::new(&O::TYPE.kind),
        name: Istr::new(&meta.name),
        uid: Uid::clone(&meta.uid),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// One error for many, worded as upstream's aggregate: alone as it is, several in brackets.
pub fn aggregate(mut failures: Vec<Error>) -> Result<(), Error> {
    match failures.len() {
        0 => Ok(()),
        1 => Err(failures.remove(0)),
        _ => {
            let mut texts: Vec<String> = Vec::new();
            for failure in &failures {
                let text = failure.to_string();
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            Err(Error::Retry(match texts.as_slice() {
                [only] => only.clone(),
                several => format!("[{}]", several.join(", ")),
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Upstream: TestClaimedPodFiltering.
    #[test]
    fn only_the_controller_counts_as_owner() {
        let me = meta("me", None, false);
        let held = |owners: &[(&str, Option<bool>)], selected| {
            let mut object = meta("pod", None, false);
            let owner = |(uid, controller): &(&str, Option<bool>)| OwnerRef {
                uid: (*uid).into(),
                controller: *controller,
                ..OwnerRef::default()
            };
            object.owners = api::meta::intern_owners(owners.iter().map(owner).collect());
            plan_claim(&me, selected, &object)
        };
        for other in [None, Some(("x", None)), Some(("x", Some(false)))] {
            let with = |last| other.into_iter().chain([last]).collect::<Vec<_>>();
            let mine = with(("me", Some(true)));
            assert_eq!(held(&mine, true), Claim::Keep, "{mine:?}");
            assert_eq!(held(&mine, false), Claim::Release, "{mine:?}");
            let theirs = with(("other", Some(true)));
            assert_eq!(held(&theirs, true), Claim::Ignore, "{theirs:?}");
            for controller in [None, Some(false)] {
                let nobodys = with(("me", controller));
                assert_eq!(held(&nobodys, true), Claim::Adopt, "{nobodys:?}");
                assert_eq!(held(&nobodys, false), Claim::Ignore, "{nobodys:?}");
            }
        }
    }

    fn meta(uid: &str, owner: Option<&str>, terminating: bool) -> Meta {
        let mut meta = Meta {
            uid: uid.into(),
            labels: LabelSet::default(),
            ..Meta::default()
        };
        if terminating {
            meta.deleted_at = Some(api::Time::from_unix(1));
        }
        if let Some(owner) = owner {
            meta.owners = api::meta::intern_owners(vec![OwnerRef {
                uid: owner.into(),
                controller: Some(true),
                ..OwnerRef::default()
            }]);
        }
        meta
    }

    // Upstream: TestClaimPods.
    #[test]
    fn claims() {
        let (alive, dying) = (meta("me", None, false), meta("me", None, true));
        let check = |owner: &Meta, held_by: Option<&str>, selected, terminating| {
            plan_claim(owner, selected, &meta("pod", held_by, terminating))
        };
        assert_eq!(check(&alive, Some("me"), true, false), Claim::Keep);
        assert_eq!(check(&alive, Some("me"), true, true), Claim::Keep);
        assert_eq!(check(&alive, Some("me"), false, false), Claim::Release);
        assert_eq!(check(&dying, Some("me"), false, false), Claim::Ignore);
        assert_eq!(check(&dying, Some("me"), true, false), Claim::Keep);
        assert_eq!(check(&alive, Some("other"), true, false), Claim::Ignore);
        assert_eq!(check(&alive, None, true, false), Claim::Adopt);
        assert_eq!(check(&alive, None, true, true), Claim::Ignore);
        assert_eq!(check(&alive, None, false, false), Claim::Ignore);
        assert_eq!(check(&dying, None, true, false), Claim::Ignore);
    }

    #[test]
    fn errors_are_worded_as_upstream_does() {
        let errors = |texts: &[&str]| {
            let failures = texts
                .iter()
                .map(|text| Error::Retry((*text).into()))
                .collect();
            aggregate(failures).map_err(|error| error.to_string())
        };
        assert_eq!(errors(&[]), Ok(()));
        assert_eq!(errors(&["a"]), Err("a".into()));
        assert_eq!(errors(&["a", "b", "a"]), Err("[a, b]".into()));
        assert_eq!(errors(&["a", "a"]), Err("a".into()));
    }
}
