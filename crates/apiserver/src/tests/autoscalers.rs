//! Autoscalers, whose fields have other names at `autoscaling/v1` than at `autoscaling/v2`: who manages which.

use super::*;

fn path(version: &str) -> String {
    format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/h")
}

async fn apply(server: &Server, who: &str, version: &str, spec: Value) -> (u16, Value) {
    let config = json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"}, "spec": spec});
    let uri = format!("{}?fieldManager={who}", path(version));
    let media = "application/apply-patch+yaml";
    let body = config.to_string().into();
    server.call(Method::PATCH, &uri, media, body).await
}

async fn update(server: &Server, who: &str, version: &str, spec: Value) -> (u16, Value) {
    let uri = format!("{}?fieldManager={who}", path(version));
    server
        .patch(&uri, "merge-patch", json!({"spec": spec}))
        .await
}

/// The fields of the spec that somebody manages, and at which version.
fn managed(object: &Value, who: &str) -> String {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut entries = entries.into_iter().flatten();
    let Some(entry) = entries.find(|entry| entry["manager"] == who) else {
        return String::new();
    };
    let fields = entry["fieldsV1"]["f:spec"].as_object();
    let names = fields.into_iter().flatten().map(|(name, _)| name.as_str());
    let version = entry["apiVersion"].as_str().unwrap_or_default();
    format!("{version} {}", names.collect::<Vec<_>>().join(" "))
}

fn cpu(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})
}

