//! The record of cluster IPs is repaired while the server runs. Upstream: repairip_test.go.

use std::time::Duration;

use super::*;
use crate::bootstrap::addresses::keep_repairing;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// So much time passes, in which the server repairs.
async fn pass(server: &Server, seconds: u64) {
    let repairing = keep_repairing(server.server.shared().clone());
    let passed = tokio::time::timeout(Duration::from_secs(seconds), repairing).await;
    assert!(passed.is_err(), "it never ends");
}

async fn service(server: &Server, name: &str) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}});
    assert_eq!(server.post(SERVICES, service).await.0, 201);
}

async fn parent(server: &Server, address: &str) -> String {
    let (_, marker) = server.get(&format!("{ADDRESSES}/{address}")).await;
    let name = marker["spec"]["parentRef"]["name"].as_str();
    name.unwrap_or("none").to_owned()
}

async fn events(server: &Server) -> Vec<String> {
    let (_, events) = server.get("/api/v1/namespaces/default/events").await;
    let events = events["items"].as_array().unwrap().iter();
    let text = |event: &Value, member: &str| event[member].as_str().unwrap().to_owned();
    events
        .map(|event| format!("{} {}", text(event, "reason"), text(event, "message")))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_address_whose_marker_was_deleted_is_marked_again() {
    let server = Server::new();
    service(&server, "web").await;
    server.delete(&format!("{ADDRESSES}/10.0.0.77")).await;
    assert_eq!(parent(&server, "10.0.0.77").await, "none");
    pass(&server, 1).await;
    assert_eq!(parent(&server, "10.0.0.77").await, "web");
    assert_eq!(
        events(&server).await,
        ["ClusterIPNotAllocated Cluster IP [IPv4]: 10.0.0.77 is not allocated; repairing"]
    );
    pass(&server, 600).await;
    assert_eq!(events(&server).await.len(), 1, "nothing is repaired twice");
}

#[tokio::test(start_paused = true)]
async fn a_marker_of_no_service_goes_after_a_minute() {
    let server = Server::new();
    let leaked = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.0.0.78",
        "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "gone"}}});
    assert_eq!(server.post(ADDRESSES, leaked).await.0, 201);
    pass(&server, 50).await;
    assert_eq!(parent(&server, "10.0.0.78").await, "gone");
    pass(&server, 300).await;
    assert_eq!(parent(&server, "10.0.0.78").await, "none");
    assert_eq!(
        events(&server).await,
        [
            "IPAddressNotAllocated IPAddress: 10.0.0.78 for Service default/gone appears to have leaked: cleaning up"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_services_with_one_address_the_marked_one_keeps_it() {
    let server = Server::new();
    service(&server, "web").await;
    server.delete(&format!("{ADDRESSES}/10.0.0.77")).await;
    service(&server, "another").await;
    pass(&server, 600).await;
    assert_eq!(parent(&server, "10.0.0.77").await, "another");
    assert_eq!(events(&server).await, [""; 0]);
}
