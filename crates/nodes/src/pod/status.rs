//! What the kubelet has written about a pod: the only memory of a simulated kubelet.

use std::sync::Arc;

use api::kinds::{PodIps, WireClaimStatus};
use api::meta::or_default;
use api::{Condition, Istr, Time};
use serde::Deserialize;

use super::resources::{Listed, Resources};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: Phase,
    pub reason: Istr,
    pub message: Istr,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    pub start_time: Option<Time>,
    #[serde(rename = "podIPs", deserialize_with = "addresses")]
    pub ips: PodIps,
    pub nominated_node_name: Istr,
    #[serde(rename = "initContainerStatuses", deserialize_with = "or_default")]
    pub init_containers: Vec<ContainerStatus>,
    #[serde(rename = "containerStatuses", deserialize_with = "or_default")]
    pub containers: Vec<ContainerStatus>,
    #[serde(rename = "ephemeralContainerStatuses", deserialize_with = "or_default")]
    pub ephemeral_containers: Vec<ContainerStatus>,
    /// Moved into the pod's claims when it is read.
    #[serde(rename = "resourceClaimStatuses", deserialize_with = "or_default")]
    pub(super) resource_claims: Vec<WireClaimStatus>,
}

impl PodStatus {
    /// Of containers of whatever kind.
    pub fn all_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        let init = self.init_containers.iter();
        init.chain(&self.containers)
            .chain(&self.ephemeral_containers)
    }
}

fn addresses<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PodIps, D::Error> {
    let listed: Vec<WireIp> = or_default(deserializer)?;
    let parsed = listed.iter().filter_map(|one| api::ip::parse(&one.ip));
    Ok(parsed.collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireIp {
    ip: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
            Phase::Unknown => "Unknown",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireStatus")]
pub struct ContainerStatus {
    pub name: Istr,
    pub ready: bool,
    pub started: bool,
    pub restart_count: i32,
    pub state: ContainerState,
    /// How the run before this one ended.
    pub last: Option<Terminated>,
    /// What it has; none where it asks for nothing.
    pub resources: Option<Arc<Resources>>,
    /// What it is given: its requests alone are written.
    pub allocated: Option<Arc<Resources>>,
}

impl ContainerStatus {
    /// Its run is over.
    pub fn end(&mut self, started_at: Time, finished_at: Time, exit_code: i32) {
        self.state = ContainerState::Terminated(Terminated {
            exit_code,
            reason: Istr::from(if exit_code == 0 { "Completed" } else { "Error" }),
            started_at: Some(started_at),
            finished_at: Some(finished_at),
            ..Terminated::default()
        });
        self.ready = false;
        self.started = false;
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum ContainerState {
    Waiting { reason: Istr, message: Istr },
    Running { started_at: Time },
    Terminated(Terminated),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: Istr,
    pub message: Istr,
    /// None of a run that its kubelet has lost sight of.
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
}

impl Default for ContainerState {
    fn default() -> ContainerState {
        ContainerState::Waiting {
            reason: Istr::default(),
            message: Istr::default(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    name: Istr,
    ready: bool,
    started: Option<bool>,
    restart_count: i32,
    #[serde(deserialize_with = "or_default")]
    state: WireState,
    #[serde(deserialize_with = "or_default")]
    last_state: WireState,
    resources: Option<Resources>,
    #[serde(deserialize_with = "or_default")]
    allocated_resources: Listed,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireState {
    waiting: Option<WireWaiting>,
    running: Option<WireRunning>,
    terminated: Option<Terminated>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireWaiting {
    reason: Istr,
    message: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireRunning {
    #[serde(deserialize_with = "or_default")]
    started_at: Time,
}

impl From<WireStatus> for ContainerStatus {
    fn from(wire: WireStatus) -> ContainerStatus {
        let state = match (wire.state.terminated, wire.state.running) {
            (Some(terminated), _) => ContainerState::Terminated(terminated),
            (None, Some(running)) => ContainerState::Running {
                started_at: running.started_at,
            },
            (None, None) => {
                let waiting = wire.state.waiting.unwrap_or_default();
                ContainerState::Waiting {
                    reason: waiting.reason,
                    message: waiting.message,
                }
            }
        };
        ContainerStatus {
            name: wire.name,
            ready: wire.ready,
            started: wire.started.unwrap_or(false),
            restart_count: wire.restart_count,
            state,
            last: wire.last_state.terminated,
            resources: wire
                .resources
                .filter(|held| !held.is_empty())
                .map(Resources::shared),
            allocated: Some(wire.allocated_resources)
                .filter(|requests| !requests.is_empty())
                .map(|requests| {
                    Resources {
                        requests,
                        ..Resources::default()
                    }
                    .shared()
                }),
        }
    }
}
