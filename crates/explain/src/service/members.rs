//! The pods that a Service selects, and what keeps each from traffic.

use api::Time;
use serde_json::Value;

use crate::facts::Facts;
use crate::help::{self, Help};
use crate::json::{condition, list, selector_of, text, truth};
use crate::pod::{Cause, problem};
use crate::words::Reason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Ready,
    /// Published, and not for new connections.
    Unready,
    /// Not published at all, or not with all ports.
    LeftOut,
}

pub(super) struct Member<'a> {
    pub pod: &'a Value,
    pub standing: Standing,
    pub since: Option<Time>,
    why: Reason,
    passing: bool,
    cause: Option<Cause>,
    /// It has no port of the name that the Service sends to.
    lacks_port: bool,
}

impl Member<'_> {
    pub(super) fn why(&self) -> &Reason {
        &self.why
    }

    pub(super) fn is_passing(&self) -> bool {
        self.passing
    }

    pub(super) fn help(&self, facts: &Facts) -> Option<Help> {
        match &self.cause {
            Some(cause) => help::for_pod(facts, self.pod, cause),
            None if self.lacks_port => help::hint(
                "compare spec.ports[].targetPort with the names and protocols of the pods' ports"
                    .to_owned(),
            ),
            None => None,
        }
    }
}

/// The pods that a Service selects, by name.
pub(super) fn members<'a>(facts: &'a Facts, service: &Value) -> Vec<Member<'a>> {
    let Some(selector) = selector_of(service) else {
        return Vec::new();
    };
    let namespace = text(service, "/metadata/namespace");
    let mut found: Vec<Member<'a>> = facts
        .of_kind("Pod")
        .filter(|pod| text(pod, "/metadata/namespace") == namespace)
        .filter(|pod| selector.matches(&crate::json::labels(pod, "/metadata/labels")))
        // A finished pod is history: it does not count as selected.
        .filter(|pod| !matches!(text(pod, "/status/phase"), "Failed" | "Succeeded"))
        .map(|pod| member(facts, service, pod))
        .collect();
    found.sort_by_key(|member| text(member.pod, "/metadata/name"));
    found
}

fn member<'a>(facts: &Facts, service: &Value, pod: &'a Value) -> Member<'a> {
    let of = |standing, why: Reason, passing| Member {
        pod,
        standing,
        since: None,
        why,
        passing,
        cause: None,
        lacks_port: false,
    };
    let addresses = addresses(pod);
    let problem = problem(facts, pod, 0);
    if addresses.is_empty() {
        let problem =
            problem.map(|problem| (problem.why, problem.since, problem.passing, problem.cause));
        let (why, since, passing, cause) = match problem {
            Some((why, since, passing, cause)) => (
                why.after("has no IP address: "),
                since,
                passing,
                Some(cause),
            ),
            None => (Reason::from("has no IP address yet"), None, true, None),
        };
        return Member {
            since,
            cause,
            ..of(Standing::LeftOut, why, passing)
        };
    }
    if let Some(families) = missing_family(service, &addresses) {
        let why = format!("is left out: it has no {families} address");
        return of(Standing::LeftOut, why.into(), false);
    }
    let publishes_all = truth(service, "/spec/publishNotReadyAddresses");
    let is_ready = condition(pod, "Ready").is_some_and(|held| text(held, "/status") == "True");
    let is_terminating = !text(pod, "/metadata/deletionTimestamp").is_empty();
    if let Some(problem) = problem.filter(|_| !publishes_all && (!is_ready || is_terminating)) {
        return Member {
            since: problem.since,
            cause: Some(problem.cause),
            ..of(Standing::Unready, problem.why, problem.passing)
        };
    }
    match missing_port(service, pod) {
        Some(why) => Member {
            lacks_port: true,
            ..of(Standing::LeftOut, why.into(), false)
        },
        None => of(Standing::Ready, Reason::from(""), true),
    }
}

fn addresses(pod: &Value) -> Vec<&str> {
    let all = list(pod, "/status/podIPs")
        .iter()
        .map(|held| text(held, "/ip"));
    let all: Vec<&str> = all.filter(|address| !address.is_empty()).collect();
    match (all.is_empty(), text(pod, "/status/podIP")) {
        (true, "") => Vec::new(),
        (true, one) => vec![one],
        (false, _) => all,
    }
}

/// The families of the Service, if the pod has an address of none of them.
fn missing_family(service: &Value, addresses: &[&str]) -> Option<String> {
    let families: Vec<&str> = list(service, "/spec/ipFamilies")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_of = |address: &str, family: &str| match family {
        "IPv6" => address.contains(':'),
        _ => !address.contains(':'),
    };
    let has_one = addresses
        .iter()
        .any(|address| families.iter().any(|family| is_of(address, family)));
    (!families.is_empty() && !has_one).then(|| families.join(" or "))
}

/// `TCP`, which is meant where nothing is said.
pub(super) fn protocol(port: &Value) -> &str {
    match text(port, "/protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

/// `has no TCP port named web: it has metrics (TCP)`
fn missing_port(service: &Value, pod: &Value) -> Option<String> {
    let init = list(pod, "/spec/initContainers").iter();
    let sidecars = init.filter(|container| text(container, "/restartPolicy") == "Always");
    let held: Vec<&Value> = list(pod, "/spec/containers")
        .iter()
        .chain(sidecars)
        .flat_map(|container| list(container, "/ports"))
        .collect();
    let mut ports = list(service, "/spec/ports").iter();
    let lacking = ports.find(|port| {
        let name = text(port, "/targetPort");
        let is_it = |held: &&Value| text(held, "/name") == name && protocol(held) == protocol(port);
        !name.is_empty() && !held.iter().any(is_it)
    })?;
    let (name, protocol) = (text(lacking, "/targetPort"), protocol(lacking));
    let named: Vec<String> = held
        .iter()
        .filter(|port| !text(port, "/name").is_empty())
        .map(|port| format!("{} ({})", text(port, "/name"), self::protocol(port)))
        .collect();
    let named = match named.is_empty() {
        true => "none of its ports has a name".to_owned(),
        false => format!("it has {}", named.join(", ")),
    };
    Some(format!("has no {protocol} port named {name}: {named}"))
}
