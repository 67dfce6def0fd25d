//! What simulated containers print and run.

use bytes::Bytes;
use futures_util::StreamExt;

use super::*;
use crate::stages::Stages;
use crate::{Containers, ExecRequest, LogRequest, Output};

fn containers(world: &World, stages: &str) -> Containers {
    let mut config = Config::with_nodes(1);
    config.stages = Stages::parse(stages, "stages.yaml").unwrap();
    Containers::new(world.client.clone(), world.clock.clone(), &config)
}

fn commanded(name: &str, script: &str, more: Value) -> Value {
    let container = json!({"name": "web", "image": "busybox", "command": ["sh", "-c", script]});
    let mut made = pod(name, json!({"spec": {"containers": [container]}}));
    merge(&mut made, more);
    made
}

async fn log(world: &World, name: &str, change: impl FnOnce(&mut LogRequest)) -> String {
    let mut request = LogRequest {
        pod: world.get(&PODS, name).await.unwrap(),
        container: "web".to_owned(),
        ..LogRequest::default()
    };
    change(&mut request);
    match containers(world, "{}").log(request).await {
        Ok(pieces) => {
            let pieces: Vec<Bytes> = pieces.collect().await;
            String::from_utf8(pieces.concat()).unwrap()
        }
        Err(error) => error,
    }
}

#[tokio::test(start_paused = true)]
async fn logs_follow_from_the_command_and_the_time() {
    let world = world(Config::with_nodes(1)).await;
    let never = json!({"spec": {"restartPolicy": "Never"}});
    world
        .create(
            &PODS,
            commanded("job", "echo one; sleep 4; echo two", never),
        )
        .await;
    pass(&world, 2).await;
    assert_eq!(log(&world, "job", |_| {}).await, "one\n");
    // It ends with the container.
    assert_eq!(
        log(&world, "job", |it| it.follow = true).await,
        "one\ntwo\n"
    );
    assert_eq!(
        log(&world, "job", |it| it.tail_lines = Some(1)).await,
        "two\n"
    );
    assert_eq!(
        log(&world, "job", |it| it.limit_bytes = Some(5)).await,
        "one\nt"
    );
    let stamped = log(&world, "job", |it| it.timestamps = true).await;
    let first = stamped.lines().next().unwrap();
    assert!(first.ends_with(".000000000Z one"), "{first}");
    let now = world.clock.now();
    let since = now.minus(Duration::from_secs(3));
    assert_eq!(
        log(&world, "job", |it| it.since = Some(since)).await,
        "two\n"
    );
    assert_eq!(
        log(&world, "job", |it| it.previous = true).await,
        "previous terminated container \"web\" in pod \"job\" not found"
    );
}

