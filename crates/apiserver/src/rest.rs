//! From an HTTP request to an answer: which verb on which kind, then the verb.

mod admitted;
mod applying;
mod auditing;
pub(crate) mod body;
mod components;
mod create;
pub(crate) mod delete;
pub(crate) mod expiry;
pub(crate) mod go_json;
mod list;
pub(crate) mod metadata;
mod negotiate;
mod patch_body;
mod patches;
mod prepared;
pub(crate) mod pretty;
pub(crate) mod query;
mod read;
mod request;
pub(crate) mod response;
mod reviews;
mod size;
pub(crate) mod strict;
mod subresource;
pub(crate) mod type_meta;
mod update;
pub(crate) mod usage;
mod versions;
mod watch;

pub(crate) use create::retype;
pub(crate) use metadata::{metadata_mut, stamp};
pub(crate) use request::RequestInfo;
pub(crate) use reviews::user_info;

use crate::auth::Identity;
use crate::auth::impersonate::impersonate;
use crate::crd::lifecycle;
use crate::kinds::{Kind, Registry, Subresource, Verbs};
use crate::metrics::Labels;
use crate::server::Shared;
use crate::status::{Status, Subject};
use crate::storage::Stored;
use crate::{Body, convert, discovery};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use std::sync::Arc;

/// The largest request body that is read. UPSTREAM: 3 MB.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;

/// Everything that answering one request on a resource needs.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) info: RequestInfo,
    pub(crate) registry: Arc<Registry>,
    /// At the version asked for.
    pub(crate) kind: Arc<Kind>,
    /// At the version stored.
    pub(crate) stored_kind: Arc<Kind>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) identity: Arc<Identity>,
    pub(crate) warnings: Vec<String>,
    /// What the server decided, for the audit log.
    pub(crate) audit_annotations: Vec<(String, String)>,
    /// Set while an apply writes, which has already settled who owns what.
    pub(crate) applying: bool,
    /// The object whose deletion was admitted before its turn, and the revision that it had.
    pub(crate) reviewed: Option<(Arc<str>, u64)>,
    /// What is stored under the name of the path, at the version asked for, where a webhook converts it.
    pub(crate) converted: Option<Option<Arc<Stored>>>,
    pub(crate) conversions: versions::Conversions,
    /// What is needed to speak another protocol on the connection, where it can be done.
    pub(crate) upgrade: Option<crate::serve::Upgrade>,
    /// Set once policies were asked about what the request takes, where that is not an object of its kind.
    pub(crate) is_admitted: bool,
}

/// Answers a request. All that need not wait is done at once: what is kept while an answer is waited for is small.
pub(crate) fn handle(
    shared: &Arc<Shared>,
    request: Request<Bytes>,
    identity: Arc<Identity>,
) -> impl Future<Output = Response<Body>> + Send + use<> {
    let info = RequestInfo::parse(request.method(), request.uri());
    let registry = shared.registry();
    let kind = registry.resource(&info.group, &info.version, &info.resource);
    let served = kind.filter(|_| info.is_resource).cloned();
    let labels = served.as_ref().map(|kind| Labels {
        code: 0,
        group: kind.group.clone(),
        resource: kind.plural.clone(),
        subresource: Subresource::parse(&info.subresource).map_or("", Subresource::name),
        verb: info.verb,
        version: kind.version.clone(),
    });
    let shared = shared.clone();
    let is_pretty = pretty::is_wanted(&info, request.headers());
    let (request, mut recording) = auditing::begin(&shared, request, &info, &identity);
    let caller = identity.clone();
    let begun = begin(&shared, registry, served, info, request, identity);
    if let Some(recording) = &mut recording {
        auditing::note_decision(recording, &caller, &begun);
    }
    async move {
        let mut annotations = Vec::new();
        let mut response = match begun {
            Ok(Begun::Answered(response)) if is_pretty => pretty::indent(response).await,
            Ok(Begun::Answered(response)) => response,
            Ok(Begun::Mounted(answer)) => answer.await.map(response::whole),
            Ok(Begun::Proxied(answer)) => answer.await,
            Ok(Begun::Resource(mut context, method)) => {
                let response = context.answer(&method).await;
                annotations = std::mem::take(&mut context.audit_annotations);
                match is_pretty {
                    true => pretty::indent(response).await,
                    false => response,
                }
            }
            Err(status) if is_pretty => pretty::indent(response::status(&status)).await,
            Err(status) => response::status(&status),
        };
        if let Some(mut recording) = recording {
            recording.annotate(annotations);
            response = auditing::finish(recording, response, labels.as_ref()).await;
        }
        if let Some(labels) = labels {
            let code = response.status().as_u16();
            shared.metrics.count(Labels { code, ..labels });
        }
        response
    }
}

