//! A Service: which pods it selects, who of them is left out and why, who publishes them, and what clients make of it.

mod members;
mod nearest;
mod slices;

use api::Resource;
use api::decision::{agree, counted, reasons};
use api::kinds::Service;
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{labels, list, selector_of, text};
use crate::kinds::{Kind, Need};
use crate::{Draft, Obstacle, State, help};
use members::{Member, Standing, members};

/// What is true of a Service, in one sentence.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub state: State,
    pub text: String,
}

/// What the controllers say of single pods; here it is said with the reason that the pods themselves show.
const SAID_BY_PODS: [&str; 7] = [
    reasons::SELECTS_NOTHING,
    reasons::NO_ADDRESS,
    reasons::FINISHED,
    reasons::OTHER_FAMILY,
    reasons::NOT_READY,
    reasons::TERMINATING,
    reasons::PORT_NOT_FOUND,
];

pub(crate) const KIND: Kind = Kind {
    resource: Service::TYPE,
    inputs: &[],
    needs: &[Need::BehindService],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let service = &facts.object;
    for line in wants(service) {
        draft.wants(line);
    }
    let slices = slices::of(facts, service);
    draft.see_decisions(|line| {
        let is_said_by_slices = !slices.is_empty() && line.reason == reasons::PUBLISHES;
        !SAID_BY_PODS.contains(&&*line.reason) && !is_said_by_slices
    });
    for line in slices::publishers(service, &slices) {
        draft.sees(line);
    }
    for line in slices::routing(service, &slices) {
        draft.sees(line);
    }
    note_members(facts, draft);
    note_address(facts, draft);
    let verdict = verdict(facts, service);
    if verdict.state == State::Stuck && members(facts, service).is_empty() {
        note_nothing_selected(facts, draft);
    }
    let is_waiting = awaits_address(service) && verdict.state == State::Settled;
    match is_waiting {
        true => draft.conclude(
            State::Progressing,
            format!("{}; has no external address yet", verdict.text),
        ),
        false => draft.conclude(verdict.state, verdict.text),
    }
}

/// Whether a Service has somebody to send traffic to, and if not, why.
pub(crate) fn verdict(facts: &Facts, service: &Value) -> Verdict {
    let of = |state, text: String| Verdict { state, text };
    if text(service, "/spec/type") == "ExternalName" {
        let name = text(service, "/spec/externalName");
        let text = format!("is an alias of {name}: it selects no pods and has no endpoints");
        return of(State::Settled, text);
    }
    let published = slices::ready(&slices::of(facts, service));
    let Some(selector) = selector_of(service) else {
        return match published {
            0 => of(
                State::Stuck,
                "has no selector, and no endpoints were written for it".to_owned(),
            ),
            count => of(
                State::Settled,
                format!(
                    "has no selector; {} {} written for it",
                    counted(count, "ready endpoint"),
                    agree(count, "was", "were")
                ),
            ),
        };
    };
    if facts.unread.contains("Pod") {
        let text = format!("selects pods with {selector}, which could not be read");
        return of(State::Unknown, text);
    }
    let members = members(facts, service);
    let ready = members
        .iter()
        .filter(|member| member.standing == Standing::Ready)
        .count();
    match members.len() {
        0 => of(
            State::Stuck,
            format!("selects no pods: none has {selector}"),
        ),
        _ if facts.unread.contains("EndpointSlice") => by_members(facts, &members, ready),
        _ if ready > published => of(
            State::Progressing,
            format!(
                "{} ready, and {published} published: the endpointslice-controller has not done it yet",
                pods_are(ready)
            ),
        ),
        _ => by_members(facts, &members, ready),
    }
}

fn pods_are(count: usize) -> String {
    format!("{} {}", counted(count, "pod"), agree(count, "is", "are"))
}

