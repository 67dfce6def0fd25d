//! `deploy/Containerfile`, built by buildah and run: by number and not as root, under both names, against a cluster.
//!
//! The binary of a release is static and needs nothing. The one of this test is linked as usual, so the libraries that it
//! asks for are laid beside it. No registry is asked: the base is empty.

#![expect(
    clippy::disallowed_methods,
    reason = "another process lives in real time; it is waited for, never for a while"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on has found something, and one that is left out says so"
)]

#[path = "up/home.rs"]
#[allow(dead_code, reason = "what the tests of up need, too")]
mod home;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use home::{Api, BINARY, Home, until};
use serde_json::{Value, json};

/// As the file says.
const USER: &str = "65532";

/// Whether images can be built here; a line that says why not, which continuous integration does not take.
fn can_build() -> bool {
    let installed = Command::new("buildah").arg("--version").output();
    let problem = match installed {
        Ok(ran) if ran.status.success() => match rustix::process::geteuid().is_root() {
            true => return true,
            false => "only root can run an image without more tools",
        },
        _ => "buildah is not installed (Debian has it)",
    };
    assert!(
        std::env::var("CI").is_err() || std::env::var("CI").is_ok_and(|ci| ci != "true"),
        "CI=true and the image cannot be built: {problem}"
    );
    eprintln!("skipped: {problem}");
    false
}

/// A store of images that goes with the test.
struct Store(PathBuf);

impl Store {
    fn buildah(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("buildah");
        let place = |name: &str| self.0.join(name).display().to_string();
        command
            .args(["--root", &place("root"), "--runroot", &place("runroot")])
            .args(["--storage-driver", "vfs"])
            .args(arguments)
            .env("XDG_RUNTIME_DIR", self.0.join("runtime"))
            // Namespaces and mounts are enough where there is no runtime for containers.
            .env("BUILDAH_ISOLATION", "chroot")
            .stdin(Stdio::null());
        command
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let ran = self.buildah(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            ran.status.success(),
            "buildah {arguments:?}: {said}{errors}"
        );
        said
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.buildah(&["rm", "--all"]).output();
    }
}

/// What `cargo xtask image` lays out, and the libraries of a binary that is not static.
fn lay_out(stage: &Path) {
    let programs = stage.join("usr/local/bin");
    fs::create_dir_all(&programs).unwrap();
    fs::create_dir_all(stage.join("etc")).unwrap();
    // Without what debuggers want it is a fifth as large.
    let small = Command::new("objcopy")
        .args(["--strip-debug", BINARY])
        .arg(programs.join("steersman"))
        .status();
    if !small.is_ok_and(|status| status.success()) {
        fs::copy(BINARY, programs.join("steersman")).unwrap();
    }
    std::os::unix::fs::symlink("steersman", programs.join("kube-controller-manager")).unwrap();
    fs::write(
        stage.join("etc/passwd"),
        "steersman:x:65532:65532::/:/none\n",
    )
    .unwrap();
    let asked = Command::new("ldd").arg(BINARY).output().unwrap();
    let asked = String::from_utf8_lossy(&asked.stdout).into_owned();
    let libraries = asked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for library in libraries {
        let place = stage.join(library.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(library, place).unwrap();
    }
}

#[test]
fn the_image_is_built_and_runs_as_nobody_under_both_names() {
    if !can_build() {
        return;
    }
    let home = Home::new("image");
    let stage = home.0.join("stage");
    lay_out(&stage);
    let store = Store(home.0.join("store"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/Containerfile");
    let image = "localhost/steersman:test";
    let file = file.to_str().unwrap();
    store.succeed(&[
        "build",
        "--tag",
        image,
        "--file",
        file,
        stage.to_str().unwrap(),
    ]);

    let inspected = store.succeed(&["inspect", "--type", "image", image]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let config = &inspected["OCIv1"]["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], json!(["/usr/local/bin/steersman"]));
    let layers = inspected["OCIv1"]["rootfs"]["diff_ids"].as_array();
    assert_eq!(layers.map(Vec::len), Some(1), "nothing is below it");

    let container = store.succeed(&["from", "--pull-never", image]);
    let container = container.trim();
    let version = store.succeed(&[
        "run",
        container,
        "--",
        "steersman",
        "version",
        "--output=json",
    ]);
    let version: Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let by_name = store.succeed(&[
        "run",
        container,
        "--",
        "kube-controller-manager",
        "--version",
    ]);
    assert!(by_name.starts_with("Kubernetes v1.36"), "{by_name}");
    // It cannot write where it lives, so nothing is lost by a root that is read-only.
    let refused = store
        .buildah(&["run", container, "--", "steersman", "man", "/man"])
        .output()
        .unwrap();
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.contains("cannot create the folder /man"),
        "{refused}"
    );

    leads_and_answers_probes(&home, &store, container);
}

/// The controller manager in the container, on a cluster that has none.
fn leads_and_answers_probes(home: &Home, store: &Store, container: &str) {
    let up = home.up(&[
        "--in-memory",
        "--no-dashboard",
        "--controller-manager=external",
    ]);
    // What is handed in has to be readable for its user, as a mounted Secret is.
    let config = home.file(
        "pod.kubeconfig",
        &fs::read_to_string(up.kubeconfig()).unwrap(),
    );
    rustix::fs::chmod(&config, rustix::fs::Mode::from_raw_mode(0o444)).unwrap();
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let volume = format!("{config}:/etc/kubeconfig:ro");
    let secure_port = format!("--secure-port={port}");
    let child = store
        .buildah(&[
            "run",
            "--volume",
            &volume,
            container,
            "--",
            "kube-controller-manager",
        ])
        .args([
            "--kubeconfig=/etc/kubeconfig",
            "--bind-address=127.0.0.1",
            &secure_port,
        ])
        .stdout(Stdio::null())
        .stderr(fs::File::create(home.0.join("manager.log")).unwrap())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let probe = json!({
        "clusters": [{"name": "m", "cluster": {"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true}}],
        "contexts": [{"name": "m", "context": {"cluster": "m", "user": ""}}],
        "current-context": "m",
    });
    let probe = home.file("probe.kubeconfig", &probe.to_string());
    until("the controller manager to be healthy", || {
        assert!(running.0.try_wait().unwrap().is_none(), "{}", log(home));
        Api::new(probe.as_ref())
            .send("GET", "/healthz", &Value::Null)
            .is_ok()
    });
    assert_eq!(user_of(port), USER, "{}", log(home));
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    until("the lease to be held", || {
        let held = up
            .api()
            .send("GET", lease, &Value::Null)
            .unwrap_or_default();
        held["spec"]["holderIdentity"]
            .as_str()
            .is_some_and(|holder| !holder.is_empty())
    });
    drop(running);
    up.stop();
}

fn log(home: &Home) -> String {
    fs::read_to_string(home.0.join("manager.log")).unwrap_or_default()
}

/// Who listens on a port, by what the system says of its socket.
fn user_of(port: u16) -> String {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!("0100007F:{port:04X}");
    let line = sockets.lines().find(|line| {
        let mut words = line.split_whitespace();
        words.nth(1) == Some(&local) && words.nth(1) == Some("0A")
    });
    let line = line.expect("somebody listens");
    line.split_whitespace().nth(7).unwrap().to_owned()
}

/// buildah and what it runs, which is told to stop before it is.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // It hands the signal on.
            home::signal(self.0.id(), "TERM");
            let _ = self.0.wait();
        }
    }
}
