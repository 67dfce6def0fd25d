//! A pod status as the patch that writes it.

use api::{Istr, Uid};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::pod::{Container, ContainerState, ContainerStatus, Pod, PodStatus, Terminated};

/// A strategic merge patch for `pods/status`. It names the uid, so that it can never hit a namesake, and
/// only conditions that the kubelet owns, so that it never undoes what another controller wrote.
pub(crate) fn status_patch(pod: &Pod, status: &PodStatus, host_ip: &str) -> Bytes {
    let owned = |kind: &Istr| OWNED_CONDITIONS.contains(&kind.as_str());
    let conditions: Vec<Value> = status
        .conditions
        .iter()
        .filter(|condition| owned(&condition.type_))
        .map(|condition| {
            // A condition is merged into the one of its type: what it no longer says has to be taken away.
            let mut value = json!({"reason": null, "message": null});
            if let (Value::Object(all), Value::Object(said)) = (&mut value, json!(condition)) {
                all.extend(said);
            }
            value
        })
        .collect();
    let mut patch = json!({
        "phase": status.phase.as_str(),
        "observedGeneration": pod.metadata.generation,
        "conditions": conditions,
        "startTime": status.start_time,
        "containerStatuses": statuses(pod, &pod.spec.containers, &status.containers),
    });
    if !status.init_containers.is_empty() {
        patch["initContainerStatuses"] =
            statuses(pod, &pod.spec.init_containers, &status.init_containers);
    }
    if !host_ip.is_empty() {
        patch["hostIP"] = json!(host_ip);
        patch["hostIPs"] = json!([{"ip": host_ip}]);
    }
    if !status.pod_ip.is_empty() {
        patch["podIP"] = json!(status.pod_ip);
        patch["podIPs"] = json!([{"ip": status.pod_ip}]);
    }
    if !status.reason.is_empty() {
        patch["reason"] = json!(status.reason);
    }
    if status.reason == "DeadlineExceeded" {
        patch["message"] = json!("Pod was active on the node longer than the specified deadline");
    }
    let body = json!({"metadata": {"uid": pod.metadata.uid}, "status": patch});
    Bytes::from(body.to_string())
}

const OWNED_CONDITIONS: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
    "PodScheduled",
];

fn statuses(pod: &Pod, containers: &[Container], statuses: &[ContainerStatus]) -> Value {
    let pairs = containers.iter().zip(statuses);
    pairs
        .map(|(container, status)| one(pod, container, status))
        .collect()
}

fn one(pod: &Pod, container: &Container, status: &ContainerStatus) -> Value {
    let id = |run: i32| container_id(&pod.metadata.uid, &container.name, run);
    let (state, started_once) = match &status.state {
        ContainerState::Waiting { reason, message } => {
            let mut waiting = json!({"reason": reason});
            if !message.is_empty() {
                waiting["message"] = json!(message);
            }
            (json!({"waiting": waiting}), status.last.is_some())
        }
        ContainerState::Running { started_at } => {
            (json!({"running": {"startedAt": started_at}}), true)
        }
        ContainerState::Terminated(end) => (terminated(end, id(status.restart_count)), true),
    };
    let last_run = match &status.state {
        // A container that waits for its next run still counts the runs it has begun.
        ContainerState::Waiting { .. } => status.restart_count,
        _ => status.restart_count - 1,
    };
    let last = status
        .last
        .as_ref()
        .map(|end| terminated(end, id(last_run)));
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": if started_once { image_id(&container.image) } else { String::new() },
        "containerID": if started_once { id(status.restart_count) } else { String::new() },
        "ready": status.ready,
        "started": status.started,
        "restartCount": status.restart_count,
        "state": state,
        "lastState": last.unwrap_or_else(|| json!({})),
    })
}

fn terminated(end: &Terminated, container_id: String) -> Value {
    json!({"terminated": {
        "exitCode": end.exit_code,
        "reason": end.reason,
        "startedAt": end.started_at,
        "finishedAt": end.finished_at,
        "containerID": container_id,
    }})
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
        digest.push_str(&format!("{:08x}", hash.finish()));
    }
    digest
}
