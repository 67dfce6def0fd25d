//! Plans first, then the whole against the embedded API server, to which a custom resource stands in for the gated one.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Pod, StorageVersionMigration};
use api::{Resource, ResourceType};
use runtime::Context;
use runtime::informer::{MetadataStreams, StreamOptions};
use serde_json::{Value, json};
use testkit::{WIDGET, World};

use super::definition::Definition;
use super::plan::{Outcome, Step, plan, plan_turns};
use super::{controller, safe};

/// `name:flags`, where `r` runs, `R` ran, `s` has succeeded, `f` has failed and a number is its age in seconds.
fn migration(text: &str) -> StorageVersionMigration {
    let (name, flags) = text.split_once(':').unwrap_or((text, ""));
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status});
    let conditions: Vec<Value> = flags
        .chars()
        .filter_map(|flag| match flag {
            'r' => Some(condition("Running", "True")),
            'R' => Some(condition("Running", "False")),
            's' => Some(condition("Succeeded", "True")),
            'f' => Some(condition("Failed", "True")),
            _ => None,
        })
        .collect();
    let age: String = flags.chars().filter(char::is_ascii_digit).collect();
    let created = api::Time::from_unix(1000 - age.parse::<i64>().unwrap_or(0));
    let object = json!({
        "metadata": {"name": name, "creationTimestamp": created},
        "status": {"conditions": conditions},
    });
    StorageVersionMigration::decode(object.to_string().as_bytes()).unwrap()
}

fn check_turns(migrations: &str, expected: &str) {
    let all = migrations.split(' ').map(|text| Arc::new(migration(text)));
    let turns = plan_turns(all.collect());
    let name = |one: &Arc<StorageVersionMigration>| one.metadata.name.to_string();
    let over: Vec<String> = turns.over.iter().map(name).collect();
    let next = turns.next.as_ref().map_or("nobody".to_owned(), name);
    assert_eq!(
        format!("end {}; start {next}", over.join(" ")),
        expected,
        "{migrations}"
    );
}

// Upstream: TestCustomResourceController_Sync, its turns.
#[test]
fn migrations_of_a_resource_take_turns() {
    check_turns("a", "end ; start a");
    check_turns("a:r b", "end ; start nobody");
    check_turns("b a:r", "end ; start nobody");
    check_turns("a:rs b", "end a; start b");
    check_turns("a:rf", "end a; start nobody");
    check_turns("a:Rs b:Rf", "end ; start nobody");
    check_turns("young:1 old:9 middle:5", "end ; start old");
    check_turns("b:5 a:5", "end ; start a");
}

fn check_step(flags: &str, revision: &str, expected: &str) {
    let mut one = migration(&format!("a:{flags}"));
    one.status.resource_version = revision.into();
    let step = match plan(&one) {
        Step::Fail(why) => format!("fail: {why}"),
        Step::Migrate(revision) => format!("migrate {revision}"),
        other => format!("{other:?}"),
    };
    assert_eq!(step, expected);
}

// Upstream: TestRVSync and TestSync, what they decide.
#[test]
fn a_migration_notes_the_revision_before_it_works() {
    check_step("", "", "AwaitTurn");
    check_step("R", "", "AwaitTurn");
    check_step("r", "", "NoteRevision");
    check_step("r", "7", "migrate 7");
    check_step("rs", "7", "Nothing");
    check_step("rf", "", "Nothing");
    let strange = "fail: error comparing resource versions between GC and SVM resource: resource version is not well formed: ";
    for revision in ["x", "-1", "+1", "007", "99999999999999999999999"] {
        check_step("r", revision, &format!("{strange}{revision}"));
    }
}

// Upstream: TestCustomResourceController_Sync (CRD generation mismatch).
#[test]
fn a_definition_that_changed_meanwhile_is_told_apart() {
    let (_, same) = Outcome::Succeeded.words(true);
    assert!(same.ends_with("and the stored versions have been updated"));
    let (reason, changed) = Outcome::Succeeded.words(false);
    assert_eq!(reason, "MigrationSucceeded");
    assert!(changed.ends_with("have not been updated due to a generation mismatch"));
    assert_eq!(Outcome::Failed.words(false), Outcome::Failed.words(true));
}

