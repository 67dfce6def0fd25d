use std::sync::Arc;

use api::Resource;
use api::kinds::{ControllerRevision, RevisionData, StatefulSet};
use expect_test::expect;
use runtime::triggers::by_controller;
use serde_json::{Value, json};
use testkit::World;

use super::*;

fn data(text: &str) -> RevisionData {
    RevisionData::parse(&json!({"spec": {"template": {"text": text}}}).to_string()).unwrap()
}

/// `name number created data`.
fn revision(text: &str) -> Arc<ControllerRevision> {
    let [name, number, created, held] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    let created = api::Time::from_unix(created.parse().unwrap());
    Arc::new(ControllerRevision {
        metadata: Meta {
            name: name.into(),
            namespace: "default".into(),
            created_at: created,
            ..Meta::default()
        },
        data: data(held),
        revision: number.parse().unwrap(),
    })
}

fn revisions(lines: &[&str]) -> Vec<Arc<ControllerRevision>> {
    lines.iter().map(|line| revision(line)).collect()
}

fn names(revisions: &[Arc<ControllerRevision>]) -> String {
    let names: Vec<&str> = revisions.iter().map(|held| &*held.metadata.name).collect();
    names.join(" ")
}

// Upstream: TestSortControllerRevisions.
#[test]
fn sorts_by_number_then_age_then_name() {
    let check = |lines: &[&str], sorted: &str| {
        let mut revisions = revisions(lines);
        sort(&mut revisions);
        assert_eq!(names(&revisions), sorted);
    };
    check(&["b 2 0 x", "a 3 0 x", "c 1 0 x"], "c b a");
    check(&["b 2 9 x", "a 2 5 x", "c 1 9 x"], "c a b");
    check(&["b 2 5 x", "a 2 5 x"], "a b");
    check(&[], "");
    assert_eq!(next_number(&[]), 1);
    assert_eq!(next_number(&revisions(&["a 1 0 x", "b 7 0 x"])), 8);
}

// Upstream: TestFindEqualRevisions.
#[test]
fn finds_the_newest_of_equal_revisions() {
    let held = revisions(&["a 1 0 x", "b 2 0 y", "c 3 0 x", "d 4 0 z"]);
    let check = |text: &str| newest_equal(&held, &data(text)).map(|held| &*held.metadata.name);
    assert_eq!(check("x"), Some("c"));
    assert_eq!(check("y"), Some("b"));
    assert_eq!(check("none"), None);
}

#[test]
fn truncation_spares_what_is_in_use() {
    let held = revisions(&["a 1 0 a", "b 2 0 b", "c 3 0 c", "d 4 0 d"]);
    let check = |live: &str, limit| {
        names(&plan_truncation(
            &held,
            |one| live.contains(&*one.metadata.name),
            limit,
        ))
    };
    assert_eq!(check("d", 10), "");
    assert_eq!(check("d", 1), "a b");
    assert_eq!(check("ad", 1), "b");
    assert_eq!(check("d", 0), "a b c");
    assert_eq!(check("", -1), "");
}

#[test]
fn names_fit() {
    assert_eq!(revision_name("web", "abc"), "web-abc");
    assert_eq!(revision_name(&"x".repeat(250), "abc").len(), 223 + 4);
}

/// What the Go controller makes of the same template: its data, and its hash by collision count.
#[test]
fn data_and_hashes_are_those_of_the_go_controller() {
    let template = api::Template::parse(include_str!("golden/template.json").trim()).unwrap();
    let data = template.revision();
    assert_eq!(data.as_str(), include_str!("golden/data.json").trim());
    assert_eq!(data.hash(None), "64bc4f84cd");
    assert_eq!(data.hash(Some(0)), "d9988985d");
    assert_eq!(data.hash(Some(1)), "d9988985f");
}

async fn history(world: &World) -> History {
    let informer = world.informers.of::<ControllerRevision>();
    informer.add_index(&by_controller());
    world.start().await;
    History::new(world.client.clone(), informer.store().clone())
}

fn owner() -> Meta {
    Meta {
        name: "web".into(),
        namespace: "default".into(),
        uid: "7f0e7d3a-9f0b-4d53-8f3e-0123456789ab".into(),
        ..Meta::default()
    }
}

fn proposal(text: &str, number: i64) -> NewRevision {
    NewRevision {
        labels: [("app", "web")].into_iter().collect(),
        annotations: [("note", "kept")].into_iter().collect(),
        owner: OwnerRef {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
            name: "web".into(),
            uid: owner().uid,
            controller: Some(true),
            block_owner_deletion: Some(true),
        },
        data: data(text),
        number,
    }
}

