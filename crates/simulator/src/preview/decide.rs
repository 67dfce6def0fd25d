//! What our controllers would decide about objects of a cluster that somebody else's controllers run.

use std::time::Duration;

use api::{Key, Time};
use explain::Decision;
use runtime::Decisions;
use serde_json::Value;

use super::virtual_time;
use super::world::{World, read_only};

/// The first decision about one object.
pub struct Decided {
    pub controller: &'static str,
    pub namespace: String,
    pub name: String,
    pub decision: Decision,
}

/// The controllers that decide by objects alone; what others do is no question of why.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,replicationcontroller-controller,statefulset-controller,daemonset-controller,job-controller";

/// Caches fill and plans are made within moments: there is no network.
const PATIENCE: Duration = Duration::from_millis(200);

/// Runs the workload controllers on a copy of these objects, lets them write nothing, and gives the first
/// plan of each.
pub fn decide(objects: Vec<Value>, now: Time) -> Vec<Decided> {
    virtual_time().block_on(async {
        let mut world = World::new(now, 1, Decisions::new());
        // Objects of kinds that we do not know say nothing to our controllers.
        world.restore(objects);
        let transport = read_only(world.server.transport());
        world.start_manager(CONTROLLERS, transport);
        tokio::time::sleep(PATIENCE).await;
        let decisions = &world.decisions;
        let all = decisions.controllers().into_iter().flat_map(|controller| {
            let keys = decisions.keys(controller).into_iter();
            keys.map(move |key| (controller, key))
        });
        all.filter_map(|(controller, key)| first(decisions, controller, &key))
            .collect()
    })
}

fn first(decisions: &Decisions, controller: &'static str, key: &Key) -> Option<Decided> {
    let first = decisions.get(controller, key).into_iter().next()?;
    Some(Decided {
        controller,
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        decision: Decision {
            at: first.at,
            last_at: first.at,
            count: 1,
            lines: first.lines().map(str::to_owned).collect(),
            // Of course it failed: nothing may be written.
            failure: None,
        },
    })
}
