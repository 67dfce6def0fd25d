//! A TLS server on loopback that does what a test tells it to.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response, Uri, Version};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::{Body, BoxError};

/// A certificate authority of the test's own.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(super) fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn issue_client(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        self.issue(params)
    }

    fn issue(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (
            params.signed_by(&key, &self.issuer).unwrap().pem(),
            key.serialize_pem(),
        )
    }
}

/// What the test sees of a request.
pub(super) struct Seen {
    /// Counted over the server's life, from 1.
    pub(super) number: usize,
    pub(super) version: Version,
    pub(super) uri: Uri,
    pub(super) client_name: Option<String>,
    headers: http::HeaderMap,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

pub(super) enum Reply {
    Whole(u16, String),
    /// Sends this, then nothing more.
    Part(String),
    /// A head, then nothing.
    Never,
}

impl Reply {
    pub(super) fn text(text: impl Into<String>) -> Reply {
        Reply::Whole(200, text.into())
    }

    pub(super) fn status(code: u16, text: &str) -> Reply {
        Reply::Whole(code, text.to_owned())
    }

    pub(super) fn part(text: impl Into<String>) -> Reply {
        Reply::Part(text.into())
    }

    fn into_response(self) -> Response<Body> {
        let chunk = |text: String| Ok::<_, BoxError>(http_body::Frame::data(Bytes::from(text)));
        let (code, body) = match self {
            Reply::Whole(code, text) => (
                code,
                StreamBody::new(futures_util::stream::iter([chunk(text)])).boxed_unsync(),
            ),
            Reply::Part(text) => {
                let first = futures_util::stream::iter([chunk(text)]);
                let body = StreamBody::new(first.chain(futures_util::stream::pending()));
                (200, body.boxed_unsync())
            }
            Reply::Never => (
                200,
                StreamBody::new(futures_util::stream::pending()).boxed_unsync(),
            ),
        };
        Response::builder().status(code).body(body).unwrap()
    }
}

pub(super) struct TestServer {
    pub(super) address: SocketAddr,
    pub(super) authority: Authority,
    connections: Arc<AtomicUsize>,
    fate: watch::Sender<Fate>,
    /// Ends with the server.
    _tasks: JoinSet<()>,
}

/// What happens to the connections that are open when it is announced.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Live,
    Closed,
    Frozen,
    /// Told to go elsewhere with new requests.
    Leaving,
}

#[derive(Default)]
pub(super) struct Builder {
    http1: bool,
    plain: bool,
    expired: bool,
    ask_for_certificates: bool,
    max_streams: Option<u32>,
    names: Option<Vec<String>>,
}

impl Builder {
    pub(super) fn http1(self) -> Builder {
        Builder {
            http1: true,
            ..self
        }
    }

    pub(super) fn plain(self) -> Builder {
        Builder {
            plain: true,
            http1: true,
            ..self
        }
    }

    pub(super) fn expired(self) -> Builder {
        Builder {
            expired: true,
            ..self
        }
    }

    pub(super) fn ask_for_certificates(self) -> Builder {
        Builder {
            ask_for_certificates: true,
            ..self
        }
    }

    pub(super) fn max_streams(self, max_streams: u32) -> Builder {
        Builder {
            max_streams: Some(max_streams),
            ..self
        }
    }

    pub(super) fn names(self, names: &[&str]) -> Builder {
        Builder {
            names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            ..self
        }
    }

    fn tls(&self, authority: &Authority) -> TlsAcceptor {
        let names = self
            .names
            .clone()
            .unwrap_or_else(|| vec!["127.0.0.1".to_owned()]);
        let mut params = CertificateParams::new(names).unwrap();
        if self.expired {
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let (certificate, key) = authority.issue(params);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if self.ask_for_certificates {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
                .unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = if self.http1 {
            vec![b"http/1.1".to_vec()]
        } else {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        };
        TlsAcceptor::from(Arc::new(config))
    }

    pub(super) async fn start(
        self,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let authority = Authority::new();
        let acceptor = (!self.plain).then(|| self.tls(&authority));
        let connections = Arc::new(AtomicUsize::new(0));
        let (fate, _) = watch::channel(Fate::Live);
        let handler = Arc::new(Handler {
            answer: Box::new(answer),
            count: Mutex::new(0),
            max_streams: self.max_streams,
        });
        let mut tasks = JoinSet::new();
        let (counted, announced) = (Arc::clone(&connections), fate.clone());
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let mut fate = announced.subscribe();
                fate.mark_unchanged();
                let served = Arc::clone(&handler).serve(tcp, acceptor.clone(), fate.clone());
                open.spawn(async move {
                    // Frozen: neither answered nor closed, which is what pulling the plug looks like.
                    let mut served = Box::pin(served);
                    tokio::select! {
                        () = &mut served => return,
                        _ = fate.changed() => {}
                    }
                    let fate = *fate.borrow();
                    match fate {
                        Fate::Frozen => std::future::pending().await,
                        Fate::Leaving => served.await,
                        Fate::Live | Fate::Closed => {}
                    }
                });
            }
        });
        TestServer {
            address,
            authority,
            connections,
            fate,
            _tasks: tasks,
        }
    }
}

