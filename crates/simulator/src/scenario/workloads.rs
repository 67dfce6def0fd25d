//! Random legal workloads, and random legal changes to them.

use api::kinds::{DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet};
use api::{Resource, ResourceType, Rng};
use serde_json::{Value, json};

use super::Target;
use super::jobs::{draw_job, draw_job_change};

/// The version that everything is brought to in the end: its pods behave.
pub(crate) const GOOD_VERSION: usize = 9;

/// A workload as the generator remembers it.
pub(super) struct Workload {
    pub(super) target: Target,
    /// What it selects by.
    pub(super) app: String,
    pub(super) versions: Vec<usize>,
}

/// Deployments and what they rest on come most often: most users' lives depend on them.
const KINDS: [ResourceType; 10] = [
    Deployment::TYPE,
    Deployment::TYPE,
    Deployment::TYPE,
    ReplicaSet::TYPE,
    StatefulSet::TYPE,
    StatefulSet::TYPE,
    DaemonSet::TYPE,
    ReplicationController::TYPE,
    Job::TYPE,
    Job::TYPE,
];

/// Small numbers find the same bugs sooner.
const REPLICAS_MAX: usize = 6;

pub(super) fn draw_kind(rng: &Rng) -> ResourceType {
    KINDS[rng.below(KINDS.len())].clone()
}

/// A new workload. `app` is the label that it selects by: two workloads of one label overlap.
pub(super) fn draw(rng: &Rng, target: &Target, app: &str) -> Value {
    let kind = &*target.resource.kind;
    if kind == "Job" {
        return draw_job(rng, target, app);
    }
    let mut template = template(rng, app);
    set_version(&mut template, 0, false);
    template["spec"]["containers"][0]["ports"] = named_ports(&target.name);
    if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
        // A patch takes away by naming; a new object just leaves it out.
        annotations.retain(|_, value| !value.is_null());
    }
    let mut spec = json!({"template": template});
    spec["selector"] = match kind {
        "ReplicationController" => json!({"app": app}),
        _ => json!({"matchLabels": {"app": app}}),
    };
    if kind != "DaemonSet" {
        spec["replicas"] = json!(rng.below(REPLICAS_MAX + 1));
    }
    if rng.chance(3) {
        spec["minReadySeconds"] = json!(rng.below(15));
    }
    match kind {
        "Deployment" => {
            spec["strategy"] = deployment_strategy(rng);
            spec["revisionHistoryLimit"] = json!(rng.below(4));
            if rng.chance(4) {
                spec["progressDeadlineSeconds"] = json!(20 + rng.below(60));
            }
        }
        "StatefulSet" => stateful(rng, &mut spec),
        "DaemonSet" => {
            spec["updateStrategy"] = daemon_strategy(rng);
            if rng.chance(4) {
                spec["template"]["spec"]["nodeSelector"] = json!({"pool": "a"});
            }
        }
        _ => {}
    }
    json!({
        "apiVersion": target.resource.api_version(), "kind": kind,
        "metadata": {"name": target.name, "namespace": target.namespace}, "spec": spec,
    })
}

fn template(rng: &Rng, app: &str) -> Value {
    let mut annotations = json!({});
    if rng.chance(3) {
        annotations["steersman.dev/ready-delay"] = json!(format!("{}s", rng.below(12)));
    }
    if rng.chance(6) {
        annotations["steersman.dev/stop-delay"] = json!(format!("{}s", rng.below(20)));
    }
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 5 + rng.below(26),
            "containers": [{"name": "c", "image": "app:0"}],
        },
    })
}

/// Services find ports by name: workloads have the same name for different ports, or have none.
fn named_ports(workload: &str) -> Value {
    let web = |port: u16| json!({"name": "web", "containerPort": port});
    match workload {
        "w0" => json!([web(8080)]),
        "w1" => json!([web(8081), {"name": "metrics", "containerPort": 9090}]),
        _ => json!([]),
    }
}

