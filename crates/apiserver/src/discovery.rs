//! What is served, and how the server is: discovery (aggregated and legacy), version, health.

use crate::Body;
use crate::aggregation::discovery as remote;
use crate::documents::{Cached, Document};
use crate::kinds::{Kind, Registry, Subresource, Verbs};
use crate::rest::query::Query;
use crate::rest::{RequestInfo, response};
use crate::server::Shared;
use crate::status::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// The Kubernetes version whose API this is.
const MINOR: &str = "36";
pub(crate) const GIT_VERSION: &str = "v1.36.3";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Answers everything that is not a resource.
pub(crate) fn answer(
    shared: &Arc<Shared>,
    registry: &Arc<Registry>,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let parts: Vec<&str> = info
        .path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let health_check = matches!(parts.as_slice(), ["healthz" | "livez" | "readyz", ..]);
    if !matches!(info.verb, "get" | "head") && !health_check {
        return Err(crate::rest::not_allowed());
    }
    match parts.as_slice() {
        ["version"] => Ok(response::raw(200, &version())),
        ["healthz" | "livez" | "readyz", rest @ ..] => {
            Ok(health(shared, parts[0], rest, &info.query))
        }
        ["metrics"] => Ok(response::typed(
            200,
            "text/plain; version=0.0.4; charset=utf-8",
            shared.metrics.text(shared),
        )),
        ["openapi", "v2"] => Ok(crate::openapi::answer_v2(shared, registry, headers)),
        ["openapi", "v3", rest @ ..] => {
            crate::openapi::answer(shared, registry, rest, info, headers)
        }
        ["api"] if wants_aggregated(headers) => Ok(aggregated(shared, registry, 0, headers)),
        ["apis"] if wants_aggregated(headers) => Ok(aggregated(shared, registry, 1, headers)),
        ["api"] => Ok(response::ordered(
            200,
            &json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses(shared)}),
        )),
        ["apis"] => Ok(response::ordered(
            200,
            &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": all_groups(shared, registry)}),
        )),
        ["api", version] if registry.has_group_version("", version) => {
            Ok(resources(registry, "", version))
        }
        ["apis", group] if !group.is_empty() && registry.has_group(group) => {
            group_document(registry, group)
        }
        ["apis", group] if let Some(document) = remote_group(shared, registry, group) => {
            Ok(response::value(200, &document))
        }
        ["apis", group, version] if registry.has_group_version(group, version) => {
            Ok(resources(registry, group, version))
        }
        [".well-known", "openid-configuration"] => Ok(crate::openid::configuration(shared)),
        ["openid", "v1", "jwks"] => Ok(crate::openid::keys(shared)),
        [] => Ok(response::raw(200, &paths(shared, registry))),
        ["apis", group, _] if registry.has_group(group) => Err(Status::no_such_path()),
        _ => Ok(nothing_here()),
    }
}

/// What is at a path that is no API's.
pub(crate) fn nothing_here() -> Response<Body> {
    response::text(404, "404 page not found\n")
}

fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
        "emulationMajor": "1", "emulationMinor": MINOR, "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    })
}

/// `/livez` says whether a restart would help, which it does not when the disk is full; `/readyz` and `/healthz` say
/// whether the server can do its work.
fn health(shared: &Shared, endpoint: &str, rest: &[&str], query: &Query) -> Response<Body> {
    const CHECKS: [&str; 3] = ["ping", "log", "storage"];
    let shortage = match endpoint {
        "livez" => None,
        _ => shared.store.shortage(),
    };
    let is_excluded = |check: &str| query.all("exclude").any(|excluded| excluded == check);
    let fails = |check: &str| check == "storage" && shortage.is_some();
    match rest {
        [] => {
            let mut text = String::new();
            for check in CHECKS {
                // UPSTREAM: why is in the log, not for everyone.
                text.push_str(&match check {
                    check if is_excluded(check) => format!("[+]{check} excluded: ok\n"),
                    check if fails(check) => format!("[-]{check} failed: reason withheld\n"),
                    check => format!("[+]{check} ok\n"),
                });
            }
            if CHECKS
                .iter()
                .any(|check| fails(check) && !is_excluded(check))
            {
                let why = shortage.unwrap_or_default();
                tracing::warn!(check = endpoint, why, "The storage check failed");
                text.push_str(&format!("{endpoint} check failed\n"));
                return response::text(500, text);
            }
            if !query.has("verbose") {
                return response::text(200, "ok");
            }
            text.push_str(&format!("{endpoint} check passed\n"));
            response::text(200, text)
        }
        [check] if fails(check) => {
            response::text(500, "internal server error: no room on the disk\n")
        }
        [check] if CHECKS.contains(check) => response::text(200, "ok"),
        _ => nothing_here(),
    }
}

