//! Which nodes there are and how the simulated cluster behaves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use api::{Cidr, Istr, Quantity, Taint};
use serde::Deserialize;

use crate::driver::{DEVICES_MAX, DeviceConfig};
use crate::error::Error;
use crate::load_balancer::Ranges;
use crate::stages::Stages;
use crate::usage::{NodeUsage, WireUsage};

/// The simulated part of a cluster. The default is three nodes.
#[derive(Clone, Debug)]
pub struct Config {
    pub nodes: Vec<NodeConfig>,
    /// Behaviours for many pods at once; annotations on a pod win over them.
    pub stages: Stages,
    /// Off when another scheduler is to place pods.
    pub scheduler: bool,
    /// Off when something else provisions and binds volumes.
    pub provisioner: bool,
    /// Off where nobody knows which ConfigMaps and Secrets there are: they are taken to be there.
    pub waits_for_sources: bool,
    /// Off where nobody knows which claims and devices there are: pods are placed without them.
    pub allocates_devices: bool,
    /// Where the addresses of load balancers and ingresses come from; none where something else gives them.
    pub load_balancers: Option<Ranges>,
    /// Where nodes that somebody else creates get their pods' addresses from; none where somebody else gives them.
    pub pod_range: Option<Cidr>,
    /// What pods are said to use that say nothing themselves, on whatever node.
    pub usage: Vec<NodeUsage>,
}

/// One simulated machine.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub name: String,
    pub labels: BTreeMap<Istr, Istr>,
    pub annotations: BTreeMap<Istr, Istr>,
    pub taints: Vec<Taint>,
    pub capacity: BTreeMap<Istr, Quantity>,
    /// Where its pods' addresses come from; `None` leaves that to the node-ipam controller.
    pub pod_cidr: Option<String>,
    pub address: String,
    /// What the simulated device driver publishes for it.
    pub devices: Vec<DeviceConfig>,
    /// What pods on it are said to use that say nothing themselves.
    pub usage: Arc<[NodeUsage]>,
}

const DEFAULT_NODES: usize = 3;

/// Pods' addresses: room for 8192 nodes of 512 addresses, away from the usual service ranges.
const POD_CIDR: &str = "10.64.0.0/10";
/// 512 addresses a node, for its 500 pods.
pub(crate) const NODE_HOST_BITS: u8 = 9;

/// Nodes' own addresses.
const NODE_CIDR: &str = "172.16.0.0/12";

impl Default for Config {
    fn default() -> Config {
        Config::with_nodes(DEFAULT_NODES)
    }
}

impl Config {
    /// More than anyone has memory for; a typo should not start a million nodes.
    pub const MOST_NODES: u32 = 5000;

    /// Where pods get their addresses from, and how much of it a node has: for whoever gives nodes their ranges.
    pub const POD_CIDR: &str = POD_CIDR;
    pub const NODE_PREFIX: u8 = 32 - NODE_HOST_BITS;

    /// `count` equal nodes `node-0`, `node-1`, ...
    /// Nodes come without ranges of addresses: somebody else gives them.
    #[must_use]
    pub fn without_ranges(mut self) -> Config {
        for node in &mut self.nodes {
            node.pod_cidr = None;
        }
        self.pod_range = None;
        self
    }

    pub fn with_nodes(count: usize) -> Config {
        let group = Group {
            count,
            ..Group::default()
        };
        Config::from_file(File {
            nodes: vec![group],
            ..File::default()
        })
        .expect("equal nodes with default settings are valid")
    }

    /// Reads a node file; `name` is how messages call it.
    pub fn parse(text: &str, name: &str) -> Result<Config, Error> {
        let file: File = crate::error::parse_yaml(text, name)?;
        Config::from_file(file)
            .map_err(|(field, problem)| crate::error::senseless(text, name, field, problem))
    }

    pub fn load(path: &Path) -> Result<Config, Error> {
        let name = path.display().to_string();
        let text = crate::error::read_text(path, &name)?;
        Config::parse(&text, &name)
    }

    /// Does it say what pods use, or what autoscalers read from outside?
    pub fn declares_usage(&self) -> bool {
        !self.usage.is_empty()
            || self.nodes.iter().any(|node| !node.usage.is_empty())
            || self.stages.declare_usage()
    }

