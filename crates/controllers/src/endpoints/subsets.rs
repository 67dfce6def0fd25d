//! The subsets that an Endpoints object should have, from pods: ports that the same addresses have stand together.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{Address, Pod, Service, Subset, SubsetPort};

use crate::service_endpoints::{find_port, has_endpoint, hostname, target_ref};

/// The most addresses that are stored: consumers of Endpoints read all of them with each change.
pub const CAPACITY: usize = 1000;

/// The pods that have the same ports.
struct Group<'a> {
    ports: Vec<SubsetPort>,
    ready: Vec<Address<'a>>,
    not_ready: Vec<Address<'a>>,
}

#[derive(Default)]
struct Groups<'a> {
    all: Vec<Group<'a>>,
    by_ports: HashMap<Vec<SubsetPort>, usize>,
}

/// All subsets, sorted.
pub fn subsets<'a>(service: &Service, pods: &'a [Arc<Pod>]) -> Vec<Subset<'a>> {
    let publishes_all = service.spec.publish_not_ready_addresses;
    let is_without_ports = service.spec.ports.is_empty();
    // UPSTREAM: no ports at all are fine where nobody has to reach a cluster IP.
    if is_without_ports && service.spec.cluster_ip != "None" {
        return Vec::new();
    }
    let mut groups = Groups::default();
    let mut by_body: HashMap<usize, Option<usize>> = HashMap::default();
    for pod in pods {
        if !has_endpoint(pod) || (pod.metadata.is_terminating() && !publishes_all) {
            continue;
        }
        let Some(address) = address(service, pod) else {
            continue;
        };
        // Pods of one template have the same ports.
        let body = Arc::as_ptr(&pod.body) as usize;
        let group = *by_body
            .entry(body)
            .or_insert_with(|| groups.of(ports(service, pod), is_without_ports));
        let Some(group) = group else {
            continue;
        };
        let group = &mut groups.all[group];
        match publishes_all || pod.is_ready() {
            true => group.ready.push(address),
            false => group.not_ready.push(address),
        }
    }
    packed(&groups.all)
}

impl Groups<'_> {
    /// The group with these ports. A pod that has none of the service's ports is in no group.
    fn of(&mut self, ports: Vec<SubsetPort>, is_without_ports: bool) -> Option<usize> {
        if ports.is_empty() && !is_without_ports {
            return None;
        }
        let number = self.by_ports.entry(ports).or_insert_with_key(|ports| {
            self.all.push(Group {
                ports: ports.clone(),
                ready: Vec::new(),
                not_ready: Vec::new(),
            });
            self.all.len() - 1
        });
        Some(*number)
    }
}

/// The ports of the service as the pod has them, sorted, each once.
fn ports(service: &Service, pod: &Pod) -> Vec<SubsetPort> {
    let found = service.spec.ports.iter().filter_map(|port| {
        Some(SubsetPort {
            name: port.name.clone(),
            port: find_port(pod, port)?,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    });
    let mut ports: Vec<SubsetPort> = found.collect();
    ports.sort();
    ports.dedup();
    ports
}

/// Ports that the same groups have share a subset with the addresses of all these groups.
fn packed<'a>(groups: &[Group<'a>]) -> Vec<Subset<'a>> {
    let mut owners: BTreeMap<Option<&SubsetPort>, Vec<usize>> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        let each: Vec<Option<&SubsetPort>> = match group.ports.as_slice() {
            [] => vec![None],
            ports => ports.iter().map(Some).collect(),
        };
        for port in each {
            owners.entry(port).or_default().push(number);
        }
    }
    let mut packed: BTreeMap<Vec<usize>, Vec<SubsetPort>> = BTreeMap::new();
    for (port, owners) in owners {
        packed.entry(owners).or_default().extend(port.cloned());
    }
    let mut subsets: Vec<Subset<'a>> = packed
        .into_iter()
        .map(|(owners, ports)| subset(groups, &owners, ports))
        .collect();
    subsets.sort_by(|one, two| one.ports.cmp(&two.ports));
    subsets
}

/// `ports` are sorted.
fn subset<'a>(groups: &[Group<'a>], owners: &[usize], ports: Vec<SubsetPort>) -> Subset<'a> {
    let all = |of: for<'b> fn(&'b Group<'a>) -> &'b [Address<'a>]| {
        let lists = owners.iter().map(|owner| of(&groups[*owner]));
        let mut addresses: Vec<Address<'a>> = lists.flatten().cloned().collect();
        addresses.sort_by(|one, two| order(one).cmp(&order(two)));
        addresses
    };
    Subset {
        addresses: all(|group| &group.ready),
        not_ready_addresses: all(|group| &group.not_ready),
        ports,
    }
}

/// UPSTREAM: by the text of the address, and then by uid.
fn order<'a>(address: &'a Address<'_>) -> (&'a str, &'a str) {
    let target = address.target_ref.as_ref();
    (&address.ip, target.map_or("", |target| &target.uid))
}

/// The address of a pod in the family that Endpoints are of: there is one only.
pub fn address<'a>(service: &Service, pod: &'a Pod) -> Option<Address<'a>> {
    let wants_ipv6 = is_ipv6(service, pod);
    let mut ips = pod.status.ips.iter();
    let ip = ips.find(|ip| matches!(ip, IpAddr::V6(_)) == wants_ipv6)?;
    let hostname = hostname(pod, service);
    Some(Address {
        ip: Cow::Owned(ip.to_string()),
        hostname: Cow::Borrowed(hostname),
        // UPSTREAM: also if it is empty.
        node_name: Some(Cow::Borrowed(&pod.node_name)),
        target_ref: Some(target_ref(pod)),
    })
}

/// The first family of the service; else that of its cluster IP; else that of the pod.
fn is_ipv6(service: &Service, pod: &Pod) -> bool {
    let spec = &service.spec;
    if let Some(first) = spec.ip_families.first() {
        return first == "IPv6";
    }
    let address = match service.is_headless() {
        true => pod.status.ips.iter().next(),
        false => api::ip::parse(&spec.cluster_ip),
    };
    matches!(address, Some(IpAddr::V6(_)))
}

/// How many addresses the subsets have together.
pub fn count(subsets: &[Subset<'_>]) -> usize {
    let counts = subsets
        .iter()
        .map(|subset| subset.addresses.len() + subset.not_ready_addresses.len());
    counts.sum()
}

/// Leaves as many addresses as may be stored: ready ones before others, of each subset in proportion. Says whether any
/// had to go.
pub fn truncate(subsets: &mut [Subset<'_>]) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready = count(subsets) - ready;
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let cuts_ready = ready > CAPACITY;
    let (most, total) = match cuts_ready {
        true => (CAPACITY, ready),
        false => (CAPACITY - ready, not_ready),
    };
    let mut left = most;
    for subset in subsets {
        if cuts_ready {
            subset.not_ready_addresses.clear();
        }
        let list = match cuts_ready {
            true => &mut subset.addresses,
            false => &mut subset.not_ready_addresses,
        };
        // Rounded up, so the last subset may get less than its share.
        list.truncate((list.len() * most).div_ceil(total).min(left));
        left -= list.len();
    }
    true
}
