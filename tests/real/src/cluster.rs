//! etcd and kube-apiserver, started for one test group and stopped with it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::audit;
use crate::certificates::{Authority, Identity};
use crate::http::Api;
use crate::installation::Installation;
use crate::process::{self, Process};
use crate::wait::{self, Seen};

/// Seconds suffice on a free machine; a shared one with two busy cores has been seen to need 60.
const START_DEADLINE: Duration = Duration::from_secs(180);
/// etcd answers at once, unless it is about to die; a compaction takes a second on a busy machine.
const ETCD_TIMEOUT: Duration = Duration::from_secs(20);
/// A port found free can be taken before the server binds it: then others are tried.
const START_ATTEMPTS: u32 = 3;

/// Where kube-apiserver finds the administrator's token.
const TOKENS: &str = "tokens.csv";

#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// More flags for kube-apiserver; they come last, so they win.
    pub apiserver_flags: Vec<String>,
    pub audit: audit::Level,
    /// Files of etcd that cannot grow beyond so many kilobytes, as on a disk that is full.
    pub etcd_file_limit: Option<u64>,
    /// For those who measure what runs on the servers: these may hold more garbage and collect it less often, and know the
    /// administrator by a token, which takes less time than a certificate.
    pub at_ease: bool,
}

/// A running API server with its etcd. Dropping it stops both and removes its folder, unless a test
/// is failing: then the logs stay and their place is printed.
pub struct Cluster {
    pub installation: Installation,
    pub api: Api,
    pub authority: Authority,
    pub service_account_key: PathBuf,
    options: ClusterOptions,
    folder: PathBuf,
    server: SocketAddr,
    etcd_ports: (u16, u16),
    etcd: Option<Process>,
    apiserver: Option<Process>,
}

impl Cluster {
    pub fn start(installation: &Installation, options: ClusterOptions) -> Result<Cluster> {
        let mut last = None;
        for _ in 0..START_ATTEMPTS {
            match Cluster::try_start(installation, options.clone()) {
                Err(error) if format!("{error:#}").contains("address already in use") => {
                    last = Some(error)
                }
                outcome => return outcome,
            }
        }
        Err(last.context("no attempt was made")?)
    }

    fn try_start(installation: &Installation, options: ClusterOptions) -> Result<Cluster> {
        let folder = fresh_folder()?;
        let authority = Authority::create(&folder.join("pki"))?;
        authority.server("apiserver")?;
        let service_account_key = authority.signing_key("service-accounts")?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let admin = authority.client("admin", "admin", Some("system:masters"))?;
        let api = if options.at_ease {
            let token = random_token()?;
            fs::write(
                folder.join(TOKENS),
                format!("{token},admin,admin,system:masters\n"),
            )?;
            Api::with_token(server, &authority.certificate(), &token)?
        } else {
            Api::new(server, &authority.certificate(), Some(&admin))?
        };
        let mut cluster = Cluster {
            installation: installation.clone(),
            api,
            authority,
            service_account_key,
            options,
            folder,
            server,
            etcd_ports: (free_port()?, free_port()?),
            etcd: None,
            apiserver: None,
        };
        fs::write(
            cluster.path("audit-policy.yaml"),
            cluster.options.audit.policy(),
        )?;
        cluster.write_kubeconfig("admin", &admin)?;
        cluster.start_etcd()?;
        cluster.start_apiserver()?;
        Ok(cluster)
    }

