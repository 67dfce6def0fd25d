//! The secure port: HTTPS with authentication and authorization on every path.
//!
//! A request passes: panic guard, log, cache headers, authentication, authorization, body, router. Connections are
//! driven by one task that ends when the server is dropped; their number and their patience are bounded, and health
//! checks are answered at the bound, too.

mod controllers;
mod health;
pub mod listener;
mod mount;
mod pages;
mod profile;
mod router;
pub mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use connections::{
    Bodies, CLOSE_TIMEOUT, Connections, HANDSHAKE_TIMEOUT, Held, Limits, Seat, Unread,
};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, info, warn};

pub use controllers::{PREFIX as DECISIONS, register_decisions, register_graph};
pub use health::{Endpoint, Health};
pub use mount::{Body, Mounted};
pub use pages::{Pages, register};
pub use profile::register_profiles;
pub use router::{Reply, Request, Router, json, reply, text};

use crate::auth::{Auth, Denied};
use crate::error::Error;
use crate::options::ServingOptions;
use mount::whole;

/// The bound port with everything needed to answer on it.
pub struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    certificates: Arc<tls::Certificates>,
    http2_max_streams: u32,
    connections: Connections,
    gate: Arc<Gate>,
}

/// What a request has to pass, and what is behind it.
struct Gate {
    auth: Arc<Auth>,
    router: Arc<Router>,
    clock: api::Clock,
    bodies: Bodies,
}

/// More clients than scrapers, probes and operators can be.
const MOST_CONNECTIONS: usize = 256;

/// What all bodies may have in memory: one for each connection.
const MOST_BODIES: usize = MOST_CONNECTIONS * LARGEST_BODY;

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
        let (config, certificates) = tls::configure(options, &clock, &[])?;
        let listener = listener::bind(options, address)?;
        Ok(Some(Server {
            listener,
            acceptor: TlsAcceptor::from(config),
            certificates,
            http2_max_streams: match options.http2_max_streams {
                0 => DEFAULT_STREAMS,
                streams => streams,
            },
            connections: Connections::new(Limits::of_process(MOST_CONNECTIONS)),
            gate: Arc::new(Gate {
                auth,
                router,
                clock,
                bodies: Bodies::new(MOST_BODIES),
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
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => connections.push(self.serve(stream, peer)),
                    Err(error) => {
                        warn!(%error, "Cannot accept a connection");
                        // Out of file descriptors, most likely: give those in use time to close.
                        self.connections.make_room();
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(()) = connections.next() => {}
            }
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        let seat = self.connections.seat(peer.ip());
        // Answers are small and should leave at once.
        let _ = stream.set_nodelay(true);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream));
        let handshake = tokio::select! {
            biased;
            handshake = handshake => handshake,
            () = seat.closing() => return,
        };
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
        let service = service_fn(|request: http::Request<Incoming>| {
            let (gate, certificates) = (Arc::clone(&self.gate), Arc::clone(&certificates));
            let seat = seat.clone();
            async move {
                let in_flight = seat.begin();
                let answer = match seat.is_spare() && !connections::is_health(request.uri().path())
                {
                    true => too_many_connections(),
                    false => gate.answer(request, &certificates, peer, &seat).await,
                };
                Ok::<_, Infallible>(answer.map(|body| Held::new(body, in_flight)))
            }
        });
        let builder = connections::builder(TokioExecutor::new(), self.http2_max_streams);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%peer, %error, "Connection ended early");
                }
                return;
            }
            () = seat.closing() => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
    }
}

impl Gate {
    async fn answer(
        &self,
        request: http::Request<Incoming>,
        certificates: &[CertificateDer<'static>],
        peer: SocketAddr,
        seat: &Seat,
    ) -> Response<Body> {
        let started = tokio::time::Instant::now();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let agent = request.headers().get(header::USER_AGENT).cloned();
        let answer = AssertUnwindSafe(self.admitted(request, certificates, seat))
            .catch_unwind()
            .await;
        let mut reply = answer.unwrap_or_else(|_| {
            error!(verb = %method, path = uri.path(), "A request's handler panicked");
            let why = "This request caused a panic. Look in the logs for details.\n";
            text(StatusCode::INTERNAL_SERVER_ERROR, why).map(whole)
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
        reply
    }

    async fn admitted(
        &self,
        request: http::Request<Incoming>,
        certificates: &[CertificateDer<'static>],
        seat: &Seat,
    ) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let mounted = self.router.mounted(parts.uri.path());
        if let Some(mounted) = &mounted
            && !parts.headers.contains_key(header::AUTHORIZATION)
            && let Some(authorization) = mounted.authorization(&parts.headers)
        {
            parts.headers.insert(header::AUTHORIZATION, authorization);
        }
        let path = parts.uri.path();
        let verb = parts.method.as_str().to_ascii_lowercase();
        let admitted = self.auth.admit(certificates, &parts.headers, &verb, path);
        let user = match admitted.await {
            Ok(user) => user,
            Err(denied) => {
                let instead = mounted.and_then(|mounted| mounted.turn_away(path, &denied));
                return instead.unwrap_or_else(|| refusal(&denied).map(whole));
            }
        };
        if !connections::is_health(path) {
            // Nobody but an authenticated client gets here.
            seat.known();
        }
        let (body, _room) = match self.bodies.read(body, LARGEST_BODY).await {
            Ok(read) => read,
            Err(unread) => return refused_body(&unread).map(whole),
        };
        if let Some(mounted) = mounted {
            let request = http::Request::from_parts(parts, body);
            return mounted.answer(&user, request).await;
        }
        let request = Request {
            path: path.to_owned(),
            query: router::parse_query(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            body,
        };
        self.router.answer(request).await.map(whole)
    }
}

fn refused_body(unread: &Unread) -> Reply {
    let (code, why) = match unread {
        Unread::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "The request's body is too large.\n",
        ),
        Unread::TooSlow => (
            StatusCode::REQUEST_TIMEOUT,
            "The request's body did not arrive in time.\n",
        ),
        Unread::NoRoom => (
            StatusCode::TOO_MANY_REQUESTS,
            "Too many requests, please try again later.\n",
        ),
        Unread::Broken => (
            StatusCode::BAD_REQUEST,
            "The request's body could not be read.\n",
        ),
    };
    text(code, why)
}

fn too_many_connections() -> Response<Body> {
    let why = "Too many connections, please try again later.\n";
    let mut reply = text(StatusCode::TOO_MANY_REQUESTS, why);
    let close = HeaderValue::from_static("close");
    reply.headers_mut().insert(header::CONNECTION, close);
    reply.map(whole)
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