#[tokio::test(start_paused = true)]
async fn the_run_before_has_a_log_too() {
    let world = world(Config::with_nodes(1)).await;
    world
        .create(
            &PODS,
            commanded("web", "echo $HOSTNAME >&2; exit 1", json!({})),
        )
        .await;
    pass(&world, 3).await;
    assert_eq!(log(&world, "web", |it| it.previous = true).await, "web\n");
    let image = json!({"spec": {"containers": [{"name": "web", "image": "x:missing"}]}});
    world.create(&PODS, pod("waits", image)).await;
    pass(&world, 1).await;
    assert_eq!(
        log(&world, "waits", |_| {}).await,
        "container \"web\" in pod \"waits\" is waiting to start: image can't be pulled"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_run_says_so_and_stages_give_text() {
    let world = world(Config::with_nodes(1)).await;
    world.create(&PODS, pod("web", json!({}))).await;
    pass(&world, 2).await;
    let stages =
        "stages: [{name: banner, selector: {images: [nginx]}, next: Log, text: listening on 80}]";
    let request = LogRequest {
        pod: world.get(&PODS, "web").await.unwrap(),
        container: "web".to_owned(),
        ..LogRequest::default()
    };
    let pieces = containers(&world, stages).log(request).await.unwrap();
    let pieces: Vec<Bytes> = pieces.collect().await;
    assert_eq!(
        String::from_utf8(pieces.concat()).unwrap(),
        "simulated container web of image nginx: started; no process runs here, so it prints nothing of its own\nlistening on 80\n"
    );
}

#[tokio::test(start_paused = true)]
async fn exec_runs_what_it_knows() {
    let world = world(Config::with_nodes(1)).await;
    let maps = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"key": "value"}});
    world.create(&maps, map).await;
    let container = json!({
        "name": "web", "image": "nginx",
        "env": [
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "key"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "BOTH", "value": "$(KEY) $$(KEY) $(NONE)"},
        ],
        "volumeMounts": [{"name": "app", "mountPath": "/etc/app"}, {"name": "pod", "mountPath": "/etc/pod"}],
    });
    let about = json!([
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "web", "resource": "limits.cpu"}}]);
    let volumes = json!([
        {"name": "app", "configMap": {"name": "app", "items": [{"key": "key", "path": "deep/file"}]}},
        {"name": "pod", "downwardAPI": {"items": about}}]);
    let spec = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "volumes": volumes}});
    let services = ResourceType::namespaced("", "v1", "services", "Service");
    let service = |name: &str, address: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"clusterIP": address, "ports": [{"port": 80}]}})
    };
    world.create(&services, service("api", "10.0.0.9")).await;
    world.create(&PODS, pod("web", spec)).await;
    pass(&world, 2).await;
    world.create(&services, service("late", "10.0.0.8")).await;
    let run = async |script: &str| {
        let request = ExecRequest {
            pod: world.get(&PODS, "web").await.unwrap(),
            container: "web".to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        };
        let outputs = containers(&world, "{}").exec(request).await.unwrap();
        let outputs: Vec<Output> = outputs.collect().await;
        let shown = outputs.iter().map(|output| match output {
            Output::Stdout(text) => String::from_utf8_lossy(text).into_owned(),
            Output::Stderr(text) => format!("! {}", String::from_utf8_lossy(text)),
            Output::Exit(code) => format!("exit {code}"),
        });
        shown.collect::<String>()
    };
    assert_eq!(run("cat /etc/app/deep/file; echo").await, "value\nexit 0");
    assert_eq!(
        run("echo $KEY $NODE; sleep 30; echo $BOTH; false").await,
        "value node-0\nvalue $(KEY) $(NONE)\nexit 1"
    );
    assert_eq!(
        run("echo $API_SERVICE_HOST:$API_SERVICE_PORT $API_PORT_80_TCP_PROTO $LATE_PORT").await,
        "10.0.0.9:80 tcp \nexit 0"
    );
    assert_eq!(
        run("cat /etc/pod/labels /etc/pod/cpu").await,
        "app=\"web\"32exit 0"
    );
    let unknown = run("curl localhost").await;
    assert!(
        unknown.starts_with("! curl localhost: not among") && unknown.ends_with("exit 127"),
        "{unknown}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_runs_once_and_has_a_status() {
    let world = world(Config::with_nodes(1)).await;
    world.create(&PODS, pod("web", json!({}))).await;
    pass(&world, 2).await;
    let added = json!({"spec": {"ephemeralContainers": [
        {"name": "debug", "image": "busybox", "command": ["sleep", "5"], "targetContainerName": "web"}]}});
    let patch = client::Patch::Strategic(Bytes::from(added.to_string()));
    let part = Some("ephemeralcontainers");
    let answer = world
        .user
        .patch(&PODS, "default", "web", part, &patch)
        .await;
    answer.unwrap();
    pass(&world, 2).await;
    let status = |pod: &Value| pod["status"]["ephemeralContainerStatuses"][0]["state"].clone();
    let runs = world.get(&PODS, "web").await.unwrap();
    assert!(status(&runs)["running"].is_object(), "{}", status(&runs));
    pass(&world, 9).await;
    let ended = world.get(&PODS, "web").await.unwrap();
    assert_eq!(status(&ended)["terminated"]["exitCode"], 0);
    assert_eq!(ended["status"]["phase"], "Running");
    assert_eq!(condition(&ended, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn usage_is_declared_of_all_nodes_of_one_and_by_stages() {
    let world = World::new().await;
    let nodes = "
usage:
- {cpu: 100m, memory: 1Gi}
nodes:
- {name: web}
- name: big
  usage:
  - {selector: {images: ['postgres:*']}, container: db, memory: 8Gi, cpu: 2}
  - {metrics: {connections: 40}}
";
    let mut config = Config::parse(nodes, "nodes.yaml").unwrap();
    config.stages = Stages::parse(
        "stages: [{name: noon, selector: {namespaces: [shop]}, next: Use, cpu: 3}]
externalMetrics:
- {name: depth, namespace: shop, labels: {queue: orders}, value: 12}
- {name: depth, value: 5, since: 2020-01-01T00:00:00Z}",
        "stages.yaml",
    )
    .unwrap();
    let containers = Containers::new(world.client.clone(), world.clock.clone(), &config);
    let said = |node: &str, namespace: &str, image: &str| {
        let pod = json!({"metadata": {"name": "p", "namespace": namespace},
            "spec": {"nodeName": node, "containers": [{"name": "db", "image": image}]}});
        let words = containers.usage(&pod).into_iter().map(|one| {
            let amount = one.curve.at(Duration::ZERO);
            match one.metric {
                api::usage::Metric::Resource(name) => format!("{name} {amount}"),
                api::usage::Metric::Custom(name) => format!("metric {name} {amount}"),
            }
        });
        words.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        said("web-0", "default", "postgres:16"),
        "cpu 100m, memory 1Gi"
    );
    assert_eq!(
        said("big-0", "default", "postgres:16"),
        "cpu 100m, memory 1Gi, cpu 2, memory 8Gi, metric connections 40"
    );
    assert_eq!(
        said("big-0", "shop", "nginx"),
        "cpu 100m, memory 1Gi, metric connections 40, cpu 3"
    );
    let external = containers.external_metrics();
    let since: Vec<String> = external.iter().map(|one| one.since.to_string()).collect();
    assert_eq!(since[0], world.clock.now().time().to_string());
    assert_eq!(since[1], "2020-01-01T00:00:00Z");
    let nothing = Containers::new(
        world.client.clone(),
        world.clock.clone(),
        &Config::with_nodes(1),
    );
    assert!(
        nothing
            .usage(&json!({"spec": {"nodeName": "node-0"}}))
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_curve_in_an_annotation_is_nothing_that_a_kubelet_complains_of() {
    use api::Resource;
    let problems = |value: &str| {
        let pod =
            json!({"metadata": {"name": "p", "annotations": {"steersman.dev/cpu-use": value}}});
        let pod = crate::pod::Pod::decode(pod.to_string().as_bytes()).unwrap();
        crate::behaviour::Behaviour::of(&pod, &Stages::default()).1
    };
    assert_eq!(problems("every 30m: 0s=1,15m=8"), [""; 0]);
    assert_eq!(
        problems("lots"),
        [
            "annotation steersman.dev/cpu-use: \"lots\" is not an amount such as 250m or 64Mi, or a curve such as 0s=100m,5m=2"
        ]
    );
}
