//! What simulated containers can be asked for: what they printed, what they use, and to run one
//! of the few commands that they know.
//!
//! Nothing is kept. What a container printed follows from its command, its status and the time, so a log needs no memory
//! and is the same after a restart.

mod downward;
mod environment;
mod log;
mod playback;
mod service_links;
pub(crate) mod sub_paths;
pub(crate) mod termination;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::usage::{Declared, External};
use api::{Clock, MicroTime, Resource, Time};
use bytes::Bytes;
use client::Client;
use futures_util::stream::{self, BoxStream, StreamExt};
use runtime::Error;
use serde_json::Value;

use crate::behaviour::Behaviour;
use crate::config::Config;
use crate::pod::Pod;
use crate::script::{Printed, Script};
use crate::stages::Stages;
use crate::usage::NodeUsage;
use log::Run;
use playback::Playback;

/// Speaks for the containers of all simulated nodes.
#[derive(Clone)]
pub struct Containers {
    client: Client,
    clock: Clock,
    files: Arc<Files>,
    /// When they were put to work: what begins then.
    started_at: Time,
}

/// What files say of pods.
struct Files {
    stages: Stages,
    /// On whatever node.
    usage: Vec<NodeUsage>,
    /// By the name of the node, where it has any.
    of_nodes: BTreeMap<String, Arc<[NodeUsage]>>,
    declare_usage: bool,
}

impl Files {
    fn of(config: &Config) -> Files {
        let declaring = config.nodes.iter().filter(|node| !node.usage.is_empty());
        Files {
            stages: config.stages.clone(),
            usage: config.usage.clone(),
            of_nodes: declaring
                .map(|node| (node.name.clone(), node.usage.clone()))
                .collect(),
            declare_usage: config.declares_usage(),
        }
    }
}

/// Which part of which log is asked for.
#[derive(Clone, Debug, Default)]
pub struct LogRequest {
    pub pod: Value,
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub since: Option<MicroTime>,
    pub tail_lines: Option<usize>,
    pub limit_bytes: Option<usize>,
    /// Only what went to this one.
    pub stream: Option<Stream>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// A command to run in a container.
#[derive(Clone, Debug, Default)]
pub struct ExecRequest {
    pub pod: Value,
    pub container: String,
    pub command: Vec<String>,
}

/// What comes of a command, in this order; the exit code is the last.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    Exit(i32),
}

/// What a command exits with that is not there.
const NOT_FOUND: i32 = 127;

impl Containers {
    pub fn new(client: Client, clock: Clock, config: &Config) -> Containers {
        Containers {
            started_at: clock.now().time(),
            client,
            clock,
            files: Arc::new(Files::of(config)),
        }
    }

    /// What files say that a pod uses: of all nodes, of its node, and by stages, in this order; the last word counts.
    pub fn usage(&self, pod: &Value) -> Vec<Declared> {
        let files = &self.files;
        if !files.declare_usage {
            return Vec::new();
        }
        // What cannot be read was never taken by the server that asks.
        let Ok(pod) = decode(pod) else {
            return Vec::new();
        };
        let of_node = files.of_nodes.get(pod.node_name.as_str());
        let of_node = of_node.into_iter().flat_map(|usage| usage.iter());
        let mut said = Vec::new();
        for declared in files.usage.iter().chain(of_node) {
            declared.declare(&pod, &mut said);
        }
        said.extend(Behaviour::of(&pod, &files.stages).0.usage);
        said
    }

    /// Metrics from outside the cluster that files declare.
    pub fn external_metrics(&self) -> Vec<External> {
        self.files.stages.external_metrics(self.started_at)
    }

    /// The log of a container, or why there is none, in the kubelet's words.
    pub async fn log(&self, request: LogRequest) -> Result<BoxStream<'static, Bytes>, String> {
        let pod = decode(&request.pod)?;
        let run = Run::find(&pod, &request.container, request.previous)?;
        let spec = container_of(&request.pod, &request.container);
        let around = environment::surroundings(&self.client, &request.pod, &spec).await;
        let (behaviour, _) = Behaviour::of(&pod, &self.files.stages);
        let source = log::Source::new(&spec, around, &behaviour, run);
        Ok(log::stream(
            self.client.clone(),
            self.clock.clone(),
            source,
            request,
        ))
    }

    /// Runs a command as far as there is anything to run.
    pub async fn exec(&self, request: ExecRequest) -> Result<BoxStream<'static, Output>, String> {
        let pod = decode(&request.pod)?;
        let (name, container) = (&pod.metadata.name, &request.container);
        if !log::is_running(&pod, container) {
            return Err(format!(
                "container not found (\"{container}\") in pod {name:?}"
            ));
        }
        let script = match Script::parse(&request.command) {
            Ok(script) if script.writes_files() => {
                return Ok(refusal("what a command writes to a file would not be kept"));
            }
            Ok(script) => script,
            Err(error) => return Ok(refusal(&error.to_string())),
        };
        let spec = container_of(&request.pod, container);
        let mut around = environment::surroundings(&self.client, &request.pod, &spec).await;
        if let Ok(run) = Run::find(&pod, container, false) {
            let (behaviour, _) = Behaviour::of(&pod, &self.files.stages);
            let source = log::Source::new(&spec, around.clone(), &behaviour, run);
            around.files = source.files(self.clock.now());
        }
        Ok(Playback::new(script, around, self.clock.clone()).outputs())
    }
}

/// Why a command is not run.
fn refusal(why: &str) -> BoxStream<'static, Output> {
    let text = format!("{why}; no process runs here. It knows {KNOWN}.\n");
    let outputs = [Output::Stderr(Bytes::from(text)), Output::Exit(NOT_FOUND)];
    stream::iter(outputs).boxed()
}

const KNOWN: &str = "echo, env, printenv, hostname, cat and ls of mounted ConfigMaps and Secrets, date, pwd, whoami, sleep, true, false, and sh -c of these";

impl From<Printed> for Output {
    fn from(printed: Printed) -> Output {
        let text = Bytes::from(printed.text);
        match printed.to_stderr {
            true => Output::Stderr(text),
            false => Output::Stdout(text),
        }
    }
}

fn decode(pod: &Value) -> Result<Pod, String> {
    Pod::decode(pod.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// The pod as it is; null where it has gone.
async fn read(client: &Client, pod: &Pod) -> Result<Value, Error> {
    let meta = &pod.metadata;
    match client.get(&Pod::TYPE, &meta.namespace, &meta.name).await {
        Ok(object) => Ok(serde_json::from_slice(&object).unwrap_or_default()),
        Err(error) if error.is_not_found() => Ok(Value::Null),
        Err(error) => Err(error.into()),
    }
}

/// The container of this name, of whatever kind.
fn container_of(pod: &Value, name: &str) -> Value {
    ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .filter_map(|list| pod["spec"][list].as_array())
        .flatten()
        .find(|container| container["name"] == name)
        .cloned()
        .unwrap_or_default()
}
