//! The dashboard on an API server in the same process: who is let in, what they get, and what they do not.

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, ResourceType, Rng};
use apiserver::{ApiServer, Options};
use bytes::Bytes;
use client::{Client, Patch};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use runtime::Decisions;
use serde_json::{Value, json};

use crate::{Access, Action, Body, Dashboard, Feed, LinkKey, Named, Sessions, Setup, Source};

/// A client of an empty server.
pub(crate) fn nobody() -> Client {
    Client::new(server().transport())
}

fn server() -> ApiServer {
    let options = Options::in_memory(runtime::clock::wall(), Rng::from_seed(1));
    ApiServer::open(options).unwrap()
}

const ADDRESS: &str = "127.0.0.1:6444";
const PODS: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");
const ACCOUNTS: ResourceType =
    ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
const DEPLOYMENTS: ResourceType =
    ResourceType::namespaced("apps", "v1", "deployments", "Deployment");
const SECRETS: ResourceType = ResourceType::namespaced("", "v1", "secrets", "Secret");
const NAMESPACES: ResourceType = ResourceType::cluster("", "v1", "namespaces", "Namespace");
const ROLES: ResourceType =
    ResourceType::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role");
const BINDINGS: ResourceType = ResourceType::namespaced(
    "rbac.authorization.k8s.io",
    "v1",
    "rolebindings",
    "RoleBinding",
);

/// Everything is stuck, predictions never end, and every action is noted.
#[derive(Default)]
struct Stuck {
    acted: Mutex<Vec<Action>>,
    speed: Mutex<Option<f64>>,
}

impl Source for Stuck {
    fn why<'a>(
        &'a self,
        object: &'a Named,
        _: Option<&'a Client>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        let verdict =
            json!({"state": "stuck", "verdict": format!("{} is stuck", object.name), "help": null});
        async move { Ok(verdict) }.boxed()
    }

    /// Whoever sees everything waits for ever.
    fn predict<'a>(
        &'a self,
        _: &'a Named,
        client: Option<&'a Client>,
    ) -> BoxFuture<'a, Option<Value>> {
        match client {
            None => futures_util::future::pending().boxed(),
            Some(_) => async { Some(json!({"samples": []})) }.boxed(),
        }
    }

    fn act<'a>(
        &'a self,
        action: &'a Action,
        _: &'a Client,
    ) -> Option<BoxFuture<'a, Result<String, String>>> {
        self.acted.lock().push(action.clone());
        Some(async { Ok("done".to_owned()) }.boxed())
    }

    fn speed(&self) -> Option<f64> {
        *self.speed.lock()
    }
}

struct Box {
    client: Client,
    source: Arc<Stuck>,
    dashboard: Arc<Dashboard>,
    access: Access,
    key: LinkKey,
}

impl Box {
    fn new(acts: bool) -> Box {
        let (client, source, key) = (nobody(), Arc::new(Stuck::default()), LinkKey::generate());
        let feed = Feed::new();
        let clock: Clock = runtime::clock::wall();
        let dashboard = Dashboard::new(Setup {
            decisions: Decisions::new().heard_by(feed.listener()),
            feed,
            client: client.clone(),
            clock,
            rng: Rng::from_seed(2),
            source: source.clone(),
            cluster: "test".to_owned(),
            acts,
            has_owner: true,
        });
        let access = Access::new(&key, 6444);
        Box {
            client,
            source,
            dashboard,
            access,
            key,
        }
    }

    async fn send(&self, request: http::request::Builder, body: &str) -> Response<Body> {
        let request = request
            .header("host", ADDRESS)
            .body(Bytes::from(body.to_owned()))
            .unwrap();
        self.dashboard.answer(&self.access, request).await
    }

    async fn get(&self, path: &str, cookie: &str) -> (StatusCode, String) {
        read(
            self.send(Request::get(path).header("cookie", cookie), "")
                .await,
        )
        .await
    }

    /// Lets a browser in by a link.
    async fn enter(&self) -> String {
        let link = self.key.link("");
        cookie(&self.send(Request::get(link), "").await)
    }

