//! Names, types, labels and buckets against upstream's.

use super::*;

fn rendered(options: MetricsOptions) -> String {
    ProcessMetrics::new(Metrics::new(), options, &FeatureGates::defaults()).render()
}

#[test]
fn the_process_is_measured() {
    let text = rendered(MetricsOptions::default());
    for family in [
        "process_cpu_seconds_total counter",
        "process_max_fds gauge",
        "process_network_receive_bytes_total counter",
        "process_network_transmit_bytes_total counter",
        "process_open_fds gauge",
        "process_resident_memory_bytes gauge",
        "process_start_time_seconds gauge",
        "process_virtual_memory_bytes gauge",
        "process_virtual_memory_max_bytes gauge",
        "kubernetes_build_info gauge",
        "kubernetes_feature_enabled gauge",
        "version_info gauge",
        "disabled_metrics_total counter",
        "hidden_metrics_total counter",
    ] {
        assert!(text.contains(&format!("# TYPE {family}\n")), "{family}");
    }
    assert!(text.contains("kubernetes_feature_enabled{name=\"HPAScaleToZero\",stage=\"ALPHA\"} 0"));
    assert!(text.contains("kubernetes_feature_enabled{name=\"JobManagedBy\",stage=\"\"} 1"));
    assert_eq!(text.matches("kubernetes_feature_enabled{").count(), 242);
}

/// Families that upstream does not have: additions that dashboards cannot confuse with its own.
const ADDITIONS: &[&str] = &["controller_reconcile_", "event_"];

/// Name to type, labels and buckets.
fn reference() -> BTreeMap<&'static str, [&'static str; 3]> {
    let facts = |line: &'static str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            // What upstream counts when it is asked are gauges, all of them.
            [name, "custom", labels, buckets] => (name, ["gauge", labels, buckets]),
            [name, kind, labels, buckets] => (name, [kind, labels, buckets]),
            _ => panic!("{line} has four columns"),
        }
    };
    include_str!("../testdata/metrics.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(facts)
        .collect()
}

/// `a,b` as a list; `-` is none.
fn list(text: &'static str) -> Vec<&'static str> {
    text.split(',').filter(|item| *item != "-").collect()
}

fn numbers(text: &'static str) -> Vec<f64> {
    list(text)
        .iter()
        .map(|bound| bound.parse().unwrap())
        .collect()
}

/// All that is measured in a process with all built controllers.
fn of_process() -> Metrics {
    let metrics = Metrics::new();
    let _ = ProcessMetrics::new(
        metrics.clone(),
        MetricsOptions::default(),
        &FeatureGates::defaults(),
    );
    crate::auth::register_metrics(&metrics);
    metrics.queue("deployment").on_add();
    metrics.leader("kube-controller-manager").set_leading(true);
    crate::descriptor_checks::build_all(&metrics);
    metrics
}

#[test]
fn families_are_upstreams() {
    let reference = reference();
    for family in of_process().registry().gather() {
        let name = family.name();
        if ADDITIONS.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let Some([kind, labels, buckets]) = reference.get(name) else {
            panic!("{name} is neither upstream's nor an addition");
        };
        let found = format!("{:?}", family.get_field_type()).to_lowercase();
        assert_eq!(found, *kind, "{name}");
        for sample in family.get_metric() {
            let names: Vec<&str> = sample
                .get_label()
                .iter()
                .map(|label| label.name())
                .collect();
            assert_eq!(names, list(labels), "{name}");
            let bounds = sample.get_histogram().get_bucket().iter();
            let bounds = bounds.map(|bucket| bucket.upper_bound());
            let bounds: Vec<f64> = bounds.filter(|bound| bound.is_finite()).collect();
            assert_eq!(bounds, numbers(buckets), "{name}");
        }
    }
}

/// Also those that have no samples yet.
#[test]
fn every_family_of_a_built_controller_is_there_in_upstreams_shape() {
    let asked_for = of_process().asked_for();
    let mut checked = 0;
    for (name, [kind, labels, buckets]) in reference() {
        let mut prefixes = controllers::built().flat_map(|built| built.metrics);
        if !prefixes.any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let Some(shape) = asked_for.get(name) else {
            panic!("{name} is missing");
        };
        assert_eq!(shape.kind, kind, "{name}");
        assert_eq!(shape.labels, list(labels), "{name}");
        assert_eq!(shape.buckets, numbers(buckets), "{name}");
        checked += 1;
    }
    let declared: usize = controllers::built().map(|built| built.metrics.len()).sum();
    assert!(
        checked >= declared,
        "{checked} families of {declared} prefixes"
    );
}

#[test]
fn metrics_can_be_turned_off() {
    let options = MetricsOptions {
        disabled: vec!["version_info".into()],
        ..MetricsOptions::default()
    };
    let text = rendered(options);
    assert!(!text.contains("version_info"));
    assert!(text.contains("disabled_metrics_total 1"));
}

#[test]
fn label_values_can_be_limited() {
    let text = "# HELP a x\n# TYPE a counter\na{l=\"1\",m=\"x,\\\"y\"} 1\na{l=\"2\",m=\"z\"} 2\na{l=\"3\",m=\"z\"} 3\n# HELP b x\nb{l=\"9\"} 1\n";
    let allowed = BTreeMap::from([(("a".to_owned(), "l".to_owned()), vec!["1".to_owned()])]);
    let options = MetricsOptions {
        allowed_labels: allowed,
        ..MetricsOptions::default()
    };
    assert_eq!(
        restrict(text, &options),
        "# HELP a x\n# TYPE a counter\na{l=\"1\",m=\"x,\\\"y\"} 1\na{l=\"unexpected\",m=\"z\"} 5\n# HELP b x\nb{l=\"9\"} 1\n"
    );
}

#[test]
fn proc_files_that_are_not_there_say_nothing() {
    let empty = String::new;
    let proc = Proc {
        stat: empty(),
        status: empty(),
        limits: empty(),
        netstat: empty(),
        system: empty(),
    };
    assert_eq!(
        (proc.cpu_seconds(), proc.started(), proc.network()),
        (None, None, None)
    );
    assert_eq!(
        (proc.status("VmRSS:"), proc.limit("Max open files")),
        (None, None)
    );
}
