//! Whose turn it is, and what comes next for a migration. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, Condition, ConditionStatus};
use api::decision::{Line, reasons};
use api::kinds::{
    MIGRATION_FAILED, MIGRATION_RUNNING, MIGRATION_SUCCEEDED, StorageVersionMigration,
    StorageVersionMigrationStatus,
};
use api::{MicroTime, Time};

/// A resource that is not served may be that of a definition that was just created; it is waited for so long.
/// UPSTREAM: twice the time between two looks at what is served.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Of the migrations of one resource one runs at a time: the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    /// Those that are over and still say that they run.
    pub over: Vec<Arc<StorageVersionMigration>>,
    pub next: Option<Arc<StorageVersionMigration>>,
}

pub fn plan_turns(migrations: Vec<Arc<StorageVersionMigration>>) -> Turns {
    let (over, open): (Vec<_>, Vec<_>) = migrations.into_iter().partition(|one| one.is_over());
    let is_busy = open.iter().any(|one| one.is_running());
    let age =
        |one: &Arc<StorageVersionMigration>| (one.metadata.created_at, one.metadata.name.clone());
    Turns {
        over: over.into_iter().filter(|one| one.is_running()).collect(),
        next: open
            .into_iter()
            .filter(|_| !is_busy)
            .min_by(|one, two| age(one).cmp(&age(two))),
    }
}

/// What comes next for one migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// Another one of the same resource runs, or it was not started yet.
    AwaitTurn,
    /// Notes the revision up to which objects may be stored in an old version.
    NoteRevision,
    /// Writes all objects again that are not newer than this.
    Migrate(u64),
    /// What the status says of the revision makes no sense.
    Fail(String),
}

pub fn plan(migration: &StorageVersionMigration) -> Step {
    let revision = &*migration.status.resource_version;
    if migration.is_over() {
        Step::Nothing
    } else if !revision.is_empty() {
        match well_formed(revision) {
            Some(revision) => Step::Migrate(revision),
            None => Step::Fail(format!(
                "error comparing resource versions between GC and SVM resource: resource version is not well formed: {revision}"
            )),
        }
    } else if migration.is_running() {
        Step::NoteRevision
    } else {
        Step::AwaitTurn
    }
}

/// A number without leading zeros, as every revision is.
fn well_formed(revision: &str) -> Option<u64> {
    let is_number = revision.bytes().all(|byte| byte.is_ascii_digit());
    let number = revision.parse().ok().filter(|_| is_number)?;
    (!revision.starts_with('0') || number == 0).then_some(number)
}

/// Is a resource that nobody serves still waited for?
pub fn is_new(migration: &StorageVersionMigration, now: MicroTime) -> bool {
    migration.metadata.age(now) < PATIENCE
}

pub fn running(migration: &StorageVersionMigration, now: Time) -> StorageVersionMigrationStatus {
    let message = "The migration is running";
    with(
        migration,
        MIGRATION_RUNNING,
        "MigrationRunning",
        message,
        now,
    )
}

pub fn succeeded(migration: &StorageVersionMigration, now: Time) -> StorageVersionMigrationStatus {
    let reason = "StorageVersionMigrationSucceeded";
    with(migration, MIGRATION_SUCCEEDED, reason, "", now)
}

pub fn failed(
    migration: &StorageVersionMigration,
    message: &str,
    now: Time,
) -> StorageVersionMigrationStatus {
    let reason = "StorageVersionMigrationFailed";
    with(migration, MIGRATION_FAILED, reason, message, now)
}

/// UPSTREAM: a condition that says anything already is left as it is.
fn with(
    migration: &StorageVersionMigration,
    type_: &str,
    reason: &str,
    message: &str,
    now: Time,
) -> StorageVersionMigrationStatus {
    let mut status = migration.status.clone();
    let held = &status.conditions;
    if !conditions::is_true(held, type_) && !conditions::is_false(held, type_) {
        let condition = Condition::new(type_, ConditionStatus::True, reason, message, now);
        status.conditions.push(condition);
    }
    status
}

/// It is over, and does not run any more.
pub fn ended(migration: &StorageVersionMigration, now: Time) -> StorageVersionMigrationStatus {
    let mut status = migration.status.clone();
    let (reason, message) = ("MigrationCompleted", "Migration completed");
    let mut condition = Condition::new(
        MIGRATION_RUNNING,
        ConditionStatus::False,
        reason,
        message,
        now,
    );
    condition.observed_generation = migration.metadata.generation;
    conditions::set(&mut status.conditions, condition, now);
    status
}

/// What a definition says of its migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Failed,
}

impl Outcome {
    pub fn of(migration: &StorageVersionMigration) -> Outcome {
        match conditions::is_true(&migration.status.conditions, MIGRATION_SUCCEEDED) {
            true => Outcome::Succeeded,
            false => Outcome::Failed,
        }
    }

    /// Reason and message of the definition's condition. `unchanged`: the definition is as it was when the migration began.
    pub fn words(self, unchanged: bool) -> (&'static str, &'static str) {
        match (self, unchanged) {
            (Outcome::Succeeded, true) => (
                "MigrationSucceeded",
                "The migration has succeeded and the stored versions have been updated",
            ),
            (Outcome::Succeeded, false) => (
                "MigrationSucceeded",
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
            (Outcome::Failed, _) => ("MigrationFailed", "The migration has failed"),
        }
    }
}

/// Why a migration does not go on.
pub fn awaits_turn(busy: Option<&str>) -> Line {
    let line = Line::waits("AwaitsTurn", "waits for another migration");
    match busy {
        Some(name) => line.because(format!("migration {name} of the same resource runs")),
        None => line.because("it was not started yet"),
    }
}

pub fn not_served(resource: &str, until: Time) -> Line {
    Line::waits(reasons::NOT_SERVED, format!("waits for {resource}"))
        .because("the API server does not serve it")
        .until(until)
        .hint("check the group and the plural name of the resource")
}

pub fn cache_is_behind(resource: &str, cached: u64, wanted: u64) -> Line {
    Line::waits(
        "CacheIsBehind",
        format!("waits for the cache of {resource}"),
    )
    .because(format!(
        "it is at revision {cached}, and {wanted} is needed"
    ))
}
