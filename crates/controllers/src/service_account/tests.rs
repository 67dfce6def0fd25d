//! Against the embedded API server. Upstream: TestServiceAccountCreation.

use api::Resource;
use api::kinds::{Namespace, ServiceAccount};
use serde_json::json;
use testkit::World;

use super::{DEFAULT_ACCOUNTS, controller};

async fn world(wanted: &[&str]) -> World {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, wanted, 1).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    world.written();
    world
}

async fn create_namespace(world: &World) {
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    world.create(&Namespace::TYPE, shop).await;
    world.wait_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_namespace_gets_its_account() {
    let world = world(&DEFAULT_ACCOUNTS).await;
    create_namespace(&world).await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].path, "/api/v1/namespaces/shop/serviceaccounts");
    assert_eq!(writes[0].body["metadata"]["name"], "default");
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_account_comes_back() {
    let world = world(&DEFAULT_ACCOUNTS).await;
    world.delete(&ServiceAccount::TYPE, "default").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST serviceaccounts");
    // One that nobody asked us for does not.
    let mine = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}});
    world.create(&ServiceAccount::TYPE, mine).await;
    world.delete(&ServiceAccount::TYPE, "mine").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn only_the_accounts_that_are_missing_are_created() {
    let world = world(&["default", "other"]).await;
    world.delete(&ServiceAccount::TYPE, "other").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].body["metadata"]["name"], "other");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world.patch(&Namespace::TYPE, "default", label).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "all are there");
}

#[tokio::test(start_paused = true)]
async fn several_accounts_can_be_wanted() {
    let world = world(&["default", "other"]).await;
    create_namespace(&world).await;
    assert_eq!(world.written(), "POST serviceaccounts ×2");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_gets_none() {
    let world = world(&DEFAULT_ACCOUNTS).await;
    create_namespace(&world).await;
    world.written();
    world.delete(&Namespace::TYPE, "shop").await;
    let options = client::DeleteOptions::default();
    let account = ServiceAccount::TYPE;
    world
        .user
        .delete(&account, "shop", "default", &options)
        .await
        .unwrap();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again() {
    let world = world(&DEFAULT_ACCOUNTS).await;
    world.refuse("POST", "shop/serviceaccounts", 500, 1);
    create_namespace(&world).await;
    assert_eq!(
        world.written(),
        "POST serviceaccounts -> 500\nPOST serviceaccounts"
    );
}
