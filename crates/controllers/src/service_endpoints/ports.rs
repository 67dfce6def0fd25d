//! Which port of a pod a port of a service means.

use api::IntOrString;
use api::kinds::{Pod, ServicePort};

/// The number, if the service gives one; else the port of that name and protocol in a container or sidecar.
pub fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::Text(name) => name,
    };
    let mut ports = pod.body.ports.iter();
    let found = ports.find(|held| *held.name == **name && held.protocol == port.protocol);
    found.map(|held| held.port)
}
