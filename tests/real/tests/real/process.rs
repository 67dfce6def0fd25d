//! The process itself: what a standby asks for, how it ends, and what it says when it may do nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use real_tests::wait::{self, Seen};
use real_tests::{
    Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, audit, installation, manager, process,
};

fn cluster() -> Option<Cluster> {
    let installation = installation::for_test()?;
    Some(Cluster::start(&installation, ClusterOptions::default()).unwrap())
}

fn start(cluster: &Cluster, name: &str) -> Manager {
    let options = ManagerOptions {
        user: format!("{}-{name}", manager::USER),
        leader_elect: true,
        ..ManagerOptions::default()
    };
    Manager::start_named(cluster, Flavor::Ours, name, &options).unwrap()
}

/// Long enough for the caches to fill on a busy machine.
const WARM_UP: Duration = Duration::from_secs(15);
/// Long enough for retries, discovery and token renewals to show themselves.
const WATCHED: Duration = Duration::from_secs(45);

#[test]
fn a_standby_watches_and_asks_for_the_lease_and_for_nothing_else() {
    let Some(cluster) = cluster() else {
        return;
    };
    let _leader = start(&cluster, "leader");
    let _standby = start(&cluster, "standby");
    std::thread::sleep(WARM_UP);
    let mut reader = audit::Reader::default();
    reader.read_new(&cluster.audit_log()).unwrap();
    std::thread::sleep(WATCHED);
    let user = format!("{}-standby", manager::USER);
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for entry in reader.read_new(&cluster.audit_log()).unwrap() {
        if entry.user.username == user {
            let what = format!("{} {}", entry.verb, entry.resource());
            *asked.entry(what).or_default() += 1;
        }
    }
    asked.retain(|what, _| !what.starts_with("watch ") && what != "get leases");
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn the_first_signal_asks_and_the_second_does_not() {
    let Some(mut cluster) = cluster() else {
        return;
    };
    let running = start(&cluster, "leader");
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    wait::until("a leader", Duration::from_secs(60), || {
        Ok(match cluster.api.find(lease)? {
            Some(_) => Seen::Ready(()),
            None => Seen::NotYet("there is no lease".to_owned()),
        })
    })
    .unwrap();
    // Nobody answers when the lease is to be given back: the end takes its time.
    let apiserver = cluster.take_apiserver().unwrap();
    apiserver.signal("STOP").unwrap();
    running.process().signal("TERM").unwrap();
    let log = running.process().log().to_owned();
    wait::until("it to stop", Duration::from_secs(20), || {
        let text = std::fs::read_to_string(&log)?;
        Ok(
            match text.contains("a second signal ends the process at once") {
                true => Seen::Ready(()),
                false => Seen::NotYet("not heard yet".to_owned()),
            },
        )
    })
    .unwrap();
    let asked = Instant::now();
    let mut running = running.into_process();
    assert!(running.ended().is_none(), "it still waits");
    running.signal("TERM").unwrap();
    let status = wait::until("its end", Duration::from_secs(5), || {
        Ok(match running.ended() {
            Some(status) => Seen::Ready(status),
            None => Seen::NotYet("still running".to_owned()),
        })
    })
    .unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(asked.elapsed() < Duration::from_secs(5));
    apiserver.signal("CONT").unwrap();
    apiserver.kill();
}

#[test]
fn an_identity_without_rights_is_told_so_and_writes_nothing() {
    let Some(cluster) = cluster() else {
        return;
    };
    let (kubeconfig, _) = cluster
        .user("nobody", "nobody-in-particular", None)
        .unwrap();
    let flags = [
        "controller-manager".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--secure-port=0".to_owned(),
    ];
    let program = installation::steersman_binary().unwrap();
    let mut running =
        process::Process::start("without-rights", &program, &flags, cluster.folder()).unwrap();
    // Somebody may just be repairing its roles: it waits, and says for what.
    let told = wait::until("its complaint", Duration::from_secs(60), || {
        assert!(running.ended().is_none(), "it goes on asking");
        let log = std::fs::read_to_string(running.log())?;
        let told = log
            .lines()
            .find(|line| line.contains("The API server refuses this identity"));
        Ok(match told {
            Some(line) => Seen::Ready(line.to_owned()),
            None => Seen::NotYet(log),
        })
    })
    .unwrap();
    assert!(told.contains("nobody-in-particular"), "{told}");
    assert!(told.contains("system:kube-controller-manager"), "{told}");
    let entries = audit::read(&cluster.audit_log()).unwrap();
    let wrote = entries
        .iter()
        .any(|entry| entry.user.username == "nobody-in-particular" && entry.is_write());
    assert!(!wrote, "nothing is written to the cluster");
}

/// During a migration the controllers that move are under a second lock, and all of them run.
#[test]
fn leader_migration_takes_a_second_lock() {
    let Some(cluster) = cluster() else {
        return;
    };
    let mapping = cluster.path("migration.yaml");
    let config = "kind: LeaderMigrationConfiguration\n\
        apiVersion: controllermanager.config.k8s.io/v1\n\
        leaderName: moving\n\
        controllerLeaders:\n- {name: replicaset-controller, component: \"*\"}\n";
    std::fs::write(&mapping, config).unwrap();
    let options = ManagerOptions {
        leader_elect: true,
        flags: vec![
            "--enable-leader-migration".to_owned(),
            format!("--leader-migration-config={}", mapping.display()),
        ],
        ..ManagerOptions::default()
    };
    let mut running = Manager::start(&cluster, Flavor::Ours, &options).unwrap();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    for lease in ["kube-controller-manager", "moving"] {
        wait::until(lease, Duration::from_secs(60), || {
            let held = cluster.api.find(&format!("{leases}/{lease}"))?;
            let holder = held.map(|held| held["spec"]["holderIdentity"].clone());
            Ok(match holder.as_ref().and_then(|holder| holder.as_str()) {
                Some(holder) if !holder.is_empty() => Seen::Ready(()),
                _ => Seen::NotYet("nobody holds it".to_owned()),
            })
        })
        .unwrap();
    }
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default";
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = serde_json::json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/web"}]},
            },
        },
    });
    cluster.api.create(deployments, &deployment).unwrap();
    wait::until("a pod", Duration::from_secs(60), || {
        let made = cluster.api.list("/api/v1/namespaces/default/pods")?;
        Ok(match (made.len(), cluster.api.find(accounts)?) {
            (1, Some(_)) => Seen::Ready(()),
            (pods, _) => Seen::NotYet(format!("{pods} pods")),
        })
    })
    .unwrap();
    running.check_alive().unwrap();
    running.stop().unwrap();
}
