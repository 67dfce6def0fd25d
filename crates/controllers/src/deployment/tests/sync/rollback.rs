use api::Resource;
use api::kinds::Deployment;
use expect_test::expect;
use serde_json::{Value, json};

use super::*;

const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// A Deployment that has rolled out templates 1 and 2, each with its own cause.
async fn rolled_out() -> World {
    let world = world().await;
    let mut object = deployment(2);
    object["metadata"]["annotations"] = json!({"cause": "first"});
    world.create(&Deployment::TYPE, object).await;
    roll_out(&world).await;
    let mut change = image("2");
    change["metadata"] = json!({"annotations": {"cause": "second"}});
    edit(&world, change).await;
    roll_out(&world).await;
    world.writes();
    world
}

async fn ask(world: &World, revision: &str) {
    edit(
        world,
        json!({"metadata": {"annotations": {ROLLBACK_TO: revision}}}),
    )
    .await;
    roll_out(world).await;
    assert_eq!(
        web(world).await["metadata"]["annotations"][ROLLBACK_TO],
        Value::Null
    );
}

async fn last_event(world: &World) -> String {
    let events = events(world).await;
    let rollback = events.lines().rfind(|line| line.contains("ollback"));
    rollback.map_or(String::new(), |line| line[6..].to_string())
}

// Upstream: TestReentrantRollback.
#[tokio::test(start_paused = true)]
async fn undo_rolls_back_to_the_last_revision() {
    let world = rolled_out().await;
    let before = web(&world).await;
    ask(&world, "0").await;
    let after = web(&world).await;
    assert_eq!(after["metadata"]["annotations"]["cause"], "first");
    assert_eq!(
        after["spec"]["template"]["metadata"],
        before["spec"]["template"]["metadata"]
    );
    assert_eq!(
        after["spec"]["strategy"], before["spec"]["strategy"],
        "nothing else changes"
    );
    expect![[r#"
        2 nginx:2 0/0
        3 nginx:1 2/2"#]]
    .assert_eq(&sets(&world).await);
    let old = world.list(&ReplicaSet::TYPE).await;
    let history: Vec<&Value> = old
        .iter()
        .map(|set| &set["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"])
        .filter(|history| !history.is_null())
        .collect();
    assert_eq!(history, [&json!("1")]);
    assert_eq!(
        last_event(&world).await,
        "Normal DeploymentRollback Rolled back deployment \"web\" to revision 1"
    );
    assert_converged(&world).await;
    world.writes();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_revision_can_be_named() {
    let world = rolled_out().await;
    ask(&world, "1").await;
    expect![[r#"
        2 nginx:2 0/0
        3 nginx:1 2/2"#]]
    .assert_eq(&sets(&world).await);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_is_said_and_given_up() {
    let world = rolled_out().await;
    let before = sets(&world).await;
    ask(&world, "7").await;
    assert_eq!(
        last_event(&world).await,
        "Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to."
    );
    ask(&world, "2").await;
    assert_eq!(
        last_event(&world).await,
        "Warning DeploymentRollbackTemplateUnchanged The rollback revision contains the same template as current deployment \"web\""
    );
    assert_eq!(sets(&world).await, before);
}
