//! What the server shows to its clients, and whom it believes to be someone.

use crate::auth::Identity;
use crate::auth::authenticate::Presented;
use crate::server::FRONT_PROXY;
use connections::User;
use connections::certificate::{self, Roots};
use connections::request_header::{self, RequestHeader};
use http::HeaderMap;
use parking_lot::RwLock;
use rustls::pki_types::{CertificateDer, UnixTime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often what can change is looked at.
pub(crate) const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// How the server's port is secured. Certificates of clients are asked for, and judged here rather than by TLS: one that is
/// not believed is answered with 401, as upstream does, and not by a closed connection.
#[derive(Clone)]
pub struct Tls {
    pub config: Arc<rustls::ServerConfig>,
    pub trust: Arc<Trust>,
    /// Looks for certificates that have changed, now and then.
    pub reload: Option<Arc<dyn Fn() + Send + Sync>>,
    /// By what extension servers know this one.
    pub front_proxy: Option<FrontProxy>,
}

/// The certificate by which extension servers believe this server for whom it asks, and who signed it.
#[derive(Clone)]
pub struct FrontProxy {
    pub certificate: String,
    pub key: String,
    pub authority: String,
}

impl Tls {
    /// Authorities that stay as they are.
    pub fn new(config: Arc<rustls::ServerConfig>, authorities: Authorities) -> Tls {
        Tls {
            config,
            trust: Trust::new(authorities),
            reload: None,
            front_proxy: None,
        }
    }
}

/// Whose word counts about who a client is.
#[derive(Clone, Default)]
pub struct Authorities {
    /// Who signs client certificates, and the same in PEM for those who ask.
    pub clients: Option<(Roots, String)>,
    /// Front proxies: they say in headers for whom they ask.
    pub proxies: Option<(RequestHeader, String)>,
}

/// The authorities of now: they may change while connections are open.
pub struct Trust(RwLock<Arc<Authorities>>);

/// What is known of a connection's client before it asks for anything.
pub(crate) struct Peer {
    chain: Vec<CertificateDer<'static>>,
    judged: RwLock<Judged>,
}

#[derive(Clone)]
struct Judged {
    /// Others are asked again.
    by: Arc<Authorities>,
    /// When the first certificate of the chain ends, in Unix seconds.
    until: i64,
    certificate: Presented,
    /// Whether it may speak for others.
    is_proxy: bool,
}

impl Peer {
    pub(crate) fn is_known(&self) -> bool {
        let judged = self.judged.read();
        judged.is_proxy || judged.certificate.is_identity()
    }
}

impl Trust {
    pub(crate) fn new(authorities: Authorities) -> Arc<Trust> {
        Arc::new(Trust(RwLock::new(Arc::new(authorities))))
    }

    pub(crate) fn replace(&self, authorities: Authorities) {
        *self.0.write() = Arc::new(authorities);
    }

    pub(crate) fn authorities(&self) -> Arc<Authorities> {
        self.0.read().clone()
    }

    pub(crate) fn identify(&self, chain: &[CertificateDer<'_>], unix_seconds: i64) -> Peer {
        let chain: Vec<_> = chain.iter().map(|one| one.clone().into_owned()).collect();
        let judged = RwLock::new(Judged::new(self.authorities(), &chain, unix_seconds));
        Peer { chain, judged }
    }

    /// Whom a request comes from, as far as its connection tells.
    /// UPSTREAM: certificates are judged with every request, not once for a connection.
    pub(crate) fn presented(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        unix_seconds: i64,
    ) -> Presented {
        let current = self.authorities();
        let mut judged = peer.judged.read().clone();
        let is_over = unix_seconds > judged.until;
        if is_over || !Arc::ptr_eq(&judged.by, &current) {
            judged = Judged::new(current, &peer.chain, unix_seconds);
            *peer.judged.write() = judged.clone();
        }
        let proxies = judged.by.proxies.as_ref().filter(|_| judged.is_proxy);
        let user = proxies.and_then(|(proxies, _)| request_header::read(&proxies.names, headers));
        match user {
            Some(user) => Presented::Identity(Arc::new(authenticated(user))),
            None if judged.is_proxy && judged.certificate == Presented::Invalid => {
                Presented::Nothing
            }
            None => judged.certificate,
        }
    }
}

impl Judged {
    fn new(by: Arc<Authorities>, chain: &[CertificateDer<'_>], unix_seconds: i64) -> Judged {
        let now = Duration::from_secs(u64::try_from(unix_seconds).unwrap_or(0));
        let now = UnixTime::since_unix_epoch(now);
        let Some(leaf) = chain.first() else {
            return Judged {
                by,
                until: i64::MAX,
                certificate: Presented::Nothing,
                is_proxy: false,
            };
        };
        let certificate = match &by.clients {
            None => Presented::Nothing,
            Some((roots, _)) => match certificate::verify(roots, chain, now) {
                // UPSTREAM: a good certificate that names nobody says nothing of its caller, who may be anonymous.
                Ok(()) => identity_of(leaf).map_or(Presented::Nothing, |identity| {
                    Presented::Identity(Arc::new(identity))
                }),
                Err(_) => Presented::Invalid,
            },
        };
        let is_proxy = by.proxies.as_ref().is_some_and(|(proxies, _)| {
            // Without headers it speaks for nobody yet: this asks for the certificate alone.
            request_header::user(proxies, chain, &HeaderMap::new(), now).is_ok()
        });
        let ends = chain.iter().filter_map(certificate::expires).min();
        Judged {
            by,
            // What is not good now does not become so by asking with each request.
            until: match certificate {
                Presented::Invalid if !is_proxy => i64::MAX,
                _ => ends.unwrap_or(0),
            },
            certificate,
            is_proxy,
        }
    }
}

impl Authorities {
    /// What controller managers and extension servers need in order to believe the same clients.
    pub(crate) fn published(&self, front_proxy: Option<&FrontProxy>) -> Value {
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
        } else if let Some(proxy) = front_proxy {
            data.insert("requestheader-client-ca-file", proxy.authority.clone());
            for (key, name) in [
                ("requestheader-allowed-names", FRONT_PROXY),
                ("requestheader-username-headers", "X-Remote-User"),
                ("requestheader-uid-headers", "X-Remote-Uid"),
                ("requestheader-group-headers", "X-Remote-Group"),
                ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ] {
                data.insert(key, json!([name]).to_string());
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

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    };

    use super::*;

    const NOW: i64 = 1_794_716_493;
    const ENDS: i64 = NOW + 3600;

    fn presented(organization: &str, common_name: &str, at: i64) -> Presented {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = authority.self_signed(&key).unwrap().der().clone();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in [
            (DnType::OrganizationName, organization),
            (DnType::CommonName, common_name),
        ] {
            if !name.is_empty() {
                params.distinguished_name.push(kind, name);
            }
        }
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_after = epoch + Duration::from_secs(u64::try_from(ENDS).unwrap());
        let leaf = params.signed_by(&KeyPair::generate().unwrap(), &Issuer::new(authority, key));
        let trust = Trust::new(Authorities {
            clients: Some((certificate::roots(vec![root]).unwrap(), String::new())),
            proxies: None,
        });
        let peer = trust.identify(&[leaf.unwrap().der().clone()], NOW);
        trust.presented(&peer, &HeaderMap::new(), at)
    }

    #[test]
    fn a_certificate_that_names_nobody_leaves_its_caller_anonymous_until_it_ends() {
        assert!(presented("dev", "anna", NOW).is_identity());
        for organization in ["", "dev"] {
            assert_eq!(presented(organization, "", NOW), Presented::Nothing);
            assert_eq!(presented(organization, "", ENDS + 1), Presented::Invalid);
        }
    }
}
