//! The EndpointSlices of a Service: who writes them, how many endpoints they hold, and whom clients are sent to.

use std::collections::{BTreeMap, BTreeSet};

use api::decision::counted;
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{list, text};

pub(super) fn of<'a>(facts: &'a Facts, service: &Value) -> Vec<&'a Value> {
    let (namespace, name) = (
        text(service, "/metadata/namespace"),
        text(service, "/metadata/name"),
    );
    facts
        .of_kind("EndpointSlice")
        .filter(|slice| text(slice, "/metadata/namespace") == namespace)
        .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name)
        .collect()
}

/// How many different endpoints take new connections: one that is in a slice of each family counts once.
pub(super) fn ready(slices: &[&Value]) -> usize {
    count(slices).0
}

/// Ready and other endpoints.
fn count(slices: &[&Value]) -> (usize, usize) {
    let (mut ready, mut others) = (BTreeSet::new(), BTreeSet::new());
    for endpoint in endpoints(slices) {
        // UPSTREAM: what nobody has said counts as ready.
        let is_ready = endpoint["conditions"]["ready"] != false;
        let held = match is_ready {
            true => &mut ready,
            false => &mut others,
        };
        held.insert(identity(endpoint));
    }
    let others = others.difference(&ready).count();
    (ready.len(), others)
}

fn endpoints<'a>(slices: &[&'a Value]) -> impl Iterator<Item = &'a Value> {
    slices.iter().flat_map(|slice| list(slice, "/endpoints"))
}

fn identity(endpoint: &Value) -> &str {
    match text(endpoint, "/targetRef/uid") {
        "" => text(endpoint, "/addresses/0"),
        uid => uid,
    }
}

/// `endpointslice-controller.k8s.io publishes 3 ready endpoints in 1 slice`
pub(super) fn publishers(service: &Value, slices: &[&Value]) -> Vec<String> {
    let mut by_manager: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for slice in slices {
        let manager = &slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"];
        let manager = manager.as_str().unwrap_or("an unnamed manager");
        by_manager.entry(manager).or_default().push(slice);
    }
    let mut lines: Vec<String> = by_manager
        .iter()
        .map(|(manager, slices)| {
            let (ready, others) = count(slices);
            let others = match others {
                0 => String::new(),
                others => format!(" and {others} not ready"),
            };
            format!(
                "{manager} publishes {}{others} in {}{}",
                counted(ready, "ready endpoint"),
                counted(slices.len(), "slice"),
                without_port(service, slices)
            )
        })
        .collect();
    lines.extend(empty_family(service, slices));
    if by_manager.len() > 1 {
        lines.push("several publish for it: clients use all of their endpoints".to_owned());
    }
    lines
}

/// A family of a dual-stack Service that has no endpoints, while the other one has.
fn empty_family(service: &Value, slices: &[&Value]) -> Option<String> {
    let families = list(service, "/spec/ipFamilies").iter();
    let has_endpoints = |family: &&Value| {
        let of_family = |slice: &&&Value| slice["addressType"] == **family;
        let mut slices = slices.iter().filter(of_family);
        slices.any(|slice| !list(slice, "/endpoints").is_empty())
    };
    let (full, empty): (Vec<&Value>, Vec<&Value>) = families.partition(has_endpoints);
    let empty = empty.first()?.as_str()?;
    (!full.is_empty()).then(|| {
        format!("no endpoint has an {empty} address: clients cannot reach the service over it")
    })
}

/// Endpoints take no traffic for a Service with ports as long as no port was found in their pods.
fn without_port(service: &Value, slices: &[&Value]) -> String {
    let has_port = |slice: &&&Value| !list(slice, "/ports").is_empty();
    let (with, without): (Vec<&Value>, Vec<&Value>) = slices.iter().partition(has_port);
    let total = |slices: &[&Value]| {
        let (ready, others) = count(slices);
        ready + others
    };
    match (total(&without), total(&with)) {
        _ if list(service, "/spec/ports").is_empty() => String::new(),
        (0, _) => String::new(),
        (_, 0) => ", without a port: they cannot be reached".to_owned(),
        (lacking, _) => format!(", {lacking} of them without a port: those cannot be reached"),
    }
}

/// What hints and traffic policies do to clients.
pub(super) fn routing(service: &Value, slices: &[&Value]) -> Vec<String> {
    let mut lines = Vec::new();
    let (zones, nodes) = (
        hinted(slices, "/hints/forZones"),
        hinted(slices, "/hints/forNodes"),
    );
    let asked = requests_hints(service);
    match (zones.is_empty() && nodes.is_empty(), asked) {
        (true, Some(asked)) => lines.push(format!(
            "{asked} requests hints, and no endpoint has one: clients use all endpoints"
        )),
        (true, None) => {}
        (false, _) => {
            let both = [("node", &nodes), ("zone", &zones)];
            for (place, hinted) in both.iter().filter(|(_, hinted)| !hinted.is_empty()) {
                lines.push(format!(
                    "by hints, clients go to endpoints of their own {place}: {}; where there is none, to all",
                    tally(hinted)
                ));
            }
        }
    }
    for (field, who) in [
        ("/spec/internalTrafficPolicy", "clients in the cluster"),
        ("/spec/externalTrafficPolicy", "clients from outside"),
    ] {
        if text(service, field) == "Local" {
            let ready = endpoints(slices).filter(|one| one["conditions"]["ready"] != false);
            let on = by_place(ready.map(|one| (text(one, "/nodeName"), identity(one))));
            let name = field.rsplit('/').next().unwrap_or_default();
            let where_to = match on.is_empty() {
                true => "no node has any".to_owned(),
                false => tally(&on),
            };
            lines.push(format!(
                "{name} is Local: {who} reach endpoints on the node where they arrive alone: {where_to}"
            ));
        }
    }
    lines
}

/// `a 2, b 1`, for as many as anybody reads.
fn tally(by_place: &BTreeMap<&str, usize>) -> String {
    const PLACES_MAX: usize = 6;
    let named = by_place.iter().take(PLACES_MAX);
    let named: Vec<String> = named
        .map(|(place, count)| format!("{place} has {count}"))
        .collect();
    match by_place.len().saturating_sub(PLACES_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn hinted<'a>(slices: &[&'a Value], pointer: &str) -> BTreeMap<&'a str, usize> {
    by_place(endpoints(slices).flat_map(|endpoint| {
        let hints = list(endpoint, pointer).iter();
        hints.map(move |hint| (text(hint, "/name"), identity(endpoint)))
    }))
}

/// How many endpoints each place has: one that is in a slice of each family counts once.
fn by_place<'a>(endpoints: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<&'a str, usize> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (place, endpoint) in endpoints {
        found.entry(place).or_default().insert(endpoint);
    }
    let counts = found.into_iter().map(|(place, held)| (place, held.len()));
    counts.collect()
}

/// `trafficDistribution PreferClose`
fn requests_hints(service: &Value) -> Option<String> {
    match text(service, "/spec/trafficDistribution") {
        "" => {}
        wanted => return Some(format!("trafficDistribution {wanted}")),
    }
    let annotations = &service["metadata"]["annotations"];
    let names = [
        "service.kubernetes.io/topology-mode",
        "service.kubernetes.io/topology-aware-hints",
    ];
    names.iter().find_map(|name| {
        let value = annotations[*name].as_str()?;
        matches!(value, "Auto" | "auto").then(|| format!("the annotation {name}"))
    })
}
