//! Serving over TLS: connections, client certificates, request bodies of bounded size.

use crate::Body;
use crate::auth::Identity;
use crate::pki::{Pki, PkiError};
use crate::rest::{MAX_BODY, response};
use crate::server::ApiServer;
use crate::status::Status;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{DATE, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Starts tasks: injected, because the runtime owns them.
#[derive(Clone)]
pub struct Spawner(Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>);

impl Spawner {
    pub fn new(spawn: impl Fn(BoxFuture<'static, ()>) + Send + Sync + 'static) -> Spawner {
        Spawner(Arc::new(spawn))
    }
}

/// Connections at the same time; what is above waits in the listener's queue. More than a machine of the size
/// that this server is for can have clients.
const MAX_CONNECTIONS: usize = 8192;

/// A handshake that takes longer is no client of ours.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many requests one HTTP/2 connection may have open: an informer is one, and a manager has a hundred.
const MAX_STREAMS: u32 = 1000;

/// How long requests in progress may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until `shutdown`, then lets requests in progress end.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    pki: &Pki,
    spawner: Spawner,
    shutdown: impl Future<Output = ()>,
) -> Result<(), PkiError> {
    let acceptor = TlsAcceptor::from(pki.server_config(&server.shared().clock)?);
    server.publish_authority(&pki.ca_certificate).await;
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let (stop, stopping) = watch::channel(false);
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, or the peer is gone: try again a little later.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(slot) = slots.clone().acquire_owned().await else {
            break;
        };
        let (server, acceptor, stopping) = (server.clone(), acceptor.clone(), stopping.clone());
        let executor = spawner.clone();
        (spawner.0)(Box::pin(async move {
            connection(server, acceptor, stream, executor, stopping).await;
            drop(slot);
        }));
    }
    stop.send_replace(true);
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    // A watch that does not end in time is cut off with the process.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, slots.acquire_many(all)).await;
    Ok(())
}

async fn connection(
    server: ApiServer,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    executor: Spawner,
    mut stopping: watch::Receiver<bool>,
) {
    // Answers are small and waited for: do not hold them back.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await
    else {
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates
        .and_then(|chain| chain.first())
        .and_then(|leaf| identity_of(leaf))
        .map(Arc::new);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (server, certificate) = (server.clone(), certificate.clone());
        async move {
            let date = server.now().to_http_date();
            let mut response = answer(server, request, certificate).await;
            // Whoever asks how old something is must count from here: time may pass faster than on the wall.
            if let Ok(date) = HeaderValue::try_from(date) {
                response.headers_mut().insert(DATE, date);
            }
            // Infallible, because every failure is an answer.
            Ok::<_, std::convert::Infallible>(response)
        }
        .boxed()
    });
    let mut builder = auto::Builder::new(Executor(executor));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(120));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let stopped = async move { drop(stopping.wait_for(|stop| *stop).await) };
    tokio::select! {
        biased;
        // How a connection ends concerns its client only.
        _ = connection.as_mut() => return,
        () = stopped => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, connection).await;
}

async fn answer(
    server: ApiServer,
    request: Request<Incoming>,
    certificate: Option<Arc<Identity>>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body: Bytes = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {MAX_BODY}");
            return response::status(&Status::new(413, "RequestEntityTooLarge", message));
        }
        Err(_) => {
            return response::status(&Status::bad_request("the request body could not be read"));
        }
    };
    server
        .handle_remote(Request::from_parts(parts, body), certificate)
        .await
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
