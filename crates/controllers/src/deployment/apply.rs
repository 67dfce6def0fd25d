//! Carries a plan out: the only place that writes. It decides nothing.

use api::conditions::{self, ConditionStatus};
use api::json::Node;
use api::kinds::{Deployment, DeploymentStatus, ReplicaSet};
use api::{Key, Meta, Resource};
use client::{DeleteOptions, Patch};
use runtime::events::ObjectRef;
use runtime::{Error, EventType};
use serde_json::{Map, Value, json};

use super::limits::progress_deadline;
use super::plan::{Plan, Step, Update};
use super::rollback::RollBack;
use super::snapshot::Snapshot;
use super::{Deployments, new_set, status};
use crate::workload::status::{put_status, revision};

impl Deployments {
    /// Takes the steps of a plan, up to the first that fails.
    pub(super) async fn take_steps(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        plan: &Plan,
    ) -> Result<(), Error> {
        for (done, step) in plan.steps.iter().enumerate() {
            let Err(failure) = self.take_step(key, snapshot, plan, step).await else {
                continue;
            };
            if done > 0 && matches!(plan.steps[0], Step::Create(_)) {
                // The set is there, and so are its revision and the news of it. The next reconcile
                // makes it good if this fails as well.
                let _ = self.write_what_is_certain(snapshot, plan).await;
            }
            return Err(failure);
        }
        Ok(())
    }

    async fn take_step(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        plan: &Plan,
        step: &Step,
    ) -> Result<(), Error> {
        match step {
            Step::Create(set) => self.create(key, snapshot, set).await,
            Step::Update(update) => self.update(key, snapshot, update).await,
            Step::Delete(set) => self.delete(set).await,
            Step::RollBack(roll_back) => {
                self.write_what_is_certain(snapshot, plan).await?;
                self.roll_back(key, &snapshot.deployment, roll_back).await
            }
        }
    }

    /// Revision and conditions that the plan has set, with the counts as they were.
    async fn write_what_is_certain(&self, snapshot: &Snapshot, plan: &Plan) -> Result<(), Error> {
        let after = &plan.after;
        self.put_status(snapshot, &after.annotations, &after.status)
            .await
    }

    async fn create(&self, key: &Key, snapshot: &Snapshot, set: &ReplicaSet) -> Result<(), Error> {
        let body = new_set::body(set).to_string();
        let created = self
            .context
            .client
            .create(&ReplicaSet::TYPE, &key.namespace, body)
            .await;
        let answer = match created {
            Ok(answer) => answer,
            Err(error) if error.is_already_exists() => {
                return Err(self.name_is_taken(key, snapshot, set, error).await);
            }
            Err(error) if error.is_namespace_terminating() => {
                // Everything else would be refused as well.
                return Err(Error::Terminal(error.to_string()));
            }
            Err(error) => return Err(self.create_failed(snapshot, set, error).await),
        };
        self.consistency.note::<ReplicaSet>(key, revision(&answer));
        if set.replicas() > 0 {
            self.say_scaled(snapshot, &set.metadata, 0, set.replicas());
        }
        Ok(())
    }

    /// There is a set of that name: ours, and the cache was late; or another one, and the hash
    /// needs another collision count.
    async fn name_is_taken(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        set: &ReplicaSet,
        error: client::Error,
    ) -> Error {
        let deployment = &*snapshot.deployment;
        let Some(held) = self.caches.sets.find(&key.namespace, &set.metadata.name) else {
            self.wait_for_unseen(key, deployment, &set.metadata.name)
                .await;
            return Error::Stale {
                resource: ReplicaSet::TYPE.plural.to_string(),
            };
        };
        let ours = held.metadata.is_controlled_by(&deployment.metadata.uid)
            && held.spec.template.same_meaning(&deployment.spec.template);
        if ours {
            return error.into();
        }
        let mut status = deployment.status.clone();
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
        let annotations = &deployment.metadata.annotations;
        match self.put_status(snapshot, annotations, &status).await {
            Ok(()) => error.into(),
            Err(failure) => failure,
        }
    }

    /// If the set is one of ours whose creation was never answered, nothing is planned before the cache shows it:
    /// pods of another template would come on top of those that it is about to make.
    async fn wait_for_unseen(&self, key: &Key, deployment: &Deployment, name: &str) {
        let client = &self.context.client;
        let found = client.get_as::<ReplicaSet>(&key.namespace, name).await;
        // Where it cannot be read, the next attempt comes here again.
        if let Ok(found) = found
            && found.metadata.is_controlled_by(&deployment.metadata.uid)
        {
            self.consistency
                .note::<ReplicaSet>(key, found.metadata.resource_version);
        }
    }

