//! What containers say of restarts themselves, and pods whose containers restart all at once.

use super::*;

fn container(name: &str, command: &str, more: Value) -> Value {
    let mut container = json!({"name": name, "image": "busybox", "command": ["sh", "-c", command]});
    merge(&mut container, more);
    container
}

fn of(policy: &str, init: Value, main: Value) -> Value {
    json!({"spec": {"restartPolicy": policy, "initContainers": init, "containers": main}})
}

/// One rule: what to do where the exit code is (not) among these.
fn rule(policy: &str, action: &str, operator: &str, values: &[i32]) -> Value {
    json!({"restartPolicy": policy, "restartPolicyRules": [
        {"action": action, "exitCodes": {"operator": operator, "values": values}}]})
}

#[test]
fn a_container_has_its_own_policy() {
    let again = container("again", "sleep 5", json!({"restartPolicy": "Always"}));
    check(
        of("Never", json!([]), json!([again])),
        10,
        expect![[r#"
        0s Pending again:ContainerCreating
        0s Running ready again:Running+ready | Pulling Pulled Created Started
        5s Running again:Runningx1 | Pulling Pulled Created Started
        5s Running ready again:Running+readyx1
        10s Running again:CrashLoopBackOffx1 | BackOff"#]],
    );
    let once = container("once", "sleep 5; false", json!({"restartPolicy": "Never"}));
    let main = container("main", "sleep 8", json!({"restartPolicy": "OnFailure"}));
    check(
        of("Always", json!([]), json!([once, main])),
        10,
        expect![[r#"
            0s Pending once:ContainerCreating main:ContainerCreating
            0s Running ready once:Running+ready main:Running+ready | Pulling Pulled Created Started Pulling Pulled Created Started
            5s Running once:Error(1) main:Running+ready
            8s Failed once:Error(1) main:Completed(0)"#]],
    );
}

#[test]
fn an_init_container_has_its_own_policy() {
    let once = container("once", "exit 3", json!({"restartPolicy": "Never"}));
    let main = container("main", "sleep 900", json!({}));
    check(
        of("Always", json!([once]), json!([main])),
        10,
        expect![[r#"
            0s Pending once:PodInitializing main:PodInitializing
            0s Failed once:Error(3) main:PodInitializing | Pulling Pulled Created Started"#]],
    );
    let again = container("again", "exit 3", json!({"restartPolicy": "OnFailure"}));
    check(
        of("Never", json!([again]), json!([main])),
        5,
        expect![[r#"
            0s Pending again:PodInitializing main:PodInitializing
            0s Pending again:Runningx1 main:PodInitializing | Pulling Pulled Created Started Pulling Pulled Created Started
            0s Pending again:CrashLoopBackOffx1 main:PodInitializing | BackOff"#]],
    );
}

#[test]
fn the_first_rule_that_matches_counts() {
    let busy = rule("Never", "Restart", "In", &[42]);
    let main = container("main", "sleep 2; exit 42", busy.clone());
    check(
        of("Never", json!([]), json!([main])),
        4,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        2s Running main:Runningx1 | Pulling Pulled Created Started
        2s Running ready main:Running+readyx1
        4s Running main:CrashLoopBackOffx1 | BackOff"#]],
    );
    let main = container("main", "sleep 2; exit 1", busy);
    check(
        of("Always", json!([]), json!([main])),
        9,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        2s Failed main:Error(1)"#]],
    );
    let unless = rule("Never", "Restart", "NotIn", &[0]);
    let done = container("main", "sleep 2", unless);
    check(
        of("Always", json!([]), json!([done])),
        9,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running ready main:Running+ready | Pulling Pulled Created Started
        2s Succeeded main:Completed(0)"#]],
    );
    // An init container that ended well is done, whatever its rules say.
    let done = container("init", "true", rule("Never", "Restart", "In", &[0]));
    let main = container("main", "sleep 900", json!({}));
    check(
        of("Always", json!([done]), json!([main])),
        9,
        expect![[r#"
            0s Pending init:PodInitializing main:PodInitializing
            0s Running ready init:Completed(0)+ready main:Running+ready | Pulling Pulled Created Started Pulling Pulled Created Started"#]],
    );
}

#[test]
fn all_containers_restart_from_the_first_init_container() {
    let all = rule("Never", "RestartAllContainers", "In", &[42]);
    let init = container("init", "sleep 3", json!({}));
    let proxy = container("proxy", "sleep 900", json!({"restartPolicy": "Always"}));
    let watch = container("watch", "sleep 10; exit 42", all);
    let main = container("main", "sleep 900", json!({}));
    check(
        of("Never", json!([init, proxy]), json!([watch, main])),
        21,
        expect![[r#"
            0s Pending init:PodInitializing proxy:PodInitializing watch:PodInitializing main:PodInitializing
            0s Pending init:Running proxy:PodInitializing watch:PodInitializing main:PodInitializing | Pulling Pulled Created Started
            3s Running ready init:Completed(0)+ready proxy:Running+ready watch:Running+ready main:Running+ready | Pulling Pulled Created Started Pulling Pulled Created Started Pulling Pulled Created Started
            13s Running init:Completed(0)+ready proxy:Running+ready watch:Error(42) main:Running+ready
            14s Running init:RestartingAllContainersx1 proxy:RestartingAllContainersx1 watch:RestartingAllContainersx1 main:RestartingAllContainersx1 | Killing Killing
            14s Pending init:Runningx1 proxy:RestartingAllContainersx1 watch:RestartingAllContainersx1 main:RestartingAllContainersx1 | Pulling Pulled Created Started
            17s Running ready init:Completed(0)+readyx1 proxy:Running+readyx1 watch:Running+readyx1 main:Running+readyx1 | Pulling Pulled Created Started Pulling Pulled Created Started Pulling Pulled Created Started"#]],
    );
}

#[test]
fn a_container_that_ends_at_once_does_not_restart_its_pod_all_the_time() {
    let all = rule("Never", "RestartAllContainers", "NotIn", &[0]);
    let main = container("main", "exit 1", all);
    check(
        of("Never", json!([]), json!([main])),
        3,
        expect![[r#"
        0s Pending main:ContainerCreating
        0s Running main:Error(1) | Pulling Pulled Created Started
        1s Running main:RestartingAllContainersx1
        1s Running main:Error(1)x1 | Pulling Pulled Created Started
        2s Running main:RestartingAllContainersx2
        2s Running main:Error(1)x2 | Pulling Pulled Created Started
        3s Running main:RestartingAllContainersx3
        3s Running main:Error(1)x3 | Pulling Pulled Created Started"#]],
    );
}

#[test]
fn what_is_said_of_a_pod_that_restarts_as_a_whole() {
    let all = rule("Never", "RestartAllContainers", "In", &[42]);
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"nodeName": "n", "containers": [container("main", "exit 42", all)]},
        "status": {"phase": "Pending"},
    });
    let look = |object: &mut Value, seconds: i64| {
        let pod = Pod::decode(object.to_string().as_bytes()).unwrap();
        let facts = Facts {
            now: Time::from_unix(seconds).micro(),
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
        let status = advance(&pod, &facts).status.expect("a new status");
        let patch = status_patch(&pod, &status, "1.2.3.4");
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        object["status"] = patch["status"].clone();
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let said = conditions
            .iter()
            .find(|one| one["type"] == "AllContainersRestarting");
        said.cloned().unwrap_or_default()
    };
    assert_eq!(look(&mut object, 0)["status"], "False");
    let said = look(&mut object, 2);
    assert_eq!(
        (&said["status"], &said["reason"], &said["message"]),
        (
            &json!("True"),
            &json!("RestartAllContainersStarted"),
            &json!("container exited with restart policy rule")
        )
    );
    assert_eq!(object["status"]["phase"], "Running");
    assert_eq!(look(&mut object, 3)["status"], "False");
    let why = "The container is removed because RestartAllContainers in place";
    let main = &object["status"]["containerStatuses"][0];
    assert_eq!(
        main["state"],
        json!({"waiting": {"reason": "RestartingAllContainers", "message": why}})
    );
    let end = &main["lastState"]["terminated"];
    assert_eq!(
        (&end["exitCode"], &end["reason"], &end["message"]),
        (&json!(137), &json!("RestartingAllContainers"), &json!(why))
    );
    assert_eq!(
        (&end["startedAt"], end.get("containerID")),
        (&json!(null), None)
    );
    assert_eq!(main["restartCount"], 1);
    look(&mut object, 4);
    assert_eq!(object["status"]["containerStatuses"][0]["restartCount"], 1);
}

#[test]
fn a_sidecar_that_restarts_does_not_make_the_pod_pending() {
    let proxy = container("proxy", "sleep 900", json!({"restartPolicy": "Always"}));
    let main = container("main", "sleep 900", json!({}));
    let mut pod = of("Always", json!([proxy]), json!([main]));
    let crash = json!({"steersman.dev/crash-after": "5s", "steersman.dev/container": "proxy"});
    merge(&mut pod, annotated(crash));
    check(
        pod,
        12,
        expect![[r#"
        0s Pending proxy:PodInitializing main:PodInitializing
        0s Running ready proxy:Running+ready main:Running+ready | Pulling Pulled Created Started Pulling Pulled Created Started
        5s Running proxy:Runningx1 main:Running+ready | Pulling Pulled Created Started
        5s Running ready proxy:Running+readyx1 main:Running+ready
        10s Running proxy:CrashLoopBackOffx1 main:Running+ready | BackOff"#]],
    );
}
