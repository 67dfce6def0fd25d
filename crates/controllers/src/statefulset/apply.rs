//! Carries a plan out. The only place with IO but for status and history; it decides nothing.

use std::borrow::Cow;
use std::sync::OnceLock;

use api::json::Node;
use api::kinds::{PersistentVolumeClaim, Pod};
use api::{Key, Meta, Resource, Template};
use client::{DeleteOptions, Patch};
use runtime::events::{EventType, ObjectRef};
use runtime::{Error, slow_start};
use serde::Deserialize;

use super::claims::{ClaimOwner, ClaimWork, claim_body};
use super::identity::pod_name;
use super::plan::{Plan, Step, Which};
use super::pods::{new_pod, repair_patch};
use super::snapshot::Snapshot;
use crate::workload::Consistency;
use crate::workload::claim::aggregate;
use crate::workload::status::revision;
use runtime::Context;

/// What applying a plan came to.
#[derive(Default)]
pub struct Outcome {
    /// What went wrong; all of it was reported as events.
    pub failure: Option<Error>,
    pub deleted_for_update: usize,
}

impl crate::workload::Outcome for Outcome {
    fn into_failure(self) -> Option<Error> {
        self.failure
    }
}

pub(super) struct Apply<'a> {
    context: &'a Context,
    snapshot: &'a Snapshot,
    key: &'a Key,
    consistency: &'a Consistency,
    object: ObjectRef,
    /// Templates of the current and the update revision, restored when they are needed.
    templates: [OnceLock<Template>; 2],
}

