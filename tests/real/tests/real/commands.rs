//! The bed as a person meets it: `cargo xtask real` and `cargo xtask differential` run this program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use real_tests::installation::{self, KUBERNETES};
use real_tests::process::Process;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions};

const PATIENCE: Duration = Duration::from_secs(60);

fn bed() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_real-bed"));
    command.env_remove("CI");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder of a test's own, gone when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("steersman-bed-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a process has a text in its command line.
fn somebody_runs_with(part: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| text(&line).contains(part))
}

#[test]
fn without_go_one_line_says_so_and_ci_fails() {
    let folder = Folder::new("no-go");
    let build = |ci: &str| -> Output {
        let mut command = bed();
        command.arg("build").env("CI", ci);
        command.env("PATH", &folder.0);
        command.env("STEERSMAN_CACHE", &folder.0);
        command.output().unwrap()
    };
    let skipped = build("");
    assert_eq!(skipped.status.code(), Some(3), "{skipped:?}");
    let said = text(&skipped.stdout);
    assert!(
        said.starts_with("skipped: the Go tool chain is missing"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");

    let failed = build("true");
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let said = text(&failed.stderr);
    assert!(
        said.starts_with("error: the Go tool chain is missing"),
        "{said}"
    );
}

#[test]
fn a_person_gets_a_control_plane_and_nothing_of_it_stays() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let folder = Folder::new("up");
    let arguments = ["up", "--manager", "go"].map(str::to_owned);
    let program = Path::new(env!("CARGO_BIN_EXE_real-bed"));
    let bed = Process::start("bed", program, &arguments, &folder.0).unwrap();
    let said = wait::until("the control plane", PATIENCE, || {
        let said = fs::read_to_string(bed.log())?;
        Ok(match said.contains("Ctrl-C ends everything") {
            true => Seen::Ready(said),
            false => Seen::NotYet(said),
        })
    })
    .unwrap();
    assert!(
        said.contains(&format!("kube-apiserver {KUBERNETES} at https://")),
        "{said}"
    );
    let mut kubeconfig = said
        .lines()
        .filter_map(|line| line.strip_prefix("export KUBECONFIG="));
    let kubeconfig = kubeconfig.next().unwrap();
    let kubectl = Command::new(installation.command("kubectl"))
        .args(["auth", "whoami", "--kubeconfig", kubeconfig])
        .output()
        .unwrap();
    assert!(
        text(&kubectl.stdout).contains("system:masters"),
        "{kubectl:?}"
    );

    let place = Path::new(kubeconfig).parent().unwrap().to_owned();
    let name = place.display().to_string();
    assert!(somebody_runs_with(&name), "nobody runs in {name}");
    // As Ctrl-C, but for tests that a shell runs in the background: there SIGINT is ignored by all that they start.
    bed.signal("TERM").unwrap();
    wait::until("everything to end", PATIENCE, || {
        Ok(match (somebody_runs_with(&name), place.exists()) {
            (false, false) => Seen::Ready(()),
            (runs, exists) => Seen::NotYet(format!("runs: {runs}, its folder is there: {exists}")),
        })
    })
    .unwrap();
}

#[test]
fn a_manager_that_does_less_than_go_fails_the_differential() {
    if installation::for_test().is_none() {
        return;
    }
    let folder = Folder::new("lazy");
    // Ours, with another controller than the one that is asked for.
    let lazy = folder.0.join("lazy-manager");
    let script = format!(
        "#!/bin/sh\nfor word; do\n  shift\n  case $word in --controllers=*) word=--controllers=ttl-controller;; esac\n  \
         set -- \"$@\" \"$word\"\ndone\nexec {} \"$@\"\n",
        installation::steersman_binary().unwrap().display()
    );
    fs::write(&lazy, script).unwrap();
    fs::set_permissions(&lazy, fs::Permissions::from_mode(0o755)).unwrap();
    let judged = bed()
        .args(["differential", "statefulset-revision-history-limit"])
        .env("STEERSMAN_BIN", &lazy)
        .output()
        .unwrap();
    let said = text(&judged.stdout);
    assert_eq!(judged.status.code(), Some(1), "{said}");
    assert!(!said.contains("did not finish"), "{said}");
    for part in [
        "scenario ",
        "statefulset-revision-history-limit ",
        "1 scenarios, 0 agree, 1 differ",
        "docs/differences.md",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn the_logs_of_a_failed_test_are_kept() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let mut place = PathBuf::new();
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
        place = cluster.folder().to_owned();
        panic!("this test fails on purpose, to see what it leaves");
    }));
    assert!(failed.is_err());
    let kept = ["etcd.log", "kube-apiserver.log"].map(|name| fs::read(place.join(name)));
    let runs = somebody_runs_with(&place.display().to_string());
    let _ = fs::remove_dir_all(&place);
    assert!(!runs, "servers of a failed test still run");
    assert!(
        kept.iter()
            .all(|log| log.as_ref().is_ok_and(|log| !log.is_empty())),
        "{kept:?}"
    );
}