    async fn create_failed(
        &self,
        snapshot: &Snapshot,
        set: &ReplicaSet,
        error: client::Error,
    ) -> Error {
        let deployment = &*snapshot.deployment;
        let name = &set.metadata.name;
        let message = format!("Failed to create new replica set \"{name}\": {error}");
        if progress_deadline(deployment).is_some() {
            let mut status = deployment.status.clone();
            let condition = status::dated(
                status::PROGRESSING,
                ConditionStatus::False,
                status::CREATE_FAILED,
                message.clone(),
                self.context.clock.now(),
            );
            conditions::replace_keeping_transition(&mut status.conditions, condition);
            let annotations = &deployment.metadata.annotations;
            // The failure to create matters more than a failure to say so.
            let _ = self.put_status(snapshot, annotations, &status).await;
        }
        let object = ObjectRef::of(deployment);
        self.context
            .recorder
            .event(&object, EventType::Warning, status::CREATE_FAILED, message);
        error.into()
    }

    async fn update(&self, key: &Key, snapshot: &Snapshot, update: &Update) -> Result<(), Error> {
        let meta = &update.before.metadata;
        let patch = Patch::Merge(update.patch().to_string().into());
        let answer = self
            .context
            .client
            .patch(&ReplicaSet::TYPE, &meta.namespace, &meta.name, None, &patch)
            .await?;
        self.consistency.note::<ReplicaSet>(key, revision(&answer));
        for (from, to) in &update.scaled {
            self.say_scaled(snapshot, meta, *from, *to);
        }
        Ok(())
    }

    fn say_scaled(&self, snapshot: &Snapshot, set: &Meta, from: i32, to: i32) {
        let direction = if from < to { "up" } else { "down" };
        let name = &set.name;
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        let object = ObjectRef::of(&*snapshot.deployment);
        self.context
            .recorder
            .event(&object, EventType::Normal, "ScalingReplicaSet", message);
    }

    /// Deletes this very set, not another one of the same name.
    async fn delete(&self, set: &ReplicaSet) -> Result<(), Error> {
        let meta = &set.metadata;
        let options = DeleteOptions::exactly(&meta.uid);
        let deleted = self
            .context
            .client
            .delete(&ReplicaSet::TYPE, &meta.namespace, &meta.name, &options)
            .await;
        match deleted {
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// The role allows to update Deployments but not to patch them, so this reads the whole object,
    /// changes our fields in it and writes it back.
    async fn roll_back(
        &self,
        key: &Key,
        deployment: &Deployment,
        roll_back: &RollBack,
    ) -> Result<(), Error> {
        let client = &self.context.client;
        let found = client
            .get(&Deployment::TYPE, &key.namespace, &key.name)
            .await?;
        let fresh = Deployment::decode(&found).map_err(|error| Error::Retry(error.to_string()))?;
        let (read, now) = (&deployment.metadata, &fresh.metadata);
        if (&read.uid, read.generation) != (&now.uid, now.generation)
            || fresh.rollback_to() != deployment.rollback_to()
        {
            return Err(Error::Stale {
                resource: Deployment::TYPE.plural.to_string(),
            });
        }
        let mut body = Node::parse(&String::from_utf8_lossy(&found))
            .map_err(|error| Error::Retry(error.to_string()))?;
        roll_back.edit(&mut body, &now.annotations);
        let body = body.to_string();
        let answer = client
            .replace(&Deployment::TYPE, &key.namespace, &key.name, None, body)
            .await?;
        self.consistency.note::<Deployment>(key, revision(&answer));
        let object = ObjectRef::of(deployment);
        self.context.recorder.event(
            &object,
            roll_back.event_type,
            roll_back.event_reason,
            roll_back.message.clone(),
        );
        Ok(())
    }

    /// Writes status and annotations, if either differs from what was read.
    pub(super) async fn put_status(
        &self,
        snapshot: &Snapshot,
        annotations: &api::LabelSet,
        status: &DeploymentStatus,
    ) -> Result<(), Error> {
        let deployment = &*snapshot.deployment;
        if deployment.status == *status && deployment.metadata.annotations == *annotations {
            return Ok(());
        }
        let meta = Meta {
            annotations: annotations.clone(),
            ..deployment.metadata.clone()
        };
        let revision = put_status::<Deployment>(&self.context.client, &meta, status).await?;
        let key = deployment.key();
        self.consistency.note::<Deployment>(&key, revision);
        Ok(())
    }
}

impl Update {
    /// Just the fields that change, on the condition that nothing else has.
    fn patch(&self) -> Value {
        let (before, after) = (&self.before, &self.after);
        let mut annotations = Map::new();
        for (key, value) in after.metadata.annotations.iter() {
            if before.metadata.annotation(key) != Some(value) {
                annotations.insert(key.into(), value.into());
            }
        }
        let mut spec = Map::new();
        if before.replicas() != after.replicas() {
            spec.insert("replicas".into(), after.replicas().into());
        }
        if before.spec.min_ready_seconds != after.spec.min_ready_seconds {
            let seconds = after.spec.min_ready_seconds;
            spec.insert("minReadySeconds".into(), seconds.into());
        }
        let version = before.metadata.resource_version.to_string();
        let mut patch = json!({"metadata": {"resourceVersion": version}});
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = annotations.into();
        }
        if !spec.is_empty() {
            patch["spec"] = spec.into();
        }
        patch
    }
}
