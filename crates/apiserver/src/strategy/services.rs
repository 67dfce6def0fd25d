//! What a change of a Service's type drops and what an update need not repeat.

use serde_json::Value;

use crate::fields::{at, by_name, copy, integer, list, list_mut, remove, set, text};

pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    drop_what_the_type_no_longer_uses(new, old);
    keep_allocated(new, old);
    normalize_cluster_ips(new, Some(old));
}

/// `clusterIP` and the first of `clusterIPs` are the same address: whichever a client set fills the other.
pub(crate) fn normalize_cluster_ips(service: &mut Value, old: Option<&Value>) {
    let (single, plural) = ("spec.clusterIP", "spec.clusterIPs");
    let Some(old) = old else {
        if !text(service, single).is_empty() && list(service, plural).is_empty() {
            set(service, plural, vec![at(service, single).clone()]);
        }
        return;
    };
    let single_changed = at(service, single) != at(old, single);
    let plural_changed = at(service, plural) != at(old, plural);
    if single_changed && !plural_changed {
        match text(service, single) {
            "" => {
                remove(service, plural);
            }
            address => {
                let addresses = vec![Value::from(address)];
                set(service, plural, addresses);
            }
        }
    }
}

fn drop_what_the_type_no_longer_uses(new: &mut Value, old: &Value) {
    let same = |new: &Value, path: &str| at(new, path) == at(old, path);
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        if same(new, "spec.clusterIP") && same(new, "spec.clusterIPs") {
            remove(new, "spec.clusterIP");
            remove(new, "spec.clusterIPs");
        }
        for path in [
            "spec.ipFamilies",
            "spec.ipFamilyPolicy",
            "spec.internalTrafficPolicy",
        ] {
            if same(new, path) {
                remove(new, path);
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(new) && node_ports(new) == node_ports(old) {
        for port in list_mut(new, "spec.ports").into_iter().flatten() {
            remove(port, "nodePort");
        }
    }
    if needs_health_check_port(old)
        && !needs_health_check_port(new)
        && same(new, "spec.healthCheckNodePort")
    {
        remove(new, "spec.healthCheckNodePort");
    }
    if is_load_balancer(old) && !is_load_balancer(new) {
        for path in [
            "spec.allocateLoadBalancerNodePorts",
            "spec.loadBalancerClass",
        ] {
            if same(new, path) {
                remove(new, path);
            }
        }
    }
    if is_external(old) && !is_external(new) && same(new, "spec.externalTrafficPolicy") {
        remove(new, "spec.externalTrafficPolicy");
    }
    if !is_load_balancer(new) {
        set(
            new,
            "status.loadBalancer",
            Value::Object(Default::default()),
        );
    }
}

/// A client that leaves out what was allocated keeps it.
fn keep_allocated(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if text(new, "spec.clusterIP").is_empty() {
            copy(new, old, "spec.clusterIP");
        }
        if list(new, "spec.clusterIPs").is_empty()
            && at(new, "spec.clusterIP") == at(old, "spec.clusterIP")
        {
            copy(new, old, "spec.clusterIPs");
        }
        for path in ["spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if at(new, path).is_null() && at(new, "spec.clusterIPs") == at(old, "spec.clusterIPs") {
                copy(new, old, path);
            }
        }
    }
    if needs_node_port(old) && needs_node_port(new) {
        let (held, mut used) = (node_ports(old), node_ports(new));
        used.retain(|port| held.contains(port));
        let named = by_name(list(old, "spec.ports"));
        for port in list_mut(new, "spec.ports").into_iter().flatten() {
            let before = named.get(text(port, "name"));
            let number = before
                .and_then(|before| integer(before, "nodePort"))
                .unwrap_or_default();
            if integer(port, "nodePort").unwrap_or_default() == 0
                && number != 0
                && !used.contains(&number)
            {
                set(port, "nodePort", number);
                used.push(number);
            }
        }
    }
    if needs_health_check_port(old)
        && needs_health_check_port(new)
        && at(new, "spec.healthCheckNodePort").is_null()
    {
        copy(new, old, "spec.healthCheckNodePort");
    }
}

pub(crate) fn needs_cluster_ip(service: &Value) -> bool {
    text(service, "spec.type") != "ExternalName"
}

/// NodePort services, and load balancers unless they were told to do without.
pub(crate) fn needs_node_port(service: &Value) -> bool {
    text(service, "spec.type") == "NodePort"
        || (is_load_balancer(service)
            && at(service, "spec.allocateLoadBalancerNodePorts") != &Value::Bool(false))
}

pub(crate) fn needs_health_check_port(service: &Value) -> bool {
    is_load_balancer(service) && text(service, "spec.externalTrafficPolicy") == "Local"
}

pub(crate) fn is_load_balancer(service: &Value) -> bool {
    text(service, "spec.type") == "LoadBalancer"
}

pub(crate) fn is_external(service: &Value) -> bool {
    match text(service, "spec.type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !list(service, "spec.externalIPs").is_empty(),
        _ => false,
    }
}

pub(crate) fn node_ports(service: &Value) -> Vec<i64> {
    let ports = list(service, "spec.ports").iter();
    ports
        .filter_map(|port| integer(port, "nodePort"))
        .filter(|port| *port != 0)
        .collect()
}
