//! Admission webhooks, called through an outbound client that answers from within the test.

mod bad;
mod images;
mod matching;
mod objects;

use super::*;
use crate::outbound::{Outbound, Target};
use crate::rest::response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;

/// Answers a call to a path with a body and a status code.
type Respond = Arc<dyn Fn(String, Value) -> BoxFuture<'static, (u16, String)> + Send + Sync>;

/// Everyone who is called by a server under test.
pub(super) struct World {
    respond: Mutex<Option<Respond>>,
    /// Every review, in the order of calls, with the path that it was sent to.
    pub(super) calls: Mutex<Vec<(String, Value)>>,
    pub(super) targets: Mutex<Vec<Target>>,
}

impl Outbound for Arc<World> {
    fn call(
        &self,
        target: Target,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Body>, crate::BoxError>> {
        let world = self.clone();
        Box::pin(async move {
            world.targets.lock().push(target);
            let path = request.uri().path().to_owned();
            let review: Value = serde_json::from_slice(request.body()).unwrap_or_default();
            world.calls.lock().push((path.clone(), review.clone()));
            let respond = world.respond.lock().clone();
            let Some(respond) = respond else {
                return Err("dial tcp 127.0.0.1:1: connect: connection refused".into());
            };
            let (code, body) = respond(path, review).await;
            Ok(response::json(code, body))
        })
    }
}

/// A server, and who answers its calls: nobody at first.
pub(super) fn server() -> (Server, Arc<World>) {
    let world = Arc::new(World {
        respond: Mutex::new(None),
        calls: Mutex::default(),
        targets: Mutex::default(),
    });
    let outbound = world.clone();
    let server = Server::with(|options| options.outbound = Some(Arc::new(outbound)));
    (server, world)
}

impl World {
    /// Answers every review by a function of the path and the request.
    pub(super) fn answer(
        self: &Arc<World>,
        answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) {
        let answer = Arc::new(answer);
        self.respond_with(move |path, review| {
            let answer = answer.clone();
            Box::pin(async move {
                let response = answer(&path, &review["request"]);
                (200, reviewed(&review, response))
            })
        });
    }

    pub(super) fn respond_with(
        &self,
        respond: impl Fn(String, Value) -> BoxFuture<'static, (u16, String)> + Send + Sync + 'static,
    ) {
        *self.respond.lock() = Some(Arc::new(respond));
    }

    fn paths(&self) -> Vec<String> {
        let calls = self.calls.lock();
        calls.iter().map(|(path, _)| path.clone()).collect()
    }

