//! A controller manager against a test cluster: the Go one or ours, with the same flags.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;

use crate::cluster::{self, Cluster, free_port};
use crate::http::Api;
use crate::installation;
use crate::process::{Process, Usage};
use crate::wait::Seen;

/// The user that both managers act as.
pub const USER: &str = "system:kube-controller-manager";
/// Who managed fields say has written them: the beginning of its user agent.
pub const FIELD_MANAGER: &str = "kube-controller-manager";

/// A controller as `steersman controllers` lists it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Controller {
    pub name: String,
    pub service_account: String,
    built: bool,
    /// The features that it needs and that are off by default.
    closed_gates: Vec<String>,
    /// The kinds that it keeps in caches: `deployments.apps`.
    caches: Vec<String>,
    /// The kinds that its decisions are about.
    pub decides_about: Vec<String>,
}

impl Controller {
    /// Does it act as long as nobody turns a feature on?
    pub fn acts_by_default(&self) -> bool {
        self.closed_gates.is_empty()
    }
}

/// The controllers that our binary has: what it has is held to everything.
pub fn ours() -> &'static [Controller] {
    static OURS: OnceLock<Vec<Controller>> = OnceLock::new();
    OURS.get_or_init(|| list().expect("our binary lists its controllers"))
}

fn list() -> Result<Vec<Controller>> {
    let binary = installation::steersman_binary()?;
    let output = std::process::Command::new(&binary)
        .args(["controllers", "--output=json"])
        .output()
        .with_context(|| format!("{} does not run", binary.display()))?;
    let mut all: Vec<Controller> = serde_json::from_slice(&output.stdout)?;
    all.retain(|controller| controller.built);
    Ok(all)
}

/// The plurals of what controllers keep in caches that act by default.
pub fn cached() -> BTreeSet<&'static str> {
    let running = ours().iter().filter(|one| one.acts_by_default());
    let cached = running.flat_map(|one| &one.caches);
    cached.map(|resource| plural(resource)).collect()
}

/// `deployments` of `deployments.apps`
pub fn plural(resource: &str) -> &str {
    resource.split('.').next().unwrap_or(resource)
}

/// The account that a controller of ours acts under.
pub fn service_account(controller: &str) -> &'static str {
    let found = ours().iter().find(|one| one.name == controller);
    &found
        .unwrap_or_else(|| panic!("there is no {controller}"))
        .service_account
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavor {
    Go,
    Ours,
}

