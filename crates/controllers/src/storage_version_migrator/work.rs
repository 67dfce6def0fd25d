//! The work of a migration whose turn it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::decision::{Line, counted};
use api::kinds::{MigratedResource, StorageVersionMigration, StorageVersionMigrationStatus};
use api::{Key, Meta, ObjectId, ResourceType};
use client::{ListOptions, Patch};
use parking_lot::Mutex;
use runtime::informer::{MetadataInformer, MetadataStream, MetadataStreams};
use runtime::{Context, Error, Next, Reconcile, Report, Store};
use serde_json::json;

use super::of_resource;
use super::plan::{
    self, PATIENCE, Step, awaits_turn, cache_is_behind, failed, is_new, not_served, succeeded,
};
use crate::discovery::{Served, discover};
use crate::workload::status::put_status;

/// What a resource has to be able to do, in upstream's order.
const VERBS: [&str; 3] = ["update", "patch", "list"];

pub(super) struct Migrations {
    pub context: Context,
    pub migrations: Arc<Store<StorageVersionMigration>>,
    pub streams: MetadataStreams,
    /// Streams that are open for a migration.
    pub open: Mutex<BTreeMap<Key, Arc<MetadataStream>>>,
}

impl Reconcile for Migrations {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(migration) = self.migrations.get(key) else {
            self.open.lock().remove(key);
            return Ok(Next::AwaitChange);
        };
        let decide = |line: Line| report.decide(ObjectId::of(&*migration), [line]);
        match plan::plan(&migration) {
            Step::Nothing => {
                self.open.lock().remove(key);
                Ok(Next::AwaitChange)
            }
            Step::AwaitTurn => {
                let others = of_resource(&self.migrations, &migration.spec.resource);
                let busy = others.iter().find(|one| one.is_running() && !one.is_over());
                decide(awaits_turn(busy.map(|one| &*one.metadata.name)));
                Ok(Next::AwaitChange)
            }
            Step::Fail(message) => self.fail_unhandled(&migration, &message, report).await,
            Step::NoteRevision => {
                let absent = "resource does not exist in discovery";
                match self.served(&migration, absent, report).await? {
                    Ok(served) => self.note_revision(&migration, &served, report).await,
                    Err(next) => Ok(next),
                }
            }
            Step::Migrate(revision) => {
                let absent =
                    "migration encountered unhandled error: unable to obtain GVR from discovery";
                match self.served(&migration, absent, report).await? {
                    Ok(served) => {
                        self.migrate(key, &migration, &served.resource, revision, report)
                            .await
                    }
                    Err(next) => Ok(next),
                }
            }
        }
    }
}

impl Migrations {
    /// The resource as it is served. One that is not served is waited for at first, and then fails the migration with
    /// these words.
    async fn served(
        &self,
        migration: &StorageVersionMigration,
        absent: &str,
        report: &Report<'_>,
    ) -> Result<Result<Served, Next>, Error> {
        let MigratedResource { group, resource } = &migration.spec.resource;
        let found = discover(&self.context.client).await;
        let found = found.map_err(|error| Error::Retry(error.to_string()))?;
        if let Some(served) = found.preferred_version(group, resource) {
            return Ok(Ok(served.clone()));
        }
        if let Some(failure) = found.failure() {
            return Err(Error::Retry(failure));
        }
        if is_new(migration, self.context.clock.now()) {
            let until = migration.metadata.created_at.micro().plus(PATIENCE).time();
            let line = not_served(&format!("{resource}.{group}"), until);
            report.decide(ObjectId::of(migration), [line]);
            return Ok(Err(Next::WithBackoff));
        }
        self.fail(migration, absent, report).await.map(Err)
    }

