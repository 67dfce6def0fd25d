//! Serving over TLS: who is connected, client certificates, and request bodies, which are read once it is known that
//! their sender may send them.

use crate::Body;
use crate::audit::Source;
use crate::http_log::Line;
use crate::rest::{MAX_BODY, response};
use crate::server::ApiServer;
use crate::status::Status;
use crate::tls::{Peer, RELOAD_PERIOD, Tls, Trust};
use bytes::Bytes;
use connections::{
    Answers, Bodies, CLOSE_TIMEOUT, Connections, HANDSHAKE_TIMEOUT, Held, InFlight, Room, Seat,
    Unread, discard,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONNECTION, DATE, EXPECT, HeaderValue, UPGRADE};
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::ready;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, watch};
use tokio::task::block_in_place;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

pub use connections::Limits;

/// Starts tasks: injected, because the runtime owns them.
#[derive(Clone)]
pub struct Spawner(Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>);

impl Spawner {
    pub fn new(spawn: impl Fn(BoxFuture<'static, ()>) + Send + Sync + 'static) -> Spawner {
        Spawner(Arc::new(spawn))
    }
}

/// Connections at the same time: more than a machine of the size that this server is for can have clients.
const MAX_CONNECTIONS: usize = 8192;

/// What all request bodies may have in memory: 40 of the largest.
const MAX_BODIES: usize = 128 * 1024 * 1024;

/// What all answers may have in memory that wait for their clients to read them; those of one user half of it.
const MAX_ANSWERS: usize = 512 * 1024 * 1024;

const UNREAD: &str = "too many answers wait for their clients, please try again later";

/// Nothing worth counting: it goes out at once, or waits in what the connection buffers.
const SMALL_ANSWER: u64 = 16 * 1024;

/// Requests with such a body may take long: they are answered apart, so that nobody else waits for their thread, and
/// few at a time.
const LONG_BODY: usize = 64 * 1024;
const LONG_AT_ONCE: usize = 4;

/// How many requests one HTTP/2 connection may have open: an informer is one, and a manager has a hundred.
const MAX_STREAMS: u32 = 1000;

/// How long publishing the certificate authority may hold up the start.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long requests in progress may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What a connection that is upgraded stands on: a task of its own, and the seat that it goes on holding.
#[derive(Clone)]
struct Ground {
    executor: Spawner,
    held: Arc<(Seat, InFlight)>,
}

/// A connection that can be made to speak another protocol.
pub(crate) struct Upgrade {
    ground: Ground,
    connection: OnUpgrade,
}

impl Upgrade {
    /// Taken from a request that came over a connection of its own and asks for it.
    pub(crate) fn of(extensions: &mut http::Extensions) -> Option<Upgrade> {
        Some(Upgrade {
            ground: extensions.remove::<Ground>()?,
            connection: extensions.remove::<OnUpgrade>()?,
        })
    }

