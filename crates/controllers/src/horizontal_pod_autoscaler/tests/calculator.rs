//! Upstream's tables of the replica calculator, in a notation of our own.
//!
//! `3 util=30 | 300! 500 700`: a target of three replicas, and what its pods use, in thousandths; each requests 1000.
//! After the usage: `!` is not ready, `^` has just started, `x` has failed, `d` is being deleted, `p` is pending,
//! `@2000` requests something else. `-` has no metric, `+300` is a metric of a pod that is not there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::Pod;
use api::{MicroTime, Resource, Time};
use expect_test::{Expect, expect};
use serde_json::json;

use super::super::calculator::{by_share, by_total, by_utilization, by_value, sum};
use super::super::requests::request_of;
use super::super::{Measured, PodMetric, PodMetrics, Proposal, Settings, Tolerances};

const NOW: i64 = 1_000_000;

pub(super) fn settings() -> Settings {
    let configuration = super::configuration();
    Settings {
        cpu_initialization_period: configuration.cpu_initialization_period,
        initial_readiness_delay: configuration.initial_readiness_delay,
        pod_level_requests: true,
        now: now(),
    }
}

fn now() -> MicroTime {
    Time::from_unix(NOW).micro()
}

/// The pods and their metrics.
pub(super) fn read(text: &str) -> (Vec<Arc<Pod>>, PodMetrics) {
    let (mut pods, mut metrics) = (Vec::new(), PodMetrics::new());
    for (number, word) in text.split_whitespace().enumerate() {
        let name = format!("pod-{number}");
        let (word, request) = word.split_once('@').unwrap_or((word, "1000"));
        let flags: String = word.chars().filter(|c| "!^xdp".contains(*c)).collect();
        let value: String = word.chars().filter(char::is_ascii_digit).collect();
        if let Ok(value) = value.parse() {
            let metric = PodMetric {
                value,
                at: Time::from_unix(NOW),
                window: Duration::from_secs(60),
            };
            metrics.insert(name.as_str().into(), metric);
        }
        if word.starts_with('+') {
            continue;
        }
        let has = |flag: char| flags.contains(flag);
        let started = Time::from_unix(NOW - if has('^') { 0 } else { 180 });
        let phase = match (has('x'), has('p')) {
            (true, _) => "Failed",
            (_, true) => "Pending",
            _ => "Running",
        };
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": format!("{request}m")}}}]},
            "status": {"phase": phase, "startTime": started, "conditions": [
                {"type": "Ready", "status": if has('!') { "False" } else { "True" }, "lastTransitionTime": started}]},
        });
        if has('d') {
            pod["metadata"]["deletionTimestamp"] = json!(started);
        }
        pods.push(Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap()));
    }
    (pods, metrics)
}

fn calculate(text: &str) -> Result<Proposal, String> {
    let (words, pods) = text.split_once('|').unwrap();
    let (pods, metrics) = read(pods);
    let mut words = words.split_whitespace();
    let current: i32 = words.next().unwrap().parse().unwrap();
    let (mut kind, mut target, mut usage) = ("", 0_i64, 0_i64);
    let mut tolerances = Tolerances { down: 0.1, up: 0.1 };
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        match name {
            "up" => tolerances.up = value.parse().unwrap(),
            "down" => tolerances.down = value.parse().unwrap(),
            "usage" => usage = value.parse().unwrap(),
            name => (kind, target) = (name, value.parse().unwrap()),
        }
    }
    let measured = Measured {
        pods: &pods,
        resource: if kind == "util" || kind == "raw" {
            "cpu"
        } else {
            ""
        },
        container: "",
        tolerances,
        current,
        settings: settings(),
    };
    match kind {
        "util" => by_utilization(metrics, target as i32, &measured),
        "raw" | "pods" => by_value(metrics, target, &measured),
        "whole" => by_total(usage, target, &measured),
        "share" => Ok(by_share(usage, target, current, tolerances)),
        other => panic!("{other}?"),
    }
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&match calculate(text) {
        Ok(proposal) => {
            let utilization = proposal.utilization.map(|percent| format!(", {percent}%"));
            let utilization = utilization.unwrap_or_default();
            format!("{} at {}m{utilization}", proposal.replicas, proposal.usage)
        }
        Err(error) => error,
    });
}

