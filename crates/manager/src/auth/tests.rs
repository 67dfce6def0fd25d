use parking_lot::Mutex;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tower::util::BoxCloneSyncService;

use std::time::Duration;

use super::*;
use crate::options::{Command, Options};

/// A certificate authority for tests.
struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Ca {
    fn new(name: &str) -> Ca {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Ca {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn sign(&self, name: &str, groups: &[&str]) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.signed_by(&key, &self.issuer).unwrap().der().clone()
    }
}

/// An API server that answers reviews and one ConfigMap, and counts what it is asked.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<String>>>,
    config_map: Arc<Mutex<Option<serde_json::Value>>>,
}

impl Server {
    fn client(&self) -> client::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Bytes>| {
            let (code, body) = server.answer(&request);
            async move {
                let body = Full::new(Bytes::from(body))
                    .map_err(|never| match never {})
                    .boxed_unsync();
                Ok::<_, client::BoxError>(
                    http::Response::builder().status(code).body(body).unwrap(),
                )
            }
        });
        client::Client::new(BoxCloneSyncService::new(service))
    }

    fn answer(&self, request: &http::Request<Bytes>) -> (u16, String) {
        let path = request.uri().path();
        self.asked
            .lock()
            .push(format!("{} {path}", request.method()));
        let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let status =
            |value: serde_json::Value| (201, serde_json::json!({ "status": value }).to_string());
        match path {
            "/apis/authentication.k8s.io/v1/tokenreviews" => match body["spec"]["token"].as_str() {
                Some("good") => status(serde_json::json!({
                    "authenticated": true, "user": {"username": "alice", "uid": "u1", "groups": ["readers"]}
                })),
                _ => status(serde_json::json!({"authenticated": false})),
            },
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let spec = &body["spec"];
                let allowed = spec["user"] == "alice"
                    && spec["nonResourceAttributes"]
                        == serde_json::json!({"path": "/metrics", "verb": "get"})
                    && spec["groups"]
                        .as_array()
                        .unwrap()
                        .contains(&"system:authenticated".into());
                status(serde_json::json!({"allowed": allowed}))
            }
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication" => {
                match &*self.config_map.lock() {
                    Some(data) => (
                        200,
                        serde_json::json!({ "metadata": {}, "data": data }).to_string(),
                    ),
                    None => (
                        404,
                        r#"{"kind":"Status","code":404,"reason":"NotFound","message":"not found"}"#
                            .into(),
                    ),
                }
            }
            other => panic!("unexpected request {other}"),
        }
    }

    fn count(&self) -> usize {
        self.asked.lock().len()
    }
}

fn options() -> Options {
    match Options::parse(Vec::<String>::new(), "x") {
        Ok(Command::Run(options)) => *options,
        other => panic!("{other:?}"),
    }
}

/// An auth whose CAs come from the ConfigMap.
async fn auth(server: &Server, client_ca: &Ca, proxy_ca: &Ca) -> Auth {
    *server.config_map.lock() = Some(serde_json::json!({
        "client-ca-file": client_ca.pem,
        "requestheader-client-ca-file": proxy_ca.pem,
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
    }));
    let options = options();
    let source = AuthoritySource::new(&options.authentication, Some(server.client()));
    let authorities = Authorities::load(source, false).await.unwrap();
    // Within the lifetime of the certificates that the test library makes.
    let clock = api::Clock::fixed(api::Time::from_unix(1_794_716_493));
    let client = Some(server.client());
    Auth::new(
        &options.authentication,
        &options.authorization,
        authorities,
        clock,
        client.clone(),
        client,
        false,
    )
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
        .collect()
}

