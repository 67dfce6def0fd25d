use super::*;

fn gates(emulated: &str, flag: &str) -> Result<FeatureGates, Vec<GateError>> {
    let versions = EffectiveVersions::from_flags(&[emulated.to_owned()], &[]).unwrap();
    FeatureGates::new(versions, &[flag.to_owned()])
}

fn check_error(emulated: &str, flag: &str, expected: &str) {
    let errors = gates(emulated, flag).expect_err("must be refused");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.join("; "), expected);
}

#[test]
fn holds_the_gates_of_the_reference() {
    // 240 gates and the two groups; 150 of them are alpha or beta and so listed by the help.
    let defaults = FeatureGates::defaults();
    assert_eq!(defaults.all().count(), 242);
    assert_eq!(FeatureGates::help().lines().count(), 150);
    assert!(table().is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn histories_are_in_order_and_dependencies_exist() {
    for gate in table() {
        assert!(
            gate.history.is_sorted_by(|(a, _), (b, _)| a < b),
            "{}",
            gate.name
        );
        assert!(!gate.history.is_empty(), "{}", gate.name);
        assert!(
            gate.needs.iter().all(|name| find(name).is_some()),
            "{}",
            gate.name
        );
    }
    assert_eq!(FeatureGates::defaults().broken_dependencies(), []);
}

#[test]
fn the_emulated_version_decides_about_defaults() {
    for (version, on) in [("1.33", false), ("1.35", false), ("1.36", true)] {
        assert_eq!(
            gates(version, "").unwrap().enabled("ComponentStatusz"),
            on,
            "{version}"
        );
    }
    assert!(gates("1.33", "").unwrap().all().count() < 242);
    assert!(!FeatureGates::defaults().enabled("NoSuchGate"));
}

#[test]
fn groups_leave_alone_what_is_set_by_name() {
    let gates = gates("1.36", "AllAlpha=true,HPAScaleToZero=false,AllBeta=true").unwrap();
    assert!(!gates.enabled("HPAScaleToZero"));
    assert!(gates.enabled("TaintTolerationComparisonOperators"));
    assert!(gates.enabled("MaxUnavailableStatefulSet"));
}

#[test]
fn errors_are_worded_as_upstream_words_them() {
    check_error(
        "1.36",
        "Nope=true",
        "--feature-gates: unrecognized feature gate: Nope",
    );
    check_error(
        "1.36",
        "JobManagedBy=false",
        "--feature-gates: cannot set feature gate JobManagedBy to false, feature is locked to true",
    );
    check_error(
        "1.34",
        "GenericWorkload=true",
        "--feature-gates: cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated version 1.34",
    );
    check_error(
        "1.36",
        "wardle:A=true",
        "--feature-gates: component not registered: wardle; only \"kube\" has feature gates",
    );
    check_error(
        "1.36",
        "kube:HPAScaleToZero=true,AllAlpha=true",
        "--feature-gates: set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
    );
    check_error(
        "1.36",
        "DRADeviceTaints=false,DRADeviceTaintRules=true",
        "--feature-gates: DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    assert_eq!(
        gates("1.36", "JobManagedBy=false,Nope=true")
            .unwrap_err()
            .len(),
        2
    );
}

/// Gates that the manager itself asks for by name.
const OF_THE_MANAGER: [&str; 8] = [
    "AllowParsingUserUIDFromCertAuth",
    "ComponentFlagz",
    "ComponentStatusz",
    "CoordinatedLeaderElection",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
    "RemoteRequestHeaderUID",
    "ControllerManagerReleaseLeaderElectionLockOnExit",
];

/// Gates that upstream's manager reads and ours does not, and why. Each is in docs/differences.md.
const NOT_READ: [(&str, &str); 5] = [
    (
        "ContextualLogging",
        "lines of the log always have their context",
    ),
    ("ClientsAllowCBOR", "the client speaks JSON"),
    ("ClientsPreferCBOR", "the client speaks JSON"),
    (
        "WatchListClient",
        "informers stream their lists where the server can",
    ),
    (
        "InPlacePodVerticalScaling",
        "quotas count what a resize has got as far as",
    ),
];

// Issue 21, point 18.
#[test]
fn every_gate_that_an_emulated_version_leaves_open_is_read_by_whom_it_concerns() {
    let elsewhere: Vec<&str> = include_str!("elsewhere.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .collect();
    let mut versions = vec![Version::BINARY];
    while let Some(&last) = versions.last().filter(|last| **last > Version::FLOOR) {
        versions.push(Version::new(last.major, last.minor - 1));
    }
    let all: Vec<FeatureGates> = versions
        .iter()
        .map(|version| gates(&version.to_string(), "").unwrap())
        .collect();
    let mut wrong = Vec::new();
    for gate in table() {
        let is_open = |gates: &FeatureGates| gates.state(gate).is_some_and(|state| !state.locked);
        let name = gate.name;
        let is_asked_for = |descriptor: &&controllers::Descriptor| descriptor.gates.contains(&name);
        let homes = [
            api::Gate::ALL.iter().any(|read| read.name() == name)
                || OF_THE_MANAGER.contains(&name)
                || controllers::ALL.iter().any(|it| is_asked_for(&it)),
            elsewhere.contains(&name),
            NOT_READ.iter().any(|(not_read, _)| *not_read == name),
        ];
        let count = homes.iter().filter(|is_home| **is_home).count();
        let is_open = all.iter().any(is_open);
        if is_open && count != 1 || !is_open && (homes[1] || homes[2]) {
            wrong.push((name, is_open, homes));
        }
    }
    assert_eq!(wrong, [], "gate, open, [read here, elsewhere, not read]");
}

/// A gate in the list of those that controllers read is named by some controller's code, not just by a test's.
#[test]
fn gates_of_controllers_are_read_by_controllers() {
    let mut code = String::new();
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [
        "controllers/src",
        "manager/src",
        "api/src/kinds",
        "api/src/quota",
    ];
    let mut open: Vec<_> = folders.iter().map(|folder| crates.join(folder)).collect();
    while let Some(path) = open.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("tests") {
            continue;
        }
        if path.is_dir() {
            open.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            code.push_str(
                text.split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default(),
            );
        }
    }
    for gate in api::Gate::ALL {
        let read = format!("Gate::{}", gate.name());
        assert!(code.contains(&read), "nobody reads {}", gate.name());
    }
}

#[test]
fn settled_features_are_warned_about() {
    let gates = gates("1.36", "JobManagedBy=true,HPAScaleToZero=true").unwrap();
    assert_eq!(
        gates.warnings(),
        ["Setting GA feature gate JobManagedBy=true. It will be removed in a future release."]
    );
}