    /// Has the connection used by this once the answer, 101, is on its way.
    pub(crate) fn then<F>(self, converse: impl FnOnce(Upgraded) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let Upgrade { ground, connection } = self;
        let held = ground.held;
        (ground.executor.0)(Box::pin(async move {
            if let Ok(upgraded) = connection.await {
                converse(upgraded).await;
            }
            drop(held);
        }));
    }
}

/// What every connection shares.
#[derive(Clone)]
struct Port {
    server: ApiServer,
    bodies: Bodies,
    answers: Answers,
    long: Arc<Semaphore>,
    executor: Spawner,
    stopping: watch::Receiver<bool>,
    trust: Arc<Trust>,
}

/// How many connections a server of this process takes, unless it is told.
pub fn default_limits() -> Limits {
    Limits::of_process(MAX_CONNECTIONS)
}

/// Serves until `shutdown`, then lets requests in progress end.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    tls: Tls,
    spawner: Spawner,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(tls.config);
    let front_proxy = tls.front_proxy.as_ref();
    // A webhook that this would have to wait for may itself wait for this server.
    let authorities = tls.trust.authorities();
    let publish = server.publish_authorities(&authorities, front_proxy);
    if tokio::time::timeout(PUBLISH_TIMEOUT, publish)
        .await
        .is_err()
    {
        tracing::warn!("a webhook holds up the certificate authority, which is not published");
    }
    let shared = server.shared().clone();
    if let Some(proxy) = front_proxy {
        shared.aggregation.identify(&proxy.certificate, &proxy.key);
    }
    let checking = crate::aggregation::keep_checking(shared.clone());
    let repairing = crate::bootstrap::addresses::keep_repairing(shared);
    tokio::pin!(checking, repairing);
    if let Ok(address) = listener.local_addr() {
        tracing::info!("Serving securely on {address}");
    }
    let connections = Connections::new(limits);
    let (stop, stopping) = watch::channel(false);
    let port = Port {
        server,
        bodies: Bodies::new(MAX_BODIES),
        answers: Answers::new(MAX_ANSWERS),
        long: Arc::new(Semaphore::new(LONG_AT_ONCE)),
        executor: spawner.clone(),
        stopping,
        trust: tls.trust,
    };
    let mut reload = tokio::time::interval(RELOAD_PERIOD);
    reload.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            _ = reload.tick() => {
                if let Some(reload) = &tls.reload {
                    reload();
                }
                continue;
            }
            accepted = listener.accept() => accepted,
            // They never end.
            () = &mut checking => continue,
            () = &mut repairing => continue,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or the peer is gone: make room, and try again a little later.
                tracing::warn!(%error, "A connection could not be accepted");
                connections.make_room();
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (port, acceptor) = (port.clone(), acceptor.clone());
        let seat = connections.seat(peer.ip());
        (spawner.0)(Box::pin(connection(port, acceptor, stream, peer, seat)));
    }
    drop(port);
    stop.send_replace(true);
    // A watch that does not end in time is cut off with the process.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, stop.closed()).await;
}

async fn connection(
    port: Port,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    seat: Seat,
) {
    // Answers are small and waited for: do not hold them back.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let stream = tokio::select! {
        biased;
        handshake = handshake => handshake,
        () = seat.closing() => return,
    };
    let stream = match stream {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!("TLS handshake error from {address}: {error}");
            return;
        }
        Err(_) => {
            tracing::debug!("TLS handshake error from {address}: it took too long");
            return;
        }
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let now = port.server.now().unix();
    let peer = port.trust.identify(certificates.unwrap_or_default(), now);
    if peer.is_known() {
        seat.known();
    }
    let peer = Arc::new(peer);
    let (answering, seated) = (port.clone(), seat.clone());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (port, peer, seat) = (answering.clone(), peer.clone(), seated.clone());
        async move {
            let mut request = request;
            request.extensions_mut().insert(Source(address.ip()));
            let in_flight = seat.begin();
            let date = port.server.now().to_http_date();
            let line = Line::begin(&request, address);
            let mut response = port.answer(request, &peer, &seat).await;
            line.end(response.status().as_u16());
            // Whoever asks how old something is must count from here: time may pass faster than on the wall.
            if let Ok(date) = HeaderValue::try_from(date) {
                response.headers_mut().insert(DATE, date);
            }
            // Infallible, because every failure is an answer.
            Ok::<_, std::convert::Infallible>(response.map(|body| Held::new(body, in_flight)))
        }
        .boxed()
    });
    let builder = connections::builder(Executor(port.executor.clone()), MAX_STREAMS);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut stopping = port.stopping.clone();
    let stopped = async move { drop(stopping.wait_for(|stop| *stop).await) };
    tokio::select! {
        biased;
        // How a connection ends concerns its client only.
        _ = connection.as_mut() => return,
        () = stopped => {}
        () = seat.closing() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
}

