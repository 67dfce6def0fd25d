//! Migrations of stored objects to another version: how far they are, and why they are stuck.

use api::Resource;
use api::decision::reasons;
use api::kinds::StorageVersionMigration;
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, text, time};
use crate::kinds::Kind;
use crate::time::{human, sentence};
use crate::{Draft, Obstacle, State, help, storage};

pub(crate) const KIND: Kind = Kind {
    resource: StorageVersionMigration::TYPE,
    inputs: &[],
    needs: &[],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let migration = &facts.object;
    let resource = resource(migration);
    draft.wants(format!("all {resource} stored in the current version"));
    match text(migration, "/status/resourceVersion") {
        "" => draft.sees("it has not noted a revision: nothing was written yet"),
        revision => draft.sees(format!(
            "objects up to revision {revision} are written again"
        )),
    }
    let holds = |kind| condition(migration, kind).filter(|held| text(held, "/status") == "True");
    if holds("Succeeded").is_some() {
        return draft.conclude(State::Settled, format!("all {resource} were written again"));
    }
    if let Some(failed) = holds("Failed") {
        let why = text(failed, "/message");
        draft.in_the_way(
            Obstacle::of(migration, why.to_owned()).since(time(failed, "/lastTransitionTime")),
        );
        draft.offer(help::on(
            facts,
            &format!("delete {}", facts.name_of(migration)),
            "a failed migration is not tried again; create another one once the cause is gone",
        ));
        return draft.conclude(State::Stuck, format!("has failed: {why}"));
    }
    if let Some(wait) = storage::waits(facts, migration) {
        let told = sentence(&wait, facts.now);
        let state = match &*wait.reason {
            // Only somebody who serves the resource helps.
            reasons::NOT_SERVED => State::Stuck,
            _ => State::Progressing,
        };
        return draft.conclude(state, told);
    }
    if let Some(running) = holds("Running") {
        let since = time(running, "/lastTransitionTime");
        let since = since.map_or_else(String::new, |since| {
            format!(" for {}", human(facts.now.unix() - since.unix()))
        });
        return draft.conclude(State::Progressing, format!("has been running{since}"));
    }
    draft.conclude(
        State::Unknown,
        "has not begun, and no controller of this manager says why: storage-version-migrator-controller needs the gate StorageVersionMigrator",
    );
}

/// `deployments.apps`
fn resource(migration: &Value) -> String {
    let name = text(migration, "/spec/resource/resource");
    match text(migration, "/spec/resource/group") {
        "" => name.to_owned(),
        group => format!("{name}.{group}"),
    }
}
