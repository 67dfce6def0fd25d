//! Two managers and one lease: one of them writes, always, and never both.

use std::time::{Duration, Instant};

use real_tests::audit;
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation, manager};
use serde_json::json;

/// Shorter than the defaults, so that several takeovers fit into a test.
const LEASE: Duration = Duration::from_secs(6);
/// From the end of the lease to the first write of the next leader: a retry, with its jitter, and the
/// start of its controllers on a busy machine.
const SLACK: Duration = Duration::from_secs(6);
const TAKEOVERS: usize = 4;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CONTROLLERS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

#[test]
fn go_and_go_take_turns() {
    take_turns([Flavor::Go, Flavor::Go]);
}

#[test]
fn go_and_ours_take_turns() {
    if manager::ours_has(&CONTROLLERS) {
        take_turns([Flavor::Go, Flavor::Ours]);
    }
}

/// The API server picks the leader among candidates of both programs, and another one when it is gone.
#[test]
fn go_and_ours_are_candidates() {
    if !manager::ours_has(&CONTROLLERS) {
        return;
    }
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        apiserver_flags: vec![
            "--feature-gates=CoordinatedLeaderElection=true".to_owned(),
            "--runtime-config=coordination.k8s.io/v1beta1=true".to_owned(),
        ],
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&installation, options).unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "default"}});
    cluster.api.create(accounts, &account).unwrap();
    let gate = "--feature-gates=CoordinatedLeaderElection=true";
    let mut ours = start_with(&cluster, Flavor::Ours, 0, &[gate]);
    churn_until_written(&cluster, 0, Duration::from_secs(60));
    let candidates = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates";
    let known = cluster.api.list(candidates).unwrap();
    let spec = &known[0]["spec"];
    assert_eq!(spec["leaseName"], "kube-controller-manager");
    assert_eq!(spec["strategy"], "OldestEmulationVersion");
    assert_eq!(spec["binaryVersion"], "1.36.0");

    let mut go = start_with(&cluster, Flavor::Go, 1, &[gate]);
    churn_until_written(&cluster, 1, Duration::from_secs(60));
    ours.check_alive().unwrap();
    // Go's takes over when ours leaves, and ours again when Go's is gone.
    ours.stop().unwrap();
    churn_until_written(&cluster, 2, Duration::from_secs(90));
    go.check_alive().unwrap();
    let mut back = start_with(&cluster, Flavor::Ours, 2, &[gate]);
    go.kill();
    churn_until_written(&cluster, 3, Duration::from_secs(90));
    back.check_alive().unwrap();
}

fn take_turns(flavors: [Flavor; 2]) {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    cluster
        .api
        .create(
            "/api/v1/namespaces/default/serviceaccounts",
            &json!({"metadata": {"name": "default"}}),
        )
        .unwrap();
    let mut leader = start(&cluster, flavors[0], 0);
    churn_until_written(&cluster, 0, Duration::from_secs(60));
    let mut standby = start(&cluster, flavors[1], 1);
    for takeover in 1..=TAKEOVERS {
        // Crash and clean exit in turn; whoever left comes back as the next standby.
        let flavor = leader.flavor;
        if takeover % 2 == 1 {
            leader.kill();
        } else {
            leader.stop().unwrap();
        }
        let waited =
            churn_until_written(&cluster, takeover, LEASE + SLACK + Duration::from_secs(30));
        assert!(
            waited <= LEASE + SLACK,
            "takeover {takeover} took {waited:?}"
        );
        leader = standby;
        leader.check_alive().unwrap();
        standby = start(&cluster, flavor, takeover + 1);
    }
    never_two_writers(&cluster);
}

/// Each incarnation is a user of its own, so that the audit log tells who wrote.
fn start(cluster: &Cluster, flavor: Flavor, incarnation: usize) -> Manager {
    start_with(cluster, flavor, incarnation, &[])
}

fn start_with(cluster: &Cluster, flavor: Flavor, incarnation: usize, more: &[&str]) -> Manager {
    let mut options = ManagerOptions {
        user: format!("{}-{incarnation}", manager::USER),
        controllers: CONTROLLERS.map(str::to_owned).to_vec(),
        leader_elect: true,
        flags: vec![
            format!("--leader-elect-lease-duration={}s", LEASE.as_secs()),
            "--leader-elect-renew-deadline=4s".to_owned(),
            "--leader-elect-retry-period=1s".to_owned(),
        ],
        ..ManagerOptions::default()
    };
    options.flags.extend(more.iter().map(ToString::to_string));
    Manager::start_named(
        cluster,
        flavor,
        &format!("{}-{incarnation}", flavor.name()),
        &options,
    )
    .unwrap()
}

/// Creates a Deployment and waits for its pod, which only a leader makes; returns how long that took.
fn churn_until_written(cluster: &Cluster, number: usize, deadline: Duration) -> Duration {
    let name = format!("churn-{number}");
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/churn:1"}]},
            },
        },
    });
    cluster.api.create(DEPLOYMENTS, &object).unwrap();
    let started = now();
    real_tests::wait::until(&name, deadline, || {
        let seen = cluster.api.get(&format!("{DEPLOYMENTS}/{name}"))?;
        Ok(match seen["status"]["replicas"].as_u64() {
            Some(1) => real_tests::wait::Seen::Ready(()),
            _ => real_tests::wait::Seen::NotYet(seen["status"].to_string()),
        })
    })
    .unwrap();
    started.elapsed()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a takeover is measured in real time"
)]
fn now() -> Instant {
    Instant::now()
}

/// Writers, in the order of their requests, come in blocks: who has lost the lease never writes again.
fn never_two_writers(cluster: &Cluster) {
    let mut entries = audit::read(&cluster.audit_log()).unwrap();
    entries.retain(|entry| {
        // Events are sent late and by anyone; the lease itself is what they contend for.
        let free = matches!(entry.resource().as_str(), "leases" | "events");
        entry.user.username.starts_with(manager::USER)
            && entry.is_write()
            && !free
            && entry.code() < 300
            && entry.namespace() == "default"
    });
    entries.sort_by(|a, b| {
        a.request_received_timestamp
            .cmp(&b.request_received_timestamp)
    });
    let mut writers: Vec<&str> = entries
        .iter()
        .map(|entry| entry.user.username.as_str())
        .collect();
    writers.dedup();
    let mut unique = writers.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(
        writers.len(),
        unique.len(),
        "two managers wrote in turn: {writers:?}"
    );
    assert_eq!(writers.len(), TAKEOVERS + 1, "{writers:?}");
}