    async fn create(&self, resource: &ResourceType, namespace: &str, object: Value) {
        let created = self
            .client
            .create(resource, namespace, object.to_string())
            .await;
        created.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    async fn pod(&self, namespace: &str, name: &str) {
        let spec = json!({"containers": [{"name": "a", "image": "a"}], "automountServiceAccountToken": false});
        self.create(
            &PODS,
            namespace,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    /// A token of a namespace's service account.
    async fn token(&self, namespace: &str) -> String {
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = self
            .client
            .create_subresource(
                &ACCOUNTS,
                namespace,
                "default",
                "token",
                request.to_string(),
            )
            .await
            .unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let _ = self
            .client
            .create(&NAMESPACES, "", object.to_string())
            .await;
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let _ = self
            .client
            .create(&ACCOUNTS, name, account.to_string())
            .await;
    }
}

async fn read(response: Response<Body>) -> (StatusCode, String) {
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

fn cookie(response: &Response<Body>) -> String {
    let set = response
        .headers()
        .get("set-cookie")
        .expect("a session was opened");
    set.to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// Reads the stream until it has said this.
async fn until(body: &mut Body, wanted: &[&str]) -> String {
    let mut said = String::new();
    let reading = async {
        while !wanted.iter().all(|wanted| said.contains(wanted)) {
            let frame = body.frame().await.expect("the stream goes on").unwrap();
            said.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    };
    let patience = Duration::from_secs(30);
    let ended = tokio::time::timeout(patience, reading).await;
    assert!(ended.is_ok(), "waited in vain for {wanted:?} in {said}");
    said
}

#[tokio::test]
async fn without_a_session_nothing_is_shown() {
    let world = Box::new(true);
    for path in ["/stream", "/object?kind=Pod", "/why?kind=Pod", "/nothing"] {
        let (status, said) = world.get(path, "steersman-6444=guess").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(said.contains("`steersman dashboard`"), "{said}");
    }
    let (status, said) = world.get("/", "").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(said.contains("name=\"token\""), "{said}");
    let own = Request::post("/act").header("origin", format!("http://{ADDRESS}"));
    assert_eq!(
        world.send(own, "{}").await.status(),
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(world.get("/assets/app/main.js", "").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_link_opens_the_page_once() {
    let world = Box::new(true);
    let link = world.key.link("");
    let cookie = cookie(&world.send(Request::get(&link), "").await);
    let page = world
        .send(Request::get("/").header("cookie", &cookie), "")
        .await;
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self' 'sha256-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    let (status, said) = read(page).await;
    assert_eq!(status, StatusCode::OK);
    assert!(said.contains("importmap"), "{said}");
    let (status, said) = read(world.send(Request::get(&link), "").await).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(said.contains("was used before"), "{said}");
}

#[tokio::test]
async fn no_verdict_waits_for_a_prediction() {
    let world = Box::new(true);
    for name in ["first", "second"] {
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}]}});
        let spec = json!({"selector": {"matchLabels": labels}, "template": template});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
        world.create(&DEPLOYMENTS, "default", object).await;
    }
    let cookie = world.enter().await;
    let stream = Request::get("/stream").header("cookie", &cookie);
    let mut stream = world.send(stream, "").await.into_body();
    until(&mut stream, &["first is stuck", "second is stuck"]).await;
}

#[tokio::test]
async fn a_page_sees_what_is_there_what_comes_and_why_it_is_stuck() {
    let world = Box::new(true);
    world.namespace("shop").await;
    world.pod("shop", "first").await;
    let cookie = world.enter().await;
    let mut stream = world
        .send(Request::get("/stream").header("cookie", &cookie), "")
        .await
        .into_body();
    until(
        &mut stream,
        &[
            "event: live",
            "Pod/shop/first",
            "why/Pod/shop/first",
            "first is stuck",
        ],
    )
    .await;
    world.pod("shop", "second").await;
    until(&mut stream, &["Pod/shop/second"]).await;
    let mut late = world
        .send(Request::get("/stream").header("cookie", &cookie), "")
        .await
        .into_body();
    let said = until(&mut late, &["event: live"]).await;
    assert!(
        said.contains("Pod/shop/second"),
        "a page that comes later begins with all of it: {said}"
    );
}

#[tokio::test]
async fn secrets_are_in_no_payload() {
    let world = Box::new(true);
    world.namespace("shop").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "hunter2"}});
    world.create(&SECRETS, "shop", secret).await;
    world.pod("shop", "first").await;
    let cookie = world.enter().await;
    let mut stream = world
        .send(Request::get("/stream").header("cookie", &cookie), "")
        .await
        .into_body();
    let said = until(&mut stream, &["Pod/shop/first"]).await;
    assert!(!said.contains("Secret"), "{said}");
    let (status, said) = world
        .get("/object?kind=Secret&namespace=shop&name=key", &cookie)
        .await;
    assert_eq!(
        (status, said.as_str()),
        (
            StatusCode::NOT_FOUND,
            r#"{"error":"Secret is not shown here"}"#
        )
    );
}

#[tokio::test]
async fn an_object_is_shown_as_yaml_with_its_events() {
    let world = Box::new(true);
    world.namespace("shop").await;
    world.pod("shop", "first").await;
    let cookie = world.enter().await;
    let (status, said) = world
        .get("/object?kind=Pod&namespace=shop&name=first", &cookie)
        .await;
    assert_eq!(status, StatusCode::OK);
    let shown: Value = serde_json::from_str(&said).unwrap();
    let yaml = shown["yaml"].as_str().unwrap();
    assert!(
        yaml.contains("name: first") && !yaml.contains("managedFields"),
        "{yaml}"
    );
    assert_eq!(shown["events"], json!([]));
}

/// A viewer with a token sees the namespaces that RBAC shows him, and nothing of any other.
#[tokio::test]
async fn rbac_hides_a_namespace() {
    let world = Box::new(true);
    for namespace in ["shop", "vault"] {
        world.namespace(namespace).await;
        world.pod(namespace, &format!("of-{namespace}")).await;
    }
    world
        .create(
            &ROLES,
            "shop",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "viewer"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]}),
        )
        .await;
    world
        .create(
            &BINDINGS,
            "shop",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "shop"}]}),
        )
        .await;
    let token = &world.token("shop").await;

    let own = || Request::post("/session").header("origin", format!("http://{ADDRESS}"));
    assert_eq!(
        world.send(own(), "token=guess").await.status(),
        StatusCode::UNAUTHORIZED
    );
    let cookie = cookie(&world.send(own(), &format!("token={token}")).await);
    let mut stream = world
        .send(Request::get("/stream").header("cookie", &cookie), "")
        .await
        .into_body();
    let said = until(&mut stream, &["event: live", "Pod/shop/of-shop"]).await;
    assert!(
        said.contains("system:serviceaccount:shop:default"),
        "{said}"
    );
    world.pod("shop", "later").await;
    let said = format!("{said}{}", until(&mut stream, &["Pod/shop/later"]).await);
    assert!(
        !said.contains("of-vault") && !said.contains("Namespace/"),
        "{said}"
    );
    assert!(
        !said.contains("why/"),
        "verdicts rest on more than he may see: {said}"
    );
    let predicted = world.get("/predict?kind=Deployment&namespace=shop&name=web", &cookie);
    assert_eq!(
        predicted.await,
        (StatusCode::OK, r#"{"samples":[]}"#.to_owned()),
        "by his own rights"
    );
    let (status, said) = world
        .get("/object?kind=Pod&namespace=vault&name=of-vault", &cookie)
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(
        said.contains("forbidden") || said.contains("may not"),
        "{said}"
    );
    let owner_sees = world.enter().await;
    let mut stream = world
        .send(Request::get("/stream").header("cookie", &owner_sees), "")
        .await
        .into_body();
    until(&mut stream, &["of-vault"]).await;
}

