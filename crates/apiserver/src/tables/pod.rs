//! A pod in one line: the reason that matters most out of phase, conditions and containers.

use serde_json::Value;

use super::age;
use crate::fields::{at, by_name, flag, integer, list, text};

pub(super) fn named(name: &str) -> Option<fn(&Value, i64) -> Value> {
    Some(match name {
        "pod_ready" => |pod, _| {
            let summary = summarize(pod);
            format!("{}/{}", summary.ready, summary.total).into()
        },
        "pod_status" => |pod, _| summarize(pod).reason.into(),
        "pod_restarts" => |pod, now| summarize(pod).restarts(now).into(),
        "pod_ip" => |pod, _| {
            let address = list(pod, "status.podIPs")
                .first()
                .map(|item| text(item, "ip"))
                .unwrap_or_default();
            if address.is_empty() {
                "<none>".into()
            } else {
                address.into()
            }
        },
        "pod_readiness_gates" => |pod, _| readiness_gates(pod).into(),
        _ => return None,
    })
}

#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: i64,
}

impl Summary {
    fn restarts(&self, now: i64) -> String {
        match (self.restarts, self.last_restart) {
            (0, _) | (_, 0) => self.restarts.to_string(),
            (restarts, last) => format!("{restarts} ({} ago)", age::human(now - last)),
        }
    }

    fn count_restarts(&mut self, container: &Value) {
        self.restarts += integer(container, "restartCount").unwrap_or_default();
        let finished =
            age::seconds(text(container, "lastState.terminated.finishedAt")).unwrap_or_default();
        self.last_restart = self.last_restart.max(finished);
    }
}

fn summarize(pod: &Value) -> Summary {
    let phase = text(pod, "status.phase");
    let mut summary = Summary {
        reason: phase.to_owned(),
        ..Summary::default()
    };
    if !text(pod, "status.reason").is_empty() {
        summary.reason = text(pod, "status.reason").to_owned();
    }
    let conditions = list(pod, "status.conditions");
    if conditions
        .iter()
        .any(|one| text(one, "type") == "PodScheduled" && text(one, "reason") == "SchedulingGated")
    {
        summary.reason = "SchedulingGated".to_owned();
    }
    let sidecars = list(pod, "spec.initContainers")
        .iter()
        .filter(|container| is_sidecar(container))
        .count();
    summary.total = list(pod, "spec.containers").len() + sidecars;
    let mut of_sidecars = Summary::default();
    let initializing = summarize_init_containers(pod, &mut summary, &mut of_sidecars);
    if !initializing || has_condition(pod, "Initialized") {
        (summary.restarts, summary.last_restart) = (of_sidecars.restarts, of_sidecars.last_restart);
        summarize_containers(pod, &mut summary);
    }
    if at(pod, "metadata.deletionTimestamp").is_string() {
        if text(pod, "status.reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// Whether an init container is still in the way.
fn summarize_init_containers(
    pod: &Value,
    summary: &mut Summary,
    of_sidecars: &mut Summary,
) -> bool {
    let specs = by_name(list(pod, "spec.initContainers"));
    for (index, container) in list(pod, "status.initContainerStatuses").iter().enumerate() {
        summary.count_restarts(container);
        let spec = specs.get(text(container, "name"));
        let sidecar = spec.is_some_and(|spec| is_sidecar(spec));
        if sidecar {
            of_sidecars.count_restarts(container);
        }
        let terminated = at(container, "state.terminated");
        let waiting = text(container, "state.waiting.reason");
        if terminated.is_object() && integer(terminated, "exitCode").unwrap_or_default() == 0 {
            continue;
        }
        if sidecar && flag(container, "started") {
            summary.ready += usize::from(flag(container, "ready"));
            continue;
        }
        summary.reason = if terminated.is_object() {
            format!("Init:{}", why_terminated(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", specs.len())
        };
        return true;
    }
    false
}

fn summarize_containers(pod: &Value, summary: &mut Summary) {
    let (mut running, mut error) = (false, String::new());
    for container in list(pod, "status.containerStatuses").iter().rev() {
        summary.count_restarts(container);
        let (waiting, terminated) = (
            text(container, "state.waiting.reason"),
            at(container, "state.terminated"),
        );
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if terminated.is_object() {
            summary.reason = why_terminated(terminated);
            if integer(terminated, "exitCode").unwrap_or_default() != 0 {
                error.clone_from(&summary.reason);
            }
        } else if flag(container, "ready") && at(container, "state.running").is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    // Some containers may be done while others run.
    if summary.reason == "Completed" {
        if running && has_condition(pod, "Ready") {
            summary.reason = "Running".to_owned();
        } else if !error.is_empty() {
            summary.reason = error;
        } else if running {
            summary.reason = "NotReady".to_owned();
        }
    }
}

fn why_terminated(terminated: &Value) -> String {
    match (
        text(terminated, "reason"),
        integer(terminated, "signal").unwrap_or_default(),
    ) {
        ("", 0) => format!(
            "ExitCode:{}",
            integer(terminated, "exitCode").unwrap_or_default()
        ),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn has_condition(pod: &Value, ty: &str) -> bool {
    list(pod, "status.conditions")
        .iter()
        .any(|one| text(one, "type") == ty && text(one, "status") == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates
        .iter()
        .filter(|gate| has_condition(pod, text(gate, "conditionType")))
        .count();
    format!("{met}/{}", gates.len())
}
