//! Snapshots in a few words, and plans in a line.

use std::sync::Arc;

use api::kinds::{AddressType, Endpoint, EndpointSlice, Pod};
use api::{Istr, Resource};
use expect_test::Expect;
use serde_json::{Value, json};

use super::super::desired::{endpoint, endpoint_ports};
use super::super::invariants::published;
use super::super::ownership::slice_labels;
use super::super::packing::Draft;
use super::super::plan::{FamilyPlan, Plan, plan};
use super::super::snapshot::Snapshot;
use super::super::topology::{Hinted, Zones};
use crate::service_endpoints::reckoning::FullSlice;

/// A service `web` with one port, and what it finds.
pub(super) struct Case {
    service: Value,
    pods: Vec<Arc<Pod>>,
    slices: Vec<String>,
    /// The slices of the snapshot with all that they say.
    pub(super) full: Vec<Arc<FullSlice>>,
    pub(super) snapshot: Snapshot,
}

pub(super) fn case(pods: &str) -> Case {
    let service = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u1"},
        "spec": {
            "clusterIP": "10.1.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        },
    });
    let nodes = [("n1", ""), ("na", "za"), ("nb", "zb"), ("nc", "zc")];
    let nodes = nodes.map(|(node, zone)| (Istr::new(node), Istr::new(zone)));
    let pods: Vec<Arc<Pod>> = pods.split_whitespace().map(pod).collect();
    Case {
        snapshot: Snapshot {
            gates: api::Gates::default(),
            service: Arc::new(decode(&service)),
            pods: pods.clone(),
            nodes: nodes.into_iter().collect(),
            slices: Vec::new(),
            triggered_at: None,
            max_endpoints: 100,
            zones: Arc::default(),
            hinted: Hinted::default(),
        },
        service,
        pods,
        slices: Vec::new(),
        full: Vec::new(),
    }
}

pub(super) fn decode<K: Resource>(value: &Value) -> K {
    K::decode(value.to_string().as_bytes()).unwrap()
}

