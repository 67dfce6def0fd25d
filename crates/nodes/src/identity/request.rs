//! One CertificateSigningRequest, from the key to the certificate.

use api::ResourceType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, WatchOptions};
use futures_util::StreamExt;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde::Deserialize;
use serde_json::json;

use crate::config::NodeConfig;

pub(super) const REQUESTS: ResourceType = ResourceType::cluster(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
);

/// A watch that ends is begun again: nobody is asked to wait longer for an answer.
const WATCH_SECONDS: u32 = 300;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Client,
    Serving,
}

/// A certificate and its key, in PEM.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("cannot make a key and a request of it")]
    Key(#[source] rcgen::Error),
    #[error(transparent)]
    Server(#[from] client::Error),
    #[error("the request {name} was denied: {message}")]
    Denied { name: String, message: String },
    #[error("the request {name} failed: {message}")]
    Failed { name: String, message: String },
    #[error("the answer to the request {name} cannot be read")]
    Unreadable { name: String },
}

/// The request as far as its owner cares.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Request {
    metadata: api::Meta,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    certificate: String,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    message: String,
}

impl Purpose {
    pub(super) fn signer(self) -> &'static str {
        match self {
            Purpose::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Purpose::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// UPSTREAM: `key encipherment` only where the key is RSA's, and ours never is.
    fn usages(self) -> [&'static str; 2] {
        match self {
            Purpose::Client => ["digital signature", "client auth"],
            Purpose::Serving => ["digital signature", "server auth"],
        }
    }
}

/// Asks for a certificate and waits until somebody has approved and signed it.
pub(super) async fn obtain(
    client: &Client,
    node: &NodeConfig,
    purpose: Purpose,
) -> Result<Issued, RequestError> {
    let key = KeyPair::generate().map_err(RequestError::Key)?;
    let body = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        // UPSTREAM: the prefix of all requests of a kubelet's certificate managers.
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": STANDARD.encode(sign_request(node, purpose, &key).map_err(RequestError::Key)?),
            "signerName": purpose.signer(),
            "usages": purpose.usages(),
        },
    });
    let made = client.create(&REQUESTS, "", body.to_string()).await?;
    let name = read(&made, "")?.metadata.name.to_string();
    tracing::info!(node = %node.name, request = %name, signer = purpose.signer(), "waiting for a certificate");
    let certificate = issued(client, &name).await?;
    Ok(Issued {
        certificate,
        key: key.serialize_pem(),
    })
}

/// UPSTREAM: a node's certificate is in the group of nodes and named after it; one to serve with has its addresses.
fn sign_request(
    node: &NodeConfig,
    purpose: Purpose,
    key: &KeyPair,
) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name = DistinguishedName::new();
    let names = [
        (DnType::OrganizationName, "system:nodes".to_owned()),
        (DnType::CommonName, format!("system:node:{}", node.name)),
    ];
    for (kind, name) in names {
        params.distinguished_name.push(kind, name);
    }
    if purpose == Purpose::Serving {
        params.subject_alt_names = vec![SanType::DnsName(node.name.as_str().try_into()?)];
        let address = node.address.parse().ok();
        params
            .subject_alt_names
            .extend(address.map(SanType::IpAddress));
    }
    params.serialize_request(key)?.pem()
}

/// The certificate, once it is there: read, then watched from what was read, and again.
async fn issued(client: &Client, name: &str) -> Result<String, RequestError> {
    loop {
        let request = read(&client.get(&REQUESTS, "", name).await?, name)?;
        if let Some(answer) = answer_of(&request, name) {
            return answer;
        }
        let options = WatchOptions {
            field_selector: Some(format!("metadata.name={name}")),
            resource_version: Some(request.metadata.resource_version.to_string()),
            timeout_seconds: Some(WATCH_SECONDS),
            ..WatchOptions::default()
        };
        let mut changes = client.watch(&REQUESTS, "", &options).await?;
        // Whatever it is, the request is read again: also when it is gone, or the watch cannot go on.
        if let Some(Err(error)) = changes.next().await {
            return Err(error.into());
        }
    }
}

fn answer_of(request: &Request, name: &str) -> Option<Result<String, RequestError>> {
    let name = name.to_owned();
    for condition in &request.status.conditions {
        let message = condition.message.clone();
        match &*condition.r#type {
            "Denied" => return Some(Err(RequestError::Denied { name, message })),
            "Failed" => return Some(Err(RequestError::Failed { name, message })),
            _ => {}
        }
    }
    if request.status.certificate.is_empty() {
        return None;
    }
    let decoded = STANDARD.decode(&request.status.certificate).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    Some(text.ok_or(RequestError::Unreadable { name }))
}

fn read(body: &[u8], name: &str) -> Result<Request, RequestError> {
    let unreadable = |_| RequestError::Unreadable {
        name: name.to_owned(),
    };
    serde_json::from_slice(body).map_err(unreadable)
}
