//! Pods that need ConfigMaps and Secrets, and pods that a kubelet refuses.

use super::*;

const MAPS: ResourceType = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");
const SECRETS: ResourceType = ResourceType::namespaced("", "v1", "secrets", "Secret");

fn waiting(pod: &Value) -> (String, String) {
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    let text = |field: &str| waiting[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

async fn warnings(world: &World) -> Vec<String> {
    let mut events = world.events().await;
    events.retain(|event| event.starts_with("Warning"));
    events
}

fn map(kind: &str, name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": data})
}

#[tokio::test(start_paused = true)]
async fn a_missing_config_map_in_the_environment_is_waited_for() {
    let world = world(Config::with_nodes(1)).await;
    let env = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "a"}}}]);
    let container = json!({"name": "web", "image": "nginx", "env": env});
    let spec = json!({"spec": {"containers": [container]}});
    world.create(&PODS, pod("web", spec)).await;
    pass(&world, 2).await;
    let held = world.get(&PODS, "web").await.unwrap();
    let expected = (
        "CreateContainerConfigError".to_owned(),
        "configmap \"app\" not found".to_owned(),
    );
    assert_eq!(waiting(&held), expected);
    assert_eq!(
        warnings(&world).await,
        ["Warning Failed Error: configmap \"app\" not found"]
    );

    world
        .create(&MAPS, map("ConfigMap", "app", json!({"b": "1"})))
        .await;
    pass(&world, 1).await;
    let held = world.get(&PODS, "web").await.unwrap();
    assert_eq!(
        waiting(&held).1,
        "couldn't find key a in ConfigMap default/app"
    );
    world.patch(&MAPS, "app", json!({"data": {"a": "2"}})).await;
    pass(&world, 1).await;
    let runs = world.get(&PODS, "web").await.unwrap();
    assert_eq!(condition(&runs, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_missing_volume_source_keeps_the_pod_creating() {
    let world = world(Config::with_nodes(1)).await;
    let volumes = json!([
        {"name": "one", "secret": {"secretName": "db"}},
        {"name": "two", "projected": {"sources": [
            {"configMap": {"name": "gone", "optional": true}},
            {"secret": {"name": "db", "items": [{"key": "user", "path": "u"}]}},
            {"configMap": {"name": "app"}},
        ]}},
    ]);
    world
        .create(&PODS, pod("web", json!({"spec": {"volumes": volumes}})))
        .await;
    pass(&world, 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let held = world.get(&PODS, "web").await.unwrap();
    assert_eq!(waiting(&held).0, "ContainerCreating");
    assert_eq!(
        warnings(&world).await,
        [
            "Warning FailedMount MountVolume.SetUp failed for volume \"one\" : secret \"db\" not found",
            "Warning FailedMount MountVolume.SetUp failed for volume \"two\" : [secret \"db\" not found, configmap \"app\" not found]",
        ]
    );
    world
        .create(&SECRETS, map("Secret", "db", json!({"pass": "eA=="})))
        .await;
    world
        .create(&MAPS, map("ConfigMap", "app", json!({})))
        .await;
    pass(&world, 10).await;
    assert!(
        warnings(&world).await.contains(
            &"Warning FailedMount MountVolume.SetUp failed for volume \"two\" : references non-existent secret key: user"
                .to_owned()
        )
    );
    world
        .patch(&SECRETS, "db", json!({"data": {"user": "eA=="}}))
        .await;
    pass(&world, 1).await;
    let runs = world.get(&PODS, "web").await.unwrap();
    assert_eq!(runs["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn what_is_optional_is_not_waited_for() {
    let world = world(Config::with_nodes(1)).await;
    let container = json!({
        "name": "web", "image": "nginx",
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a", "optional": true}}}],
        "envFrom": [{"configMapRef": {"name": "m", "optional": true}}],
    });
    let volume = json!({"name": "v", "configMap": {"name": "m", "optional": true}});
    let spec = json!({"spec": {"containers": [container], "volumes": [volume]}});
    world.create(&PODS, pod("web", spec)).await;
    pass(&world, 1).await;
    let runs = world.get(&PODS, "web").await.unwrap();
    assert_eq!(runs["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_must_not_run_as_root_is_not_created() {
    let world = world(Config::with_nodes(1)).await;
    let secured = json!({"spec": {"securityContext": {"runAsNonRoot": true}}});
    world.create(&PODS, pod("root", secured.clone())).await;
    let mut told = secured;
    merge(
        &mut told,
        json!({"metadata": {"annotations": {"steersman.dev/image-user": "101"}}}),
    );
    world.create(&PODS, pod("user", told)).await;
    pass(&world, 2).await;
    let held = world.get(&PODS, "root").await.unwrap();
    let (reason, message) = waiting(&held);
    assert_eq!(reason, "CreateContainerConfigError");
    let uid = held["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        message,
        format!(
            "container has runAsNonRoot and image will run as root (pod: \"root_default({uid})\", container: web)"
        )
    );
    let runs = world.get(&PODS, "user").await.unwrap();
    assert_eq!(runs["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_node_refuses_what_it_has_no_room_for() {
    let world = world(Config::with_nodes(1)).await;
    let container =
        json!({"name": "web", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}]});
    let port = json!({"spec": {"nodeName": "node-0", "containers": [container]}});
    world.create(&PODS, pod("first", port.clone())).await;
    pass(&world, 1).await;
    world.create(&PODS, pod("second", port)).await;
    let container =
        json!({"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "64"}}});
    let huge = json!({"spec": {"nodeName": "node-0", "containers": [container]}});
    world.create(&PODS, pod("huge", huge)).await;
    pass(&world, 1).await;
    let refused = |pod: Value| {
        let status = &pod["status"];
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        [text("phase"), text("reason"), text("message")].join(" | ")
    };
    assert_eq!(
        refused(world.get(&PODS, "second").await.unwrap()),
        "Failed | NodePorts | Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    );
    assert_eq!(
        refused(world.get(&PODS, "huge").await.unwrap()),
        "Failed | OutOfcpu | Pod was rejected: Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 32000"
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_pods_that_come_together_one_gets_the_port() {
    let world = world(Config::with_nodes(1)).await;
    let container =
        json!({"name": "web", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}]});
    let port = json!({"spec": {"nodeName": "node-0", "containers": [container]}});
    for name in ["first", "second"] {
        world.create(&PODS, pod(name, port.clone())).await;
    }
    pass(&world, 1).await;
    let mut phases = Vec::new();
    for name in ["first", "second"] {
        let pod = world.get(&PODS, name).await.unwrap();
        phases.push(pod["status"]["phase"].as_str().unwrap().to_owned());
    }
    phases.sort();
    assert_eq!(phases, ["Failed", "Running"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_is_resized_in_place_or_waits_for_room() {
    let world = world(Config::with_nodes(1)).await;
    let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let container = |cpu: &str| json!({"name": "web", "image": "nginx", "resources": asks(cpu)});
    let spec = |cpu: &str| json!({"spec": {"containers": [container(cpu)]}});
    world.create(&PODS, pod("web", spec("1"))).await;
    pass(&world, 2).await;
    let resize = async |cpu: &str| {
        let patch = client::Patch::Strategic(bytes::Bytes::from(spec(cpu).to_string()));
        let part = Some("resize");
        let answer = world
            .user
            .patch(&PODS, "default", "web", part, &patch)
            .await;
        answer.unwrap();
        pass(&world, 2).await;
        world.get(&PODS, "web").await.unwrap()
    };
    let held = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        (
            status["resources"]["requests"]["cpu"].clone(),
            status["allocatedResources"]["cpu"].clone(),
            status["restartCount"].clone(),
        )
    };
    let before = world.get(&PODS, "web").await.unwrap();
    assert_eq!(held(&before), (json!("1"), json!("1"), json!(0)));
    let grown = resize("2").await;
    assert_eq!(held(&grown), (json!("2"), json!("2"), json!(0)));
    assert_eq!(condition(&grown, "PodResizeInProgress"), &Value::Null);
    let events = world.events().await;
    let told = |words: &str| events.iter().any(|event| event.starts_with(words));
    assert!(
        told("Normal ResizeStarted Pod resize started: {\"containers\":"),
        "{events:?}"
    );
    assert!(
        told("Normal ResizeCompleted Pod resize completed"),
        "{events:?}"
    );

    let waits = resize("64").await;
    assert_eq!(held(&waits), (json!("2"), json!("2"), json!(0)));
    let pending = condition(&waits, "PodResizePending");
    assert_eq!(pending["reason"], "Deferred");
    assert_eq!(
        pending["message"],
        "Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 32000"
    );
    let back = resize("2").await;
    assert_eq!(condition(&back, "PodResizePending"), &Value::Null);
    assert_eq!(condition(&back, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_volume_is_named_by_variables() {
    use crate::{Containers, ExecRequest, Output};
    use futures_util::StreamExt;

    let config = Config::with_nodes(1);
    let world = world(config.clone()).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"},
        "data": {"web": "for web", "key": "web", "empty": "", "up": ".."}});
    world.create(&MAPS, map).await;
    let made = |name: &str, expression: &str| {
        let variable = |name: &str, key: &str| json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "app", "key": key}}});
        let items = json!([{"key": "web", "path": "files/web/a"}]);
        let container = json!({
            "name": "web", "image": "nginx", "env": [variable("WHO", "key"), variable("NOTHING", "empty"), variable("UP", "up")],
            "volumeMounts": [{"name": "app", "mountPath": "/etc/app", "subPathExpr": expression}],
        });
        let volumes = json!([{"name": "app", "configMap": {"name": "app", "items": items}}]);
        pod(
            name,
            json!({"spec": {"containers": [container], "volumes": volumes}}),
        )
    };
    world.create(&PODS, made("web", "files/$(WHO)")).await;
    for (name, expression) in [
        ("unknown", "$(HOSTNAME)"),
        ("empty", "$(NOTHING)"),
        ("up", "$(UP)/x"),
    ] {
        world.create(&PODS, made(name, expression)).await;
    }
    pass(&world, 2).await;
    let state = async |name: &str| {
        let found = world.get(&PODS, name).await.unwrap();
        found["status"]["containerStatuses"][0]["state"].clone()
    };
    let waits = |message: &str| json!({"waiting": {"reason": "CreateContainerConfigError", "message": message}});
    assert_eq!(state("unknown").await, waits("missing value for HOSTNAME"));
    assert_eq!(state("empty").await, waits("missing value for NOTHING"));
    let up = "unable to provision SubPath `../x`: must not contain '..'";
    assert_eq!(state("up").await, waits(up));
    assert!(state("web").await["running"].is_object());
    let request = ExecRequest {
        pod: world.get(&PODS, "web").await.unwrap(),
        container: "web".to_owned(),
        command: ["cat", "/etc/app/a"].map(str::to_owned).to_vec(),
    };
    let containers = Containers::new(world.client.clone(), world.clock.clone(), &config);
    let outputs: Vec<Output> = containers.exec(request).await.unwrap().collect().await;
    assert_eq!(outputs[0], Output::Stdout(bytes::Bytes::from("for web")));
    // It goes on when the variable has a value.
    let more = json!({"data": {"empty": "files"}});
    let patch = client::Patch::Merge(bytes::Bytes::from(more.to_string()));
    world
        .user
        .patch(&MAPS, "default", "app", None, &patch)
        .await
        .unwrap();
    pass(&world, 11).await;
    assert!(state("empty").await["running"].is_object());
}
