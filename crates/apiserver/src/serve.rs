//! Serving over TLS: who is connected, client certificates, and request bodies, which are read once it is known that
//! their sender may send them.

use crate::Body;
use crate::audit::Source;
use crate::rest::{MAX_BODY, response};
use crate::server::ApiServer;
use crate::status::Status;
use crate::tls::{Authorities, Peer, Tls};
use bytes::Bytes;
use connections::{
    Bodies, CLOSE_TIMEOUT, Connections, HANDSHAKE_TIMEOUT, Held, Room, Seat, Unread,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONNECTION, DATE, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, watch};
use tokio::task::block_in_place;
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

/// Requests with such a body may take long: they are answered apart, so that nobody else waits for their thread, and
/// few at a time.
const LONG_BODY: usize = 64 * 1024;
const LONG_AT_ONCE: usize = 4;

/// How many requests one HTTP/2 connection may have open: an informer is one, and a manager has a hundred.
const MAX_STREAMS: u32 = 1000;

/// How long requests in progress may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What every connection shares.
#[derive(Clone)]
struct Port {
    server: ApiServer,
    authorities: Arc<Authorities>,
    bodies: Bodies,
    long: Arc<Semaphore>,
    executor: Spawner,
    stopping: watch::Receiver<bool>,
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
    server.publish_authorities(&tls.authorities).await;
    let connections = Connections::new(limits);
    let (stop, stopping) = watch::channel(false);
    let port = Port {
        server,
        authorities: Arc::new(tls.authorities),
        bodies: Bodies::new(MAX_BODIES),
        long: Arc::new(Semaphore::new(LONG_AT_ONCE)),
        executor: spawner.clone(),
        stopping,
    };
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of file descriptors, or the peer is gone: make room, and try again a little later.
            connections.make_room();
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (port, acceptor) = (port.clone(), acceptor.clone());
        let seat = connections.seat(peer.ip());
        (spawner.0)(Box::pin(connection(
            port,
            acceptor,
            stream,
            peer.ip(),
            seat,
        )));
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
    source: IpAddr,
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
    let Ok(Ok(stream)) = stream else {
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let now = port.server.now().unix();
    let peer = port
        .authorities
        .identify(certificates.unwrap_or_default(), now);
    if peer.is_known() {
        seat.known();
    }
    let peer = Arc::new(peer);
    let (answering, seated) = (port.clone(), seat.clone());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (port, peer, seat) = (answering.clone(), peer.clone(), seated.clone());
        async move {
            let mut request = request;
            request.extensions_mut().insert(Source(source));
            let in_flight = seat.begin();
            let date = port.server.now().to_http_date();
            let (mut response, room) = port.answer(request, &peer, &seat).await;
            // Whoever asks how old something is must count from here: time may pass faster than on the wall.
            if let Ok(date) = HeaderValue::try_from(date) {
                response.headers_mut().insert(DATE, date);
            }
            // Infallible, because every failure is an answer.
            Ok::<_, std::convert::Infallible>(
                response.map(|body| Held::new(body, (in_flight, room))),
            )
        }
        .boxed()
    });
    let builder = connections::builder(Executor(port.executor.clone()), MAX_STREAMS);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
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
    /// The answer, and the room that its request's body takes.
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        seat: &Seat,
    ) -> (Response<Body>, Room) {
        let (parts, body) = request.into_parts();
        if seat.is_spare() && !connections::is_health(parts.uri.path()) {
            return (too_many_connections(), Room::default());
        }
        let admitted = self
            .server
            .admit(&parts, self.authorities.presented(peer, &parts.headers));
        let identity = match admitted {
            Ok(identity) => identity,
            Err(status) => return (response::status(&status), Room::default()),
        };
        if !identity.is_anonymous() {
            seat.known();
        }
        // UPSTREAM: nobody looks at the body of a read.
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        let read = match is_read {
            true => Ok((Bytes::new(), Room::default())),
            false => self.bodies.read(body, MAX_BODY).await,
        };
        match read {
            Ok((body, room)) => {
                let is_long = body.len() >= LONG_BODY;
                let request = Request::from_parts(parts, body);
                let answer = self.server.handle(request, identity);
                (self.run(answer, is_long).await, room)
            }
            Err(unread) => (response::status(&refusal(&unread)), Room::default()),
        }
    }
}

impl Port {
    async fn run<T>(&self, answer: impl Future<Output = T>, is_long: bool) -> T {
        // On one thread there is nowhere else to be.
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        if !is_long || is_alone {
            return answer.await;
        }
        // It is never closed.
        let _turn = self.long.acquire().await;
        let mut answer = std::pin::pin!(answer);
        poll_fn(|context| block_in_place(|| answer.as_mut().poll(context))).await
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
