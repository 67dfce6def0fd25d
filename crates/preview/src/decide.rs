//! What our controllers would decide about objects of a cluster that somebody else's controllers run.

use std::time::Duration;

use api::Time;
use api::decision::Decided;
use runtime::Decisions;
use serde_json::Value;

use crate::virtual_time;
use crate::world::{World, read_only};

/// The controllers that decide by objects alone; what others do is no question of why.
fn workload_controllers() -> String {
    let shown = controllers::ALL.iter().filter(|one| one.in_preview);
    let by_objects = shown.filter(|one| !one.reads_metrics);
    let names: Vec<&str> = by_objects.map(|one| one.name).collect();
    names.join(",")
}

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
        world.start_manager(&workload_controllers(), transport);
        tokio::time::sleep(PATIENCE).await;
        let mut all = world.decisions.about(|_, _| true);
        for decided in &mut all {
            decided.decisions.truncate(1);
            for first in &mut decided.decisions {
                // Of course it failed: nothing may be written.
                (first.failure, first.count, first.last_at) = (None, 1, first.at);
            }
        }
        all
    })
}
