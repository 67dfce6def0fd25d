//! The whole port over real TLS on the loopback interface.

use std::future::Future;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::TlsConnector;

use super::*;
use crate::auth::{Authorities, AuthoritySource};
use crate::logging::Verbosity;
use crate::metrics::ProcessMetrics;
use crate::options::{Command, Options};

/// Trusts any server: what is tested is the server's opinion of the client.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

struct World {
    address: SocketAddr,
    verbosity: Arc<Verbosity>,
    admin: Pair,
    stranger: Pair,
}

fn authority() -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

fn sign(issuer: &Issuer<'static, KeyPair>) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "admin");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    (
        certificate,
        PrivateKeyDer::Pkcs8(key.serialize_der().into()),
    )
}

/// Serves with these flags while `test` runs.
async fn serving<F: Future<Output = ()>>(flags: &[&str], test: impl FnOnce(World) -> F) {
    let Ok(Command::Run(mut options)) = Options::parse(flags.iter().copied(), "x") else {
        panic!()
    };
    options.serving.address = Some("127.0.0.1:0".parse().unwrap());
    let (issuer, pem) = authority();
    let name = format!("steersman-serving-{}-{:p}.crt", std::process::id(), &pem);
    let ca_file = std::env::temp_dir().join(name);
    std::fs::write(&ca_file, pem).unwrap();
    options.authentication.client_ca_file = Some(ca_file.clone());
    let clock = api::Clock::fixed(api::Time::from_unix(1_794_716_493));
    let source = AuthoritySource::new(&options.authentication, None);
    let authorities = Authorities::load(source, false).await.unwrap();
    std::fs::remove_file(ca_file).unwrap();
    let (authn, authz) = (&options.authentication, &options.authorization);
    let auth = Auth::new(authn, authz, authorities, clock.clone(), None, None, false);
    let router = Arc::new(Router::default());
    let verbosity = Arc::new(Verbosity::new(0, &[]));
    let health = Arc::new(Health::default());
    health.add("ping", &Endpoint::ALL, || Ok(()));
    let metrics = ProcessMetrics::new(
        runtime::Metrics::new(),
        options.metrics.clone(),
        &options.gates,
    );
    let serving_options = options.serving.clone();
    let pages = Pages {
        options: Arc::new(*options),
        health,
        metrics: Arc::new(metrics),
        verbosity: Arc::clone(&verbosity),
        clock: clock.clone(),
        started: api::Time::from_unix(1_794_712_492),
    };
    register(&router, pages);
    router.handle("/panic", |_| panic!("on purpose"));
    router.mount("/pages/", Arc::new(PagesOfOurs));
    let server = Server::bind(&serving_options, clock, Arc::new(auth), router)
        .unwrap()
        .unwrap();
    let address = server.address().unwrap();
    let world = World {
        address,
        verbosity,
        admin: sign(&issuer),
        stranger: sign(&authority().0),
    };
    tokio::select! {
        () = server.run() => panic!("the server ended"),
        () = test(world) => {}
    }
}

/// Says whom it was told of, and turns others away in its own words.
struct PagesOfOurs;

impl Mounted for PagesOfOurs {
    fn authorization(&self, headers: &http::HeaderMap) -> Option<HeaderValue> {
        headers.get("accept").cloned()
    }

    fn answer(
        &self,
        user: &crate::auth::User,
        request: http::Request<Bytes>,
    ) -> futures_util::future::BoxFuture<'_, Response<Body>> {
        let shown = request.headers().get(header::AUTHORIZATION).cloned();
        let told = format!("{} {shown:?}", user.name);
        async move { Response::new(whole(told.into())) }.boxed()
    }

    fn turn_away(&self, path: &str, denied: &Denied) -> Option<Response<Body>> {
        let form = text(StatusCode::FORBIDDEN, format!("a form: {denied}"));
        (path == "/pages/").then(|| form.map(whole))
    }
}

#[tokio::test]
async fn what_is_mounted_is_behind_the_same_gate() {
    serving(&[], |world| async move {
        let answer = world.get(Some(&world.admin), "/pages/x").await;
        assert_eq!((answer.code, answer.body.as_str()), (200, "admin None"));
        let answer = world.get(None, "/pages/").await;
        assert_eq!(answer.code, 403);
        let told = "a form: forbidden: User \"system:anonymous\" cannot get path \"/pages/\"";
        assert_eq!(answer.body, told);
        let answer = world.get(None, "/pages/x").await;
        assert!(
            answer.body.contains("\"kind\":\"Status\""),
            "{}",
            answer.body
        );
        // What a cookie stands for is reviewed as if it had been sent.
        let sent = world.send(
            Some(&world.admin),
            b"http/1.1",
            "GET",
            "/pages/x",
            "",
            Some("Bearer t"),
        );
        assert_eq!(sent.await.unwrap().body, "admin Some(\"Bearer t\")");
    })
    .await;
}