#[tokio::test]
async fn actions_need_the_page_itself_and_a_box() {
    let world = Box::new(true);
    let cookie = world.enter().await;
    let act = r#"{"action":"drainNode","name":"node-1"}"#;
    let from = |origin: &str| {
        Request::post("/act")
            .header("cookie", &cookie)
            .header("origin", origin)
    };
    assert_eq!(
        world.send(from("http://evil.example"), act).await.status(),
        StatusCode::FORBIDDEN
    );
    assert!(world.source.acted.lock().is_empty());
    let own = format!("http://{ADDRESS}");
    assert_eq!(world.send(from(&own), act).await.status(), StatusCode::OK);
    assert_eq!(
        *world.source.acted.lock(),
        [Action::DrainNode {
            name: "node-1".into()
        }]
    );
    assert_eq!(
        world
            .send(from(&own), r#"{"action":"format"}"#)
            .await
            .status(),
        StatusCode::BAD_REQUEST
    );

    let reading = Box::new(false);
    let cookie = reading.enter().await;
    let request = Request::post("/act")
        .header("cookie", &cookie)
        .header("origin", &own);
    assert_eq!(
        reading.send(request, act).await.status(),
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn all_pages_are_told_how_fast_time_passes() {
    let world = Box::new(true);
    world.namespace("shop").await;
    let cookie = world.enter().await;
    let stream = Request::get("/stream").header("cookie", &cookie);
    let mut stream = world.send(stream, "").await.into_body();
    until(&mut stream, &["\"speed\":null", "event: live"]).await;
    *world.source.speed.lock() = Some(30.0);
    world.pod("shop", "first").await;
    let said = until(&mut stream, &["Pod/shop/first"]).await;
    assert!(said.contains("\"speed\":30.0"), "{said}");
}

/// A page that does not read is dropped, and the next one begins with everything.
#[tokio::test]
async fn a_slow_page_is_dropped_and_catches_up() {
    let world = Box::new(true);
    world.namespace("shop").await;
    world.pod("shop", "first").await;
    let cookie = world.enter().await;
    let mut stream = world
        .send(Request::get("/stream").header("cookie", &cookie), "")
        .await
        .into_body();
    until(&mut stream, &["Pod/shop/first"]).await;
    for number in 0..600 {
        let now = runtime::clock::wall().now();
        let item = crate::feed::Item {
            scope: Arc::new(crate::feed::Scope {
                group: String::new(),
                plural: "pods".into(),
                namespace: "shop".into(),
                decided: false,
            }),
            json: format!("{{\"number\":{number}}}").into(),
        };
        world.dashboard.feed.put("Pod/shop/busy", item);
        world.dashboard.feed.flush(now);
    }
    let mut count = 0;
    while let Some(Ok(_)) = stream.frame().await {
        count += 1;
        assert!(count < 600, "it must end");
    }
    let mut again = world
        .send(Request::get("/stream").header("cookie", &cookie), "")
        .await
        .into_body();
    until(&mut again, &["\"number\":599"]).await;
    let annotate = json!({"metadata": {"labels": {"a": "b"}}});
    let patch = Patch::Merge(Bytes::from(annotate.to_string()));
    world
        .client
        .patch(&PODS, "shop", "first", None, &patch)
        .await
        .unwrap();
    until(&mut again, &["\"a\":\"b\""]).await;
}

/// On a port that lets people in by itself, a cookie stands for the token, and nobody owns the page.
#[tokio::test]
async fn behind_another_ports_authentication_a_cookie_stands_for_a_token() {
    let world = Box::new(false);
    world.namespace("shop").await;
    let token = world.token("shop").await;
    let sessions = Sessions::default();
    let ask = async |request: http::request::Builder| {
        let request = request.body(Bytes::new()).unwrap();
        let user = "system:serviceaccount:shop:default";
        world
            .dashboard
            .answer_on_port(&sessions, &world.client, user, request)
            .await
    };
    let bearer = format!("Bearer {token}");
    let signed = Request::get("/dashboard/session").header("authorization", &bearer);
    let opened = ask(signed).await;
    let set = opened.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        set.ends_with("; Path=/dashboard/; Secure; HttpOnly; SameSite=Strict"),
        "{set}"
    );
    let session = cookie(&opened);
    let headers = |value: &str| {
        let request = Request::get("/").header("cookie", value).body(()).unwrap();
        sessions.authorization(request.headers())
    };
    let stands_for = headers(&session).unwrap();
    assert_eq!(stands_for, bearer.as_str());
    assert!(stands_for.is_sensitive(), "it must not be logged");
    assert_eq!(headers("steersman-manager=guess"), None);

    let (status, page) =
        read(ask(Request::get("/dashboard/").header("cookie", &session)).await).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("importmap"), "{page}");
    let stream = Request::get("/dashboard/stream").header("cookie", &session);
    let mut stream = ask(stream).await.into_body();
    let said = until(&mut stream, &["event: live"]).await;
    assert!(said.contains("\"all\":false,"), "{said}");
    assert!(said.contains("\"acts\":false"), "{said}");
    let act = Request::post("/dashboard/act").header("cookie", &session);
    assert_eq!(ask(act).await.status(), StatusCode::METHOD_NOT_ALLOWED);

    let (status, form) = read(ask(Request::get("/dashboard/")).await).await;
    assert_eq!(
        status,
        StatusCode::UNAUTHORIZED,
        "a certificate is no token"
    );
    assert!(form.contains("assets/sign-in.js"), "{form}");
}

#[tokio::test]
async fn those_who_are_turned_away_get_the_form_and_its_files_alone() {
    let turned = |path: &str| crate::turn_away(path, StatusCode::FORBIDDEN, "You <may> not.");
    let (status, form) = read(turned("/dashboard/").unwrap()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(form.contains("You &lt;may&gt; not."), "{form}");
    assert!(turned("/dashboard/assets/sign-in.js").is_some());
    for path in ["/dashboard/stream", "/dashboard/object", "/metrics"] {
        assert!(turned(path).is_none(), "{path}");
    }
}
