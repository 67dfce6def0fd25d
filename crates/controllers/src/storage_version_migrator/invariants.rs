//! What must hold: of every write ([`safe`]), and once nothing changes any more.

use api::conditions;
use api::kinds::{MIGRATION_RUNNING, StorageVersionMigration};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct MigrationOracle;

impl Oracle for MigrationOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        if let Some((before, after)) = change.updated::<StorageVersionMigration>() {
            return safe(&before, &after);
        }
        // Objects of any kind are written, and nothing of them changes.
        match change.meta_before().zip(change.meta_after()) {
            Some((before, after)) if before.generation == after.generation => Ok(()),
            _ => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let all = world.store::<StorageVersionMigration>();
        for migration in all.list() {
            let name = &migration.metadata.name;
            if migration.is_over() && migration.is_running() {
                return Err(format!("migration {name} is over and still runs"));
            }
            if !migration.is_over() {
                return Err(format!("migration {name} has not succeeded or failed"));
            }
        }
        Ok(())
    }
}

/// What is over stays so, the revision is noted once, and only what has started can end.
pub fn safe(before: &StorageVersionMigration, after: &StorageVersionMigration) -> Verdict {
    let name = &after.metadata.name;
    let (old, new) = (&before.status, &after.status);
    if before.is_over() && !after.is_over() {
        return Err(format!("migration {name} was over and is not any more"));
    }
    if !old.resource_version.is_empty() && old.resource_version != new.resource_version {
        return Err(format!("the revision of migration {name} was changed"));
    }
    let has_started = conditions::find(&old.conditions, MIGRATION_RUNNING).is_some();
    match after.is_over() && !before.is_over() && !has_started && old.resource_version.is_empty() {
        true => Err(format!("migration {name} is over before it began")),
        false => Ok(()),
    }
}
