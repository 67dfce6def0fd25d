use super::*;

fn pod(json: &str) -> Pod {
    Pod::decode(json.as_bytes()).unwrap()
}

fn ready_since(seconds: i64) -> Pod {
    pod(&format!(
        r#"{{"status":{{"conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"{}"}}]}}}}"#,
        Time::from_unix(seconds)
    ))
}

// Upstream: TestNextPodAvailabilityCheck.
#[test]
fn availability() {
    let now = Time::from_unix(100).micro();
    for (since, min_ready, available) in [
        (100, 0, true),
        (95, 5, true),
        (96, 5, false),
        (90, -1, true),
    ] {
        assert_eq!(
            ready_since(since).is_available(min_ready, now),
            available,
            "{since} {min_ready}"
        );
    }
    for (since, min_ready, wait) in [
        (98, 5, Some(3)),
        (100, 1, Some(1)),
        (80, 30, Some(10)),
        (100, 0, Some(0)),
        (49, 50, Some(0)),
    ] {
        assert_eq!(
            ready_since(since).until_available(min_ready, now),
            wait.map(Duration::from_secs),
            "{since} {min_ready}"
        );
    }
    let undated = pod(r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#);
    assert!(!undated.is_available(1, now));
    assert_eq!(undated.until_available(1, now), None);
    assert_eq!(pod("{}").until_available(0, now), None);
}

// Upstream: TestActivePodFiltering, TestCountTerminatingPods.
#[test]
fn activity() {
    let check = |json: &str| {
        let pod = pod(json);
        (pod.is_active(), pod.is_finished(), pod.is_terminating())
    };
    assert_eq!(
        check(r#"{"status":{"phase":"Running"}}"#),
        (true, false, false)
    );
    assert_eq!(
        check(r#"{"status":{"phase":"Failed"}}"#),
        (false, true, false)
    );
    assert_eq!(
        check(r#"{"status":{"phase":"Succeeded"}}"#),
        (false, true, false)
    );
    assert_eq!(check(r#"{"status":{"phase":"Odd"}}"#), (true, false, false));
    let deleted =
        r#"{"metadata":{"deletionTimestamp":"2024-01-01T00:00:00Z"},"status":{"phase":"Running"}}"#;
    assert_eq!(check(deleted), (false, false, true));
}

#[test]
fn deletion_cost_is_strict() {
    for (text, cost) in [
        ("10", 10),
        ("-10", -10),
        ("+1", 0),
        ("007", 0),
        ("0", 0),
        ("x", 0),
        ("9999999999", 0),
    ] {
        let json = format!(
            r#"{{"metadata":{{"annotations":{{"{POD_DELETION_COST}":"{text}","other":"x"}}}}}}"#
        );
        assert_eq!(pod(&json).deletion_cost(), cost, "{text}");
        assert_eq!(pod(&json).metadata.annotations.len(), 1);
    }
}

#[test]
fn counts_restarts_of_containers_and_sidecars() {
    let pod = pod(
        r#"{"spec":{"initContainers":[{"name":"once"},{"name":"side","restartPolicy":"Always"}]},
            "status":{"containerStatuses":[{"name":"a","restartCount":2},{"name":"b","restartCount":5}],
            "initContainerStatuses":[{"name":"once","restartCount":9},{"name":"side","restartCount":3}]}}"#,
    );
    assert_eq!((pod.status.restarts, pod.status.sidecar_restarts), (5, 3));
}

#[test]
fn how_containers_ended_is_kept_where_pods_end() {
    let ended = |policy: &str, containers: &str, init: &str| {
        let spec = r#""initContainers":[{"name":"once"},{"name":"side","restartPolicy":"Always"}]"#;
        let pod = pod(&format!(
            r#"{{"spec":{{"restartPolicy":"{policy}",{spec}}},"status":{{"containerStatuses":[{containers}],"initContainerStatuses":[{init}]}}}}"#
        ));
        let told = pod.ended().map(|ended| {
            let failures = ended.failures.iter();
            let failures: Vec<String> = failures
                .map(|exit| format!("{}:{}", exit.container, exit.code))
                .collect();
            (ended.at.map(Time::unix), failures.join(" "))
        });
        told.unwrap_or_default()
    };
    let one = |name: &str, code: i32, second: i32| {
        format!(
            r#"{{"name":"{name}","state":{{"terminated":{{"exitCode":{code},"finishedAt":"1970-01-01T00:00:{second:02}Z"}}}}}}"#
        )
    };
    let runs = r#"{"name":"b","state":{"running":{}}}"#;
    let (a, b) = (one("a", 3, 10), one("b", 0, 20));
    let both = format!("{a},{b}");
    assert_eq!(ended("Never", &both, ""), (Some(20), "a:3".into()));
    assert_eq!(ended("Always", &both, ""), (None, String::new()));
    assert_eq!(
        ended("OnFailure", &format!("{a},{runs}"), ""),
        (None, "a:3".into())
    );
    // Sidecars end last; other init containers are long done.
    let (once, side) = (one("once", 5, 50), one("side", 0, 30));
    assert_eq!(
        ended("Never", &a, &format!("{once},{side}")),
        (Some(30), "a:3 once:5".into())
    );
    assert_eq!(
        ended("Never", &a, r#"{"name":"side","state":{}}"#),
        (None, "a:3".into())
    );
    let nameless = r#"{"name":"a","state":{"terminated":{"exitCode":1,"finishedAt":null}}}"#;
    assert_eq!(ended("Never", nameless, ""), (None, "a:1".into()));
}

#[test]
fn all_conditions_are_kept_where_a_policy_may_ask() {
    let kept = |policy: &str, phase: &str| {
        let conditions = r#"[{"type":"Ready","status":"False"},{"type":"Mine","status":"True"},{"type":"DisruptionTarget","status":"True"}]"#;
        let pod = pod(&format!(
            r#"{{"spec":{{"restartPolicy":"{policy}"}},"status":{{"phase":"{phase}","conditions":{conditions}}}}}"#
        ));
        pod.conditions().len()
    };
    assert_eq!(
        (
            kept("Never", "Failed"),
            kept("Never", "Running"),
            kept("Always", "Failed")
        ),
        (3, 1, 1)
    );
}

#[test]
fn pods_of_one_template_share_their_body() {
    let one = pod(
        r#"{"metadata":{"name":"a"},"spec":{"restartPolicy":"Always","volumes":[{"name":"kube-api-access-x1"}]}}"#,
    );
    let two = pod(
        r#"{"metadata":{"name":"b"},"spec":{"restartPolicy":"Always","volumes":[{"name":"kube-api-access-y2"}]}}"#,
    );
    assert!(Arc::ptr_eq(&one.body, &two.body));
    assert!(one.own.is_none());
    assert!(
        std::mem::size_of::<Pod>() <= 352,
        "{}",
        std::mem::size_of::<Pod>()
    );
}

/// Both files are one pod as kube-apiserver 1.36 sent it.
#[test]
fn protobuf_and_json_give_the_same_view() {
    let json = Pod::decode(include_bytes!("testdata/pod.json")).unwrap();
    let message = include_bytes!("testdata/pod.pb");
    let protobuf = Pod::decode_protobuf(message).unwrap();
    assert_eq!(json, protobuf);
    let (json, protobuf) = (format!("{json:#?}"), format!("{protobuf:#?}"));
    assert_eq!(json, protobuf, "equality leaves the revision out");
    // All that a view can hold is in these files.
    let pod = Pod::decode_protobuf(message).unwrap();
    assert_eq!(pod.target_node(), Some("n1"));
    let claims = pod.volumes().iter();
    let claims: Vec<(&str, bool)> = claims
        .map(|volume| (&*volume.claim_name, volume.is_ephemeral))
        .collect();
    assert_eq!(claims, [("data-web-0", false), ("web-0-scratch", true)]);
    assert_eq!((pod.status.restarts, pod.status.sidecar_restarts), (5, 3));
    assert!(pod.is_ready() && pod.is_terminating() && pod.condition("DisruptionTarget").is_some());
    assert_eq!(pod.metadata.finalizers.len() + pod.metadata.owners.len(), 2);
}

/// The same of a pod of a job that failed.
#[test]
fn protobuf_and_json_agree_on_how_a_pod_ended() {
    let json = Pod::decode(include_bytes!("testdata/job-pod.json")).unwrap();
    let pod = Pod::decode_protobuf(include_bytes!("testdata/job-pod.pb")).unwrap();
    assert_eq!(format!("{json:#?}"), format!("{pod:#?}"));
    let ended = pod.ended().unwrap();
    assert_eq!(ended.at, Time::parse("2026-03-01T10:00:30Z"));
    let exit = |exit: &Exit| (exit.container.to_string(), exit.code);
    let failures: Vec<(String, i32)> = ended.failures.iter().map(exit).collect();
    assert_eq!(failures, [("main".into(), 42), ("once".into(), 5)]);
    assert_eq!(pod.status.restarts_in_all, 10);
    assert_eq!(pod.conditions().len(), 4);
    assert_eq!(pod.metadata.annotations.len(), 3, "those of jobs");
}

#[test]
fn a_broken_message_is_named_or_refused() {
    let message = include_bytes!("testdata/pod.pb");
    for end in 0..message.len() {
        // Some cuts fall between fields; none may panic.
        if let Err(error) = Pod::decode_protobuf(&message[..end]) {
            assert_eq!(error.kind, "Pod");
        }
    }
    let mut broken = message.to_vec();
    // A status whose phase is not text.
    broken.extend_from_slice(&[0x1a, 3, 0x0a, 1, 0xff]);
    let error = Pod::decode_protobuf(&broken).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot decode Pod default/web-0: field 3.1: text is not UTF-8"
    );
}

/// The same of all that quotas count; the message is what k8s.io/api makes of the JSON.
#[test]
fn protobuf_and_json_agree_on_what_a_pod_asks_for() {
    let json = Pod::decode(include_bytes!("testdata/resources.json")).unwrap();
    let pod = Pod::decode_protobuf(include_bytes!("testdata/resources.pb")).unwrap();
    assert_eq!(format!("{json:#?}"), format!("{pod:#?}"));
    assert_eq!(pod.extended_resource_claim(), Some("gpus"));
    let charge = &pod.body.charge;
    assert!(charge.has_deadline && charge.crosses_namespaces && !charge.is_best_effort);
    assert_eq!(charge.priority_class, "high");
    assert_eq!(
        crate::amounts::show(&charge.usage),
        "cpu=360m,limits.cpu=2010m,limits.memory=4Gi,memory=3Gi,pods=1,requests.cpu=360m,requests.example.com/gpu=2,requests.memory=3Gi"
    );
}

/// The same of the labels that volumes are mounted with; the message is what k8s.io/api makes of the JSON.
#[test]
fn protobuf_and_json_agree_on_labels_of_volumes() {
    let json = Pod::decode(include_bytes!("testdata/selinux.json")).unwrap();
    let pod = Pod::decode_protobuf(include_bytes!("testdata/selinux.pb")).unwrap();
    assert_eq!(format!("{json:#?}"), format!("{pod:#?}"));
    let asked = pod.se_linux().unwrap();
    assert_eq!(asked.change_policy.as_deref(), Some("MountOption"));
    let mounted = asked
        .mounts
        .iter()
        .map(|held| format!("{} {:?}", held.volume, held.labels));
    assert_eq!(
        mounted.collect::<Vec<_>>(),
        [r#"data [":r:t:s0:c2", "u:::s0:c1"]"#, r#"disk [""]"#]
    );
}

#[test]
fn labels_are_kept_where_a_kept_volume_is_mounted() {
    let kept = |mounts: &str, volumes: &str| {
        let context = r#""securityContext":{"seLinuxOptions":{"level":"s0"}}"#;
        let containers = format!(r#"[{{"name":"c","volumeMounts":[{mounts}]}}]"#);
        let pod = pod(&format!(
            r#"{{"spec":{{{context},"containers":{containers},"volumes":[{volumes}]}}}}"#
        ));
        pod.se_linux().is_some()
    };
    let claim = r#"{"name":"a","persistentVolumeClaim":{"claimName":"a"}}"#;
    assert!(kept(r#"{"name":"a"}"#, claim));
    assert!(!kept("", claim));
    assert!(!kept(r#"{"name":"a"}"#, r#"{"name":"a","emptyDir":{}}"#));
}