// Upstream: TestRealHistory_CreateControllerRevision.
#[tokio::test(start_paused = true)]
async fn a_name_collision_with_other_data_raises_the_count() {
    let world = World::new().await;
    let history = history(&world).await;
    let mut count = 0;
    let first = history
        .create(&owner(), &proposal("x", 1), &mut count)
        .await
        .unwrap();
    assert_eq!((count, first.revision), (0, 1));
    assert_eq!(
        *first.metadata.name,
        *format!("web-{}", data("x").hash(Some(0)))
    );
    expect![[r#"{"apiVersion":"apps/v1","data":{"spec":{"template":{"text":"x"}}},"kind":"ControllerRevision","metadata":{"annotations":{"note":"kept"},"labels":{"app":"web","controller.kubernetes.io/hash":"7bcffcf977"},"name":"web-7bcffcf977","ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"StatefulSet","name":"web","uid":"7f0e7d3a-9f0b-4d53-8f3e-0123456789ab"}]},"revision":1}"#]]
        .assert_eq(&world.writes()[0].body.to_string());

    let again = history
        .create(&owner(), &proposal("x", 5), &mut count)
        .await
        .unwrap();
    assert_eq!((count, again.revision), (0, 1), "the same data is reused");

    let taken = format!("web-{}", data("y").hash(Some(0)));
    let squatter = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": taken}, "data": {"other": 1}, "revision": 1,
    });
    world.create(&ControllerRevision::TYPE, squatter).await;
    let moved = history
        .create(&owner(), &proposal("y", 2), &mut count)
        .await
        .unwrap();
    assert_eq!(count, 1);
    assert_eq!(
        *moved.metadata.name,
        *format!("web-{}", data("y").hash(Some(1)))
    );
    assert_eq!(
        moved.metadata.labels.get(REVISION_HASH),
        Some(&*data("y").hash(Some(0)))
    );
}

// Upstream: TestRealHistory_UpdateControllerRevision, TestRealHistory_DeleteControllerRevision.
#[tokio::test(start_paused = true)]
async fn renumbers_labels_and_deletes() {
    let world = World::new().await;
    let history = history(&world).await;
    let made = history
        .create(&owner(), &proposal("x", 1), &mut 0)
        .await
        .unwrap();
    world.writes();
    let same = history.renumber(&made, 1).await.unwrap();
    assert_eq!(same.revision, 1);
    assert_eq!(
        world.written(),
        "",
        "a number that is right stays unwritten"
    );
    let newer = history.renumber(&made, 4).await.unwrap();
    assert_eq!((newer.revision, &newer.data), (4, &made.data));
    let labelled = history.label(&newer, "a", "b").await.unwrap();
    assert_eq!(labelled.metadata.labels.get("a"), Some("b"));

    let mut impostor = (*labelled).clone();
    impostor.metadata.uid = "00000000-0000-0000-0000-000000000001".into();
    assert!(history.delete(&impostor).await.unwrap_err().is_conflict());
    assert!(history.renumber(&Arc::new(impostor), 9).await.is_err());
    history.delete(&labelled).await.unwrap();
    assert!(history.delete(&labelled).await.unwrap_err().is_not_found());
}

// Upstream: TestRealHistory_ListControllerRevisions, TestControlledHistories for those of another namespace.
#[tokio::test(start_paused = true)]
async fn candidates_are_owned_or_selected_orphans() {
    let world = World::new().await;
    let history = history(&world).await;
    let make = |name: &str, label: &str, uid: Option<&str>| {
        let owners: Vec<Value> = uid
            .map(|uid| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "data": {}, "revision": 1,
            "metadata": {"name": name, "labels": {"app": label}, "ownerReferences": owners},
        })
    };
    let (mine, other) = (
        owner().uid.to_string(),
        "00000000-0000-0000-0000-000000000001",
    );
    for object in [
        make("a-mine", "web", Some(&mine)),
        make("b-other", "web", Some(other)),
        make("c-orphan", "web", None),
        make("d-stranger", "db", None),
        make("e-relabelled", "db", Some(&mine)),
    ] {
        world.create(&ControllerRevision::TYPE, object).await;
    }
    let far = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}});
    world.create(&api::kinds::Namespace::TYPE, far).await;
    let elsewhere = make("f-elsewhere", "web", None).to_string();
    let user = &world.user;
    user.create(&ControllerRevision::TYPE, "far", elsewhere)
        .await
        .unwrap();
    world.wait_until_idle().await;
    let labels = [("app", "web")].into_iter().collect();
    let found = history.candidates(&owner(), &Selector::from_labels(&labels));
    assert_eq!(names(&found), "a-mine e-relabelled c-orphan");
}

// Upstream: TestRealHistory_ReleaseControllerRevision.
#[tokio::test(start_paused = true)]
async fn a_revision_is_released_when_it_is_no_longer_selected() {
    let world = World::new().await;
    let history = history(&world).await;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    let set = world.create(&StatefulSet::TYPE, set).await;
    let set = StatefulSet::decode(set.to_string().as_bytes()).unwrap();
    let mut proposal = proposal("x", 1);
    proposal.owner.uid = set.metadata.uid.clone();
    let made = history
        .create(&set.metadata, &proposal, &mut 0)
        .await
        .unwrap();
    let claimer = crate::workload::Claimer::new(&world.client, &set);
    for selected in [true, false] {
        let kept = claimer
            .claim(
                vec![made.clone()],
                &runtime::Written::default(),
                |_: &ControllerRevision| selected,
            )
            .await
            .unwrap();
        assert_eq!(kept.len(), usize::from(selected));
        let held = world
            .get(&ControllerRevision::TYPE, &made.metadata.name)
            .await
            .unwrap();
        assert_eq!(held["metadata"]["ownerReferences"].is_null(), !selected);
    }
}