/// Image and label change together, so that a pod's label tells what it runs. A bad version never gets
/// ready, or crashes, or cannot be pulled.
fn set_version(template: &mut Value, version: usize, bad: bool) {
    template["metadata"]["labels"]["version"] = json!(version.to_string());
    template["spec"]["containers"] = json!([{"name": "c", "image": format!("app:{version}")}]);
    let behaviours = ["never-ready", "crash-after", "image-pull-failure"];
    for (number, name) in behaviours.iter().enumerate() {
        let key = format!("steersman.dev/{name}");
        let value = match bad && version % behaviours.len() == number {
            true if *name == "crash-after" => json!("15s"),
            true => json!("true"),
            false => Value::Null,
        };
        template["metadata"]["annotations"][key] = value;
    }
}

/// The patch that brings a workload to a version.
pub(crate) fn version_patch(version: usize, bad: bool) -> Value {
    let mut template = json!({"metadata": {"labels": {}, "annotations": {}}, "spec": {}});
    set_version(&mut template, version, bad);
    json!({"spec": {"template": template}})
}

fn amount(rng: &Rng, least: usize) -> Value {
    match rng.below(3) {
        0 => json!(least + rng.below(3)),
        // Percentages that do not divide evenly: rounding must show.
        1 => json!(format!("{}%", [10, 25, 30, 50][rng.below(4)])),
        _ => json!(least.max(1)),
    }
}

pub(super) fn deployment_strategy(rng: &Rng) -> Value {
    if rng.chance(4) {
        return json!({"type": "Recreate", "rollingUpdate": null});
    }
    // One of the two must not be zero.
    let (surge, unavailable) = match rng.chance(2) {
        true => (amount(rng, 1), amount(rng, 0)),
        false => (amount(rng, 0), amount(rng, 1)),
    };
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn daemon_strategy(rng: &Rng) -> Value {
    match rng.below(4) {
        0 => json!({"type": "OnDelete"}),
        1 => {
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
        }
        _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": amount(rng, 1)}}),
    }
}

fn stateful(rng: &Rng, spec: &mut Value) {
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

/// A change that is legal for the workload's kind: the patch, and what it is in words.
pub(super) fn draw_change(rng: &Rng, workload: &mut Workload) -> (Value, String) {
    let kind = &*workload.target.resource.kind;
    if kind == "Job" {
        return draw_job_change(rng);
    }
    let scalable = kind != "DaemonSet";
    match rng.below(10) {
        0..=2 if scalable => {
            let replicas = rng.below(REPLICAS_MAX + 2);
            (
                json!({"spec": {"replicas": replicas}}),
                format!("scales to {replicas}"),
            )
        }
        3 if kind == "Deployment" => {
            let paused = rng.chance(2);
            let what = if paused { "pauses" } else { "resumes" };
            (json!({"spec": {"paused": paused}}), what.to_owned())
        }
        4 if kind == "Deployment" => {
            let strategy = deployment_strategy(rng);
            let what = format!("sets the strategy to {strategy}");
            (json!({"spec": {"strategy": strategy}}), what)
        }
        4 if kind == "StatefulSet" => {
            let partition = rng.below(4);
            let strategy =
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
            (
                json!({"spec": {"updateStrategy": strategy}}),
                format!("sets the partition to {partition}"),
            )
        }
        4 if kind == "DaemonSet" => {
            let strategy = daemon_strategy(rng);
            let what = format!("sets the strategy to {strategy}");
            (json!({"spec": {"updateStrategy": strategy}}), what)
        }
        5 if workload.versions.len() > 1 => {
            workload.versions.pop();
            let version = workload.versions.last().copied().unwrap_or(0);
            (
                version_patch(version, false),
                format!("undoes to version {version}"),
            )
        }
        6 if matches!(kind, "Deployment" | "DaemonSet" | "StatefulSet") => {
            let version = 1 + rng.below(GOOD_VERSION - 1);
            (
                version_patch(version, true),
                format!("sets version {version}, which is bad"),
            )
        }
        _ => {
            let version = rng.below(GOOD_VERSION);
            workload.versions.push(version);
            (
                version_patch(version, false),
                format!("sets version {version}"),
            )
        }
    }
}
