//! The secure port: HTTPS with authentication and authorization on every path.
//!
//! A request passes: panic guard, log, cache headers, authentication, authorization, router. Connections are
//! driven by one task that ends when the server is dropped, and their number is bounded.

mod controllers;
mod health;
mod listener;
mod pages;
mod peer;
mod profile;
mod router;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, info, warn};

pub use controllers::{PREFIX as DECISIONS, register_decisions, register_graph};
pub use health::{Endpoint, Health};
pub use pages::{Pages, register};
pub use profile::register_profiles;
pub use router::{Reply, Request, Router, json, reply, text};

use crate::auth::{Auth, Denied};
use crate::error::Error;
use crate::options::ServingOptions;

/// The bound port with everything needed to answer on it.
pub struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    certificates: Arc<tls::Certificates>,
    http2_max_streams: u32,
    gate: Arc<Gate>,
}

/// What a request has to pass, and what is behind it.
struct Gate {
    auth: Arc<Auth>,
    router: Arc<Router>,
    clock: api::Clock,
}

/// More clients than scrapers, probes and operators can be; beyond it, new ones wait to be accepted.
const MOST_CONNECTIONS: usize = 256;

/// A client that has not finished its handshake or its headers by then is cut off.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP/2 connection whose peer no longer answers pings is closed after these two.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// UPSTREAM: Go's default for --http2-max-streams-per-connection.
const DEFAULT_STREAMS: u32 = 250;

/// The only body that is read is a verbosity.
const LARGEST_BODY: usize = 64 << 10;

impl Server {
    /// Binds the port; none if --secure-port is 0.
    pub fn bind(
        options: &ServingOptions,
        clock: api::Clock,
        auth: Arc<Auth>,
        router: Arc<Router>,
    ) -> Result<Option<Server>, Error> {
        let Some(address) = options.address else {
            return Ok(None);
        };
        let (config, certificates) = tls::configure(options, &clock)?;
        let listener = listener::bind(options, address)?;
        Ok(Some(Server {
            listener,
            acceptor: TlsAcceptor::from(config),
            certificates,
            http2_max_streams: match options.http2_max_streams {
                0 => DEFAULT_STREAMS,
                streams => streams,
            },
            gate: Arc::new(Gate {
                auth,
                router,
                clock,
            }),
        }))
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped, and keeps certificates and client CAs up to date meanwhile.
    pub async fn run(self) {
        if let Ok(address) = self.address() {
            info!(%address, "Serving securely");
        }
        tokio::join!(
            self.accept(),
            self.certificates.follow(&self.gate.clock),
            self.gate.auth.authorities().follow(),
        );
    }

    async fn accept(&self) {
        let mut connections = FuturesUnordered::new();
        loop {
            let free = connections.len() < MOST_CONNECTIONS;
            tokio::select! {
                accepted = self.listener.accept(), if free => match accepted {
                    Ok((stream, peer)) => connections.push(self.serve(stream, peer)),
                    Err(error) => {
                        warn!(%error, "Cannot accept a connection");
                        // Out of file descriptors, most likely: give those in use time to close.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(()) = connections.next() => {}
            }
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        // Answers are small and should leave at once.
        let _ = stream.set_nodelay(true);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await;
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                info!(v = 2, %peer, %error, "TLS handshake error");
                return;
            }
            Err(_) => return,
        };
        let certificates: Arc<[CertificateDer<'static>]> = stream
            .get_ref()
            .1
            .peer_certificates()
            .unwrap_or_default()
            .to_vec()
            .into();
        let service = service_fn(|request| {
            let (gate, certificates) = (Arc::clone(&self.gate), Arc::clone(&certificates));
            async move { Ok::<_, Infallible>(gate.answer(request, &certificates, peer).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(self.http2_max_streams);
        if let Err(error) = builder
            .serve_connection(TokioIo::new(stream), service)
            .await
        {
            debug!(%peer, %error, "Connection ended early");
        }
    }
}

impl Gate {
    async fn answer(
        &self,
        request: http::Request<Incoming>,
        certificates: &[CertificateDer<'static>],
        peer: SocketAddr,
    ) -> Response<Full<Bytes>> {
        let started = tokio::time::Instant::now();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let agent = request.headers().get(header::USER_AGENT).cloned();
        let answer = AssertUnwindSafe(self.admitted(request, certificates))
            .catch_unwind()
            .await;
        let mut reply = answer.unwrap_or_else(|_| {
            error!(verb = %method, path = uri.path(), "A request's handler panicked");
            text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "This request caused a panic. Look in the logs for details.\n",
            )
        });
        // UPSTREAM: nothing served here may be kept by caches.
        let private = HeaderValue::from_static("no-cache, private");
        reply
            .headers_mut()
            .entry(header::CACHE_CONTROL)
            .or_insert(private);
        info!(
            v = 3,
            verb = %method,
            URI = uri.path_and_query().map_or(uri.path(), |target| target.as_str()),
            latency = ?started.elapsed(),
            userAgent = agent.as_ref().and_then(|agent| agent.to_str().ok()).unwrap_or_default(),
            srcIP = %peer,
            resp = reply.status().as_u16(),
            "HTTP"
        );
        reply.map(Full::new)
    }

    async fn admitted(
        &self,
        request: http::Request<Incoming>,
        certificates: &[CertificateDer<'static>],
    ) -> Reply {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let verb = parts.method.as_str().to_ascii_lowercase();
        if let Err(denied) = self
            .auth
            .admit(certificates, &parts.headers, &verb, path)
            .await
        {
            return refusal(&denied);
        }
        let body = match Limited::new(body, LARGEST_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                return text(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "The request's body is too large.\n",
                );
            }
        };
        let request = Request {
            path: path.to_owned(),
            query: router::parse_query(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            body,
        };
        self.router.answer(request).await
    }
}

/// Refusals are Status objects, as every Kubernetes client expects.
fn refusal(denied: &Denied) -> Reply {
    let (code, reason, message) = match denied {
        Denied::Unauthorized(why) => {
            // The caller learns nothing of the reason; the log does.
            warn!(reason = why, "Unable to authenticate the request");
            (
                StatusCode::UNAUTHORIZED,
                "Unauthorized",
                "Unauthorized".to_owned(),
            )
        }
        Denied::Forbidden { .. } => (StatusCode::FORBIDDEN, "Forbidden", denied.to_string()),
        Denied::Unavailable(why) => {
            error!(reason = why, "Unable to authorize the request");
            let message = "Internal error: the API server could not be asked for permission";
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                message.to_owned(),
            )
        }
    };
    let status = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    json(code, status.to_string())
}

#[cfg(test)]
mod tests;
