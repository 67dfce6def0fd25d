//! What containers leave as their termination messages.

use super::*;

/// What is said of the end of a container that runs a script.
async fn end(world: &World, name: &str, script: &str, more: Value) -> Value {
    let mut container = json!({"name": "web", "image": "busybox", "command": ["sh", "-c", script]});
    merge(&mut container, more);
    let spec = json!({"restartPolicy": "Never", "containers": [container]});
    world.create(&PODS, pod(name, json!({"spec": spec}))).await;
    pass(world, 3).await;
    let found = world.get(&PODS, name).await.unwrap();
    let end = &found["status"]["containerStatuses"][0]["state"]["terminated"];
    assert!(end.is_object(), "{}", found["status"]);
    end["message"].clone()
}

fn falls_back() -> Value {
    json!({"terminationMessagePolicy": "FallbackToLogsOnError"})
}

#[tokio::test(start_paused = true)]
async fn a_file_is_the_message() {
    let world = world(Config::with_nodes(1)).await;
    let usual = end(
        &world,
        "usual",
        "/bin/echo -n DONE > /dev/termination-log",
        json!({}),
    )
    .await;
    assert_eq!(usual, "DONE");
    let path = json!({"terminationMessagePath": "/dev/termination-custom-log"});
    let script =
        "echo one > /dev/termination-custom-log; echo $HOSTNAME >> /dev/termination-custom-log";
    assert_eq!(end(&world, "custom", script, path).await, "one\ncustom\n");
    // The log is not asked for while the file has anything.
    let script = "echo log; echo -n file > /dev/termination-log; false";
    assert_eq!(end(&world, "both", script, falls_back()).await, "file");
    let elsewhere = end(&world, "none", "echo x > /tmp/file; exit 1", json!({})).await;
    assert_eq!(elsewhere, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_log_is_the_message_of_a_failure() {
    let world = world(Config::with_nodes(1)).await;
    let failed = end(
        &world,
        "failed",
        "/bin/echo -n DONE; /bin/false",
        falls_back(),
    )
    .await;
    assert_eq!(failed, "DONE");
    let well = end(&world, "well", "echo DONE; true", falls_back()).await;
    assert_eq!(well, Value::Null);
    let unasked = end(&world, "unasked", "echo DONE; false", json!({})).await;
    assert_eq!(unasked, Value::Null);
    let lines = (0..100).map(|line| format!("echo {line}; "));
    let many = end(
        &world,
        "many",
        &format!("{}false", lines.collect::<String>()),
        falls_back(),
    )
    .await;
    let many: Vec<&str> = many.as_str().unwrap().lines().collect();
    assert_eq!((many.len(), many[0], many[79]), (80, "20", "99"));
    let long = format!("echo {}; false", "x".repeat(3000));
    let long = end(&world, "long", &long, falls_back()).await;
    assert_eq!(long.as_str().unwrap().len(), 2048);
}

#[tokio::test(start_paused = true)]
async fn containers_share_what_a_pod_may_say() {
    let world = world(Config::with_nodes(1)).await;
    let text = "y".repeat(5000);
    let script = format!("echo {text} > /dev/termination-log");
    assert_eq!(
        end(&world, "one", &script, json!({}))
            .await
            .as_str()
            .unwrap()
            .len(),
        4096
    );
    let container = |index: usize| json!({"name": format!("c{index}"), "image": "busybox", "command": ["sh", "-c", script]});
    let containers: Vec<Value> = (0..6).map(container).collect();
    let spec = json!({"restartPolicy": "Never", "containers": containers});
    world.create(&PODS, pod("six", json!({"spec": spec}))).await;
    pass(&world, 3).await;
    let six = world.get(&PODS, "six").await.unwrap();
    let message = &six["status"]["containerStatuses"][5]["state"]["terminated"]["message"];
    assert_eq!(message.as_str().unwrap().len(), 2048);
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_with_its_run() {
    let world = world(Config::with_nodes(1)).await;
    let maps = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");
    let map = |why: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"why": why}});
    world.create(&maps, map("first")).await;
    let container = json!({
        "name": "web", "image": "busybox",
        "command": ["sh", "-c", "sleep 5; echo -n $WHY > /dev/termination-log; exit 1"],
        "env": [{"name": "WHY", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "why"}}}],
    });
    let spec = json!({"spec": {"containers": [container]}});
    world.create(&PODS, pod("web", spec)).await;
    let last = async |seconds: u64| {
        pass(&world, seconds).await;
        let found = world.get(&PODS, "web").await.unwrap();
        let status = &found["status"]["containerStatuses"][0];
        (
            status["restartCount"].clone(),
            status["lastState"]["terminated"]["message"].clone(),
        )
    };
    assert_eq!(last(8).await, (json!(1), json!("first")));
    let patch = client::Patch::Merge(bytes::Bytes::from(map("second").to_string()));
    world
        .user
        .patch(&maps, "default", "app", None, &patch)
        .await
        .unwrap();
    assert_eq!(last(1).await, (json!(1), json!("first")));
    assert_eq!(last(4).await, (json!(1), json!("second")));
}

#[tokio::test(start_paused = true)]
async fn exec_reads_what_the_container_wrote_and_keeps_nothing() {
    use crate::{Containers, ExecRequest, Output};
    use futures_util::StreamExt;

    let config = Config::with_nodes(1);
    let world = world(config.clone()).await;
    let command = ["sh", "-c", "echo -n up > /tmp/state; sleep infinity"];
    let container = json!({"name": "web", "image": "busybox", "command": command});
    let spec = json!({"spec": {"containers": [container]}});
    world.create(&PODS, pod("web", spec)).await;
    pass(&world, 2).await;
    let containers = Containers::new(world.client.clone(), world.clock.clone(), &config);
    let run = async |script: &str| {
        let request = ExecRequest {
            pod: world.get(&PODS, "web").await.unwrap(),
            container: "web".to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        };
        let outputs: Vec<Output> = containers.exec(request).await.unwrap().collect().await;
        outputs
    };
    let up = Output::Stdout(bytes::Bytes::from("up"));
    assert_eq!(run("cat /tmp/state").await, [up, Output::Exit(0)]);
    let refused = run("echo down > /tmp/state").await;
    assert_eq!(refused[1], Output::Exit(127));
    let said = format!("{:?}", refused[0]);
    assert!(said.contains("would not be kept"), "{said}");
}