struct Answer {
    code: u16,
    version: http::Version,
    headers: http::HeaderMap,
    body: String,
}

impl World {
    async fn get(&self, pair: Option<&Pair>, path: &str) -> Answer {
        self.send(pair, b"http/1.1", "GET", path, "", None)
            .await
            .unwrap()
    }

    async fn send(
        &self,
        pair: Option<&Pair>,
        protocol: &[u8],
        method: &str,
        path: &str,
        body: &str,
        accept: Option<&str>,
    ) -> Result<Answer, client::BoxError> {
        let versions: &[_] = match path.contains("tls12") {
            true => &[&rustls::version::TLS12],
            false => &[&rustls::version::TLS13],
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trusting));
        let mut config = match pair {
            Some((certificate, key)) => {
                builder.with_client_auth_cert(vec![certificate.clone()], key.clone_key())?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        let uri = format!("https://localhost{path}");
        let mut request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("host", "localhost");
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned())))?;
        let io = TokioIo::new(stream);
        let response = if protocol == b"h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            tokio::select! {
                response = sender.send_request(request) => response?,
                ended = connection => { ended?; return Err("the connection ended".into()) }
            }
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
            let mut connection = std::pin::pin!(connection);
            let exchange = async {
                let response = sender.send_request(request).await?;
                let (parts, body) = response.into_parts();
                Ok::<_, client::BoxError>((parts, body.collect().await?.to_bytes()))
            };
            let mut exchange = std::pin::pin!(exchange);
            let mut open = true;
            let (parts, body) = loop {
                tokio::select! {
                    done = &mut exchange => break done?,
                    _ = &mut connection, if open => open = false,
                }
            };
            return Ok(Answer {
                code: parts.status.as_u16(),
                version: parts.version,
                headers: parts.headers,
                body: String::from_utf8(body.to_vec())?,
            });
        };
        Ok(Answer {
            code: response.status().as_u16(),
            version: response.version(),
            headers: response.headers().clone(),
            body: String::new(),
        })
    }
}

#[tokio::test]
async fn anyone_reads_health_and_nothing_more() {
    serving(&[], |world| async move {
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = world.get(None, path).await;
            assert_eq!((answer.code, answer.body.as_str()), (200, "ok"), "{path}");
            assert_eq!(answer.headers["cache-control"], "no-cache, private");
        }
        for path in [
            "/metrics",
            "/metrics/slis",
            "/configz",
            "/flagz",
            "/statusz",
            "/debug/flags/v",
            "/nope",
        ] {
            let answer = world.get(None, path).await;
            assert_eq!(answer.code, 403, "{path}");
            let status: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            let expected =
                format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
            assert_eq!(status["message"], expected);
        }
        let answer = world.get(Some(&world.stranger), "/healthz").await;
        assert_eq!(answer.code, 401, "a certificate that nobody we know signed");
        assert!(
            answer.body.contains("\"message\":\"Unauthorized\""),
            "{}",
            answer.body
        );
    })
    .await;
}

#[tokio::test]
async fn masters_read_everything() {
    serving(&["--v=2"], |world| async move {
        let admin = Some(&world.admin);
        for (path, expected) in [
            ("/metrics", "# TYPE kubernetes_build_info gauge"),
            ("/configz", "\"apiVersion\":\"kubecontrollermanager.config.k8s.io/v1alpha1\""),
            ("/flagz", "\nsecure-port=10257\n"),
            ("/statusz", "Up: 1 hr 06 min 41 sec"),
            ("/healthz?verbose", "[+]ping ok\nhealthz check passed\n"),
            ("/metrics/slis", "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1"),
        ] {
            let answer = world.get(admin, path).await;
            assert_eq!(answer.code, 200, "{path}");
            assert!(answer.body.contains(expected), "{path}: {}", answer.body);
        }
        assert_eq!(world.get(admin, "/nope").await.code, 404);
        assert_eq!(world.get(admin, "/panic").await.code, 500);
        assert_eq!(world.get(admin, "/healthz").await.code, 200, "a panic ends one request only");
    })
    .await;
}

