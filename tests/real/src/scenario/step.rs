//! The steps of a scenario and how each is taken.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Part, expand, resources};
use crate::http::Api;
use crate::kubelet::{self, Ending, Kubelet};
use crate::wait::{self, Seen};

/// How long a state that a scenario waits for may take: a loaded machine is slow, not wrong.
/// The slowest of them is a pod on a node that is gone: up to 80 seconds.
const WAIT_DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Creates an object, or several.
    Create(Value),
    Patch(Patch),
    Scale {
        target: String,
        replicas: u32,
    },
    Delete(Delete),
    /// What a kubelet does to pods.
    Pods(Pods),
    /// Makes unready pods ready, one after the other, until there is none: a whole rollout.
    ReadyOneByOne(String),
    /// Waits until the fields of an object (by JSON pointer) have these values; null means absent.
    Wait {
        target: String,
        fields: BTreeMap<String, Value>,
    },
    /// Waits until this many pods match.
    WaitPods {
        selector: String,
        count: usize,
    },
    /// Creates nodes, named `<namespace>-<name>` and labelled for this scenario.
    Nodes(Vec<Node>),
    /// Lets time pass, for deadlines in seconds.
    Pause {
        seconds: u64,
    },
    /// Ends the manager and starts another, in scenarios that have it for themselves.
    RestartManager {},
    /// Takes steps one right after the other: what a manager does meanwhile is not waited for.
    AtOnce(Vec<Step>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    target: String,
    /// A merge patch; arrays are replaced.
    merge: Option<Value>,
    /// A JSON patch.
    json: Option<Value>,
    #[serde(default)]
    subresource: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    target: String,
    propagation: Option<String>,
    grace: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pods {
    selector: String,
    /// How many of them, oldest first; all if absent.
    count: Option<usize>,
    /// Only pods that are ready, or unready.
    only: Option<Readiness>,
    set: PodState,
    /// The node for `bound`.
    node: Option<String>,
    #[serde(default)]
    reason: String,
    /// How the container ended, for `failed` and `succeeded`.
    exit_code: Option<i32>,
    /// A condition that is true from then on.
    condition: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Readiness {
    Ready,
    Unready,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PodState {
    Ready,
    Unready,
    Failed,
    Succeeded,
    Bound,
    /// Bound to the node that its affinity names, as the scheduler does with a DaemonSet's pods.
    Scheduled,
    Deleted,
    /// Asks for their eviction, which a budget may refuse.
    Evicted,
    /// Ends pods that are being deleted, as their kubelet would.
    Finished,
}

impl Pods {
    fn ending<'a>(&'a self, at: &'a str) -> Ending<'a> {
        Ending {
            at,
            reason: &self.reason,
            exit_code: self.exit_code,
            condition: self.condition.as_deref(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Value,
    #[serde(default)]
    unschedulable: bool,
}

/// Takes steps in one namespace.
pub(crate) struct Player<'a> {
    api: &'a Api,
    namespace: &'a str,
    /// Waits until the manager has nothing more to write here, given when it was last asked for something.
    wait_until_idle: &'a dyn Fn(Instant) -> Result<()>,
    restart_manager: &'a dyn Fn() -> Result<()>,
    /// Whether the manager's controllers of nodes run.
    nodes_are_looked_after: bool,
    /// The end of the last step that changed something.
    acted: Cell<Instant>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(
        api: &'a Api,
        namespace: &'a str,
        part: Part,
        wait_until_idle: &'a dyn Fn(Instant) -> Result<()>,
        restart_manager: &'a dyn Fn() -> Result<()>,
    ) -> Player<'a> {
        Player {
            api,
            namespace,
            wait_until_idle,
            restart_manager,
            nodes_are_looked_after: part == Part::Nodes,
            acted: Cell::new(Instant::now()),
        }
    }

    /// Takes a step, and waits until the manager has nothing more to write.
    pub(crate) fn take(&self, step: &Step) -> Result<()> {
        let what_is_awaited_was_there = self.act(step)?;
        if !what_is_awaited_was_there {
            self.acted.set(Instant::now());
        }
        (self.wait_until_idle)(self.acted.get())
    }

    /// Whether the step waited for something that was there at the first look, and so took no time.
    fn act(&self, step: &Step) -> Result<bool> {
        match step {
            Step::Wait { target, fields } => return self.wait(target, fields),
            Step::WaitPods { selector, count } => return self.wait_pods(selector, *count),
            step => self.change(step)?,
        }
        Ok(false)
    }

    fn change(&self, step: &Step) -> Result<()> {
        match step {
            Step::Create(Value::Array(objects)) => {
                objects.iter().try_for_each(|object| self.create(object))
            }
            Step::Create(object) => self.create(object),
            Step::Patch(patch) => self.patch(patch),
            Step::Scale { target, replicas } => {
                let path = format!("{}/scale", self.path(target)?);
                self.api
                    .merge_patch(&path, &json!({"spec": {"replicas": replicas}}))
                    .map(drop)
            }
            Step::Delete(delete) => self.delete(delete),
            Step::Pods(pods) => self.change_pods(pods),
            Step::ReadyOneByOne(selector) => self.ready_one_by_one(selector),
            Step::Wait { .. } | Step::WaitPods { .. } => Ok(()),
            Step::Nodes(nodes) => nodes.iter().try_for_each(|node| self.create_node(node)),
            Step::Pause { seconds } => {
                std::thread::sleep(Duration::from_secs(*seconds));
                Ok(())
            }
            Step::RestartManager {} => (self.restart_manager)(),
            Step::AtOnce(steps) => steps.iter().try_for_each(|step| self.act(step).map(drop)),
        }
    }

    /// The path of a target: `kind/name`, or `kind?label=value` for the only object with that label, or
    /// `volumeattachment@node` for the only attachment to a node, whose name is a hash.
    fn path(&self, target: &str) -> Result<String> {
        if let Some((kind, node)) = target.split_once('@') {
            return self.attachment_path(kind, node);
        }
        let Some((kind, selector)) = target.split_once('?') else {
            return resources::object(target, self.namespace);
        };
        let collection = resources::collection(kind, self.namespace)?;
        let found = self.api.list(&format!(
            "{collection}?labelSelector={}",
            selector.replace('=', "%3D")
        ))?;
        match found.as_slice() {
            [object] => Ok(format!(
                "{collection}/{}",
                object["metadata"]["name"].as_str().unwrap_or("")
            )),
            _ => bail!("{} objects are {target}, not one", found.len()),
        }
    }

    /// Of an attachment that is not there yet, or no longer, the path is one where nothing is.
    fn attachment_path(&self, kind: &str, node: &str) -> Result<String> {
        let collection = resources::collection(kind, self.namespace)?;
        let node = format!("{}-{node}", self.namespace);
        let all = self.api.list(&collection)?;
        let found = all
            .iter()
            .find(|one| one["spec"]["nodeName"] == node.as_str());
        let name = found.and_then(|one| one["metadata"]["name"].as_str());
        Ok(format!("{collection}/{}", name.unwrap_or("none")))
    }

    fn create(&self, object: &Value) -> Result<()> {
        let object = self.with_uids(expand::expand(object, self.namespace))?;
        let kind = object["kind"].as_str().context("an object needs a kind")?;
        // An object may name one of the scenario's own other namespaces.
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or(self.namespace);
        self.api
            .create(&resources::collection(kind, namespace)?, &object)
            .map(drop)
    }

    /// Puts the uid of a target in the place of `$UID kind/name`.
    fn with_uids(&self, value: Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix("$UID ") {
                None => Value::String(text),
                Some(target) => {
                    let found = self.api.find(&self.path(target)?)?;
                    let found = found.with_context(|| format!("there is no {target}"))?;
                    found["metadata"]["uid"].clone()
                }
            },
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.with_uids(item));
                Value::Array(items.collect::<Result<_>>()?)
            }
            Value::Object(fields) => {
                let fields = fields.into_iter();
                let fields = fields.map(|(key, value)| Ok((key, self.with_uids(value)?)));
                Value::Object(fields.collect::<Result<_>>()?)
            }
            other => other,
        })
    }

    fn patch(&self, patch: &Patch) -> Result<()> {
        let mut path = self.path(&patch.target)?;
        if !patch.subresource.is_empty() {
            path = format!("{path}/{}", patch.subresource);
        }
        match (&patch.merge, &patch.json) {
            (Some(merge), None) => self
                .api
                .merge_patch(
                    &path,
                    &self.with_uids(expand::expand(merge, self.namespace))?,
                )
                .map(drop),
            (None, Some(operations)) => self
                .api
                .call("PATCH", &path, "application/json-patch+json", operations)
                .map(drop),
            _ => bail!("a patch is either `merge` or `json`"),
        }
    }

    fn delete(&self, delete: &Delete) -> Result<()> {
        let mut options = json!({});
        if let Some(propagation) = &delete.propagation {
            options["propagationPolicy"] = json!(propagation);
        }
        if let Some(grace) = delete.grace {
            options["gracePeriodSeconds"] = json!(grace);
        }
        self.api.delete(&self.path(&delete.target)?, &options)
    }

    fn change_pods(&self, change: &Pods) -> Result<()> {
        let kubelet = Kubelet::new(self.api, self.namespace);
        let mut pods = kubelet.pods(&change.selector)?;
        let terminating = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        let finishing = matches!(change.set, PodState::Finished);
        pods.retain(|pod| terminating(pod) == finishing && has_readiness(pod, change.only));
        let count = change.count.unwrap_or(pods.len());
        if pods.len() < count || count == 0 {
            bail!(
                "{} pods match {:?}, but the step is about {count}",
                pods.len(),
                change.selector
            );
        }
        for pod in &pods[..count] {
            let name = pod["metadata"]["name"]
                .as_str()
                .context("a pod has a name")?;
            let since = pod["metadata"]["creationTimestamp"].as_str().unwrap_or("");
            match change.set {
                PodState::Ready => kubelet.set_ready(name, true, since)?,
                PodState::Unready => kubelet.set_ready(name, false, since)?,
                PodState::Failed => kubelet.set_phase(name, "Failed", &change.ending(since))?,
                PodState::Succeeded => {
                    kubelet.set_phase(name, "Succeeded", &change.ending(since))?
                }
                PodState::Deleted => self.api.delete(
                    &resources::object(&format!("pod/{name}"), self.namespace)?,
                    &json!({}),
                )?,
                PodState::Evicted => kubelet.evict(name)?,
                PodState::Finished => kubelet.finish(name)?,
                PodState::Scheduled => {
                    let node = kubelet::target_node(pod);
                    kubelet.bind(name, node.context("the pod's affinity names no node")?)?;
                }
                PodState::Bound => {
                    let node = change.node.as_ref().context("`set: bound` needs a node")?;
                    kubelet.bind(name, &format!("{}-{node}", self.namespace))?;
                }
            }
        }
        Ok(())
    }

    fn ready_one_by_one(&self, selector: &str) -> Result<()> {
        /// No scenario has a rollout of more pods; without a bound a flapping manager never ends.
        const STEPS_AT_MOST: usize = 100;
        let kubelet = Kubelet::new(self.api, self.namespace);
        for _ in 0..STEPS_AT_MOST {
            kubelet.finish_terminating()?;
            let pods = kubelet.pods(selector)?;
            let unready = |pod: &&Value| {
                has_readiness(pod, Some(Readiness::Unready))
                    && matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Running"))
            };
            let Some(pod) = pods.iter().find(unready) else {
                return Ok(());
            };
            let name = pod["metadata"]["name"]
                .as_str()
                .context("a pod has a name")?;
            kubelet.set_ready(
                name,
                true,
                pod["metadata"]["creationTimestamp"].as_str().unwrap_or(""),
            )?;
            (self.wait_until_idle)(Instant::now())?;
        }
        bail!("after {STEPS_AT_MOST} pods became ready there are still unready ones")
    }

    fn wait(&self, target: &str, fields: &BTreeMap<String, Value>) -> Result<bool> {
        let path = self.path(target)?;
        at_once(target, || {
            let object = self.api.find(&path)?.unwrap_or(Value::Null);
            let differs = fields.iter().find_map(|(pointer, expected)| {
                let actual = object.pointer(pointer).unwrap_or(&Value::Null);
                let expected = &expand::substitute(expected, self.namespace);
                (actual != expected).then(|| format!("{pointer} is {actual}, not {expected}"))
            });
            Ok(differs.map_or(Seen::Ready(()), Seen::NotYet))
        })
    }

    fn wait_pods(&self, selector: &str, count: usize) -> Result<bool> {
        let kubelet = Kubelet::new(self.api, self.namespace);
        at_once(&format!("{count} pods {selector}"), || {
            let found = kubelet.pods(selector)?.len();
            Ok(if found == count {
                Seen::Ready(())
            } else {
                Seen::NotYet(format!("{found} pods"))
            })
        })
    }

    fn create_node(&self, node: &Node) -> Result<()> {
        let name = format!("{}-{}", self.namespace, node.name);
        let mut labels = node.labels.clone();
        for value in labels.values_mut() {
            *value = value.replace("$NS", self.namespace);
        }
        labels.insert("scenario".to_owned(), self.namespace.to_owned());
        labels.insert("kubernetes.io/hostname".to_owned(), name.clone());
        let mut spec = json!({"unschedulable": node.unschedulable});
        if !node.taints.is_null() {
            spec["taints"] = node.taints.clone();
        }
        let status = json!({
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        });
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status,
        });
        let path = format!("/api/v1/nodes/{name}");
        self.api.create("/api/v1/nodes", &object)?;
        // Admission taints every new node as not ready. Who takes that away from one that is ready is a controller
        // of nodes; where it runs, two would race.
        if self.nodes_are_looked_after {
            return wait::until("a new node's taint to go", WAIT_DEADLINE, || {
                let taints = self.api.get(&path)?["spec"]["taints"].take();
                let tainted = taints.to_string().contains("node.kubernetes.io/not-ready");
                Ok(if tainted {
                    Seen::NotYet(taints.to_string())
                } else {
                    Seen::Ready(())
                })
            });
        }
        if node.taints.is_null() {
            let untainted = json!({"spec": {"taints": null}});
            self.api.merge_patch(&path, &untainted)?;
        }
        Ok(())
    }
}

/// Waits, and says whether what was waited for was there at the first look.
fn at_once(what: &str, mut look: impl FnMut() -> Result<Seen<()>>) -> Result<bool> {
    let mut looks = 0;
    wait::until(what, WAIT_DEADLINE, || {
        looks += 1;
        look()
    })?;
    Ok(looks == 1)
}

fn has_readiness(pod: &Value, wanted: Option<Readiness>) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    wanted.is_none_or(|wanted| (wanted == Readiness::Ready) == ready)
}
