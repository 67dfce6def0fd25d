//! The chart of `deploy/helm`, by helm itself: it is linted, rendered, and lives a whole life in `steersman up`'s box.
//! Pods are simulated there, so what they would run is run here, with the flags and the rights that the chart gives it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use real_tests::process::Process;
use real_tests::wait::{Seen, until};
use real_tests::{Api, cluster, installation};
use serde_json::{Value, json};

/// A busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kube-system/deployments/steersman";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/steersman")
}

/// helm with a home of its own.
struct Helm {
    program: PathBuf,
    home: PathBuf,
}

impl Helm {
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let ran = Command::new(&self.program)
            .args(arguments)
            .env("HOME", &self.home)
            .env("KUBECONFIG", self.home.join("kubeconfig"))
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
        match ran.status.success() {
            true => Ok(said),
            false => Err(format!("helm {}: {said}{errors}", arguments.join(" "))),
        }
    }

    /// The objects that the chart makes of these values.
    fn template(&self, values: &str) -> Vec<Value> {
        let chart = chart();
        let said = self
            .run(&[
                "template",
                "steersman",
                chart.to_str().unwrap(),
                "--namespace=kube-system",
                "--kube-version=1.36.3",
                "--set",
                values,
            ])
            .unwrap();
        serde_yaml_ng::Deserializer::from_str(&said)
            .map(|document| serde::Deserialize::deserialize(document).unwrap())
            .filter(|object: &Value| !object.is_null())
            .collect()
    }
}

fn helm(name: &str) -> Option<(Helm, Folder)> {
    let program = installation::helm_for_test()?;
    let folder = Folder::new(name);
    let home = folder.0.clone();
    Some((Helm { program, home }, folder))
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("steersman-helm-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_chart_has_no_faults_with_any_of_its_values() {
    let Some((helm, _folder)) = helm("lint") else {
        return;
    };
    let everything = "podMonitor.create=true,podMonitor.tokenSecret.name=t,keysSecret=keys,extraArgs={--v=2},podAnnotations.a=b";
    for values in ["replicaCount=2", "replicaCount=1", everything] {
        let chart = chart();
        let said = helm.run(&["lint", "--strict", chart.to_str().unwrap(), "--set", values]);
        assert!(
            said.is_ok_and(|said| said.contains("0 chart(s) failed")),
            "{values}"
        );
    }
    let kinds = |values: &str| {
        let objects = helm.template(values);
        let mut kinds: Vec<String> = objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap().to_owned())
            .collect();
        kinds.sort();
        kinds.join(" ")
    };
    let usual = "ClusterRoleBinding ClusterRoleBinding Deployment PodDisruptionBudget RoleBinding RoleBinding ServiceAccount";
    assert_eq!(kinds("replicaCount=2"), usual);
    assert!(
        !kinds("replicaCount=1").contains("PodDisruptionBudget"),
        "nothing could ever be drained"
    );
    assert!(kinds(everything).contains("PodMonitor"));
    assert_eq!(
        kinds("rbac.create=false,serviceAccount.create=false"),
        "Deployment PodDisruptionBudget"
    );
}

#[test]
fn pods_of_the_chart_can_do_nothing_that_they_need_not() {
    let Some((helm, _folder)) = helm("security") else {
        return;
    };
    let objects = helm.template("keysSecret=keys");
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
    let pod = &deployment.unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    let container = &pod["containers"][0];
    let expected = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container["securityContext"], expected);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["scheme"], "HTTPS", "{probe}");
    }
    // Every file that a flag names is mounted, or is in every pod.
    let mounted = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    for flag in flags(container) {
        if let Some((_, path)) = flag.split_once("=/") {
            let path = format!("/{path}");
            let is_there = path.starts_with(mounted)
                || path.starts_with("/var/run/secrets/kubernetes.io/serviceaccount/");
            assert!(is_there, "{flag}");
        }
    }
}