    fn from_file(file: File) -> Result<Config, (String, String)> {
        let range = match file.pod_cidr.as_deref() {
            Some("") => None,
            Some(text) => Some(parse_range(text)?),
            None => Some(parse_range(POD_CIDR)?),
        };
        let mut nodes: Vec<NodeConfig> = Vec::new();
        let mut names: BTreeSet<String> = BTreeSet::new();
        for (index, group) in file.nodes.into_iter().enumerate() {
            let (group, usage) = group.compile(index)?;
            if !is_name(&group.name) {
                let problem = format!(
                    "{:?} is not a name of lower case letters, digits, '-' and '.'",
                    group.name
                );
                return Err((format!("nodes[{index}].name"), problem));
            }
            let devices: usize = group.devices.iter().map(|devices| devices.count).sum();
            if devices > DEVICES_MAX {
                let problem = format!("more than {DEVICES_MAX} devices of one node");
                return Err((format!("nodes[{index}].devices"), problem));
            }
            for number in 0..group.count {
                if nodes.len() >= Config::MOST_NODES as usize {
                    let problem = format!("more than {} nodes in all", Config::MOST_NODES);
                    return Err((format!("nodes[{index}].count"), problem));
                }
                let mut node = group.node(number, nodes.len(), range.as_ref());
                node.usage = usage.clone();
                if !names.insert(node.name.clone()) {
                    let problem = format!("a second node called {:?}", node.name);
                    return Err((format!("nodes[{index}].name"), problem));
                }
                nodes.push(node);
            }
        }
        Ok(Config {
            nodes,
            stages: Stages::default(),
            scheduler: true,
            provisioner: true,
            waits_for_sources: true,
            allocates_devices: true,
            load_balancers: None,
            pod_range: range,
            usage: compile_usage(file.usage, "")?,
        })
    }
}

/// The declarations of a file or of one group of its nodes; an error names the field.
fn compile_usage(
    declared: Vec<WireUsage>,
    place: &str,
) -> Result<Vec<NodeUsage>, (String, String)> {
    let compiled = declared.into_iter().enumerate().map(|(at, one)| {
        one.compile().map_err(|(field, problem)| match field {
            "" => (format!("{place}usage[{at}]"), problem),
            field => (format!("{place}usage[{at}].{field}"), problem),
        })
    });
    compiled.collect()
}

fn parse_range(text: &str) -> Result<Cidr, (String, String)> {
    let problem = || format!("{text:?} is not an address range such as {POD_CIDR}");
    Cidr::parse(text).ok_or_else(|| ("podCIDR".to_owned(), problem()))
}

/// Could it be the first part of a node's name? What comes after it leaves room for the number.
fn is_name(text: &str) -> bool {
    let is_edge = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    text.len() <= 240
        && text.starts_with(is_edge)
        && text
            .chars()
            .all(|char| is_edge(char) || matches!(char, '-' | '.'))
}

impl NodeConfig {
    /// A machine large enough that nobody runs out by accident.
    pub(crate) fn default_capacity() -> BTreeMap<Istr, Quantity> {
        // 500 pods, so that three nodes hold a Deployment of 1,000; upstream's default is 110.
        let amounts = [
            ("cpu", "32"),
            ("memory", "256Gi"),
            ("ephemeral-storage", "1Ti"),
            ("hugepages-1Gi", "0"),
            ("hugepages-2Mi", "0"),
            ("pods", "500"),
        ];
        let parse = |text| Quantity::parse(text).expect("these are quantities");
        amounts
            .into_iter()
            .map(|(name, text)| (Istr::from(name), parse(text)))
            .collect()
    }
}

/// The file, as people write it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct File {
    nodes: Vec<Group>,
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    usage: Vec<WireUsage>,
}

/// The labels that a kubelet gives its node.
pub(crate) fn default_labels(node: &str) -> BTreeMap<Istr, Istr> {
    let mut labels: BTreeMap<Istr, Istr> = BTreeMap::new();
    for prefix in ["kubernetes.io", "beta.kubernetes.io"] {
        labels.insert(format!("{prefix}/arch").into(), "amd64".into());
        labels.insert(format!("{prefix}/os").into(), "linux".into());
    }
    labels.insert("kubernetes.io/hostname".into(), node.into());
    labels
}

/// Where nodes have their own addresses from.
pub(crate) fn node_addresses() -> Cidr {
    Cidr::parse(NODE_CIDR).expect("a constant range")
}

/// Nodes that are alike but for their names and zones.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Group {
    name: String,
    count: usize,
    /// Nodes are dealt out to these in turn.
    zones: Vec<String>,
    region: Option<String>,
    labels: BTreeMap<Istr, Istr>,
    annotations: BTreeMap<Istr, Istr>,
    taints: Vec<Taint>,
    /// Overrides single amounts of the default.
    capacity: BTreeMap<Istr, Quantity>,
    /// Devices that pods can claim.
    devices: Vec<DeviceConfig>,
    /// What pods on them use.
    usage: Vec<WireUsage>,
}

impl Default for Group {
    fn default() -> Group {
        Group {
            name: "node".to_owned(),
            count: 1,
            zones: Vec::new(),
            region: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            capacity: BTreeMap::new(),
            devices: Vec::new(),
            usage: Vec::new(),
        }
    }
}

impl Group {
    /// Takes out what its pods use.
    fn compile(mut self, index: usize) -> Result<(Group, Arc<[NodeUsage]>), (String, String)> {
        let declared = std::mem::take(&mut self.usage);
        let usage = compile_usage(declared, &format!("nodes[{index}]."))?;
        Ok((self, usage.into()))
    }

