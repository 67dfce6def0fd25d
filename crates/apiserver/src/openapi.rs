//! OpenAPI: in version 3 one document per group version, made from the schema tables and the custom definitions.
//!
//! kubectl reads them to learn that `fieldValidation` works, how lists merge, and what to explain. A document is made
//! when it is asked for: its hash tells what goes into it, so that the index needs none of them.

mod prose;
mod schemas;
mod v2;

use crate::Body;
use crate::crd::lifecycle;
use crate::documents::{Cached, Document, digest, set};
use crate::kinds::{Kind, Registry, Subresource, Verbs};
use crate::rest::{RequestInfo, response};
use crate::server::Shared;
use crate::status::Status;
use crate::storage::Packed;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, EXPIRES, LOCATION};
use http::{HeaderMap, Response};
use parking_lot::Mutex;
use prose::Prose;
use schemas::{Schemas, Words};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How much of compressed documents is kept: those of all built-in groups, and some more.
const KEPT_BYTES: usize = 2 << 20;

/// The documents of one set of kinds.
#[derive(Default)]
pub(crate) struct OpenApi {
    /// Of each document of v3 what tells its contents.
    hashes: Cached<Arc<BTreeMap<String, String>>>,
    /// Documents that were asked for, by their hash, the newest last.
    recent: Mutex<VecDeque<(String, Packed)>>,
}

impl OpenApi {
    fn document(&self, hash: &str, make: impl FnOnce() -> Bytes) -> Document {
        let held = |recent: &VecDeque<(String, Packed)>| {
            let found = recent.iter().find(|(known, _)| known == hash);
            found.map(|(_, packed)| packed.clone())
        };
        let known = held(&self.recent.lock());
        let text = match known {
            Some(packed) => packed.unpack(),
            None => {
                let text = make();
                self.keep(hash, Packed::pack(text.clone()));
                text
            }
        };
        Document {
            text,
            hash: hash.to_owned(),
        }
    }

    fn keep(&self, hash: &str, packed: Packed) {
        let mut recent = self.recent.lock();
        recent.push_back((hash.to_owned(), packed));
        let total = |recent: &VecDeque<(String, Packed)>| -> usize {
            recent.iter().map(|(_, packed)| packed.held()).sum()
        };
        while recent.len() > 1 && total(&recent) > KEPT_BYTES {
            recent.pop_front();
        }
    }
}

/// Answers below `/openapi/v3`; `path` is what follows it.
pub(crate) fn answer(
    shared: &Shared,
    registry: &Arc<Registry>,
    path: &[&str],
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let hashes = shared
        .openapi
        .hashes
        .get(registry, |registry| Arc::new(hashes(registry)));
    if path.is_empty() {
        let mut index = index(&hashes);
        for path in crate::aggregation::discovery::open_api_paths(shared, registry) {
            let url = format!("/openapi/v3/{path}");
            index["paths"][path] = json!({"serverRelativeURL": url});
        }
        return Ok(response::value(200, &index));
    }
    let path = path.join("/");
    let Some(hash) = hashes.get(&path) else {
        let mut nothing = response::json(404, Bytes::new());
        nothing.headers_mut().remove(http::header::CONTENT_TYPE);
        return Ok(nothing);
    };
    let asked = info.query.get("hash");
    if !asked.is_empty() && asked != hash {
        let mut moved = response::text(301, "");
        set(&mut moved, LOCATION, &url(&path, hash));
        return Ok(moved);
    }
    let make = || {
        let kinds = registry.iter().filter(|kind| document_path(kind) == path);
        Bytes::from(document(&kinds.collect::<Vec<_>>(), &words(shared)))
    };
    let document = shared.openapi.document(hash, make);
    let mut answer = document.answer(headers, "application/json");
    if !asked.is_empty() {
        // The hash is part of the address, so what is there never changes.
        set(&mut answer, CACHE_CONTROL, "public, immutable");
        set(&mut answer, EXPIRES, "Fri, 01 Jan 2100 00:00:00 GMT");
    }
    Ok(answer)
}

/// Answers `/openapi/v2`, as protobuf for those who ask for it.
pub(crate) fn answer_v2(
    shared: &Shared,
    registry: &Arc<Registry>,
    headers: &HeaderMap,
) -> Response<Body> {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    // UPSTREAM: the name that clients ask for is no media type by the book, so it is answered by another.
    const ASKED: [&str; 2] = ["spec.v2@v1.0+protobuf", "spec.v2.v1.0+protobuf"];
    let accepts = headers
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| ASKED.iter().any(|asked| value.contains(asked)));
    let content_type = if accepts {
        PROTOBUF
    } else {
        "application/json"
    };
    let hashes = shared
        .openapi
        .hashes
        .get(registry, |registry| Arc::new(hashes(registry)));
    let foreign = shared.aggregation.definitions();
    let own = hashes.values().map(String::as_str);
    let theirs = foreign
        .iter()
        .map(|definitions| definitions.digest.as_str());
    let all: String = own.chain(theirs).collect();
    let hash = digest(format!("{content_type}{all}").as_bytes());
    let make = || {
        let mut schemas = Schemas::default();
        registry.iter().for_each(|kind| schemas.add_kind(kind));
        if accepts {
            Bytes::from(v2::protobuf(&schemas, &words(shared), &foreign))
        } else {
            Bytes::from(v2::document(&schemas, &words(shared), &foreign))
        }
    };
    let document = shared.openapi.document(&hash, make);
    document.answer(headers, content_type)
}

