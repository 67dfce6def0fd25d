//! Serving on loopback: HTTP without TLS, because it never leaves the machine, and a certificate that no browser knows
//! would teach people to click warnings away.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use runtime::Stop;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::Dashboard;
use crate::access::Access;
use crate::answer::Body;

/// More pages than anybody has open; each is one connection, and a few more while it loads.
const CONNECTIONS_MAX: usize = 512;

/// The largest body is a token.
const BODY_MAX: usize = 64 << 10;

const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// Serves until it is told to stop.
pub async fn serve(
    dashboard: Arc<Dashboard>,
    access: Arc<Access>,
    listener: TcpListener,
    stop: Stop,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some(accepted) = stop.or(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors: those in use need time to close.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return;
        };
        let (dashboard, access, stop) = (dashboard.clone(), access.clone(), stop.clone());
        runtime::spawn(async move {
            stop.or(connection(dashboard, access, stream)).await;
            drop(slot);
        })
        .detach();
    }
}

async fn connection(dashboard: Arc<Dashboard>, access: Arc<Access>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let (dashboard, access) = (dashboard.clone(), access.clone());
        async move { Ok::<_, Infallible>(answer(&dashboard, &access, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN);
    // How a connection ends concerns its page only.
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    dashboard: &Arc<Dashboard>,
    access: &Access,
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => {
            dashboard
                .answer(access, Request::from_parts(parts, body.to_bytes()))
                .await
        }
        Err(_) => {
            let body = Full::new(Bytes::from_static(b"the request is too large\n"));
            let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
            *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            response
        }
    }
}