#[test]
fn what_is_over_stays_so() {
    assert!(safe(&migration("a:rs"), &migration("a:Rs")).is_ok());
    assert!(safe(&migration("a:rs"), &migration("a:r")).is_err());
    assert!(safe(&migration("a"), &migration("a:s")).is_err());
    let mut noted = migration("a:r");
    noted.status.resource_version = "5".into();
    assert!(safe(&noted, &migration("a:r")).is_err());
}

async fn world() -> (World, Context) {
    let mut world = World::new().await;
    crate::test_definition(&world, &StorageVersionMigration::TYPE, &["v1beta1"]).await;
    let context = Context {
        controller: "storage-version-migrator-controller",
        ..world.context()
    };
    let options = StreamOptions {
        rng: world.rng.fork(),
        resync: None,
    };
    let streams = MetadataStreams::new(world.client.clone(), options);
    let running = controller(&context, &streams).run(world.stop());
    world.run(running);
    world.start().await;
    (world, context)
}

async fn migrate(world: &World, name: &str, group: &str, resource: &str) {
    let object = json!({
        "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
        "metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": resource}},
    });
    world.create(&StorageVersionMigration::TYPE, object).await;
}

/// Conditions, `Type=status(reason)`, and the last message.
async fn conditions(world: &World, resource: &ResourceType, name: &str) -> String {
    let object = world.get(resource, name).await.unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    conditions
        .unwrap_or_default()
        .iter()
        .map(|held| {
            let message = text(&held["message"]);
            format!(
                "{}={} {}: {message}",
                text(&held["type"]),
                text(&held["status"]),
                text(&held["reason"])
            )
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

// Upstream: TestSync (Successful migration), TestRVSync (Successful RV acquisition).
#[tokio::test(start_paused = true)]
async fn every_object_is_written_again() {
    let (world, _) = world().await;
    let one = world.create(&Pod::TYPE, pod("one")).await;
    world.create(&Pod::TYPE, pod("two")).await;
    migrate(&world, "pods", "", "pods").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "PUT storageversionmigrations/pods/status", // runs
            "PUT storageversionmigrations/pods/status", // its revision
            "PATCH pods/one",
            "PATCH pods/two",
            "PUT storageversionmigrations/pods/status", // has succeeded
            "PUT storageversionmigrations/pods/status", // does not run any more
        ]
    );
    let meta = &one["metadata"];
    assert_eq!(
        writes[2].body,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
        })
    );
    let told = conditions(&world, &StorageVersionMigration::TYPE, "pods").await;
    assert_eq!(
        told,
        "Running=False MigrationCompleted: Migration completed\nSucceeded=True StorageVersionMigrationSucceeded: "
    );
    assert_eq!(
        world.get(&Pod::TYPE, "one").await.unwrap(),
        one,
        "nothing has changed"
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestCustomResourceController_Sync (CRD exists, Update CRD stored versions).
#[tokio::test(start_paused = true)]
async fn a_custom_resource_definition_lists_the_stored_versions() {
    let (world, _) = world().await;
    world.define_widgets().await;
    let name = WIDGET.to_string();
    let old = json!({"status": {"storedVersions": ["v0", "v1"]}});
    world
        .patch_subresource(&Definition::TYPE, &name, Some("status"), old)
        .await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    world.create(&WIDGET, widget).await;
    migrate(&world, "widgets", "example.com", "widgets").await;
    world.wait_until_idle().await;
    let definition = world.get(&Definition::TYPE, &name).await.unwrap();
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    let told = conditions(&world, &Definition::TYPE, &name).await;
    let last = "StorageMigrating=False MigrationSucceeded: The migration has succeeded and the stored versions have been updated";
    assert!(told.ends_with(last), "{told}");
}

// Upstream: TestSync (Fatal patch error fails migration), TestCustomResourceController_Sync (Migration failed).
#[tokio::test(start_paused = true)]
async fn a_refusal_fails_the_migration_and_old_versions_stay() {
    let (world, _) = world().await;
    world.define_widgets().await;
    let name = WIDGET.to_string();
    let old = json!({"status": {"storedVersions": ["v0", "v1"]}});
    world
        .patch_subresource(&Definition::TYPE, &name, Some("status"), old)
        .await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    world.create(&WIDGET, widget).await;
    world.refuse("PATCH", "widgets/w", 422, 1);
    migrate(&world, "widgets", "example.com", "widgets").await;
    world.wait_until_idle().await;
    let told = conditions(&world, &StorageVersionMigration::TYPE, "widgets").await;
    let head = "Failed=True StorageVersionMigrationFailed: migration encountered unhandled error: ";
    assert!(told.contains(head), "{told}");
    let definition = world.get(&Definition::TYPE, &name).await.unwrap();
    assert_eq!(definition["status"]["storedVersions"], json!(["v0", "v1"]));
    let told = conditions(&world, &Definition::TYPE, &name).await;
    assert!(
        told.ends_with("StorageMigrating=False MigrationFailed: The migration has failed"),
        "{told}"
    );
}

// Upstream: TestSync (Conflict on patch is ignored, Retriable patch error is returned directly).
#[tokio::test(start_paused = true)]
async fn conflicts_are_passed_over_and_failures_of_the_server_tried_again() {
    let (world, _) = world().await;
    world.create(&Pod::TYPE, pod("one")).await;
    world.create(&Pod::TYPE, pod("two")).await;
    world.refuse("PATCH", "pods/one", 409, 1);
    world.refuse("PATCH", "pods/two", 503, 2);
    migrate(&world, "pods", "", "pods").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let told = conditions(&world, &StorageVersionMigration::TYPE, "pods").await;
    assert!(told.contains("Succeeded=True"), "{told}");
}

// Upstream: TestSync (Resource not in GC), TestRVSync (Resource not migratable), TestIsResourceMigratable.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_migrated_fails_after_a_minute_or_at_once() {
    let (world, context) = world().await;
    migrate(&world, "nothing", "example.com", "nothing").await;
    migrate(&world, "bindings", "authentication.k8s.io", "tokenreviews").await;
    world.wait_until_idle().await;
    let told = conditions(&world, &StorageVersionMigration::TYPE, "bindings").await;
    let refused = r#"Failed=True StorageVersionMigrationFailed: resource "authentication.k8s.io/v1, Resource=tokenreviews" does not support discovery operations: [update patch list]"#;
    assert!(told.contains(refused), "{told}");
    let told = conditions(&world, &StorageVersionMigration::TYPE, "nothing").await;
    assert_eq!(
        told,
        "Running=True MigrationRunning: The migration is running"
    );
    let key = api::Key::new("", "nothing");
    let last = context
        .decisions
        .get(context.controller, &key)
        .pop()
        .unwrap();
    assert_eq!(
        last.lines[0].to_string(),
        "waits for nothing.example.com at 2024-01-01T00:01:00Z: the API server does not serve it"
    );
    tokio::time::sleep(Duration::from_secs(150)).await;
    let told = conditions(&world, &StorageVersionMigration::TYPE, "nothing").await;
    let refused = "Failed=True StorageVersionMigrationFailed: resource does not exist in discovery";
    assert!(told.contains(refused), "{told}");
}

// Upstream: TestCustomResourceController_Sync (Promote older SVM first).
#[tokio::test(start_paused = true)]
async fn a_second_migration_waits_for_the_first() {
    let (world, context) = world().await;
    world.create(&Pod::TYPE, pod("one")).await;
    world.refuse("PATCH", "pods/one", 503, 3);
    migrate(&world, "first", "", "pods").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    migrate(&world, "second", "", "pods").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let told = |name: &str| {
        let key = api::Key::new("", name);
        context
            .decisions
            .get(context.controller, &key)
            .pop()
            .unwrap()
            .lines[0]
            .to_string()
    };
    assert_eq!(
        told("second"),
        "waits for another migration: migration first of the same resource runs"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    for name in ["first", "second"] {
        let told = conditions(&world, &StorageVersionMigration::TYPE, name).await;
        assert!(told.contains("Succeeded=True"), "{name}: {told}");
    }
}
