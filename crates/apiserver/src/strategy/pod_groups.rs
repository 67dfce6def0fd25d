//! Fields of pod groups and workloads whose gates are off by default.

use serde_json::Value;

use crate::fields::{list_mut, object_mut};

/// `TopologyAwareWorkloadScheduling` and `WorkloadAwarePreemption`: nobody here would do what they say.
const DISABLED: [&str; 4] = [
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
];

/// Drops them, where the object did not have them before.
pub(super) fn drop_disabled(new: &mut Value, old: Option<&Value>) {
    let had = old.unwrap_or(&Value::Null);
    if new["spec"].is_object() {
        drop_from(&mut new["spec"], &had["spec"]);
    }
    let templates = list_mut(new, "spec.podGroupTemplates");
    for (at, template) in templates.into_iter().flatten().enumerate() {
        drop_from(template, &had["spec"]["podGroupTemplates"][at]);
    }
}

fn drop_from(spec: &mut Value, had: &Value) {
    object_mut(spec, "").retain(|name, _| !DISABLED.contains(&&**name) || !had[name].is_null());
}
