//! Upstream's own tests of kubectl, `test/cmd/*.sh` of its repository: with kube-apiserver and Go's controller manager, or
//! with ours. They need no kubelets. The scripts come from the Go module cache each time; none of them is in this repository.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::building;
use crate::cluster::{self, free_port};
use crate::installation::{self, Installation};
use crate::process::Process;
use crate::wait::Seen;
use crate::{Api, Flavor};

/// What of upstream's repository the functions read.
const FOLDERS: [&str; 6] = [
    "hack/lib",
    "hack/testdata",
    "test/cmd",
    "test/fixtures",
    "test/e2e/testing-manifests",
    "third_party/forked/shell2junit",
];
/// Programs that the scripts call, beside those of every shell.
const PROGRAMS: [&str; 4] = ["curl", "jq", "openssl", "timeout"];
/// Folders that git does not keep, and modules do not either.
const EMPTY_FOLDERS: [&str; 1] = ["test/fixtures/pkg/kubectl/plugins/empty"];
/// The slowest function takes three minutes on a busy machine.
const BOUND: Duration = Duration::from_secs(600);

/// Functions that pass nowhere, or only with kube-apiserver, and why.
const EXCEPTIONS: [(&str, Option<Flavor>, &str); 2] = [
    (
        "run_multi_resources_tests",
        None,
        "it reads a manifest from the internet",
    ),
    (
        "run_swagger_tests",
        Some(Flavor::Ours),
        "our /openapi/v2 has types alone (docs/differences.md)",
    ),
];

/// Upstream's scripts, unpacked for as long as they run.
pub struct Scripts {
    folder: PathBuf,
}

/// The servers that functions are run on.
pub struct Servers {
    flavor: Flavor,
    processes: Vec<Process>,
    folder: PathBuf,
    port: u16,
}

/// How a function ended.
pub struct Outcome {
    pub passed: bool,
    pub seconds: u64,
}

/// Why a function is not expected to pass, if it is not.
pub fn exception(function: &str, flavor: Flavor) -> Option<&'static str> {
    let found = EXCEPTIONS
        .iter()
        .find(|(name, only, _)| *name == function && only.is_none_or(|only| only == flavor));
    found.map(|(_, _, why)| *why)
}

impl Scripts {
    /// Copies the scripts out of the module cache, and puts kubectl where they look for it.
    pub fn unpack(installation: &Installation) -> Result<Scripts> {
        let missing = PROGRAMS.iter().find(|name| !is_installed(name));
        if let Some(name) = missing {
            bail!("the scripts need {name}, which is not installed");
        }
        let source = building::kubernetes_source(&installation.kubernetes_version)?;
        let folder = cluster::fresh_folder()?;
        for name in FOLDERS {
            copy(&source.join(name), &folder.join(name))?;
        }
        for name in EMPTY_FOLDERS {
            fs::create_dir_all(folder.join(name))?;
        }
        let programs = folder.join("_output/bin");
        fs::create_dir_all(&programs)?;
        let kubectl = installation.command("kubectl");
        for program in [kubectl, building::build_convert(installation)?] {
            let name = program.file_name().context("a command has no name")?;
            symlink(&program, programs.join(name))
                .with_context(|| format!("cannot link {}", program.display()))?;
        }
        Ok(Scripts { folder })
    }