// TestReplicaCalcScaleUp, …UnreadyLessScale, …HotCpuLessScale, …UnreadyNoScale, …HotCpuNoScale, …IgnoresFailedPods,
// …IgnoresDeletionPods, TestReplicaCalcSuperfluousMetrics.
#[test]
fn more_usage_asks_for_more_replicas() {
    check("3 util=30 | 300 500 700", expect!["5 at 500m, 50%"]);
    check("3 util=30 | 300! 500 700", expect!["4 at 600m, 60%"]);
    check("3 util=30 | 300^ 500 700", expect!["4 at 600m, 60%"]);
    check("3 util=30 | 400 500! 700!", expect!["3 at 400m, 40%"]);
    check("3 util=30 | 400 500!^ 700!^", expect!["3 at 400m, 40%"]);
    check("2 util=30 | 500 700 -x -x", expect!["4 at 600m, 60%"]);
    check("2 util=30 | 500 700 -d -d", expect!["4 at 600m, 60%"]);
    check(
        "4 util=100 | 4000 9500 3000 7000 +3200 +2000",
        expect!["24 at 5875m, 587%"],
    );
}

// TestReplicaCalcScaleDown, …ExcludeUnreadyPods, …ExcludeUnscheduledPods, …IgnoreHotCpuPods, …IgnoresFailedPods,
// …IgnoresDeletionPods, …IgnoresDeletionPods_StillRunning.
#[test]
fn less_usage_asks_for_fewer_replicas() {
    check("5 util=50 | 100 300 500 250 250", expect!["3 at 280m, 28%"]);
    check(
        "5 util=50 | 100 300 500 250! 250!",
        expect!["2 at 300m, 30%"],
    );
    check("5 util=50 | 100 -!p -!p -!p -!p", expect!["1 at 100m, 10%"]);
    check(
        "5 util=50 | 100 300 500 250^ 250^",
        expect!["2 at 300m, 30%"],
    );
    check(
        "5 util=50 | 100 300 500 250 250 -x -x",
        expect!["3 at 280m, 28%"],
    );
    check(
        "5 util=50 | 100 300 500 250 250 -d -d",
        expect!["3 at 280m, 28%"],
    );
    check(
        "5 util=50 | 100 300 500 250 250 900d 900d",
        expect!["3 at 280m, 28%"],
    );
}

// TestReplicaCalcTolerance…, TestReplicaCalcConfigurableTolerance…
#[test]
fn a_change_within_the_tolerance_is_none() {
    check(
        "3 util=100 | 1010@900 1030@1000 1020@1100",
        expect!["3 at 1020m, 102%"],
    );
    check("3 pods=20000 | 20000 21000 21000", expect!["3 at 20666m"]);
    check("3 whole=20000 usage=20666 | 1 1 1", expect!["3 at 20666m"]);
    check("4 share=5000 usage=20166 |", expect!["4 at 5042m"]);
    check("3 whole=8888 usage=8600 | 1 1 1", expect!["3 at 8600m"]);
    check("3 share=2900 usage=8600 |", expect!["3 at 2867m"]);
    check(
        "3 up=0.01 util=100 | 1010@900 1030@1000 1020@1100",
        expect!["4 at 1020m, 102%"],
    );
    check(
        "3 up=0 util=100 | 1010@900 1030@1000 1020@1100",
        expect!["4 at 1020m, 102%"],
    );
    check(
        "3 down=0.02 util=100 | 950 950 950",
        expect!["3 at 950m, 95%"],
    );
    check(
        "3 down=0.02 util=100 | 600 600 600",
        expect!["2 at 600m, 60%"],
    );
    check(
        "3 down=0.5 util=100 | 600 600 600",
        expect!["3 at 600m, 60%"],
    );
    check(
        "3 up=0.01 pods=20000 | 20000 21000 21000",
        expect!["4 at 20666m"],
    );
    check(
        "3 up=0.01 whole=20000 usage=20666 | 1 1 1",
        expect!["4 at 20666m"],
    );
    check("4 up=0.01 share=5000 usage=20208 |", expect!["5 at 5052m"]);
    check(
        "3 up=0.01 whole=8800 usage=8900 | 1 1 1",
        expect!["4 at 8900m"],
    );
    check("3 up=0.01 share=2800 usage=8600 |", expect!["4 at 2867m"]);
    // On both sides of the border: 50 % is 0.893 of 56 %, and 0.909 of 55 %.
    let spread = "150@400 150@200 150@310 150@290 150@302 150@298 150@301 150@299 150@300 150@300";
    check(&format!("10 util=56 | {spread}"), expect!["9 at 150m, 50%"]);
    check(
        &format!("10 util=55 | {spread}"),
        expect!["10 at 150m, 50%"],
    );
}

