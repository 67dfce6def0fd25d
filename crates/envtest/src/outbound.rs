//! Calls of the API server: to webhooks, and to the servers behind APIServices. The transports are those by which a
//! controller manager reaches its API server; what failed is told in the words of Go's client, because users look for
//! them.

use std::sync::Arc;

use apiserver::outbound::{Outbound, Target};
use apiserver::{Body, BoxError};
use bytes::Bytes;
use client::config::{Auth, ClientCertificate, Config, Material, Server, TlsSettings};
use client::https::ConnectError;
use futures_util::future::BoxFuture;
use http::uri::{Authority, Scheme};
use http::{Request, Response};
use parking_lot::Mutex;

/// So many places are called at the same time by any sensible configuration; beyond that, connections are made anew.
const MAX_TRANSPORTS: usize = 64;

/// Keeps a transport for each place that is called.
pub struct Caller {
    clock: api::Clock,
    open: Mutex<Vec<(Target, client::Transport)>>,
}

impl Caller {
    pub fn new(clock: api::Clock) -> Arc<Caller> {
        let open = Mutex::default();
        Arc::new(Caller { clock, open })
    }

    fn transport(&self, target: &Target) -> Result<client::Transport, BoxError> {
        let mut open = self.open.lock();
        if let Some((_, transport)) = open.iter().find(|(known, _)| known == target) {
            return Ok(transport.clone());
        }
        let transport = client::https::transport(config(target)?, self.clock.clone())?;
        if open.len() == MAX_TRANSPORTS {
            open.remove(0);
        }
        open.push((target.clone(), transport.clone()));
        Ok(transport)
    }
}

impl Outbound for Caller {
    fn call(
        &self,
        target: Target,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        let transport = self.transport(&target);
        Box::pin(async move {
            use tower::ServiceExt;
            let called = transport?.oneshot(request).await;
            called.map_err(|error| in_go(&target, &error).into())
        })
    }
}

fn config(target: &Target) -> Result<Config, BoxError> {
    let inline = |pem: &Bytes| Material::Inline(pem.to_vec());
    let scheme = match target.is_https {
        true => Scheme::HTTPS,
        false => Scheme::HTTP,
    };
    let client = target
        .identity
        .as_ref()
        .map(|(certificate, key)| ClientCertificate {
            certificate: inline(certificate),
            key: inline(key),
        });
    Ok(Config {
        server: Server {
            scheme,
            authority: Authority::try_from(target.authority.as_str())?,
            prefix: String::new(),
        },
        tls: TlsSettings {
            authorities: target.authorities.as_ref().map(inline),
            client,
            server_name: target.server_name.clone(),
            insecure: target.insecure,
        },
        auth: Auth::None,
        impersonate: None,
        proxy: None,
        namespace: None,
    })
}

/// Why a call failed, as Go says it.
fn in_go(target: &Target, error: &BoxError) -> String {
    const VERIFY: &str = "tls: failed to verify certificate: x509:";
    let host = target.authority.as_str();
    let name = target.server_name.as_deref();
    let name = name.unwrap_or_else(|| host.rsplit_once(':').map_or(host, |(name, _)| name));
    match ConnectError::behind(error.as_ref()) {
        Some(ConnectError::Unreachable { source, .. }) => {
            format!("dial tcp {host}: connect: {}", reason(source))
        }
        Some(ConnectError::TimedOut { .. }) => format!("dial tcp {host}: i/o timeout"),
        Some(ConnectError::UnknownAuthority { .. }) => {
            format!("{VERIFY} certificate signed by unknown authority")
        }
        Some(ConnectError::Expired { .. } | ConnectError::NotYetValid { .. }) => {
            format!("{VERIFY} certificate has expired or is not yet valid")
        }
        Some(ConnectError::WrongName { .. }) => {
            format!("{VERIFY} certificate is not valid for {name}")
        }
        Some(ConnectError::NotTls { .. }) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(other) => other.to_string(),
        None => client::describe(error.as_ref()),
    }
}

fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        ErrorKind::HostUnreachable => "no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}