impl Flavor {
    pub fn name(self) -> &'static str {
        match self {
            Flavor::Go => "go",
            Flavor::Ours => "ours",
        }
    }

    fn program(self, cluster: &Cluster) -> Result<PathBuf> {
        match self {
            Flavor::Go => Ok(cluster.installation.command("kube-controller-manager")),
            Flavor::Ours => installation::steersman_binary(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// The user it acts as: two managers on one cluster can be told apart in the audit log.
    pub user: String,
    /// The value of `--controllers`; empty means all that are on by default.
    pub controllers: Vec<String>,
    pub leader_elect: bool,
    pub use_service_account_credentials: bool,
    /// `--kube-api-qps` and `--kube-api-burst`; `None` leaves both at their defaults.
    pub requests_per_second: Option<u32>,
    pub flags: Vec<String>,
    /// Where it finds the API server, if not where that listens: at a proxy, say.
    pub server: Option<SocketAddr>,
}

impl Default for ManagerOptions {
    fn default() -> ManagerOptions {
        ManagerOptions {
            user: USER.to_owned(),
            controllers: Vec::new(),
            leader_elect: false,
            use_service_account_credentials: false,
            // High enough to never throttle: tests are about behaviour, not about the limiter.
            requests_per_second: Some(5000),
            flags: Vec::new(),
            server: None,
        }
    }
}

/// A running controller manager; stopped on drop.
pub struct Manager {
    pub flavor: Flavor,
    /// Its own secure port as the administrator sees it: health, metrics, configz.
    pub api: Api,
    process: Process,
    user: String,
}

impl Manager {
    /// Starts it and waits until its health check answers.
    pub fn start(cluster: &Cluster, flavor: Flavor, options: &ManagerOptions) -> Result<Manager> {
        Manager::start_named(cluster, flavor, flavor.name(), options)
    }

    /// As `start`, with a name of its own for log and certificate: for two of one flavor.
    pub fn start_named(
        cluster: &Cluster,
        flavor: Flavor,
        name: &str,
        options: &ManagerOptions,
    ) -> Result<Manager> {
        let name = format!("controller-manager-{name}");
        if !options.use_service_account_credentials {
            allow_everything(cluster, &options.user)?;
        }
        let port = free_port()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let admin = cluster
            .authority
            .client("admin-probe", "admin", Some("system:masters"))?;
        let api = Api::new(address, &cluster.authority.certificate(), Some(&admin))?;
        let flags = flags(cluster, flavor, &name, port, options)?;
        let mut process =
            Process::start(&name, &flavor.program(cluster)?, &flags, cluster.folder())?;
        cluster::ready(&mut process, || {
            let answer = api.send("GET", "/healthz", "application/json", &[])?;
            Ok(match answer.status {
                200 => Seen::Ready(()),
                status => Seen::NotYet(format!("/healthz answers {status}")),
            })
        })?;
        Ok(Manager {
            flavor,
            api,
            process,
            user: options.user.clone(),
        })
    }

    /// Replaces its client certificate on disk by another of the same user. It is told nothing.
    pub fn rotate_certificate(&self, cluster: &Cluster) -> Result<()> {
        let file = client_file(self.process.name());
        cluster.authority.client(&file, &self.user, None).map(drop)
    }

    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Fails with the last lines of the log if it has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.process.ended() {
            None => Ok(()),
            Some(status) => anyhow::bail!(
                "the {} controller manager ended by itself ({status}); {}",
                self.flavor.name(),
                self.process.last_lines()
            ),
        }
    }

    /// The process alone, for whoever wants to end it in another way.
    pub fn into_process(self) -> Process {
        self.process
    }

    /// SIGTERM, as a kubelet would end it.
    pub fn stop(self) -> Result<()> {
        self.process.stop().map(drop)
    }

    /// SIGKILL, as a crash would.
    pub fn kill(self) {
        self.process.kill();
    }
}

/// The manager's own user may do little: its controllers are meant to act through their service
/// accounts. Where they do not, it gets every right, but stays subject to priority and fairness.
fn allow_everything(cluster: &Cluster, user: &str) -> Result<()> {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let name = user.replace(':', "-");
    if cluster.api.find(&format!("{path}/{name}"))?.is_some() {
        return Ok(());
    }
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    cluster.api.create(path, &binding).map(drop)
}

/// The name of the files with the client certificate of a manager.
fn client_file(manager: &str) -> String {
    format!("{manager}-client")
}

fn flags(
    cluster: &Cluster,
    flavor: Flavor,
    name: &str,
    port: u16,
    options: &ManagerOptions,
) -> Result<Vec<String>> {
    let (kubeconfig, _) = cluster.user(&client_file(name), &options.user, None)?;
    if let Some(server) = options.server {
        let text = fs::read_to_string(&kubeconfig)?;
        let text = text.replace(&cluster.url(), &format!("https://{server}"));
        fs::write(&kubeconfig, text)?;
    }
    let serving = cluster
        .authority
        .server(name)
        .context("no serving certificate")?;
    let kubeconfig = kubeconfig.display();
    let authority = cluster.authority.certificate_file();
    let mut flags = match flavor {
        Flavor::Go => Vec::new(),
        Flavor::Ours => vec!["controller-manager".to_owned()],
    };
    flags.extend([
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", serving.certificate_file.display()),
        format!("--tls-private-key-file={}", serving.key_file.display()),
        format!("--client-ca-file={}", authority.display()),
        format!("--root-ca-file={}", authority.display()),
        format!(
            "--service-account-private-key-file={}",
            cluster.service_account_key.display()
        ),
        format!("--cluster-signing-cert-file={}", authority.display()),
        format!(
            "--cluster-signing-key-file={}",
            cluster.authority.key_file().display()
        ),
        format!("--leader-elect={}", options.leader_elect),
        format!(
            "--use-service-account-credentials={}",
            options.use_service_account_credentials
        ),
    ]);
    if !options.controllers.is_empty() {
        flags.push(format!("--controllers={}", options.controllers.join(",")));
    }
    if let Some(rate) = options.requests_per_second {
        flags.push(format!("--kube-api-qps={rate}"));
        flags.push(format!("--kube-api-burst={rate}"));
    }
    flags.extend(options.flags.iter().cloned());
    Ok(flags)
}