// TestReplicaCalcScaleUpCM…, TestReplicaCalcScaleDownCM…: readiness is a matter of CPU alone.
#[test]
fn metrics_of_pods_are_averaged() {
    check("3 pods=15000 | 20000 10000 30000", expect!["4 at 20000m"]);
    check("3 pods=15000 | 50000 10000 30000!^", expect!["6 at 30000m"]);
    check(
        "3 pods=15000 | 50000!^ 15000 30000!^",
        expect!["7 at 31666m"],
    );
    check(
        "5 pods=20000 | 12000 12000 12000 12000 12000",
        expect!["3 at 12000m"],
    );
    check("1 pods=4400 | 8600", expect!["2 at 8600m"]);
}

// TestReplicaCalcScaleUpCMObject…, …External…, …PerPod…, and down.
#[test]
fn what_is_no_pod_is_measured_as_a_whole_or_by_share() {
    check("3 whole=15000 usage=20000 | 1 1 1", expect!["4 at 20000m"]);
    check(
        "3 whole=10000 usage=50000 | 1! 1 1!",
        expect!["5 at 50000m"],
    );
    check(
        "5 whole=20000 usage=12000 | 1 1 1 1 1",
        expect!["3 at 12000m"],
    );
    check("3 whole=4400 usage=8600 | 1! 1 1!", expect!["2 at 8600m"]);
    check(
        "5 whole=14334 usage=8600 | 1 1 1 1 1",
        expect!["3 at 8600m"],
    );
    check("3 share=5000 usage=20000 |", expect!["4 at 6667m"]);
    check("5 share=2000 usage=6000 |", expect!["3 at 1200m"]);
    check("3 share=2150 usage=8600 |", expect!["4 at 2867m"]);
    check("5 share=2867 usage=8600 |", expect!["3 at 1720m"]);
    check("0 whole=15000 usage=20000 |", expect!["2 at 20000m"]);
    check("0 whole=15000 usage=0 |", expect!["0 at 0m"]);
}

// TestReplicaCalcMissingMetrics…, TestPlainMetricReplicaCalcMissingMetricsNoChangeEq, …DuringRollingUpdate….
#[test]
fn missing_metrics_are_guessed_with_care() {
    check("4 util=100 | 400 95 - -", expect!["3 at 247m, 24%"]);
    check(
        "5 pods=20000 | 20000 19000 21000 - -",
        expect!["5 at 20000m"],
    );
    check("2 util=100 | 1000 -", expect!["2 at 1000m, 100%"]);
    check("2 util=100 | 1900 -", expect!["2 at 1900m, 190%"]);
    check("2 util=100 | 600 -", expect!["2 at 600m, 60%"]);
    check("3 util=50 | 100! 450 -", expect!["3 at 450m, 45%"]);
    check("3 util=50 | 100^ 450 -", expect!["3 at 450m, 45%"]);
    check("3 util=50 | 100! 2000 -", expect!["4 at 2000m, 200%"]);
    check("3 util=50 | 100!^ 2000 -", expect!["4 at 2000m, 200%"]);
    check("4 util=50 | 100! 100 100 -", expect!["3 at 100m, 10%"]);
    check(
        "4 util=300 | 200! 100 100@2000 -@2000",
        expect!["2 at 100m, 6%"],
    );
    check("2 util=50 | 100 100 -", expect!["2 at 100m, 10%"]);
    check("2 pods=17000 | 10000 10000 -", expect!["2 at 10000m"]);
}

// TestReplicaCalcDisjointResourcesMetrics, …EmptyCPURequest, TestCalculateRequests.
#[test]
fn what_cannot_be_calculated_is_said_in_upstreams_words() {
    check(
        "1 util=100 | -x +100",
        expect!["no metrics returned matched known pods"],
    );
    check(
        "1 util=100 |",
        expect!["no pods returned by selector while calculating replica count"],
    );
    check(
        "1 util=100 | 100!",
        expect!["did not receive metrics for targeted pods (pods might be unready)"],
    );
    check(
        "1 pods=100 | -",
        expect!["did not receive metrics for targeted pods (pods might be unready)"],
    );
    check(
        "1 whole=100 usage=1000 |",
        expect![
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        ],
    );
}

