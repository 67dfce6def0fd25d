//! Our own API server as a process, reached like any other.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::certificates::Identity;
use crate::cluster;
use crate::http::Api;
use crate::installation;
use crate::process::{self, Process};
use crate::wait::Seen;

/// `steersman apiserver` on a free port, with what it keeps in a folder of the caller.
pub struct Embedded {
    pub api: Api,
    pub process: Process,
    folder: PathBuf,
}

impl Embedded {
    /// Starts it on `folder/data`, which may hold what an earlier one left, and waits for it.
    pub fn start(folder: &Path) -> Result<Embedded> {
        Embedded::start_with(folder, &[])
    }

    pub fn start_with(folder: &Path, flags: &[String]) -> Result<Embedded> {
        Embedded::launch(folder, flags, |program, arguments| (program, arguments))
    }

    /// With so many files that it may have open, sockets included.
    pub fn start_with_open_files(folder: &Path, files: u32) -> Result<Embedded> {
        Embedded::launch(folder, &[], |program, arguments| {
            process::with_open_files(&program, &arguments, files)
        })
    }

    /// With files that cannot grow beyond so many kilobytes, as on a disk that is full.
    pub fn start_limited(folder: &Path, kilobytes: u64) -> Result<Embedded> {
        Embedded::launch(folder, &[], |program, arguments| {
            process::limited(&program, &arguments, kilobytes)
        })
    }

    fn launch(
        folder: &Path,
        flags: &[String],
        limited: impl FnOnce(PathBuf, Vec<String>) -> (PathBuf, Vec<String>),
    ) -> Result<Embedded> {
        fs::create_dir_all(folder)?;
        let kubeconfig = kubeconfig(folder);
        // One that an earlier server left would say that this one is ready.
        let _ = fs::remove_file(&kubeconfig);
        let mut arguments = vec![
            "apiserver".to_owned(),
            format!("--data-dir={}", folder.join("data").display()),
            format!("--kubeconfig={}", kubeconfig.display()),
        ];
        if !flags.iter().any(|flag| flag.starts_with("--port=")) {
            arguments.push("--port=0".to_owned());
        }
        arguments.extend(flags.iter().cloned());
        let (program, arguments) = limited(installation::steersman_binary()?, arguments);
        let mut process = Process::start("steersman-apiserver", &program, &arguments, folder)?;
        // It is ready in less time than others are looked at once.
        let patience = Instant::now() + Duration::from_millis(500);
        while !kubeconfig.is_file() && process.ended().is_none() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        cluster::ready(&mut process, || {
            Ok(if kubeconfig.is_file() {
                Seen::Ready(())
            } else {
                Seen::NotYet("no kubeconfig yet".to_owned())
            })
        })?;
        Ok(Embedded {
            api: connect(folder)?,
            process,
            folder: folder.to_owned(),
        })
    }

    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig(&self.folder)
    }

    /// Starts Go's controller manager with its default controllers on it.
    pub fn start_manager(&self, program: &Path) -> Result<Process> {
        let flags = self.manager_flags()?;
        Process::start("controller-manager-on-ours", program, &flags, &self.folder)
    }

    /// Starts our controller manager on it.
    pub fn start_our_manager(&self, controllers: &[String], flags: &[String]) -> Result<Process> {
        let mut arguments = vec!["controller-manager".to_owned()];
        arguments.extend(self.manager_flags()?);
        arguments.push(format!("--controllers={}", controllers.join(",")));
        arguments.extend(flags.iter().cloned());
        let program = installation::steersman_binary()?;
        Process::start("controller-manager", &program, &arguments, &self.folder)
    }

    fn manager_flags(&self) -> Result<Vec<String>> {
        let pki = |name: &str| {
            self.folder
                .join("data/pki")
                .join(name)
                .display()
                .to_string()
        };
        let kubeconfig = self.kubeconfig().display().to_string();
        Ok(vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", cluster::free_port()?),
            format!("--cert-dir={}", self.folder.join("manager-certs").display()),
            format!("--root-ca-file={}", pki("ca.crt")),
            format!("--cluster-signing-cert-file={}", pki("ca.crt")),
            format!("--cluster-signing-key-file={}", pki("ca.key")),
            format!("--service-account-private-key-file={}", pki("sa.key")),
            "--leader-elect=false".to_owned(),
            "--use-service-account-credentials=true".to_owned(),
            "--kube-api-qps=5000".to_owned(),
            "--kube-api-burst=5000".to_owned(),
        ])
    }
}

fn kubeconfig(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

/// A client as the administrator: the address from the kubeconfig, the certificates from the data.
fn connect(folder: &Path) -> Result<Api> {
    let config: serde_json::Value =
        serde_yaml_ng::from_str(&fs::read_to_string(kubeconfig(folder))?)?;
    let address = config["clusters"][0]["cluster"]["server"]
        .as_str()
        .and_then(|server| server.strip_prefix("https://")?.parse().ok())
        .context("the kubeconfig names no server")?;
    let file = |name: &str| folder.join("data/pki").join(name);
    let read = |name: &str| {
        fs::read_to_string(file(name))
            .with_context(|| format!("cannot read {}", file(name).display()))
    };
    let admin = Identity {
        certificate: read("admin.crt")?,
        key: read("admin.key")?,
        certificate_file: file("admin.crt"),
        key_file: file("admin.key"),
    };
    Api::new(address, &read("ca.crt")?, Some(&admin))
}
