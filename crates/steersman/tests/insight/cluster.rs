//! A cluster in a box for one test, in memory, on a free port.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use api::ResourceType;
use client::config::{Config, Environment};
use client::{Client, Patch};
use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_steersman");

pub struct Cluster {
    process: Child,
    manager: Option<Child>,
    pub directory: PathBuf,
    tokio: tokio::runtime::Runtime,
    client: Client,
}

impl Cluster {
    /// Starts one; `name` tells the tests of a binary apart.
    pub fn start(name: &str) -> Cluster {
        Cluster::start_with(name, &[])
    }

    /// On a machine whose clocks are in this zone.
    pub fn start_in(name: &str, zone: &str) -> Cluster {
        Cluster::start_on(name, &[], Some(zone))
    }

    pub fn start_with(name: &str, more: &[&str]) -> Cluster {
        Cluster::start_on(name, more, None)
    }

    fn start_on(name: &str, more: &[&str], zone: Option<&str>) -> Cluster {
        let directory =
            std::env::temp_dir().join(format!("steersman-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory can be made");
        let kubeconfig = directory.join("kubeconfig");
        let mut process = Command::new(BINARY)
            .args([
                "up",
                "--in-memory",
                "--port=0",
                "--output=json",
                "--kubeconfig",
            ])
            .arg(&kubeconfig)
            .args(more)
            .envs(zone.map(|zone| ("TZ", zone)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let output = process.stdout.take().expect("it was asked for");
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it says when it is up");
        assert!(line.contains("\"server\""), "{line:?}");
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let config = Config::from_environment(Some(&kubeconfig), None, &Environment::default())
            .expect("the kubeconfig is good");
        let transport = client::https::transport(config, runtime::clock::wall())
            .expect("the certificates are good");
        Cluster {
            process,
            manager: None,
            directory,
            tokio,
            client: Client::new(transport),
        }
    }

    /// Starts a controller manager of ours on it; gives the address and the certificate of its secure port.
    pub fn start_manager(&mut self) -> (String, String) {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let kubeconfig = self.kubeconfig().display().to_string();
        let certificates = self.directory.join("certificates").display().to_string();
        let process = Command::new(BINARY)
            .args([
                "controller-manager",
                "--bind-address=127.0.0.1",
                "--leader-elect=false",
            ])
            .arg(format!("--secure-port={port}"))
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--authentication-kubeconfig={kubeconfig}"))
            .arg(format!("--authorization-kubeconfig={kubeconfig}"))
            .arg(format!("--cert-dir={certificates}"))
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        self.manager = Some(process);
        let certificate = format!("{certificates}/kube-controller-manager.crt");
        (format!("https://127.0.0.1:{port}"), certificate)
    }

    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.tokio.block_on(future)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.join(name);
        std::fs::write(&path, text).expect("the directory can be written to");
        path.display().to_string()
    }

    /// Applies an object, given in YAML.
    pub fn apply(&self, resource: &ResourceType, namespace: &str, name: &str, yaml: &str) -> Value {
        let patch = Patch::Apply {
            body: yaml.to_owned().into(),
            field_manager: "test".into(),
            force: true,
        };
        let answer = self.client.patch(resource, namespace, name, None, &patch);
        let answer = self.tokio.block_on(answer).expect("the object is good");
        serde_json::from_slice(&answer).expect("the server answers JSON")
    }

    /// Somebody who may read Deployments and what belongs to them, and nothing else.
    pub fn limited_user(&self) -> PathBuf {
        let accounts = ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
        let roles = ResourceType::cluster(
            "rbac.authorization.k8s.io",
            "v1",
            "clusterroles",
            "ClusterRole",
        );
        let bindings = ResourceType::cluster(
            "rbac.authorization.k8s.io",
            "v1",
            "clusterrolebindings",
            "ClusterRoleBinding",
        );
        let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: limited}}";
        self.apply(&accounts, "default", "limited", account);
        let role = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: limited}
rules:
- {apiGroups: [apps, ''], resources: [deployments, replicasets, pods], verbs: [get, list]}";
        self.apply(&roles, "", "limited", role);
        let binding = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: limited}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: limited}
subjects: [{kind: ServiceAccount, name: limited, namespace: default}]";
        self.apply(&bindings, "", "limited", binding);
        self.kubeconfig_of("limited")
    }

    /// Somebody who may edit one namespace, which their context names, and read nothing else.
    pub fn editor_of(&self, namespace: &str) -> PathBuf {
        let group = "rbac.authorization.k8s.io";
        let namespaces = ResourceType::cluster("", "v1", "namespaces", "Namespace");
        let accounts = ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
        let bindings = ResourceType::namespaced(group, "v1", "rolebindings", "RoleBinding");
        let made = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
        self.apply(&namespaces, "", namespace, &made);
        let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: editor}}";
        self.apply(&accounts, "default", "editor", account);
        let binding = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: editor, namespace: default}]";
        self.apply(&bindings, namespace, "editor", binding);
        let path = self.kubeconfig_of("editor");
        let text = std::fs::read_to_string(&path).expect("it was just written");
        let mut config: Value = serde_json::from_str(&text).expect("it is JSON");
        config["contexts"][0]["context"]["namespace"] = Value::from(namespace);
        std::fs::write(&path, config.to_string()).expect("the directory can be written to");
        path
    }

    pub fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Value {
        let answer = self.client.get(resource, namespace, name);
        let answer = self.tokio.block_on(answer).expect("the object is there");
        serde_json::from_slice(&answer).expect("the server answers JSON")
    }

    pub fn delete(&self, resource: &ResourceType, name: &str) {
        let options = client::DeleteOptions::default();
        let answer = self.client.delete(resource, "", name, &options);
        self.tokio.block_on(answer).expect("the object is there");
    }

    /// A kubeconfig for a service account of the namespace `default`.
    pub fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let accounts = ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
        let request =
            r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
        let answer = self
            .client
            .create_subresource(&accounts, "default", account, "token", request);
        let answer = self.tokio.block_on(answer).expect("a token is given");
        let answer: Value = serde_json::from_slice(&answer).expect("the server answers JSON");
        let own = std::fs::read_to_string(self.kubeconfig()).expect("the kubeconfig is there");
        let mut config: Value = api::yaml::from_str(&own).expect("the kubeconfig is YAML");
        config["users"][0]["user"] = serde_json::json!({"token": answer["status"]["token"]});
        let path = self.directory.join(format!("{account}.kubeconfig"));
        std::fs::write(&path, config.to_string()).expect("the directory can be written to");
        path
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.manager.iter_mut().chain([&mut self.process]) {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Runs the binary as somebody who has no cluster but the one that is named.
pub fn steersman(arguments: &[&str]) -> Output {
    Command::new(BINARY)
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", Path::new("/nonexistent"))
        .output()
        .expect("the binary runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A kubeconfig of a cluster that nobody can reach: nothing listens on port 1.
pub fn unreachable(directory: &Path) -> String {
    let path = directory.join("unreachable");
    let kubeconfig = "
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: t}}]
current-context: a
";
    std::fs::write(&path, kubeconfig).expect("the directory is there");
    path.display().to_string()
}
