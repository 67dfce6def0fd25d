use std::sync::Arc;
use std::time::Duration;

use api::ResourceType;
use bytes::Bytes;
use client::{Body, BoxError, Client, Transport};
use expect_test::{Expect, expect};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

const PODS: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");

/// The samples of the families whose names start so; comments left out.
fn check(metrics: &Metrics, prefix: &str, expected: Expect) {
    let lines: Vec<String> = metrics
        .render()
        .lines()
        .filter(|line| line.starts_with(prefix))
        .map(str::to_owned)
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_queue_counts_under_upstreams_names() {
    let metrics = Metrics::new();
    let queue = metrics.queue("replicaset");
    queue.on_add();
    queue.on_add();
    queue.on_get(Duration::from_micros(20));
    queue.on_done(Duration::from_secs(2));
    queue.on_retry();
    assert_eq!(queue.depth(), 1);
    check(
        &metrics,
        "workqueue_",
        expect![[r#"
            workqueue_adds_total{name="replicaset"} 2
            workqueue_depth{name="replicaset"} 1
            workqueue_longest_running_processor_seconds{name="replicaset"} 0
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="1e-08"} 0
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="1e-07"} 0
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="1e-06"} 0
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="9.999999999999999e-06"} 0
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="9.999999999999999e-05"} 1
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="0.001"} 1
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="0.01"} 1
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="0.1"} 1
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="1"} 1
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="10"} 1
            workqueue_queue_duration_seconds_bucket{name="replicaset",le="+Inf"} 1
            workqueue_queue_duration_seconds_sum{name="replicaset"} 2e-05
            workqueue_queue_duration_seconds_count{name="replicaset"} 1
            workqueue_retries_total{name="replicaset"} 1
            workqueue_unfinished_work_seconds{name="replicaset"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="1e-08"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="1e-07"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="1e-06"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="9.999999999999999e-06"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="9.999999999999999e-05"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="0.001"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="0.01"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="0.1"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="1"} 0
            workqueue_work_duration_seconds_bucket{name="replicaset",le="10"} 1
            workqueue_work_duration_seconds_bucket{name="replicaset",le="+Inf"} 1
            workqueue_work_duration_seconds_sum{name="replicaset"} 2
            workqueue_work_duration_seconds_count{name="replicaset"} 1"#]],
    );
}

#[test]
fn help_carries_the_stability_mark() {
    let metrics = Metrics::new();
    metrics.queue("job");
    assert!(metrics.render().contains(
        "# HELP workqueue_depth [BETA] Current depth of workqueue\n\
         # TYPE workqueue_depth gauge\n\
         workqueue_depth{name=\"job\"} 0\n"
    ));
}