impl TestServer {
    pub(super) fn builder() -> Builder {
        Builder::default()
    }

    pub(super) async fn start(
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> TestServer {
        Builder::default().start(answer).await
    }

    /// How many connections there have been.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) async fn close_connections(&self) {
        self.fate.send_replace(Fate::Closed);
        // Both sides get their turn to see it.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn say_goodbye(&self) {
        self.fate.send_replace(Fate::Leaving);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn freeze_connections(&self) {
        self.fate.send_replace(Fate::Frozen);
    }
}

struct Handler {
    answer: Box<dyn Fn(&Seen) -> Reply + Send + Sync>,
    count: Mutex<usize>,
    max_streams: Option<u32>,
}

impl Handler {
    async fn serve(
        self: Arc<Handler>,
        tcp: TcpStream,
        acceptor: Option<TlsAcceptor>,
        mut fate: watch::Receiver<Fate>,
    ) {
        let Some(acceptor) = acceptor else {
            let service =
                hyper::service::service_fn(|request| Arc::clone(&self).respond(request, None));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(tcp), service)
                .await;
            return;
        };
        let Ok(tls) = acceptor.accept(tcp).await else {
            return;
        };
        let name = tls
            .get_ref()
            .1
            .peer_certificates()
            .map(|chain| common_name(&chain[0]));
        let handler = Arc::clone(&self);
        let service = hyper::service::service_fn(move |request| {
            Arc::clone(&handler).respond(request, name.clone())
        });
        let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        if is_http2 {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            if let Some(max_streams) = self.max_streams {
                builder.max_concurrent_streams(max_streams);
            }
            let mut connection = pin!(builder.serve_connection(TokioIo::new(tls), service));
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = fate.changed() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        } else {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(tls), service)
                .await;
        }
    }

    async fn respond(
        self: Arc<Handler>,
        request: Request<Incoming>,
        client_name: Option<String>,
    ) -> Result<Response<Body>, BoxError> {
        let number = {
            let mut count = self.count.lock();
            *count += 1;
            *count
        };
        let (head, _) = request.into_parts();
        let seen = Seen {
            number,
            version: head.version,
            uri: head.uri,
            client_name,
            headers: head.headers,
        };
        Ok((self.answer)(&seen).into_response())
    }
}

/// The common name, which is the only printable text in these certificates beside the issuer's.
fn common_name(certificate: &CertificateDer<'_>) -> String {
    let text = String::from_utf8_lossy(certificate);
    let names = ["first", "the-second"];
    names
        .into_iter()
        .find(|name| text.contains(name))
        .unwrap_or("unknown")
        .to_owned()
}

/// A proxy that wants this in `Proxy-Authorization`.
pub(super) async fn proxy(authorization: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async move {
        let mut tunnels = JoinSet::new();
        while let Ok((tcp, _)) = listener.accept().await {
            tunnels.spawn(tunnel(tcp, authorization));
        }
    };
    // It ends with the test's runtime.
    tokio::runtime::Handle::current().spawn(serve);
    address
}

async fn tunnel(tcp: TcpStream, authorization: &str) {
    let mut tcp = BufReader::new(tcp);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        tcp.read_line(&mut head).await.unwrap();
    }
    let target = head.split(' ').nth(1).unwrap().to_owned();
    if !head.starts_with("CONNECT ")
        || !head.contains(&format!("Proxy-Authorization: {authorization}\r\n"))
    {
        tcp.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            .await
            .unwrap();
        return;
    }
    let mut upstream = TcpStream::connect(target).await.unwrap();
    tcp.write_all(b"HTTP/1.1 200 OK\r\nVia: test\r\n\r\n")
        .await
        .unwrap();
    let _ = tokio::io::copy_bidirectional(&mut tcp, &mut upstream).await;
}
