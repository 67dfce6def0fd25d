//! Serving over TLS: who is connected, client certificates, and request bodies, which are read once it is known that
//! their sender may send them.

use crate::Body;
use crate::auth::Identity;
use crate::pki::{Pki, PkiError};
use crate::rest::{MAX_BODY, response};
use crate::server::{ApiServer, FRONT_PROXY};
use crate::status::Status;
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
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::ready;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, watch};
use tokio::task::block_in_place;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

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

/// How long publishing the certificate authority may hold up the start.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long requests in progress may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What every connection shares.
#[derive(Clone)]
struct Port {
    server: ApiServer,
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
    pki: &Pki,
    spawner: Spawner,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Result<(), PkiError> {
    let acceptor = TlsAcceptor::from(pki.server_config(&server.shared().clock)?);
    // A webhook that this would have to wait for may itself wait for this server.
    let publish = server.publish_authority(&pki.ca_certificate);
    if tokio::time::timeout(PUBLISH_TIMEOUT, publish)
        .await
        .is_err()
    {
        tracing::warn!("a webhook holds up the certificate authority, which is not published");
    }
    let (certificate, key) = pki.issue_client(FRONT_PROXY, &[])?;
    let shared = server.shared().clone();
    shared.aggregation.identify(&certificate, &key);
    let checking = crate::aggregation::keep_checking(shared);
    tokio::pin!(checking);
    let connections = Connections::new(limits);
    let (stop, stopping) = watch::channel(false);
    let port = Port {
        server,
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
            // It never ends.
            () = &mut checking => continue,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of file descriptors, or the peer is gone: make room, and try again a little later.
            connections.make_room();
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (port, acceptor) = (port.clone(), acceptor.clone());
        let seat = connections.seat(peer.ip());
        (spawner.0)(Box::pin(connection(port, acceptor, stream, seat)));
    }
    drop(port);
    stop.send_replace(true);
    // A watch that does not end in time is cut off with the process.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, stop.closed()).await;
    Ok(())
}

async fn connection(port: Port, acceptor: TlsAcceptor, stream: TcpStream, seat: Seat) {
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
    let certificate = certificates
        .and_then(|chain| chain.first())
        .and_then(|leaf| identity_of(leaf))
        .map(Arc::new);
    if certificate.is_some() {
        seat.known();
    }
    let (answering, seated) = (port.clone(), seat.clone());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (port, certificate, seat) = (answering.clone(), certificate.clone(), seated.clone());
        async move {
            let in_flight = seat.begin();
            let date = port.server.now().to_http_date();
            let (mut response, room) = port.answer(request, certificate, &seat).await;
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
        certificate: Option<Arc<Identity>>,
        seat: &Seat,
    ) -> (Response<Body>, Room) {
        let (parts, body) = request.into_parts();
        if seat.is_spare() && !connections::is_health(parts.uri.path()) {
            return (too_many_connections(), Room::default());
        }
        let admitted = self.server.admit(&parts, certificate);
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

/// The user that a certificate of our authority stands for: its common name, its organizations as groups.
fn identity_of(certificate: &[u8]) -> Option<Identity> {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let digest: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    // UPSTREAM: of several names the last one counts.
    let user = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
    let mut groups: Vec<String> = subject
        .iter_organization()
        .filter_map(|name| name.as_str().ok().map(str::to_owned))
        .collect();
    groups.push("system:authenticated".to_owned());
    Some(Identity {
        user,
        groups,
        extra: BTreeMap::from([(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![format!("X509SHA256={digest}")],
        )]),
        ..Identity::default()
    })
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
