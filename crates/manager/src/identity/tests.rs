//! Accounts and tokens against a server that writes down who asked for what.

use http_body_util::{BodyExt, Full};

use super::*;

const NOW: i64 = 1_794_716_493;

/// An API server with service accounts; writes down who asked for what.
#[derive(Clone, Default)]
struct Server {
    log: Arc<Mutex<Vec<String>>>,
    /// The user agent of the last request.
    agent: Arc<Mutex<String>>,
    accounts: Arc<Mutex<Vec<String>>>,
    issued: Arc<Mutex<u32>>,
    refused: Arc<Mutex<Option<String>>>,
    failures: Arc<Mutex<u32>>,
}

impl Server {
    fn transport(&self) -> Transport {
        let server = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: http::Request<Bytes>| {
            let (code, body) = server.answer(&request);
            let body = Full::new(Bytes::from(body))
                .map_err(|never| match never {})
                .boxed_unsync();
            std::future::ready(Ok::<_, BoxError>(
                http::Response::builder().status(code).body(body).unwrap(),
            ))
        }))
    }

    fn answer(&self, request: &http::Request<Bytes>) -> (u16, String) {
        let token = request
            .headers()
            .get("authorization")
            .map_or("-", |value| value.to_str().unwrap());
        let agent = request.headers()["user-agent"].to_str().unwrap();
        agent.clone_into(&mut self.agent.lock());
        let path = request.uri().path();
        let short = path
            .strip_prefix("/api/v1/namespaces/kube-system/")
            .unwrap_or(path);
        self.log
            .lock()
            .push(format!("{token} {} {short}", request.method()));
        if self.refused.lock().as_deref() == Some(token) {
            return (
                401,
                r#"{"kind":"Status","code":401,"reason":"Unauthorized"}"#.into(),
            );
        }
        let not_found = || {
            (
                404,
                r#"{"kind":"Status","code":404,"reason":"NotFound"}"#.to_owned(),
            )
        };
        let name = short.split('/').nth(1).unwrap_or_default().to_owned();
        match (request.method().as_str(), short) {
            ("POST", "serviceaccounts") => {
                let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                self.accounts.lock().push(name);
                (201, "{}".into())
            }
            ("POST", path) if path.ends_with("/token") => {
                let mut failures = self.failures.lock();
                if *failures > 0 {
                    *failures -= 1;
                    return (
                        500,
                        r#"{"kind":"Status","code":500,"reason":"InternalError"}"#.into(),
                    );
                }
                let mut issued = self.issued.lock();
                *issued += 1;
                let expires = Time::from_unix(NOW + 3600 * i64::from(*issued));
                let status = serde_json::json!({"token": format!("{name}-{issued}"), "expirationTimestamp": expires});
                (201, serde_json::json!({ "status": status }).to_string())
            }
            ("GET", path) if path.starts_with("serviceaccounts/") => {
                match self.accounts.lock().contains(&name) {
                    true => (200, "{}".into()),
                    false => not_found(),
                }
            }
            _ => (200, "{}".into()),
        }
    }

    fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock())
    }
}

fn connection() -> ClientConnection {
    ClientConnection {
        kubeconfig: String::new(),
        accept_content_types: "",
        content_type: String::new(),
        qps: 20.0,
        burst: 30,
    }
}

fn identities(server: &Server, accounts: bool) -> Identities {
    let connection = connection();
    let bare = accounts.then(|| server.transport());
    let clock = runtime::clock::following_tokio(Time::from_unix(NOW));
    Identities::new(server.transport(), bare, &connection, false, None, clock)
}

static PODS: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");

#[tokio::test(start_paused = true)]
async fn without_accounts_everyone_is_the_manager_and_says_who_asks() {
    let server = Server::default();
    let client = identities(&server, false)
        .controller("job-controller", (1.0, 1))
        .await
        .unwrap();
    client.get(&PODS, "kube-system", "a").await.unwrap();
    assert_eq!(server.take_log(), ["- GET pods/a"]);
    let agent = server.agent.lock().clone();
    assert!(agent.starts_with("kube-controller-manager/v1."), "{agent}");
    assert!(agent.ends_with("/job-controller"), "{agent}");
}

