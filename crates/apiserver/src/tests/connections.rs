//! Connections over real TLS: what clients that are not known, or do nothing, can hold.

use super::*;
use crate::auth::{Identity, StaticToken};
use crate::pki::{Pki, Validity};
use crate::serve::{Limits, Spawner, serve};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const BEARER: &str = "authorization: Bearer let-me-in\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

pub(super) struct Port {
    pub(super) server: ApiServer,
    address: SocketAddr,
    pki: Pki,
    tasks: Arc<parking_lot::Mutex<Vec<tokio::task::AbortHandle>>>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test of real sockets has tasks of its own"
)]
pub(super) async fn port(limits: Limits) -> Port {
    let options = |options: &mut Options| {
        options.static_tokens = vec![StaticToken {
            token: "let-me-in".to_owned(),
            identity: Identity::admin(),
        }];
    };
    let Server { server } = Server::with(options);
    let pki = Pki::generate(&[], Validity::for_tests()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let started = tasks.clone();
    let spawner = Spawner::new(move |future| {
        started.lock().push(tokio::spawn(future).abort_handle());
    });
    let tls = pki.tls().unwrap();
    let held = server.clone();
    let forever = std::future::pending();
    tokio::spawn(async move { serve(server, listener, tls, spawner, limits, forever).await });
    Port {
        server: held,
        address,
        pki,
        tasks,
    }
}

impl Port {
    pub(super) async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.pki.ca_certificate.as_bytes());
        roots.add(authority.unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.unwrap()
    }

    /// Sends the head of a request and returns the first line of the answer with the stream.
    async fn ask(&self, head: &str) -> (String, TlsStream<TcpStream>) {
        let mut stream = self.connect("http/1.1").await;
        stream.write_all(head.as_bytes()).await.unwrap();
        (first_line(&mut stream).await, stream)
    }

    async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n{BEARER}\r\n"))
            .await
            .0
    }

    fn open(&self) -> usize {
        let tasks = self.tasks.lock();
        tasks.iter().filter(|task| !task.is_finished()).count()
    }
}

async fn first_line(stream: &mut TlsStream<TcpStream>) -> String {
    let mut read = vec![0; 4096];
    let count = stream.read(&mut read).await.unwrap_or(0);
    let text = String::from_utf8_lossy(&read[..count]).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Until the other side has closed it.
async fn is_closed(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    true
}

const MANY: Limits = Limits {
    total: 100,
    per_peer: 100,
};

#[tokio::test]
async fn the_body_of_someone_who_may_not_send_it_is_not_waited_for() {
    let port = port(MANY).await;
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n");
    let (line, _) = port.ask(&format!("{head}\r\n{{")).await;
    assert_eq!(line, "HTTP/1.1 401 Unauthorized", "nobody in particular");
    let token = "authorization: Bearer guessed\r\n";
    let (line, _) = port.ask(&format!("{head}{token}\r\n{{")).await;
    assert_eq!(line, "HTTP/1.1 401 Unauthorized");
    let head = head.replace("3000000", "30000000");
    let (line, _) = port.ask(&format!("{head}{BEARER}\r\n{{")).await;
    assert_eq!(line, "HTTP/1.1 413 Payload Too Large", "without reading it");
}

/// Over a connection whose client lets nothing of an answer come but its head.
#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "a client of HTTP/2 has a task of its own"
)]
async fn answers_that_nobody_reads_take_no_room_of_bodies() {
    let port = port(MANY).await;
    let stream = TokioIo::new(port.connect("h2").await);
    let mut client = http2::Builder::new(TokioExecutor::new());
    let connecting = client
        .initial_stream_window_size(Some(0))
        .handshake::<_, Full<Bytes>>(stream);
    let (mut sender, connection) = connecting.await.unwrap();
    let connection = tokio::spawn(connection);
    let text = "x".repeat(1_000_000);
    let mut unread = Vec::new();
    // More than all bodies may have.
    for number in 0..130 {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"text": text}});
        let request = Request::post(format!("https://localhost{CONFIG_MAPS}"))
            .header("authorization", "Bearer let-me-in")
            .header("content-type", "application/json")
            .body(Full::from(map.to_string()));
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), 201, "{number}");
        unread.push(answer);
    }
    drop(unread);
    connection.abort();
}

#[tokio::test]
async fn whoever_is_refused_has_sent_what_was_on_its_way() {
    let port = port(MANY).await;
    let mut stream = port.connect("http/1.1").await;
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{{");
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    stream.write_all(b"}").await.unwrap();
    let line = first_line(&mut stream).await;
    assert_eq!(line, "HTTP/1.1 401 Unauthorized");
    let again = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(again).await.unwrap();
    assert_eq!(first_line(&mut stream).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn half_a_body_is_not_waited_for_long() {
    let port = port(MANY).await;
    let head =
        format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n{BEARER}\r\n{{");
    let mut stream = port.connect("http/1.1").await;
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    tokio::time::pause();
    assert_eq!(
        first_line(&mut stream).await,
        "HTTP/1.1 408 Request Timeout"
    );
}

#[tokio::test]
async fn whoever_asks_for_nothing_is_disconnected() {
    let port = port(MANY).await;
    let mut silent = port.connect("http/1.1").await;
    let mut half_a_head = port.connect("http/1.1").await;
    half_a_head
        .write_all(b"GET /healthz HTTP/1.1\r\nhost")
        .await
        .unwrap();
    let mut half_a_preface = port.connect("h2").await;
    half_a_preface.write_all(&PREFACE[..10]).await.unwrap();
    let mut idle = port.connect("h2").await;
    idle.write_all(PREFACE).await.unwrap();
    let (line, mut asked_once) = port.ask("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert_eq!(port.open(), 5);
    tokio::time::pause();
    for stream in [
        &mut silent,
        &mut half_a_head,
        &mut half_a_preface,
        &mut idle,
        &mut asked_once,
    ] {
        assert!(is_closed(stream).await);
    }
}

#[tokio::test]
async fn idle_connections_make_room_and_busy_ones_leave_room_for_health() {
    let port = port(Limits {
        total: 4,
        per_peer: 4,
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(port.connect("http/1.1").await);
    }
    assert_eq!(port.get("/api/v1/namespaces").await, "HTTP/1.1 200 OK");
    let mut watches = Vec::new();
    let watch = format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nhost: a\r\n{BEARER}\r\n");
    for _ in 0..4 {
        let (line, stream) = port.ask(&watch).await;
        assert_eq!(line, "HTTP/1.1 200 OK");
        watches.push(stream);
    }
    for path in ["/healthz", "/livez", "/readyz?verbose"] {
        assert_eq!(port.get(path).await, "HTTP/1.1 200 OK", "{path}");
    }
    assert_eq!(
        port.get("/api/v1/namespaces").await,
        "HTTP/1.1 429 Too Many Requests"
    );
    drop(watches);
    let mut answer = String::new();
    while answer != "HTTP/1.1 200 OK" {
        // Until the server has noticed that they are gone.
        tokio::task::yield_now().await;
        answer = port.get("/api/v1/namespaces").await;
    }
}
