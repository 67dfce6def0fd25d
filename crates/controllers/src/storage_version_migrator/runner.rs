//! Gives the migrations of a resource their turns.

use std::sync::Arc;

use api::decision::{Line, reasons};
use api::kinds::StorageVersionMigration;
use api::{ObjectId, Time};
use runtime::{Context, Error, Next, Reconcile, Report, Store};

use super::plan::{Outcome, ended, plan_turns, running};
use super::{Turn, definition, of_resource};
use crate::workload::status::put_status;

pub(super) struct Runner {
    pub context: Context,
    pub migrations: Arc<Store<StorageVersionMigration>>,
}

impl Reconcile<Turn> for Runner {
    async fn reconcile(&self, turn: &Turn, report: &Report<'_>) -> Result<Next, Error> {
        let Turn(resource) = turn;
        let turns = plan_turns(of_resource(&self.migrations, resource));
        let now = self.context.clock.now().time();
        for over in &turns.over {
            let line = Line::acts(reasons::ENDS, "ends it").because("its objects were dealt with");
            report.decide(ObjectId::of(&**over), [line]);
            self.end(over, now).await?;
        }
        if let Some(next) = &turns.next {
            let line = Line::acts(reasons::STARTS, "starts it");
            let line = line.because("no other migration of the resource runs");
            report.decide(ObjectId::of(&**next), [line]);
            self.start(next, now).await?;
        }
        Ok(Next::AwaitChange)
    }
}

impl Runner {
    async fn start(&self, migration: &StorageVersionMigration, now: Time) -> Result<(), Error> {
        let client = &self.context.client;
        if let Some(definition) = definition::read(client, &migration.spec.resource).await? {
            let name = &migration.metadata.name;
            definition.begin(client, name, now).await?;
        }
        self.put(migration, &running(migration, now)).await
    }

    async fn end(&self, migration: &StorageVersionMigration, now: Time) -> Result<(), Error> {
        let client = &self.context.client;
        if let Some(definition) = definition::read(client, &migration.spec.resource).await? {
            let outcome = Outcome::of(migration);
            definition.end(client, outcome, now).await?;
        }
        self.put(migration, &ended(migration, now)).await
    }

    async fn put(
        &self,
        migration: &StorageVersionMigration,
        status: &api::kinds::StorageVersionMigrationStatus,
    ) -> Result<(), Error> {
        let (client, meta) = (&self.context.client, &migration.metadata);
        match put_status::<StorageVersionMigration>(client, meta, status).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}
