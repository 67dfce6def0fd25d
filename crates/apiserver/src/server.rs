//! The server as a value: open it, call it.

use crate::admission::Networks;
use crate::auth::Identity;
use crate::kinds::Registry;
use crate::storage::{Durability, Store};
use crate::{Body, BoxError, Transport, rest};
use api::{Clock, Rng};
use bytes::Bytes;
use http::{Request, Response};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// A handle on a running server; clones share it.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

pub struct Options {
    pub storage: Storage,
    pub clock: Clock,
    pub rng: Rng,
    /// How many changes per resource a watch may lag behind before it is told to start over.
    pub event_log_capacity: usize,
    /// Whether updates keep `managedFields`, as upstream does. Applies always do.
    pub track_fields: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    InMemory,
    Dir(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the data directory {path}: {why}")]
    Storage { path: PathBuf, why: String },
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) registry: RwLock<Arc<Registry>>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) networks: Networks,
    pub(crate) track_fields: bool,
    pub(crate) openapi: crate::openapi::OpenApi,
}

impl Options {
    /// In memory, with everything else as is usual.
    pub fn in_memory(clock: Clock, rng: Rng) -> Options {
        // 10,000 changes are several seconds of the fastest writes that we can do.
        Options {
            storage: Storage::InMemory,
            clock,
            rng,
            event_log_capacity: 10_000,
            track_fields: true,
        }
    }
}

impl ApiServer {
    pub fn open(options: Options) -> Result<ApiServer, Error> {
        if let Storage::Dir(path) = options.storage {
            let why = "durable storage is not available yet; use in-memory storage".to_owned();
            return Err(Error::Storage { path, why });
        }
        let shared = Shared {
            store: Store::new(Durability::Memory, options.event_log_capacity),
            registry: RwLock::new(Arc::new(Registry::default())),
            clock: options.clock,
            rng: options.rng,
            networks: Networks::default(),
            track_fields: options.track_fields,
            openapi: crate::openapi::OpenApi::default(),
        };
        let server = ApiServer {
            shared: Arc::new(shared),
        };
        crate::semantics::boot(&server.shared);
        Ok(server)
    }

    /// The server as a service for clients in the same process. They are trusted: they act as an administrator.
    pub fn transport(&self) -> Transport {
        let server = self.clone();
        Transport::new(tower::service_fn(move |request: Request<Bytes>| {
            let server = server.clone();
            async move { Ok::<_, BoxError>(server.handle(request, Identity::admin()).await) }
        }))
    }

    /// Answers a request that came over the network, with the user of its client certificate if it had one.
    pub(crate) async fn handle_remote(
        &self,
        request: Request<Bytes>,
        certificate: Option<Identity>,
    ) -> Response<Body> {
        let identity = certificate.unwrap_or_else(Identity::anonymous);
        self.handle(request, identity).await
    }

    /// Answers one request on behalf of an authenticated user.
    pub async fn handle(&self, request: Request<Bytes>, identity: Identity) -> Response<Body> {
        rest::handle(&self.shared, request, identity).await
    }
}

impl Shared {
    pub(crate) fn now_seconds(&self) -> i64 {
        self.clock.now().time().unix()
    }

    /// The time as objects spell it.
    pub(crate) fn now(&self) -> String {
        self.clock.now().time().to_string()
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