// TestReplicaCalcScaleUpOverflow, TestExternalPerPodMetric…Overflow, TestReplicaCalcExternalMetricUsageOverflow.
#[test]
fn absurd_numbers_are_bounded() {
    let most = i64::MAX;
    check(
        &format!("3 whole=1 usage={most} | 1 1 1"),
        expect!["2147483647 at 9223372036854775807m"],
    );
    check(
        &format!("1 share=1 usage={most} |"),
        expect!["2147483647 at 9223372036854775807m"],
    );
    check(
        &format!("1 share={most} usage={most} |"),
        expect!["1 at 9223372036854775807m"],
    );
    check(
        &format!("3 whole=0 usage={most} | 1 1 1"),
        expect!["2147483647 at 9223372036854775807m"],
    );
    check("3 whole=0 usage=0 | 1 1 1", expect!["0 at 0m"]);
    check("3 whole=-5 usage=100 | 1 1 1", expect!["0 at 100m"]);
    check("0 share=100 usage=50 |", expect!["1 at 50m"]);
    check("3 share=100 usage=-50 |", expect!["0 at -16m"]);
    check("0 share=100 usage=0 |", expect!["0 at 0m"]);
    check(
        &format!("2 pods=1 | {most} {most}"),
        expect!["2147483647 at 9223372036854775807m"],
    );
    check(
        &format!("2 util=1 | {most} {most}"),
        expect!["2147483647 at 9223372036854775807m, 2147483647%"],
    );
    check("2 util=0 | 100 100", expect!["2147483647 at 100m, 10%"]);
    assert_eq!(sum(&[most / 2 + 1, most / 2 + 1]), most);
    assert_eq!(sum(&[i64::MIN, -1]), i64::MIN);
}

// TestGroupPods: what of the readiness counts in the first minutes, and after them.
#[test]
fn the_cpu_of_a_start_does_not_count() {
    let check = |started: i64, changed: i64, ready: bool, at: i64, expected: bool| {
        let pod = json!({
            "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", "startTime": Time::from_unix(NOW - started), "conditions": [
                {"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": Time::from_unix(NOW - changed)}]},
        });
        let pods = [Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap())];
        let metric = PodMetric {
            value: 500,
            at: Time::from_unix(NOW - at),
            window: Duration::from_secs(30),
        };
        let measured = Measured {
            pods: &pods,
            resource: "cpu",
            container: "",
            tolerances: Tolerances { down: 0.1, up: 0.1 },
            current: 1,
            settings: settings(),
        };
        let metrics: PodMetrics = BTreeMap::from([("a".into(), metric)]);
        let counts = by_value(metrics, 500, &measured).is_ok();
        assert_eq!(counts, expected, "{started} {changed} {ready} {at}");
    };
    // While it starts: ready, and measured for a whole window since.
    check(60, 50, true, 10, true);
    check(60, 30, true, 10, false);
    check(60, 50, false, 10, false);
    // Later: unless it never was ready.
    check(300, 10, false, 0, true);
    check(300, 295, false, 0, false);
    check(300, 295, true, 0, true);
}

// TestGroupPods: a pod beside one that is ready and uses as much.
#[test]
fn pods_are_grouped_by_the_state_of_their_metrics() {
    let sure = json!({"phase": "Running", "startTime": Time::from_unix(NOW - 900), "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": Time::from_unix(NOW - 900)}]});
    let pod = |name: &str, metadata: &serde_json::Value, status: &serde_json::Value| {
        let mut metadata = metadata.clone();
        metadata["name"] = json!(name);
        let pod = json!({"metadata": metadata, "status": status});
        Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap())
    };
    // What is asked for on the way up and down tells how the pod was counted.
    let fate = |resource: &str, metadata: serde_json::Value, status: serde_json::Value, at: i64| {
        let pods = [
            pod("sure", &json!({}), &sure),
            pod("other", &metadata, &status),
        ];
        let metric = |at: i64| PodMetric {
            value: 1000,
            at: Time::from_unix(at),
            window: Duration::from_secs(30),
        };
        let mut metrics: PodMetrics = BTreeMap::from([("sure".into(), metric(NOW))]);
        if at > 0 {
            metrics.insert("other".into(), metric(at));
        }
        let measured = Measured {
            pods: &pods,
            resource,
            container: "",
            tolerances: Tolerances { down: 0.1, up: 0.1 },
            current: 5,
            settings: settings(),
        };
        let asked = [500, 2000].map(|target| by_value(metrics.clone(), target, &measured));
        match asked.map(|proposal| proposal.unwrap().replicas) {
            [4, 1] => "ready",
            [5, 1] => "unready",
            [5, 2] => "missing",
            [2, 1] => "ignored",
            other => panic!("{other:?}"),
        }
    };
    let none = || json!({});
    let of = |phase: &str, started: i64, ready: Option<(&str, i64)>| {
        let conditions: Vec<serde_json::Value> = ready
            .iter()
            .map(|(status, ago)| json!({"type": "Ready", "status": status, "lastTransitionTime": Time::from_unix(NOW - ago)}))
            .collect();
        json!({"phase": phase, "startTime": Time::from_unix(NOW - started), "conditions": conditions})
    };
    let over = of("Succeeded", 60, None);
    assert_eq!(fate("memory", none(), over.clone(), NOW), "ready");
    assert_eq!(fate("cpu", none(), over.clone(), NOW), "unready");
    assert_eq!(fate("cpu", none(), over, 0), "missing");
    let unstarted = json!({"phase": "Running", "conditions": sure["conditions"]});
    assert_eq!(fate("cpu", none(), unstarted, NOW), "unready");
    let ready = |started: i64, ago: i64| of("Running", started, Some(("True", ago)));
    assert_eq!(fate("cpu", none(), ready(60, 30), NOW), "ready");
    assert_eq!(fate("cpu", none(), ready(60, 29), NOW), "unready");
    assert_eq!(fate("cpu", none(), ready(180, 180), NOW - 120), "ready");
    let unready = |ago: i64| of("Running", 600, Some(("False", ago)));
    assert_eq!(fate("cpu", none(), unready(594), NOW), "unready");
    assert_eq!(fate("cpu", none(), unready(590), NOW), "ready");
    assert_eq!(fate("cpu", none(), unready(540), NOW), "ready");
    for at in [0, NOW] {
        assert_eq!(
            fate("cpu", none(), json!({"phase": "Pending"}), at),
            "unready"
        );
        assert_eq!(
            fate("cpu", none(), json!({"phase": "Failed"}), at),
            "ignored"
        );
        let deleted = json!({"deletionTimestamp": Time::from_unix(NOW)});
        for phase in ["Pending", "Running"] {
            let status = json!({"phase": phase});
            assert_eq!(fate("cpu", deleted.clone(), status, at), "ignored");
        }
    }
}

