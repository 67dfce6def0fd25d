//! Random legal workloads, and random legal changes to them: what those of all kinds have in common. What is a kind's own is in
//! the folder of its controller.

use api::{ResourceType, Rng};
use serde_json::{Value, json};

use super::Target;

/// How users run things by objects of one kind.
pub struct Workloads {
    pub resource: ResourceType,
    /// A new object. The label is what it selects by: two of one label overlap.
    pub draw: fn(&Rng, &Target, &str) -> Value,
    /// A change that is legal for the kind, of an object that has had these versions: the patch, and what it is in words.
    pub change: fn(&Rng, &mut Vec<usize>) -> (Value, String),
    /// The patch after which an object can come to rest, whatever was changed about it; none where that cannot be kept from it.
    pub finish: Option<fn() -> Value>,
}

/// The version that everything is brought to in the end: its pods behave.
const GOOD_VERSION: usize = 9;

/// Small numbers find the same bugs sooner.
const REPLICAS_MAX: usize = 6;

/// An object whose pods run until a user deletes them.
pub(crate) fn draw_object(rng: &Rng, target: &Target, app: &str, is_scaled: bool) -> Value {
    let mut template = template(rng, app);
    set_version(&mut template, 0, false);
    template["spec"]["containers"][0]["ports"] = named_ports(&target.name);
    if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
        // A patch takes away by naming; a new object just leaves it out.
        annotations.retain(|_, value| !value.is_null());
    }
    let selector = json!({"matchLabels": {"app": app}});
    let mut spec = json!({"template": template, "selector": selector});
    if is_scaled {
        spec["replicas"] = json!(rng.below(REPLICAS_MAX + 1));
    }
    if rng.chance(3) {
        spec["minReadySeconds"] = json!(rng.below(15));
    }
    target.object(json!({"spec": spec}))
}

/// What users change about a kind.
pub(crate) struct Changes {
    pub is_scaled: bool,
    /// A version that never gets ready is replaced by the next one, and so may be set.
    pub rolls_out: bool,
    /// The kind's own, for some of the numbers below ten.
    pub own: fn(&Rng, usize) -> Option<(Value, String)>,
}

impl Changes {
    pub fn draw(&self, rng: &Rng, versions: &mut Vec<usize>) -> (Value, String) {
        let choice = rng.below(10);
        if let Some(change) = (self.own)(rng, choice) {
            return change;
        }
        match choice {
            0..=2 if self.is_scaled => {
                let replicas = rng.below(REPLICAS_MAX + 2);
                (
                    json!({"spec": {"replicas": replicas}}),
                    format!("scales to {replicas}"),
                )
            }
            5 if versions.len() > 1 => {
                versions.pop();
                let version = versions.last().copied().unwrap_or(0);
                (
                    version_patch(version, false),
                    format!("undoes to version {version}"),
                )
            }
            6 if self.rolls_out => {
                let version = 1 + rng.below(GOOD_VERSION - 1);
                (
                    version_patch(version, true),
                    format!("sets version {version}, which is bad"),
                )
            }
            _ => {
                let version = rng.below(GOOD_VERSION);
                versions.push(version);
                (
                    version_patch(version, false),
                    format!("sets version {version}"),
                )
            }
        }
    }
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
pub fn version_patch(version: usize, bad: bool) -> Value {
    let mut template = json!({"metadata": {"labels": {}, "annotations": {}}, "spec": {}});
    set_version(&mut template, version, bad);
    json!({"spec": {"template": template}})
}

/// The patch that brings a workload to a version that works, with these fields of its spec.
pub(crate) fn good_version(spec: Value) -> Value {
    let mut patch = version_patch(GOOD_VERSION, false);
    if let (Some(held), Value::Object(spec)) = (patch["spec"].as_object_mut(), spec) {
        held.extend(spec);
    }
    patch
}

/// How many may be missing, or too many, during a rollout.
pub(crate) fn amount(rng: &Rng, least: usize) -> Value {
    match rng.below(3) {
        0 => json!(least + rng.below(3)),
        // Percentages that do not divide evenly: rounding must show.
        1 => json!(format!("{}%", [10, 25, 30, 50][rng.below(4)])),
        _ => json!(least.max(1)),
    }
}
