//! What the server shows to its clients, and whom it believes to be someone.

use crate::auth::Identity;
use crate::auth::authenticate::Presented;
use connections::User;
use connections::certificate::{self, Roots};
use connections::request_header::{self, RequestHeader};
use http::HeaderMap;
use rustls::pki_types::{CertificateDer, UnixTime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How the server's port is secured. Certificates of clients are asked for, and judged here rather than by TLS: one that is
/// not believed is answered with 401, as upstream does, and not by a closed connection.
#[derive(Clone)]
pub struct Tls {
    pub config: Arc<rustls::ServerConfig>,
    pub authorities: Authorities,
}

/// Whose word counts about who a client is.
#[derive(Clone, Default)]
pub struct Authorities {
    /// Who signs client certificates, and the same in PEM for those who ask.
    pub clients: Option<(Roots, String)>,
    /// Front proxies: they say in headers for whom they ask.
    pub proxies: Option<(RequestHeader, String)>,
}

/// What is known of a connection's client before it asks for anything.
pub(crate) struct Peer {
    certificate: Presented,
    /// Whether it may speak for others.
    is_proxy: bool,
}

impl Peer {
    pub(crate) fn is_known(&self) -> bool {
        self.is_proxy || matches!(self.certificate, Presented::Identity(_))
    }
}

impl Authorities {
    pub(crate) fn identify(&self, chain: &[CertificateDer<'_>], unix_seconds: i64) -> Peer {
        let now = Duration::from_secs(u64::try_from(unix_seconds).unwrap_or(0));
        let now = UnixTime::since_unix_epoch(now);
        let Some(leaf) = chain.first() else {
            return Peer {
                certificate: Presented::Nothing,
                is_proxy: false,
            };
        };
        let certificate = match &self.clients {
            None => Presented::Nothing,
            Some((roots, _)) => match certificate::verify(roots, chain, now) {
                Ok(()) => identity_of(leaf).map_or(Presented::Invalid, |identity| {
                    Presented::Identity(Arc::new(identity))
                }),
                Err(_) => Presented::Invalid,
            },
        };
        let is_proxy = self.proxies.as_ref().is_some_and(|(proxies, _)| {
            // Without headers it speaks for nobody yet: this asks for the certificate alone.
            request_header::user(proxies, chain, &HeaderMap::new(), now).is_ok()
        });
        Peer {
            certificate,
            is_proxy,
        }
    }

    /// Whom a request comes from, as far as its connection tells.
    pub(crate) fn presented(&self, peer: &Peer, headers: &HeaderMap) -> Presented {
        let proxies = self.proxies.as_ref().filter(|_| peer.is_proxy);
        let user = proxies.and_then(|(proxies, _)| request_header::read(&proxies.names, headers));
        match user {
            Some(user) => Presented::Identity(Arc::new(authenticated(user))),
            None if peer.is_proxy && peer.certificate == Presented::Invalid => Presented::Nothing,
            None => peer.certificate.clone(),
        }
    }

    /// What controller managers and extension servers need in order to believe the same clients.
    pub(crate) fn published(&self) -> Value {
        let mut data = BTreeMap::new();
        if let Some((_, pem)) = &self.clients {
            data.insert("client-ca-file", pem.clone());
        }
        if let Some((proxies, pem)) = &self.proxies {
            let names = &proxies.names;
            data.insert("requestheader-client-ca-file", pem.clone());
            for (key, list) in [
                ("requestheader-allowed-names", &names.allowed),
                ("requestheader-username-headers", &names.username),
                ("requestheader-uid-headers", &names.uid),
                ("requestheader-group-headers", &names.group),
                ("requestheader-extra-headers-prefix", &names.extra_prefixes),
            ] {
                data.insert(key, json!(list).to_string());
            }
        }
        json!(data)
    }
}

fn authenticated(user: User) -> Identity {
    let mut groups = user.groups;
    let known = [crate::auth::AUTHENTICATED, crate::auth::UNAUTHENTICATED];
    if !groups.iter().any(|group| known.contains(&group.as_str())) {
        groups.push(crate::auth::AUTHENTICATED.to_owned());
    }
    Identity {
        user: user.name,
        uid: user.uid,
        groups,
        extra: user.extra,
    }
}

/// The user that a certificate stands for: its common name, its organizations as groups.
fn identity_of(leaf: &CertificateDer<'_>) -> Option<Identity> {
    let digest = ring::digest::digest(&ring::digest::SHA256, leaf);
    let digest: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // UPSTREAM: AllowParsingUserUIDFromCertAuth is on.
    let user = certificate::user(leaf, true).ok()?;
    let mut identity = authenticated(user);
    identity.extra.insert(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={digest}")],
    );
    Some(identity)
}