    /// A path in the folder of this cluster.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.server)
    }

    pub fn address(&self) -> SocketAddr {
        self.server
    }

    pub fn audit_log(&self) -> PathBuf {
        self.path("audit.jsonl")
    }

    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path("admin.kubeconfig")
    }

    /// The processes, for measurements: etcd, then kube-apiserver.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.etcd.iter().chain(self.apiserver.iter())
    }

    /// A kubeconfig and client for a user of your choice, with a certificate of this cluster.
    pub fn user(&self, file: &str, user: &str, group: Option<&str>) -> Result<(PathBuf, Api)> {
        let identity = self.authority.client(file, user, group)?;
        let api = Api::new(self.server, &self.authority.certificate(), Some(&identity))?;
        Ok((self.write_kubeconfig(file, &identity)?, api))
    }

    /// Runs kubectl as the administrator and returns what it printed; the error shows its stderr.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let ran = Command::new(self.installation.command("kubectl"))
            .arg("--kubeconfig")
            .arg(self.admin_kubeconfig())
            .args(arguments)
            .env("HOME", &self.folder)
            .output()?;
        if !ran.status.success() {
            bail!(
                "kubectl {} failed: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&ran.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    pub fn start_etcd(&mut self) -> Result<()> {
        let (client, peer) = self.etcd_ports;
        let url = |port| format!("http://127.0.0.1:{port}");
        let flags = [
            format!("--data-dir={}", self.path("etcd-data").display()),
            format!("--listen-client-urls={}", url(client)),
            format!("--advertise-client-urls={}", url(client)),
            format!("--listen-peer-urls={}", url(peer)),
            format!("--initial-advertise-peer-urls={}", url(peer)),
            format!("--initial-cluster=default={}", url(peer)),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let program = self.installation.command("etcd");
        let (mut program, mut flags) = self.collecting_garbage(program, flags.to_vec());
        if let Some(kilobytes) = self.options.etcd_file_limit {
            (program, flags) = process::limited(&program, &flags, kilobytes);
        }
        let mut etcd = Process::start("etcd", &program, &flags, &self.folder)?;
        ready(&mut etcd, || {
            // It listens before it has read and written its data, and may die over that.
            self.exchange_with_etcd("GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
            Ok(Seen::Ready(()))
        })?;
        self.etcd = Some(etcd);
        Ok(())
    }

    pub fn start_apiserver(&mut self) -> Result<()> {
        let program = self.installation.command("kube-apiserver");
        let (program, flags) = self.collecting_garbage(program, self.apiserver_flags());
        let mut apiserver = Process::start("kube-apiserver", &program, &flags, &self.folder)?;
        let api = self.api.clone();
        let started = ready(&mut apiserver, || {
            let answer = api.send("GET", "/readyz", "application/json", &[])?;
            Ok(match answer.status {
                200 => Seen::Ready(()),
                status => Seen::NotYet(format!(
                    "/readyz answers {status}: {}",
                    String::from_utf8_lossy(&answer.body)
                )),
            })
        });
        // Whoever rests on a server that has died dies over that.
        if let (Err(_), Some(etcd)) = (&started, &mut self.etcd)
            && let Some(status) = etcd.ended()
        {
            bail!("etcd ended ({status}); {}", etcd.last_lines());
        }
        started?;
        self.apiserver = Some(apiserver);
        Ok(())
    }

    /// A server with its flags, or a command that starts it so that it collects its garbage late.
    fn collecting_garbage(&self, program: PathBuf, flags: Vec<String>) -> (PathBuf, Vec<String>) {
        if !self.options.at_ease {
            return (program, flags);
        }
        let mut arguments = vec!["GOGC=800".to_owned(), program.display().to_string()];
        arguments.extend(flags);
        (PathBuf::from("env"), arguments)
    }

    /// More flags for kube-apiserver instead of those that it had, from its next start on.
    pub fn set_apiserver_flags(&mut self, flags: &[&str]) {
        self.options.apiserver_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// Replaces the API server's serving certificate on disk and waits until it shows the new one.
    pub fn rotate_serving_certificate(&self) -> Result<()> {
        let fresh = self.authority.server("apiserver")?;
        let fresh = CertificateDer::from_pem_slice(fresh.certificate.as_bytes())
            .map_err(|error| anyhow!("a certificate that does not read: {error:?}"))?;
        wait::until("the new serving certificate", START_DEADLINE, || {
            Ok(if self.api.server_certificate()? == fresh.as_ref() {
                Seen::Ready(())
            } else {
                Seen::NotYet("the old one".to_owned())
            })
        })
    }

    /// Makes etcd forget every state before the present one.
    pub fn compact(&self) -> Result<()> {
        let now = self.ask_etcd("range", &json!({"key": "AA=="}))?;
        let revision = &now["header"]["revision"];
        let compaction = json!({"revision": revision, "physical": true});
        self.ask_etcd("compaction", &compaction).map(drop)
    }

    /// One request to etcd's JSON gateway, whose 64-bit numbers are texts and whose keys are base64.
    fn ask_etcd(&self, method: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let answer = self.exchange_with_etcd(&format!(
            "POST /v3/kv/{method} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Sends a whole request to etcd; returns the body of a good answer.
    fn exchange_with_etcd(&self, request: &str) -> Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.etcd_ports.0));
        let mut etcd = TcpStream::connect_timeout(&address, ETCD_TIMEOUT)?;
        etcd.set_read_timeout(Some(ETCD_TIMEOUT))?;
        etcd.write_all(request.as_bytes())?;
        let mut answer = String::new();
        etcd.read_to_string(&mut answer)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
            _ => bail!("etcd answered: {answer}"),
        }
    }

    /// Takes the API server away, to be stopped, killed or paused by the caller.
    pub fn take_apiserver(&mut self) -> Option<Process> {
        self.apiserver.take()
    }

    pub fn take_etcd(&mut self) -> Option<Process> {
        self.etcd.take()
    }

    fn apiserver_flags(&self) -> Vec<String> {
        let pki = |name: &str| self.path("pki").join(name).display().to_string();
        let key = self.service_account_key.display();
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_ports.0),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            // The reconciler refuses to publish a loopback address and would log that for ever.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--secure-port={}", self.server.port()),
            format!("--tls-cert-file={}", pki("apiserver.crt")),
            format!("--tls-private-key-file={}", pki("apiserver.key")),
            format!("--client-ca-file={}", pki("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", pki("service-accounts.pub")),
            format!("--service-account-signing-key-file={key}"),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-priority-and-fairness=true".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!(
                "--audit-policy-file={}",
                self.path("audit-policy.yaml").display()
            ),
            format!("--audit-log-path={}", self.audit_log().display()),
            "--audit-log-maxsize=4096".to_owned(),
        ];
        if self.options.at_ease {
            flags.push(format!("--token-auth-file={}", self.path(TOKENS).display()));
        }
        flags.extend(self.options.apiserver_flags.iter().cloned());
        flags
    }

    fn write_kubeconfig(&self, name: &str, identity: &Identity) -> Result<PathBuf> {
        let path = self.path(&format!("{name}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": {
                "server": self.url(),
                "certificate-authority": self.authority.certificate_file(),
            }}],
            "users": [{"name": name, "user": {
                "client-certificate": identity.certificate_file,
                "client-key": identity.key_file,
            }}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": name}}],
            "current-context": "real",
        });
        fs::write(&path, serde_yaml_ng::to_string(&config)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.apiserver.take();
        self.etcd.take();
        let _ = fs::remove_dir_all(self.path("etcd-data"));
        if std::thread::panicking() {
            eprintln!(
                "the logs of the failed test are kept in {}",
                self.folder.display()
            );
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Waits until a fresh process is ready, and fails at once with its last words if it ends before.
pub(crate) fn ready(
    process: &mut Process,
    mut look: impl FnMut() -> Result<Seen<()>>,
) -> Result<()> {
    let mut ended = None;
    let what = format!("{} to be ready", process.name());
    let outcome = wait::until(&what, START_DEADLINE, || {
        ended = process.ended();
        if ended.is_some() {
            Ok(Seen::Ready(()))
        } else {
            look()
        }
    });
    let full = || process::full_disk(process.log()).unwrap_or_default();
    match (ended, outcome) {
        (Some(status), _) => {
            bail!(
                "{} ended at its start ({status}){}; {}",
                process.name(),
                full(),
                process.last_lines()
            )
        }
        (None, Err(error)) => bail!("{error:#}{}; {}", full(), process.last_lines()),
        (None, Ok(())) => Ok(()),
    }
}

/// A loopback port that is free now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .context("no free loopback port")?
        .local_addr()?
        .port())
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random
        .fill(&mut bytes)
        .map_err(|_| anyhow!("the system has no randomness"))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

pub(crate) fn fresh_folder() -> Result<PathBuf> {
    fresh_folder_in(&std::env::temp_dir())
}

/// Where writing to disk is not part of a test, it should not wait for a disk that others keep busy.
pub(crate) fn fresh_folder_in_memory() -> Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => fresh_folder_in(memory),
        false => fresh_folder(),
    }
}

fn fresh_folder_in(place: &Path) -> Result<PathBuf> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = format!("steersman-real-{}-{number}", std::process::id());
    let folder = place.join(name);
    // A folder of that name is left from a process that had our id and was killed.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