impl<'a> Apply<'a> {
    pub(super) fn new(
        context: &'a Context,
        snapshot: &'a Snapshot,
        key: &'a Key,
        consistency: &'a Consistency,
    ) -> Apply<'a> {
        Apply {
            context,
            snapshot,
            key,
            consistency,
            object: ObjectRef::of(&*snapshot.set),
            templates: Default::default(),
        }
    }

    pub(super) async fn apply(&self, plan: &Plan) -> Outcome {
        let mut outcome = Outcome::default();
        for stage in [&plan.replicas, &plan.condemned_claims, &plan.condemned] {
            if let Err(error) = self.stage(plan.ordered, stage).await {
                outcome.failure = Some(error);
                return outcome;
            }
        }
        for step in &plan.update {
            match self.step(step).await {
                Ok(()) => outcome.deleted_for_update += 1,
                Err(error) => {
                    outcome.failure = Some(error);
                    break;
                }
            }
        }
        outcome
    }

    async fn stage(&self, ordered: bool, steps: &[Step]) -> Result<(), Error> {
        if ordered {
            for step in steps {
                self.step(step).await?;
            }
            return Ok(());
        }
        let attempts = slow_start(steps.len(), |index| self.step(&steps[index])).await;
        aggregate(attempts.tried.into_iter().filter_map(Result::err).collect())
    }

    async fn step(&self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Create {
                ordinal,
                revision,
                claims,
            } => self.create(*ordinal, *revision, claims).await,
            Step::Claims {
                ordinal,
                pod,
                claims,
            } => self.claims(*ordinal, pod, claims).await,
            Step::Repair {
                ordinal,
                pod,
                identity,
                storage,
                claims,
            } => {
                let changed = *identity || *storage;
                let done = self.repair(*ordinal, pod, changed, *storage, claims).await;
                self.report("Update", &pod.metadata.name, done)
            }
            Step::Delete(pod) => self.delete(pod).await,
        }
    }

    async fn create(&self, ordinal: i32, which: Which, claims: &ClaimWork) -> Result<(), Error> {
        let set = &*self.snapshot.set;
        let name = pod_name(set, ordinal);
        if let Err(error) = self.create_claims(&name, claims).await {
            return self.report("Create", &name, Err(error));
        }
        let revision_name = self.snapshot.revision_name(which);
        let body = new_pod(set, self.template(which), revision_name, ordinal).to_string();
        let created = self
            .context
            .client
            .create(&Pod::TYPE, &set.metadata.namespace, body)
            .await;
        let created = match created {
            Ok(answer) => {
                self.consistency.note::<Pod>(self.key, revision(&answer));
                Ok(())
            }
            // The cache is behind: no news to anyone.
            Err(error) if error.is_already_exists() => return Err(error.into()),
            Err(error) => Err(Error::from(error)),
        };
        let owner = self.snapshot.claim_owner(ordinal);
        if let Err(error) = self.update_owners(&owner, claims).await {
            return self.report("Update", &name, Err(error));
        }
        self.report("Create", &name, created)
    }

    async fn claims(&self, ordinal: i32, pod: &Pod, claims: &ClaimWork) -> Result<(), Error> {
        self.create_claims(&pod.metadata.name, claims).await?;
        let owner = ClaimOwner::of(&self.snapshot.set, pod, ordinal);
        match self.update_owners(&owner, claims).await {
            Ok(()) => Ok(()),
            failed => self.report("Update", &pod.metadata.name, failed),
        }
    }

    async fn repair(
        &self,
        ordinal: i32,
        pod: &Pod,
        changed: bool,
        storage: bool,
        claims: &ClaimWork,
    ) -> Result<(), Error> {
        let set = &*self.snapshot.set;
        let meta = &pod.metadata;
        self.create_claims(&meta.name, claims).await?;
        self.update_owners(&ClaimOwner::of(set, pod, ordinal), claims)
            .await?;
        if changed {
            let patch = repair_patch(set, pod, ordinal, storage);
            let patch = Patch::Strategic(patch.to_string().into());
            let client = &self.context.client;
            let answer = client
                .patch(&Pod::TYPE, &meta.namespace, &meta.name, None, &patch)
                .await?;
            self.consistency.note::<Pod>(self.key, revision(&answer));
        }
        Ok(())
    }

    /// Deletes this very pod, not another one of the same name.
    async fn delete(&self, pod: &Pod) -> Result<(), Error> {
        let meta = &pod.metadata;
        let options = DeleteOptions::exactly(&meta.uid);
        let client = &self.context.client;
        let deleted = client
            .delete(&Pod::TYPE, &meta.namespace, &meta.name, &options)
            .await;
        match deleted {
            Ok(answer) => {
                self.consistency.note::<Pod>(self.key, revision(&answer));
                self.report("Delete", &meta.name, Ok(()))
            }
            Err(error) if error.is_not_found() => self.report("Delete", &meta.name, Ok(())),
            // Another pod may have its name by now: the cache is behind, which is no news to anyone.
            Err(error) if error.is_conflict() => Err(error.into()),
            Err(error) => self.report("Delete", &meta.name, Err(error.into())),
        }
    }

    async fn create_claims(&self, pod: &str, claims: &ClaimWork) -> Result<(), Error> {
        let set = &*self.snapshot.set;
        let mut failures = Vec::new();
        for (name, template) in &claims.missing {
            let body = claim_body(set, *template, name).to_string();
            let client = &self.context.client;
            let created = client
                .create(&PersistentVolumeClaim::TYPE, &set.metadata.namespace, body)
                .await;
            match created {
                Ok(answer) => {
                    self.consistency
                        .note::<PersistentVolumeClaim>(self.key, revision(&answer));
                    self.claim_event(name, pod, None);
                }
                Err(error) => {
                    if !error.is_already_exists() {
                        self.claim_event(name, pod, Some(&error));
                    }
                    let text = format!("failed to create PVC {name}: {error}");
                    failures.push(Error::Retry(text));
                }
            }
        }
        failures.extend(
            claims
                .leaving
                .iter()
                .map(|name| Error::Retry(format!("pvc {name} is being deleted"))),
        );
        aggregate(failures)
    }

    /// Sets the owners of claims as the retention policy says.
    ///
    /// The role allows no patches of claims: read, edit, write back, untouched but for the owners.
    async fn update_owners(&self, owner: &ClaimOwner<'_>, claims: &ClaimWork) -> Result<(), Error> {
        for name in &claims.conflicting {
            let message = format!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
            );
            self.event(EventType::Warning, "ConflictingController", message);
        }
        for name in &claims.update_owners {
            self.update_owners_of(owner, name).await.map_err(|error| {
                Error::Retry(format!(
                    "could not update claim {name} for delete policy ownerRefs: {error}"
                ))
            })?;
        }
        Ok(())
    }

    async fn update_owners_of(&self, owner: &ClaimOwner<'_>, name: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Fresh {
            metadata: Meta,
        }
        let (client, resource) = (&self.context.client, &PersistentVolumeClaim::TYPE);
        let namespace = &owner.set.metadata.namespace;
        let raw = match client.get(resource, namespace, name).await {
            Ok(raw) => raw,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let fresh: Fresh = serde_json::from_slice(&raw).map_err(|error| error.to_string())?;
        if owner.is_up_to_date(&fresh.metadata) {
            return Ok(());
        }
        let text = std::str::from_utf8(&raw).map_err(|error| error.to_string())?;
        let mut claim = Node::parse(text).map_err(|error| error.to_string())?;
        let owners = owner.owners(&fresh.metadata);
        if owners.is_empty() {
            claim.remove(&["metadata", "ownerReferences"]);
        } else {
            claim.set(&["metadata", "ownerReferences"], Node::of(&owners));
        }
        let answer = client
            .replace(resource, namespace, name, None, claim.to_string())
            .await
            .map_err(|error| error.to_string())?;
        self.consistency
            .note::<PersistentVolumeClaim>(self.key, revision(&answer));
        Ok(())
    }

    /// The template of a revision. When that is what the set says now, it passes through as it came.
    fn template(&self, which: Which) -> &Template {
        let (slot, held) = match which {
            Which::Current => (0, &self.snapshot.revisions.current),
            Which::Update => (1, &self.snapshot.revisions.update),
        };
        self.templates[slot].get_or_init(|| {
            let own = &self.snapshot.set.spec.template;
            if held.data == *own.revision() {
                return own.clone();
            }
            held.data.template().unwrap_or_else(|| own.clone())
        })
    }

    /// Tells how it went with a pod, and passes that on.
    fn report(&self, verb: &str, pod: &str, done: Result<(), Error>) -> Result<(), Error> {
        let set = &self.snapshot.set.metadata.name;
        let (level, outcome, ending) = match &done {
            Ok(()) => (EventType::Normal, "Successful", "successful".to_string()),
            Err(error) => (
                EventType::Warning,
                "Failed",
                format!("failed error: {error}"),
            ),
        };
        let message = format!("{verb} Pod {pod} in StatefulSet {set} {ending}");
        self.event(level, format!("{outcome}{verb}"), message);
        done
    }

    fn claim_event(&self, claim: &str, pod: &str, error: Option<&client::Error>) {
        let set = &self.snapshot.set.metadata.name;
        match error {
            None => self.event(
                EventType::Normal,
                "SuccessfulCreate",
                format!("Create Claim {claim} Pod {pod} in StatefulSet {set} success"),
            ),
            Some(error) => self.event(
                EventType::Warning,
                "FailedCreate",
                format!(
                    "Create Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}"
                ),
            ),
        }
    }

    fn event(&self, level: EventType, reason: impl Into<Cow<'static, str>>, message: String) {
        self.context
            .recorder
            .event(&self.object, level, reason, message);
    }
}
