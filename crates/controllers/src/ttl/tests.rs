//! Steps first, then the whole against the embedded API server.

use api::Resource;
use api::kinds::Node;
use serde_json::json;
use testkit::World;

use super::{controller, select_step, wanted};

// Upstream: TestDesiredTTL.
#[test]
fn a_cluster_that_flaps_around_a_boundary_stays_on_its_step() {
    let walk = |counts: &mut dyn Iterator<Item = usize>| counts.fold(0, select_step);
    assert_eq!(walk(&mut (0..=100)), 0);
    assert_eq!(walk(&mut (0..=101)), 1);
    assert_eq!(walk(&mut (0..=101).chain((90..=100).rev())), 1);
    assert_eq!(walk(&mut (0..=101).chain((89..=100).rev())), 0);
    assert_eq!(walk(&mut (0..=3000)), 4);
    assert_eq!(select_step(0, 3000), 4);
    assert_eq!(walk(&mut (0..=3000).chain((0..3000).rev())), 0);
}

// Upstream: TestPatchNode, TestUpdateNodeIfNeeded.
#[test]
fn only_another_number_is_written() {
    let node = |annotation: &str| {
        let json = json!({"metadata": {"name": "n", "annotations": {"node.alpha.kubernetes.io/ttl": annotation}}});
        Node::decode(json.to_string().as_bytes()).unwrap()
    };
    assert_eq!(wanted(&Node::default(), 0), Some(0));
    assert_eq!(wanted(&node("0"), 0), None);
    assert_eq!(wanted(&node("0"), 2), Some(30));
    assert_eq!(wanted(&node("x"), 1), Some(15));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_told_once() {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    world.create(&Node::TYPE, node).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "0"}}})
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");

    // Others' annotations stay, and what somebody changed is fixed.
    let meddled =
        json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "10", "a": "b"}}});
    world.patch(&Node::TYPE, "n1", meddled).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(
        (writes.len(), &writes[0].body),
        (
            1,
            &json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "0"}}})
        )
    );
    let node = world.get(&Node::TYPE, "n1").await.unwrap();
    assert_eq!(node["metadata"]["annotations"]["a"], "b");
}