/// Refuses what its caller may not do, whatever the body says.
pub(crate) fn admit(
    shared: &Arc<Shared>,
    parts: &Parts,
    identity: Arc<Identity>,
) -> Result<(), Status> {
    let info = RequestInfo::parse(&parts.method, &parts.uri);
    let identity = impersonate(shared, identity, &parts.headers, &info)?;
    shared.rbac.check(shared, &identity, &info)
}

/// Logs a request that was refused before its body was read.
pub(crate) fn record_refusal(shared: &Shared, parts: &Parts, identity: &Identity, status: &Status) {
    if let Some(auditor) = &shared.settings.audit {
        let info = RequestInfo::parse(&parts.method, &parts.uri);
        let id = metadata::new_uid(shared);
        let recording = auditor.begin(&shared.clock, id, parts, &info, identity);
        if let Some(recording) = recording {
            recording.refused(status);
        }
    }
}

/// How far a request has come before anything has to be waited for.
enum Begun {
    Answered(Response<Body>),
    Mounted(BoxFuture<'static, Response<Bytes>>),
    /// Another server answers.
    Proxied(BoxFuture<'static, Response<Body>>),
    Resource(Box<Context>, Method),
}

fn begin(
    shared: &Arc<Shared>,
    registry: Arc<Registry>,
    served: Option<Arc<Kind>>,
    info: RequestInfo,
    request: Request<Bytes>,
    identity: Arc<Identity>,
) -> Result<Begun, Status> {
    info.check_timeout().map_err(Status::bad_request)?;
    let (mut parts, body) = request.into_parts();
    let mut upgrade = crate::serve::Upgrade::of(&mut parts.extensions);
    if body.len() > MAX_BODY {
        let message = format!("limit is {MAX_BODY}");
        return Err(Status::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: {message}"),
        ));
    }
    let identity = impersonate(shared, identity, &parts.headers, &info)?;
    shared.rbac.check(shared, &identity, &info)?;
    let mut elsewhere = || {
        proxied(
            shared,
            &registry,
            &info,
            &identity,
            &parts,
            &body,
            &mut upgrade,
        )
    };
    if !info.is_resource {
        if let Some(handler) = shared.mounts.find(&info) {
            let answer = handler(Request::from_parts(parts, body));
            return Ok(Begun::Mounted(answer));
        }
        if let Some(proxied) = elsewhere() {
            return Ok(proxied);
        }
        return discovery::answer(shared, &registry, &info, &parts.headers).map(Begun::Answered);
    }
    if shared.serves.usage && usage::is_served(&info.group) {
        return usage::answer(shared, &registry, &info).map(Begun::Answered);
    }
    let Some(kind) = served else {
        if let Some(proxied) = elsewhere() {
            return Ok(proxied);
        }
        if !registry.has_group(&info.group) {
            return Ok(Begun::Answered(discovery::nothing_here()));
        }
        return Err(Status::no_such_path());
    };
    let subresource = match info.subresource.as_str() {
        "" => None,
        name => Some(
            Subresource::parse(name)
                .filter(|s| kind.has(*s))
                .ok_or_else(Status::no_such_path)?,
        ),
    };
    check_scope(&kind, &info)?;
    let stored_kind = convert::storage_kind(&registry, &kind);
    let mut context = Context {
        shared: shared.clone(),
        info,
        registry,
        kind,
        stored_kind,
        subresource,
        headers: parts.headers,
        body,
        identity,
        warnings: Vec::new(),
        audit_annotations: Vec::new(),
        applying: false,
        reviewed: None,
        converted: None,
        conversions: versions::Conversions::default(),
        upgrade,
        is_admitted: false,
    };
    if let Some(warning) = context
        .kind
        .custom()
        .and_then(|version| version.deprecation_warning.clone())
    {
        context.warnings.push(warning);
    }
    let advice = match (&*context.kind.group, &*context.kind.kind) {
        ("", "Endpoints") => {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
        }
        ("", "ComponentStatus") if matches!(context.info.verb, "get" | "list") => {
            "v1 ComponentStatus is deprecated in v1.19+"
        }
        _ => "",
    };
    if !advice.is_empty() {
        context.warnings.push(advice.to_owned());
    }
    Ok(Begun::Resource(Box::new(context), parts.method))
}

/// The answer of another server, if an APIService says that it serves what is asked for.
fn proxied(
    shared: &Arc<Shared>,
    registry: &Registry,
    info: &RequestInfo,
    identity: &Arc<Identity>,
    parts: &Parts,
    body: &Bytes,
    upgrade: &mut Option<crate::serve::Upgrade>,
) -> Option<Begun> {
    let (remotes, place) = shared.aggregation.find(shared, registry, info)?;
    let (shared, identity) = (shared.clone(), identity.clone());
    let (parts, body, upgrade) = (parts.clone(), body.clone(), upgrade.take());
    Some(Begun::Proxied(Box::pin(async move {
        let request = Request::from_parts(parts, body);
        let remote = &remotes[place];
        remote.proxy(&shared, request, upgrade, &identity).await
    })))
}

/// A namespaced object has a namespace in its path, a cluster-scoped one has none.
fn check_scope(kind: &Kind, info: &RequestInfo) -> Result<(), Status> {
    let is_namespace = kind.is("", "Namespace");
    if !kind.namespaced && !info.namespace.is_empty() && !is_namespace {
        return Err(Status::no_such_path());
    }
    if kind.namespaced && info.namespace.is_empty() {
        if !info.name.is_empty() {
            return Err(Status::no_such_path());
        }
        if !matches!(info.verb, "list" | "watch") {
            return Err(not_allowed());
        }
    }
    Ok(())
}

pub(crate) fn not_allowed() -> Status {
    let why = "the server does not allow this method on the requested resource";
    Status::new(405, "MethodNotAllowed", why)
}

impl Context {
    async fn answer(&mut self, method: &Method) -> Response<Body> {
        let answer = self.dispatch(method).await;
        // A refusal carries the warnings that came before it.
        let mut response = answer.unwrap_or_else(|status| response::status(&status));
        self.follow_definitions();
        response::warn(&mut response, &self.warnings);
        response
    }