impl Port {
    async fn answer(&self, request: Request<Incoming>, peer: &Peer, seat: &Seat) -> Response<Body> {
        let (mut parts, mut body) = request.into_parts();
        if parts.headers.contains_key(UPGRADE) {
            let held = Arc::new((seat.clone(), seat.begin()));
            parts.extensions.insert(Ground {
                executor: self.executor.clone(),
                held,
            });
        }
        if seat.is_spare() && !connections::is_health(parts.uri.path()) {
            return too_many_connections();
        }
        let now = self.server.now().unix();
        let admitted = self
            .server
            .admit(&parts, self.trust.presented(peer, &parts.headers, now));
        let identity = match admitted {
            Ok(identity) => identity,
            Err(status) => {
                // Who asks first whether to send has sent nothing.
                if !parts.headers.contains_key(EXPECT) {
                    discard(body).await;
                }
                return response::status(&status);
            }
        };
        if !identity.is_anonymous() {
            seat.known();
        }
        // UPSTREAM: nobody looks at the body of a read.
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        if !is_read && !self.answers.has_room(&identity.user) {
            discard(body).await;
            return response::status(&too_many(UNREAD));
        }
        let read = match is_read {
            true => Ok((Bytes::new(), Room::default())),
            false => self.bodies.read(&mut body, MAX_BODY).await,
        };
        match read {
            Ok((body, room)) => {
                let is_long = body.len() >= LONG_BODY;
                let request = Request::from_parts(parts, body);
                let answer = self.server.handle(request, identity.clone());
                let answer = self.run(answer, is_long).await;
                // Its body is done with, however long the client takes to read the answer.
                drop(room);
                self.kept(answer, &identity.user, is_read)
            }
            Err(unread) => {
                if unread == Unread::TooLarge {
                    discard(body).await;
                }
                response::status(&refusal(&unread))
            }
        }
    }
}

impl Port {
    /// The answer, counted for as long as it waits for its client.
    fn kept(&self, answer: Response<Body>, user: &str, is_read: bool) -> Response<Body> {
        if (answer.body().size_hint().exact()).is_some_and(|bytes| bytes <= SMALL_ANSWER) {
            return answer;
        }
        let (head, body) = answer.into_parts();
        let kept = match is_read {
            true => self.answers.keep(user, body),
            false => self.answers.keep_done(user, body),
        };
        match kept {
            Ok(body) => Response::from_parts(head, body.boxed_unsync()),
            Err(_) => response::status(&too_many(UNREAD)),
        }
    }

    async fn run<T>(&self, answer: impl Future<Output = T>, is_long: bool) -> T {
        // On one thread there is nowhere else to be.
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        if !is_long || is_alone {
            return answer.await;
        }
        let mut answer = std::pin::pin!(answer);
        // It has a turn while it works and none while it waits: a webhook that it waits for may send as much.
        let mut turn = Box::pin(self.long.clone().acquire_owned());
        poll_fn(|context| {
            // It is never closed.
            let held = ready!(turn.as_mut().poll(context));
            let polled = block_in_place(|| answer.as_mut().poll(context));
            drop(held);
            if polled.is_pending() {
                turn.set(self.long.clone().acquire_owned());
            }
            polled
        })
        .await
    }
}

fn refusal(unread: &Unread) -> Status {
    match unread {
        Unread::TooLarge => Status::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {MAX_BODY}"),
        ),
        Unread::TooSlow => Status::new(408, "Timeout", "the request body did not arrive in time"),
        Unread::NoRoom => too_many("too many large requests at once, please try again later"),
        Unread::Broken => Status::bad_request("the request body could not be read"),
    }
}

fn too_many(why: &str) -> Status {
    let mut status = Status::new(429, "TooManyRequests", why);
    status.details.retry_after_seconds = Some(1);
    status
}

fn too_many_connections() -> Response<Body> {
    let why = "too many connections, please try again later";
    let mut response = response::status(&too_many(why));
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

#[derive(Clone)]
struct Executor(Spawner);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        (self.0.0)(Box::pin(future));
    }
}
