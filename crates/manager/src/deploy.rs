//! What is in `deploy/` must work with what the binary takes.

use serde_json::Value;

use crate::options::{Command, Options};

const STATIC_POD: &str = include_str!("../../../deploy/kubeadm/kube-controller-manager.yaml");
const CONTAINER_FILE: &str = include_str!("../../../deploy/Containerfile");

fn container() -> Value {
    let pod: Value = api::yaml::from_str(STATIC_POD).unwrap();
    assert_eq!(pod["kind"], "Pod");
    pod["spec"]["containers"][0].clone()
}

fn flags() -> Vec<String> {
    let container = container();
    let command = container["command"].as_array().unwrap();
    assert_eq!(command[0], "kube-controller-manager");
    let flags = command[1..].iter();
    flags
        .map(|flag| flag.as_str().unwrap().to_owned())
        .collect()
}

/// Only the files of a control plane are missing here.
#[test]
fn the_static_pods_flags_are_taken() {
    let on_the_host = |flag: &String| flag.contains("=/etc/kubernetes/");
    let (files, flags): (Vec<_>, Vec<_>) = flags().into_iter().partition(on_the_host);
    let Ok(Command::Run(options)) = Options::parse(flags, "x") else {
        panic!("the manifest's flags are refused");
    };
    assert!(options.config.generic.leader_election.leader_elect);
    let Err(errors) = Options::parse(files.clone(), "x") else {
        panic!("this machine is no control plane");
    };
    for error in &errors.0 {
        let text = error.to_string();
        assert!(text.contains("cannot read /etc/kubernetes/"), "{text}");
    }
}

#[test]
fn every_file_that_a_flag_names_is_mounted() {
    let container = container();
    let mounts = container["volumeMounts"].as_array().unwrap();
    for flag in flags() {
        let Some((_, path)) = flag.split_once("=/") else {
            continue;
        };
        let mounted = mounts.iter().any(|mount| {
            let place = mount["mountPath"].as_str().unwrap();
            format!("/{path}").starts_with(place) && mount["readOnly"] == true
        });
        assert!(mounted, "{flag}");
    }
}

#[test]
fn probes_use_public_endpoints() {
    let container = container();
    for probe in ["startupProbe", "livenessProbe"] {
        let request = &container[probe]["httpGet"];
        assert_eq!(request["path"], "/healthz");
        assert_eq!(request["port"], 10257);
        assert_eq!(request["scheme"], "HTTPS");
    }
    let security = &container["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
}

#[test]
fn the_image_holds_the_binary_under_both_names_and_runs_as_nobody() {
    for line in [
        "FROM scratch",
        "USER 65532:65532",
        "ENTRYPOINT [\"/usr/local/bin/steersman\"]",
    ] {
        assert!(CONTAINER_FILE.lines().any(|held| held == line), "{line}");
    }
    let lays_out = include_str!("../../../xtask/src/dist/image.rs");
    assert!(
        lays_out.contains("symlink(\"steersman\", programs.join(\"kube-controller-manager\"))")
    );
}