/// Where clients find the server, as far as it knows.
fn addresses(shared: &Shared) -> Value {
    match shared.advertise {
        None => json!([]),
        Some((address, port)) => {
            let address = std::net::SocketAddr::new(address, port).to_string();
            json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}])
        }
    }
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(http::header::ACCEPT);
    let text: Vec<&str> = accept
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let first = text
        .iter()
        .flat_map(|value| value.split(','))
        .find(|clause| clause.trim().starts_with("application/json"));
    first.is_some_and(|clause| {
        clause.contains("APIGroupDiscoveryList")
            && clause.contains("v=v2")
            && !clause.contains("v2beta1")
    })
}

/// Upstream's groups by their priority. Those of custom kinds come after them, by name.
const GROUP_ORDER: [&str; 21] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// (group, its versions with the preferred one first), in the order of discovery.
fn group_versions(registry: &Registry) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for kind in registry.iter() {
        match groups.iter_mut().find(|(group, _)| *group == kind.group) {
            Some((_, versions)) if versions.contains(&&*kind.version) => {}
            Some((_, versions)) => versions.push(&kind.version),
            None => groups.push((&kind.group, vec![&kind.version])),
        }
    }
    let place = |group: &str| GROUP_ORDER.iter().position(|known| *known == group);
    groups.sort_by_key(|(group, _)| place(group).unwrap_or(GROUP_ORDER.len()));
    for (_, versions) in &mut groups {
        versions.sort_by_key(|version| std::cmp::Reverse(crate::crd::version_priority(version)));
    }
    groups
}

fn group_value(group: &str, versions: &[&str]) -> Value {
    let name =
        |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let list: Vec<Value> = versions.iter().map(name).collect();
    json!({"name": group, "versions": list, "preferredVersion": list.first()})
}

fn groups(registry: &Registry) -> Vec<Value> {
    let named = group_versions(registry)
        .into_iter()
        .filter(|(group, _)| !group.is_empty());
    named
        .map(|(group, versions)| group_value(group, &versions))
        .collect()
}

/// Those of other servers, too.
fn all_groups(shared: &Shared, registry: &Registry) -> Vec<Value> {
    let mut all = groups(registry);
    all.extend(remote::group_values(shared, registry));
    all
}

/// The document of a group that other servers serve.
fn remote_group(shared: &Shared, registry: &Registry, group: &str) -> Option<Value> {
    let mut groups = remote::group_values(shared, registry).into_iter();
    let mut document = groups.find(|known| known["name"] == group)?;
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

fn group_document(registry: &Registry, group: &str) -> Result<Response<Body>, Status> {
    let groups = group_versions(registry);
    let (_, versions) = groups
        .iter()
        .find(|(name, _)| *name == group)
        .ok_or_else(Status::no_such_path)?;
    let mut document = group_value(group, versions);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Ok(response::ordered(200, &document))
}

/// The legacy list of a group version's resources, subresources as entries of their own.
fn resources(registry: &Registry, group: &str, version: &str) -> Response<Body> {
    let mut list = Vec::new();
    for kind in registry
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
    {
        let mut entry = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": verbs(kind),
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        if kind.verbs == Verbs::All {
            entry["storageVersionHash"] = json!(storage_version_hash(registry, kind));
        }
        list.push(entry);
        // UPSTREAM: of a custom kind the status comes before the scale.
        let mut subresources = kind.subresources.clone();
        if kind.custom().is_some() {
            subresources.reverse();
        }
        for subresource in subresources {
            list.push(legacy_subresource(kind, subresource));
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let mut document = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list});
    if group.is_empty()
        && let Some(map) = document.as_object_mut()
    {
        // UPSTREAM: the core group's list has never said its version.
        map.remove("apiVersion");
    }
    response::ordered(200, &document)
}

/// Says under which version a kind is stored: the same for all versions of it.
fn storage_version_hash(registry: &Registry, kind: &Arc<Kind>) -> String {
    let stored = crate::convert::storage_kind(registry, kind);
    let name = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    // UPSTREAM: eight bytes are enough to tell them apart.
    STANDARD.encode(&digest.as_ref()[..8])
}

fn legacy_subresource(kind: &Kind, subresource: Subresource) -> Value {
    let (group, version, name, verbs) = subresource_kind(kind, subresource);
    let mut entry = json!({
        "name": format!("{}/{}", kind.plural, subresource.name()), "singularName": "",
        "namespaced": kind.namespaced, "kind": name, "verbs": verbs,
    });
    if (group.as_str(), version.as_str()) != (&*kind.group, &*kind.version) {
        entry["group"] = json!(group);
        entry["version"] = json!(version);
    }
    entry
}

/// (group, version, kind, verbs) of what a subresource takes and gives.
fn subresource_kind(
    kind: &Kind,
    subresource: Subresource,
) -> (String, String, String, &'static [&'static str]) {
    let own = |name: &str, verbs| {
        (
            kind.group.to_string(),
            kind.version.to_string(),
            name.to_owned(),
            verbs,
        )
    };
    let other = |group: &str, name: &str, verbs| {
        (group.to_owned(), "v1".to_owned(), name.to_owned(), verbs)
    };
    const CHANGE: &[&str] = &["get", "patch", "update"];
    const CREATE: &[&str] = &["create"];
    const CONNECT: &[&str] = &["create", "get"];
    match subresource {
        Subresource::Scale => other("autoscaling", "Scale", CHANGE),
        Subresource::Eviction => other("policy", "Eviction", CREATE),
        Subresource::Token => other("authentication.k8s.io", "TokenRequest", CREATE),
        Subresource::Binding => own("Binding", CREATE),
        Subresource::Finalize => own(&kind.kind, &["update"]),
        Subresource::Exec => own("PodExecOptions", CONNECT),
        Subresource::Attach => own("PodAttachOptions", CONNECT),
        Subresource::PortForward => own("PodPortForwardOptions", CONNECT),
        Subresource::Proxy => own(
            &format!("{}ProxyOptions", kind.kind),
            &["create", "delete", "get", "patch", "update"],
        ),
        Subresource::Log => own(&kind.kind, &["get"]),
        Subresource::Status
        | Subresource::Approval
        | Subresource::EphemeralContainers
        | Subresource::Resize => own(&kind.kind, CHANGE),
    }
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    match kind.verbs {
        // UPSTREAM: nobody deletes all namespaces at once.
        Verbs::All if kind.is("", "Namespace") => &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ],
        Verbs::All if kind.custom().is_some() => &[
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ],
        Verbs::All => &ALL_VERBS,
        Verbs::CreateOnly => &["create"],
        Verbs::ReadOnly => &["get", "list"],
    }
}

