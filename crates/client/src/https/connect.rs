//! Opening one connection: TCP, perhaps through a proxy, then TLS, then HTTP.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::error::ConnectError;
use super::http2;
use super::identity::Credential;
use crate::config::Server;
use crate::metrics::TransportMetrics;

/// A new connection, ready for requests.
pub(super) enum Connection {
    /// Carries many requests at once, as many as the server allows at the moment.
    Http2(http2::Connection),
    /// Carries one request at a time.
    Http1(http1::SendRequest<Full<Bytes>>),
}

/// TCP and TLS together take a few round trips; who has not managed that by now is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How much is read from the network at a time: a full TLS record. rustls alone asks for a quarter of it.
const READ_BYTES: usize = 16 << 10;

/// A proxy's answer to CONNECT is a status line and a few headers.
const MAX_PROXY_ANSWER_BYTES: usize = 8 << 10;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) async fn connect(
    server: &Server,
    proxy: Option<&Uri>,
    credential: &Credential,
    metrics: &TransportMetrics,
) -> Result<Connection, ConnectError> {
    let tls = Arc::clone(&credential.tls);
    in_time(server, open(server, proxy, credential, tls, metrics)).await
}

/// A connection that can be upgraded to another protocol: no HTTP/2.
pub(super) async fn connect_http1(
    server: &Server,
    proxy: Option<&Uri>,
    credential: &Credential,
    metrics: &TransportMetrics,
) -> Result<http1::SendRequest<Full<Bytes>>, ConnectError> {
    let mut tls = ClientConfig::clone(&credential.tls);
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let opening = open(server, proxy, credential, Arc::new(tls), metrics);
    match in_time(server, opening).await? {
        Connection::Http1(sender) => Ok(sender),
        Connection::Http2(_) => Err(ConnectError::Http {
            server: server.to_string(),
            problem: "it speaks HTTP/2 alone, which cannot be upgraded".to_owned(),
        }),
    }
}

async fn in_time(
    server: &Server,
    opening: impl Future<Output = Result<Connection, ConnectError>>,
) -> Result<Connection, ConnectError> {
    match tokio::time::timeout(CONNECT_TIMEOUT, opening).await {
        Ok(connection) => connection,
        Err(_) => Err(ConnectError::TimedOut {
            server: server.to_string(),
            seconds: CONNECT_TIMEOUT.as_secs(),
        }),
    }
}

async fn open(
    server: &Server,
    proxy: Option<&Uri>,
    credential: &Credential,
    tls: Arc<ClientConfig>,
    metrics: &TransportMetrics,
) -> Result<Connection, ConnectError> {
    let tcp = match proxy {
        Some(proxy) => tunnel(server, proxy, metrics).await?,
        None => dial(server.host(), server.port(), metrics)
            .await
            .map_err(|source| ConnectError::unreachable(server, source))?,
    };
    if !server.is_https() {
        return speak_http1(server, Box::new(tcp)).await;
    }
    let name = credential
        .server_name
        .as_deref()
        .unwrap_or(server.host())
        .to_owned();
    let name = ServerName::try_from(name).map_err(|_| ConnectError::WrongName {
        server: server.to_string(),
    })?;
    let tls = TlsConnector::from(tls)
        .connect(name, BufReader::with_capacity(READ_BYTES, tcp))
        .await
        .map_err(|source| ConnectError::handshake(server, source))?;
    if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
        speak_http2(server, tls).await
    } else {
        speak_http1(server, Box::new(tls)).await
    }
}

async fn dial(host: &str, port: u16, metrics: &TransportMetrics) -> std::io::Result<TcpStream> {
    let tcp = match host.parse::<IpAddr>() {
        Ok(address) => TcpStream::connect((address, port)).await?,
        Err(_) => {
            let asked_at = Instant::now();
            let found = tokio::net::lookup_host((host, port)).await;
            metrics.resolved(host, asked_at.elapsed());
            let addresses: Vec<SocketAddr> = found?.collect();
            TcpStream::connect(&addresses[..]).await?
        }
    };
    // Requests are small and someone waits for each of them.
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// Asks an HTTP proxy for a tunnel.
async fn tunnel(
    server: &Server,
    proxy: &Uri,
    metrics: &TransportMetrics,
) -> Result<TcpStream, ConnectError> {
    let host = proxy.host().unwrap_or_default();
    let failed = |problem: String| ConnectError::Proxy {
        // Without the user name and password that the URL may carry.
        proxy: host.to_owned(),
        server: server.to_string(),
        problem,
    };
    let mut tcp = dial(host, proxy.port_u16().unwrap_or(80), metrics)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let bracketed = if server.host().contains(':') {
        format!("[{}]", server.host())
    } else {
        server.host().to_owned()
    };
    let target = format!("{bracketed}:{}", server.port());
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some((user, _)) = proxy
        .authority()
        .and_then(|authority| authority.as_str().rsplit_once('@'))
    {
        request.push_str(&format!(
            "Proxy-Authorization: Basic {}\r\n",
            STANDARD.encode(user)
        ));
    }
    request.push_str("\r\n");
    tcp.write_all(request.as_bytes())
        .await
        .map_err(|error| failed(error.to_string()))?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        // Byte by byte: what follows the answer belongs to the server.
        match tcp.read_u8().await {
            Ok(byte) if answer.len() < MAX_PROXY_ANSWER_BYTES => answer.push(byte),
            Ok(_) => return Err(failed("its answer is no HTTP".to_owned())),
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    let status_line = String::from_utf8_lossy(&answer)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    let code = status_line.split(' ').nth(1).unwrap_or_default();
    if status_line.starts_with("HTTP/1.") && code.len() == 3 && code.starts_with('2') {
        Ok(tcp)
    } else {
        Err(failed(format!("it answered {status_line:?}")))
    }
}

async fn speak_http2(
    server: &Server,
    io: impl Stream + 'static,
) -> Result<Connection, ConnectError> {
    let (connection, driven) = http2::speak(io).await.map_err(|error| ConnectError::Http {
        server: server.to_string(),
        problem: error.to_string(),
    })?;
    drive(async {
        if let Err(error) = driven.await {
            tracing::debug!(%error, "an HTTP/2 connection to the API server ended");
        }
    });
    Ok(Connection::Http2(connection))
}

async fn speak_http1(server: &Server, io: Box<dyn Stream>) -> Result<Connection, ConnectError> {
    let handshake = http1::handshake(TokioIo::new(io));
    let (sender, connection) = handshake
        .await
        .map_err(|error| http_error(server, &error))?;
    drive(async {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "an HTTP/1 connection to the API server ended");
        }
    });
    Ok(Connection::Http1(sender))
}

fn http_error(server: &Server, error: &hyper::Error) -> ConnectError {
    ConnectError::Http {
        server: server.to_string(),
        problem: error.to_string(),
    }
}

/// A connection moves only while someone polls it. It ends when its last sender is dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "network connections exist outside the simulator only, and end by themselves with their senders"
)]
fn drive(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