fn flags(container: &Value) -> Vec<String> {
    let flags = container["args"].as_array().unwrap().iter();
    flags
        .map(|flag| flag.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn helm_installs_upgrades_rolls_back_and_uninstalls() {
    let Some((helm, folder)) = helm("life") else {
        return;
    };
    let steersman = installation::steersman_binary().unwrap();
    let up = Up::start(&steersman, &folder.0);
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let to_the_end = ["--namespace=kube-system", "--wait", "--timeout=60s"];
    let helm = |arguments: &[&str]| helm.run(&[arguments, &to_the_end].concat()).unwrap();

    let said = helm(&["install", "steersman", chart]);
    assert!(said.contains("2 replicas compete for the lease"), "{said}");
    let replicas = || {
        let status = up.api.get(DEPLOYMENT).unwrap()["status"].clone();
        (
            status["readyReplicas"].clone(),
            status["updatedReplicas"].clone(),
        )
    };
    assert_eq!(replicas(), (json!(2), json!(2)));
    runs_with_its_rights(&up, &steersman, &folder.0);

    helm(&[
        "upgrade",
        "steersman",
        chart,
        "--set=replicaCount=3,image.tag=v9",
    ]);
    assert_eq!(replicas(), (json!(3), json!(3)));
    let image = || {
        let deployment = up.api.get(DEPLOYMENT).unwrap();
        let image = deployment
            .pointer("/spec/template/spec/containers/0/image")
            .cloned();
        image.unwrap()
    };
    assert_eq!(image(), "ghcr.io/steersman-dev/steersman:v9");
    helm(&["rollback", "steersman", "1"]);
    assert_eq!(image(), "ghcr.io/steersman-dev/steersman:v0.1.0");
    assert_eq!(replicas(), (json!(2), json!(2)));
    helm(&["uninstall", "steersman"]);
    assert!(up.api.find(DEPLOYMENT).unwrap().is_none());
    let role =
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/steersman:kube-controller-manager";
    assert!(up.api.find(role).unwrap().is_none());
}

/// Our binary with the flags of the installed Deployment, as its service account: it takes the lease.
fn runs_with_its_rights(up: &Up, steersman: &Path, folder: &Path) {
    let deployment = up.api.get(DEPLOYMENT).unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["kube-controller-manager"]));
    let authority = folder.join("ca.crt");
    fs::write(&authority, &up.authority).unwrap();
    let in_pods = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
    let mut arguments: Vec<String> = flags(container)
        .iter()
        .map(|flag| flag.replace(in_pods, authority.to_str().unwrap()))
        // The box has controllers of its own; one of the chart's is enough to be busy with.
        .filter(|flag| !flag.starts_with("--secure-port=") && !flag.starts_with("--controllers="))
        .collect();
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let account = "/api/v1/namespaces/kube-system/serviceaccounts/steersman/token";
    let token = up.api.create(account, &request).unwrap();
    let token = token["status"]["token"].as_str().unwrap();
    let kubeconfig = folder.join("pod.kubeconfig");
    let config = json!({
        "clusters": [{"name": "box", "cluster": {"server": up.server, "certificate-authority": authority}}],
        "users": [{"name": "pod", "user": {"token": token}}],
        "contexts": [{"name": "box", "context": {"cluster": "box", "user": "pod"}}],
        "current-context": "box",
    });
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let kubeconfig = kubeconfig.display();
    arguments.extend([
        "controller-manager".to_owned(),
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--secure-port={}", cluster::free_port().unwrap()),
        "--bind-address=127.0.0.1".to_owned(),
        "--controllers=ttl-controller".to_owned(),
    ]);
    // The command comes first.
    arguments.sort_by_key(|argument| argument.starts_with("--"));
    let mut process = Process::start("chart", steersman, &arguments, folder).unwrap();
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    let held = until("the lease to be held", PATIENCE, || {
        if let Some(status) = process.ended() {
            panic!("it ended with {status}: {}", process.last_lines());
        }
        let lease = up.api.find(lease)?.unwrap_or_default();
        Ok(match lease["spec"]["holderIdentity"].as_str() {
            Some(holder) if !holder.is_empty() => Seen::Ready(holder.to_owned()),
            _ => Seen::NotYet(process.last_lines()),
        })
    });
    assert!(!held.unwrap().is_empty());
    assert!(process.stop().unwrap().success());
}

/// `steersman up` in a folder; it ends with the test.
struct Up {
    api: Api,
    server: String,
    authority: String,
    _process: Process,
}

impl Up {
    fn start(steersman: &Path, folder: &Path) -> Up {
        let kubeconfig = folder.join("kubeconfig");
        let arguments = [
            "up".to_owned(),
            "--port=0".to_owned(),
            "--no-dashboard".to_owned(),
            "--output=json".to_owned(),
            format!("--data-dir={}", folder.join("data").display()),
            format!("--kubeconfig={}", kubeconfig.display()),
        ];
        let mut process = Process::start("up", steersman, &arguments, folder).unwrap();
        until("the cluster to be up", PATIENCE, || {
            assert!(process.ended().is_none(), "{}", process.last_lines());
            let said = fs::read_to_string(process.log())?;
            Ok(match said.contains("\"nodes\":3") {
                true => Seen::Ready(()),
                false => Seen::NotYet(said),
            })
        })
        .unwrap();
        let config: Value =
            serde_yaml_ng::from_str(&fs::read_to_string(&kubeconfig).unwrap()).unwrap();
        let decode = |text: &Value| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap());
            String::from_utf8(bytes.unwrap()).unwrap()
        };
        let found = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let server = found["server"].as_str().unwrap().to_owned();
        let authority = decode(&found["certificate-authority-data"]);
        let admin = real_tests::certificates::Identity {
            certificate: decode(&user["client-certificate-data"]),
            key: decode(&user["client-key-data"]),
            certificate_file: PathBuf::new(),
            key_file: PathBuf::new(),
        };
        let address = server.strip_prefix("https://").unwrap().parse().unwrap();
        Up {
            api: Api::new(address, &authority, Some(&admin)).unwrap(),
            server,
            authority,
            _process: process,
        }
    }
}
