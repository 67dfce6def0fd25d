use api::kinds::{Deployment, DeploymentSpec, Namespace};
use api::{Key, Meta, Resource, ResourceType};
use expect_test::expect;
use runtime::Next;
use serde_json::{Value, json};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// No more than `hard` of a resource in the namespace.
async fn limit(world: &World, resource: &str, hard: i32) {
    let quotas = ResourceType::namespaced("", "v1", "resourcequotas", "ResourceQuota");
    let hard = json!({resource: hard.to_string()});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight"},
        "spec": {"hard": hard},
    });
    world.create(&quotas, quota).await;
    let status = json!({"status": {"hard": hard, "used": {resource: "0"}}});
    world
        .patch_subresource(&quotas, "tight", Some("status"), status)
        .await;
    world.wait_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_may_not_be_made_is_reported() {
    let world = world().await;
    limit(&world, "count/replicasets.apps", 0).await;
    world.create(&Deployment::TYPE, deployment(1)).await;
    world.wait_until_idle().await;
    let hashless = |text: String| {
        // The set was never made, so its name is only in the messages.
        let Some(at) = text.find("web-") else {
            return text;
        };
        let name: String = text[at..]
            .chars()
            .take_while(|one| one.is_ascii_alphanumeric() || *one == '-')
            .collect();
        text.replace(&name, "web-v1")
    };
    expect![[r#"Progressing False ReplicaSetCreateError Failed to create new replica set "web-v1": replicasets.apps "web-v1" is forbidden: exceeded quota: tight, requested: count/replicasets.apps=1, used: count/replicasets.apps=0, limited: count/replicasets.apps=0"#]].assert_eq(&hashless(conditions(&world).await));
    let events = events(&world).await;
    expect![[r#"00:05 Warning ReplicaSetCreateError Failed to create new replica set "web-v1": replicasets.apps "web-v1" is forbidden: exceeded quota: tight, requested: count/replicasets.apps=1, used: count/replicasets.apps=0, limited: count/replicasets.apps=0"#]].assert_eq(&hashless(events.lines().next().unwrap_or_default().to_string()));
}

#[tokio::test(start_paused = true)]
async fn refused_pods_are_reported() {
    let world = world().await;
    limit(&world, "pods", 1).await;
    world.create(&Deployment::TYPE, deployment(3)).await;
    world.wait_until_idle().await;
    let deployment = web(&world).await;
    let conditions = deployment["status"]["conditions"].as_array().unwrap();
    let failure = conditions
        .iter()
        .find(|one| one["type"] == "ReplicaFailure")
        .unwrap();
    assert_eq!(failure["status"], "True");
    assert_eq!(failure["reason"], "FailedCreate");
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("exceeded quota: tight"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_away_is_given_up_on() {
    let mut world = world().await;
    let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}});
    world.create(&Namespace::TYPE, name).await;
    let mut object = deployment(1);
    object["spec"]["paused"] = json!(true);
    let body = object.to_string();
    world
        .user
        .create(&Deployment::TYPE, "doomed", body)
        .await
        .unwrap();
    world.delete(&Namespace::TYPE, "doomed").await;
    world.wait_until_idle().await;
    world.writes();
    let unpause = client::Patch::Merge(r#"{"spec":{"paused":false}}"#.into());
    let user = world.user.clone();
    user.patch(&Deployment::TYPE, "doomed", "web", None, &unpause)
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    assert_eq!(world.written(), "POST replicasets -> 403");
    world.shut_down();
}

/// The controller alone, with a cache that the test fills.
fn alone(world: &World) -> runtime::controller::Controller {
    let context = world.context();
    controller(&context, 1)
}

// Upstream: TestDontSyncDeploymentsWithEmptyPodSelector.
#[tokio::test(start_paused = true)]
async fn an_empty_selector_selects_nothing() {
    // No API server lets one in, so it goes straight into the cache.
    let world = World::new().await;
    let controller = alone(&world);
    let everything = Deployment {
        metadata: Meta {
            name: "web".into(),
            namespace: "default".into(),
            ..Meta::default()
        },
        spec: DeploymentSpec::default(),
        ..Deployment::default()
    };
    world.informers.store::<Deployment>().put(everything.into());
    let key = Key::new("default", "web");
    let next = controller.reconcile(&key).await.unwrap();
    assert_eq!(next, Next::AwaitChange);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    assert_eq!(
        world.events().await,
        [
            "Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required."
        ]
    );
}

// Upstream: TestSyncDeploymentDeletionRace.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_gone_adopts_nothing() {
    let world = World::new().await;
    let controller = alone(&world);
    let mut object = deployment(1);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = world.create(&Deployment::TYPE, object).await;
    let mut orphan = made.clone();
    orphan["kind"] = json!("ReplicaSet");
    orphan["metadata"] = json!({"name": "stray", "labels": {"app": "web"}});
    let spec = &made["spec"];
    orphan["spec"] =
        json!({"replicas": 1, "selector": spec["selector"], "template": spec["template"]});
    orphan["status"] = Value::Null;
    let orphan = world.create(&ReplicaSet::TYPE, orphan).await;
    world.delete(&Deployment::TYPE, "web").await;

    // The cache has not heard of the deletion.
    let deployments = world.informers.store::<Deployment>();
    deployments.put(
        Deployment::decode(made.to_string().as_bytes())
            .unwrap()
            .into(),
    );
    let sets = world.informers.store::<ReplicaSet>();
    sets.put(
        ReplicaSet::decode(orphan.to_string().as_bytes())
            .unwrap()
            .into(),
    );
    let key = Key::new("default", "web");
    let error = controller.reconcile(&key).await.unwrap_err();
    assert!(
        error.to_string().contains("has just been deleted"),
        "{error}"
    );
    assert_eq!(world.written(), "");
}

/// The next sync finds the set by its name, and adopts it.
#[tokio::test(start_paused = true)]
async fn a_name_that_its_own_set_has_taken_is_no_collision() {
    let world = World::new().await;
    let manager = || controller(&world.context(), 1);
    let (before, after) = (manager(), manager());
    world.create(&Deployment::TYPE, deployment(2)).await;
    let mut lagging = testkit::Lagging {
        controller: before,
        world,
    };
    lagging.see::<Deployment>("web").await;
    lagging.reconcile("web").await.unwrap();
    lagging.controller = after;
    lagging.reconcile("web").await.unwrap_err();
    let made = lagging.world.list(&ReplicaSet::TYPE).await;
    let name = made[0]["metadata"]["name"].as_str().unwrap();
    lagging.see::<ReplicaSet>(name).await;
    lagging.see::<Deployment>("web").await;
    lagging.world.written();
    lagging.reconcile("web").await.unwrap();
    let written = lagging.world.written();
    assert!(!written.contains("POST"), "{written}");
    assert_eq!(lagging.world.list(&ReplicaSet::TYPE).await.len(), 1);
    let deployment = web(&lagging.world).await;
    assert_eq!(deployment["status"]["collisionCount"], Value::Null);
}

/// Three minutes of refusals; then it waits for a change, as upstream.
#[tokio::test(start_paused = true)]
async fn after_fifteen_failures_it_is_left_alone_until_it_changes() {
    let world = world().await;
    world.refuse("POST", "/replicasets", 500, 100);
    world.create(&Deployment::TYPE, deployment(1)).await;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    let attempts = || {
        let writes = world.writes();
        let made = |write: &&testkit::Write| write.method == "POST";
        writes.iter().filter(made).count()
    };
    assert_eq!(attempts(), 16, "once, and fifteen times again");
    edit(&world, json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    world.wait_until_idle().await;
    assert!(attempts() > 0, "it has changed");
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_creation_was_never_answered_is_waited_for() {
    let world = World::new().await;
    let manager = || controller(&world.context(), 1);
    let (before, after) = (manager(), manager());
    let lagging = testkit::Lagging {
        controller: before,
        world,
    };
    lagging.world.create(&Deployment::TYPE, deployment(2)).await;
    lagging.see::<Deployment>("web").await;
    lagging.reconcile("web").await.unwrap();
    // The next leader knows nothing of that set, and neither does the cache.
    let lagging = testkit::Lagging {
        controller: after,
        world: lagging.world,
    };
    lagging.world.written();
    lagging.reconcile("web").await.unwrap_err();
    let written = lagging.world.written();
    assert!(written.contains("POST replicasets -> 409"), "{written}");
    edit(&lagging.world, image("2")).await;
    lagging.see::<Deployment>("web").await;
    lagging.world.written();
    let error = lagging.reconcile("web").await.unwrap_err();
    assert!(matches!(error, runtime::Error::Stale { .. }), "{error}");
    assert_eq!(lagging.world.written(), "");
}

/// Something between the controller and the store changes the template of each set, as a webhook would: no set ever
/// matches its deployment.
fn meddling(world: &World, sets: Arc<AtomicUsize>) -> client::Client {
    let server = world.server.transport();
    let meddle = tower::service_fn(move |mut request: http::Request<bytes::Bytes>| {
        let is_set = request.uri().path().ends_with("/replicasets");
        if request.method() == http::Method::POST && is_set {
            sets.fetch_add(1, Ordering::Relaxed);
            let mut set: Value = serde_json::from_slice(request.body()).unwrap();
            set["spec"]["template"]["metadata"]["annotations"] = json!({"injected": "yes"});
            *request.body_mut() = set.to_string().into();
        }
        tower::ServiceExt::oneshot(server.clone(), request)
    });
    client::Client::new(client::Transport::new(meddle))
}

#[tokio::test(start_paused = true)]
async fn a_deployment_whose_sets_never_match_does_not_spin() {
    let mut world = World::new().await;
    let created = Arc::new(AtomicUsize::new(0));
    let context = runtime::Context {
        client: meddling(&world, created.clone()),
        ..world.context()
    };
    let deployments = controller(&context, 5);
    world.run(deployments.run(world.stop()));
    world.start().await;
    let mut flapping = deployment(0);
    flapping["spec"]["revisionHistoryLimit"] = json!(0);
    world.create(&Deployment::TYPE, flapping).await;
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    let sets = created.load(Ordering::Relaxed);
    // It was more than a thousand in each second.
    assert!((40..400).contains(&sets), "{sets} sets in five minutes");
    let events = world.events().await.join("\n");
    assert!(events.contains("ReconcileUndoesItself"), "{events}");
    let why = context
        .decisions
        .get("test-controller", &Key::new("default", "web"));
    let failures: Vec<_> = why
        .iter()
        .filter_map(|decision| decision.failure.clone())
        .collect();
    assert!(
        failures
            .iter()
            .any(|text| text.starts_with("undoes its own writes")),
        "{failures:?}"
    );
}

/// A user who changes the size is obeyed each time, however fast the changes come: the controllers then write what they wrote
/// before, and delete what they created, because they were told to.
#[tokio::test(start_paused = true)]
async fn who_scales_up_and_down_is_obeyed_at_once() {
    let world = world().await;
    world.create(&Deployment::TYPE, deployment(3)).await;
    roll_out(&world).await;
    for change in 0..40 {
        let replicas = if change % 2 == 0 { 9 } else { 3 };
        edit(&world, json!({"spec": {"replicas": replicas}})).await;
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        world.finish_deletions().await;
        assert_eq!(world.pod_names().await.len(), replicas, "change {change}");
    }
    let events = world.events().await.join("\n");
    assert!(!events.contains("ReconcileUndoesItself"), "{events}");
}
