//! The binary as an operator meets it: names, help, and one sentence for each mistake.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_steersman");

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        // A test must not find a cluster that the developer happens to use.
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", "/nonexistent")
        .output()
        .expect("the binary runs")
}

fn manager(arguments: &[&str]) -> Output {
    let mut all = vec!["controller-manager"];
    all.extend(arguments);
    run(Path::new(BINARY), &all)
}

/// A directory of its own for each test.
fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// Exit code 1, nothing on standard output, and a last line on standard error that holds `expected`.
fn check_refused(arguments: &[&str], expected: &str) {
    let output = manager(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let told: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("Error: "))
        .collect();
    assert_eq!(told.len(), 1, "{arguments:?}: {errors}");
    assert!(told[0].contains(expected), "{arguments:?}: {}", told[0]);
}

#[test]
fn under_upstreams_name_it_is_the_manager() {
    let directory = directory();
    let link = directory.path().join("kube-controller-manager");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(BINARY, &link).unwrap();
    let output = run(&link, &["--version"]);
    assert!(output.status.success());
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(version.starts_with("Kubernetes v1.36."), "{version}");
    let help = run(&link, &["--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.contains("Usage:\n  kube-controller-manager [flags]\n"),
        "{help}"
    );
}

#[test]
fn mistakes_on_the_command_line() {
    check_refused(
        &["--kubecofnig=x"],
        "unknown flag: --kubecofnig; did you mean --kubeconfig?",
    );
    check_refused(
        &["--secure-port=x"],
        "for \"--secure-port\" flag: must be a whole number",
    );
    check_refused(
        &["--leader-elect", "false"],
        "unexpected argument \"false\"",
    );
    check_refused(
        &["--controllers=foo"],
        "\"foo\" is not in the list of known controllers",
    );
    check_refused(
        &["--feature-gates=Nope=true"],
        "unrecognized feature gate: Nope",
    );
    check_refused(
        &["--emulated-version=1.20"],
        "--emulated-version: version 1.20 is not between",
    );
    check_refused(
        &["--cloud-provider=aws"],
        "--cloud-provider: the in-tree cloud provider \"aws\" no longer exists",
    );
}

#[test]
fn mistakes_in_files() {
    let directory = directory();
    let directory = directory.path();
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let junk = file("junk", "{{{");
    check_refused(
        &["--kubeconfig=/nonexistent/config"],
        "--kubeconfig: cannot read /nonexistent/config",
    );
    check_refused(
        &[&format!("--kubeconfig={junk}")],
        "--kubeconfig: cannot connect to the API server",
    );
    let nowhere = file(
        "nowhere",
        r#"{"current-context": "prod", "contexts": [{"name": "dev", "context": {"cluster": "c"}}]}"#,
    );
    check_refused(
        &[&format!("--kubeconfig={nowhere}")],
        "has no context \"prod\"; it has \"dev\"",
    );
    check_refused(&[&format!("--root-ca-file={junk}")], "holds no certificate");
    check_refused(
        &[&format!("--service-account-private-key-file={junk}")],
        "holds no private key",
    );
    check_refused(
        &[&format!("--tls-cert-file={junk}")],
        "--tls-cert-file: needs --tls-private-key-file too",
    );
    check_refused(
        &[&format!("--allow-metric-labels-manifest={junk}")],
        "--allow-metric-labels-manifest",
    );
    check_refused(
        &[
            "--enable-leader-migration",
            &format!("--leader-migration-config={junk}"),
        ],
        "--leader-migration-config",
    );
    check_refused(
        &[&format!("--kubeconfig={}", directory.display())],
        "--kubeconfig: cannot read",
    );
}

#[test]
fn outside_a_cluster_it_says_what_is_missing() {
    check_refused(&[], "--kubeconfig");
}

/// Somebody else listens where the API server should: no waiting helps.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the stranger answers beside the test"
)]
fn an_api_server_that_is_none() {
    use std::io::{Read, Write};
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut caller in stranger.incoming().flatten() {
            let _ = caller.read(&mut [0; 512]);
            let _ = caller.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        }
    });
    check_refused(
        &[&format!("--master=https://{address}"), "--secure-port=0"],
        &format!("--kubeconfig: https://{address} does not speak TLS; check the port"),
    );
}

#[test]
fn a_port_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--secure-port={}", taken.local_addr().unwrap().port());
    // Nobody listens at port 1: the start must not need the API server to find out about its own port.
    let arguments = [
        "--master=https://127.0.0.1:1",
        "--bind-address=127.0.0.1",
        &port,
    ];
    check_refused(&arguments, "is another process using the port?");
}

/// A kubeconfig for a server that does not answer.
fn kubeconfig_to_nowhere(directory: &Path) -> PathBuf {
    let path = directory.join("kubeconfig");
    let config = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}"#;
    std::fs::write(&path, config).expect("a temporary file can be written");
    path
}

/// Reads standard error of a running manager until a line holds `text`.
fn wait_for_line(reader: &mut impl std::io::BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        let read = reader.read_line(&mut line).expect("its log can be read");
        assert!(read > 0, "it ended before it said {text:?}");
    }
}

#[test]
fn a_hang_up_is_survived_and_a_stop_is_clean() {
    let directory = directory();
    let kubeconfig = kubeconfig_to_nowhere(directory.path());
    for stop in ["TERM", "INT"] {
        let mut running = Command::new(BINARY)
            .args(["controller-manager", "--secure-port=0"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let errors = running.stderr.take().expect("it was asked for");
        let mut log = std::io::BufReader::new(errors);
        wait_for_line(&mut log, "Waiting for the API server");
        let signal = |name: &str| {
            let process = running.id().to_string();
            let mut sent = Command::new("kill");
            sent.args([&format!("-{name}"), &process]);
            assert!(sent.status().expect("kill runs").success());
        };
        signal("HUP");
        signal(stop);
        wait_for_line(&mut log, "a second signal ends the process at once");
        let status = running.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "after SIG{stop}");
    }
}
