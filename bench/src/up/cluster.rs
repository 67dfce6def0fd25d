//! A cluster of `steersman up` in a folder of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::Client;
use client::config::{Config, Environment};
use real_tests::installation::steersman_binary;
use real_tests::process::{Process, Usage};
use serde_json::Value;

pub(crate) struct Cluster {
    process: Option<Process>,
    folder: PathBuf,
    nodes: usize,
    pub(crate) begun: Instant,
    tokio: tokio::runtime::Runtime,
    client: std::cell::OnceCell<Client>,
}

/// The longest phase that is still worth waiting for.
const DEADLINE: Duration = Duration::from_secs(1800);

impl Cluster {
    pub(crate) fn start(nodes: usize) -> Result<Cluster> {
        let folder =
            std::env::temp_dir().join(format!("steersman-bench-up-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        Cluster::start_in(folder, nodes)
    }

    fn start_in(folder: PathBuf, nodes: usize) -> Result<Cluster> {
        let _ = std::fs::remove_file(folder.join("kubeconfig"));
        let program = steersman_binary()?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let arguments = [
            "up".to_owned(),
            "--quiet".to_owned(),
            "--port=0".to_owned(),
            format!("--nodes={nodes}"),
            format!("--data-dir={}", text(&folder.join("data"))),
            format!("--kubeconfig={}", text(&folder.join("kubeconfig"))),
        ];
        let begun = Instant::now();
        let process = Process::start("up", &program, &arguments, &folder)?;
        Ok(Cluster {
            process: Some(process),
            folder,
            nodes,
            begun,
            tokio: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            client: std::cell::OnceCell::new(),
        })
    }

    /// Ends the process, in order or not, and starts another one on its data.
    pub(crate) fn restart(mut self, kill: bool) -> Result<Cluster> {
        match self.process.take() {
            Some(process) if kill => process.kill(),
            Some(process) => drop(process.stop()?),
            None => {}
        }
        let folder = std::mem::take(&mut self.folder);
        Cluster::start_in(folder, self.nodes)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        self.process
            .as_ref()
            .context("the process has ended")?
            .usage()
    }

    pub(crate) fn await_ready_nodes(&self, count: usize) -> Result<()> {
        self.until("nodes to be ready", || {
            if !self.kubeconfig().exists() {
                return Ok(false);
            }
            let nodes = self.request("GET", "/api/v1/nodes", None)?;
            let is_ready = |node: &Value| {
                let conditions = node["status"]["conditions"].as_array();
                conditions
                    .into_iter()
                    .flatten()
                    .any(|one| one["type"] == "Ready" && one["status"] == "True")
            };
            let nodes = nodes["items"].as_array();
            Ok(nodes
                .into_iter()
                .flatten()
                .filter(|node| is_ready(node))
                .count()
                >= count)
        })
    }

    pub(crate) fn deploy(&self, name: &str, replicas: usize) -> Result<()> {
        let path = "/apis/apps/v1/namespaces/default/deployments";
        self.request("POST", path, Some(&super::deployment(name, replicas)))?;
        Ok(())
    }

    pub(crate) fn await_available(&self, name: &str, replicas: usize) -> Result<()> {
        let path = format!("/apis/apps/v1/namespaces/default/deployments/{name}");
        self.until("pods to be available", || {
            let seen = self.request("GET", &path, None)?;
            Ok(seen["status"]["availableReplicas"] == replicas)
        })
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map_or(Bytes::new(), |body| Bytes::from(body.to_string()));
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body)?;
        let client = self.client()?;
        let answer = self.tokio.block_on(client.request(request))?;
        Ok(serde_json::from_slice(&answer)?)
    }

    fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let environment = Environment::of_process();
        let config = Config::from_environment(Some(&self.kubeconfig()), None, &environment)?;
        let transport = client::https::transport(config, runtime::clock::wall())?;
        Ok(self.client.get_or_init(|| Client::new(transport)))
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        while !holds()? {
            if Instant::now() > deadline {
                bail!("waited in vain for {what}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
        if !self.folder.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
