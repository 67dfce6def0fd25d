//! `steersman envtest`, and the binary under the names that it gives it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::home::{Home, signal, wait};

/// A folder for KUBEBUILDER_ASSETS.
fn assets(home: &Home) -> PathBuf {
    let folder = home.0.join("assets");
    let said = home.succeed(&["envtest", folder.to_str().unwrap()]);
    assert_eq!(said.trim(), folder.to_str().unwrap());
    folder
}

#[test]
fn a_folder_is_filled_once_and_foreign_programs_stay_unless_forced() {
    let home = Home::new("envtest-folder");
    let folder = assets(&home);
    for name in ["kube-apiserver", "etcd"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    assets(&home);
    let foreign = folder.join("etcd");
    std::fs::remove_file(&foreign).unwrap();
    std::fs::write(&foreign, "mine").unwrap();
    let path = folder.to_str().unwrap();
    let refused = home.refused(&["envtest", path]);
    assert!(refused.contains("--force replaces it"), "{refused}");
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "mine");
    home.succeed(&["envtest", "--force", "--copy", path]);
    assert!(foreign.metadata().unwrap().len() > 1000);
    let refused = home.refused(&["envtest", "--kubectl=/nowhere", path]);
    assert!(refused.contains("/nowhere is no file"), "{refused}");
}

#[test]
fn under_upstreams_names_it_answers_as_upstream_does() {
    let home = Home::new("envtest-names");
    let folder = assets(&home);
    let run = |name: &str, arguments: &[&str]| {
        let output = Command::new(folder.join(name))
            .args(arguments)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, version) = run("kube-apiserver", &["--version"]);
    assert_eq!(code, Some(0));
    assert!(version.starts_with("Kubernetes v1.36."), "{version}");
    let (code, help) = run("kube-apiserver", &["--help"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("--etcd-servers") && !help.contains("--insecure-port"));
    let (code, refused) = run("kube-apiserver", &["--insecure-port=0"]);
    assert_eq!(code, Some(1));
    assert!(
        refused.starts_with("Error: unknown flag: --insecure-port"),
        "{refused}"
    );
    let (code, version) = run("etcd", &["--version"]);
    assert_eq!(code, Some(0));
    assert!(version.starts_with("etcd Version: 3.6."), "{version}");
}

/// A kube-apiserver with a file of tokens and an audit log, as a script would start it.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(home: &Home, more: &[&str]) -> Server {
        let folder = assets(home);
        home.file(
            "tokens.csv",
            "admin-token,admin,1,system:masters\nuser-token,user,2\n",
        );
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let number = port.local_addr().unwrap().port();
        drop(port);
        let mut child = Command::new(folder.join("kube-apiserver"))
            .arg(format!("--secure-port={number}"))
            .args([
                "--bind-address=127.0.0.1",
                "--cert-dir=certificates",
                "--token-auth-file=tokens.csv",
                "--authorization-mode=RBAC",
                "--etcd-servers=http://127.0.0.1:1",
            ])
            .args(more)
            .current_dir(&home.0)
            .env_remove("STEERSMAN_CONTROLLERS")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let ready = lines.find(|line| line.contains("Serving securely on"));
        assert!(ready.is_some(), "it ended early");
        // Whoever writes to a closed pipe ends.
        std::thread::spawn(move || lines.for_each(drop));
        Server {
            child,
            url: format!("https://127.0.0.1:{number}"),
        }
    }

    /// The status of an answer.
    fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> u16 {
        let authorization = format!("Authorization: Bearer {token}");
        let mut curl = Command::new("curl");
        curl.args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", "-X", method]);
        if !token.is_empty() {
            curl.args(["-H", &authorization]);
        }
        if !body.is_empty() {
            curl.args(["-H", "Content-Type: application/json", "-d", body]);
        }
        let output = curl.arg(format!("{}{path}", self.url)).output().unwrap();
        String::from_utf8(output.stdout).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

#[test]
fn tokens_roles_and_anonymous_requests_are_as_the_flags_say() {
    let home = Home::new("envtest-flags");
    let server = Server::start(&home, &["--disable-admission-plugins=ServiceAccount"]);
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(server.ask("", "GET", "/healthz", ""), 200);
    assert_eq!(server.ask("", "GET", pods, ""), 403);
    assert_eq!(server.ask("wrong", "GET", pods, ""), 401);
    assert_eq!(server.ask("user-token", "GET", pods, ""), 403);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]}});
    let refused = server.ask("admin-token", "POST", pods, &pod.to_string());
    assert_eq!(refused, 422, "--allow-privileged is false");
    let pod = pod
        .to_string()
        .replace("\"privileged\":true", "\"privileged\":false");
    // There is no service account, and no plugin asks for one.
    assert_eq!(server.ask("admin-token", "POST", pods, &pod), 201);
}

