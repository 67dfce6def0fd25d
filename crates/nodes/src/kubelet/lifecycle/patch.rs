//! A pod status as the patch that writes it.

use std::fmt::Write as _;
use std::net::IpAddr;

use api::{Condition, Istr, Time, Uid, conditions};
use bytes::Bytes;
use serde::Serialize;

use crate::pod::{
    Container, ContainerState, ContainerStatus, Listed, Pod, PodStatus, Resources, Terminated,
};

/// A strategic merge patch for `pods/status`. It names the uid, so that it can never hit a namesake, and
/// only conditions that the kubelet owns, so that it never undoes what another controller wrote.
pub(crate) fn status_patch(pod: &Pod, status: &PodStatus, host_ip: &str) -> Bytes {
    let owned = |kind: &Istr| OWNED_CONDITIONS.contains(&kind.as_str());
    let said = status.conditions.iter();
    let is_gone = |held: &&Condition| {
        owned(&held.type_) && conditions::find(&status.conditions, &held.type_).is_none()
    };
    let removed = pod.status.conditions.iter().filter(is_gone);
    let removed = removed.map(|held| Removed {
        type_: &held.type_,
        patch: "delete",
    });
    let reason = status.reason.as_str();
    let patch = Patch {
        metadata: Target {
            uid: &pod.metadata.uid,
        },
        status: Status {
            phase: status.phase.as_str(),
            observed_generation: pod.metadata.generation,
            conditions: said
                .filter(|condition| owned(&condition.type_))
                .map(Said::of)
                .map(Written::Said)
                .chain(removed.map(Written::Removed))
                .collect(),
            start_time: status.start_time,
            container_statuses: statuses(pod, &pod.spec.containers, &status.containers),
            init_container_statuses: statuses(
                pod,
                &pod.spec.init_containers,
                &status.init_containers,
            ),
            ephemeral_container_statuses: statuses(
                pod,
                &pod.spec.ephemeral_containers,
                &status.ephemeral_containers,
            ),
            host_ip,
            host_ips: (!host_ip.is_empty()).then_some([Address { ip: host_ip }]),
            pod_ip: status.ips.iter().next(),
            pod_ips: status.ips.iter().map(|ip| Address { ip }).collect(),
            reason,
            message: &status.message,
        },
    };
    let text = serde_json::to_vec(&patch).expect("a status prints into memory");
    Bytes::from(text)
}

const OWNED_CONDITIONS: [&str; 8] = [
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
    "PodScheduled",
    super::restarts::CONDITION,
    super::resize::PENDING,
    super::resize::IN_PROGRESS,
];

#[derive(Serialize)]
struct Patch<'a> {
    metadata: Target<'a>,
    status: Status<'a>,
}

#[derive(Serialize)]
struct Target<'a> {
    uid: &'a Uid,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    phase: &'a str,
    observed_generation: i64,
    conditions: Vec<Written<'a>>,
    start_time: Option<Time>,
    container_statuses: Vec<One<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_container_statuses: Vec<One<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ephemeral_container_statuses: Vec<One<'a>>,
    #[serde(rename = "hostIP", skip_serializing_if = "str::is_empty")]
    host_ip: &'a str,
    #[serde(rename = "hostIPs", skip_serializing_if = "Option::is_none")]
    host_ips: Option<[Address<&'a str>; 1]>,
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pod_ip: Option<IpAddr>,
    #[serde(rename = "podIPs", skip_serializing_if = "Vec::is_empty")]
    pod_ips: Vec<Address<IpAddr>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

#[derive(Serialize)]
struct Address<T> {
    ip: T,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Said(Said<'a>),
    Removed(Removed<'a>),
}

/// A condition that is no more.
#[derive(Serialize)]
struct Removed<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(rename = "$patch")]
    patch: &'static str,
}

/// A condition is merged into the one of its type: what it no longer says has to be taken away, by a null.
#[derive(Serialize)]
struct Said<'a> {
    #[serde(flatten)]
    condition: &'a Condition,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<()>,
}

