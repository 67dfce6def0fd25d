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
fn mistakes_are_told_as_upstream_tells_them() {
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
fn all_mistakes_are_told_at_once() {
    assert_eq!(
        gates("1.36", "JobManagedBy=false,Nope=true")
            .unwrap_err()
            .len(),
        2
    );
}

#[test]
fn settled_features_are_warned_about() {
    let gates = gates("1.36", "JobManagedBy=true,HPAScaleToZero=true").unwrap();
    assert_eq!(
        gates.warnings(),
        ["Setting GA feature gate JobManagedBy=true. It will be removed in a future release."]
    );
}
