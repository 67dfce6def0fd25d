//! A server that API servers call: admission webhooks in several modes. Both servers under test call the same one, so
//! whatever it says it says to both.

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
    pub fn names(&self) -> [(String, String); 2] {
        [
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
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            stream.read_line(&mut header)?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length.min(LARGEST_BODY)];
        stream.read_exact(&mut body)?;
        let review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let (code, text) = answer(path, &review);
        let head = format!(
            "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        stream.get_mut().write_all(head.as_bytes())?;
        stream.get_mut().write_all(text.as_bytes())?;
        stream.get_mut().flush()?;
    }
}

/// By the mode that the path names.
fn answer(path: &str, review: &Value) -> (u16, String) {
    let patch = |operations: Value| {
        let patch = STANDARD.encode(operations.to_string());
        json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
    };
    let label = |name: &str| {
        let labels = json!({"op": "add", "path": "/metadata/labels", "value": {name: "yes"}});
        patch(json!([labels]))
    };
    let response = match path.trim_start_matches('/') {
        "deny" => json!({"allowed": false}),
        "deny-message" => json!({"allowed": false, "status": {"message": "not here"}}),
        "deny-code" => {
            json!({"allowed": false, "status": {"code": 409, "reason": "Conflict", "message": "taken"}})
        }
        "label" => label("labelled"),
        "patch-wrong" => patch(json!([{"op": "remove", "path": "/nothing"}])),
        "patch-kind" => patch(json!([{"op": "replace", "path": "/data", "value": "text"}])),
        "patch-without-type" => json!({"allowed": true, "patch": STANDARD.encode("[]")}),
        "garbage" => return (200, "hello".to_owned()),
        "empty" => return (200, String::new()),
        "object" => return (200, "{}".to_owned()),
        "error" => return (500, "out of order".to_owned()),
        "missing" => return (404, "nobody here".to_owned()),
        "no-response" => {
            let bare = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"]});
            return (200, bare.to_string());
        }
        _ => json!({"allowed": true}),
    };
    let mut response = response;
    response["uid"] = review["request"]["uid"].clone();
    let whole = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response});
    (200, whole.to_string())
}
