//! Together with the eviction subresource of the embedded API server.

use std::time::Duration;

use api::Resource;
use api::kinds::{Pod, PodDisruptionBudget};
use serde_json::json;
use testkit::World;

use super::{budget, pod, replica_set, running, status};

pub(super) async fn evict(world: &World, name: &str) -> Result<(), String> {
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let body = eviction.to_string();
    let evicted = world
        .user
        .create_subresource(&Pod::TYPE, "default", name, "eviction", body)
        .await;
    evicted.map(drop).map_err(|error| {
        let causes = error
            .status()
            .map(|status| status.causes[0].message.clone());
        causes.unwrap_or_default()
    })
}

#[tokio::test(start_paused = true)]
async fn evictions_are_let_through_one_by_one() {
    let world = running().await;
    let set = replica_set(&world, "web", 3).await;
    for name in ["a", "b", "c"] {
        pod(&world, name, Some(&set)).await;
    }
    budget(&world, json!({"maxUnavailable": 1})).await;
    assert_eq!(
        status(&world).await,
        "1 allowed, 3 healthy of 2, 3 expected"
    );
    assert_eq!(evict(&world, "a").await, Ok(()));
    let full = "The disruption budget b needs 2 healthy pods and has 3 currently";
    assert_ne!(evict(&world, "b").await, Ok(()), "{full}");
    assert_eq!(
        status(&world).await,
        "0 allowed, 2 healthy of 2, 3 expected"
    );
    let full = "The disruption budget b needs 2 healthy pods and has 2 currently";
    assert_eq!(evict(&world, "b").await, Err(full.to_owned()));
    world.finish_deletions().await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 2 healthy of 2, 3 expected"
    );
    pod(&world, "d", Some(&set)).await;
    assert_eq!(
        status(&world).await,
        "1 allowed, 3 healthy of 2, 3 expected"
    );
    assert_eq!(evict(&world, "b").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_does_not_come_to_pass_is_forgotten_after_two_minutes() {
    let world = running().await;
    pod(&world, "a", None).await;
    pod(&world, "b", None).await;
    budget(&world, json!({"minAvailable": 1})).await;
    assert_eq!(
        status(&world).await,
        "1 allowed, 2 healthy of 1, 2 expected"
    );
    let disrupted = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": world.clock.now().time()}}});
    let resource = &PodDisruptionBudget::TYPE;
    world
        .patch_subresource(resource, "b", Some("status"), disrupted)
        .await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 1 healthy of 1, 2 expected"
    );
    world.writes();
    tokio::time::sleep(Duration::from_secs(105)).await;
    assert_eq!(world.written(), "");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(
        status(&world).await,
        "1 allowed, 2 healthy of 1, 2 expected"
    );
    assert_eq!(world.written(), "PUT poddisruptionbudgets/b/status");
    let events = world.events().await;
    let event =
        "Warning NotDeleted Pod was expected by PDB default/default to be deleted but it wasn't";
    assert!(events.iter().any(|told| told == event), "{events:#?}");
}
