//! The connections to one API server: few, shared, replaced when they die or when our certificates change.
//!
//! Watches have connections of their own. A watch that is read slowly may fill the window of its connection, and a
//! write, not to speak of leader election, must never wait for that.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::http1;

use super::connect::{Connection, connect, connect_http1};
use super::error::ConnectError;
use super::http2;
use super::identity::{Credential, Identity};
use super::lease::{IdleHttp1, Lease};
use crate::config::Server;
use crate::metrics::TransportMetrics;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Requests,
    Watches,
}

/// What the API server allows by default, and more than that on one connection helps nobody.
const MAX_STREAMS: usize = 100;

/// Some 60 informers fit on one connection and the 256 requests of adaptive flow control on three. Beyond this many,
/// requests queue up on the connections that are there.
const MAX_HTTP2_CONNECTIONS: usize = 8;

pub(super) struct Pool {
    server: Server,
    proxy: Option<Uri>,
    metrics: TransportMetrics,
    requests: LaneState,
    watches: LaneState,
}

struct LaneState {
    connections: Mutex<Connections>,
    /// Held while connecting, so that a hundred requests that find no connection open one and not a hundred.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Connections {
    generation: u64,
    shared: Vec<Shared>,
    idle: Arc<IdleHttp1>,
    /// Attempts to connect, and how the last one failed.
    attempts: u64,
    failure: Option<ConnectError>,
}

/// An HTTP/2 connection and what it carries.
struct Shared {
    connection: http2::Connection,
    open_streams: Arc<AtomicUsize>,
}

impl Pool {
    pub(super) fn new(server: Server, proxy: Option<Uri>, metrics: TransportMetrics) -> Pool {
        let lane = || LaneState {
            connections: Mutex::new(Connections::default()),
            connecting: tokio::sync::Mutex::new(()),
        };
        Pool {
            server,
            proxy,
            metrics,
            requests: lane(),
            watches: lane(),
        }
    }

    /// A place on a connection made with this credential; where there is none, connects with the newest there is.
    pub(super) async fn checkout(
        &self,
        lane: Lane,
        credential: &Credential,
        identity: &Identity,
    ) -> Result<Lease, ConnectError> {
        let lane = match lane {
            Lane::Requests => &self.requests,
            Lane::Watches => &self.watches,
        };
        if let Some(lease) = lane.existing(credential).await {
            return Ok(lease);
        }
        let attempts_before = lane.lock().attempts;
        let _turn = lane.connecting.lock().await;
        if let Some(lease) = lane.existing(credential).await {
            return Ok(lease);
        }
        if let Some(failure) = lane.failure_since(attempts_before) {
            return Err(failure);
        }
        let (newest, proxy) = (identity.for_new_connection(), self.proxy.as_ref());
        // Boxed: every request would else carry room for a handshake.
        let connecting = Box::pin(connect(&self.server, proxy, &newest, &self.metrics));
        let connected = connecting.await;
        let mut connections = lane.lock();
        connections.attempts += 1;
        connections.failure = connected.as_ref().err().cloned();
        Ok(connections.admit(connected?, &newest))
    }
}

impl Pool {
    /// A connection that nobody else gets: what is upgraded does not come back.
    pub(super) async fn connect_alone(
        &self,
        credential: &Credential,
    ) -> Result<http1::SendRequest<Full<Bytes>>, ConnectError> {
        let proxy = self.proxy.as_ref();
        connect_http1(&self.server, proxy, credential, &self.metrics).await
    }
}

impl LaneState {
    async fn existing(&self, credential: &Credential) -> Option<Lease> {
        loop {
            let (mut sender, idle) = {
                let mut connections = self.lock();
                connections.retire(credential.generation);
                if let Some(lease) = connections.shared_lease() {
                    return Some(lease);
                }
                let sender = connections.idle().pop()?;
                (sender, Arc::clone(&connections.idle))
            };
            // A connection whose last answer was not read to the end shows itself here.
            if sender.ready().await.is_ok() {
                return Some(Lease::http1(sender, &idle, true));
            }
        }
    }

    /// Those who waited while an attempt failed share its failure instead of each trying in turn.
    fn failure_since(&self, attempts_before: u64) -> Option<ConnectError> {
        let connections = self.lock();
        (connections.attempts > attempts_before)
            .then(|| connections.failure.clone())
            .flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock()
    }
}

impl Connections {
    /// Lets go of connections that are closed or were made with older certificates. Their streams live on.
    fn retire(&mut self, generation: u64) {
        if self.generation < generation {
            self.generation = generation;
            self.shared.clear();
            self.idle = Arc::default();
        }
        self.shared.retain(|shared| !shared.connection.is_closed());
    }

    fn shared_lease(&mut self) -> Option<Lease> {
        let full = self.shared.len() >= MAX_HTTP2_CONNECTIONS;
        let least = self.shared.iter().min_by_key(|shared| shared.open())?;
        if full || least.open() < least.capacity() {
            Some(least.lease(true))
        } else {
            None
        }
    }

    fn admit(&mut self, connection: Connection, credential: &Credential) -> Lease {
        self.retire(credential.generation);
        match connection {
            Connection::Http2(connection) => {
                let shared = Shared {
                    connection,
                    open_streams: Arc::default(),
                };
                let lease = shared.lease(false);
                // Made with a credential that has since been replaced: good for this request, not for others.
                if self.generation == credential.generation {
                    self.shared.push(shared);
                }
                lease
            }
            Connection::Http1(sender) => Lease::http1(sender, &self.idle, false),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<http1::SendRequest<Full<Bytes>>>> {
        self.idle.lock()
    }
}

impl Shared {
    fn open(&self) -> usize {
        self.open_streams.load(Ordering::Relaxed)
    }

    fn capacity(&self) -> usize {
        self.connection.max_streams().min(MAX_STREAMS)
    }

    fn lease(&self, reused: bool) -> Lease {
        Lease::http2(self.connection.clone(), &self.open_streams, reused)
    }
}