#[test]
fn unfinished_work_is_computed_at_each_scrape_until_the_queue_is_dropped() {
    let metrics = Metrics::new();
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    metrics.queue("job").watch_unfinished(move || {
        weak.upgrade().map(|_| Unfinished {
            total: Duration::from_millis(2500),
            longest: Duration::from_secs(2),
        })
    });
    check(
        &metrics,
        "workqueue_unf",
        expect![[r#"workqueue_unfinished_work_seconds{name="job"} 2.5"#]],
    );
    check(
        &metrics,
        "workqueue_long",
        expect![[r#"workqueue_longest_running_processor_seconds{name="job"} 2"#]],
    );
    drop(alive);
    check(
        &metrics,
        "workqueue_unf",
        expect![[r#"workqueue_unfinished_work_seconds{name="job"} 0"#]],
    );
    assert!(metrics.lock_hooks().is_empty());
}

#[test]
fn informer_leader_controller_and_events() {
    let metrics = Metrics::new();
    let informer = metrics.informer("kube-controller-manager", &PODS);
    informer.set_queued(3);
    informer.set_resource_version(7_123_456_789_012_345_678);
    let leader = metrics.leader("kube-controller-manager");
    leader.set_leading(true);
    leader.on_slow_path();
    let controller = metrics.controller("job-controller");
    controller.on_reconcile(ReconcileResult::Panicked, Duration::from_secs(1));
    metrics.events("job-controller").on_drop();
    check(
        &metrics,
        "informer_queued",
        expect![[
            r#"informer_queued_items{group="",name="kube-controller-manager",resource="pods",version="v1"} 3"#
        ]],
    );
    check(
        &metrics,
        "informer_store",
        expect![[
            r#"informer_store_resource_version{group="",name="kube-controller-manager",resource="pods",version="v1"} 4.56789012345678e+14"#
        ]],
    );
    check(
        &metrics,
        "leader_",
        expect![[r#"
            leader_election_master_status{name="kube-controller-manager"} 1
            leader_election_slowpath_total{name="kube-controller-manager"} 1"#]],
    );
    check(
        &metrics,
        "controller_reconcile_total",
        expect![[r#"
            controller_reconcile_total{controller="job-controller",result="again"} 0
            controller_reconcile_total{controller="job-controller",result="done"} 0
            controller_reconcile_total{controller="job-controller",result="panic"} 1
            controller_reconcile_total{controller="job-controller",result="retry"} 0
            controller_reconcile_total{controller="job-controller",result="terminal"} 0
            controller_reconcile_total{controller="job-controller",result="undoes"} 0"#]],
    );
    check(
        &metrics,
        "event_",
        expect![[r#"event_recorder_dropped_total{component="job-controller"} 1"#]],
    );
}

#[test]
fn label_values_are_escaped() {
    let metrics = Metrics::new();
    let family = metrics.counter("odd_total", "Two\nlines", Stability::Alpha, &["value"]);
    family.with_label_values(&["a\"b\\c\nd"]).inc();
    let text = metrics.render();
    assert!(
        text.contains("# HELP odd_total [ALPHA] Two\\nlines\n"),
        "{text}"
    );
    assert!(
        text.contains("odd_total{value=\"a\\\"b\\\\c\\nd\"} 1\n"),
        "{text}"
    );
}

#[test]
fn a_new_term_goes_on_counting_where_the_last_one_ended() {
    let metrics = Metrics::new();
    let ask = || metrics.counter("mine_total", "Mine", Stability::Alpha, &[]);
    ask().with_label_values::<&str>(&[]).inc();
    ask().with_label_values::<&str>(&[]).inc_by(5);
    check(&metrics, "mine_total", expect!["mine_total 6"]);
}

#[test]
fn a_name_taken_by_another_family_keeps_its_first_owner() {
    let metrics = Metrics::new();
    let first = metrics.counter("mine_total", "Mine", Stability::Alpha, &[]);
    let second = metrics.counter("mine_total", "Mine", Stability::Alpha, &["code"]);
    first.with_label_values::<&str>(&[]).inc();
    second.with_label_values(&["200"]).inc_by(5);
    check(&metrics, "mine_total", expect!["mine_total 1"]);
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_client_are_counted_in_the_same_place() {
    let metrics = Metrics::new();
    let server = Transport::new(tower::service_fn(|_: Request<Bytes>| async {
        let body = Full::new(Bytes::from_static(b"{}")).map_err(|never| match never {});
        Ok::<_, BoxError>(Response::new(Body::new(body)))
    }));
    let client = Client::new(server).with_metrics(metrics.rest(), "10.0.0.1:6443");
    client.create(&PODS, "web", "{}").await.unwrap();
    check(
        &metrics,
        "rest_client_requests",
        expect![[r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="POST"} 1"#]],
    );
    check(
        &metrics,
        r#"rest_client_request_size_bytes_bucket{host="10.0.0.1:6443",verb="POST",le="1"#,
        expect![[r#"
            rest_client_request_size_bytes_bucket{host="10.0.0.1:6443",verb="POST",le="1024"} 1
            rest_client_request_size_bytes_bucket{host="10.0.0.1:6443",verb="POST",le="16384"} 1
            rest_client_request_size_bytes_bucket{host="10.0.0.1:6443",verb="POST",le="1.048576e+06"} 1
            rest_client_request_size_bytes_bucket{host="10.0.0.1:6443",verb="POST",le="1.6777216e+07"} 1"#]],
    );
}
