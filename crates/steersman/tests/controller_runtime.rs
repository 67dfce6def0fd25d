//! controller-runtime's own tests, unmodified from its Go module, on the folder that `steersman envtest` fills.
//!
//! Every spec passes that does with the real binaries, but for those in `controller_runtime_known.txt`. Needs Go; the test
//! programs are built once into the cache. `STEERSMAN_ASSETS=FOLDER` runs the same on another folder, for a comparison.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on has found something, and one that is left out says so"
)]

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The release that goes with Kubernetes 1.36.
const MODULE: &str = "sigs.k8s.io/controller-runtime@v0.24.1";

/// The packages whose tests start a control plane.
const PACKAGES: [&str; 18] = [
    "builder",
    "cache",
    "client",
    "client/apiutil",
    "cluster",
    "controller",
    "controller/controllerutil",
    "envtest",
    "handler",
    "internal/controller",
    "internal/recorder",
    "internal/testing/controlplane",
    "manager",
    "manager/internal/integration",
    "metrics/filters",
    "reconcile",
    "source",
    "webhook",
];

/// No package takes nearly as long.
const TIMEOUT: &str = "120s";

#[test]
fn controller_runtimes_own_tests_pass() {
    let Some(module) = module() else {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!is_ci, "CI=true, and Go or its module proxy is missing");
        eprintln!("SKIPPED controller-runtime's own tests: Go or its module proxy is missing");
        return;
    };
    let home = Home::new();
    let assets = assets(&home.0);
    let known = include_str!("controller_runtime_known.txt").lines();
    let known: BTreeSet<String> = known
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let mut failed = BTreeSet::new();
    let mut passed = 0;
    for package in PACKAGES {
        let program = build(&module, package);
        let play = || run(&module, package, &program, &assets, &home.0);
        let (count, mut broken) = tally(package, play());
        if broken.iter().any(|spec| !known.contains(spec)) {
            // Some of its specs wait for a second and no longer, whatever else the machine does: they get another try.
            let (_, again) = tally(package, play());
            broken.retain(|spec| again.contains(spec));
        }
        passed += count;
        failed.append(&mut broken);
    }
    eprintln!("{passed} specs passed, {} failed", failed.len());
    let new: Vec<_> = failed.difference(&known).collect();
    assert!(
        new.is_empty(),
        "these pass with the real binaries:\n{new:#?}"
    );
    assert!(
        passed > 500,
        "{passed} specs are too few: something did not run"
    );
    let gone: Vec<_> = known.difference(&failed).collect();
    if !gone.is_empty() {
        eprintln!("these pass now and should leave the list of known failures:\n{gone:#?}");
    }
}

/// A folder, and whatever runs from it: some of the suites leave servers behind, which nobody else would end.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        let path = std::env::temp_dir().join(format!("steersman-crt-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Home(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes {
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let name = process.file_name();
            let id = name.to_str().and_then(|id| id.parse().ok());
            if let Some(id) = id.and_then(Pid::from_raw)
                && command.starts_with(self.0.as_os_str().as_bytes())
            {
                let _ = kill_process(id, Signal::KILL);
            }
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How many specs passed, and which failed.
fn tally(package: &str, specs: Vec<(String, String)>) -> (usize, BTreeSet<String>) {
    let passed = specs.iter().filter(|(_, state)| state == "passed").count();
    let failed = specs
        .into_iter()
        .filter(|(_, state)| !matches!(state.as_str(), "passed" | "skipped" | "pending"))
        .map(|(name, _)| format!("{package}: {name}"));
    (passed, failed.collect())
}

/// Where the module's source is.
fn module() -> Option<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .current_dir(std::env::temp_dir())
        .output()
        .ok()?;
    let found: Value = serde_json::from_slice(&output.stdout).ok()?;
    found["Dir"].as_str().map(PathBuf::from)
}

fn assets(home: &Path) -> PathBuf {
    if let Some(given) = std::env::var_os("STEERSMAN_ASSETS") {
        return given.into();
    }
    let folder = home.join("assets");
    let filled = Command::new(env!("CARGO_BIN_EXE_steersman"))
        .arg("envtest")
        .arg(&folder)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(filled.success());
    folder
}

/// The test program of a package, built once.
fn build(module: &Path, package: &str) -> PathBuf {
    let name = format!("{}.test", package.replace('/', "-"));
    let cache = real_tests::installation::cache_directory().unwrap();
    let (_, version) = MODULE.split_once('@').unwrap();
    let folder = cache.join(format!("controller-runtime-{version}"));
    let program = folder.join(name);
    if !program.is_file() {
        std::fs::create_dir_all(&folder).unwrap();
        let partial = program.with_extension(format!("partial-{}", std::process::id()));
        let built = Command::new("go")
            .args(["test", "-c", "-vet=off", "-o"])
            .arg(&partial)
            .arg(format!("./pkg/{package}"))
            .current_dir(module)
            .env("CGO_ENABLED", "0")
            .status()
            .unwrap();
        assert!(built.success(), "go test -c ./pkg/{package}");
        std::fs::rename(&partial, &program).unwrap();
    }
    program
}

/// Each spec of a package and what became of it.
fn run(
    module: &Path,
    package: &str,
    program: &Path,
    assets: &Path,
    home: &Path,
) -> Vec<(String, String)> {
    let report = home.join("report.json");
    let _ = std::fs::remove_file(&report);
    let output = Command::new(program)
        .arg(format!("-ginkgo.json-report={}", report.display()))
        .arg(format!("-test.timeout={TIMEOUT}"))
        .current_dir(module.join("pkg").join(package))
        .env("KUBEBUILDER_ASSETS", assets)
        .env_remove("STEERSMAN_CONTROLLERS")
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&report).unwrap_or_else(|_| {
        let said = String::from_utf8_lossy(&output.stdout);
        panic!("{package} ended without a report: {said}")
    });
    let suites: Value = serde_json::from_str(&text).unwrap();
    let suites = suites.as_array().into_iter().flatten();
    let specs = suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    let described = specs.map(|spec| {
        let texts = spec["ContainerHierarchyTexts"].as_array();
        let mut words: Vec<&str> = texts
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let leaf = spec["LeafNodeText"].as_str().unwrap_or_default();
        match leaf {
            "" => words.push(spec["LeafNodeType"].as_str().unwrap_or_default()),
            leaf => words.push(leaf),
        }
        let state = spec["State"].as_str().unwrap_or_default().to_owned();
        (words.join(" "), state)
    });
    described.collect()
}
