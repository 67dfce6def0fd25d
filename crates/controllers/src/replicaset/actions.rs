//! What users do with ReplicaSets and ReplicationControllers.

use api::Resource;
use api::kinds::{ReplicaSet, ReplicationController};
use serde_json::json;

use crate::oracle::Workloads;
use crate::oracle::workloads::{Changes, draw_object};

pub(super) const REPLICA_SETS: Workloads = Workloads {
    resource: ReplicaSet::TYPE,
    draw: |rng, target, app| draw_object(rng, target, app, true),
    change: |rng, versions| CHANGES.draw(rng, versions),
    finish: None,
};

pub(super) const REPLICATION_CONTROLLERS: Workloads = Workloads {
    resource: ReplicationController::TYPE,
    draw: |rng, target, app| {
        let mut object = draw_object(rng, target, app, true);
        object["spec"]["selector"] = json!({"app": app});
        object
    },
    change: |rng, versions| CHANGES.draw(rng, versions),
    finish: None,
};

/// Neither replaces pods of another version: one that is bad would stay.
const CHANGES: Changes = Changes {
    is_scaled: true,
    rolls_out: false,
    own: |_, _| None,
};