async fn check(
    auth: &Auth,
    peer: &[CertificateDer<'_>],
    sent: &[(&'static str, &str)],
    path: &str,
    expected: &str,
) {
    let actual = match auth.admit(peer, &headers(sent), "get", path).await {
        Ok(user) => format!("{} {}", user.name, user.groups.join(",")),
        Err(denied) => denied.to_string(),
    };
    assert_eq!(actual, expected);
}

#[tokio::test(start_paused = true)]
async fn anyone_may_read_health_and_nothing_more() {
    let (server, ca, proxy) = (Server::default(), Ca::new("ca"), Ca::new("proxy"));
    let auth = auth(&server, &ca, &proxy).await;
    let asked = server.count();
    check(
        &auth,
        &[],
        &[],
        "/healthz",
        "system:anonymous system:unauthenticated",
    )
    .await;
    assert_eq!(server.count(), asked, "the API server was not asked");
    check(
        &auth,
        &[],
        &[],
        "/metrics",
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
    )
    .await;
    check(
        &auth,
        &[],
        &[],
        "/healthz/x",
        "forbidden: User \"system:anonymous\" cannot get path \"/healthz/x\"",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn tokens_are_reviewed_and_answers_kept() {
    let (server, ca, proxy) = (Server::default(), Ca::new("ca"), Ca::new("proxy"));
    let auth = auth(&server, &ca, &proxy).await;
    let before = server.count();
    for _ in 0..3 {
        check(
            &auth,
            &[],
            &[("authorization", "Bearer good")],
            "/metrics",
            "alice readers,system:authenticated",
        )
        .await;
    }
    assert_eq!(
        server.count() - before,
        2,
        "one token review and one access review"
    );
    tokio::time::advance(Duration::from_secs(11)).await;
    check(
        &auth,
        &[],
        &[("authorization", "bearer good")],
        "/metrics",
        "alice readers,system:authenticated",
    )
    .await;
    assert_eq!(server.count() - before, 4, "answers expire");
    check(
        &auth,
        &[],
        &[("authorization", "Bearer bad")],
        "/healthz",
        "invalid bearer token",
    )
    .await;
    check(
        &auth,
        &[],
        &[("authorization", "Bearer good")],
        "/configz",
        "forbidden: User \"alice\" cannot get path \"/configz\"",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn certificates_name_user_and_groups() {
    let (server, ca, proxy) = (Server::default(), Ca::new("ca"), Ca::new("proxy"));
    let auth = auth(&server, &ca, &proxy).await;
    let admin = ca.sign("kubernetes-admin", &["system:masters"]);
    check(
        &auth,
        &[admin],
        &[],
        "/metrics",
        "kubernetes-admin system:masters,system:authenticated",
    )
    .await;
    let stranger = Ca::new("other").sign("kubernetes-admin", &["system:masters"]);
    let error = auth
        .admit(&[stranger], &HeaderMap::new(), "get", "/metrics")
        .await
        .unwrap_err();
    assert!(matches!(error, Denied::Unauthorized(_)), "{error}");
    let nameless = ca.sign("", &["system:masters"]);
    assert!(matches!(
        auth.admit(&[nameless], &HeaderMap::new(), "get", "/").await,
        Err(Denied::Unauthorized(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn proxies_speak_for_users() {
    let (server, ca, proxy) = (Server::default(), Ca::new("ca"), Ca::new("proxy"));
    let auth = auth(&server, &ca, &proxy).await;
    let front = proxy.sign("front-proxy-client", &[]);
    let sent = [
        ("x-remote-user", "carol"),
        ("x-remote-group", "system:masters"),
    ];
    check(
        &auth,
        &[front],
        &sent,
        "/metrics",
        "carol system:masters,system:authenticated",
    )
    .await;
    // Neither a proxy of another name nor a user's certificate may use the headers.
    for peer in [
        proxy.sign("other", &[]),
        Ca::new("x").sign("front-proxy-client", &[]),
    ] {
        let result = auth
            .admit(&[peer], &headers(&sent), "get", "/metrics")
            .await;
        assert!(matches!(result, Err(Denied::Unauthorized(_))), "{result:?}");
    }
    let user = ca.sign("dave", &[]);
    check(
        &auth,
        &[user],
        &sent,
        "/metrics",
        "forbidden: User \"dave\" cannot get path \"/metrics\"",
    )
    .await;
    check(
        &auth,
        &[],
        &sent,
        "/metrics",
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_lookup_is_fatal_unless_tolerated() {
    let server = Server::default();
    let source = || AuthoritySource::new(&options().authentication, Some(server.client()));
    let error = Authorities::load(source(), false)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with(
            "--authentication-kubeconfig: cannot read ConfigMap kube-system/extension-"
        ),
        "{error}"
    );
    assert!(Authorities::load(source(), true).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_not_up_yet_is_waited_for() {
    let dead = tower::service_fn(|_: http::Request<Bytes>| {
        std::future::ready(Err::<http::Response<client::Body>, client::BoxError>(
            "refused".into(),
        ))
    });
    let dead = client::Client::new(BoxCloneSyncService::new(dead));
    let source = AuthoritySource::new(&options().authentication, Some(dead));
    assert!(Authorities::load(source, false).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn without_reviewers_only_masters_read_more() {
    let ca = Ca::new("ca");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.crt");
    std::fs::write(&path, &ca.pem).unwrap();
    let mut options = options();
    options.authentication.client_ca_file = Some(path);
    let source = AuthoritySource::new(&options.authentication, None);
    let authorities = Authorities::load(source, false).await.unwrap();
    let clock = api::Clock::fixed(api::Time::from_unix(1_794_716_493));
    let auth = Auth::new(
        &options.authentication,
        &options.authorization,
        authorities,
        clock,
        None,
        None,
        false,
    );
    check(
        &auth,
        &[ca.sign("a", &["system:masters"])],
        &[],
        "/metrics",
        "a system:masters,system:authenticated",
    )
    .await;
    check(
        &auth,
        &[ca.sign("b", &[])],
        &[],
        "/metrics",
        "forbidden: User \"b\" cannot get path \"/metrics\"",
    )
    .await;
    check(
        &auth,
        &[],
        &[("authorization", "Bearer good")],
        "/metrics",
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
    )
    .await;
}
