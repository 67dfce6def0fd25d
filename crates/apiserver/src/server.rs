//! The server as a value: open it, call it.

use crate::admission::Networks;
use crate::auth::authenticate::{Presented, authenticate, bearer};
use crate::auth::impersonate::LastModes;
use crate::auth::rbac::Rbac;
use crate::auth::tokens::Tokens;
use crate::auth::{Identity, StaticToken};
use crate::kinds::{self, Extra, Registry};
use crate::outbound::Outbound;
use crate::settings::Settings;
use crate::status::Status;
use crate::storage::{Store, TableKey};
use crate::tls::{Authorities, FrontProxy};
use crate::{Body, BoxError, Transport, rest};
use api::{Clock, Rng, Time};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, ready};
use http::request::Parts;
use http::{Request, Response};
use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::sync::Arc;

/// Who this server is when it speaks for its users to another one.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// A handle on a running server; clones share it.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
}

pub struct Options {
    pub storage: Storage,
    pub clock: Clock,
    pub rng: Rng,
    /// How many changes per resource a watch may lag behind before it is told to start over.
    pub event_log_capacity: usize,
    /// Whether updates keep `managedFields`, as upstream does. Applies always do.
    pub track_fields: bool,
    /// Bearer tokens that are known from the start.
    pub static_tokens: Vec<StaticToken>,
    /// PEM of the key that signs service account tokens; without one a new key is made.
    pub service_account_key: Option<String>,
    /// The issuer and default audience of service account tokens.
    pub issuer: String,
    /// Where clients reach the server, for the Service `kubernetes`.
    pub advertise: Option<(std::net::IpAddr, u16)>,
    /// Where Services get their addresses and ports from.
    pub networks: Networks,
    pub serves: Extra,
    /// What kube-apiserver's flags choose.
    pub settings: Settings,
    /// Who calls webhooks and the servers behind APIServices; without it, nobody does.
    pub outbound: Option<Arc<dyn Outbound>>,
    /// What else of a control plane runs in this process, as component statuses name it.
    pub components: &'static [&'static str],
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
    pub(crate) store: Arc<Store>,
    pub(crate) registry: RwLock<Arc<Registry>>,
    /// Held by whoever makes a new registry.
    pub(crate) registering: Mutex<()>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) networks: Networks,
    pub(crate) static_tokens: Vec<StaticToken>,
    pub(crate) tokens: Tokens,
    /// Seals the tokens by which lists go on.
    pub(crate) continue_key: ring::hmac::Key,
    pub(crate) rbac: Rbac,
    pub(crate) impersonation: LastModes,
    pub(crate) metrics: crate::metrics::Metrics,
    pub(crate) parsed: crate::parsed::Parsed,
    pub(crate) policies: crate::policy::Cache,
    pub(crate) shapes: crate::apply::Shapes,
    pub(crate) expiry: rest::expiry::Expiry,
    pub(crate) track_fields: bool,
    /// Servers that were reopened from this one serve the same.
    pub(crate) discovery: Arc<crate::discovery::Aggregated>,
    pub(crate) openapi: crate::openapi::OpenApi,
    pub(crate) mounts: crate::embed::Mounts,
    /// Where clients reach the server, if it is known.
    pub(crate) advertise: Option<(std::net::IpAddr, u16)>,
    pub(crate) serves: Extra,
    pub(crate) settings: Settings,
    pub(crate) outbound: Option<Arc<dyn Outbound>>,
    pub(crate) webhooks: crate::webhooks::Webhooks,
    pub(crate) aggregation: crate::aggregation::Aggregation,
    pub(crate) components: &'static [&'static str],
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
            static_tokens: Vec::new(),
            service_account_key: None,
            // kube-apiserver's usual issuer, as kubeadm sets it.
            issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
            advertise: None,
            networks: Networks::default(),
            serves: Extra::default(),
            settings: Settings::default(),
            outbound: None,
            components: &[],
        }
    }
}

