//! What each controller decides. One folder per controller, shared workload pieces beside them.
//!
//! Every controller has the same shape: `snapshot` (what the caches say) → `plan` (pure: what
//! should happen, and why) → apply (the only place with IO) → `status` (pure) → written if it
//! differs. Controllers never know each other; they meet in the API server.

pub mod cluster_role_aggregation;
pub mod daemonset;
pub mod deployment;
pub mod discovery;
pub mod garbage_collector;
pub mod job;
pub mod legacy_token_cleaner;
pub mod namespace;
pub mod node_lifecycle;
pub mod pod_gc;
pub mod replicaset;
pub mod root_ca_publisher;
pub mod service_account;
pub mod service_account_token;
pub mod statefulset;
pub mod taint_eviction;
pub mod ttl;
pub mod ttl_after_finished;
pub mod workload;

use api::{Clock, Gates};
use client::Client;
use runtime::Metrics;
use runtime::decisions::Decisions;
use runtime::events::Recorder;

/// What every controller works with.
#[derive(Clone)]
pub struct Tools {
    pub client: Client,
    pub recorder: Recorder,
    pub clock: Clock,
    pub gates: Gates,
    pub decisions: Decisions,
    pub metrics: Metrics,
}

/// Tools for a controller that a test runs in this world.
#[cfg(test)]
impl From<&testkit::World> for Tools {
    fn from(world: &testkit::World) -> Tools {
        Tools {
            client: world.client.clone(),
            recorder: world.recorder.clone(),
            clock: world.clock.clone(),
            gates: Gates::default(),
            decisions: Decisions::new(),
            metrics: Metrics::new(),
        }
    }
}

/// A controller that has seen this object and nothing since. The object is held: deleting it does not make it go.
#[cfg(test)]
async fn lagging<K: api::Resource>(
    mut object: serde_json::Value,
    gates: Gates,
    build: impl FnOnce(&runtime::Informers, Tools) -> runtime::controller::Controller,
) -> testkit::Lagging {
    let world = testkit::World::new().await;
    let tools = Tools {
        gates,
        ..Tools::from(&world)
    };
    let controller = build(&world.informers, tools);
    object["metadata"]["finalizers"] = serde_json::json!(["example.com/hold"]);
    let made = world.create(&K::TYPE, object).await;
    let lagging = testkit::Lagging { world, controller };
    let name = made["metadata"]["name"].as_str();
    lagging.see::<K>(name.unwrap_or_default()).await;
    lagging
}