// TestCalculateRequests, TestCalculatePodRequestsFromContainers_NonExistentContainer.
#[test]
fn requests_are_of_the_pod_of_its_containers_or_of_one() {
    let pod = |spec: serde_json::Value| {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        Pod::decode(pod.to_string().as_bytes()).unwrap()
    };
    let container =
        |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let mut sidecar = container("side", "50m");
    sidecar["restartPolicy"] = json!("Always");
    let plain = pod(
        json!({"containers": [container("a", "100m"), container("b", "0.2")], "initContainers": [sidecar.clone(), container("init", "9")]}),
    );
    assert_eq!(request_of(&plain, "", "cpu", true), Ok(350));
    assert_eq!(request_of(&plain, "b", "cpu", true), Ok(200));
    assert_eq!(request_of(&plain, "side", "cpu", true), Ok(50));
    assert_eq!(
        request_of(&plain, "c", "cpu", true),
        Err("container c not found in Pod p".into())
    );
    assert_eq!(
        request_of(&plain, "", "memory", true),
        Err("missing request for memory in container a of Pod p".into())
    );
    let whole = pod(
        json!({"resources": {"requests": {"cpu": "2"}}, "containers": [container("a", "100m"), {"name": "b"}]}),
    );
    assert_eq!(request_of(&whole, "", "cpu", true), Ok(2000));
    assert_eq!(request_of(&whole, "a", "cpu", true), Ok(100));
    assert_eq!(
        request_of(&whole, "", "cpu", false),
        Err("missing request for cpu in container b of Pod p".into())
    );
    assert_eq!(
        request_of(&whole, "", "memory", true),
        Err("missing pod-level request for memory in Pod p".into())
    );
    // Beside what the pod itself says its overhead counts, and of the rest the most that containers need at a time.
    let mut memory = container("a", "1");
    memory["resources"]["requests"]["memory"] = json!("1Ki");
    let mut start = container("start", "9");
    start["resources"]["requests"]["memory"] = json!("3Ki");
    let whole = pod(
        json!({"resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "250m", "memory": "1Ki"},
            "containers": [memory.clone(), {"name": "b"}], "initContainers": [start]}),
    );
    assert_eq!(request_of(&whole, "", "cpu", true), Ok(2250));
    assert_eq!(request_of(&whole, "", "memory", true), Ok(4 * 1024 * 1000));
    assert_eq!(request_of(&whole, "a", "memory", true), Ok(1024 * 1000));
    // A limit of the pod is no request of it, and a resource that pods cannot speak of is none either.
    for resources in [
        json!({"limits": {"cpu": "2"}}),
        json!({"requests": {"example.com/gpu": "1"}}),
    ] {
        let limited =
            pod(json!({"resources": resources, "overhead": {"cpu": "1"}, "containers": [memory]}));
        assert_eq!(request_of(&limited, "", "cpu", true), Ok(1000));
    }
}
