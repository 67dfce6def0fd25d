//! Which controllers a manager starts, which it leaves out and how it says so, beside Go's with the same flags; and that
//! none of them is refused anything with the roles that every cluster has.

use std::collections::BTreeSet;
use std::time::Duration;

use real_tests::audit;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(120);
/// Long enough for every controller to list, to look at what is there and to be refused.
const WATCHED: Duration = Duration::from_secs(10);

/// The first of all: the credentials of the others may depend on it.
const FIRST: &str = "serviceaccount-token-controller";

/// Go says that it is skipped and not why; ours names the gate.
const SILENTLY_GATED: &str = "storage-version-migrator-controller";

/// What a manager says of its controllers.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    /// As `/healthz?verbose` has them.
    running: BTreeSet<String>,
    /// The flag `--controllers` leaves them out.
    disabled: BTreeSet<String>,
    gated: BTreeSet<String>,
    /// Those of cloud providers.
    cloud: BTreeSet<String>,
    /// The rest of the configuration turns them off.
    skipped: BTreeSet<String>,
}

#[test]
fn with_default_flags_the_same_controllers_start_as_in_go() {
    let Some(start) = starts_alike("*", &[]) else {
        return;
    };
    assert_eq!(start.running.len(), 39, "upstream's, with the usual files");
    assert_eq!(names(&start.skipped), ["node-ipam-controller"]);
}

/// What kubeadm writes into its static pod.
#[test]
fn with_the_flags_of_kubeadm_the_same_controllers_start_as_in_go() {
    let flags = [
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.244.0.0/16",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--cluster-name=kubernetes",
    ];
    let Some(start) = starts_alike("*,bootstrapsigner,tokencleaner", &flags) else {
        return;
    };
    for name in [
        "bootstrap-signer-controller",
        "token-cleaner-controller",
        "node-ipam-controller",
    ] {
        assert!(start.running.contains(name), "{name}");
    }
    assert_eq!(names(&start.skipped), [] as [&str; 0]);
}

fn names(set: &BTreeSet<String>) -> Vec<&str> {
    set.iter().map(String::as_str).collect()
}

/// Starts Go's manager and then ours on one cluster, and returns what both say.
fn starts_alike(controllers: &str, flags: &[&str]) -> Option<Start> {
    let installation = installation::for_test()?;
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let mut verbose: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    // UPSTREAM: who starts is said at this verbosity.
    verbose.push("--v=1".to_owned());
    let options = ManagerOptions {
        controllers: vec![controllers.to_owned()],
        use_service_account_credentials: true,
        leader_elect: true,
        requests_per_second: None,
        flags: verbose,
        ..ManagerOptions::default()
    };
    let [go, ours] = [Flavor::Go, Flavor::Ours].map(|flavor| start(&cluster, flavor, &options));
    assert_eq!(ours, go, "with --controllers={controllers} {flags:?}");
    let all = [&go.running, &go.disabled, &go.gated, &go.cloud, &go.skipped];
    let told: usize = all.iter().map(|set| set.len()).sum();
    assert_eq!(told, 52, "each of upstream's is told of once");
    Some(go)
}

fn start(cluster: &Cluster, flavor: Flavor, options: &ManagerOptions) -> Start {
    let mut log = audit::Reader::default();
    log.read_new(&cluster.audit_log()).unwrap();
    let mut manager = Manager::start(cluster, flavor, options).unwrap();
    let running = running(&manager);
    assert_eq!(running[0], FIRST, "{flavor:?}");
    let running: BTreeSet<String> = running.into_iter().collect();
    let said = wait::until("it to say who starts", PATIENCE, || {
        let said = std::fs::read_to_string(manager.process().log())?;
        let started = started(flavor, &said);
        Ok(match started == running {
            true => Seen::Ready(said),
            false => Seen::NotYet(format!("{started:?}")),
        })
    })
    .unwrap();
    works(cluster, flavor);
    manager.check_alive().unwrap();
    manager.stop().unwrap();

    let asked = log.read_new(&cluster.audit_log()).unwrap();
    let by_manager: Vec<_> = asked.into_iter().filter(audit::Entry::is_manager).collect();
    assert!(by_manager.len() > 100, "{} requests", by_manager.len());
    let refused = audit::forbidden(&by_manager);
    assert_eq!(refused, [] as [String; 0], "{flavor:?}");

    let told = |what: &str| controllers_in(&said, what);
    let mut gated = told("Controller is disabled by a feature gate");
    let cloud = told("Skipping a cloud provider controller");
    let mut skipped = told("Warning: skipping controller");
    // UPSTREAM: its constructor asks for its gate itself, and does not say so.
    if skipped.contains(SILENTLY_GATED) {
        gated.insert(SILENTLY_GATED.to_owned());
    }
    // UPSTREAM: says it of those as well, after the reason.
    skipped.retain(|name| !gated.contains(name) && !cloud.contains(name));
    Start {
        running,
        disabled: told("Warning: controller is disabled"),
        gated,
        cloud,
        skipped,
    }
}

/// The controllers among the checks of `/healthz`, in order, as soon as there are any.
fn running(manager: &Manager) -> Vec<String> {
    wait::until("controllers in /healthz", PATIENCE, || {
        let answer = manager
            .api
            .send("GET", "/healthz?verbose", "application/json", &[])?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let checks = text
            .lines()
            .filter_map(|line| line.strip_prefix("[+]")?.strip_suffix(" ok"));
        let names: Vec<String> = checks
            .filter(|check| check.ends_with("-controller"))
            .map(str::to_owned)
            .collect();
        Ok(match names.is_empty() {
            false => Seen::Ready(names),
            true => Seen::NotYet(text),
        })
    })
    .unwrap()
}

/// Those that its log says it has started: Go one by one, ours in one line.
fn started(flavor: Flavor, said: &str) -> BTreeSet<String> {
    match flavor {
        Flavor::Go => controllers_in(said, "Controller starting..."),
        Flavor::Ours => {
            let line = said.lines().find(|line| line.contains("\"leading\""));
            let words = line
                .unwrap_or("")
                .split(|c: char| !c.is_alphanumeric() && c != '-');
            words
                .filter(|word| word.ends_with("-controller"))
                .map(str::to_owned)
                .collect()
        }
    }
}

/// The controllers of the lines with this message.
fn controllers_in(said: &str, message: &str) -> BTreeSet<String> {
    let message = format!("\"{message}\"");
    let lines = said.lines().filter(|line| line.contains(&message));
    let named = lines.filter_map(|line| line.split_once("controller=\"")?.1.split('"').next());
    named.map(str::to_owned).collect()
}

/// A namespace gets what controllers under several accounts give it, and time passes.
fn works(cluster: &Cluster, flavor: Flavor) {
    let name = format!("seen-by-{}", flavor.name());
    let namespace = json!({"metadata": {"name": name}});
    cluster
        .api
        .create("/api/v1/namespaces", &namespace)
        .unwrap();
    for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        wait::until(path, PATIENCE, || {
            let found = cluster
                .api
                .find(&format!("/api/v1/namespaces/{name}/{path}"))?;
            Ok(match found {
                Some(_) => Seen::Ready(()),
                None => Seen::NotYet("it is missing".to_owned()),
            })
        })
        .unwrap();
    }
    std::thread::sleep(WATCHED);
}
