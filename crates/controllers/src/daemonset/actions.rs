//! What users do with DaemonSets.

use api::kinds::DaemonSet;
use api::{Resource, Rng};
use serde_json::{Value, json};

use crate::oracle::Workloads;
use crate::oracle::workloads::{Changes, amount, draw_object, good_version};

pub(super) const WORKLOADS: Workloads = Workloads {
    resource: DaemonSet::TYPE,
    draw: |rng, target, app| {
        let mut object = draw_object(rng, target, app, false);
        let spec = &mut object["spec"];
        spec["updateStrategy"] = strategy(rng);
        if rng.chance(4) {
            spec["template"]["spec"]["nodeSelector"] = json!({"pool": "a"});
        }
        object
    },
    change: |rng, versions| {
        let changes = Changes {
            is_scaled: false,
            rolls_out: true,
            own: change,
        };
        changes.draw(rng, versions)
    },
    // What is replaced by hand would stay at a bad version for ever.
    finish: Some(|| {
        let rolling = json!({"maxSurge": 0, "maxUnavailable": 1});
        let all = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        good_version(json!({"updateStrategy": all}))
    }),
};

fn change(rng: &Rng, choice: usize) -> Option<(Value, String)> {
    (choice == 4).then(|| {
        let strategy = strategy(rng);
        let what = format!("sets the strategy to {strategy}");
        (json!({"spec": {"updateStrategy": strategy}}), what)
    })
}

fn strategy(rng: &Rng) -> Value {
    match rng.below(4) {
        0 => json!({"type": "OnDelete"}),
        1 => {
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
        }
        _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": amount(rng, 1)}}),
    }
}
