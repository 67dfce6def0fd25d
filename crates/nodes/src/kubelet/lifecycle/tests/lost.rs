//! Containers that had not begun, or were between two runs, when their pod ended.

use super::*;

fn with_init(command: &str, more: Value) -> Value {
    let mut init = json!({"name": "init", "image": "x", "command": ["sh", "-c", command]});
    merge(&mut init, more);
    let after = json!({"name": "after", "image": "x", "command": ["true"]});
    json!({"spec": {"initContainers": [init, after]}})
}

#[test]
fn a_container_that_never_ran_is_lost_with_its_pod() {
    let missing = json!({"spec": {"containers": [{"name": "main", "image": "web:missing"}]}});
    expect![[r#"
        0s Pending main:ContainerCreating
        0s Pending main:ErrImagePull | Pulling Failed Failed
        2s Pending main:ImagePullBackOff | BackOff Failed
        5s Failed main:ContainerStatusUnknown(137) | DELETE"#]]
    .assert_eq(&follow(missing, 9, Some(5)));
    // Before its kubelet has looked at it for the first time.
    expect!["0s Failed main:ContainerStatusUnknown(137) | DELETE"].assert_eq(&follow(
        json!({}),
        9,
        Some(0),
    ));
}

#[test]
fn containers_whose_turn_has_not_come_wait_for_ever() {
    let slow = with_init("sleep 60", json!({}));
    expect![[r#"
        0s Pending init:PodInitializing after:PodInitializing main:PodInitializing
        0s Pending init:Running after:PodInitializing main:PodInitializing | Pulling Pulled Created Started
        5s Failed init:Completed(0)+ready after:PodInitializing main:PodInitializing | Killing DELETE"#]].assert_eq(&follow(slow, 9, Some(5)));
    let missing = with_init("true", json!({"image": "x:missing"}));
    expect![[r#"
        0s Pending init:PodInitializing after:PodInitializing main:PodInitializing
        0s Pending init:ErrImagePull after:PodInitializing main:PodInitializing | Pulling Failed Failed
        2s Pending init:ImagePullBackOff after:PodInitializing main:PodInitializing | BackOff Failed
        5s Failed init:ContainerStatusUnknown(137) after:PodInitializing main:PodInitializing | DELETE"#]].assert_eq(&follow(missing, 9, Some(5)));
}

#[test]
fn a_container_between_two_runs_has_ended_as_the_last_one_did() {
    let crashing = annotated(json!({"steersman.dev/crash-after": "1s"}));
    expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        1s Running main:Runningx1 | Pulling Pulled Created Started
        1s Running ready main:Running+readyx1
        2s Running main:CrashLoopBackOffx1 | BackOff
        5s Failed main:Error(1)x1 | DELETE"#]]
    .assert_eq(&follow(crashing.clone(), 9, Some(5)));
    // By its deadline it would have run again: nobody knows how that would have ended.
    let mut limited = crashing;
    merge(&mut limited, json!({"spec": {"activeDeadlineSeconds": 5}}));
    check(
        limited,
        9,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        1s Running main:Runningx1 | Pulling Pulled Created Started
        1s Running ready main:Running+readyx1
        2s Running main:CrashLoopBackOffx1 | BackOff
        5s Failed main:ContainerStatusUnknown(137)x1 | DeadlineExceeded"#]],
    );
}

#[test]
fn the_end_that_nobody_has_seen_is_told_in_the_kubelets_words() {
    let mut pod = pod_to_start();
    pod.metadata.deleted_at = Some(Time::from_unix(5));
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
    let status = advance(&pod, &facts).status.expect("a new status");
    let patch = status_patch(&pod, &status, "");
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let main = &patch["status"]["containerStatuses"][0];
    assert_eq!(main["containerID"], "");
    assert_eq!(
        main["state"]["terminated"],
        json!({
            "exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": null, "finishedAt": null,
            "message": "The container could not be located when the pod was terminated",
        })
    );
}
