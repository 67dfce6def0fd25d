//! OpenAPI: in version 3 one document per group version, made from the schema tables and the custom definitions.
//!
//! kubectl reads them to learn that `fieldValidation` works, how lists merge, and what to explain. They carry
//! no descriptions: the tables have none.

mod schemas;
mod v2;

use crate::Body;
use crate::documents::{Document, Made, set};
use crate::kinds::{Kind, Registry, Subresource, Verbs};
use crate::rest::{RequestInfo, response};
use crate::server::Shared;
use crate::status::Status;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, EXPIRES, LOCATION};
use http::{HeaderMap, Response};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The documents of one set of kinds.
#[derive(Default)]
pub(crate) struct OpenApi {
    v3: Made<Arc<Documents>>,
    /// All of them as one document of v2: JSON, protobuf.
    v2: Made<[Document; 2]>,
}

/// By path below `/openapi/v3/`: "api/v1", "apis/apps/v1".
type Documents = BTreeMap<String, Document>;

/// Answers below `/openapi/v3`; `path` is what follows it.
pub(crate) fn answer(
    shared: &Shared,
    registry: &Arc<Registry>,
    path: &[&str],
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let documents = shared
        .openapi
        .v3
        .get(registry, |kinds| Arc::new(make(kinds)));
    if path.is_empty() {
        let mut index = index(&documents);
        for path in crate::aggregation::discovery::open_api_paths(shared, registry) {
            let url = format!("/openapi/v3/{path}");
            index["paths"][path] = json!({"serverRelativeURL": url});
        }
        return Ok(response::value(200, &index));
    }
    let path = path.join("/");
    let Some(document) = documents.get(&path) else {
        let mut nothing = response::json(404, Bytes::new());
        nothing.headers_mut().remove(http::header::CONTENT_TYPE);
        return Ok(nothing);
    };
    let asked = info.query.get("hash");
    if !asked.is_empty() && asked != document.hash {
        let mut moved = response::text(301, "");
        set(&mut moved, LOCATION, &url(&path, &document.hash));
        return Ok(moved);
    }
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
    let [json, protobuf] = shared.openapi.v2.get(registry, make_v2);
    let accepts = headers
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| ASKED.iter().any(|asked| value.contains(asked)));
    if accepts {
        protobuf.answer(headers, PROTOBUF)
    } else {
        json.answer(headers, "application/json")
    }
}

fn url(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

fn index(documents: &Documents) -> Value {
    let entry = |(path, document): (&String, &Document)| {
        let url = url(path, &document.hash);
        (path.clone(), json!({"serverRelativeURL": url}))
    };
    json!({"paths": documents.iter().map(entry).collect::<Map<_, _>>()})
}

fn make_v2(registry: &Registry) -> [Document; 2] {
    let document = v2::document(registry);
    [
        Document::new(document.to_string()),
        Document::new(v2::protobuf(&document)),
    ]
}

fn make(registry: &Registry) -> Documents {
    let mut documents: BTreeMap<String, Vec<&Arc<Kind>>> = BTreeMap::new();
    for kind in registry.iter() {
        documents.entry(document_path(kind)).or_default().push(kind);
    }
    let made = documents.into_iter().map(|(path, kinds)| {
        let document = Document::new(document(&kinds).to_string());
        (path, document)
    });
    made.collect()
}

fn document_path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

fn document(kinds: &[&Arc<Kind>]) -> Value {
    let mut paths = Map::new();
    let mut components = schemas::Schemas::default();
    for kind in kinds {
        components.add_kind(kind);
        add_paths(&mut paths, kind);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": crate::discovery::GIT_VERSION},
        "paths": paths,
        "components": {"schemas": components.finish()},
    })
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
        let one = json!({"get": operation("get", &[]), "parameters": path_parameters(kind, true)});
        paths.insert(format!("{collection}/{{name}}"), one);
        return;
    }
    let mut many = json!({"get": operation("list", LIST), "post": operation("post", WRITE), "delete": operation("deletecollection", LIST)});
    many["parameters"] = path_parameters(kind, false);
    paths.insert(collection.clone(), many);
    if kind.namespaced {
        paths.insert(
            format!("{root}/{}", kind.plural),
            json!({"get": operation("list", LIST)}),
        );
    }
    let mut one = json!({
        "get": operation("get", &[]), "put": operation("put", WRITE),
        "patch": operation("patch", PATCH), "delete": operation("delete", DELETE),
    });
    one["parameters"] = path_parameters(kind, true);
    paths.insert(format!("{collection}/{{name}}"), one);
    for subresource in &kind.subresources {
        let path = format!("{collection}/{{name}}/{}", subresource.name());
        if *subresource == Subresource::Status {
            let item = json!({"get": operation("get", &[]), "put": operation("put", WRITE), "patch": operation("patch", PATCH), "parameters": path_parameters(kind, true)});
            paths.insert(path, item);
        }
    }
}

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
