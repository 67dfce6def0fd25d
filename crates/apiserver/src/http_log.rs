//! One line for each request, as kube-apiserver has it, for those who ask for it; failures of the server in any case.

use http::header::USER_AGENT;
use http::{Method, Request, Uri};
use std::net::SocketAddr;
use tokio::time::Instant;

/// What is known of a request before it is answered. Nothing is kept if nobody reads it.
pub(crate) struct Line(Option<InFlight>);

struct InFlight {
    method: Method,
    uri: Uri,
    agent: String,
    peer: SocketAddr,
    since: Instant,
}

impl Line {
    pub(crate) fn begin<B>(request: &Request<B>, peer: SocketAddr) -> Line {
        if !tracing::enabled!(tracing::Level::ERROR) {
            return Line(None);
        }
        let is_wanted = tracing::enabled!(tracing::Level::DEBUG);
        let agent = request.headers().get(USER_AGENT).filter(|_| is_wanted);
        Line(Some(InFlight {
            method: request.method().clone(),
            uri: request.uri().clone(),
            agent: agent.map_or_else(String::new, |agent| {
                String::from_utf8_lossy(agent.as_bytes()).into_owned()
            }),
            peer,
            since: Instant::now(),
        }))
    }

    pub(crate) fn end(self, code: u16) {
        let Some(begun) = self.0 else { return };
        let InFlight {
            method, uri, peer, ..
        } = &begun;
        let path = uri.path();
        // A health check that fails has said why.
        if code == 500 && !connections::is_health(path) {
            tracing::error!(verb = %method, URI = path, srcIP = %peer, "A request failed for a reason of the server");
        }
        tracing::debug!(
            verb = %method,
            // Without scheme and host, which HTTP/2 has in it.
            URI = uri.path_and_query().map_or(path, |uri| uri.as_str()),
            latency = ?begun.since.elapsed(),
            userAgent = begun.agent,
            srcIP = %peer,
            resp = code,
            "HTTP"
        );
    }
}