    async fn note_revision(
        &self,
        migration: &StorageVersionMigration,
        served: &Served,
        report: &Report<'_>,
    ) -> Result<Next, Error> {
        let resource = &served.resource;
        let name = gvr(resource);
        if !VERBS.iter().all(|verb| served.can(verb)) {
            let message = format!(
                "resource \"{name}\" does not support discovery operations: [{}]",
                VERBS.join(" ")
            );
            return self.fail(migration, &message, report).await;
        }
        let options = ListOptions {
            limit: Some(1),
            metadata_only: true,
            ..ListOptions::default()
        };
        let page = self.context.client.list(resource, "", &options).await?;
        let mut status = migration.status.clone();
        status.resource_version = page.resource_version.to_string().into();
        let line = Line::acts(
            "NotesRevision",
            format!("notes revision {}", page.resource_version),
        );
        let line = line.because("what is written from now on is stored in the right version");
        report.decide(ObjectId::of(migration), [line]);
        self.put(migration, &status).await?;
        Ok(Next::AwaitChange)
    }

    async fn migrate(
        &self,
        key: &Key,
        migration: &StorageVersionMigration,
        resource: &ResourceType,
        revision: u64,
        report: &Report<'_>,
    ) -> Result<Next, Error> {
        let cache = self.cache(key, resource);
        let cached = cache.revision();
        if !cache.metadata_synced().is_done() || cached < revision {
            let line = cache_is_behind(&resource.plural, cached, revision);
            report.decide(ObjectId::of(migration), [line]);
            return Ok(Next::WithBackoff);
        }
        let mut objects = cache.all_metadata();
        objects.retain(|object| object.resource_version <= revision);
        let count = counted(objects.len(), "object");
        let line = Line::acts("Migrates", format!("writes {count} again"));
        let why = format!("they are not newer than revision {revision}");
        report.decide(ObjectId::of(migration), [line.because(why)]);
        for object in &objects {
            if let Err(error) = self.rewrite(resource, object).await {
                if error.should_retry() {
                    return Err(error.into());
                }
                return self
                    .fail_unhandled(migration, &error.to_string(), report)
                    .await;
            }
        }
        let now = self.context.clock.now().time();
        self.put(migration, &succeeded(migration, now)).await?;
        self.open.lock().remove(key);
        Ok(Next::AwaitChange)
    }

    /// The shared cache, if there is one, or a stream that is open until the migration has finished.
    fn cache(&self, key: &Key, resource: &ResourceType) -> Arc<dyn MetadataInformer> {
        if let Some(shared) = self.context.informers.of_resource(resource) {
            return shared;
        }
        let mut open = self.open.lock();
        let stream = open.entry(key.clone());
        stream.or_insert_with(|| self.streams.of(resource)).clone()
    }

    /// Applies nothing: the API server stores the object again, if that makes a difference.
    async fn rewrite(&self, resource: &ResourceType, object: &Meta) -> Result<(), client::Error> {
        let body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"uid": object.uid, "resourceVersion": object.resource_version.to_string()},
        });
        let patch = Patch::Apply {
            body: body.to_string().into(),
            field_manager: self.context.controller.to_owned(),
            force: false,
        };
        let (client, namespace) = (&self.context.client, &object.namespace);
        let patched = client.patch_metadata_only(resource, namespace, &object.name, &patch);
        match patched.await {
            // It was written or recreated since, and so stored in the right version, or it is gone.
            Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn fail_unhandled(
        &self,
        migration: &StorageVersionMigration,
        problem: &str,
        report: &Report<'_>,
    ) -> Result<Next, Error> {
        let message = format!("migration encountered unhandled error: {problem}");
        self.fail(migration, &message, report).await
    }

    async fn fail(
        &self,
        migration: &StorageVersionMigration,
        message: &str,
        report: &Report<'_>,
    ) -> Result<Next, Error> {
        let line = Line::acts("Fails", "gives it up").because(message.to_owned());
        report.decide(ObjectId::of(migration), [line]);
        let now = self.context.clock.now().time();
        self.put(migration, &failed(migration, message, now))
            .await?;
        Ok(Next::AwaitChange)
    }

    async fn put(
        &self,
        migration: &StorageVersionMigration,
        status: &StorageVersionMigrationStatus,
    ) -> Result<(), Error> {
        let (client, meta) = (&self.context.client, &migration.metadata);
        match put_status::<StorageVersionMigration>(client, meta, status).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// As Go prints a resource of a version.
fn gvr(resource: &ResourceType) -> String {
    let ResourceType {
        group,
        version,
        plural,
        ..
    } = resource;
    format!("{group}/{version}, Resource={plural}")
}
