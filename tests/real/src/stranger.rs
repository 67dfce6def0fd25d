//! A server that API servers call: admission webhooks in several modes, and an aggregated server that echoes what it is
//! asked. Both servers under test call the same one, so whatever it says it says to both.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::certificates::Authority;

/// Whoever connects and says nothing is hung up on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than a webhook is waited for that has a second.
const HANG: Duration = Duration::from_secs(3);

/// No review of the corpus is nearly as large.
const LARGEST_BODY: usize = 4 << 20;

pub struct Stranger {
    address: SocketAddr,
    authority: String,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Stranger {
    /// Listens on loopback; its certificates lie in the folder.
    pub fn start(folder: &Path) -> Result<Stranger> {
        let authority = Authority::create(folder)?;
        let identity = authority.server("stranger")?;
        let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let config = Arc::new(config);
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free loopback port")?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let asked = stopping.clone();
        let acceptor = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if asked.load(Ordering::SeqCst) {
                    break;
                }
                let config = config.clone();
                // It ends with its connection, and that with the servers under test.
                std::thread::spawn(move || {
                    let _ = serve(connection, config);
                });
            }
        });
        Ok(Stranger {
            address,
            authority: STANDARD.encode(authority.certificate()),
            stopping,
            acceptor: Some(acceptor),
        })
    }

    /// What scenarios call it, and what they trust it by.
    pub fn names(&self) -> [(String, String); 3] {
        [
            ("STRANGERPORT".to_owned(), self.address.port().to_string()),
            ("STRANGER".to_owned(), format!("https://{}", self.address)),
            ("TRUSTED".to_owned(), self.authority.clone()),
        ]
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // The acceptor waits for somebody.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// One request after another, as long as the connection lasts.
fn serve(connection: TcpStream, config: Arc<ServerConfig>) -> Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    let tls = ServerConnection::new(config)?;
    let mut stream = BufReader::new(StreamOwned::new(tls, connection));
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let path = words.next().unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            stream.read_line(&mut header)?;
            let Some((name, value)) = header.trim().split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").map(|length| length.parse());
        let mut body = vec![0; length.transpose()?.unwrap_or(0).min(LARGEST_BODY)];
        stream.read_exact(&mut body)?;
        let reply = if path.starts_with("/apis/") || path.starts_with("/openapi/") {
            match echo(&method, &path, &headers, &body) {
                Some(reply) => reply,
                None => return Ok(()),
            }
        } else {
            let review: Value = serde_json::from_slice(&body).unwrap_or_default();
            let (code, text) = answer(path.split('?').next().unwrap_or_default(), &review);
            Reply {
                code,
                header: "Content-Type: application/json".to_owned(),
                text,
            }
        };
        let Reply { code, header, text } = reply;
        let head = format!(
            "HTTP/1.1 {code} x\r\n{header}\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        stream.get_mut().write_all(head.as_bytes())?;
        stream.get_mut().write_all(text.as_bytes())?;
        stream.get_mut().flush()?;
    }
}

struct Reply {
    code: u16,
    /// One or more lines of it.
    header: String,
    text: String,
}