fn whole(percent: i64) -> Value {
    json!({"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "targetCPUUtilizationPercentage": percent})
}

/// A server with the autoscaler `h`, which ann applied at v1.
async fn applied() -> Server {
    let server = Server::new();
    let (code, created) = apply(&server, "ann", "v1", whole(70)).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        managed(&created, "ann"),
        "autoscaling/v1 f:maxReplicas f:scaleTargetRef f:targetCPUUtilizationPercentage"
    );
    server
}

#[tokio::test(start_paused = true)]
async fn what_another_applied_at_v1_is_a_conflict_at_v2() {
    let server = applied().await;
    let (code, refused) = apply(&server, "bob", "v2", cpu(50)).await;
    let why =
        "Apply failed with 1 conflict: conflict with \"ann\": .spec.targetCPUUtilizationPercentage";
    assert_eq!((code, &refused["message"]), (409, &json!(why)));
    // The same may be managed by both.
    let (code, shared) = apply(&server, "bob", "v2", cpu(70)).await;
    assert_eq!(code, 200, "{shared}");
    assert_eq!(managed(&shared, "bob"), "autoscaling/v2 f:metrics");
    let (code, refused) = apply(&server, "ann", "v1", whole(60)).await;
    let why = "Apply failed with 1 conflict: conflict with \"bob\": .spec.metrics";
    assert_eq!((code, &refused["message"]), (409, &json!(why)));
    // Whoever gives it up leaves it to the other.
    let (_, left) = apply(&server, "bob", "v2", json!({})).await;
    assert_eq!(left["spec"]["metrics"], cpu(70)["metrics"]);
    let mut less = whole(70);
    less.as_object_mut()
        .unwrap()
        .remove("targetCPUUtilizationPercentage");
    let (code, gone) = apply(&server, "ann", "v1", less).await;
    assert_eq!(code, 200, "{gone}");
    // UPSTREAM: without a target the conversion makes one up, so that the fields at v2 are still wanted.
    assert_eq!(gone["spec"]["targetCPUUtilizationPercentage"], 70);
}

#[tokio::test(start_paused = true)]
async fn an_update_manages_fields_by_their_names_at_its_version() {
    let server = applied().await;
    let changed = json!({"targetCPUUtilizationPercentage": 60});
    let (code, updated) = update(&server, "bob", "v1", changed).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(
        managed(&updated, "bob"),
        "autoscaling/v1 f:targetCPUUtilizationPercentage"
    );
    assert_eq!(
        managed(&updated, "ann"),
        "autoscaling/v1 f:maxReplicas f:scaleTargetRef"
    );
    let (code, updated) = update(&server, "carl", "v2", cpu(50)).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(managed(&updated, "carl"), "autoscaling/v2 f:metrics");
    assert_eq!(managed(&updated, "bob"), "");
    // What changes at one version alone leaves the others' as they are.
    let (_, updated) = update(&server, "dan", "v2", json!({"maxReplicas": 4})).await;
    assert_eq!(managed(&updated, "dan"), "autoscaling/v2 f:maxReplicas");
    assert_eq!(managed(&updated, "carl"), "autoscaling/v2 f:metrics");
    assert_eq!(managed(&updated, "ann"), "autoscaling/v1 f:scaleTargetRef");
}

#[tokio::test(start_paused = true)]
async fn an_applier_may_go_on_at_another_version() {
    let server = applied().await;
    let mut spec = cpu(70);
    spec["maxReplicas"] = json!(3);
    spec["scaleTargetRef"] = whole(70)["scaleTargetRef"].clone();
    let (code, moved) = apply(&server, "ann", "v2", spec.clone()).await;
    assert_eq!(code, 200, "{moved}");
    assert_eq!(
        managed(&moved, "ann"),
        "autoscaling/v2 f:maxReplicas f:metrics f:scaleTargetRef"
    );
    let (_, same) = apply(&server, "ann", "v2", spec.clone()).await;
    let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(revision(&same), revision(&moved));
    // What has no field at v1 goes with whoever applied it at v2.
    spec["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 9}});
    let (_, held) = apply(&server, "ann", "v2", spec).await;
    assert_eq!(
        held["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"],
        9
    );
    let (code, back) = apply(&server, "ann", "v1", whole(70)).await;
    assert_eq!(
        (code, back["metadata"].get("annotations")),
        (200, None),
        "{back}"
    );
    let (_, gone) = server.get(&path("v2")).await;
    assert_eq!(gone["spec"].get("behavior"), None, "{gone}");
}

/// UPSTREAM: nobody can say what is managed at a version that is gone.
#[tokio::test(start_paused = true)]
async fn managers_at_a_version_that_is_gone_are_forgotten() {
    let server = applied().await;
    let (_, held) = server.get(&path("v2")).await;
    let mut entries = held["metadata"]["managedFields"].clone();
    let old = json!({"manager": "old", "operation": "Update", "apiVersion": "autoscaling/v2beta2",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:maxReplicas": {}}}});
    entries.as_array_mut().unwrap().push(old);
    let body = json!({"metadata": {"managedFields": entries}, "spec": {"minReplicas": 2}});
    let uri = format!("{}?fieldManager=bob", path("v2"));
    let (code, updated) = server.patch(&uri, "merge-patch", body).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(managed(&updated, "bob"), "autoscaling/v2 f:minReplicas");
    assert_eq!(managed(&updated, "old"), "");
    assert_ne!(managed(&updated, "ann"), "");
}

#[tokio::test(start_paused = true)]
async fn a_new_autoscaler_without_a_target_has_one() {
    let server = Server::new();
    let mut spec = whole(70);
    spec.as_object_mut()
        .unwrap()
        .remove("targetCPUUtilizationPercentage");
    let all = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers?fieldManager=ann";
    let object = json!({"metadata": {"name": "h"}, "spec": spec});
    let (code, created) = server.post(all, object).await;
    assert_eq!(
        (code, &created["spec"]["targetCPUUtilizationPercentage"]),
        (201, &json!(80))
    );
    assert_eq!(
        managed(&created, "ann"),
        "autoscaling/v1 f:maxReplicas f:minReplicas f:scaleTargetRef f:targetCPUUtilizationPercentage"
    );
}

/// UPSTREAM: v1 has a field for the processors and an annotation for the rest, of which the annotation is read first.
#[tokio::test(start_paused = true)]
async fn an_apply_at_v1_that_changes_nothing_keeps_the_order_of_metrics() {
    let server = Server::new();
    let mut spec = cpu(70);
    spec["maxReplicas"] = json!(3);
    spec["scaleTargetRef"] = whole(70)["scaleTargetRef"].clone();
    let target = json!({"type": "Utilization", "averageUtilization": 40});
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": target}});
    spec["metrics"].as_array_mut().unwrap().push(memory);
    let all = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let written = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let object = json!({"metadata": {"name": "h", "annotations": written}, "spec": spec});
    let (code, created) = server.post(all, object).await;
    assert_eq!(code, 201, "{created}");
    let order = async |server: &Server| {
        let (_, held) = server.get(&path("v2")).await;
        let metrics = held["spec"]["metrics"].as_array().unwrap();
        let names = metrics.iter().map(|metric| &metric["resource"]["name"]);
        let names = names.map(|name| name.as_str().unwrap().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    for who in ["ann", "kubectl"] {
        let (code, applied) = apply(&server, who, "v1", whole(70)).await;
        assert_eq!(code, 200, "{applied}");
        assert_eq!(
            managed(&applied, who),
            "autoscaling/v1 f:maxReplicas f:scaleTargetRef f:targetCPUUtilizationPercentage"
        );
        assert_eq!(order(&server).await, "cpu memory", "{who}");
    }
    let (_, held) = server.get(&path("v2")).await;
    let written =
        &held["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert!(
        written.as_str().unwrap().contains("autoscaling/v1"),
        "{held}"
    );
    let mut more = whole(70);
    more["maxReplicas"] = json!(4);
    let uri = format!("{}?fieldManager=ann&force=true", path("v1"));
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"}, "spec": more});
    let media = "application/apply-patch+yaml";
    let (code, changed) = server
        .call(Method::PATCH, &uri, media, config.to_string().into())
        .await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(order(&server).await, "memory cpu");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_managed_by_the_names_of_its_group() {
    let server = Server::new();
    let event = json!({"metadata": {"name": "e"}, "regarding": {"namespace": "default"}, "note": "a", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c", "reportingInstance": "i",
        "action": "a", "reason": "r"});
    let events = "/apis/events.k8s.io/v1/namespaces/default/events?fieldManager=ann";
    let (code, created) = server.post(events, event).await;
    assert_eq!(code, 201, "{created}");
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    let names = fields.as_object().unwrap().keys();
    let names: Vec<&str> = names.map(String::as_str).collect();
    assert_eq!(
        names.join(" "),
        "f:action f:eventTime f:note f:reason f:regarding f:reportingController f:reportingInstance f:type"
    );
}
