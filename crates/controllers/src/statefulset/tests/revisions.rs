//! Which revision the template is, and what becomes of the others.

use api::decision::Line;
use api::kinds::ControllerRevision;

use super::super::{Choice, choose};
use super::*;

fn template(image: &str) -> api::Template {
    let text = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"image": image}});
    api::Template::parse(&text.to_string()).unwrap()
}

/// `a@1 b@2`: images and numbers of revisions, in order.
fn held(text: &str) -> Vec<Arc<ControllerRevision>> {
    let one = |text: &str| {
        let (image, number) = text.split_once('@').unwrap();
        let mut held = (*revision(image, number.parse().unwrap())).clone();
        held.data = template(image).revision().clone();
        Arc::new(held)
    };
    text.split_whitespace().map(one).collect()
}

fn check(revisions: &str, image: &str, expected: &str) {
    let mut set = (*set("replicas=1")).clone();
    set.spec.template = template(image);
    let choice = choose(&set, &held(revisions), Gates::default());
    let chosen = match (&choice, choice.news()) {
        (Choice::Newest(held), None) => format!("keeps {}", held.metadata.name),
        (_, news) => Line::from(&news.expect("a revision is written")).to_string(),
    };
    assert_eq!(chosen, expected);
}

// Upstream: TestStatefulSetControl_getSetRevisions.
#[test]
fn finds_the_template_among_the_revisions() {
    check("", "a", "creates revision 1: the template is new");
    check("a@1", "a", "keeps a");
    check("a@1 b@2", "c", "creates revision 3: the template is new");
    check("a@1 b@2", "b", "keeps b");
    check(
        "a@1 b@2",
        "a",
        "makes a revision 3: the template is that of an old revision again",
    );
}

// Upstream: TestStatefulSetControl_getSetRevisions with StatefulSetSemanticRevisionComparison in both states.
#[test]
fn what_differs_in_nulls_alone_is_the_same_revision_if_the_gate_is_on() {
    let mut set = (*set("replicas=1")).clone();
    set.spec.template = template("a");
    let mut old = (*held("a@1")[0]).clone();
    let text = old.data.as_str().replace(
        r#""metadata":{"#,
        r#""metadata":{"creationTimestamp":null,"#,
    );
    old.data = RevisionData::parse(&text).unwrap();
    let old = [Arc::new(old)];
    let gate = api::Gate::StatefulSetSemanticRevisionComparison;
    let on = choose(&set, &old, Gates::default().with(gate, true));
    assert!(matches!(on, Choice::Newest(_)), "{on:?}");
    let off = choose(&set, &old, Gates::default().with(gate, false));
    assert!(matches!(off, Choice::Create(_)), "{off:?}");
    // An older release made the first, a newer one the second: nothing is made or renumbered.
    let [old] = old;
    let both = [old, held("a@2")[0].clone()];
    let chosen = choose(&set, &both, Gates::default().with(gate, true));
    assert!(
        matches!(&chosen, Choice::Newest(held) if held.revision == 2),
        "{chosen:?}"
    );
}

async fn numbers(world: &World) -> Vec<i64> {
    let mut numbers: Vec<i64> = world
        .list(&ControllerRevision::TYPE)
        .await
        .iter()
        .map(|held| held["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

// Upstream: TestStatefulSetControlRollback, TestStatefulSetControlLimitsHistory.
#[tokio::test(start_paused = true)]
async fn going_back_reuses_a_revision_and_history_is_bounded() {
    let world = world().await;
    let mut set = stateful_set(1);
    set["spec"]["revisionHistoryLimit"] = json!(2);
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    for image in ["nginx:2", "nginx:3", "nginx:4"] {
        set_image(&world, image).await;
        roll_out(&world).await;
    }
    assert_eq!(numbers(&world).await, [2, 3, 4], "two old ones are kept");
    world.written();
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    assert_eq!(numbers(&world).await, [3, 4, 5]);
    let written = world.written();
    assert!(written.contains("PATCH controllerrevisions"), "{written}");
    assert!(!written.contains("POST controllerrevisions"), "{written}");
    assert_eq!(images(&world).await, "web-0=nginx:2");
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(
        set["status"]["currentRevision"],
        set["status"]["updateRevision"]
    );
}

// Upstream: TestStatefulSetHonorRevisionHistoryLimit.
#[tokio::test(start_paused = true)]
async fn history_is_bounded_while_the_status_is_refused() {
    let world = world().await;
    let mut set = stateful_set(1);
    set["spec"]["revisionHistoryLimit"] = json!(2);
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    for number in 2..8 {
        world.refuse("PUT", "/status", 500, 2);
        set_image(&world, &format!("nginx:{number}")).await;
        roll_out(&world).await;
        let kept = numbers(&world).await;
        // The current and the next one are in use.
        assert!(kept.len() <= 4, "{kept:?}");
        assert_eq!(kept.last(), Some(&number));
    }
}

// Upstream: TestStatefulSetControl_getSetRevisions (collision).
#[tokio::test(start_paused = true)]
async fn a_name_collision_is_counted_in_the_status() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(1)).await;
    roll_out(&world).await;
    let made = world.list(&ControllerRevision::TYPE).await;
    let first = RevisionData::parse(&made[0]["data"].to_string()).unwrap();
    let text = first.as_str().replace("nginx:1", "nginx:2");
    let second = RevisionData::parse(&text).unwrap();
    let squatter = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": format!("web-{}", second.hash(Some(0)))},
        "data": {"other": true}, "revision": 7,
    });
    world.create(&ControllerRevision::TYPE, squatter).await;
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["collisionCount"], 1);
    let expected = format!("web-{}", second.hash(Some(1)));
    assert_eq!(set["status"]["updateRevision"], json!(expected));
}

// Upstream: TestAdoptOrphanRevisions, TestRealHistory_AdoptControllerRevision.
#[tokio::test(start_paused = true)]
async fn orphaned_revisions_are_adopted() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(1)).await;
    roll_out(&world).await;
    let made = world.list(&ControllerRevision::TYPE).await;
    let name = made[0]["metadata"]["name"].as_str().unwrap();
    let orphan = json!({"metadata": {"ownerReferences": null}});
    world.patch(&ControllerRevision::TYPE, name, orphan).await;
    world.written();
    scale(&world, 2).await;
    world.wait_until_idle().await;
    let held = world.get(&ControllerRevision::TYPE, name).await.unwrap();
    assert_eq!(
        held["metadata"]["ownerReferences"][0]["kind"],
        "StatefulSet"
    );
    let written = world.written();
    assert!(written.contains(&format!("PATCH controllerrevisions/{name}")));
    assert_eq!(world.list(&ControllerRevision::TYPE).await.len(), 1);
}
