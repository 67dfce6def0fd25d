//! Managed fields of several versions: each manager's are looked at where they are managed.

use super::*;

/// Applies a spec at a version as somebody.
async fn apply(server: &Server, who: &str, version: &str, spec: Value) -> (u16, Value) {
    let config = json!({"apiVersion": format!("example.com/{version}"), "kind": "Site", "metadata": {"name": "a"}, "spec": spec});
    let path = format!("/apis/example.com/{version}/namespaces/default/sites/a");
    let uri = format!("{path}?fieldManager={who}");
    let media = "application/apply-patch+yaml";
    let body = config.to_string().into();
    server.call(Method::PATCH, &uri, media, body).await
}

async fn update(server: &Server, who: &str, version: &str, spec: Value) -> (u16, Value) {
    let path = format!("/apis/example.com/{version}/namespaces/default/sites/a");
    let uri = format!("{path}?fieldManager={who}");
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
    let fields: Vec<&str> = fields
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let version = entry["apiVersion"].as_str().unwrap_or_default();
    format!("{version} {}", fields.join(" "))
}

#[tokio::test(start_paused = true)]
async fn a_field_that_changes_at_another_version_is_no_longer_its_owners() {
    let (server, _) = defined().await;
    apply(&server, "ann", "v1", json!({"host": "a", "replicas": 1})).await;
    let (code, same) = update(&server, "bob", "v2", json!({"replicas": 2})).await;
    assert_eq!(code, 200, "{same}");
    assert_eq!(managed(&same, "ann"), "example.com/v1 f:host");
    let (_, changed) = update(&server, "bob", "v2", json!({"hostname": "b"})).await;
    assert_eq!(managed(&changed, "ann"), "");
    assert_eq!(
        managed(&changed, "bob"),
        "example.com/v2 f:hostname f:replicas"
    );
}

#[tokio::test(start_paused = true)]
async fn what_another_manages_at_another_version_is_a_conflict() {
    let (server, _) = defined().await;
    apply(&server, "ann", "v1", json!({"host": "a"})).await;
    let (code, refused) = apply(&server, "bob", "v2", json!({"hostname": "b"})).await;
    assert_eq!(
        (code, &refused["message"]),
        (
            409,
            &json!("Apply failed with 1 conflict: conflict with \"ann\": .spec.host")
        )
    );
    // The same value may be managed by both.
    let (code, shared) = apply(&server, "bob", "v2", json!({"hostname": "a"})).await;
    assert_eq!(code, 200, "{shared}");
    assert_eq!(managed(&shared, "ann"), "example.com/v1 f:host");
    assert_eq!(managed(&shared, "bob"), "example.com/v2 f:hostname");
    // Whoever gives it up leaves it to the other.
    let (code, left) = apply(&server, "ann", "v1", json!({"replicas": 1})).await;
    assert_eq!(
        (code, &left["spec"]),
        (200, &json!({"host": "a", "replicas": 1})),
        "{left}"
    );
    let (_, gone) = apply(&server, "bob", "v2", json!({})).await;
    assert_eq!(gone["spec"], json!({"replicas": 1}), "{gone}");
}

#[tokio::test(start_paused = true)]
async fn an_applier_may_go_on_at_another_version() {
    let (server, _) = defined().await;
    apply(&server, "ann", "v1", json!({"host": "a", "replicas": 1})).await;
    let (code, less) = apply(&server, "ann", "v2", json!({"replicas": 1})).await;
    assert_eq!(
        (code, &less["spec"]),
        (200, &json!({"replicas": 1})),
        "{less}"
    );
    assert_eq!(managed(&less, "ann"), "example.com/v2 f:replicas");
    // Once more: nothing changes, and nothing is written.
    let (_, same) = apply(&server, "ann", "v2", json!({"replicas": 1})).await;
    assert_eq!(revision(&same), revision(&less));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_served_any_more_still_counts_and_one_that_is_gone_does_not() {
    let (server, _) = defined().await;
    apply(&server, "ann", "v1", json!({"host": "a"})).await;
    let path = format!("{CRDS}/sites.example.com");
    let change = async |change: &dyn Fn(&mut Value)| {
        let mut versions = definition("v2")["spec"]["versions"].clone();
        change(&mut versions);
        let body = json!({"spec": {"versions": versions}});
        let (code, answer) = server.patch(&path, "merge-patch", body).await;
        assert_eq!(code, 200, "{answer}");
    };
    change(&|versions| versions[0]["served"] = json!(false)).await;
    let (code, refused) = apply(&server, "bob", "v2", json!({"hostname": "b"})).await;
    assert_eq!(code, 409, "{refused}");
    update(&server, "carl", "v2", json!({"replicas": 1})).await;
    let status = json!({"status": {"storedVersions": ["v2"]}});
    server
        .patch(&format!("{path}/status"), "merge-patch", status)
        .await;
    change(&|versions| drop(versions.as_array_mut().unwrap().remove(0))).await;
    let (code, failed) = apply(&server, "bob", "v2", json!({"hostname": "b"})).await;
    let why = "request to convert CR to an invalid group/version: example.com/v1";
    assert_eq!((code, &failed["message"]), (500, &json!(why)));
    // UPSTREAM: an update goes on without managed fields.
    let (code, updated) = update(&server, "carl", "v2", json!({"replicas": 2})).await;
    assert_eq!(
        (code, &updated["spec"]["replicas"]),
        (200, &json!(2)),
        "{updated}"
    );
    assert_eq!(updated["metadata"].get("managedFields"), None);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_is_told_to_appliers_alone() {
    let (server, world) = defined().await;
    apply(&server, "ann", "v2", json!({"hostname": "a"})).await;
    world.respond_with(|_, review| {
        let answer = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": {"uid": review["request"]["uid"], "result": {"status": "Failure", "message": "cannot"}}});
        Box::pin(async move { (200, answer.to_string()) })
    });
    let (code, failed) = apply(&server, "bob", "v1", json!({"replicas": 1})).await;
    let why = "conversion webhook for example.com/v1, Kind=Site failed: cannot";
    assert_eq!((code, &failed["message"]), (500, &json!(why)));
    let (code, updated) = update(&server, "bob", "v1", json!({"replicas": 1})).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(updated["metadata"].get("managedFields"), None);
}