impl ApiServer {
    pub fn open(options: Options) -> Result<ApiServer, Error> {
        let capacity = options.event_log_capacity;
        let settings = options.settings;
        let mut registry = Registry::serving(options.serves, &settings.served);
        let store = match options.storage {
            Storage::InMemory => Store::in_memory(capacity),
            Storage::Dir(path) => {
                let found =
                    crate::storage::open(&path).map_err(|why| Error::Storage { path, why })?;
                let rows = found
                    .rows
                    .iter()
                    .filter(|row| row.table.1 == "customresourcedefinitions");
                let definitions = rows.filter_map(|row| {
                    let definition = serde_json::from_slice(&row.body).ok()?;
                    let kinds = crate::crd::lifecycle::own_kinds(&definition, row.revision);
                    let kinds = kinds.into_iter().map(Arc::new).collect();
                    Some((row.key.as_str().into(), row.revision, kinds))
                });
                registry = crate::crd::lifecycle::registry_from(
                    options.serves,
                    &settings.served,
                    definitions,
                );
                // What was stored while more was served is kept.
                let kind_of = |table: &TableKey| {
                    let mut known = registry.iter().chain(kinds::built_in());
                    known.find(|kind| kind.storage == *table).cloned()
                };
                Store::on_disk(found, capacity, kind_of)
            }
        };
        let shared = Shared {
            store,
            registry: RwLock::new(Arc::new(registry)),
            registering: Mutex::new(()),
            clock: options.clock,
            rng: options.rng,
            networks: options.networks,
            static_tokens: options.static_tokens,
            continue_key: continue_key(options.service_account_key.as_deref()),
            tokens: Tokens::new(
                options.service_account_key,
                options.issuer,
                &settings.service_account_tokens,
            ),
            rbac: Rbac::new(settings.authorizers.clone()),
            impersonation: LastModes::default(),
            metrics: crate::metrics::Metrics::default(),
            parsed: crate::parsed::Parsed::default(),
            policies: crate::policy::Cache::default(),
            shapes: crate::apply::Shapes::default(),
            expiry: rest::expiry::Expiry::default(),
            track_fields: options.track_fields,
            discovery: Arc::default(),
            openapi: crate::openapi::OpenApi::default(),
            mounts: crate::embed::Mounts::default(),
            advertise: options.advertise,
            serves: options.serves,
            settings,
            outbound: options.outbound,
            webhooks: crate::webhooks::Webhooks::default(),
            aggregation: crate::aggregation::Aggregation::default(),
            components: options.components,
        };
        let server = ApiServer {
            shared: Arc::new(shared),
        };
        server.shared.expiry.adopt(&server.shared);
        crate::semantics::boot(&server.shared, options.advertise);
        Ok(server)
    }

    /// The server as a service for clients in the same process. They are trusted: they act as an administrator.
    pub fn transport(&self) -> Transport {
        let (server, admin) = (self.clone(), Arc::new(Identity::admin()));
        Transport::new(tower::service_fn(move |request: Request<Bytes>| {
            // Trusted, unless they show a token: then they are its user.
            let presented = match bearer(request.headers()) {
                Ok(None) => Presented::Identity(admin.clone()),
                _ => Presented::Nothing,
            };
            let answer = server.handle_remote(request, presented);
            answer.map(Ok::<_, BoxError>)
        }))
    }

    /// Publishes who vouches for clients, and by which name this server speaks for users, where controller managers and
    /// extension servers look for it.
    pub(crate) async fn publish_authorities(
        &self,
        authorities: &Authorities,
        front_proxy: Option<&FrontProxy>,
    ) {
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": authorities.published(front_proxy),
        });
        let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        let apply = Request::builder()
            .method("PATCH")
            .uri(format!("{path}?fieldManager=kube-apiserver&force=true"))
            .header("content-type", "application/apply-patch+yaml")
            .body(Bytes::from(body.to_string()));
        if let Ok(request) = apply {
            let status = self.handle(request, Identity::admin()).await.status();
            if !status.is_success() {
                tracing::warn!(%status, "the certificate authorities could not be published");
            }
        }
    }

    /// Answers a request of whoever its connection says that it comes from.
    pub(crate) fn handle_remote(
        &self,
        request: Request<Bytes>,
        presented: Presented,
    ) -> impl Future<Output = Response<Body>> + Send + use<> {
        match authenticate(&self.shared, presented, request.headers()) {
            Ok(identity) => Either::Left(rest::handle(&self.shared, request, identity)),
            Err(status) => Either::Right(ready(rest::response::status(&status))),
        }
    }

    /// Whether a request that came over the network may be made at all, and by whom: asked before its body is read.
    pub(crate) fn admit(
        &self,
        parts: &Parts,
        presented: Presented,
    ) -> Result<Arc<Identity>, Status> {
        let identity = authenticate(&self.shared, presented, &parts.headers)?;
        match rest::admit(&self.shared, parts, identity.clone()) {
            Ok(()) => Ok(identity),
            Err(status) => {
                rest::record_refusal(&self.shared, parts, &identity, &status);
                Err(status)
            }
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What time it is here.
    pub fn now(&self) -> Time {
        self.shared.clock.now().time()
    }

    /// Answers one request on behalf of an authenticated user.
    pub async fn handle(
        &self,
        request: Request<Bytes>,
        identity: impl Into<Arc<Identity>>,
    ) -> Response<Body> {
        rest::handle(&self.shared, request, identity.into()).await
    }
}

/// From the key that is kept with the certificates, so that lists go on across restarts. Without one nobody but the same
/// process has access.
fn continue_key(service_account_key: Option<&str>) -> ring::hmac::Key {
    use ring::hmac::{HMAC_SHA256, Key, sign};
    let label = Key::new(HMAC_SHA256, b"continue tokens of lists");
    let secret = sign(&label, service_account_key.unwrap_or_default().as_bytes());
    Key::new(HMAC_SHA256, secret.as_ref())
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
        self.registry.read().clone()
    }
}
