//! What the definition of a custom resource says of its migration.

use api::conditions::Condition;
use api::kinds::MigratedResource;
use api::{Meta, Resource, ResourceType, Time};
use client::{Client, Patch};
use runtime::Error;
use serde::Deserialize;
use serde_json::{Value, json};

use super::plan::Outcome;

/// UPSTREAM: who the fields of the status belong to.
const FIELD_MANAGER: &str = "migration-runner-controller";

/// What is read of a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Definition {
    pub metadata: Meta,
    spec: Spec,
    status: Status,
}

api::view!(
    Definition,
    ResourceType::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
struct Version {
    name: String,
    storage: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

/// The definition of a resource; none if it is built in.
pub async fn read(
    client: &Client,
    resource: &MigratedResource,
) -> Result<Option<Definition>, Error> {
    let name = format!("{}.{}", resource.resource, resource.group);
    match client.get_as::<Definition>("", &name).await {
        Ok(definition) => Ok(Some(definition)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Definition {
    /// Says that a migration runs, if nobody has changed the definition since it was read.
    pub async fn begin(&self, client: &Client, migration: &str, now: Time) -> Result<(), Error> {
        let message = format!("Migration {migration} is running");
        let condition = self.condition("True", "MigrationRunning", &message, now);
        self.apply(client, json!({"conditions": [condition]})).await
    }

    /// Says how it ended; then only the version is stored that was stored all the while.
    pub async fn end(&self, client: &Client, outcome: Outcome, now: Time) -> Result<(), Error> {
        let mut conditions = self.status.conditions.iter();
        let held = conditions.find(|held| held.type_ == "StorageMigrating");
        let generation = self.metadata.generation;
        let is_unchanged = held.is_some_and(|held| held.observed_generation == generation);
        let (reason, message) = outcome.words(is_unchanged);
        let condition = self.condition("False", reason, message, now);
        let mut status = json!({"conditions": [condition]});
        let mut versions = self.spec.versions.iter();
        if is_unchanged
            && outcome == Outcome::Succeeded
            && let Some(stored) = versions.find(|version| version.storage)
        {
            status["storedVersions"] = json!([stored.name]);
        }
        self.apply(client, status).await
    }

    fn condition(&self, status: &str, reason: &str, message: &str, now: Time) -> Value {
        json!({
            "type": "StorageMigrating", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now, "observedGeneration": self.metadata.generation,
        })
    }

    async fn apply(&self, client: &Client, status: Value) -> Result<(), Error> {
        let (kind, meta) = (Definition::TYPE, &self.metadata);
        let body = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"name": meta.name, "resourceVersion": meta.resource_version.to_string()},
            "status": status,
        });
        let patch = Patch::Apply {
            body: body.to_string().into(),
            field_manager: FIELD_MANAGER.to_owned(),
            force: true,
        };
        client
            .patch(&kind, "", &meta.name, Some("status"), &patch)
            .await?;
        Ok(())
    }
}
