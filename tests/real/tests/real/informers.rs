//! client-go's informers on kube-apiserver and on ours: they see the same.

use std::path::Path;
use std::process::Command;

use real_tests::embedded::Embedded;
use real_tests::{Cluster, ClusterOptions, installation};

/// What the informers saw, or why they gave up.
fn look(program: &Path, kubeconfig: &Path) -> Result<String, String> {
    let ran = Command::new(program)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .output()
        .expect("the program runs");
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[test]
fn informers_of_client_go_see_the_same_on_both_servers() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let program = installation.informers();
    assert!(
        program.is_file(),
        "the program on client-go is not built; run `cargo xtask real build`"
    );
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let embedded = Embedded::start(&cluster.path("embedded")).unwrap();
    let theirs = look(&program, &cluster.admin_kubeconfig()).expect("upstream is sound");
    let ours = look(&program, &embedded.kubeconfig()).unwrap();
    assert_eq!(ours, theirs);
    for line in [
        "all deployment/web: updated from generation 2, 3 replicas of web:1, RollingUpdate to generation 3, 3 replicas of web:2, RollingUpdate",
        "app=web pod/a: deleted web as default, Pending, BestEffort",
        "metadata pod/early: deleted web",
    ] {
        assert!(
            ours.lines().any(|seen| seen == line),
            "no {line:?} in\n{ours}"
        );
    }
}
