//! What the containers of a pod are up to.

use api::Time;
use api::decision::counted;
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{list, number, text, time, truth};
use crate::pod::{Cause, Problem};
use crate::words::Reason;

/// The first container that is in problem: init containers first, as they run first.
pub(crate) fn container_problem(facts: &Facts, pod: &Value) -> Option<Problem> {
    let init = list(pod, "/status/initContainerStatuses");
    let main = list(pod, "/status/containerStatuses");
    let found = init
        .iter()
        .map(|status| (status, true))
        .chain(main.iter().map(|status| (status, false)));
    let mut problems = found.filter_map(|(status, init)| of_container(facts, pod, status, init));
    problems.next()
}

fn of_container(facts: &Facts, pod: &Value, status: &Value, init: bool) -> Option<Problem> {
    let name = text(status, "/name");
    let called = match init {
        true => format!("init container {name}"),
        false => format!("container {name}"),
    };
    let reason = text(status, "/state/waiting/reason");
    let message = text(status, "/state/waiting/message");
    let since = time(pod, "/status/startTime");
    let of = |cause, why, since, passing| {
        Some(Problem {
            cause,
            why,
            since,
            passing,
        })
    };
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
            let image = text(status, "/image");
            let container = name.to_owned();
            let why = Reason::from(format!("{called} cannot pull image {image:?}: {reason}"));
            let why = why.with_detail(&pull_error(facts, pod, message));
            of(Cause::Image { container }, why, since, false)
        }
        "CrashLoopBackOff" => crash(status, &called, name, since),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            let why = Reason::quoting(&format!("{called} cannot be started: "), message);
            of(Cause::Configuration, why, since, false)
        }
        _ if !text(status, "/state/terminated/reason").is_empty() && !init => {
            let code = number(status, "/state/terminated/exitCode");
            let why = format!(
                "{called} has ended with exit code {code}{}",
                ended(status, "state")
            );
            let container = name.to_owned();
            of(Cause::Crash { container }, why.into(), since, false)
        }
        _ if init && number(status, "/state/terminated/exitCode") != 0 => {
            crash(status, &called, name, since)
        }
        _ if !init && status.pointer("/state/running").is_some() && !truth(status, "/ready") => {
            probe(facts, pod, status, &called, name)
        }
        _ => None,
    }
}

/// The container that made a pod fail, and what became of it.
pub(crate) fn exited(pod: &Value) -> Option<(String, String)> {
    let init = list(pod, "/status/initContainerStatuses").iter();
    let mut statuses = init.chain(list(pod, "/status/containerStatuses"));
    let failed = statuses.find(|status| number(status, "/state/terminated/exitCode") != 0)?;
    let (name, code) = (
        text(failed, "/name"),
        number(failed, "/state/terminated/exitCode"),
    );
    let why = ended(failed, "state");
    let said = format!("container {name} has ended with exit code {code}{why}");
    Some((name.to_owned(), said))
}

/// The kubelet's own words. It says the same several times: the longest has the registry's answer, the message of a
/// back-off no more than that there is one.
fn pull_error(facts: &Facts, pod: &Value, message: &str) -> String {
    let events = facts.messages(pod, "Failed");
    let event = events.into_iter().max_by_key(|text| text.len());
    match event.or(Some(message)).filter(|text| !text.is_empty()) {
        Some(text) => format!(" ({text})"),
        None => String::new(),
    }
}

fn crash(status: &Value, called: &str, name: &str, since: Option<Time>) -> Option<Problem> {
    let from = match status.pointer("/lastState/terminated") {
        Some(_) => "lastState",
        None => "state",
    };
    let code = number(status, &format!("/{from}/terminated/exitCode"));
    let restarts = number(status, "/restartCount");
    Some(Problem {
        cause: Cause::Crash {
            container: name.to_owned(),
        },
        why: format!(
            "{called} keeps crashing: exit code {code}{}, started {}",
            ended(status, from),
            counted(restarts + 1, "time")
        )
        .into(),
        since,
        passing: false,
    })
}

/// `, OOMKilled`: why it ended, where that says more than the exit code.
fn ended(status: &Value, from: &str) -> String {
    match text(status, &format!("/{from}/terminated/reason")) {
        "" | "Error" | "Completed" => String::new(),
        reason => format!(", {reason}"),
    }
}

fn probe(facts: &Facts, pod: &Value, status: &Value, called: &str, name: &str) -> Option<Problem> {
    let spec = list(pod, "/spec/containers")
        .iter()
        .find(|container| text(container, "/name") == name)?;
    let started = status.pointer("/started").and_then(Value::as_bool) != Some(false);
    let kind = match (spec.get("startupProbe"), spec.get("readinessProbe")) {
        (Some(_), _) if !started => "Startup",
        (_, Some(_)) => "Readiness",
        _ => return None,
    };
    let failures = facts.messages(pod, "Unhealthy");
    let passing = failures.is_empty();
    let kind = kind.to_lowercase();
    let why = match failures.first() {
        // Events do not say which probe they are of, but in words.
        Some(message) if spec.get("livenessProbe").is_some() => {
            Reason::quoting(&format!("{called} runs, but a probe fails: "), message)
        }
        Some(message) => {
            let fails = format!("{called} runs, but its {kind} probe fails: ");
            Reason::quoting(&fails, message)
        }
        None => format!("{called} runs, and its {kind} probe has not succeeded yet").into(),
    };
    Some(Problem {
        cause: Cause::Probe {
            container: name.to_owned(),
        },
        why,
        since: time(status, "/state/running/startedAt"),
        passing,
    })
}