    async fn dispatch(&mut self, method: &Method) -> Result<Response<Body>, Status> {
        if !self.subresource.is_some_and(Subresource::is_connection) {
            // Nothing is done whose result could not be shown.
            negotiate::shape(&self.headers)?;
        }
        self.check_namespace()?;
        if let Some(subresource) = self.subresource {
            return self.subresource(subresource).await;
        }
        if self.kind.verbs == Verbs::CreateOnly {
            if self.info.verb == "create" && self.info.name.is_empty() {
                return self.review().await;
            }
            return Err(self.unsupported());
        }
        if self.kind.verbs == Verbs::ReadOnly {
            if self.kind.group == usage::GROUP {
                return self.usage();
            }
            return self.components();
        }
        let named = !self.info.name.is_empty();
        match (self.info.verb, named) {
            ("get", true) if method == Method::GET || method == Method::HEAD => self.get().await,
            ("list", false) => self.list().await,
            ("watch", _) => self.watch().await,
            ("create", false) => self.create().await,
            ("update", true) => self.update().await,
            ("patch", true) => self.patch().await,
            ("delete", true) => self.delete().await,
            ("deletecollection", false) if !self.kind.is("", "Namespace") => {
                self.delete_collection().await
            }
            _ => Err(self.unsupported()),
        }
    }