    /// The functions that upstream runs, in its order.
    pub fn functions(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.folder.join("test/cmd/legacy-script.sh"))?;
        let called = text.lines().filter_map(|line| {
            let name = line.trim().strip_prefix("record_command ")?;
            name.starts_with("run_").then(|| name.to_owned())
        });
        let functions: Vec<String> = called.collect();
        ensure!(
            !functions.is_empty(),
            "legacy-script.sh calls no function any more"
        );
        Ok(functions)
    }

    /// Runs one function, in a namespace of its own. What it said is in the file.
    pub fn run(&self, function: &str, servers: &mut Servers, log: &Path) -> Result<Outcome> {
        let started = Instant::now();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl/function.sh");
        let said = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", &BOUND.as_secs().to_string(), "bash"])
            .arg(script)
            .arg(function)
            .current_dir(&self.folder)
            .env("SECURE_API_PORT", servers.port.to_string())
            .env("TMPDIR", servers.folder.join("certs"))
            .env("KUBE_JUNIT_REPORT_DIR", servers.folder.join("junit"))
            // The scripts ask for colours, of whatever is there.
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said);
        if servers.flavor == Flavor::Ours {
            // Our commit is not that of kubectl.
            command.env("ALLOW_SKEW", "true");
        }
        let status = command.status().context("cannot run timeout")?;
        servers.check_alive()?;
        Ok(Outcome {
            passed: status.success(),
            seconds: started.elapsed().as_secs(),
        })
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Servers {
    /// As upstream's `hack/make-rules/test-cmd.sh` starts them.
    pub fn start(
        scripts: &Scripts,
        flavor: Flavor,
        installation: &Installation,
    ) -> Result<Servers> {
        let scripts = &scripts.folder;
        let mut servers = Servers {
            flavor,
            processes: Vec::new(),
            folder: cluster::fresh_folder()?,
            port: free_port()?,
        };
        fs::create_dir_all(servers.folder.join("certs"))?;
        let etcd = match flavor {
            Flavor::Go => servers.start_etcd(installation)?,
            Flavor::Ours => 1,
        };
        let flags = servers.apiserver_flags(scripts, etcd)?;
        let (program, mut arguments) = match flavor {
            Flavor::Go => (installation.command("kube-apiserver"), Vec::new()),
            Flavor::Ours => (
                installation::steersman_binary()?,
                vec!["kube-apiserver".to_owned()],
            ),
        };
        arguments.extend(flags);
        let mut apiserver =
            Process::start("kube-apiserver", &program, &arguments, &servers.folder)?;
        let certificate = servers.folder.join("certs/apiserver.crt");
        let mut connected = None;
        cluster::ready(&mut apiserver, || {
            let authority = fs::read_to_string(&certificate)?;
            let address = (Ipv4Addr::LOCALHOST, servers.port).into();
            let api = Api::with_token(address, &authority, "admin-token")?;
            let status = api.send("GET", "/readyz", "application/json", &[])?.status;
            connected = Some(api);
            Ok(match status {
                200 => Seen::Ready(()),
                other => Seen::NotYet(format!("/readyz answers {other}")),
            })
        })?;
        servers.processes.push(apiserver);
        let api = connected.context("the API server was never reached")?;
        // UPSTREAM: an annotation, so that there are fields to manage.
        let metadata = json!({"name": "127.0.0.1", "annotations": {"save-managers": "true"}});
        let node = json!({"metadata": metadata, "status": {"capacity": {"memory": "1Gi"}}});
        api.create("/api/v1/nodes", &node)?;
        servers.start_manager(scripts, installation, &api)?;
        Ok(servers)
    }

    fn start_etcd(&mut self, installation: &Installation) -> Result<u16> {
        let (port, peers) = (free_port()?, free_port()?);
        let url = |port| format!("http://127.0.0.1:{port}");
        let flags = [
            format!("--data-dir={}", self.folder.join("etcd").display()),
            format!("--listen-client-urls={}", url(port)),
            format!("--advertise-client-urls={}", url(port)),
            format!("--listen-peer-urls={}", url(peers)),
            format!("--initial-advertise-peer-urls={}", url(peers)),
            format!("--initial-cluster=default={}", url(peers)),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let program = installation.command("etcd");
        self.processes
            .push(Process::start("etcd", &program, &flags, &self.folder)?);
        Ok(port)
    }

    fn apiserver_flags(&self, scripts: &Path, etcd: u16) -> Result<Vec<String>> {
        let key = self.folder.join("service-account.key");
        let made = Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(&key)
            .arg("2048")
            .output()
            .context("cannot run openssl")?;
        ensure!(made.status.success(), "openssl made no key");
        let testdata = |name: &str| scripts.join("hack/testdata").join(name);
        Ok(vec![
            "--bind-address=127.0.0.1".to_owned(),
            "--authorization-mode=RBAC,AlwaysAllow".to_owned(),
            format!("--secure-port={}", self.port),
            "--enable-admission-plugins=LimitRanger,ResourceQuota".to_owned(),
            "--disable-admission-plugins=ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,\
             MutatingAdmissionWebhook,ValidatingAdmissionWebhook,StorageObjectInUseProtection"
                .to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            format!("--service-account-key-file={}", key.display()),
            format!("--service-account-signing-key-file={}", key.display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--cert-dir={}", self.folder.join("certs").display()),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--client-ca-file={}", testdata("ca/ca.crt").display()),
            format!("--token-auth-file={}", testdata("auth-tokens.csv").display()),
        ])
    }

    fn start_manager(
        &mut self,
        scripts: &Path,
        installation: &Installation,
        api: &Api,
    ) -> Result<()> {
        let kubeconfig = self.folder.join("manager.kubeconfig");
        let config: Value = json!({
            "kind": "Config", "apiVersion": "v1", "current-context": "local",
            "clusters": [{"name": "local", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port), "insecure-skip-tls-verify": true}}],
            "users": [{"name": "manager", "user": {"token": "admin-token"}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "manager"}}],
        });
        fs::write(&kubeconfig, config.to_string())?;
        let authority = scripts.join("hack/testdata/ca");
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--secure-port={}", free_port()?),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", self.folder.join("certs").display()),
            format!("--cluster-signing-cert-file={}/ca.crt", authority.display()),
            format!("--cluster-signing-key-file={}/ca.key", authority.display()),
        ];
        let (program, mut arguments) = match self.flavor {
            Flavor::Go => (installation.command("kube-controller-manager"), Vec::new()),
            Flavor::Ours => (
                installation::steersman_binary()?,
                vec!["controller-manager".to_owned()],
            ),
        };
        arguments.extend(flags);
        let mut manager = Process::start("controller-manager", &program, &arguments, &self.folder)?;
        // Its first write in every namespace: from then on it does its work.
        cluster::ready(&mut manager, || {
            let found = api.find("/api/v1/namespaces/default/serviceaccounts/default")?;
            Ok(match found {
                Some(_) => Seen::Ready(()),
                None => Seen::NotYet("no service account yet".to_owned()),
            })
        })?;
        self.processes.push(manager);
        Ok(())
    }

    /// Whoever has ended by itself is told of.
    fn check_alive(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.ended() {
                bail!(
                    "{} ended ({status}); {}",
                    process.name(),
                    process.last_lines()
                );
            }
        }
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // The manager first: nobody talks to who is gone.
        while let Some(process) = self.processes.pop() {
            process.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$1\"", "sh", program])
        .output();
    found.is_ok_and(|found| found.status.success())
}

/// Modules are read-only, and nothing in them can be run: the scripts and the plugins of kubectl have to be.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    let content = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    fs::write(to, &content)?;
    if content.starts_with(b"#!") {
        fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
