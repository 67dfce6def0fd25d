//! The test cluster from the command line: what `cargo xtask real`, `differential` and `conformance` run.
#![expect(clippy::print_stdout, reason = "a command line tool prints its result")]
#![expect(clippy::print_stderr, reason = "and its failures")]

mod conformance;
mod differential;
mod kubectl_tests;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use real_tests::building::{self, Built};
use real_tests::installation::Installation;
use real_tests::process;
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions};

/// What `build` exits with where the Go tool chain is missing and may be (not in CI).
const EXIT_SKIPPED: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let (command, rest) = arguments
        .split_first()
        .context("usage: real-bed build|up|conformance|differential|kubectl-tests|openapi")?;
    match command.as_str() {
        "build" => build(minor(rest)?),
        "up" => up(rest),
        "conformance" => match building::build_conformance()? {
            Built::Complete(installation) => conformance::run(&installation, rest),
            Built::NoGo => without_go(),
        },
        "differential" => differential::run(rest),
        "openapi" => openapi(rest),
        "kubectl-tests" => kubectl_tests::run(rest),
        other => bail!(
            "unknown command {other:?}; there are: build, up, conformance, differential, kubectl-tests, openapi"
        ),
    }
}

fn build(minor: Option<u32>) -> Result<ExitCode> {
    match building::build(minor)? {
        Built::Complete(installation) => {
            println!("real servers {} are ready", installation.kubernetes_version);
            Ok(ExitCode::SUCCESS)
        }
        Built::NoGo => without_go(),
    }
}

fn without_go() -> Result<ExitCode> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("the Go tool chain is missing, and with CI=true the real servers must be built")
    }
    println!(
        "skipped: the Go tool chain is missing (https://go.dev/dl), so no real servers were built"
    );
    Ok(ExitCode::from(EXIT_SKIPPED))
}

/// A control plane for a person, until Ctrl-C ends this process and with it the guarded servers.
fn up(rest: &[String]) -> Result<ExitCode> {
    let minor = minor(rest)?;
    let manager = match option(rest, "--manager").as_deref() {
        None | Some("go") => Some(Flavor::Go),
        Some("ours") => Some(Flavor::Ours),
        Some("none") => None,
        Some(other) => bail!("--manager must be go, ours or none, not {other:?}"),
    };
    if build(minor)? != ExitCode::SUCCESS {
        bail!("without the servers there is nothing to start");
    }
    let installation = match minor {
        Some(minor) => Installation::of_minor(minor)?,
        None => Installation::pinned()?,
    };
    let cluster = Cluster::start(&installation, ClusterOptions::default())?;
    let _cleaner = process::remove_when_we_end(cluster.folder())?;
    println!(
        "kube-apiserver {} at {}",
        installation.kubernetes_version,
        cluster.url()
    );
    println!("export KUBECONFIG={}", cluster.admin_kubeconfig().display());
    println!(
        "logs and the audit log are in {}",
        cluster.folder().display()
    );
    let options = ManagerOptions {
        leader_elect: true,
        ..ManagerOptions::default()
    };
    let running = manager
        .map(|flavor| Manager::start(&cluster, flavor, &options))
        .transpose()?;
    match &running {
        Some(manager) => println!(
            "the {} controller manager runs; Ctrl-C ends everything",
            manager.flavor.name()
        ),
        None => println!("no controller manager runs; Ctrl-C ends everything"),
    }
    loop {
        std::thread::park();
    }
}

/// Writes the documents of `/openapi/v3` of a live kube-apiserver into a folder.
/// Kinds that are not stable yet and that a controller of ours is about.
const PREVIEWS: [&str; 2] = [
    "--runtime-config=certificates.k8s.io/v1alpha1=true,certificates.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true",
    "--feature-gates=ClusterTrustBundle=true,DRADeviceTaints=true,DRADeviceTaintRules=true,DRAResourcePoolStatus=true,GenericWorkload=true,PodCertificateRequest=true",
];

fn openapi(rest: &[String]) -> Result<ExitCode> {
    let folder = std::path::PathBuf::from(rest.first().context("usage: real-bed openapi FOLDER")?);
    std::fs::create_dir_all(&folder)?;
    let options = ClusterOptions {
        apiserver_flags: PREVIEWS.map(str::to_owned).to_vec(),
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&Installation::pinned()?, options)?;
    let index = cluster.api.get("/openapi/v3")?;
    let paths = index["paths"]
        .as_object()
        .context("the index has no paths")?;
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"]
            .as_str()
            .context("an entry has no address")?;
        let document = cluster.api.get(url)?;
        let name = format!("{}.json", path.replace('/', "_"));
        std::fs::write(folder.join(name), document.to_string())?;
    }
    println!("{} documents are in {}", paths.len(), folder.display());
    Ok(ExitCode::SUCCESS)
}

fn minor(rest: &[String]) -> Result<Option<u32>> {
    let Some(value) = option(rest, "--minor") else {
        return Ok(None);
    };
    let number = value.strip_prefix("1.").unwrap_or(&value).parse();
    Ok(Some(number.with_context(|| {
        format!("--minor wants a number like 35, not {value:?}")
    })?))
}

/// The value of `--name value` or `--name=value`.
fn option(rest: &[String], name: &str) -> Option<String> {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if word == name {
            return words.next().cloned();
        }
        if let Some(value) = word
            .strip_prefix(name)
            .and_then(|tail| tail.strip_prefix('='))
        {
            return Some(value.to_owned());
        }
    }
    None
}
