//! Names, types, labels and buckets against upstream's.

use super::*;
use prometheus::proto::{MetricFamily, MetricType};

/// What upstream's list has and we cannot have.
const NOT_OURS: &[&str] = &[
    // Plugins are compared with a policy by kubectl alone, which has one. Upstream's manager does not register it.
    "rest_client_exec_plugin_policy_call_total",
    // Transports end with their last user: there is no garbage to collect.
    "rest_client_transport_cache_gc_calls_total",
];

/// All families, each with a sample.
fn sampled() -> Vec<MetricFamily> {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    let host = metrics.for_host("h:6443");
    let error = Error::InvalidRequest(String::new());
    host.attempted(&Method::GET, 1, Ok(200));
    host.retried(&Method::GET, &error);
    host.waited(&Method::GET, Duration::ZERO);
    host.finished(&Method::GET, Duration::ZERO);
    host.received(&Method::GET, 1);
    let transport = metrics.transport();
    transport.resolved("h", Duration::ZERO);
    transport.plugin_called(PluginCall::Succeeded);
    transport.authorities_reloaded(AuthorityReload::Updated);
    registry.gather()
}

#[test]
fn families_are_upstreams() {
    let families = sampled();
    let mut missing: Vec<&str> = Vec::new();
    let mut compared = 0;
    for line in include_str!("../../../manager/src/testdata/metrics.txt").lines() {
        let [name, kind, labels, buckets] = line.split(' ').collect::<Vec<&str>>()[..] else {
            continue;
        };
        if !name.starts_with("rest_client_") {
            continue;
        }
        let Some(family) = families.iter().find(|family| family.name() == name) else {
            missing.push(name);
            continue;
        };
        assert_eq!(
            shape(family),
            format!("{kind} {labels} {buckets}"),
            "{name}"
        );
        compared += 1;
    }
    assert_eq!(missing, NOT_OURS);
    assert_eq!(compared, families.len(), "some are neither upstream's");
}

/// `histogram host 0.5,1.0`, with `-` where there is nothing.
fn shape(family: &MetricFamily) -> String {
    let kind = match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        other => panic!("{other:?}"),
    };
    let sample = &family.get_metric()[0];
    let labels: Vec<&str> = sample
        .get_label()
        .iter()
        .map(|label| label.name())
        .collect();
    let bounds = sample.get_histogram().get_bucket().iter();
    let bounds: Vec<String> = bounds
        .map(|bucket| bucket.upper_bound())
        .filter(|bound| bound.is_finite())
        .map(|bound| format!("{bound:?}"))
        .collect();
    let list = |items: String| {
        if items.is_empty() {
            "-".to_owned()
        } else {
            items
        }
    };
    format!(
        "{kind} {} {}",
        list(labels.join(",")),
        list(bounds.join(","))
    )
}

#[test]
fn a_plugin_call_counts_under_how_it_ended() {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    for call in [
        PluginCall::Succeeded,
        PluginCall::Failed(7),
        PluginCall::NotFound,
        PluginCall::Broken,
    ] {
        metrics.transport().plugin_called(call);
    }
    let families = registry.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "rest_client_exec_plugin_call_total")
        .unwrap();
    let mut counted: Vec<String> = Vec::new();
    for sample in family.get_metric() {
        let labels: Vec<&str> = sample
            .get_label()
            .iter()
            .map(|label| label.value())
            .collect();
        counted.push(labels.join(" "));
    }
    counted.sort();
    assert_eq!(
        counted,
        [
            "client_internal_error 1",
            "no_error 0",
            "plugin_execution_error 7",
            "plugin_not_found_error 1"
        ]
    );
}
