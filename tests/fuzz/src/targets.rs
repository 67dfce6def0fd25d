//! Who reads bytes of strangers.

use std::sync::atomic::{AtomicI64, Ordering};

use api::{Clock, Rng, Time};
use apiserver::auth::Identity;
use apiserver::{ApiServer, Options, Storage};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use client::config::{Environment, Kubeconfig};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::{Service, ServiceExt};

/// Takes inputs one after the other.
pub type Session = Box<dyn FnMut(&[u8]) -> String>;

pub struct Target {
    pub name: &'static str,
    pub open: fn() -> Session,
}

pub const ALL: [Target; 16] = [
    Target {
        name: "protobuf",
        open: || body("POST", PODS, "application/vnd.kubernetes.protobuf"),
    },
    Target {
        name: "json",
        open: || body("POST", DEPLOYMENTS, "application/json"),
    },
    Target {
        name: "yaml",
        open: || body("POST", DEPLOYMENTS, "application/yaml"),
    },
    Target {
        name: "json-patch",
        open: || body("PATCH", WEB, "application/json-patch+json"),
    },
    Target {
        name: "merge-patch",
        open: || body("PATCH", WEB, "application/merge-patch+json"),
    },
    Target {
        name: "strategic-patch",
        open: || body("PATCH", WEB, "application/strategic-merge-patch+json"),
    },
    Target {
        name: "apply-patch",
        open: || body("PATCH", FORCED, "application/apply-patch+yaml"),
    },
    Target {
        name: "label-selector",
        open: || query("labelSelector"),
    },
    Target {
        name: "field-selector",
        open: || query("fieldSelector"),
    },
    Target {
        name: "continue-token",
        open: continue_token,
    },
    Target {
        name: "jwt",
        open: jwt,
    },
    Target {
        name: "kubeconfig",
        open: kubeconfig,
    },
    Target {
        name: "database",
        open: database,
    },
    Target {
        name: "crd-schema",
        open: || wrapped(definition),
    },
    Target {
        name: "cel",
        open: || wrapped(rule),
    },
    Target {
        name: "field-path",
        open: || wrapped(field_path),
    },
];

const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict";
const DEPLOYMENTS: &str =
    "/apis/apps/v1/namespaces/default/deployments?dryRun=All&fieldValidation=Strict";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web?dryRun=All&fieldManager=fuzz";
const FORCED: &str =
    "/apis/apps/v1/namespaces/default/deployments/web?dryRun=All&fieldManager=fuzz&force=true";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";

/// A server with a Deployment to patch, and a runtime to ask it in.
struct Server {
    server: ApiServer,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    fn new() -> Server {
        let clock = Clock::fixed(Time::from_unix(1_700_000_000));
        let mut options = Options::in_memory(clock, Rng::from_seed(1));
        options.service_account_key = None;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be made");
        let server = ApiServer::open(options).expect("there is nothing to open");
        let server = Server { server, runtime };
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}]}}},
        });
        let made = server.ask(
            "POST",
            "/apis/apps/v1/namespaces/default/deployments",
            "application/json",
            web.to_string().into(),
        );
        assert!(made.starts_with("201"), "{made}");
        server
    }

    fn ask(&self, method: &str, path: &str, content_type: &str, body: Bytes) -> String {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(body);
        match request {
            Ok(request) => self.runtime.block_on(async {
                let response = self.server.handle(request, Identity::admin()).await;
                answer(response).await
            }),
            Err(error) => error.to_string(),
        }
    }
}

async fn answer(response: http::Response<apiserver::Body>) -> String {
    let code = response.status().as_u16();
    let body = response.into_body().collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    format!("{code} {}", value["message"].as_str().unwrap_or_default())
}

fn body(method: &'static str, path: &'static str, content_type: &'static str) -> Session {
    let server = Server::new();
    Box::new(move |input| server.ask(method, path, content_type, input.to_vec().into()))
}

fn query(parameter: &'static str) -> Session {
    let server = Server::new();
    Box::new(move |input| {
        let path = format!("/api/v1/pods?{parameter}={}", escaped(input));
        server.ask("GET", &path, "application/json", Bytes::new())
    })
}

/// Any byte in a URL.
fn escaped(input: &[u8]) -> String {
    // A URL has 64 KiB at most.
    let shown = input.iter().take(16 * 1024);
    shown.map(|byte| format!("%{byte:02x}")).collect()
}

/// Half of them as they are, half of them as what is in a token.
fn continue_token() -> Session {
    let server = Server::new();
    Box::new(move |input| {
        let token = match input.first() {
            Some(b'{') => URL_SAFE_NO_PAD.encode(input),
            _ => escaped(input),
        };
        let path = format!(
            "/apis/apps/v1/deployments?limit=1&continue={}",
            token.chars().take(48_000).collect::<String>()
        );
        server.ask("GET", &path, "application/json", Bytes::new())
    })
}