#[test]
fn what_is_asked_is_in_the_audit_log() {
    let home = Home::new("envtest-audit");
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
        - {level: RequestResponse, omitManagedFields: true, resources: [{group: '', resources: [configmaps]}]}\n\
        - {level: Metadata, users: [user]}\n- {level: None}\n";
    home.file("policy.yaml", policy);
    let flags = [
        "--audit-policy-file=policy.yaml",
        "--audit-log-path=audit.log",
    ];
    let server = Server::start(&home, &flags);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    assert_eq!(
        server.ask("admin-token", "POST", maps, &map.to_string()),
        201
    );
    assert_eq!(server.ask("user-token", "GET", "/api/v1/secrets", ""), 403);
    assert_eq!(server.ask("admin-token", "GET", "/api/v1/secrets", ""), 200);
    let text = std::fs::read_to_string(home.0.join("audit.log")).unwrap();
    let events: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let by_admin: Vec<_> = events
        .iter()
        .filter(|event| event["user"]["username"] == "admin")
        .collect();
    assert_eq!(by_admin.len(), 1, "{text}");
    let created = by_admin[0];
    assert_eq!(created["stage"], "ResponseComplete");
    assert_eq!(created["objectRef"]["resource"], "configmaps");
    assert_eq!(created["requestObject"]["data"]["k"], "v");
    assert_eq!(created["responseStatus"]["code"], 201);
    assert_eq!(created["responseObject"]["metadata"]["name"], "a");
    assert!(created["responseObject"]["metadata"]["managedFields"].is_null());
    assert_eq!(created["sourceIPs"], json!(["127.0.0.1"]));
    let refused = events
        .iter()
        .find(|event| event["user"]["username"] == "user")
        .unwrap();
    assert_eq!(refused["level"], "Metadata");
    assert_eq!(refused["responseStatus"]["code"], 403);
    assert_eq!(
        refused["annotations"]["authorization.k8s.io/decision"],
        "forbid"
    );
}

#[test]
fn controllers_run_inside_where_the_flag_asks_for_them() {
    let home = Home::new("envtest-controllers");
    let server = Server::start(&home, &["--controllers=namespace-controller"]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let path = "/api/v1/namespaces";
    assert_eq!(
        server.ask("admin-token", "POST", path, &namespace.to_string()),
        201
    );
    assert_eq!(
        server.ask("admin-token", "DELETE", "/api/v1/namespaces/a", ""),
        200
    );
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.ask("admin-token", "GET", "/api/v1/namespaces/a", "") != 404 {
        assert!(std::time::Instant::now() < deadline, "it is still there");
    }
}

#[test]
fn as_etcd_it_is_well_until_it_is_told_to_stop() {
    let home = Home::new("envtest-etcd");
    let folder = assets(&home);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    drop(port);
    let mut child = Command::new(folder.join("etcd"))
        .arg(format!("--listen-client-urls={url}"))
        .arg("--data-dir=data")
        .current_dir(&home.0)
        .spawn()
        .unwrap();
    let health = || {
        let output = Command::new("curl")
            .args(["-s", &format!("{url}/health")])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while health() != r#"{"health":"true","reason":""}"# {
        assert!(std::time::Instant::now() < deadline, "it does not answer");
    }
    signal(child.id(), "TERM");
    assert_eq!(wait(&mut child).code(), Some(0));
}