/// As an aggregated server: says what it was asked, by the name of the object; none hangs up.
fn echo(
    method: &str,
    path: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> Option<Reply> {
    let json = |code, value: Value| {
        Some(Reply {
            code,
            header: "Content-Type: application/json".to_owned(),
            text: value.to_string(),
        })
    };
    let other = |code, header: &str, text: &str| {
        Some(Reply {
            code,
            header: header.to_owned(),
            text: text.to_owned(),
        })
    };
    let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no such echo", "reason": "NotFound", "code": 404});
    let group_version = "stranger.example.com/v1";
    if path == "/apis/stranger.example.com/v1" {
        let resource = json!({"name": "echoes", "singularName": "echo", "namespaced": true, "kind": "Echo", "verbs": ["get", "list"], "shortNames": ["ec"]});
        return json(
            200,
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": [resource]}),
        );
    }
    if path.starts_with("/openapi/") {
        return json(404, missing);
    }
    match path.rsplit('/').next().unwrap_or_default() {
        "text" => other(200, "Content-Type: text/plain", "plain"),
        "error" => other(500, "Content-Type: text/plain", "out of order"),
        "missing" => json(404, missing),
        "redirect" => other(302, "Location: /apis/stranger.example.com/v1", ""),
        "away" => other(302, "Location: https://127.0.0.1:1/", ""),
        "warn" => other(
            200,
            "Content-Type: application/json\r\nWarning: 299 - \"from afar\"",
            "{}",
        ),
        "silent" => None,
        _ => {
            let is_told = |name: &str| {
                matches!(
                    name,
                    "accept" | "authorization" | "content-type" | "x-forwarded-for"
                ) || name.starts_with("impersonate-")
                    || name.starts_with("x-remote-") && !name.ends_with("credential-id")
            };
            let told = headers.iter().filter(|(name, _)| is_told(name));
            let told: serde_json::Map<String, Value> = told
                .map(|(name, value)| (name.clone(), value.as_str().into()))
                .collect();
            json(
                200,
                json!({"kind": "Echo", "apiVersion": group_version, "method": method, "path": path, "headers": told, "body": String::from_utf8_lossy(body)}),
            )
        }
    }
}

/// By the mode that the path names.
fn answer(path: &str, review: &Value) -> (u16, String) {
    let mode = path.trim_start_matches('/');
    let request = &review["request"];
    let object = &request["object"];
    let patch = |operations: Value| {
        let patch = STANDARD.encode(operations.to_string());
        json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
    };
    let add =
        |path: &str, value: Value| patch(json!([{"op": "add", "path": path, "value": value}]));
    let label = |name: &str, value: &str| {
        let mut labels = object["metadata"]["labels"].clone();
        labels[name] = value.into();
        add("/metadata/labels", labels)
    };
    let encoded = |text: &str| STANDARD.encode(text);
    let mut response = match mode {
        "deny" => json!({"allowed": false}),
        "deny-message" => json!({"allowed": false, "status": {"message": "not here"}}),
        "deny-code" => {
            json!({"allowed": false, "status": {"code": 409, "reason": "Conflict", "message": "taken"}})
        }
        "deny-success" => {
            let details = json!({"causes": [{"message": "because"}]});
            json!({"allowed": false, "status": {"status": "Success", "code": 200, "reason": "Because", "message": "no", "details": details}})
        }
        "deny-odd-code" => json!({"allowed": false, "status": {"code": 42, "message": "odd"}}),
        "echo" => {
            json!({"allowed": false, "status": {"code": 418, "message": told(request).to_string()}})
        }
        "warn" => {
            let long = "x".repeat(300);
            json!({"allowed": true, "warnings": ["careful", "with <this>", long, "line\nbreak", ""]})
        }
        "annotate" => json!({"allowed": true, "auditAnnotations": {"a": "b"}}),
        "label" => label("labelled", "yes"),
        "label-b" => label("b", "yes"),
        "count" | "count-again" => {
            let count = object["metadata"]["labels"]["count"].as_str();
            let count: u32 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
            label("count", &(count + 1).to_string())
        }
        "append" => {
            let count = object["data"].as_object().map_or(0, serde_json::Map::len);
            add(&format!("/data/x{count}"), "y".into())
        }
        "patch-wrong" => patch(json!([{"op": "remove", "path": "/nothing"}])),
        "patch-data" => add("/data", "text".into()),
        "patch-name" => add("/metadata/name", "other".into()),
        "patch-namespace" => add("/metadata/namespace", "other".into()),
        "patch-invalid" => add("/metadata/labels", json!({"a": "bad value!"})),
        "patch-unknown" => add("/nothing", 1.into()),
        "patch-fields" => add(
            "/metadata/managedFields",
            json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]),
        ),
        "patch-denied" => {
            let mut refused = add("/data", json!({}));
            refused["allowed"] = false.into();
            refused
        }
        "patch-text" => {
            json!({"allowed": true, "patchType": "JSONPatch", "patch": encoded("nonsense")})
        }
        "patch-base64" => json!({"allowed": true, "patchType": "JSONPatch", "patch": "!!"}),
        "patch-merge" => {
            json!({"allowed": true, "patchType": "MergePatch", "patch": encoded("{}")})
        }
        "patch-other-type" => {
            let operations = encoded(r#"[{"op":"add","path":"/data","value":{}}]"#);
            json!({"allowed": true, "patchType": "MergePatch", "patch": operations})
        }
        "patch-without-type" => json!({"allowed": true, "patch": encoded("[]")}),
        "type-without-patch" => json!({"allowed": true, "patchType": "JSONPatch"}),
        "allowed-text" => json!({"allowed": "no"}),
        "garbage" => return (200, "hello".to_owned()),
        "list" => return (200, "[1]".to_owned()),
        "half" => return (200, "{\"kind\": ".to_owned()),
        "empty" => return (200, String::new()),
        "object" => return (200, "{}".to_owned()),
        "error" => return (500, "out of order".to_owned()),
        "missing" => return (404, "nobody here".to_owned()),
        "redirect" => return (302, String::new()),
        "hang" => {
            std::thread::sleep(HANG);
            json!({"allowed": true})
        }
        "no-response" => {
            let bare = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"]});
            return (200, bare.to_string());
        }
        _ => json!({"allowed": true}),
    };
    if mode != "no-uid" {
        response["uid"] = match mode {
            "wrong-uid" => "other".into(),
            _ => request["uid"].clone(),
        };
    }
    let (kind, api_version) = match mode {
        "wrong-kind" => ("Pod", json!("v1")),
        "wrong-version" => ("AdmissionReview", json!("admission.k8s.io/v9")),
        "old-version" => ("AdmissionReview", json!("admission.k8s.io/v1beta1")),
        _ => ("AdmissionReview", review["apiVersion"].clone()),
    };
    let whole = json!({"kind": kind, "apiVersion": api_version, "response": response});
    (if mode == "created" { 201 } else { 200 }, whole.to_string())
}

/// What a webhook was asked, without what differs between any two runs.
fn told(request: &Value) -> Value {
    let mut told = request.clone();
    let mut drop = |place: &str, member: &str| {
        let place = told.pointer_mut(place).and_then(Value::as_object_mut);
        place.map(|place| place.remove(member));
    };
    drop("", "uid");
    for object in ["/object", "/oldObject"] {
        for member in [
            "uid",
            "creationTimestamp",
            "managedFields",
            "resourceVersion",
        ] {
            drop(&format!("{object}/metadata"), member);
        }
        // Named by chance.
        drop(&format!("{object}/spec"), "volumes");
        drop(&format!("{object}/spec/containers/0"), "volumeMounts");
    }
    for member in ["uid", "extra"] {
        drop("/userInfo", member);
    }
    told
}