#[tokio::test(start_paused = true)]
async fn some_controllers_have_a_higher_request_rate() {
    let server = Server::default();
    let clock = runtime::clock::following_tokio(Time::from_unix(NOW));
    let connection = connection();
    let identities = Identities::new(server.transport(), None, &connection, true, None, clock);
    for (controller, requests, seconds) in [
        ("replicaset-controller", 50, 1),
        ("garbage-collector-controller", 70, 1),
        ("namespace-controller", 3400, 1),
    ] {
        let descriptor = controllers::find(controller).unwrap();
        let client = identities.controller("x", descriptor.rate).await.unwrap();
        let started = Instant::now();
        for _ in 0..requests {
            client.get(&PODS, "kube-system", "a").await.unwrap();
        }
        assert_eq!(
            started.elapsed().as_millis() / 1000,
            seconds,
            "{controller}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn accounts_are_created_and_tokens_requested_when_needed() {
    let server = Server::default();
    let identities = identities(&server, true);
    let client = identities
        .controller("job-controller", (1.0, 1))
        .await
        .unwrap();
    assert_eq!(
        server.take_log(),
        [
            "- GET serviceaccounts/job-controller",
            "- GET /api/v1/namespaces/kube-system",
            "- POST serviceaccounts",
        ]
    );
    client.get(&PODS, "kube-system", "a").await.unwrap();
    // A second client of the same account shares its token.
    let second = identities
        .controller("job-controller", (1.0, 1))
        .await
        .unwrap();
    second.get(&PODS, "kube-system", "b").await.unwrap();
    assert_eq!(
        server.take_log(),
        [
            "- GET serviceaccounts/job-controller",
            "- POST serviceaccounts/job-controller/token",
            "Bearer job-controller-1 GET pods/a",
            "- GET serviceaccounts/job-controller",
            "Bearer job-controller-1 GET pods/b",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_when_a_fifth_of_their_life_is_left() {
    let server = Server::default();
    let client = identities(&server, true)
        .controller("a", (1.0, 1))
        .await
        .unwrap();
    let mut used = Vec::new();
    for minutes in [0, 47, 2] {
        tokio::time::advance(Duration::from_secs(60 * minutes)).await;
        client.get(&PODS, "kube-system", "x").await.unwrap();
        used.push(server.take_log().pop().unwrap());
    }
    assert_eq!(
        used,
        [
            "Bearer a-1 GET pods/x",
            "Bearer a-1 GET pods/x",
            "Bearer a-2 GET pods/x"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced() {
    let server = Server::default();
    let client = identities(&server, true)
        .controller("a", (1.0, 1))
        .await
        .unwrap();
    *server.refused.lock() = Some("Bearer a-1".into());
    assert!(
        client
            .get(&PODS, "kube-system", "x")
            .await
            .unwrap_err()
            .is_unauthorized()
    );
    client.get(&PODS, "kube-system", "x").await.unwrap();
    assert_eq!(server.take_log().pop().unwrap(), "Bearer a-2 GET pods/x");
}

#[tokio::test(start_paused = true)]
async fn token_requests_are_retried_before_giving_up() {
    let server = Server::default();
    let client = identities(&server, true)
        .controller("a", (1.0, 1))
        .await
        .unwrap();
    *server.failures.lock() = 3;
    client.get(&PODS, "kube-system", "x").await.unwrap();
    assert_eq!(
        server
            .take_log()
            .iter()
            .filter(|line| line.ends_with("/token"))
            .count(),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_may_not_write_yet_creates_accounts_later() {
    let server = Server::default();
    let leading = Arc::new(Mutex::new(false));
    let (inner, may_write) = (server.transport(), Arc::clone(&leading));
    let fenced =
        BoxCloneSyncService::new(tower::service_fn(move |request: http::Request<Bytes>| {
            let refused = request.method() != http::Method::GET && !*may_write.lock();
            let inner = inner.clone();
            async move {
                match refused {
                    true => Err(BoxError::from("not leading")),
                    false => inner.oneshot(request).await,
                }
            }
        }));
    let identities = identities(&server, true);
    let connection = &connection();
    let clock = identities.0.clock.clone();
    let standby = Identities::new(
        fenced,
        Some(server.transport()),
        connection,
        false,
        None,
        clock,
    );
    let client = standby.controller("a", (1.0, 1)).await.unwrap();
    *leading.lock() = true;
    client.get(&PODS, "kube-system", "x").await.unwrap();
    assert!(server.accounts.lock().contains(&"a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_one_token() {
    let server = Server::default();
    let client = identities(&server, true)
        .controller("a", (1.0, 1))
        .await
        .unwrap();
    let get = || client.get(&PODS, "kube-system", "x");
    let (a, b, c) = tokio::join!(get(), get(), get());
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(*server.issued.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn leader_election_has_a_rate_limit_of_its_own() {
    let server = Server::default();
    let clock = runtime::clock::following_tokio(Time::from_unix(NOW));
    let identities = Identities::new(server.transport(), None, &connection(), true, None, clock);
    let others = identities.own("shared-informers");
    // As leader election makes it: on the same connection, with no flow but its own.
    let election = Client::new(server.transport());
    let namespace = api::ResourceType::cluster("", "v1", "namespaces", "Namespace");
    let started = tokio::time::Instant::now();
    let crowd = futures_util::future::join_all((0..100).map(|_| others.get(&namespace, "", "a")));
    let renewal = async {
        // The others were first.
        tokio::task::yield_now().await;
        election.get(&namespace, "", "a").await.unwrap();
        started.elapsed()
    };
    let (_, waited) = tokio::join!(crowd, renewal);
    assert_eq!(waited, Duration::ZERO);
    // 30 at once and 20 a second: the others have waited.
    assert_eq!(started.elapsed().as_millis(), 3500);
}
