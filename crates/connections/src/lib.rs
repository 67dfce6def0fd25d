//! Who may be connected to a server of ours, and for how long: client certificates, front proxies, limits, deadlines, and
//! room for health checks.
//!
//! Both servers of this program, the API server and the manager's secure port, let clients in before they know them.
//! Whatever a client does before and beside its requests is bounded here, so that a probe is answered while others
//! hold as many connections as they get.

mod answers;
mod bodies;
pub mod certificate;
mod in_flight;
mod limits;
mod peer;
pub mod request_header;
mod seats;

pub use answers::{Answers, BoxError, NoRoom, Waiting};
pub use bodies::{Bodies, Room, Unread, discard};
pub use in_flight::{Held, InFlight};
pub use limits::Limits;
pub use peer::AnyClientCertificate;
pub use seats::{Connections, Seat};

use std::collections::BTreeMap;

use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use std::time::Duration;

/// A handshake that takes longer is no client of ours.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// UPSTREAM: how long the headers of a request may take (`ReadHeaderTimeout`), and with them the first request of a
/// connection, by whichever version of HTTP.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// UPSTREAM: how long a connection may be without a request (`IdleTimeout`).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How long a connection that is told to end may take for it.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A peer that is gone without a word holds its watches until two of these have passed.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// What the headers of an HTTP/1 request may have, which is also what is buffered of its body at a time.
const HEADER_BYTES: usize = 128 * 1024;

/// Who makes a request, as its connection tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// HTTP with the deadlines that the versions of it have themselves. A [`Seat`] has the others.
pub fn builder<E>(executor: E, streams: u32) -> auto::Builder<E> {
    let mut builder = auto::Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(HEADER_BYTES)
        // Waiting for the next request counts as well.
        .header_read_timeout(IDLE_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(streams);
    builder
}

/// What is answered on every connection, also when there is no room for more.
pub fn is_health(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"].iter().any(|check| {
        path.strip_prefix(check)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::is_health;

    #[test]
    fn only_health_checks_are_health_checks() {
        for path in ["/healthz", "/livez/", "/readyz/ping"] {
            assert!(is_health(path), "{path}");
        }
        for path in ["/", "/health", "/healthzz", "/api/healthz"] {
            assert!(!is_health(path), "{path}");
        }
    }
}