/// A dot more than two, or text in braces, is encoded as a part of a token is.
fn jwt() -> Session {
    let server = Server::new();
    let mut transport = server.server.transport();
    Box::new(move |input| {
        let parts = input
            .split(|byte| *byte == b'.')
            .map(|part| match part.first() {
                Some(b'{') => URL_SAFE_NO_PAD.encode(part).into_bytes(),
                _ => part.to_vec(),
            });
        let token = parts.collect::<Vec<_>>().join(&b'.');
        let value = http::HeaderValue::from_bytes(&[b"Bearer ", &*token].concat());
        let Ok(value) = value else {
            return "no header".to_owned();
        };
        let request = Request::builder()
            .uri("/api/v1/pods")
            .header("authorization", value)
            .body(Bytes::new());
        server.runtime.block_on(async {
            let request = request.expect("a method, a path and a header");
            let ready = transport.ready().await.expect("it is always ready");
            answer(
                ready
                    .call(request)
                    .await
                    .expect("every failure is an answer"),
            )
            .await
        })
    })
}

fn kubeconfig() -> Session {
    let dir = tempfile::tempdir().expect("a folder can be made");
    Box::new(move |input| {
        let path = dir.path().join("config");
        std::fs::write(&path, input).expect("the folder is there");
        let config = match Kubeconfig::read(&path) {
            Ok(config) => config,
            Err(error) => return error.to_string(),
        };
        match config.resolve(None, None, &Environment::default()) {
            Ok(_) => "resolved".to_owned(),
            Err(error) => error.to_string(),
        }
    })
}

/// The input is where the file of a small database is damaged: (two bytes of place, one of change), any number of times; what
/// begins otherwise is the whole file.
fn database() -> Session {
    let made = tempfile::tempdir().expect("a folder can be made");
    drop(ApiServer::open(on_disk(made.path())));
    let whole = std::fs::read(made.path().join("steersman.redb")).unwrap_or_default();
    static NUMBER: AtomicI64 = AtomicI64::new(0);
    Box::new(move |input| {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = made.path().join(number.to_string());
        std::fs::create_dir(&dir).expect("the folder is there");
        let file = match input.strip_prefix(b"damage") {
            Some(places) => {
                let mut file = whole.clone();
                for place in places.chunks_exact(4) {
                    let at = usize::from_be_bytes([0, 0, 0, 0, 0, place[0], place[1], place[2]]);
                    if let Some(byte) = file.get_mut(at) {
                        *byte ^= place[3];
                    }
                }
                file
            }
            None => input.to_vec(),
        };
        std::fs::write(dir.join("steersman.redb"), file).expect("the folder is there");
        let answer = match ApiServer::open(on_disk(&dir)) {
            Ok(_) => "opened".to_owned(),
            Err(error) => match apiserver::repair(&dir) {
                Ok(repaired) => format!("{error}; repaired, {} dropped", repaired.dropped.len()),
                Err(again) => format!("{error}; {again}"),
            },
        };
        let _ = std::fs::remove_dir_all(&dir);
        answer
    })
}

fn on_disk(dir: &std::path::Path) -> Options {
    let clock = Clock::fixed(Time::from_unix(1_700_000_000));
    Options {
        storage: Storage::Dir(dir.to_owned()),
        ..Options::in_memory(clock, Rng::from_seed(1))
    }
}

/// The input within an object that is otherwise right.
fn wrapped(wrap: fn(&[u8]) -> Option<(&'static str, String)>) -> Session {
    let server = Server::new();
    Box::new(move |input| match wrap(input) {
        Some((path, body)) => server.ask("POST", path, "application/json", body.into()),
        None => "no JSON".to_owned(),
    })
}

fn custom(schema: &str) -> String {
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"widgets.example.com"}},
        "spec":{{"group":"example.com","scope":"Namespaced","names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},
        "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    )
}

fn definition(input: &[u8]) -> Option<(&'static str, String)> {
    Some((DEFINITIONS, custom(str::from_utf8(input).ok()?)))
}

fn rule(input: &[u8]) -> Option<(&'static str, String)> {
    let rule = json!(str::from_utf8(input).ok()?);
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
            "count": {"type": "integer", "minimum": 0}, "name": {"type": "string", "maxLength": 63},
            "list": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}},
            "map": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "string", "maxLength": 20}}}}}});
    Some((DEFINITIONS, custom(&schema.to_string())))
}

fn field_path(input: &[u8]) -> Option<(&'static str, String)> {
    let path = str::from_utf8(input).ok()?;
    if path.starts_with(['.', '{']) {
        let mut body: Value = serde_json::from_str(&custom(r#"{"type":"object"}"#)).ok()?;
        body["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{"name": "Column", "type": "string", "jsonPath": path}]);
        return Some((DEFINITIONS, body.to_string()));
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}]}});
    Some((PODS, pod.to_string()))
}