/// One of the [`Aggregated`] documents.
fn aggregated(
    shared: &Shared,
    registry: &Arc<Registry>,
    which: usize,
    headers: &HeaderMap,
) -> Response<Body> {
    let make = |kinds: &Registry| [true, false].map(|core| aggregated_document(kinds, core));
    let own = &shared.discovery.get(registry, make)[which];
    let others = match which {
        0 => Vec::new(),
        _ => remote::items(shared, registry),
    };
    if others.is_empty() {
        return own.answer(headers, AGGREGATED);
    }
    let mut all: Value = serde_json::from_slice(&own.text).unwrap_or_default();
    if let Some(items) = all["items"].as_array_mut() {
        items.extend(others);
    }
    Document::new(all.to_string()).answer(headers, AGGREGATED)
}

/// The core group and all others in one document each (`apidiscovery.k8s.io/v2`).
pub(crate) type Aggregated = Cached<[Document; 2]>;

fn aggregated_document(registry: &Registry, core: bool) -> Document {
    let wanted = group_versions(registry)
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = wanted
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let kinds = registry
                        .iter()
                        .filter(|kind| kind.group == group && kind.version == *version);
                    let resources: Vec<Value> =
                        kinds.map(|kind| aggregated_resource(kind)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if group.is_empty() {
                json!({})
            } else {
                json!({"name": group})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let document = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    Document::new(crate::ordered::print(&document))
}

/// UPSTREAM: what is the same as for the whole group version is left empty, but not for custom kinds.
fn response_kind(kind: &Kind, group: &str, version: &str, name: &str) -> Value {
    if kind.custom().is_none() && (group, version) == (&*kind.group, &*kind.version) {
        return json!({"group": "", "version": "", "kind": name});
    }
    json!({"group": group, "version": version, "kind": name})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "resource": kind.plural, "singularResource": kind.singular, "verbs": verbs(kind),
        "responseKind": response_kind(kind, &kind.group, &kind.version, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|subresource| {
            let (group, version, name, verbs) = subresource_kind(kind, *subresource);
            json!({"subresource": subresource.name(), "verbs": verbs, "responseKind": response_kind(kind, &group, &version, &name)})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

fn paths(shared: &Shared, registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in group_versions(registry)
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
    {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    if crate::openid::is_served(shared) {
        paths.extend([crate::openid::CONFIGURATION, crate::openid::KEYS].map(str::to_owned));
    }
    paths.sort_unstable();
    json!({"paths": paths})
}
