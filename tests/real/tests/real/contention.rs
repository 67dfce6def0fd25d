//! Two managers and one lease: one of them writes, always, and never both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use real_tests::audit;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation, manager};
use serde_json::json;

/// Shorter than the default, so that many takeovers fit into a test.
const LEASE: Duration = Duration::from_secs(6);
/// What may pass beyond a lease without a writer.
const SLACK: Duration = Duration::from_secs(2);
/// How long managers are stopped and killed in turn.
const CHURNED: Duration = Duration::from_secs(120);
/// A new standby sees the lease before its holder goes.
const OBSERVED: Duration = Duration::from_secs(2);
/// How many Deployments are scaled in turn, and how often one of them.
const CHURNING: usize = 5;
const TICK: Duration = Duration::from_millis(200);
const DAY: Micros = 86_400_000_000;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CONTROLLERS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

#[test]
fn go_and_go_take_turns() {
    take_turns([Flavor::Go, Flavor::Go]);
}

#[test]
fn go_and_ours_take_turns() {
    take_turns([Flavor::Go, Flavor::Ours]);
}

/// The API server picks the leader among candidates of both programs, and another one when it is gone.
#[test]
fn go_and_ours_are_candidates() {
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
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "default"}});
    cluster.api.create(accounts, &account).unwrap();
    let mut log = audit::Reader::default();
    let mut leader = start(&cluster, flavors[0], 0);
    let (over, mut takeovers) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| churn(&cluster, &over));
        // Whatever fails here, the other thread has to end for this one to fail.
        let _ends = Ends(&over);
        await_writes_of(&cluster, &mut log, 0);
        let started = Instant::now();
        let mut standby = start(&cluster, flavors[1], 1);
        while started.elapsed() < CHURNED {
            std::thread::sleep(OBSERVED);
            // Crashes and clean exits of both; whoever left comes back as the next standby.
            let flavor = leader.flavor;
            if takeovers % 4 < 2 {
                leader.kill();
            } else {
                leader.stop().unwrap();
            }
            takeovers += 1;
            await_writes_of(&cluster, &mut log, takeovers);
            leader = standby;
            leader.check_alive().unwrap();
            standby = start(&cluster, flavor, takeovers + 1);
        }
    });
    let writes = writes(&cluster);
    never_two_writers(&writes, takeovers + 1);
    never_none(&writes);
}

/// Ends the churn, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Scales a few Deployments up and down, so that a leader always has something to write.
fn churn(cluster: &Cluster, over: &AtomicBool) {
    for number in 0..CHURNING {
        create_deployment(cluster, &format!("churning-{number}"));
    }
    for tick in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("{DEPLOYMENTS}/churning-{}", tick % CHURNING);
        let replicas = 1 + tick / CHURNING % 2;
        let patch = json!({"spec": {"replicas": replicas}});
        cluster.api.merge_patch(&path, &patch).unwrap();
        std::thread::sleep(TICK);
    }
}

/// Waits until the manager of this number has written something.
fn await_writes_of(cluster: &Cluster, log: &mut audit::Reader, incarnation: usize) {
    let user = format!("{}-{incarnation}", manager::USER);
    wait::until(&user, Duration::from_secs(90), || {
        let new = log.read_new(&cluster.audit_log())?;
        let wrote = new
            .iter()
            .any(|entry| entry.user.username == user && counts(entry));
        Ok(if wrote {
            Seen::Ready(())
        } else {
            Seen::NotYet("it has written nothing yet".to_owned())
        })
    })
    .unwrap();
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
            // As often as that fits into the slack twice, with client-go's jitter of up to 1.2 times more.
            "--leader-elect-retry-period=300ms".to_owned(),
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

/// Creates a Deployment and waits for its pod, which only a leader makes.
fn churn_until_written(cluster: &Cluster, number: usize, deadline: Duration) {
    let name = format!("churn-{number}");
    create_deployment(cluster, &name);
    wait::until(&name, deadline, || {
        let seen = cluster.api.get(&format!("{DEPLOYMENTS}/{name}"))?;
        Ok(match seen["status"]["replicas"].as_u64() {
            Some(1) => Seen::Ready(()),
            _ => Seen::NotYet(seen["status"].to_string()),
        })
    })
    .unwrap();
}

fn create_deployment(cluster: &Cluster, name: &str) {
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
}

/// A successful write to what the managers contend for. Events are sent late and by anyone.
fn counts(entry: &audit::Entry) -> bool {
    let free = matches!(entry.resource().as_str(), "leases" | "events");
    entry.user.username.starts_with(manager::USER)
        && entry.is_write()
        && !free
        && entry.code() < 300
        && entry.namespace() == "default"
}

/// Who wrote when, in order.
fn writes(cluster: &Cluster) -> Vec<(Micros, String)> {
    let mut entries = audit::read(&cluster.audit_log()).unwrap();
    entries.retain(counts);
    entries.sort_by(|a, b| {
        a.request_received_timestamp
            .cmp(&b.request_received_timestamp)
    });
    entries
        .into_iter()
        .map(|entry| {
            let at = parse_time_of_day(&entry.request_received_timestamp).unwrap();
            (at, entry.user.username)
        })
        .collect()
}

/// Writers, in the order of their requests, come in blocks: who has lost the lease never writes again.
fn never_two_writers(writes: &[(Micros, String)], expected: usize) {
    let mut writers: Vec<&str> = writes.iter().map(|(_, user)| user.as_str()).collect();
    writers.dedup();
    let mut unique = writers.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(
        writers.len(),
        unique.len(),
        "two managers wrote in turn: {writers:?}"
    );
    assert_eq!(writers.len(), expected, "{writers:?}");
}

/// From one write to the next it never takes longer than a lease lasts, and two seconds: for tries to get it, and
/// for controllers to start.
fn never_none(writes: &[(Micros, String)]) {
    let gaps = writes.windows(2).map(|pair| {
        let ((before, old), (after, new)) = (&pair[0], &pair[1]);
        ((after + DAY - before) % DAY, old, new)
    });
    let (gap, old, new) = gaps.max().unwrap();
    let longest = format!("the longest time without a writer: {gap} us, from {old} to {new}");
    installation::say(&longest);
    assert!(gap <= (LEASE + SLACK).as_micros(), "{longest}");
}

/// Microseconds.
type Micros = u128;

/// Reads the end of `2026-01-01T00:00:00.000000Z`.
fn parse_time_of_day(text: &str) -> Option<Micros> {
    let (_, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let seconds = time.split(':').try_fold(0, |sum: Micros, part| {
        Some(sum * 60 + part.parse::<Micros>().ok()?)
    })?;
    let fraction: Micros = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    Some(seconds * 1_000_000 + fraction)
}
