use super::*;

fn options(arguments: &[&str]) -> Result<Options, Errors> {
    match Options::parse(arguments.iter().copied(), "kube-controller-manager")? {
        Command::Run(options) => Ok(*options),
        Command::Print(text) => panic!("{text}"),
    }
}

fn check_error(arguments: &[&str], expected: &str) {
    let error = options(arguments).expect_err("must be refused").to_string();
    assert_eq!(error, expected);
}

#[test]
fn configz_is_upstreams() {
    let flags = flags::table().parse([
        "--kubeconfig=kcm.kubeconfig",
        "--use-service-account-credentials",
        "--cluster-cidr=10.244.0.0/16",
        "--allocate-node-cidrs",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--cluster-signing-cert-file=ca.crt",
        "--cluster-signing-key-file=ca.key",
        "--service-account-private-key-file=sa.key",
        "--root-ca-file=certs/apiserver.crt",
    ]);
    let config = Config::read(&flags.unwrap());
    let expected: serde_json::Value =
        serde_json::from_str(include_str!("../testdata/configz.json")).unwrap();
    let mut expected = expected["kubecontrollermanager.config.k8s.io"].clone();
    let object = expected.as_object_mut().unwrap();
    object.remove("kind");
    object.remove("apiVersion");
    let actual: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    for (group, value) in expected.as_object().unwrap() {
        assert_eq!(actual[group], *value, "{group}");
    }
    assert_eq!(actual, expected);
}

#[test]
fn defaults_are_what_upstream_runs_with() {
    let options = options(&[]).unwrap();
    assert_eq!(
        options.serving.address.unwrap().to_string(),
        "0.0.0.0:10257"
    );
    assert!(options.serving.http2 && !options.rate_given && options.warnings.is_empty());
    assert_eq!(
        options.authorization.always_allow_paths,
        ["/healthz", "/readyz", "/livez"]
    );
    assert_eq!(options.controller_shutdown_timeout, Duration::from_secs(10));
    assert_eq!(options.config.generic.controllers, ["*"]);
}

#[test]
fn the_secure_port_can_be_turned_off() {
    assert_eq!(options(&["--secure-port=0"]).unwrap().serving.address, None);
}

#[test]
fn aliases_become_names() {
    let options = options(&["--controllers=*,-job,tokencleaner"]).unwrap();
    assert_eq!(
        options.config.generic.controllers,
        ["*", "-job-controller", "token-cleaner-controller"]
    );
}

#[test]
fn help_and_version_win() {
    let print = |arguments: &[&str]| match Options::parse(arguments.iter().copied(), "x") {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(print(&["--secure-port=-1", "--help"]).contains("--secure-port int"));
    assert!(print(&["--version"]).starts_with("Kubernetes v1.36."));
    assert!(print(&["--version=raw"]).starts_with("version.Info{Major:\"1\""));
    assert!(options(&["--version=false"]).is_ok());
}

#[test]
fn help_says_what_is_not_built() {
    let Ok(Command::Print(text)) = Options::parse(["-h"], "x") else {
        panic!()
    };
    let missing = controllers::ALL
        .iter()
        .any(|one| !one.is_built() && !one.cloud);
    let says = "Controllers that this build does not have yet: ";
    assert_eq!(text.contains(says), missing, "{text}");
}

#[test]
fn rules_between_flags_name_the_flag() {
    check_error(
        &["--secure-port=70000"],
        "--secure-port: 70000 must be between 0 and 65535, inclusive. 0 for turning off secure port",
    );
    check_error(
        &["--leader-elect-resource-lock=endpoints"],
        "--leader-elect-resource-lock: resourceLock value must be \"leases\"",
    );
    check_error(
        &["--leader-elect-lease-duration=10s"],
        "--leader-elect-lease-duration: must be greater than --leader-elect-renew-deadline",
    );
    check_error(
        &["--leader-elect-renew-deadline=2s"],
        "--leader-elect-renew-deadline: must be greater than 1.2 times --leader-elect-retry-period",
    );
    check_error(
        &["--cidr-allocator-type=CloudAllocator"],
        "--cidr-allocator-type: built-in cloud providers are disabled. The ipam CloudAllocator is not available; use RangeAllocator",
    );
    check_error(
        &["--service-cluster-ip-range=1.0.0.0/8,2.0.0.0/8,3.0.0.0/8"],
        "--service-cluster-ip-range: can not contain more than two entries",
    );
    check_error(
        &["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0"],
        "--cluster-cidr: \"10.0.0.0\" is not an address range such as 10.244.0.0/16",
    );
    check_error(
        &["--allocate-node-cidrs"],
        "--allocate-node-cidrs: Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set",
    );
    check_error(
        &["--tls-min-version=1.2"],
        "--tls-min-version: unknown tls version \"1.2\"; use VersionTLS12 or VersionTLS13",
    );
    check_error(
        &["--requestheader-group-headers= "],
        "--requestheader-group-headers: has an empty value",
    );
    check_error(
        &["--logging-format=xml"],
        "--logging-format: Unsupported log format \"xml\"; use text or json",
    );
    check_error(
        &["--logging-format=json", "--vmodule=a=1"],
        "--vmodule: Only supported for text log format",
    );
    check_error(
        &["--log-text-split-stream"],
        "--log-text-split-stream: Feature LoggingAlphaOptions is disabled",
    );
    check_error(
        &["--log-flush-frequency=0s"],
        "--log-flush-frequency: must be greater than zero",
    );
    check_error(
        &["--show-hidden-metrics-for-version=1.2"],
        "--show-hidden-metrics-for-version: must be omitted or have the value '1.35'. Only the previous minor version is allowed",
    );
    check_error(
        &["--allow-metric-labels=a=b"],
        "--allow-metric-labels: \"a\" must be a metric's name and a label's name, separated by a comma",
    );
}

/// Every flag whose type can be wrong, with a value that is.
#[test]
fn every_flag_with_a_wrong_value_is_named() {
    let free = ["string", "strings", "stringToString", "version"];
    let mut checked = 0;
    for flag in flags::table() {
        let kind = flag.kind.type_name();
        if free.contains(&kind) {
            continue;
        }
        let error = options(&[&format!("--{}=@wrong@", flag.name)]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("--{}", flag.name)),
            "{}: {text}",
            flag.name
        );
        assert!(!text.contains('\n'), "one sentence: {text}");
        checked += 1;
    }
    assert!(checked > 90, "{checked}");
}

