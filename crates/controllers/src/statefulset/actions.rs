//! What users do with StatefulSets.

use api::kinds::StatefulSet;
use api::{Resource, Rng};
use serde_json::{Value, json};

use crate::oracle::Workloads;
use crate::oracle::workloads::{Changes, draw_object, good_version};

pub(super) const WORKLOADS: Workloads = Workloads {
    resource: StatefulSet::TYPE,
    draw: |rng, target, app| {
        let mut object = draw_object(rng, target, app, true);
        draw_spec(rng, &mut object["spec"]);
        object
    },
    change: |rng, versions| {
        let changes = Changes {
            is_scaled: true,
            rolls_out: true,
            own: change,
        };
        changes.draw(rng, versions)
    },
    // What is replaced by hand, or kept below a partition, would stay at a bad version for ever.
    finish: Some(|| {
        let all = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        good_version(json!({"updateStrategy": all}))
    }),
};

fn draw_spec(rng: &Rng, spec: &mut Value) {
    spec["serviceName"] = json!("none");
    if rng.chance(3) {
        spec["podManagementPolicy"] = json!("Parallel");
    }
    spec["updateStrategy"] = match rng.below(5) {
        0 => json!({"type": "OnDelete"}),
        1 => json!({"type": "RollingUpdate", "rollingUpdate": {"partition": rng.below(4)}}),
        _ => json!({"type": "RollingUpdate"}),
    };
    spec["revisionHistoryLimit"] = json!(1 + rng.below(3));
    if rng.chance(4) {
        spec["ordinals"] = json!({"start": rng.below(3)});
    }
    if rng.chance(3) {
        spec["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }]);
        let policy = |rng: &Rng| ["Retain", "Delete"][rng.below(2)];
        spec["persistentVolumeClaimRetentionPolicy"] =
            json!({"whenDeleted": policy(rng), "whenScaled": policy(rng)});
    }
}

fn change(rng: &Rng, choice: usize) -> Option<(Value, String)> {
    (choice == 4).then(|| {
        let partition = rng.below(4);
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        (
            json!({"spec": {"updateStrategy": strategy}}),
            format!("sets the partition to {partition}"),
        )
    })
}
