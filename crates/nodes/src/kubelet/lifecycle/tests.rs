//! Pods are followed through virtual time: each change of their status is a line.

mod lost;
mod restarts;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::stages::Stages;
use api::Resource;
use std::net::Ipv4Addr;

/// What the pods here get.
static IPS: PodIps = PodIps::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Runs a pod for `seconds`, applying each patch as the API server would, and writes down what changed:
/// `time phase [containers] | events`.
fn check(pod: Value, seconds: i64, expected: Expect) {
    expected.assert_eq(&follow(pod, seconds, None));
}

fn follow(pod: Value, seconds: i64, deleted_at: Option<i64>) -> String {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "main", "image": "nginx"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut object, pod);
    let mut lines = Vec::new();
    let mut now = Time::from_unix(0).micro();
    let end = Time::from_unix(seconds).micro();
    let (mut looks, mut last_look) = (0, None);
    loop {
        looks += 1;
        assert!(looks < 1000, "never comes to rest: {lines:#?}");
        if let Some(at) = deleted_at.filter(|at| now >= Time::from_unix(*at).micro()) {
            object["metadata"]["deletionTimestamp"] = json!(Time::from_unix(at + 30));
            object["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        }
        let view = Pod::decode(object.to_string().as_bytes()).unwrap();
        let (behaviour, problems) = Behaviour::of(&view, &Stages::default());
        assert!(problems.is_empty(), "{problems:?}");
        let facts = Facts {
            now,
            behaviour: &behaviour,
            pod_ips: &IPS,
            is_busy: false,
            has_volumes: true,
            has_image: &|_| false,
            mount_errors: &[],
            config_error: &|_| None,
            rejection: None,
            lacks_room: &|| None,
            last_look,
        };
        let advance = advance(&view, &facts);
        last_look = advance.is_remembered.then_some(now);
        if let Some(status) = &advance.status {
            let patch: Value =
                serde_json::from_slice(&status_patch(&view, status, "1.2.3.4")).unwrap();
            // Lists that the kubelet owns are written whole, so a plain merge does here.
            merge(&mut object, json!({"status": patch["status"]}));
        }
        if advance.status.is_some() || !advance.events.is_empty() || advance.delete || advance.evict
        {
            lines.push(line(now, &object, &advance));
        }
        if advance.delete {
            break;
        }
        let due = match (advance.status.is_some(), advance.wake_at) {
            (true, _) => continue,
            (false, wake_at) => wake_at,
        };
        let deletion = deleted_at
            .map(|at| Time::from_unix(at).micro())
            .filter(|at| *at > now);
        match due
            .into_iter()
            .chain(deletion)
            .min()
            .filter(|due| *due <= end)
        {
            Some(due) => now = due,
            None => break,
        }
    }
    lines.join("\n")
}

fn line(now: MicroTime, object: &Value, advance: &Advance) -> String {
    let status = &object["status"];
    let statuses = |list: &str| status[list].as_array().cloned().unwrap_or_default();
    let containers: Vec<String> = statuses("initContainerStatuses")
        .iter()
        .chain(&statuses("containerStatuses"))
        .map(container)
        .collect();
    let conditions = statuses("conditions");
    let ready = conditions
        .iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True");
    let mut events: Vec<&str> = advance.events.iter().map(|event| &*event.reason).collect();
    if advance.delete {
        events.push("DELETE");
    }
    if advance.evict {
        events.push("EVICT");
    }
    let text = format!(
        "{}s {}{} {} | {}",
        now.time().unix(),
        status["phase"].as_str().unwrap_or_default(),
        if ready { " ready" } else { "" },
        containers.join(" "),
        events.join(" ")
    );
    text.trim_end_matches([' ', '|']).to_owned()
}

fn container(status: &Value) -> String {
    let state = &status["state"];
    let what = if let Some(waiting) = state.get("waiting") {
        waiting["reason"].as_str().unwrap_or_default().to_owned()
    } else if state.get("running").is_some() {
        let ready = if status["ready"] == true {
            "+ready"
        } else {
            ""
        };
        format!("Running{ready}")
    } else {
        let end = &state["terminated"];
        let ready = if status["ready"] == true {
            "+ready"
        } else {
            ""
        };
        format!(
            "{}({}){ready}",
            end["reason"].as_str().unwrap_or_default(),
            end["exitCode"]
        )
    };
    let restarts = status["restartCount"].as_i64().unwrap_or(0);
    let again = if restarts > 0 {
        format!("x{restarts}")
    } else {
        String::new()
    };
    format!(
        "{}:{what}{again}",
        status["name"].as_str().unwrap_or_default()
    )
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn annotated(annotations: Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

#[test]
fn starts_and_becomes_ready() {
    check(
        json!({}),
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started"#]],
    );
}

#[test]
fn a_busy_kubelet_writes_the_start_at_once() {
    let pod = pod_to_start();
    let facts = Facts {
        now: Time::from_unix(9).micro(),
        behaviour: &Behaviour::default(),
        pod_ips: &IPS,
        is_busy: true,
        has_volumes: true,
        has_image: &|_| true,
        mount_errors: &[],
        config_error: &|_| None,
        rejection: None,
        lacks_room: &|| None,
        last_look: None,
    };
    let status = advance(&pod, &facts).status.expect("a new status");
    assert_eq!(
        (status.phase, status.start_time),
        (Phase::Running, Some(Time::from_unix(9)))
    );
    assert!(status.containers[0].ready);
}

fn pod_to_start() -> Pod {
    Pod::decode(
        br#"{"metadata":{"name":"web","uid":"u"},"spec":{"nodeName":"n","containers":[{"name":"main","image":"nginx"}]}}"#,
    )
    .unwrap()
}

#[test]
fn readiness_waits_for_the_probe() {
    let probed = json!({"spec": {"containers": [{
        "name": "main", "image": "nginx",
        "startupProbe": {"initialDelaySeconds": 5, "periodSeconds": 10, "successThreshold": 1},
        "readinessProbe": {"initialDelaySeconds": 10, "periodSeconds": 3, "successThreshold": 2},
    }]}});
    check(
        probed,
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running main:Running | Pulling Pulled Created Started
        5s Running main:Running
        13s Running ready main:Running+ready"#]],
    );
}

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    let ordered = json!({"spec": {"initContainers": [
        {"name": "first", "image": "busybox", "command": ["sleep", "3"]},
        {"name": "proxy", "image": "envoy", "restartPolicy": "Always"},
        {"name": "second", "image": "busybox", "command": ["sleep", "2"]},
    ]}});
    check(
        ordered,
        1000,
        expect![[r#"
        0s Pending first:PodInitializing proxy:PodInitializing second:PodInitializing main:PodInitializing
        0s Pending first:Running proxy:PodInitializing second:PodInitializing main:PodInitializing | Pulling Pulled Created Started
        3s Pending first:Completed(0)+ready proxy:Running+ready second:Running main:PodInitializing | Pulling Pulled Created Started Pulling Pulled Created Started
        5s Running ready first:Completed(0)+ready proxy:Running+ready second:Completed(0)+ready main:Running+ready | Pulling Pulled Created Started"#]],
    );
}

#[test]
fn a_sidecar_that_starts_slowly_holds_back_what_comes_after_it() {
    let slow = json!({"spec": {"initContainers": [{
        "name": "proxy", "image": "envoy", "restartPolicy": "Always",
        "startupProbe": {"initialDelaySeconds": 4, "periodSeconds": 1, "successThreshold": 1},
    }]}});
    check(
        slow,
        1000,
        expect![[r#"
        0s Pending proxy:PodInitializing main:PodInitializing
        0s Pending proxy:Running main:PodInitializing | Pulling Pulled Created Started
        4s Running ready proxy:Running+ready main:Running+ready | Pulling Pulled Created Started"#]],
    );
}

#[test]
fn a_probe_that_fails_is_told() {
    let mut probed = annotated(json!({"steersman.dev/unready-after": "1m"}));
    merge(
        &mut probed,
        json!({"spec": {"containers": [{
            "name": "main", "image": "nginx",
            "readinessProbe": {"initialDelaySeconds": 2, "periodSeconds": 3, "successThreshold": 1},
        }]}}),
    );
    check(
        probed,
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running main:Running | Pulling Pulled Created Started
        2s Running ready main:Running+ready
        62s Running main:Running | Unhealthy"#]],
    );
}

#[test]
fn an_init_container_that_fails_is_tried_again() {
    let failing =
        json!({"spec": {"initContainers": [{"name": "init", "image": "x", "command": ["false"]}]}});
    check(
        failing,
        40,
        expect![[r#"
        0s Pending init:PodInitializing main:PodInitializing
        0s Pending init:Runningx1 main:PodInitializing | Pulling Pulled Created Started Pulling Pulled Created Started
        0s Pending init:CrashLoopBackOffx1 main:PodInitializing | BackOff
        10s Pending init:CrashLoopBackOffx2 main:PodInitializing | Pulling Pulled Created Started BackOff
        30s Pending init:CrashLoopBackOffx3 main:PodInitializing | Pulling Pulled Created Started BackOff"#]],
    );
}

#[test]
fn an_init_container_that_fails_for_good_fails_the_pod() {
    let failing = json!({"spec": {
        "restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "x", "command": ["false"]}],
    }});
    check(
        failing,
        40,
        expect![[r#"
        0s Pending init:PodInitializing main:PodInitializing
        0s Failed init:Error(1) main:PodInitializing | Pulling Pulled Created Started"#]],
    );
}

#[test]
fn crashes_are_backed_off() {
    check(
        annotated(json!({"steersman.dev/crash-after": "1s"})),
        180,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        1s Running main:Runningx1 | Pulling Pulled Created Started
        1s Running ready main:Running+readyx1
        2s Running main:CrashLoopBackOffx1 | BackOff
        12s Running ready main:Running+readyx2 | Pulling Pulled Created Started
        13s Running main:CrashLoopBackOffx2 | BackOff
        33s Running ready main:Running+readyx3 | Pulling Pulled Created Started
        34s Running main:CrashLoopBackOffx3 | BackOff
        74s Running ready main:Running+readyx4 | Pulling Pulled Created Started
        75s Running main:CrashLoopBackOffx4 | BackOff
        155s Running ready main:Running+readyx5 | Pulling Pulled Created Started
        156s Running main:CrashLoopBackOffx5 | BackOff"#]],
    );
}

#[test]
fn jobs_finish() {
    check(
        json!({"spec": {"restartPolicy": "Never"}}),
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        1s Succeeded main:Completed(0)"#]],
    );
    let failing = json!({
        "metadata": {"annotations": {"steersman.dev/exit-code": "3"}}, "spec": {"restartPolicy": "Never"},
    });
    check(
        failing,
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        1s Failed main:Error(3)"#]],
    );
    let again = json!({
        "metadata": {"annotations": {"steersman.dev/exit-code": "3"}}, "spec": {"restartPolicy": "OnFailure"},
    });
    check(
        again,
        15,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        1s Running main:Runningx1 | Pulling Pulled Created Started
        1s Running ready main:Running+readyx1
        2s Running main:CrashLoopBackOffx1 | BackOff
        12s Running ready main:Running+readyx2 | Pulling Pulled Created Started
        13s Running main:CrashLoopBackOffx2 | BackOff"#]],
    );
}

#[test]
fn sidecars_end_with_a_job() {
    let job = json!({"spec": {
        "restartPolicy": "Never",
        "initContainers": [{"name": "proxy", "image": "envoy", "restartPolicy": "Always"}],
    }});
    check(
        job,
        1000,
        expect![[r#"
        0s Pending proxy:PodInitializing main:PodInitializing
        0s Running ready proxy:Running+ready main:Running+ready | Pulling Pulled Created Started Pulling Pulled Created Started
        1s Succeeded proxy:Completed(0) main:Completed(0)"#]],
    );
}

#[test]
fn an_image_that_cannot_be_pulled() {
    let missing = json!({"spec": {"containers": [{"name": "main", "image": "web:missing"}]}});
    check(
        missing,
        50,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Pending main:ErrImagePull | Pulling Failed Failed
        2s Pending main:ImagePullBackOff | BackOff Failed
        10s Pending main:ErrImagePull | Pulling Failed Failed
        12s Pending main:ImagePullBackOff | BackOff Failed
        30s Pending main:ErrImagePull | Pulling Failed Failed
        32s Pending main:ImagePullBackOff | BackOff Failed"#]],
    );
}

#[test]
fn delays_and_unreadiness_as_asked() {
    let delayed = annotated(json!({
        "steersman.dev/start-delay": "5s", "steersman.dev/ready-delay": "10s", "steersman.dev/unready-after": "1m",
    }));
    check(
        delayed,
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        5s Running main:Running | Pulling Pulled Created Started
        15s Running ready main:Running+ready
        75s Running main:Running"#]],
    );
    check(
        annotated(json!({"steersman.dev/never-ready": "true"})),
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running main:Running | Pulling Pulled Created Started"#]],
    );
    check(
        annotated(json!({"steersman.dev/delete-after": "1m"})),
        61,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        60s Running ready main:Running+ready | EVICT"#]],
    );
}

#[test]
fn deadlines_end_a_pod() {
    let limited = json!({"spec": {"activeDeadlineSeconds": 20}});
    check(
        limited,
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        20s Failed main:Error(137) | Killing DeadlineExceeded"#]],
    );
}

#[test]
fn readiness_gates_hold_a_pod_back() {
    let gated = json!({"spec": {"readinessGates": [{"conditionType": "example.com/open"}]}});
    check(
        gated,
        1000,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running main:Running+ready | Pulling Pulled Created Started"#]],
    );
}

#[test]
fn a_deleted_pod_stops_and_goes() {
    expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        5s Succeeded main:Completed(0) | Killing DELETE"#]]
    .assert_eq(&follow(json!({}), 1000, Some(5)));
    let slow = annotated(json!({"steersman.dev/stop-delay": "12s"}));
    expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        5s Running ready main:Running+ready | Killing
        17s Succeeded main:Completed(0) | DELETE"#]]
    .assert_eq(&follow(slow, 1000, Some(5)));
    let stubborn = annotated(json!({"steersman.dev/stop-delay": "5m"}));
    expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        5s Running ready main:Running+ready | Killing
        35s Failed main:Error(137) | DELETE"#]]
    .assert_eq(&follow(stubborn, 1000, Some(5)));
    let unstarted = annotated(json!({"steersman.dev/start-delay": "1h"}));
    expect![[r#"
        0s Pending main:ContainerCreating
        5s Failed main:ContainerStatusUnknown(137) | DELETE"#]]
    .assert_eq(&follow(unstarted, 1000, Some(5)));
}

#[test]
fn a_finished_pod_that_is_deleted_goes_once() {
    let finished = |grace: i64, finalizers: &[&str]| {
        let mut pod = Pod::default();
        pod.status.phase = Phase::Succeeded;
        pod.metadata.deleted_at = Some(Time::from_unix(5));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        pod.metadata.finalizers = finalizers.iter().map(|name| Istr::new(name)).collect();
        let facts = Facts {
            now: Time::from_unix(9).micro(),
            behaviour: &Behaviour::default(),
            pod_ips: &PodIps::None,
            is_busy: false,
            has_volumes: true,
            has_image: &|_| false,
            mount_errors: &[],
            config_error: &|_| None,
            rejection: None,
            lacks_room: &|| None,
            last_look: None,
        };
        advance(&pod, &facts).delete
    };
    assert!(finished(30, &[]) && finished(30, &["a/b"]));
    assert!(
        !finished(0, &["a/b"]),
        "held by finalizers after our own DELETE"
    );
    assert!(finished(0, &[]), "a restored server forgot half of it");
}

#[test]
fn looking_again_changes_nothing() {
    let mut pod = pod_to_start();
    for _ in 0..2 {
        let facts = Facts {
            now: Time::from_unix(9).micro(),
            behaviour: &Behaviour::default(),
            pod_ips: &IPS,
            is_busy: false,
            has_volumes: true,
            has_image: &|_| true,
            mount_errors: &[],
            config_error: &|_| None,
            rejection: None,
            lacks_room: &|| None,
            last_look: None,
        };
        pod.status = advance(&pod, &facts).status.expect("two steps to running");
        let again = advance(&pod, &facts);
        if pod.status.phase == Phase::Running {
            assert_eq!(again, Advance::default());
        }
    }
    assert_eq!(pod.status.phase, Phase::Running);
}

fn probed(kind: &str, probe: Value, annotations: Value) -> Value {
    let mut container = json!({"name": "main", "image": "nginx"});
    container[kind] = json!({"initialDelaySeconds": 5, "periodSeconds": 10, "failureThreshold": 2, "successThreshold": 1});
    merge(&mut container[kind], probe);
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": [container]}})
}

#[test]
fn a_liveness_probe_that_fails_restarts_the_container() {
    let exec = json!({"exec": {"command": ["false"]}});
    check(
        probed("livenessProbe", exec, json!({})),
        40,
        expect![[r#"
            0s Pending main:ContainerCreating
            0s Running ready main:Running+ready | Pulling Pulled Created Started
            5s Running ready main:Running+ready | Unhealthy
            15s Running main:Runningx1 | Unhealthy Killing Pulling Pulled Created Started
            15s Running ready main:Running+readyx1
            20s Running ready main:Running+readyx1 | Unhealthy
            30s Running main:CrashLoopBackOffx1 | Unhealthy Killing BackOff
            40s Running ready main:Running+readyx2 | Pulling Pulled Created Started"#]],
    );
}

#[test]
fn a_container_that_fails_its_probe_has_its_grace_period() {
    let probe = json!({"httpGet": {"port": 80}, "terminationGracePeriodSeconds": 3});
    let slow = json!({"steersman.dev/stop-delay": "1m", "steersman.dev/liveness-probe": "fails after 20s"});
    check(
        probed("livenessProbe", probe, slow),
        40,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        25s Running ready main:Running+ready | Unhealthy
        35s Running ready main:Running+ready | Unhealthy Killing
        38s Running main:Runningx1 | Pulling Pulled Created Started
        38s Running ready main:Running+readyx1"#]],
    );
}

#[test]
fn a_startup_probe_holds_back_the_others_and_kills() {
    let slow = json!({"steersman.dev/startup-probe": "fails for 10s"});
    check(
        probed("startupProbe", json!({"grpc": {"port": 1}}), slow),
        60,
        expect![[r#"
            0s Pending main:ContainerCreating
            0s Running main:Running | Pulling Pulled Created Started
            5s Running main:Running | Unhealthy
            15s Running ready main:Running+ready"#]],
    );
    let never = json!({"steersman.dev/startup-probe": "fails"});
    check(
        probed("startupProbe", json!({"grpc": {"port": 1}}), never),
        20,
        expect![[r#"
            0s Pending main:ContainerCreating
            0s Running main:Running | Pulling Pulled Created Started
            5s Running main:Running | Unhealthy
            15s Running main:Runningx1 | Unhealthy Killing Pulling Pulled Created Started
            20s Running main:Runningx1 | Unhealthy"#]],
    );
}

#[test]
fn a_readiness_probe_takes_a_container_out_and_in_again() {
    let annotations = json!({"steersman.dev/readiness-probe": "fails after 10s for 20s"});
    check(
        probed(
            "readinessProbe",
            json!({"tcpSocket": {"port": "http"}}),
            annotations,
        ),
        100,
        expect![[r#"
            0s Pending main:ContainerCreating
            0s Running main:Running | Pulling Pulled Created Started
            5s Running ready main:Running+ready
            15s Running ready main:Running+ready | Unhealthy
            25s Running main:Running | Unhealthy
            35s Running ready main:Running+ready"#]],
    );
}

#[test]
fn probes_fail_in_the_kubelets_words() {
    let messages = |check: Value| {
        let pod = json!({
            "metadata": {"name": "web", "uid": "u1", "annotations": {"steersman.dev/readiness-probe": "fails"}},
            "spec": {"nodeName": "n", "containers": [{
                "name": "main", "image": "nginx", "ports": [{"name": "http", "containerPort": 8080}],
                "readinessProbe": check,
            }]},
            "status": {"startTime": "1970-01-01T00:00:00Z", "containerStatuses": [
                {"name": "main", "state": {"running": {"startedAt": "1970-01-01T00:00:00Z"}}}]},
        });
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        let (behaviour, _) = Behaviour::of(&pod, &Stages::default());
        let facts = Facts {
            now: Time::from_unix(9).micro(),
            behaviour: &behaviour,
            pod_ips: &IPS,
            is_busy: false,
            has_volumes: true,
            has_image: &|_| true,
            mount_errors: &[],
            config_error: &|_| None,
            rejection: None,
            lacks_room: &|| None,
            last_look: None,
        };
        let advance = advance(&pod, &facts);
        advance.events[0].message.clone()
    };
    for (check, expected) in [
        (
            json!({"httpGet": {"port": 80}}),
            "Readiness probe failed: HTTP probe failed with statuscode: 503",
        ),
        (
            json!({"tcpSocket": {"port": "http"}}),
            "Readiness probe failed: dial tcp 10.0.0.2:8080: connect: connection refused",
        ),
        (
            json!({"grpc": {"port": 1}}),
            "Readiness probe failed: service unhealthy (responded with \"NOT_SERVING\")",
        ),
        (
            json!({"exec": {"command": ["cat", "/tmp/healthy"]}}),
            "Readiness probe failed: cat: can't open '/tmp/healthy': No such file or directory\n",
        ),
        (
            json!({"exec": {"command": ["sleep", "5"]}}),
            "Readiness probe failed: command timed out: \"sleep 5\" timed out after 1s",
        ),
    ] {
        assert_eq!(messages(check), expected);
    }
}
