//! `steersman why` against a running cluster, as an operator meets it.

use crate::cluster::{Cluster, steersman, text, unreachable};
use api::ResourceType;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

const DEPLOYMENTS: ResourceType =
    ResourceType::namespaced("apps", "v1", "deployments", "Deployment");
const NAMESPACES: ResourceType = ResourceType::cluster("", "v1", "namespaces", "Namespace");
const SERVICES: ResourceType = ResourceType::namespaced("", "v1", "services", "Service");
const CONFIG_MAPS: ResourceType = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");

fn deployment(image: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: main, image: '{image}'}}]}}
"
    )
}

/// Asks until the answer says all of this: the cluster takes a moment.
fn ask(cluster: &Cluster, arguments: &[&str], expected: &[&str]) -> String {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let mut all = vec!["why", "--kubeconfig", &kubeconfig];
    all.extend(arguments);
    let mut told = String::new();
    // Each try takes tens of milliseconds; a cluster that has not got there after 300 will not.
    for _ in 0..300 {
        let output = steersman(&all);
        told = text(&output.stdout) + &text(&output.stderr);
        if expected.iter().all(|words| told.contains(words)) {
            return told;
        }
    }
    panic!("{expected:?} is not in:\n{told}");
}

#[test]
fn from_a_deployment_down_to_the_pod_that_blocks() {
    let cluster = Cluster::start("why-deployment");
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    ask(
        &cluster,
        &["deploy/web"],
        &["is complete: all 3 pods are updated and available"],
    );
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:missing"));
    ask(
        &cluster,
        &["deployments", "web", "-n", "default"],
        &[
            "deployment/web in default: is stuck: 1 of 3 pods updated",
            "creates web-",
            "keeps 3 old pods: 3 pods must stay available (maxUnavailable), 3 are, and 1 new pod is not available yet",
            "progress deadline in 9m",
            "cannot pull image \"web:missing\"",
            "kubectl rollout undo deployment/web -n default",
            "Source: the controllers themselves, at https://127.0.0.1:",
        ],
    );
    let json = ask(
        &cluster,
        &["deploy/web", "--output", "json"],
        &["\"state\": \"stuck\""],
    );
    let told: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(told["object"], "deployment/web");
    assert_eq!(
        told["help"]["command"],
        "kubectl rollout undo deployment/web -n default"
    );
    assert!(
        told["inTheWay"][0]["object"]
            .as_str()
            .is_some_and(|name| name.starts_with("pod/web-"))
    );

    let limited = cluster.limited_user().display().to_string();
    let output = steersman(&["why", "deploy/web", "--kubeconfig", &limited]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        told.contains("not read    persistentvolumeclaims: you may not list them\n"),
        "{told}"
    );
    assert!(
        told.contains("Source: the objects alone (you may not read /debug/controllers/"),
        "{told}"
    );
    assert!(told.contains("keeps 3 old pods"), "{told}");

    // A manager that does not let one ask is as good as none.
    let server = source(&json);
    let asked = [
        "why",
        "deploy/web",
        "--kubeconfig",
        &limited,
        "--manager",
        &server,
    ];
    let output = steersman(&asked);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let refused = format!(
        "Source: the objects alone (you may not read /debug/controllers/ of the manager at {server},"
    );
    assert!(told.contains(&refused), "{told}");
}

/// The address that an answer came from.
fn source(json: &str) -> String {
    let told: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
    let words = told["source"]
        .as_str()
        .and_then(|words| words.split(' ').next_back());
    words.expect("it says where it comes from").to_owned()
}