#[tokio::test]
async fn verbosity_is_set_by_put() {
    serving(&[], |world| async move {
        let put = |body: &'static str| {
            world.send(
                Some(&world.admin),
                b"http/1.1",
                "PUT",
                "/debug/flags/v",
                body,
                None,
            )
        };
        let answer = put("4").await.unwrap();
        assert_eq!(
            (answer.code, answer.body.as_str()),
            (200, "successfully set klog.logging.verbosity to 4")
        );
        assert_eq!(world.verbosity.get(), 4);
        for wrong in ["", "x", "-1", "99999999999"] {
            assert_eq!(put(wrong).await.unwrap().code, 400, "{wrong:?}");
        }
        assert_eq!(
            world.get(Some(&world.admin), "/debug/flags/v").await.code,
            406
        );
        assert_eq!(world.verbosity.get(), 4);
    })
    .await;
}

#[tokio::test]
async fn pages_have_a_form_for_programs() {
    serving(&[], |world| async move {
        let ask = |path: &'static str, accept: &'static str| {
            world.send(
                Some(&world.admin),
                b"http/1.1",
                "GET",
                path,
                "",
                Some(accept),
            )
        };
        let status = ask(
            "/statusz",
            "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
        )
        .await
        .unwrap();
        let status: serde_json::Value = serde_json::from_str(&status.body).unwrap();
        assert_eq!(status["kind"], "Statusz");
        assert_eq!(status["startTime"], "2026-11-15T03:14:52Z");
        assert_eq!(status["uptimeSeconds"], 4001);
        assert!(
            status["paths"]
                .as_array()
                .unwrap()
                .contains(&"/healthz".into())
        );
        let flags = ask(
            "/flagz",
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        )
        .await
        .unwrap();
        let flags: serde_json::Value = serde_json::from_str(&flags.body).unwrap();
        assert_eq!(flags["flags"]["leader-elect-lease-duration"], "15s");
        for wrong in [
            "application/json",
            "application/yaml",
            "application/json;v=v9;g=config.k8s.io;as=Statusz",
        ] {
            assert_eq!(ask("/statusz", wrong).await.unwrap().code, 406, "{wrong}");
        }
    })
    .await;
}

#[tokio::test]
async fn http2_is_spoken_unless_turned_off() {
    serving(&[], |world| async move {
        let answer = world
            .send(None, b"h2", "GET", "/healthz", "", None)
            .await
            .unwrap();
        assert_eq!((answer.code, answer.version), (200, http::Version::HTTP_2));
    })
    .await;
    serving(&["--disable-http2-serving"], |world| async move {
        assert!(
            world
                .send(None, b"h2", "GET", "/healthz", "", None)
                .await
                .is_err()
        );
        assert_eq!(
            world.get(None, "/healthz").await.version,
            http::Version::HTTP_11
        );
    })
    .await;
}

#[tokio::test]
async fn the_minimum_version_is_kept() {
    serving(&[], |world| async move {
        assert_eq!(world.get(None, "/healthz?tls12").await.code, 200);
    })
    .await;
    serving(&["--tls-min-version=VersionTLS13"], |world| async move {
        let old = world
            .send(None, b"http/1.1", "GET", "/healthz?tls12", "", None)
            .await;
        assert!(old.is_err(), "TLS 1.2 was spoken");
        assert_eq!(world.get(None, "/healthz").await.code, 200);
    })
    .await;
}

#[tokio::test]
async fn bodies_are_bounded() {
    serving(&[], |world| async move {
        let body = "9".repeat(LARGEST_BODY + 1);
        let admin = Some(&world.admin);
        let answer = world
            .send(admin, b"http/1.1", "PUT", "/debug/flags/v", &body, None)
            .await;
        assert!(answer.map_or(true, |answer| answer.code == 413));
    })
    .await;
}

#[tokio::test]
async fn a_port_in_use_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let Ok(Command::Run(options)) = Options::parse(Vec::<String>::new(), "x") else {
        panic!()
    };
    let error = listener::bind(&options.serving, address)
        .unwrap_err()
        .to_string();
    let expected =
        format!("--secure-port: cannot listen on {address}; is another process using the port?");
    assert_eq!(error, expected);
}

#[tokio::test]
async fn gates_hide_pages() {
    serving(
        &["--feature-gates=ComponentStatusz=false"],
        |world| async move {
            assert_eq!(world.get(Some(&world.admin), "/statusz").await.code, 404);
            assert_eq!(world.get(Some(&world.admin), "/flagz").await.code, 200);
        },
    )
    .await;
}

#[tokio::test]
async fn idle_connections_do_not_keep_health_from_being_answered() {
    serving(&[], |world| async move {
        let mut idle = Vec::new();
        for _ in 0..MOST_CONNECTIONS + 50 {
            idle.push(TcpStream::connect(world.address).await.unwrap());
        }
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = world.get(None, path).await;
            assert_eq!(answer.code, 200, "{path}");
        }
        assert_eq!(world.get(Some(&world.admin), "/configz").await.code, 200);
    })
    .await;
}
