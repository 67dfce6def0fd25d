//! Services: their number, and the node ports and load balancers that they ask for.

use super::{number, one};
use crate::amounts::Amounts;
use crate::kinds::Service;

const SERVICES: &str = "services";
const NODE_PORTS: &str = "services.nodeports";
const LOAD_BALANCERS: &str = "services.loadbalancers";

pub(super) fn tracks(resource: &str) -> bool {
    [SERVICES, NODE_PORTS, LOAD_BALANCERS].contains(&resource)
}

pub(super) fn usage(service: &Service) -> Amounts {
    let ports = &service.spec.ports;
    let explicit = || ports.iter().filter(|port| port.node_port != 0).count();
    // Ports that are not given yet will be.
    let (node_ports, load_balancers) = match &*service.spec.type_ {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if service.spec.allocate_load_balancer_node_ports == Some(false) => {
            (explicit(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    Amounts::from([
        (SERVICES.into(), one()),
        (NODE_PORTS.into(), number(node_ports)),
        (LOAD_BALANCERS.into(), number(load_balancers)),
    ])
}