#[test]
fn a_service_and_its_ingress_say_who_takes_traffic() {
    const INGRESSES: ResourceType =
        ResourceType::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress");
    let cluster = Cluster::start("why-service");
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    let service = |app: &str| {
        let spec = format!("{{selector: {{app: {app}}}, ports: [{{port: 80}}]}}");
        let yaml =
            format!("{{apiVersion: v1, kind: Service, metadata: {{name: web}}, spec: {spec}}}");
        cluster.apply(&SERVICES, "default", "web", &yaml);
    };
    service("web");
    let ingress = "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}";
    cluster.apply(&INGRESSES, "default", "shop", ingress);
    ask(
        &cluster,
        &["svc/web"],
        &[
            "service/web in default: publishes all 3 pods that it selects",
            "endpointslice-controller.k8s.io publishes 3 ready endpoints in 1 slice",
        ],
    );
    ask(
        &cluster,
        &["ing/shop"],
        &[
            "its Service has endpoints",
            "served by steersman.dev/simulated",
        ],
    );
    let told = ask(
        &cluster,
        &["svc/web", "ing/shop"],
        &["service/web in", "ingress/shop in"],
    );
    assert_eq!(told.matches("Source: ").count(), 2, "{told}");
    let json = ask(
        &cluster,
        &["svc/web", "deploy/none", "-o", "json"],
        &["there is no deployment/none"],
    );
    assert!(json.starts_with("[\n"), "{json}");
    service("wep");
    ask(
        &cluster,
        &["svc/web"],
        &[
            "selects no pods: none has app=wep",
            "and 2 more: has app=web instead of app=wep",
        ],
    );
    ask(
        &cluster,
        &["ing/shop"],
        &[
            "service/web selects no pods",
            "steersman why service/web -n default",
        ],
    );
}

#[test]
fn a_service_does_not_show_the_decisions_about_its_namesake() {
    let cluster = Cluster::start("why-namesake");
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    ask(&cluster, &["deploy/web"], &["is complete", "creates web-"]);
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}";
    cluster.apply(&SERVICES, "default", "web", service);
    let told = ask(
        &cluster,
        &["svc/web"],
        &["publishes no endpoints: the service has no selector"],
    );
    assert!(!told.contains("creates web-"), "{told}");
}

#[test]
fn a_controller_manager_is_asked_on_its_secure_port() {
    let mut cluster = Cluster::start_with("why-manager", &["--controller-manager=external"]);
    let (manager, certificate) = cluster.start_manager();
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    let source = format!("Source: the controllers themselves, at {manager}.");
    ask(
        &cluster,
        &[
            "deploy/web",
            "--manager",
            &manager,
            "--manager-certificate-authority",
            &certificate,
        ],
        &[
            "is complete: all 3 pods are updated and available",
            "creates web-",
            &source,
        ],
    );
    ask(
        &cluster,
        &["deploy/web", "--manager", &manager],
        &[
            "cannot ask the manager at",
            "--manager-certificate-authority names who signed its certificate",
        ],
    );
    ask(
        &cluster,
        &["deploy/web"],
        &["Source: the objects alone (no manager of ours answers there; --manager names one)"],
    );
}

#[test]
fn a_namespace_whose_deletion_is_blocked() {
    let cluster = Cluster::start("why-namespace");
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: old}}";
    cluster.apply(&NAMESPACES, "", "old", namespace);
    let held =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/keep]}}";
    cluster.apply(&CONFIG_MAPS, "old", "held", held);
    ask(&cluster, &["ns/old"], &["is active and not deleted"]);
    cluster.delete(&NAMESPACES, "old");
    ask(
        &cluster,
        &["ns/old"],
        &[
            "deletion is blocked: configmap/held held by finalizer example.com/keep",
            "for 1 object with finalizer example.com/keep",
            "kubectl patch configmap/held -n old --type=merge",
        ],
    );
}