/// Descriptions of built-in types from the table, those of custom ones from their definitions.
fn words(shared: &Shared) -> Words<'_> {
    Words {
        prose: Prose::unpack(),
        written: Box::new(|kind| lifecycle::written_schema(shared, kind)),
    }
}

/// What tells the contents of each document, by path below `/openapi/v3/`: "api/v1", "apis/apps/v1".
fn hashes(registry: &Registry) -> BTreeMap<String, String> {
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    for kind in registry.iter() {
        let part = parts
            .entry(document_path(kind))
            .or_insert_with(|| crate::discovery::GIT_VERSION.to_owned());
        part.push_str(&kind.plural);
        if let Some(version) = kind.custom() {
            part.push_str(&version.digest);
        }
    }
    let hash = |(path, part): (String, String)| {
        let hash = digest(format!("{path} {part} {}", env!("CARGO_PKG_VERSION")).as_bytes());
        (path, hash)
    };
    parts.into_iter().map(hash).collect()
}

fn url(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

fn index(hashes: &BTreeMap<String, String>) -> Value {
    let entry = |(path, hash): (&String, &String)| {
        let url = url(path, hash);
        (path.clone(), json!({"serverRelativeURL": url}))
    };
    json!({"paths": hashes.iter().map(entry).collect::<Map<_, _>>()})
}

fn document_path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

fn document(kinds: &[&Arc<Kind>], words: &Words<'_>) -> String {
    let mut paths = Map::new();
    let mut schemas = Schemas::default();
    for kind in kinds {
        schemas.add_kind(kind);
        add_paths(&mut paths, kind);
    }
    let head = json!({"title": "Kubernetes", "version": crate::discovery::GIT_VERSION});
    let paths = Value::Object(paths);
    let mut out =
        format!("{{\"openapi\":\"3.0.0\",\"info\":{head},\"paths\":{paths},\"components\":{{");
    let mut first = true;
    schemas.each(words, |name, schema| {
        out.push_str(match std::mem::take(&mut first) {
            true => "\"schemas\":{",
            false => ",",
        });
        out.push_str(&format!("{}:{schema}", Value::from(name)));
    });
    out.push_str(if first { "}}" } else { "}}}" });
    out
}

fn add_paths(paths: &mut Map<String, Value>, kind: &Kind) {
    let root = format!("/{}", document_path(kind));
    let collection = if kind.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{root}/{}", kind.plural)
    };
    let operation = |action: &str, parameters: &[&str]| {
        operation(
            kind,
            &kind.group,
            &kind.version,
            &kind.kind,
            action,
            parameters,
        )
    };
    if kind.verbs == Verbs::CreateOnly {
        paths.insert(collection, json!({"post": operation("post", WRITE)}));
        return;
    }
    if kind.verbs == Verbs::ReadOnly {
        paths.insert(collection.clone(), json!({"get": operation("list", LIST)}));
        let one = json!({"get": operation("get", GET), "parameters": path_parameters(kind, true)});
        paths.insert(format!("{collection}/{{name}}"), one);
        return;
    }
    let mut many = json!({"get": operation("list", LIST), "post": operation("post", WRITE), "delete": operation("deletecollection", LIST)});
    // UPSTREAM: what is empty is left out.
    if kind.namespaced {
        many["parameters"] = path_parameters(kind, false);
    }
    paths.insert(collection.clone(), many);
    if kind.namespaced {
        paths.insert(
            format!("{root}/{}", kind.plural),
            json!({"get": operation("list", LIST)}),
        );
    }
    let mut one = json!({
        "get": operation("get", GET), "put": operation("put", WRITE),
        "patch": operation("patch", PATCH), "delete": operation("delete", DELETE),
    });
    one["parameters"] = path_parameters(kind, true);
    paths.insert(format!("{collection}/{{name}}"), one);
    for subresource in &kind.subresources {
        let path = format!("{collection}/{{name}}/{}", subresource.name());
        if *subresource == Subresource::Status {
            let item = json!({"get": operation("get", GET), "put": operation("put", WRITE), "patch": operation("patch", PATCH), "parameters": path_parameters(kind, true)});
            paths.insert(path, item);
        }
    }
}

const GET: &[&str] = &["resourceVersion"];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "orphanDependents",
    "propagationPolicy",
];
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];

fn operation(
    of: &Kind,
    group: &str,
    version: &str,
    kind: &str,
    action: &str,
    parameters: &[&str],
) -> Value {
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|name| query_parameter(name))
        .collect();
    let schema = json!({"$ref": format!("#/components/schemas/{}", schemas::name(of))});
    let mut operation = json!({
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    });
    if matches!(action, "post" | "put") {
        operation["requestBody"] =
            json!({"content": {"*/*": {"schema": schema}}, "required": true});
    }
    operation
}

fn query_parameter(name: &str) -> Value {
    let kind = match name {
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
        "watch" | "force" | "allowWatchBookmarks" | "sendInitialEvents" | "orphanDependents" => {
            "boolean"
        }
        _ => "string",
    };
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn path_parameters(kind: &Kind, named: bool) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}});
    let mut parameters = Vec::new();
    if named {
        parameters.push(parameter("name"));
    }
    if kind.namespaced {
        parameters.push(parameter("namespace"));
    }
    Value::Array(parameters)
}
