//! Aggregation: APIServices whose group versions another server serves.
//!
//! Mirrors upstream's `kube-aggregator`. An APIService with a Service is *remote*. Whether its server answers is
//! checked when anything about it changes and every half minute ([`available`]), and told by its condition
//! `Available`. Requests for its group version are handed on with the name of their user in front-proxy headers
//! ([`proxy`]), also where they change the protocol of their connection ([`relay`]), and discovery shows it among what is served here ([`discovery`]). What this server serves itself, built
//! in or by a definition, it serves itself, whatever an APIService says: the writer is warned.

mod available;
pub(crate) mod discovery;
pub(crate) mod openapi;
mod proxy;
mod relay;

pub(crate) use available::{check_all, keep_checking};

use crate::fields::{at, flag, integer, list, text};
use crate::kinds::{self, Kind, Registry};
use crate::outbound::Target;
use crate::rest::RequestInfo;
use crate::server::Shared;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use relay::Upgraded;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The port of a Service that an APIService does not name.
const DEFAULT_PORT: u16 = 443;

/// What is known of other servers.
#[derive(Default)]
pub(crate) struct Aggregation {
    /// As of the last change of any APIService.
    remotes: RwLock<Option<(u64, Arc<Vec<Remote>>)>>,
    /// The resources of remote group versions, by the names of their APIServices, as their servers last told them.
    resources: Mutex<BTreeMap<String, Value>>,
    /// The types of what they serve, as their OpenAPI documents have them.
    definitions: Mutex<BTreeMap<String, Arc<openapi::Definitions>>>,
    /// The certificate and key by which this server shows that it may speak for users.
    identity: OnceLock<(Bytes, Bytes)>,
    upgraded: Upgraded,
}

/// An APIService that another server stands behind.
pub(crate) struct Remote {
    pub(crate) name: String,
    group: String,
    version: String,
    namespace: String,
    service: String,
    port: u16,
    authorities: Option<Bytes>,
    insecure: bool,
    is_available: bool,
    group_priority: i64,
    version_priority: i64,
}

fn api_services() -> Option<&'static Arc<Kind>> {
    kinds::find("apiregistration.k8s.io", "APIService")
}

impl Aggregation {
    /// By whom this server is known to others.
    pub(crate) fn identify(&self, certificate: &str, key: &str) {
        let pem = |text: &str| Bytes::from(text.to_owned());
        // A server that is served on two ports is one server.
        let _ = self.identity.set((pem(certificate), pem(key)));
    }

    /// All remote APIServices that are not about what is served here.
    pub(crate) fn remotes(&self, shared: &Shared) -> Arc<Vec<Remote>> {
        let Some(kind) = api_services() else {
            return Arc::default();
        };
        let revision = shared.store.last_change(kind);
        if let Some((of, remotes)) = &*self.remotes.read()
            && *of == revision
        {
            return remotes.clone();
        }
        let stored = shared.store.list_newest(kind, "");
        let mut remotes: Vec<Remote> = stored
            .iter()
            .filter_map(|stored| Remote::read(&stored.value(kind)))
            .collect();
        // UPSTREAM: by priority, then by name.
        remotes.sort_by(|one, two| {
            let key = |remote: &Remote| (-remote.group_priority, -remote.version_priority);
            key(one).cmp(&key(two)).then(one.name.cmp(&two.name))
        });
        let remotes = Arc::new(remotes);
        *self.remotes.write() = Some((revision, remotes.clone()));
        remotes
    }

    /// The place of the server that a request is for, if it is not for this one.
    pub(crate) fn find(
        &self,
        shared: &Shared,
        registry: &Registry,
        info: &RequestInfo,
    ) -> Option<(Arc<Vec<Remote>>, usize)> {
        let remotes = self.remotes(shared);
        if remotes.is_empty() {
            return None;
        }
        let parts: Vec<&str> = info
            .path
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        let (group, version) = match (info.is_resource, parts.as_slice()) {
            (true, _) => (info.group.as_str(), info.version.as_str()),
            (false, ["apis", group, version] | ["openapi", "v3", "apis", group, version]) => {
                (*group, *version)
            }
            _ => return None,
        };
        if registry.has_group_version(group, version) {
            return None;
        }
        let is_meant = |remote: &Remote| remote.group == group && remote.version == version;
        let place = remotes.iter().position(is_meant)?;
        Some((remotes, place))
    }
}

impl Remote {
    fn read(service: &Value) -> Option<Remote> {
        let spec = &service["spec"];
        if at(spec, "service").is_null() {
            return None;
        }
        let owned = |path: &str| text(spec, path).to_owned();
        let port = integer(spec, "service.port").and_then(|port| u16::try_from(port).ok());
        let conditions = list(service, "status.conditions").iter();
        let mut available = conditions.filter(|condition| condition["type"] == "Available");
        Some(Remote {
            name: text(service, "metadata.name").to_owned(),
            group: owned("group"),
            version: owned("version"),
            namespace: owned("service.namespace"),
            service: owned("service.name"),
            port: port.unwrap_or(DEFAULT_PORT),
            authorities: STANDARD
                .decode(text(spec, "caBundle"))
                .ok()
                .filter(|bundle| !bundle.is_empty())
                .map(Bytes::from),
            insecure: flag(spec, "insecureSkipTLSVerify"),
            is_available: available.any(|condition| condition["status"] == "True"),
            group_priority: integer(spec, "groupPriorityMinimum").unwrap_or(0),
            version_priority: integer(spec, "versionPriority").unwrap_or(0),
        })
    }

    /// Where its server is, and whom to trust there.
    fn target(&self, shared: &Shared) -> Result<Target, String> {
        let resolve = crate::webhooks::resolve_service;
        Ok(Target {
            is_https: true,
            authority: resolve(shared, &self.namespace, &self.service, self.port)?,
            server_name: Some(format!("{}.{}.svc", self.service, self.namespace)),
            authorities: self.authorities.clone(),
            insecure: self.insecure,
            identity: shared.aggregation.identity.get().cloned(),
        })
    }
}

/// What is wrong with an APIService that no rule forbids.
pub(crate) fn warning(registry: &Registry, service: &Value) -> Option<String> {
    let (group, version) = (text(service, "spec.group"), text(service, "spec.version"));
    let is_remote = !at(service, "spec.service").is_null();
    (is_remote && registry.has_group_version(group, version)).then(|| {
        format!("spec.service: {group}/{version} is served by this server itself; the service is not used")
    })
}