#[test]
fn questions_that_have_no_answer() {
    let check = |arguments: &[&str], expected: &str| {
        let output = steersman(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let told = text(&output.stderr);
        assert!(
            told.starts_with("error: ") && told.contains(expected),
            "{arguments:?}: {told}"
        );
    };
    check(
        &["why", "web"],
        "\"web\" names no object; write KIND/NAME, such as deploy/web",
    );
    check(&["why", "deploy/web"], "no cluster is up");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let nowhere = unreachable(directory.path());
    check(
        &["why", "deploy/web", "--kubeconfig", &nowhere],
        "https://127.0.0.1:1",
    );
    let cluster = Cluster::start("why-nothing");
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let with = |more: &[&'static str]| {
        let mut all = vec![
            "why".to_owned(),
            "--kubeconfig".to_owned(),
            kubeconfig.clone(),
        ];
        all.extend(more.iter().map(|word| (*word).to_owned()));
        all
    };
    for (more, expected) in [
        (
            &["deploy/nope"][..],
            "there is no deployment/nope in namespace default; use -n to choose another namespace",
        ),
        (&["wheels/x"], "has no resource \"wheels\""),
        (
            &["ns/default", "--manager", "https://127.0.0.1:1"],
            "cannot ask the manager at https://127.0.0.1:1: Connection refused; check that it runs and that --manager is right",
        ),
        (&["ns/default", "--context", "nope"], "nope"),
    ] {
        let arguments = with(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        check(&arguments, expected);
    }
    drop(cluster);
    // Its kubeconfig is gone with it.
    check(
        &["why", "ns/default", "--kubeconfig", &kubeconfig],
        "cannot read",
    );
}

/// Ten minutes of the cluster take some seconds of ours: by our own clock nothing could be that old.
#[test]
fn ages_are_counted_by_the_clusters_clock() {
    let cluster = Cluster::start_with("why-speed", &["--speed=1000"]);
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    ask(&cluster, &["deploy/web"], &["m ago", "creates web-"]);
}

#[test]
fn a_schedule_without_a_zone_is_in_that_of_the_machine() {
    const CRON_JOBS: ResourceType = ResourceType::namespaced("batch", "v1", "cronjobs", "CronJob");
    let cluster = Cluster::start_in("why-zone", "Asia/Tokyo");
    let cron_job = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: 30 9 * * *
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'job:1'}]}}}}";
    cluster.apply(&CRON_JOBS, "default", "report", cron_job);
    // Tokyo is nine hours ahead all year.
    ask(&cluster, &["cronjob/report"], &["00:30:00Z"]);
}

/// Autoscalers read metrics of all kinds in the box.
#[test]
fn autoscalers_follow_what_objects_declare() {
    const AUTOSCALERS: ResourceType = ResourceType::namespaced(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    );
    let cluster = Cluster::start_with("why-metrics", &["--speed", "60"]);
    let web = deployment("web:1").replace(
        "metadata: {name: web}",
        "metadata: {name: web, annotations: {load.metrics.steersman.dev/qps: '60'}}",
    );
    cluster.apply(&DEPLOYMENTS, "default", "web", &web);
    let service = "
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {metrics.steersman.dev/hits: '40'}}
spec: {selector: {app: web}, ports: [{port: 80}]}";
    cluster.apply(&SERVICES, "default", "web", service);
    let queue = "
apiVersion: v1
kind: ConfigMap
metadata: {name: orders, labels: {steersman.dev/external-metrics: 'true', queue: orders}}
data: {depth: '50'}";
    cluster.apply(&CONFIG_MAPS, "default", "orders", queue);
    let metrics = [
        "{type: Pods, pods: {metric: {name: qps}, target: {type: AverageValue, averageValue: '10'}}}",
        "{type: Object, object: {metric: {name: hits}, describedObject: {apiVersion: v1, kind: Service, name: web}, target: {type: Value, value: '40'}}}",
        "{type: External, external: {metric: {name: depth, selector: {matchLabels: {queue: orders}}}, target: {type: AverageValue, averageValue: '10'}}}",
    ];
    let autoscaler = format!(
        "
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: web}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
  minReplicas: 1
  maxReplicas: 9
  metrics: [{}]",
        metrics.join(", ")
    );
    cluster.apply(&AUTOSCALERS, "default", "web", &autoscaler);
    // Sixty requests at ten for each pod.
    ask(
        &cluster,
        &["hpa/web"],
        &[
            "keeps deployment/web at 6 replicas",
            "qps of its pods is at 10 for each pod",
            "hits of service/web is at 40",
            "depth is at ",
        ],
    );
}

/// What it has decided does not tell a controller that is left out from one that has not come to it yet.
#[test]
fn a_controller_that_is_left_out_is_said_to_be() {
    const REQUESTS: ResourceType = ResourceType::cluster(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
    );
    let cluster = Cluster::start_with("why-left-out", &["--controllers=*,-csrapproving"]);
    let request = include_str!("../../../controllers/src/certificates/testdata/node-client.csr");
    let encoded = BASE64_STANDARD.encode(request);
    let request = format!(
        "
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: node}}
spec:
  request: {encoded}
  signerName: kubernetes.io/kube-apiserver-client-kubelet
  usages: [client auth, digital signature]"
    );
    cluster.apply(&REQUESTS, "", "node", &request);
    let left_out =
        "certificatesigningrequest-approving-controller was not started; --controllers chooses";
    ask(&cluster, &["csr/node"], &["waits to be approved", left_out]);
}