/// What is said when those that are ready are published.
fn by_members(facts: &Facts, members: &[Member<'_>], ready: usize) -> Verdict {
    let all = members.len();
    let lacking: Vec<&Member<'_>> = members
        .iter()
        .filter(|member| member.standing != Standing::Ready)
        .collect();
    // What does not pass by itself comes first: it is what somebody has to do.
    let first = lacking.iter().find(|member| !member.is_passing());
    let first = first.or(lacking.first());
    let state = match first {
        None => State::Settled,
        Some(member) if member.is_passing() => State::Progressing,
        Some(_) => State::Stuck,
    };
    let count = match (ready, all) {
        (0, 1) => "the only pod that it selects takes no traffic".to_owned(),
        (0, all) => format!("none of the {all} pods that it selects takes traffic"),
        (1, 1) => "publishes the one pod that it selects".to_owned(),
        (ready, all) if ready == all => format!("publishes all {all} pods that it selects"),
        (ready, all) => format!("publishes {ready} of the {all} pods that it selects"),
    };
    let text = match first {
        None => count,
        Some(member) => format!(
            "{count}; {} {}",
            facts.name_of(member.pod),
            member.why().headline()
        ),
    };
    Verdict { state, text }
}

/// `the pods with app=web`, and where each port leads.
fn wants(service: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    match (selector_of(service), text(service, "/spec/type")) {
        (_, "ExternalName") => lines.push(format!(
            "its name to be an alias of {}",
            text(service, "/spec/externalName")
        )),
        (Some(selector), _) => lines.push(format!("to send traffic to the pods with {selector}")),
        (None, _) => {
            lines.push("to send traffic to endpoints that another controller writes".to_owned())
        }
    }
    let whose = match selector_of(service) {
        // Clients connect to whatever has the other name, at any port.
        _ if text(service, "/spec/type") == "ExternalName" => return lines,
        Some(_) => "pods",
        None => "endpoints",
    };
    let ports = list(service, "/spec/ports").iter().take(PORTS_MAX);
    lines.extend(ports.map(|port| format!("{} of the {whose}", port_leads(port))));
    lines
}

/// More ports than this say nothing new.
const PORTS_MAX: usize = 8;

/// `port 80 (http, TCP) to port web`
fn port_leads(port: &Value) -> String {
    let protocol = members::protocol(port);
    let name = match text(port, "/name") {
        "" => protocol.to_owned(),
        name => format!("{name}, {protocol}"),
    };
    let number = crate::json::number(port, "/port");
    let target = match port.pointer("/targetPort") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Number(target)) => target.to_string(),
        _ => number.to_string(),
    };
    format!("port {number} ({name}) to port {target}")
}

fn note_members(facts: &Facts, draft: &mut Draft<'_>) {
    let members = members(facts, &facts.object);
    for member in members
        .iter()
        .filter(|member| member.standing != Standing::Ready)
    {
        draft.in_the_way(
            Obstacle::of(member.pod, member.why().clone())
                .since(member.since)
                .passing(member.is_passing()),
        );
        if !member.is_passing() {
            draft.offer(member.help(facts));
        }
    }
}

fn awaits_address(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer"
        && list(service, "/status/loadBalancer/ingress").is_empty()
}

/// A load balancer that has not been made.
fn note_address(facts: &Facts, draft: &mut Draft<'_>) {
    let service = &facts.object;
    if text(service, "/spec/type") != "LoadBalancer" {
        return;
    }
    let given: Vec<&str> = list(service, "/status/loadBalancer/ingress")
        .iter()
        .map(|point| match text(point, "/ip") {
            "" => text(point, "/hostname"),
            address => address,
        })
        .collect();
    if !given.is_empty() {
        return draft.sees(format!("external address {}", given.join(", ")));
    }
    let whose = match text(service, "/spec/loadBalancerClass") {
        "" => "the cluster's load balancer".to_owned(),
        class => {
            draft.offer(help::hint(format!(
                "install what serves {class}, or create the service without spec.loadBalancerClass"
            )));
            format!("the controller of load balancer class {class}")
        }
    };
    let failures = facts.messages(service, "SyncLoadBalancerFailed");
    let why = match failures.first() {
        Some(message) => format!("has no external address: {message}"),
        None => format!("has no external address: {whose} has given none yet"),
    };
    draft.in_the_way(
        Obstacle::of(&facts.object, why)
            .since(crate::json::time(service, "/metadata/creationTimestamp"))
            .passing(failures.is_empty()),
    );
}

/// Nobody is selected: whose labels come nearest, and what to write where there is no selector at all.
fn note_nothing_selected(facts: &Facts, draft: &mut Draft<'_>) {
    let service = &facts.object;
    let wanted = labels(service, "/spec/selector");
    if wanted.is_empty() {
        let name = text(service, "/metadata/name");
        let why = format!(
            "set spec.selector, or create an EndpointSlice with the label kubernetes.io/service-name={name}"
        );
        return draft.offer(help::hint(why));
    }
    for line in nearest::lines(facts, &wanted) {
        draft.sees(line);
    }
    draft.offer(help::on(
        facts,
        "get pods --show-labels",
        "shows what the pods are labelled; spec.selector must match all of its labels",
    ));
}
