//! The API server picks the leader, as a test plays it.

use serde_json::json;

use super::*;

fn candidate(server: &LeaseServer, identity: &str) -> Candidate {
    Candidate::with(server, identity, clock(), |config| {
        config.coordinated = true
    })
}

fn given_to(holder: &str) -> serde_json::Value {
    json!({
        "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3,
        "strategy": "OldestEmulationVersion", "renewTime": "2023-11-14T22:13:20.000000Z",
    })
}

#[tokio::test(start_paused = true)]
async fn a_lease_assigned_to_another_is_not_taken() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    pass(60.0).await;
    assert!(!one.leads(), "there is no lease");
    server.put(given_to("other"));
    pass(60.0).await;
    assert!(!one.leads(), "also not when the other's has run out");
    assert!(server.take_requests().iter().all(|line| line == "GET"));
}

#[tokio::test(start_paused = true)]
async fn who_is_given_the_lease_keeps_it_until_the_end_of_the_term() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    server.put(given_to("one"));
    pass(60.0).await;
    assert!(one.may_write());
    let spec = server.lease()["spec"].clone();
    assert_eq!(spec["strategy"], "OldestEmulationVersion");
    assert_eq!(spec["leaseTransitions"], 3);

    server.edit(|lease| lease["spec"]["preferredHolder"] = json!("two"));
    server.take_requests();
    pass(5.0).await;
    assert!(!one.leads(), "it steps down");
    pass(60.0).await;
    let requests = server.take_requests();
    assert!(
        requests.iter().all(|line| line == "GET"),
        "and lets it run out: {requests:?}"
    );
    assert_eq!(server.lease()["spec"]["preferredHolder"], "two");

    let two = candidate(&server, "two");
    server.put(given_to("two"));
    pass(10.0).await;
    assert!(two.leads() && !one.leads());
    two.stop().await;
    assert_eq!(server.holder(), "", "given back");
    assert_eq!(server.lease()["spec"]["strategy"], "OldestEmulationVersion");
}
