//! Cells of Services, endpoints and Ingresses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cells::{named_default, or_none};
use crate::fields::{at, entry, integer, list, text};

pub(super) fn named(name: &str) -> Option<fn(&Value, i64) -> Value> {
    Some(match name {
        "endpoints" => |endpoints, _| subsets(endpoints).into(),
        "slice_ports" => |slice, _| {
            let port = |port: &Value| match (integer(port, "port"), at(port, "name").as_str()) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            };
            with_more(list(slice, "ports").iter().map(port).collect(), "<unset>").into()
        },
        "slice_endpoints" => |slice, _| {
            let addresses = list(slice, "endpoints")
                .iter()
                .flat_map(|endpoint| list(endpoint, "addresses"));
            with_more(
                addresses
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
                "<unset>",
            )
            .into()
        },
        "service_cluster_ip" => |service, _| {
            let first = list(service, "spec.clusterIPs")
                .first()
                .and_then(Value::as_str);
            first.unwrap_or("<none>").into()
        },
        "service_external_ip" => |service, _| external_ip(service).into(),
        "service_ports" => |service, _| {
            let port = |port: &Value| {
                let (number, protocol) = (
                    integer(port, "port").unwrap_or_default(),
                    text(port, "protocol"),
                );
                match integer(port, "nodePort").unwrap_or_default() {
                    0 => format!("{number}/{protocol}"),
                    node_port => format!("{number}:{node_port}/{protocol}"),
                }
            };
            or_none(
                list(service, "spec.ports")
                    .iter()
                    .map(port)
                    .collect::<Vec<_>>()
                    .join(","),
            )
            .into()
        },
        "load_balancer" => |object, _| load_balancer(object).into(),
        "ingress_hosts" => |ingress, _| {
            let rules = list(ingress, "spec.rules");
            let hosts: Vec<_> = rules
                .iter()
                .map(|rule| text(rule, "host"))
                .filter(|host| !host.is_empty())
                .collect();
            match hosts.len() {
                0 => "*".into(),
                more if more > 3 => {
                    format!("{} + {} more...", hosts[..3].join(","), rules.len() - 3).into()
                }
                _ => hosts.join(",").into(),
            }
        },
        "ingress_ports" => |ingress, _| {
            if list(ingress, "spec.tls").is_empty() {
                "80".into()
            } else {
                "80, 443".into()
            }
        },
        "ingress_class_name" => |class, _| {
            let default = entry(
                class,
                "metadata.annotations",
                "ingressclass.kubernetes.io/is-default-class",
            ) == Some("true");
            named_default(class, default).into()
        },
        "ingress_class_parameters" => |class, _| match at(class, "spec.parameters") {
            Value::Null => "<none>".into(),
            parameters => {
                let group = at(parameters, "apiGroup")
                    .as_str()
                    .map(|group| format!(".{group}"))
                    .unwrap_or_default();
                format!(
                    "{}{group}/{}",
                    text(parameters, "kind"),
                    text(parameters, "name")
                )
                .into()
            }
        },
        "parent_ref" => |address, _| match at(address, "spec.parentRef") {
            Value::Null => "<none>".into(),
            parent => {
                let group = match text(parent, "group") {
                    "" => String::new(),
                    group => format!(".{group}"),
                };
                let namespace = match text(parent, "namespace") {
                    "" => String::new(),
                    namespace => format!("/{namespace}"),
                };
                format!(
                    "{}{group}{namespace}/{}",
                    text(parent, "resource"),
                    text(parent, "name")
                )
                .to_lowercase()
                .into()
            }
        },
        "cidrs" => |range, _| {
            let cidrs: Vec<_> = list(range, "spec.cidrs")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            cidrs.join(",").into()
        },
        _ => return None,
    })
}

/// Three of them and how many more.
fn with_more(items: Vec<String>, empty: &str) -> String {
    match items.len() {
        0 => empty.to_owned(),
        more if more > 3 => format!("{} + {} more...", items[..3].join(","), more - 3),
        _ => items.join(","),
    }
}

fn subsets(endpoints: &Value) -> String {
    let subsets = list(endpoints, "subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut found = Vec::new();
    for subset in subsets {
        let addresses = || {
            list(subset, "addresses")
                .iter()
                .map(|address| text(address, "ip"))
        };
        if list(subset, "ports").is_empty() {
            found.extend(addresses().map(str::to_owned));
        }
        for port in list(subset, "ports") {
            let port = integer(port, "port").unwrap_or_default();
            let join = |ip: &str| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            };
            found.extend(addresses().map(join));
        }
    }
    with_more(found, "")
}

fn load_balancer(object: &Value) -> String {
    let ingress = list(object, "status.loadBalancer.ingress").iter();
    let address = |ingress: &Value| match text(ingress, "ip") {
        "" => text(ingress, "hostname").to_owned(),
        ip => ip.to_owned(),
    };
    let addresses: BTreeSet<_> = ingress
        .map(address)
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn external_ip(service: &Value) -> String {
    let given: Vec<_> = list(service, "spec.externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    match text(service, "spec.type") {
        "ClusterIP" | "NodePort" => or_none(given.join(",")),
        "LoadBalancer" => {
            let mut all = vec![load_balancer(service)];
            all.extend(given.into_iter().map(str::to_owned));
            all.retain(|address| !address.is_empty());
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        "ExternalName" => text(service, "spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}