impl<'a> Said<'a> {
    fn of(condition: &'a Condition) -> Said<'a> {
        Said {
            condition,
            reason: condition.reason.is_empty().then_some(()),
            message: condition.message.is_empty().then_some(()),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct One<'a> {
    name: &'a str,
    image: &'a str,
    #[serde(rename = "imageID")]
    image_id: String,
    #[serde(rename = "containerID")]
    container_id: String,
    ready: bool,
    started: bool,
    restart_count: i32,
    state: State<'a>,
    last_state: LastState<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<&'a Resources>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_resources: Option<&'a Listed>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum State<'a> {
    Waiting {
        reason: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        message: &'a str,
    },
    Running {
        started_at: Time,
    },
    Terminated(End<'a>),
}

#[derive(Serialize)]
struct LastState<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    terminated: Option<End<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct End<'a> {
    exit_code: i32,
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    started_at: Option<Time>,
    finished_at: Option<Time>,
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    container_id: Option<String>,
}

fn statuses<'a>(
    pod: &'a Pod,
    containers: &'a [Container],
    statuses: &'a [ContainerStatus],
) -> Vec<One<'a>> {
    let pairs = containers.iter().zip(statuses);
    pairs
        .map(|(container, status)| one(pod, container, status))
        .collect()
}

fn one<'a>(pod: &'a Pod, container: &'a Container, status: &'a ContainerStatus) -> One<'a> {
    let id = |run: i32| container_id(&pod.metadata.uid, &container.name, run);
    let (state, started_once) = match &status.state {
        ContainerState::Waiting { reason, message } => {
            (State::Waiting { reason, message }, status.last.is_some())
        }
        ContainerState::Running { started_at } => (
            State::Running {
                started_at: *started_at,
            },
            true,
        ),
        ContainerState::Terminated(end) => (
            State::Terminated(ended(end, id(status.restart_count))),
            end.started_at.is_some() || status.last.is_some(),
        ),
    };
    let last_run = match &status.state {
        // A container that waits for its next run still counts the runs it has begun.
        ContainerState::Waiting { .. } => status.restart_count,
        _ => status.restart_count - 1,
    };
    let (image_id, container_id) = if started_once {
        (image_id(&container.image), id(status.restart_count))
    } else {
        Default::default()
    };
    One {
        name: &container.name,
        image: &container.image,
        image_id,
        container_id,
        ready: status.ready,
        started: status.started,
        restart_count: status.restart_count,
        state,
        last_state: LastState {
            terminated: status.last.as_ref().map(|end| ended(end, id(last_run))),
        },
        resources: status.resources.as_deref(),
        allocated_resources: status
            .allocated
            .as_deref()
            .map(|held| &held.requests)
            .filter(|requests| !requests.is_empty()),
    }
}

fn ended(end: &Terminated, container_id: String) -> End<'_> {
    End {
        exit_code: end.exit_code,
        reason: &end.reason,
        message: &end.message,
        started_at: end.started_at,
        finished_at: end.finished_at,
        // UPSTREAM: of a run that was lost sight of its id is not known either.
        container_id: end.started_at.map(|_| container_id),
    }
}

/// The id of the given run of a container: always the same for the same run, so it need not be remembered.
fn container_id(uid: &Uid, container: &str, run: i32) -> String {
    format!(
        "containerd://{}",
        hex_digest(&format!("{uid}/{container}/{run}"))
    )
}

fn image_id(image: &str) -> String {
    let repository = image.split('@').next().unwrap_or(image);
    let name = match repository.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => repository,
    };
    format!("{name}@sha256:{}", hex_digest(image))
}

/// 64 hexadecimal digits that look like a digest and depend on the text alone. Not a cryptographic hash:
/// nothing here is secret.
fn hex_digest(text: &str) -> String {
    let mut digest = String::with_capacity(64);
    for round in 0_u32..8 {
        let mut hash = api::hash::Fnv32a::new();
        hash.write(&round.to_le_bytes());
        hash.write(text.as_bytes());
        hash.write(&round.to_be_bytes());
        let _ = write!(digest, "{:08x}", hash.finish());
    }
    digest
}