    /// The `number`th node of the group, which is the `index`th of all.
    fn node(&self, number: usize, index: usize, range: Option<&Cidr>) -> NodeConfig {
        let name = format!("{}-{number}", self.name);
        let mut labels = default_labels(&name);
        let mut label = |key: &str, value: &str| labels.insert(Istr::from(key), Istr::from(value));
        if !self.zones.is_empty() {
            label(
                "topology.kubernetes.io/zone",
                &self.zones[number % self.zones.len()],
            );
        }
        if let Some(region) = &self.region {
            label("topology.kubernetes.io/region", region);
        }
        labels.extend(self.labels.clone());
        let mut capacity = NodeConfig::default_capacity();
        capacity.extend(self.capacity.clone());
        NodeConfig {
            labels,
            annotations: self.annotations.clone(),
            taints: self.taints.clone(),
            capacity,
            devices: self.devices.clone(),
            usage: Arc::default(),
            pod_cidr: range
                .and_then(|range| range.part(index as u128, NODE_HOST_BITS))
                .map(|part| part.to_string()),
            // The first address of a range names the network.
            address: node_addresses().nth(index as u128 + 2).to_string(),
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_nodes_unless_told_otherwise() {
        let config = Config::default();
        let names: Vec<&str> = config.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["node-0", "node-1", "node-2"]);
        assert_eq!(config.nodes[1].pod_cidr.as_deref(), Some("10.64.2.0/23"));
        assert_eq!(config.nodes[1].address, "172.16.0.3");
        assert!(Config::with_nodes(0).nodes.is_empty());
        assert_eq!(Config::with_nodes(1000).nodes.len(), 1000);
    }

    #[test]
    fn reads_groups_with_zones_taints_and_capacity() {
        let text = "
nodes:
- name: web
  count: 3
  zones: [a, b]
  capacity: {cpu: 4, example.com/gpu: 2}
- name: db
  taints: [{key: dedicated, value: db, effect: NoSchedule}]
podCIDR: 10.0.0.0/8
";
        let config = Config::parse(text, "nodes.yaml").unwrap();
        let zone = |index: usize| {
            config.nodes[index]
                .labels
                .get("topology.kubernetes.io/zone")
                .cloned()
        };
        assert_eq!(zone(0).as_deref(), Some("a"));
        assert_eq!(zone(1).as_deref(), Some("b"));
        assert_eq!(zone(2).as_deref(), Some("a"));
        assert_eq!(config.nodes[0].capacity["cpu"].value(), 4);
        assert_eq!(config.nodes[0].capacity["pods"].value(), 500);
        assert_eq!(config.nodes[3].name, "db-0");
        assert_eq!(
            config.nodes[3].taints[0].to_string(),
            "dedicated=db:NoSchedule"
        );
        assert_eq!(config.nodes[3].pod_cidr.as_deref(), Some("10.0.6.0/23"));
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let check = |text: &str| Config::parse(text, "nodes.yaml").unwrap_err().to_string();
        assert_eq!(
            check("nodes:\n- name: a\n  count: many\n"),
            r#"nodes.yaml: line 3: nodes[0].count: expected a whole number, 0 or more, not string "many""#
        );
        assert_eq!(
            check("nodes:\n- nmae: a\n"),
            "nodes.yaml: line 2: nodes[0].nmae: unknown field `nmae`, expected one of `name`, `count`, `zones`, `region`, `labels`, `annotations`, `taints`, `capacity`, `devices`, `usage`"
        );
        assert_eq!(
            check("podCIDR: here\n"),
            r#"nodes.yaml: line 1: podCIDR: "here" is not an address range such as 10.64.0.0/10"#
        );
        assert_eq!(
            check("nodes:\n- name: a\n- count: 1\n  name: a\n"),
            r#"nodes.yaml: line 4: nodes[1].name: a second node called "a-0""#
        );
        assert_eq!(
            check("nodes:\n- name: Web_1\n"),
            r#"nodes.yaml: line 2: nodes[0].name: "Web_1" is not a name of lower case letters, digits, '-' and '.'"#
        );
        assert_eq!(
            check("nodes:\n- usage:\n  - selector: {images: [web]}\n"),
            "nodes.yaml: line 3: nodes[0].usage[0]: declares neither cpu nor memory nor metrics"
        );
        assert_eq!(
            check("usage:\n- cpu: 1\n  container: a\n  metrics: {qps: 1}\n"),
            "nodes.yaml: line 4: usage[0].metrics: are of the pod, so container does not go with them"
        );
        assert!(check("nodes: [{count: 9999}]").contains("more than 5000"));
        assert!(check("nodes: [{capacity: {cpu: lots}}]").contains("nodes[0].capacity.cpu"));
        assert_eq!(
            check("nodes: ["),
            "nodes.yaml: line 2: while parsing a node, did not find expected node content"
        );
    }
}