    /// Serves the kinds of definitions that this request may have written or deleted.
    fn follow_definitions(&self) {
        let reads = matches!(self.info.verb, "get" | "list" | "watch");
        let last_object = self.kind.custom().is_some()
            && matches!(
                self.info.verb,
                "delete" | "deletecollection" | "update" | "patch"
            );
        if !reads
            && (crate::semantics::is_definition(&self.kind)
                || (last_object && self.definition_is_gone()))
        {
            lifecycle::register(&self.shared);
        }
    }

    fn definition_is_gone(&self) -> bool {
        let name = format!("{}.{}", self.kind.plural, self.kind.group);
        lifecycle::definitions().is_some_and(|kind| self.shared.store.get(kind, &name).is_none())
    }

    fn unsupported(&self) -> Status {
        not_allowed()
    }

    /// The object that the path names.
    pub(crate) fn subject(&self) -> Subject<'_> {
        self.subject_named(&self.info.name)
    }

    pub(crate) fn subject_named<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject {
            group: &self.kind.group,
            plural: &self.kind.plural,
            name,
        }
    }

    /// The storage key of the object that the path names. UPSTREAM: no object can have a name that no path could have.
    pub(crate) fn object_key(&self) -> Result<String, Status> {
        let name = self.info.name.as_str();
        let faults = api::syntax::validate_path_segment(name);
        match faults.is_empty() {
            true => Ok(self.key(name)),
            false => Err(Status::bad_request(format!(
                "Name parameter invalid: {}: {}",
                api::syntax::go_quote(name),
                faults.join(";")
            ))),
        }
    }

    /// UPSTREAM: `.` and `..` are parts of no key of etcd. Reviews are not stored.
    fn check_namespace(&self) -> Result<(), Status> {
        let (kind, namespace) = (&self.kind, self.info.namespace.as_str());
        let is_stored = kind.namespaced && kind.verbs != Verbs::CreateOnly;
        if !is_stored || !matches!(namespace, "." | "..") {
            return Ok(());
        }
        if self.info.verb == "create" && self.info.name.is_empty() {
            // It is NamespaceLifecycle that looks for the namespace.
            return Err(Status::internal(format!(
                "invalid resource name \"{namespace}\": [may not be '{namespace}']"
            )));
        }
        let place = match (&*kind.group, &*kind.plural) {
            ("", "replicationcontrollers") => "controllers".to_owned(),
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "services") => "services/specs".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            (group, plural) if kind.custom().is_some() => format!("{group}/{plural}"),
            (_, plural) => plural.to_owned(),
        };
        let name = match self.info.name.as_str() {
            "" => String::new(),
            name => format!("/{name}"),
        };
        let key = api::syntax::go_quote(&format!("/{place}/{namespace}{name}"));
        Err(Status::unexpected(format!("invalid key: {key}")))
    }

    /// The storage key of a name in the request's namespace.
    pub(crate) fn key(&self, name: &str) -> String {
        if self.kind.namespaced {
            [&self.info.namespace, "/", name].concat()
        } else {
            name.to_owned()
        }
    }

    /// Waits until what was written or read would survive a crash.
    pub(crate) async fn wait_durable(&self, revision: u64) -> Result<(), Status> {
        self.shared
            .store
            .durable(revision)
            .await
            .map_err(|error| Status::internal(error.to_string()))
    }
}