/// `a:ready,gone,@nb,ip=10.0.0.9`: a pod in a few words. It has an address by its name, and the node `n1`.
pub(super) fn pod(text: &str) -> Arc<Pod> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let mut object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "podIPs": [{"ip": address(name)}]},
    });
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match word.split_once('=') {
            Some(("ip", list)) => {
                let ips: Vec<Value> = list.split('+').map(|ip| json!({"ip": ip})).collect();
                object["status"]["podIPs"] = json!(ips);
            }
            Some(("port", port)) => {
                let (name, number) = port.split_once('/').unwrap();
                let number: i32 = number.parse().unwrap();
                let port = json!({"name": name, "protocol": "TCP", "containerPort": number});
                object["spec"]["containers"] = json!([{"name": "c", "ports": [port]}]);
            }
            Some(("host", name)) => {
                object["spec"]["hostname"] = json!(name);
                object["spec"]["subdomain"] = json!("web");
            }
            Some(("uid", uid)) => object["metadata"]["uid"] = json!(uid),
            Some(other) => panic!("a pod cannot be {other:?}"),
            None if word == "ready" => {
                object["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            }
            None if word == "gone" => {
                object["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
            }
            None if word == "failed" => object["status"]["phase"] = json!("Failed"),
            None if word == "noip" => object["status"]["podIPs"] = json!([]),
            None => object["spec"]["nodeName"] = json!(word.strip_prefix('@').unwrap()),
        }
    }
    Arc::new(decode(&object))
}

/// `b` is 10.0.0.2, and `p300` 10.0.1.44.
fn address(name: &str) -> String {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    let number: u32 = match digits.parse() {
        Ok(number) => number,
        Err(_) => u32::from(name.as_bytes()[0] - b'a') + 1,
    };
    format!("10.0.{}.{}", number / 256, number % 256)
}

impl Case {
    /// Merges into the service.
    pub(super) fn service(mut self, patch: Value) -> Case {
        merge(&mut self.service, &patch);
        self.snapshot.service = Arc::new(decode(&self.service));
        self
    }

    pub(super) fn most(mut self, most: usize) -> Case {
        self.snapshot.max_endpoints = most;
        self
    }

    /// `za=4 zb=2`: the CPUs of each zone.
    pub(super) fn zones(mut self, text: &str) -> Case {
        let shares: Vec<(&str, f64)> = text
            .split_whitespace()
            .map(|word| word.split_once('=').unwrap())
            .map(|(zone, cpus)| (zone, cpus.parse().unwrap()))
            .collect();
        let total: f64 = shares.iter().map(|(_, cpus)| cpus).sum();
        let share = |(zone, cpus): &(&str, f64)| (Istr::new(zone), cpus / total);
        self.snapshot.zones = Arc::new(Zones(Some(shares.iter().map(share).collect())));
        self
    }

    /// The slice `name` with the endpoints of these pods, as `Case::service` has made them so far; `>z` is a hint.
    pub(super) fn slice(self, name: &str, pods: &str) -> Case {
        self.slice_with(name, pods, json!({}))
    }

    pub(super) fn slice_with(mut self, name: &str, pods: &str, patch: Value) -> Case {
        let service = &self.snapshot.service;
        let owner = json!({
            "apiVersion": "v1", "kind": "Service", "name": "web", "uid": service.metadata.uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        let (mut endpoints, mut ports) = (Vec::new(), json!([]));
        for text in pods.split_whitespace() {
            let (text, hint) = text.split_once('>').unwrap_or((text, ""));
            let pod = pod(text);
            let endpoint: Endpoint<'_> = endpoint(&self.snapshot, &pod, AddressType::Ipv4);
            ports = json!(endpoint_ports(service, &pod));
            let mut endpoint = json!(endpoint);
            if !hint.is_empty() {
                let hints: Vec<Value> = hint.split('+').map(|zone| json!({"name": zone})).collect();
                endpoint["hints"] = json!({"forZones": hints});
            }
            endpoints.push(endpoint);
        }
        let mut object = json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "7",
                "labels": slice_labels(service), "ownerReferences": [owner],
            },
            "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
        });
        merge(&mut object, &patch);
        self.snapshot.slices.push(Arc::new(decode(&object)));
        self.full.push(Arc::new(decode(&object)));
        self.slices.push(name.to_owned());
        self
    }

    pub(super) fn existing(mut self, slice: Arc<EndpointSlice>, full: Arc<FullSlice>) -> Case {
        self.slices.push(slice.metadata.name.to_string());
        self.snapshot.slices.push(slice);
        self.full.push(full);
        self
    }

    /// What the simulator would say of it.
    pub(super) fn check_published(&self) -> Result<(), String> {
        let snapshot = &self.snapshot;
        let text = |text: &Istr| text.to_string();
        let nodes = snapshot.nodes.iter();
        let zones = nodes.map(|(node, zone)| (text(node), text(zone))).collect();
        let has_address = |pod: &&Arc<Pod>| !pod.is_finished() && !pod.status.ips.is_empty();
        let pods: Vec<Arc<Pod>> = self.pods.iter().filter(has_address).cloned().collect();
        let most = snapshot.max_endpoints;
        published(&snapshot.service, &pods, &zones, &self.full, most)
    }

    pub(super) fn plan(&self) -> Plan<'_> {
        plan(&self.snapshot)
    }

    #[track_caller]
    pub(super) fn check(self, expected: Expect) {
        expected.assert_eq(&self.to_text());
    }

    pub(super) fn to_text(&self) -> String {
        let plan = self.plan();
        let mut parts = Vec::new();
        for family in &plan.families {
            let text = self.family_text(family);
            match plan.families.len() {
                1 => parts.push(text),
                _ => parts.push(format!("{}: {text}", family.family.as_str())),
            }
        }
        for number in &plan.other_families {
            parts.push(format!("delete {} (other family)", self.slices[*number]));
        }
        parts.join(" | ")
    }

    fn family_text(&self, plan: &FamilyPlan<'_>) -> String {
        let mut parts = Vec::new();
        let mut add = |verb: &str, draft: &Draft| {
            let name = draft.slice.map_or("", |number| &self.slices[number]);
            let verb = if draft.replaces { "replace" } else { verb };
            parts.push(format!("{verb} {name}[{}]", members(plan, draft)));
        };
        plan.create.iter().for_each(|draft| add("create ", draft));
        plan.update.iter().for_each(|draft| add("update", draft));
        for number in &plan.delete {
            parts.push(format!("delete {}", self.slices[*number]));
        }
        if let Some(event) = &plan.event {
            parts.push(format!("{} {}", event.reason, event.message));
        }
        match parts.is_empty() {
            true => "nothing".into(),
            false => parts.join("; ").replace("  ", " "),
        }
    }

    pub(super) fn pod(&self, index: usize) -> &Pod {
        &self.pods[index]
    }
}

/// `a -b c>za`: b is not ready, c has a hint. Ports go first, if they are not the usual one.
fn members(plan: &FamilyPlan<'_>, draft: &Draft) -> String {
    let mut texts = Vec::new();
    let ports: Vec<String> = draft
        .ports
        .iter()
        .map(|port| {
            format!(
                "{}/{}",
                port.name.as_deref().unwrap_or("?"),
                port.port.unwrap_or(-1)
            )
        })
        .collect();
    let ports = ports.join(",");
    if ports != "http/8080" {
        texts.push(format!("{ports}:"));
    }
    for (member, hints) in draft.members.iter().zip(&draft.hints) {
        let wanted = &plan.desired.endpoints[*member as usize];
        let mut text = String::new();
        if !wanted.known.is_ready() {
            text.push('-');
        }
        text.push_str(&wanted.pod.metadata.name);
        if let Some(hints) = hints {
            let names = hints.for_zones.iter().chain(&hints.for_nodes);
            let names: Vec<&str> = names.map(|named| &*named.name).collect();
            text.push_str(&format!(">{}", names.join("+")));
        }
        texts.push(text);
    }
    texts.join(" ")
}

/// RFC 7386, as far as tests need it.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.is_null() {
                    true => drop(target.as_object_mut().map(|held| held.remove(key))),
                    false => merge(&mut target[key], value),
                }
            }
        }
        other => *target = other.clone(),
    }
}

pub(super) fn slice_of(value: &Value) -> EndpointSlice {
    decode(value)
}
