//! The bed itself: before it judges anything, it must stand.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use real_tests::installation::{self, KUBERNETES};
use real_tests::kubelet::Kubelet;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions};
use real_tests::{audit, building};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const READY_SINCE: &str = "2026-01-01T00:00:00Z";

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/web:1"}]},
            },
        },
    })
}

#[test]
fn the_go_manager_brings_a_deployment_to_its_pods() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let version = cluster.api.get("/version").unwrap();
    assert_eq!(version["gitVersion"], KUBERNETES);

    let options = ManagerOptions {
        use_service_account_credentials: true,
        ..ManagerOptions::default()
    };
    let mut manager = Manager::start(&cluster, Flavor::Go, &options).unwrap();
    cluster
        .api
        .create(
            "/apis/apps/v1/namespaces/default/deployments",
            &deployment(3),
        )
        .unwrap();
    let kubelet = Kubelet::new(&cluster.api, "default");
    wait::until("3 pods", PATIENCE, || {
        let pods = kubelet.pods("app=web")?;
        Ok(if pods.len() == 3 {
            Seen::Ready(())
        } else {
            Seen::NotYet(format!("{} pods", pods.len()))
        })
    })
    .unwrap();
    for pod in kubelet.pods("app=web").unwrap() {
        kubelet
            .set_ready(pod["metadata"]["name"].as_str().unwrap(), true, READY_SINCE)
            .unwrap();
    }
    cluster
        .kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"])
        .unwrap();
    manager.check_alive().unwrap();

    let entries = audit::read(&cluster.audit_log()).unwrap();
    let by_manager: Vec<_> = entries
        .iter()
        .filter(|entry| entry.is_manager())
        .cloned()
        .collect();
    let counts = audit::count(by_manager.iter().filter(|entry| entry.is_write()));
    assert_eq!(
        counts.get(&("create".to_owned(), "pods".to_owned())),
        Some(&3),
        "{counts:?}"
    );
    assert_eq!(audit::forbidden(&by_manager), [] as [String; 0]);
    let usage = manager.usage().unwrap();
    assert!(
        usage.cpu_seconds > 0.0 && usage.resident_bytes > 1 << 20,
        "{usage:?}"
    );
}

#[test]
fn a_server_that_dies_at_its_start_is_named_with_its_last_words() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        apiserver_flags: vec!["--no-such-flag".to_owned()],
        ..ClusterOptions::default()
    };
    let failure = format!(
        "{:#}",
        Cluster::start(&installation, options).err().unwrap()
    );
    assert!(
        failure.contains("kube-apiserver ended at its start"),
        "{failure}"
    );
    assert!(
        failure.contains("unknown flag: --no-such-flag"),
        "{failure}"
    );
}

#[test]
fn a_port_that_somebody_else_has_taken_is_named() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let mut cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    cluster.take_apiserver().unwrap().kill();
    let address = cluster.address();
    let (squatter, over) = (TcpListener::bind(address).unwrap(), AtomicBool::new(false));
    // Hangs up on everyone at once: whoever is left waiting would wait for the end of a time-out.
    let failure = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(squatter.accept());
            }
        });
        let failure = cluster.start_apiserver().err();
        over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(address));
        format!("{:#}", failure.unwrap())
    });
    for part in [
        "kube-apiserver ended at its start",
        "address already in use",
        "kube-apiserver.log",
    ] {
        assert!(failure.contains(part), "{failure}");
    }
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing_running() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        etcd_file_limit: Some(1024),
        ..ClusterOptions::default()
    };
    let failure = Cluster::start(&installation, options).err().unwrap();
    let failure = format!("{failure:#}");
    assert!(failure.contains("etcd ended at its start"), "{failure}");
    assert!(failure.contains("file too large"), "{failure}");
    let log = failure.split("last lines of ").nth(1).unwrap();
    let folder = log.split("/etcd.log:").next().unwrap();
    assert!(folder.contains("steersman-real-"), "{failure}");
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let started = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let started = String::from_utf8_lossy(&started);
        assert!(!started.contains(folder), "{started} still runs");
    }
    // Where nothing can be written at all, a build says so before it begins.
    let nowhere = std::path::Path::new("/dev/full/kubernetes/kubectl");
    let failure = building::go_build(std::path::Path::new("."), "./", "", nowhere).err();
    let failure = format!("{:#}", failure.unwrap());
    assert!(
        failure.contains("cannot create /dev/full/kubernetes"),
        "{failure}"
    );
}

#[test]
fn a_go_build_that_fails_is_named_and_leaves_nothing_behind() {
    if installation::for_test().is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("steersman-broken-go-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("go.mod"), "module broken\n\ngo 1.21\n").unwrap();
    std::fs::write(
        folder.join("main.go"),
        "package main\n\nfunc main() { no }\n",
    )
    .unwrap();
    let failure = building::go_build(&folder, "./", "", &folder.join("out/broken"));
    let left = std::fs::read_dir(folder.join("out")).unwrap().count();
    std::fs::remove_dir_all(&folder).unwrap();
    let failure = format!("{:#}", failure.err().unwrap());
    assert!(failure.contains("go build of ./ in"), "{failure}");
    assert_eq!(left, 0);
}

#[test]
fn state_survives_a_crash_of_the_api_server() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let mut cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let path = "/api/v1/namespaces/default/configmaps";
    cluster
        .api
        .create(path, &json!({"metadata": {"name": "kept"}}))
        .unwrap();
    cluster.take_apiserver().unwrap().kill();
    assert!(cluster.api.get("/version").is_err());
    cluster.start_apiserver().unwrap();
    assert!(cluster.api.find(&format!("{path}/kept")).unwrap().is_some());
}
