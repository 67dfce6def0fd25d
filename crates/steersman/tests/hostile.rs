//! The controller manager as a process, with an API server on TLS that lies: it neither breaks nor grows, says what is
//! wrong, and ends when it is told to.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on has found something"
)]

#[path = "../../manager/tests/lies/mod.rs"]
mod lies;

use std::convert::Infallible;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use api::Rng;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair, SanType};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const BINARY: &str = env!("CARGO_BIN_EXE_steersman");

/// The lists of this server have 2,000 objects at most, and all caches together some thousands: what is more is kept
/// without need.
const LARGEST_BYTES: u64 = 900 << 20;

/// Each informer has asked several times by then.
const ENOUGH_REQUESTS: usize = 400;

/// It asks that often within seconds, unless the machine is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a caller may send.
const LARGEST_REQUEST: usize = 4 << 20;

/// Counts requests, and tells when there were enough.
#[derive(Clone)]
struct Asked(Arc<AtomicUsize>, SyncSender<()>);

impl Asked {
    fn counting() -> (Asked, Receiver<()>) {
        let (sender, receiver) = sync_channel(1);
        (Asked(Arc::default(), sender), receiver)
    }

    fn once_more(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) + 1 == ENOUGH_REQUESTS {
            // Whoever waited may have given up.
            let _ = self.1.try_send(());
        }
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_that_lies_over_tls_breaks_nothing_and_is_told_of() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (asked, enough) = Asked::counting();
    let (address, authority) = tokio.block_on(listen(asked));
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("config");
    std::fs::write(&kubeconfig, config(&address, &authority)).unwrap();
    let log = std::fs::File::create(home.path().join("log")).unwrap();
    let child = Command::new(BINARY)
        .args([
            "controller-manager",
            "--controllers=*",
            "--leader-elect=false",
            "--secure-port=0",
        ])
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .env("HOME", home.path())
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut manager = Process(child);
    let said = || {
        let mut text = String::new();
        let mut file = std::fs::File::open(home.path().join("log")).unwrap();
        let _ = file.read_to_string(&mut text);
        text
    };

    let enough = enough.recv_timeout(PATIENCE);
    let early = manager.0.try_wait().unwrap();
    assert!(early.is_none(), "it ended, {early:?}:\n{}", head(&said()));
    assert!(enough.is_ok(), "it stopped asking:\n{}", head(&said()));
    let peak = peak_bytes(manager.0.id());
    let pid = rustix::process::Pid::from_raw(manager.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = manager.0.wait().unwrap();

    let log = said();
    assert!(ended.success(), "{ended}: {}", head(&log));
    assert!(!log.contains("panicked"), "{}", head(&log));
    assert!(peak > 0 && peak < LARGEST_BYTES, "{} MB", peak >> 20);
    assert!(log.len() < 20 << 20, "{} bytes of log", log.len());
    let told = ["not a Kubernetes API object", "was answered with more than"];
    for words in told {
        assert!(
            log.contains(words),
            "{words} is not in the log:\n{}",
            head(&log)
        );
    }
}

fn head(log: &str) -> String {
    log.chars().take(4000).collect()
}

/// The most that a process ever had in memory.
fn peak_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

fn config(address: &str, authority: &str) -> String {
    let authority = STANDARD.encode(authority);
    serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": address, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    })
    .to_string()
}

/// Where it listens, and whom to trust.
async fn listen(asked: Asked) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    let certificate = params.self_signed(&key).unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    runtime::spawn(async move {
        let rng = Rng::from_seed(21);
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, asked, rng) = (acceptor.clone(), asked.clone(), rng.fork());
            runtime::spawn(async move {
                if let Ok(connection) = acceptor.accept(connection).await {
                    serve(connection, asked, rng).await;
                }
            })
            .detach();
        }
    })
    .detach();
    (address, certificate.pem())
}

async fn serve(
    connection: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    asked: Asked,
    rng: Rng,
) {
    let rng = Arc::new(rng);
    let lie = service_fn(move |request: Request<Incoming>| {
        let (asked, rng) = (asked.clone(), rng.clone());
        async move {
            asked.once_more();
            let (parts, body) = request.into_parts();
            let body = Limited::new(body, LARGEST_REQUEST).collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            let request = Request::from_parts(parts, body);
            Ok::<_, Infallible>(lies::answer(&rng, &request))
        }
    });
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // Callers hang up on what never ends, which is as it should be.
    let _ = server.serve_connection(TokioIo::new(connection), lie).await;
}
