//! The variables by which a container finds Services, as a kubelet writes them.

use api::ResourceType;
use client::{Client, ListOptions};
use serde_json::Value;

const SERVICES: ResourceType = ResourceType::namespaced("", "v1", "services", "Service");

/// Those of the API server, and of all Services of the pod's namespace unless the pod wants none. A Service that is
/// younger than the pod was not there when its containers were started.
pub(super) async fn variables(client: &Client, pod: &Value) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    if let Ok(answer) = client.get(&SERVICES, "default", "kubernetes").await {
        let service: Value = serde_json::from_slice(&answer).unwrap_or_default();
        variables.extend(of(&service));
    }
    if pod["spec"]["enableServiceLinks"] == false {
        return variables;
    }
    let namespace = text(&pod["metadata"]["namespace"]);
    let listed = client
        .list(&SERVICES, namespace, &ListOptions::default())
        .await;
    for item in listed.unwrap_or_default().items {
        let service: Value = serde_json::from_slice(&item).unwrap_or_default();
        if is_older(&service, pod) {
            variables.extend(of(&service));
        }
    }
    variables
}

fn is_older(service: &Value, pod: &Value) -> bool {
    let started = text(&pod["status"]["startTime"]);
    // Times of this form are in the order of their texts.
    started.is_empty() || text(&service["metadata"]["creationTimestamp"]) <= started
}

/// The variables of one Service: none where it has no address.
fn of(service: &Value) -> Vec<(String, String)> {
    let address = text(&service["spec"]["clusterIP"]);
    if matches!(address, "" | "None") {
        return Vec::new();
    }
    let name = variable_name(text(&service["metadata"]["name"]));
    let mut variables = vec![(format!("{name}_SERVICE_HOST"), address.to_owned())];
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    for (index, entry) in ports.enumerate() {
        let port = entry["port"].to_string();
        if index == 0 {
            variables.push((format!("{name}_SERVICE_PORT"), port.clone()));
        }
        if let Some(called) = entry["name"].as_str() {
            let called = variable_name(called);
            variables.push((format!("{name}_SERVICE_PORT_{called}"), port.clone()));
        }
        let protocol = match text(&entry["protocol"]) {
            "" => "TCP",
            protocol => protocol,
        };
        let lower = protocol.to_lowercase();
        let host = match address.contains(':') {
            true => format!("[{address}]"),
            false => address.to_owned(),
        };
        let url = format!("{lower}://{host}:{port}");
        if index == 0 {
            variables.push((format!("{name}_PORT"), url.clone()));
        }
        let prefix = format!("{name}_PORT_{port}_{}", protocol.to_uppercase());
        variables.extend([
            (prefix.clone(), url),
            (format!("{prefix}_PROTO"), lower),
            (format!("{prefix}_PORT"), port),
            (format!("{prefix}_ADDR"), address.to_owned()),
        ]);
    }
    variables
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_found_by_its_host_and_each_of_its_ports() {
        let service = json!({"metadata": {"name": "web-app"}, "spec": {"clusterIP": "fd00::7", "ports": [
            {"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP"}]}});
        let lines: Vec<String> = of(&service)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "WEB_APP_SERVICE_HOST=fd00::7",
            "WEB_APP_SERVICE_PORT=80",
            "WEB_APP_SERVICE_PORT_HTTP=80",
            "WEB_APP_PORT=tcp://[fd00::7]:80",
            "WEB_APP_PORT_80_TCP=tcp://[fd00::7]:80",
            "WEB_APP_PORT_80_TCP_PROTO=tcp",
            "WEB_APP_PORT_80_TCP_PORT=80",
            "WEB_APP_PORT_80_TCP_ADDR=fd00::7",
            "WEB_APP_PORT_53_UDP=udp://[fd00::7]:53",
            "WEB_APP_PORT_53_UDP_PROTO=udp",
            "WEB_APP_PORT_53_UDP_PORT=53",
            "WEB_APP_PORT_53_UDP_ADDR=fd00::7",
        ];
        assert_eq!(lines, expected);
        assert!(of(&json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}})).is_empty());
    }
}
