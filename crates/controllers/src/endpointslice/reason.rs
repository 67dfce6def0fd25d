//! A plan in words: what is published, who is left out, and what is written.

use std::collections::BTreeMap;

use api::decision::{Line, reasons};
use api::kinds::{AddressType, Pod, Service};

use super::desired::{endpoint_ports, is_without_node};
use super::families::family_of;
use super::plan::{FamilyPlan, Plan};
use super::snapshot::{Closeness, Snapshot};
use crate::service_endpoints::{counted, has_endpoint, listed};

/// Something to say about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Remark {
    NoAddress,
    Finished,
    NoNode,
    NoAddressOfFamily,
    NotReady,
    Terminating,
    NoPort,
}

pub fn explain(snapshot: &Snapshot, plan: &Plan<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    for family in &plan.families {
        lines.push(published(family, plan.families.len() > 1));
        lines.extend(written(family));
    }
    if !plan.other_families.is_empty() {
        let count = counted(plan.other_families.len(), "slice");
        let line = Line::acts("DeletesOtherFamilies", format!("deletes {count}"));
        lines.push(line.because("the service has no addresses of that family any more"));
    }
    if snapshot.pods.is_empty() {
        let what = format!("selects no pods with {}", snapshot.service.spec.selector);
        let line = Line::states(reasons::SELECTS_NOTHING, what);
        lines.push(line.hint(
            "compare spec.selector with the labels of the pods: kubectl get pods --show-labels",
        ));
    }
    lines.extend(remarks(snapshot));
    lines.extend(hints(plan));
    lines
}

/// `publishes 3 ready endpoints in 1 slice`
fn published(plan: &FamilyPlan<'_>, is_one_of_several: bool) -> Line {
    let (ready, all) = (plan.ready(), plan.desired.endpoints.len());
    let family = match is_one_of_several {
        true => format!(" of {}", plan.family.as_str()),
        false => String::new(),
    };
    let mut what = format!("publishes {}{family}", counted(ready, "ready endpoint"));
    if all > ready {
        what.push_str(&format!(", and {} not ready", all - ready));
    }
    what.push_str(&format!(" in {}", counted(plan.slices(), "slice")));
    Line::states(reasons::PUBLISHES, what)
}

fn written(plan: &FamilyPlan<'_>) -> Option<Line> {
    if plan.is_nothing() {
        return None;
    }
    let parts = [
        ("creates", plan.create.len()),
        ("updates", plan.update.len()),
        ("deletes", plan.delete.len()),
    ];
    let parts = parts.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(verb, count)| format!("{verb} {}", counted(*count, "slice")))
        .collect();
    let why = match (plan.added, plan.removed) {
        (0, 0) if plan.desired.endpoints.is_empty() && !plan.create.is_empty() => {
            String::from("it has no endpoints, and an empty slice says so")
        }
        (0, 0) => String::from("endpoints, labels or hints have changed"),
        (added, 0) => format!("{} new", counted(added, "endpoint")),
        (0, removed) => format!("{} gone", counted(removed, "endpoint")),
        (added, removed) => format!("{} new, {removed} gone", counted(added, "endpoint")),
    };
    Some(Line::acts("WritesSlices", parts.join(", ")).because(why))
}

fn remarks(snapshot: &Snapshot) -> Vec<Line> {
    let mut by_remark: BTreeMap<Remark, Vec<&str>> = BTreeMap::new();
    for pod in &snapshot.pods {
        if let Some(remark) = remark(snapshot, pod) {
            by_remark
                .entry(remark)
                .or_default()
                .push(&pod.metadata.name);
        }
    }
    by_remark
        .into_iter()
        .map(|(remark, pods)| remark.line(&listed(pods.into_iter()), &snapshot.service))
        .collect()
}

fn remark(snapshot: &Snapshot, pod: &Pod) -> Option<Remark> {
    let service = &snapshot.service;
    let publishes_all = service.spec.publish_not_ready_addresses;
    if pod.is_finished() {
        return Some(Remark::Finished);
    }
    if !has_endpoint(pod) {
        return Some(Remark::NoAddress);
    }
    if is_without_node(snapshot, pod) {
        return Some(Remark::NoNode);
    }
    let families = super::families::families(service);
    if !pod
        .status
        .ips
        .iter()
        .any(|address| families.contains(&family_of(address)))
    {
        return Some(Remark::NoAddressOfFamily);
    }
    if pod.metadata.is_terminating() && !publishes_all {
        return Some(Remark::Terminating);
    }
    if !pod.is_ready() && !publishes_all {
        return Some(Remark::NotReady);
    }
    let is_named = |port: &api::kinds::ServicePort| port.target_port.as_text().is_some();
    let has_names = service.spec.ports.iter().any(is_named);
    let lacks = has_names && endpoint_ports(service, pod).len() < service.spec.ports.len();
    lacks.then_some(Remark::NoPort)
}

impl Remark {
    fn line(self, pods: &str, service: &Service) -> Line {
        let out = |reason, why: &'static str| {
            Line::states(reason, format!("leaves out {pods}")).because(why)
        };
        let unready = |reason, why: &'static str| {
            Line::states(reason, format!("publishes {pods} as not ready")).because(why)
        };
        match self {
            Remark::NoAddress => out(reasons::NO_ADDRESS, "no IP yet"),
            Remark::Finished => out(reasons::FINISHED, "finished"),
            Remark::NoNode => out("NodeNotFound", "there is no such node as theirs"),
            Remark::NoAddressOfFamily => {
                let families = super::families::families(service);
                let families: Vec<&str> = families.into_iter().map(AddressType::as_str).collect();
                let why = format!("no usable {} address", families.join(" or "));
                Line::states(reasons::OTHER_FAMILY, format!("leaves out {pods}")).because(why)
            }
            Remark::NotReady => unready(reasons::NOT_READY, "the Ready condition is not True")
                .hint("kubectl describe pod: readiness probes and conditions"),
            Remark::Terminating => unready(reasons::TERMINATING, "terminating"),
            Remark::NoPort => {
                let what = format!("publishes {pods} without some ports");
                let why = "no container has a port with the name and protocol of targetPort";
                Line::states(reasons::PORT_NOT_FOUND, what)
                    .because(why)
                    .hint("compare spec.ports[].targetPort with the names of containerPorts")
            }
        }
    }
}

fn hints(plan: &Plan<'_>) -> Vec<Line> {
    let endpoints = || {
        plan.families
            .iter()
            .flat_map(|family| &family.desired.endpoints)
    };
    let is_zoneless = endpoints().all(|endpoint| endpoint.zone.is_none());
    let how = match plan.closeness {
        Closeness::Nowhere => return Vec::new(),
        Closeness::Zone | Closeness::Node if endpoints().next().is_none() => return Vec::new(),
        Closeness::Zone if is_zoneless => {
            let line = Line::states("NoHints", "gives no hints");
            let line = line.because("no node of its pods is in a zone");
            return vec![line.hint("label the nodes with topology.kubernetes.io/zone")];
        }
        Closeness::Node if is_zoneless => "gives each endpoint the hint of its node",
        Closeness::Zone => "gives each endpoint the hint of its zone",
        Closeness::Node => "gives each endpoint the hints of its node and zone",
        Closeness::Proportional if plan.hinted.is_on => "shares endpoints among zones by their CPU",
        Closeness::Proportional => {
            let event = plan
                .families
                .iter()
                .find_map(|family| family.event.as_ref());
            let why = event.map_or_else(String::new, |event| event.message.clone());
            return vec![Line::states("NoHints", "gives no hints").because(why)];
        }
    };
    vec![Line::states("Hints", how)]
}
