//! Flow control and API services: objects that limit and route nothing here, which tools list and upstream's
//! conformance looks for.

use serde_json::{Value, json};

/// (group, version, priority of the group, priority of the version), as upstream registers its own.
const SERVICES: [(&str, &str, u32, u32); 21] = [
    ("", "v1", 18_000, 1),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("autoscaling", "v2", 17_500, 30),
];

pub(super) fn objects(now: &str) -> Vec<Value> {
    let services = SERVICES.iter().map(|(group, version, priority, of_version)| {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {
                "name": format!("{version}.{group}"),
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": {"group": group, "version": version, "groupPriorityMinimum": priority, "versionPriority": of_version},
        })
    });
    let lines = include_str!("flow.txt").lines();
    let flows = lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|line| flow(&line, now));
    flows.chain(services).collect()
}

fn flow(line: &Value, now: &str) -> Value {
    let mut object = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": line["kind"],
        "metadata": {"name": line["name"], "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": line["spec"],
    });
    if line["kind"] == "FlowSchema" {
        let level = line["spec"]["priorityLevelConfiguration"]["name"]
            .as_str()
            .unwrap_or_default();
        let message = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it exists"
        );
        object["status"] = json!({"conditions": [{"type": "Dangling", "status": "False", "reason": "Found",
            "message": message, "lastTransitionTime": now}]});
    }
    object
}
