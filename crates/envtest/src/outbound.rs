//! Calls of the API server: to webhooks, and to the servers behind APIServices. The transports are those by which a
//! controller manager reaches its API server; what failed is told in the words of Go's client, because users look for
//! them.

use std::path::Path;
use std::sync::Arc;

use apiserver::outbound::{Backend, Outbound, Target};
use apiserver::{Body, BoxError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::config::{Auth, ClientCertificate, Config, Environment, Material, Server, TlsSettings};
use client::https::ConnectError;
use futures_util::future::BoxFuture;
use http::uri::{Authority, Scheme};
use http::{Request, Response};
use parking_lot::Mutex;

/// So many places are called at the same time by any sensible configuration; beyond that, connections are recreated.
const MAX_TRANSPORTS: usize = 64;

/// Keeps a transport for each place that is called.
pub struct Caller {
    clock: api::Clock,
    open: Mutex<Vec<(Target, client::Transport)>>,
}

impl Caller {
    pub fn new(clock: api::Clock) -> Arc<Caller> {
        let open = Mutex::default();
        Arc::new(Caller { clock, open })
    }

    fn transport(&self, target: &Target) -> Result<client::Transport, BoxError> {
        let mut open = self.open.lock();
        if let Some((_, transport)) = open.iter().find(|(known, _)| known == target) {
            return Ok(transport.clone());
        }
        let transport = client::https::transport(config(target)?, self.clock.clone())?;
        if open.len() == MAX_TRANSPORTS {
            open.remove(0);
        }
        open.push((target.clone(), transport.clone()));
        Ok(transport)
    }
}

impl Outbound for Caller {
    fn call(
        &self,
        target: Target,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        let transport = self.transport(&target);
        Box::pin(async move {
            use tower::ServiceExt;
            let called = transport?.oneshot(request).await;
            called.map_err(|error| in_go(&target, &error).into())
        })
    }
}

/// The server that a kubeconfig names. Its files are read once.
pub fn backend(kubeconfig: &str) -> Result<Backend, String> {
    let environment = Environment::of_process();
    let path = Path::new(kubeconfig);
    let config = Config::from_flags(Some(path), None, &environment);
    let config = config.map_err(|why| why.to_string())?;
    let cannot = |what: &str| format!("{kubeconfig}: {what} cannot be used for webhooks");
    if config.proxy.is_some() {
        return Err(cannot("a proxy"));
    }
    let authorization = match config.auth {
        Auth::None => None,
        Auth::Token(token) => Some(format!("Bearer {token}")),
        Auth::Basic { username, password } => {
            let credentials = STANDARD.encode(format!("{username}:{password}"));
            Some(format!("Basic {credentials}"))
        }
        Auth::TokenFile(_) => return Err(cannot("a file with a token")),
        Auth::Exec(_) => return Err(cannot("a command for credentials")),
    };
    let server = &config.server;
    let authority = match server.authority.port() {
        Some(_) => server.authority.to_string(),
        None => format!("{}:{}", server.authority, server.port()),
    };
    let TlsSettings {
        authorities,
        client,
        server_name,
        insecure,
    } = config.tls;
    let identity = match client {
        Some(client) => Some((pem(client.certificate)?, pem(client.key)?)),
        None => None,
    };
    Ok(Backend {
        origin: format!("{}://{}", server.scheme, server.authority),
        path: match server.prefix.as_str() {
            "" => "/".to_owned(),
            prefix => prefix.to_owned(),
        },
        authorization,
        target: Target {
            is_https: server.is_https(),
            authority,
            server_name,
            authorities: authorities.map(pem).transpose()?,
            insecure,
            identity,
        },
    })
}

fn pem(material: Material) -> Result<Bytes, String> {
    match material {
        Material::Inline(pem) => Ok(Bytes::from(pem)),
        Material::File(path) => match std::fs::read(&path) {
            Ok(pem) => Ok(Bytes::from(pem)),
            Err(why) => Err(format!("cannot read {}: {why}", path.display())),
        },
    }
}

fn config(target: &Target) -> Result<Config, BoxError> {
    let inline = |pem: &Bytes| Material::Inline(pem.to_vec());
    let scheme = match target.is_https {
        true => Scheme::HTTPS,
        false => Scheme::HTTP,
    };
    let client = target
        .identity
        .as_ref()
        .map(|(certificate, key)| ClientCertificate {
            certificate: inline(certificate),
            key: inline(key),
        });
    Ok(Config {
        server: Server {
            scheme,
            authority: Authority::try_from(target.authority.as_str())?,
            prefix: String::new(),
        },
        tls: TlsSettings {
            authorities: target.authorities.as_ref().map(inline),
            client,
            server_name: target.server_name.clone(),
            insecure: target.insecure,
        },
        auth: Auth::None,
        impersonate: None,
        proxy: None,
        namespace: None,
    })
}

/// Why a call failed, as Go says it.
fn in_go(target: &Target, error: &BoxError) -> String {
    const VERIFY: &str = "tls: failed to verify certificate: x509:";
    let host = target.authority.as_str();
    let name = target.server_name.as_deref();
    let name = name.unwrap_or_else(|| host.rsplit_once(':').map_or(host, |(name, _)| name));
    match ConnectError::behind(error.as_ref()) {
        Some(ConnectError::Unreachable { source, .. }) => {
            format!("dial tcp {host}: connect: {}", reason(source))
        }
        Some(ConnectError::TimedOut { .. }) => format!("dial tcp {host}: i/o timeout"),
        Some(ConnectError::UnknownAuthority { .. }) => {
            format!("{VERIFY} certificate signed by unknown authority")
        }
        Some(ConnectError::Expired { .. } | ConnectError::NotYetValid { .. }) => {
            format!("{VERIFY} certificate has expired or is not yet valid")
        }
        Some(ConnectError::WrongName { .. }) => {
            format!("{VERIFY} certificate is not valid for {name}")
        }
        Some(ConnectError::NotTls { .. }) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(other) => other.to_string(),
        None => client::describe(error.as_ref()),
    }
}

fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        ErrorKind::HostUnreachable => "no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Rng;
    use apiserver::pki::{Pki, Validity};
    use apiserver::serve::{Limits, Spawner, serve};
    use apiserver::{ApiServer, Authorities, Options, Tls};
    use connections::request_header::{HeaderNames, RequestHeader};
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    /// A server of our own over TLS, until the test ends.
    async fn served(tls: Tls) -> (ApiServer, String) {
        let mut options = Options::in_memory(runtime::clock::wall(), Rng::from_seed(1));
        options.outbound = Some(Caller::new(runtime::clock::wall()));
        let server = ApiServer::open(options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let serving = server.clone();
        let limits = Limits {
            total: 100,
            per_peer: 100,
        };
        let spawner = Spawner::new(|connection| runtime::spawn(connection).detach());
        let running = async move {
            let end = std::future::pending();
            serve(serving, listener, tls, spawner, limits, end).await;
        };
        runtime::spawn(running).detach();
        (server, authority)
    }

    fn target(pki: &Pki, authority: &str) -> Target {
        Target {
            is_https: true,
            authority: authority.to_owned(),
            authorities: Some(Bytes::from(pki.ca_certificate.clone())),
            ..Target::default()
        }
    }

    async fn get(caller: &Caller, target: Target) -> String {
        let request = Request::get("/healthz").body(Bytes::new()).unwrap();
        match caller.call(target, request).await {
            Ok(answer) => {
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                String::from_utf8_lossy(&body).into_owned()
            }
            Err(why) => why.to_string(),
        }
    }

    #[tokio::test]
    async fn failures_are_told_as_go_tells_them() {
        let pki = Pki::generate(&[], Validity::for_tests()).unwrap();
        let (_, authority) = served(pki.tls().unwrap()).await;
        let caller = Caller::new(runtime::clock::wall());
        assert_eq!(get(&caller, target(&pki, &authority)).await, "ok");
        let other = Pki::generate(&[], Validity::for_tests()).unwrap();
        assert_eq!(
            get(&caller, target(&other, &authority)).await,
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        );
        let mut trusting = target(&other, &authority);
        trusting.insecure = true;
        assert_eq!(get(&caller, trusting).await, "ok");
        // UPSTREAM: a bundle may hold the server's own certificate in place of its authority's.
        let mut itself = target(&pki, &authority);
        itself.authorities = Some(Bytes::from(pki.server_certificate.clone()));
        assert_eq!(get(&caller, itself.clone()).await, "ok");
        itself.server_name = Some("hooks.default.svc".to_owned());
        assert_eq!(
            get(&caller, itself).await,
            "tls: failed to verify certificate: x509: certificate is not valid for hooks.default.svc"
        );
        let mut named = target(&pki, &authority);
        named.server_name = Some("hooks.default.svc".to_owned());
        assert_eq!(
            get(&caller, named).await,
            "tls: failed to verify certificate: x509: certificate is not valid for hooks.default.svc"
        );
        // Nobody listens on a port that was free a moment ago.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = listener.local_addr().unwrap().to_string();
        drop(listener);
        assert_eq!(
            get(&caller, target(&pki, &closed)).await,
            format!("dial tcp {closed}: connect: connection refused")
        );
    }

    async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.body(Bytes::from(body.to_string())).unwrap();
        let admin = apiserver::auth::Identity::admin();
        let answer = server.handle(request, admin).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[test]
    fn a_kubeconfig_names_a_server_for_a_webhook() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let read = |server: &str, cluster: &str, user: &str| {
            let kubeconfig = format!(
                "current-context: c
contexts: [{{name: c, context: {{cluster: s, user: u}}}}]
clusters: [{{name: s, cluster: {{server: '{server}'{cluster}}}}}]
users: [{{name: u, user: {{{user}}}}}]
"
            );
            backend(&file("kubeconfig", &kubeconfig))
        };
        file("ca.pem", "an authority");
        let ca = ", certificate-authority: ca.pem";
        let found = read("https://images.example.com/policy", ca, "token: secret").unwrap();
        let target = Target {
            is_https: true,
            authority: "images.example.com:443".to_owned(),
            authorities: Some(Bytes::from("an authority")),
            ..Target::default()
        };
        let expected = Backend {
            target,
            origin: "https://images.example.com".to_owned(),
            path: "/policy".to_owned(),
            authorization: Some("Bearer secret".to_owned()),
        };
        assert_eq!(found, expected);
        let found = read("https://[::1]", "", "username: a, password: b").unwrap();
        assert_eq!(found.target.authority, "[::1]:443");
        assert_eq!(
            (found.origin.as_str(), found.path.as_str()),
            ("https://[::1]", "/")
        );
        assert_eq!(found.authorization.as_deref(), Some("Basic YTpi"));
        let lost = read("https://a", ", certificate-authority: none.pem", "");
        assert!(lost.unwrap_err().contains("none.pem: No such file"));
        let proxied = read("https://a", ", proxy-url: 'http://p:1'", "");
        assert!(
            proxied
                .unwrap_err()
                .ends_with("a proxy cannot be used for webhooks")
        );
        let of_file = read("https://a", "", "tokenFile: t");
        assert!(
            of_file
                .unwrap_err()
                .ends_with("a file with a token cannot be used for webhooks")
        );
    }

    /// TLS of an extension server, which believes the front proxy of another about its users.
    fn believing(pki: &Pki, front: &Tls) -> Tls {
        let proxy = front.front_proxy.as_ref().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &proxy.authority).unwrap();
        let certificates = manager::files::read_certificates("file", file.path()).unwrap();
        let list = |name: &str| vec![name.to_owned()];
        let names = HeaderNames {
            allowed: list("front-proxy-client"),
            username: list("X-Remote-User"),
            uid: list("X-Remote-Uid"),
            group: list("X-Remote-Group"),
            extra_prefixes: list("X-Remote-Extra-"),
        };
        let roots = connections::certificate::roots(certificates).unwrap();
        let authorities = Authorities {
            clients: None,
            proxies: Some((RequestHeader { roots, names }, proxy.authority.clone())),
        };
        Tls::new(pki.tls().unwrap().config, authorities)
    }

    /// One server behind another: over TLS, by an APIService and a Service that leads here.
    #[tokio::test]
    async fn a_server_stands_behind_another() {
        let names = ["behind.default.svc".to_owned()];
        let pki = Pki::generate(&names, Validity::for_tests()).unwrap();
        let tls = pki.tls().unwrap();
        let (behind, authority) = served(believing(&pki, &tls)).await;
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "flunders.wardle.example.com"},
            "spec": {"group": "wardle.example.com", "scope": "Cluster",
                "names": {"plural": "flunders", "singular": "flunder", "kind": "Flunder", "listKind": "FlunderList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(send(&behind, "POST", definitions, definition).await.0, 201);
        let (front, place) = served(tls).await;
        // Once it answers, it has its identity.
        let caller = Caller::new(runtime::clock::wall());
        assert_eq!(get(&caller, target(&pki, &place)).await, "ok");
        let service = json!({"metadata": {"name": "behind"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
        let services = "/api/v1/namespaces/default/services";
        assert_eq!(send(&front, "POST", services, service).await.0, 201);
        let port: u16 = authority.rsplit_once(':').unwrap().1.parse().unwrap();
        use base64::Engine;
        let bundle = base64::engine::general_purpose::STANDARD.encode(&pki.ca_certificate);
        let api_service = json!({"metadata": {"name": "v1.wardle.example.com"}, "spec": {
            "group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": bundle, "service": {"namespace": "default", "name": "behind", "port": port}}});
        let api_services = "/apis/apiregistration.k8s.io/v1/apiservices";
        assert_eq!(send(&front, "POST", api_services, api_service).await.0, 201);
        front.check_api_services().await;
        let path = format!("{api_services}/v1.wardle.example.com");
        let (_, found) = send(&front, "GET", &path, Value::Null).await;
        let condition = &found["status"]["conditions"][0];
        assert_eq!(condition["message"], "all checks passed", "{found}");
        let flunders = "/apis/wardle.example.com/v1/flunders";
        let flunder = json!({"apiVersion": "wardle.example.com/v1", "kind": "Flunder", "metadata": {"name": "f"}});
        let (code, created) = send(&front, "POST", flunders, flunder).await;
        assert_eq!(code, 201, "{created}");
        let (_, there) = send(&behind, "GET", &format!("{flunders}/f"), Value::Null).await;
        assert_eq!(there["metadata"]["uid"], created["metadata"]["uid"]);
    }

    /// A server behind another that speaks a protocol of its own at one path, and says who its caller is.
    async fn echoing(pki: &Pki) -> u16 {
        use hyper::body::Incoming;
        use hyper_util::rt::{TokioExecutor, TokioIo};
        use hyper_util::server::conn::auto;
        let acceptor = tokio_rustls::TlsAcceptor::from(pki.tls().unwrap().config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = |mut request: Request<Incoming>| async move {
            let full = |text: &str| http_body_util::Full::new(Bytes::from(text.to_owned()));
            let path = request.uri().path().to_owned();
            let mut answer = Response::new(full(
                r#"{"kind":"APIResourceList","apiVersion":"v1","resources":[]}"#,
            ));
            if path.ends_with("/refused") {
                *answer.status_mut() = http::StatusCode::BAD_REQUEST;
                *answer.body_mut() = full("no");
            } else if path.ends_with("/echo") {
                let headers = request.headers().clone();
                let said = format!("{:?} {:?};", headers["upgrade"], headers["x-remote-user"]);
                let upgrade = hyper::upgrade::on(&mut request);
                runtime::spawn(async move {
                    use tokio::io::{AsyncReadExt, AsyncWriteExt};
                    let mut stream = TokioIo::new(upgrade.await.unwrap());
                    stream.write_all(said.as_bytes()).await.unwrap();
                    let mut heard = [0; 5];
                    stream.read_exact(&mut heard).await.unwrap();
                    stream.write_all(&heard).await.unwrap();
                    stream.shutdown().await.unwrap();
                })
                .detach();
                *answer.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
                let headers = answer.headers_mut();
                headers.insert("connection", http::HeaderValue::from_static("Upgrade"));
                headers.insert("upgrade", http::HeaderValue::from_static("echo/1"));
                *answer.body_mut() = full("");
            }
            Ok::<_, std::convert::Infallible>(answer)
        };
        let running = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                let serving = async move {
                    let stream = TokioIo::new(acceptor.accept(stream).await?);
                    let service = hyper::service::service_fn(answer);
                    let builder = auto::Builder::new(TokioExecutor::new());
                    builder
                        .serve_connection_with_upgrades(stream, service)
                        .await
                };
                runtime::spawn(async move { drop(serving.await) }).detach();
            }
        };
        runtime::spawn(running).detach();
        port
    }

    /// Whoever upgrades a connection to a server behind this one speaks with it.
    #[tokio::test]
    async fn connections_are_upgraded_through_an_api_service() {
        use hyper::upgrade::OnUpgrade;
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let pki = Pki::generate(&[], Validity::for_tests()).unwrap();
        let port = echoing(&pki).await;
        let (front, place) = served(pki.tls().unwrap()).await;
        let service = json!({"metadata": {"name": "behind"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
        let services = "/api/v1/namespaces/default/services";
        assert_eq!(send(&front, "POST", services, service).await.0, 201);
        let api_service = json!({"metadata": {"name": "v1.wardle.example.com"}, "spec": {
            "group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "behind", "port": port}}});
        let api_services = "/apis/apiregistration.k8s.io/v1/apiservices";
        assert_eq!(send(&front, "POST", api_services, api_service).await.0, 201);
        front.check_api_services().await;
        let caller = Caller::new(runtime::clock::wall());
        let ask = async |name: &str| {
            let mut target = target(&pki, &place);
            let identity = [&pki.admin_certificate, &pki.admin_key];
            let [certificate, key] = identity.map(|pem| Bytes::from(pem.clone()));
            target.identity = Some((certificate, key));
            let path = format!("/apis/wardle.example.com/v1/namespaces/default/flunders/f/{name}");
            let request = Request::get(path)
                .header("connection", "Upgrade")
                .header("upgrade", "echo/1")
                .body(Bytes::new());
            caller.call(target, request.unwrap()).await.unwrap()
        };
        let mut answer = ask("echo").await;
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.headers()["upgrade"], "echo/1");
        let upgrade = answer.extensions_mut().remove::<OnUpgrade>().unwrap();
        let mut stream = hyper_util::rt::TokioIo::new(upgrade.await.unwrap());
        stream.write_all(b"hello").await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "\"echo/1\" \"kubernetes-admin\";hello");
        // Who refuses says why.
        let answer = ask("refused").await;
        assert_eq!(answer.status(), 400);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], b"no");
    }
}