// UPSTREAM: only these have a bound; others with no workers do nothing.
#[test]
fn numbers_out_of_range_are_named() {
    for what in [
        "concurrent-job-syncs",
        "concurrent-cron-job-syncs",
        "concurrent-daemonset-syncs",
        "concurrent-statefulset-syncs",
        "concurrent-ephemeralvolume-syncs",
        "concurrent-resourceclaim-syncs",
        "concurrent-device-taint-eviction-syncs",
    ] {
        for number in [0, -1] {
            let given = format!("--{what}={number}");
            let error = options(&[&given]).map(drop).unwrap_err().to_string();
            assert!(error.contains(&format!("--{what}")), "{error}");
        }
    }
}

#[test]
fn a_rate_needs_a_burst() {
    check_error(
        &["--kube-api-burst=0"],
        "--kube-api-burst: must be greater than 0 while --kube-api-qps is greater than 0",
    );
    assert!(
        options(&["--kube-api-qps=-1", "--kube-api-burst=0"])
            .unwrap()
            .rate_given
    );
}

#[test]
fn stars_end_always_allowed_paths() {
    assert!(options(&["--authorization-always-allow-paths=/a/*,/b"]).is_ok());
    check_error(
        &["--authorization-always-allow-paths=/a/*/b"],
        "--authorization-always-allow-paths: only trailing * allowed in \"/a/*/b\"",
    );
}

#[test]
fn all_errors_are_reported_at_once() {
    let error = options(&[
        "--secure-port=-1",
        "--cloud-provider=aws",
        "--feature-gates=X=true",
    ])
    .unwrap_err();
    assert_eq!(error.0.len(), 3, "{error}");
}

#[test]
fn files_are_looked_at_before_anything_starts() {
    let missing = options(&["--root-ca-file=/nonexistent/ca.crt"])
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("--root-ca-file: cannot read /nonexistent/ca.crt: No such file"),
        "{missing}"
    );
    let directory = tempfile::tempdir().unwrap();
    let junk = directory.path().join("junk.pem");
    std::fs::write(&junk, "junk").unwrap();
    let junk = junk.to_str().unwrap();
    check_error(
        &[&format!("--service-account-private-key-file={junk}")],
        &format!(
            "--service-account-private-key-file: {junk} holds no private key; it must be PEM with BEGIN [RSA|EC] PRIVATE KEY"
        ),
    );
    check_error(
        &[&format!("--client-ca-file={junk}")],
        &format!(
            "--client-ca-file: {junk} holds no certificate; it must be PEM with BEGIN CERTIFICATE"
        ),
    );
    check_error(
        &[
            "--enable-leader-migration",
            &format!("--leader-migration-config={junk}"),
        ],
        &format!(
            "--leader-migration-config: {junk} line 1: expected a LeaderMigrationConfiguration, not string \"junk\""
        ),
    );
}

#[test]
fn signers_exclude_the_general_pair() {
    let error = options(&[
        "--cluster-signing-cert-file=a",
        "--cluster-signing-kubelet-client-cert-file=b",
    ])
    .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("cannot specify certificate without key"),
        "{error}"
    );
    assert!(error.contains("at the same time"), "{error}");
}

/// One that is not there keeps its own signer from signing, and nobody from starting.
#[test]
fn files_of_signers_need_not_be_there_yet() {
    for signer in [
        "",
        "-kubelet-serving",
        "-kubelet-client",
        "-kube-apiserver-client",
        "-legacy-unknown",
    ] {
        let flag = |what: &str| format!("--cluster-signing{signer}-{what}-file=/none/{what}");
        let (certificate, key) = (flag("cert"), flag("key"));
        assert!(options(&[&certificate, &key]).is_ok(), "{certificate}");
    }
}

#[test]
fn metric_labels_may_have_commas() {
    let options = options(&["--allow-metric-labels=m,l='a,b'"]).unwrap();
    assert_eq!(
        options.metrics.allowed_labels[&("m".into(), "l".into())],
        ["a", "b"]
    );
}

#[test]
fn gates_reach_controllers() {
    use api::Gate;
    let set = options(&["--feature-gates=MaxUnavailableStatefulSet=true"])
        .unwrap()
        .gates
        .for_controllers();
    assert!(set.enabled(Gate::MaxUnavailableStatefulSet));
    assert!(set.enabled(Gate::ControllerManagerReleaseLeaderElectionLockOnExit));
    assert_eq!(
        options(&[]).unwrap().gates.for_controllers(),
        api::Gates::default()
    );
    let off = ["--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=false"];
    let off = options(&off).unwrap().gates.for_controllers();
    assert!(!off.enabled(Gate::ControllerManagerReleaseLeaderElectionLockOnExit));
}
