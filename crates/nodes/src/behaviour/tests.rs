use super::*;
use api::{Istr, Resource};

fn pod(annotations: &str, container: &str) -> Pod {
    let json = format!(
        r#"{{"metadata":{{"name":"job-3","annotations":{{{annotations}}}}},
            "spec":{{"restartPolicy":"Never","containers":[{{"name":"main","image":"busybox"{container}}}]}}}}"#
    );
    Pod::decode(json.as_bytes()).unwrap()
}

/// When and how the container of a Job's pod ends.
fn exit(annotations: &str, container: &str) -> Option<(f64, i32)> {
    let pod = pod(annotations, container);
    let (behaviour, problems) = Behaviour::of(&pod, &Stages::default());
    assert_eq!(problems, Vec::<String>::new());
    let exit = behaviour.exit(
        &pod.spec.containers[0],
        pod.spec.restart_policy,
        Time::from_unix(100),
    );
    exit.map(|exit| (exit.after.as_secs_f64(), exit.code))
}

#[test]
fn durations() {
    for (text, seconds) in [
        ("5s", Some(5.0)),
        ("1m30s", Some(90.0)),
        ("500ms", Some(0.5)),
        ("1h", Some(3600.0)),
        ("2.5s", Some(2.5)),
        ("7", Some(7.0)),
        ("", None),
        ("-1s", None),
        ("-1", None),
        ("5x", None),
        ("s", None),
        ("NaN", None),
        ("9999999999999", None),
    ] {
        assert_eq!(
            parse_duration(text).map(|time| time.as_secs_f64()),
            seconds,
            "{text}"
        );
    }
}

#[test]
fn pods_that_are_meant_to_end_do_so_shortly() {
    assert_eq!(exit("", ""), Some((1.0, 0)));
    assert_eq!(exit(r#""steersman.dev/exit-code":"3""#, ""), Some((1.0, 3)));
    assert_eq!(exit(r#""steersman.dev/run-for":"forever""#, ""), None);
    assert_eq!(exit(r#""steersman.dev/run-for":"9s""#, ""), Some((9.0, 0)));
    assert_eq!(
        exit(r#""steersman.dev/crash-after":"2s""#, ""),
        Some((2.0, 1))
    );
}

#[test]
fn exit_codes_by_index() {
    let by_index = r#""steersman.dev/exit-code-by-index":"0=0, 3=42""#;
    assert_eq!(exit(by_index, ""), Some((1.0, 42)));
    let other = format!(r#"{by_index},"batch.kubernetes.io/job-completion-index":"1""#);
    assert_eq!(exit(&other, ""), Some((1.0, 0)));
}

#[test]
fn simple_commands_do_what_they_say() {
    for (command, expected) in [
        (r#""sleep","5""#, Some((5.0, 0))),
        (r#""/bin/sleep","1m""#, Some((60.0, 0))),
        (r#""sleep","infinity""#, None),
        (r#""false""#, Some((0.0, 1))),
        (
            r#""sh","-c","echo hi; sleep 3; exit 7; sleep 9""#,
            Some((3.0, 7)),
        ),
        (r#""/bin/bash","-c","sleep 2 && false""#, Some((2.0, 1))),
        (
            r#""sh","-c","trap exit TERM; while true; do sleep 1; done""#,
            None,
        ),
        (r#""perl","-e","1""#, Some((1.0, 0))),
        (r#""sh","-c","make all; exit 1""#, Some((1.0, 0))),
    ] {
        assert_eq!(
            exit("", &format!(r#","command":[{command}]"#)),
            expected,
            "{command}"
        );
    }
    assert_eq!(
        exit("", r#","command":["sleep"],"args":["4"]"#),
        Some((4.0, 0))
    );
}

#[test]
fn the_pause_image_waits_for_ever() {
    let ends = |image: &str, command: &str| {
        let container = Container {
            image: Istr::from(image),
            ..pod("", command).spec.containers[0].clone()
        };
        let started_at = Time::from_unix(100);
        let exit = Behaviour::default().exit(&container, RestartPolicy::Never, started_at);
        exit.map(|exit| exit.after.as_secs())
    };
    assert_eq!(ends("registry.example/pause:3.10", ""), None);
    assert_eq!(ends("pause", ""), None);
    assert_eq!(ends("pause/menu:1", ""), Some(1));
    assert_eq!(ends("pause", r#","command":["sleep","4"]"#), Some(4));
}

#[test]
fn only_the_named_container_misbehaves() {
    let other = r#""steersman.dev/crash-after":"2s","steersman.dev/container":"other""#;
    assert_eq!(exit(other, ""), Some((1.0, 0)));
}

#[test]
fn a_crash_by_hand_hits_what_runs_and_not_what_comes_after() {
    let pod = pod(r#""steersman.dev/crash-at":"1970-01-01T00:02:00Z""#, "");
    let (behaviour, _) = Behaviour::of(&pod, &Stages::default());
    let exit = |started| {
        behaviour
            .exit(
                &pod.spec.containers[0],
                RestartPolicy::Always,
                Time::from_unix(started),
            )
            .map(|exit| (exit.after.as_secs(), exit.code))
    };
    assert_eq!(exit(100), Some((20, 137)));
    assert_eq!(exit(120), None);
}

#[test]
fn nonsense_is_reported_by_name() {
    let pod = pod(
        r#""steersman.dev/start-delay":"soon","steersman.dev/never-ready":"perhaps","steersman.dev/exit-code":"999","steersman.dev/memory-use":"lots","steersman.dev/mine":"x""#,
        "",
    );
    let (behaviour, problems) = Behaviour::of(&pod, &Stages::default());
    assert_eq!(behaviour, Behaviour::default());
    assert_eq!(
        problems,
        [
            r#"annotation steersman.dev/exit-code: "999" is not a number from 0 to 255"#,
            r#"annotation steersman.dev/memory-use: "lots" is not an amount such as 250m or 64Mi, or a curve such as 0s=100m,5m=2"#,
            r#"annotation steersman.dev/never-ready: "perhaps" is not true or false"#,
            r#"annotation steersman.dev/start-delay: "soon" is not a duration such as 5s or 1m30s"#,
        ]
    );
}

#[test]
fn images_called_missing_cannot_be_pulled() {
    let missing = Container {
        image: Istr::from("shop/web:missing"),
        ..Container::default()
    };
    assert!(Behaviour::default().fails_to_pull(&missing));
    assert!(!Behaviour::default().fails_to_pull(&Container::default()));
}

#[test]
fn images_of_dockers_library_run_as_root() {
    let runs_as_root = |annotations: &str, image: &str| {
        let pod = pod(annotations, "");
        let (behaviour, _) = Behaviour::of(&pod, &Stages::default());
        let mut container = pod.spec.containers[0].clone();
        container.image = Istr::from(image);
        behaviour.runs_as_root(&container)
    };
    for image in [
        "nginx",
        "busybox:1",
        "library/nginx",
        "docker.io/library/nginx@sha256:0",
    ] {
        assert!(runs_as_root("", image), "{image}");
    }
    for image in [
        "nginxinc/nginx-unprivileged",
        "registry.example.com/operator:v1",
        "localhost:5000/operator",
    ] {
        assert!(!runs_as_root("", image), "{image}");
    }
    let operator = "registry.example.com/operator:v1";
    assert!(!runs_as_root(
        r#""steersman.dev/image-user":"101""#,
        "nginx"
    ));
    assert!(runs_as_root(r#""steersman.dev/image-user":"0""#, operator));
}