    /// The last request that was sent.
    fn last(&self) -> Value {
        self.calls.lock().last().unwrap().1["request"].clone()
    }
}

/// A review with its answer.
pub(super) fn reviewed(review: &Value, mut response: Value) -> String {
    response["uid"] = review["request"]["uid"].clone();
    json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
        .to_string()
}

pub(super) fn allow() -> Value {
    json!({"allowed": true})
}

fn deny(message: &str) -> Value {
    json!({"allowed": false, "status": {"code": 403, "message": message}})
}

fn patch(operations: Value) -> Value {
    let patch = STANDARD.encode(operations.to_string());
    json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"})
}

/// A webhook for everything that is done to config maps, at `/name`.
fn hook(name: &str) -> Value {
    json!({
        "name": format!("{name}.example.com"),
        "clientConfig": {"url": format!("https://127.0.0.1:9443/{name}")},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

fn with(mut hook: Value, member: &str, value: Value) -> Value {
    hook[member] = value;
    hook
}

fn on(hook: Value, group: &str, resource: &str) -> Value {
    let rule = json!({"operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource]});
    with(hook, "rules", json!([rule]))
}

impl Server {
    async fn mutating(&self, name: &str, hooks: Value) {
        self.configure("Mutating", name, hooks).await;
    }

    async fn validating(&self, name: &str, hooks: Value) {
        self.configure("Validating", name, hooks).await;
    }

    async fn configure(&self, way: &str, name: &str, hooks: Value) {
        let plural = format!("{}webhookconfigurations", way.to_lowercase());
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let body = json!({"metadata": {"name": name}, "webhooks": hooks});
        let (code, answer) = self.post(&path, body).await;
        assert_eq!(code, 201, "{answer}");
    }
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test(start_paused = true)]
async fn webhooks_change_objects_in_the_order_of_configurations_and_then_their_own() {
    let (server, world) = server();
    server.mutating("b", json!([hook("three")])).await;
    server
        .mutating("a", json!([hook("one"), hook("two")]))
        .await;
    server.validating("v", json!([hook("last")])).await;
    world.answer(|path, request| match path {
        "/last" => allow(),
        _ => {
            let seen = request["object"]["data"]["seen"].as_str().unwrap_or("");
            patch(json!([{"op": "add", "path": "/data/seen", "value": format!("{seen}{path}")}]))
        }
    });
    let (code, created) = server.post(CONFIG_MAPS, map("m")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["data"], json!({"a": "1", "seen": "/one/two/three"}));
    assert_eq!(world.paths(), ["/one", "/two", "/three", "/last"]);
    let last = world.last();
    assert_eq!(last["object"]["data"]["seen"], "/one/two/three");
    assert_eq!(
        last["object"]["metadata"]["uid"],
        created["metadata"]["uid"]
    );
    assert_eq!(last["operation"], "CREATE");
    // UPSTREAM: what webhooks change belongs to nobody.
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert_eq!(fields, &json!({".": {}, "f:a": {}}));
}

#[tokio::test(start_paused = true)]
async fn a_review_says_everything_about_its_request() {
    let (server, world) = server();
    server.validating("v", json!([hook("v")])).await;
    world.answer(|_, _| allow());
    server.config_map("m", json!({"a": "1"})).await;
    let path = format!("{CONFIG_MAPS}/m?fieldManager=me&dryRun=All");
    let body = json!({"data": {"a": "2"}});
    let (code, _) = server.patch(&path, "merge-patch", body).await;
    assert_eq!(code, 200);
    let mut request = world.last();
    let uid = request["uid"].take();
    assert_eq!(uid.as_str().unwrap().len(), 36);
    let (object, old) = (request["object"].take(), request["oldObject"].take());
    assert_eq!(
        (&object["data"]["a"], &old["data"]["a"]),
        (&json!("2"), &json!("1"))
    );
    assert!(old["metadata"]["managedFields"][0]["fieldsV1"].is_object());
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let expected = json!({
        "uid": null, "object": null, "oldObject": null,
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "name": "m", "namespace": "default", "operation": "UPDATE", "dryRun": true,
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "me"},
    });
    assert_eq!(request, expected);
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told_as_upstream_tells_them() {
    let (server, world) = server();
    server.validating("v", json!([hook("v")])).await;
    world.answer(|_, _| deny("not today"));
    let (code, status) = server.post(CONFIG_MAPS, map("m")).await;
    let message = "admission webhook \"v.example.com\" denied the request: not today";
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 403});
    assert_eq!((code, status), (403, expected));
    let reason = json!({"allowed": false, "status": {"code": 418, "reason": "Teapot", "message": "no", "details": {"name": "x"}}});
    world.answer(move |_, _| reason.clone());
    let (code, status) = server.post(CONFIG_MAPS, map("m")).await;
    assert_eq!(
        (code, &status["reason"], &status["details"]),
        (418, &json!("Teapot"), &json!({"name": "x"}))
    );
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/m")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn calls_are_measured_under_upstreams_names() {
    let (server, world) = server();
    world.answer(|path, _| match path {
        "/no" => deny("no"),
        _ => allow(),
    });
    server.mutating("a", json!([hook("yes")])).await;
    let open = with(hook("gone"), "failurePolicy", json!("Ignore"));
    let open = with(
        open,
        "clientConfig",
        json!({"service": {"namespace": "x", "name": "y"}}),
    );
    server.validating("b", json!([hook("no"), open])).await;
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(server.post(CONFIG_MAPS, map).await.0, 403);
    let (_, text) = server.get("/metrics").await;
    let text = text.as_str().unwrap();
    for line in [
        "webhook_admission_duration_seconds_count{name=\"yes.example.com\",operation=\"CREATE\",rejected=\"false\",type=\"admit\"} 1",
        "webhook_request_total{code=\"403\",name=\"no.example.com\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 1",
        "webhook_rejection_count{error_type=\"no_error\",name=\"no.example.com\",operation=\"CREATE\",rejection_code=\"403\",type=\"validating\"} 1",
        "webhook_fail_open_count{name=\"gone.example.com\",type=\"validating\"} 1",
    ] {
        assert!(
            text.contains(&format!("apiserver_admission_{line}\n")),
            "{line}\n{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_ask_for_it_are_called_again_after_others_changed_something() {
    let (server, world) = server();
    let again = |name| with(hook(name), "reinvocationPolicy", json!("IfNeeded"));
    let hooks = json!([again("one"), hook("two"), again("three")]);
    server.mutating("a", hooks).await;
    world.answer(|path, _| match path {
        "/two" => patch(json!([{"op": "add", "path": "/data/two", "value": "x"}])),
        _ => allow(),
    });
    server.config_map("m", json!({"a": "1"})).await;
    // Three came after the change, and so has nothing new to see.
    assert_eq!(world.paths(), ["/one", "/two", "/three", "/one"]);
}

#[tokio::test(start_paused = true)]
async fn warnings_of_webhooks_reach_the_client() {
    let (server, world) = server();
    server.validating("v", json!([hook("v")])).await;
    world.answer(|_, _| json!({"allowed": true, "warnings": ["beware", ""]}));
    let body = map("m").to_string().into();
    let send = server.send(
        Method::POST,
        CONFIG_MAPS,
        "application/json",
        "application/json",
        body,
    );
    let response = send.await;
    let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
    assert_eq!(warnings, ["299 - \"beware\""]);
}

#[tokio::test(start_paused = true)]
async fn old_reviews_are_spoken_with_who_knows_no_others() {
    let (server, world) = server();
    let old = with(
        hook("m"),
        "admissionReviewVersions",
        json!(["v0", "v1beta1", "v1"]),
    );
    server.mutating("m", json!([old])).await;
    world.respond_with(|_, review| {
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1beta1");
        let patch = STANDARD.encode(r#"[{"op":"add","path":"/data/b","value":"2"}]"#);
        // Neither uid nor type of the patch were asked for then.
        let answer = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "response": {"allowed": true, "patch": patch}});
        Box::pin(async move { (200, answer.to_string()) })
    });
    let created = server.config_map("m", json!({"a": "1"})).await;
    assert_eq!(created["data"]["b"], "2");
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_a_webhook_was_asked_is_asked_about_again() {
    let (server, world) = server();
    server.config_map("m", json!({"a": "1"})).await;
    server
        .mutating(
            "m",
            json!([with(
                hook("m"),
                "objectSelector",
                json!({"matchLabels": {"app": "m"}})
            )]),
        )
        .await;
    let other = server.server.clone();
    world.respond_with(move |_, review| {
        let (other, request) = (other.clone(), review["request"].clone());
        Box::pin(async move {
            let is_first = request["oldObject"]["data"]["b"].is_null();
            if is_first {
                let store = other.shared();
                let kind = crate::kinds::find("", "ConfigMap").unwrap();
                let mut value = store.store.get(kind, "default/m").unwrap().value(kind);
                value["data"]["b"] = json!("2");
                let written: Result<_, ()> = store.store.write(|transaction| {
                    transaction.put(kind, "default/m", &value, None);
                    Ok(())
                });
                written.unwrap();
            }
            (200, reviewed(&review, allow()))
        })
    });
    let body = json!({"data": {"c": "3"}});
    let (code, patched) = server
        .patch(&format!("{CONFIG_MAPS}/m"), "merge-patch", body)
        .await;
    assert_eq!(code, 200, "{patched}");
    assert_eq!(
        patched["data"],
        json!({"a": "1", "b": "2", "c": "3"}),
        "nothing is lost"
    );
    assert_eq!(world.calls.lock().len(), 2);
}
