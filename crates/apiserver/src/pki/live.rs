//! The certificates in use: read again when their files change.

use super::{FILES, Pki, PkiError, Validity, certificates};
use crate::tls::{Authorities, FrontProxy, Tls, Trust};
use connections::AnyClientCertificate;
use parking_lot::RwLock;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What TLS shows and believes now.
pub(super) struct Live {
    dir: Option<PathBuf>,
    validity: Validity,
    shown: RwLock<(Arc<CertifiedKey>, Fingerprint)>,
    trust: Arc<Trust>,
}

/// Changes with the files' contents, as far as sizes and times tell.
type Fingerprint = Vec<Option<(u64, SystemTime)>>;

impl Live {
    pub(super) fn new(pki: &Pki) -> Result<Arc<Live>, PkiError> {
        let fingerprint = pki.dir.as_deref().map(fingerprint).unwrap_or_default();
        Ok(Arc::new(Live {
            dir: pki.dir.clone(),
            validity: pki.validity,
            shown: RwLock::new((server_key(pki)?, fingerprint)),
            trust: Trust::new(authorities(pki)?),
        }))
    }

    /// TLS that shows the server's certificate and takes, but does not require, those of clients.
    pub(super) fn tls(self: &Arc<Live>, front_proxy: FrontProxy) -> Result<Tls, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(AnyClientCertificate::new(&provider));
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| PkiError::Tls(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::<Live>::clone(self));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A session that is resumed shows no certificate again, and what was believed once would be believed for hours.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let live = self.clone();
        Ok(Tls {
            config: Arc::new(config),
            trust: self.trust.clone(),
            reload: Some(Arc::new(move || live.reload())),
            front_proxy: Some(front_proxy),
        })
    }

    /// Reads changed files again. What does not work leaves the old certificates in place.
    fn reload(&self) {
        let Some(dir) = &self.dir else { return };
        let found = fingerprint(dir);
        if found == self.shown.read().1 {
            return;
        }
        let read = || {
            let pki = Pki::read(dir, self.validity)?;
            Ok::<_, PkiError>((server_key(&pki)?, authorities(&pki)?))
        };
        match read() {
            Ok((key, authorities)) => {
                tracing::info!(dir = %dir.display(), "Certificates changed and were read again");
                *self.shown.write() = (key, found);
                self.trust.replace(authorities);
            }
            // Half-written files are common; the next look finds them whole.
            Err(error) => tracing::warn!(%error, "Changed certificates are not usable"),
        }
    }
}

fn authorities(pki: &Pki) -> Result<Authorities, PkiError> {
    let roots = connections::certificate::roots(certificates(&pki.ca_certificate)?);
    Ok(Authorities {
        clients: Some((roots.map_err(PkiError::Tls)?, pki.ca_certificate.clone())),
        proxies: None,
    })
}

fn server_key(pki: &Pki) -> Result<Arc<CertifiedKey>, PkiError> {
    let tls = |error: &dyn std::fmt::Display| PkiError::Tls(error.to_string());
    let key =
        PrivateKeyDer::from_pem_slice(pki.server_key.as_bytes()).map_err(|error| tls(&error))?;
    let chain = certificates(&pki.server_certificate)?;
    if chain.is_empty() {
        return Err(PkiError::Tls("there is no certificate".to_owned()));
    }
    let provider = rustls::crypto::ring::default_provider();
    let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| tls(&error))?;
    Ok(Arc::new(key))
}

fn fingerprint(dir: &Path) -> Fingerprint {
    let of = |name: &str| {
        let metadata = std::fs::metadata(dir.join(name)).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    FILES.iter().map(|(name, _)| of(name)).collect()
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("dir", &self.dir).finish()
    }
}

impl ResolvesServerCert for Live {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown.read().0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Peer;
    use api::Time;
    use http::HeaderMap;

    const BEGIN: i64 = 1_700_000_000;

    fn validity() -> Validity {
        Validity::new(Time::from_unix(BEGIN), Time::from_unix(BEGIN), 1)
    }

    fn connected(live: &Live, pki: &Pki) -> Peer {
        let (certificate, _) = pki.issue_client("someone", &[]).unwrap();
        let chain = certificates(&certificate).unwrap();
        live.trust.identify(&chain, BEGIN)
    }

    fn is_known(live: &Live, peer: &Peer, now: i64) -> bool {
        live.trust
            .presented(peer, &HeaderMap::new(), now)
            .is_identity()
    }

    // Issue 21, point 14. Upstream: x509 authenticators verify with every request.
    #[test]
    fn a_certificate_that_ends_is_refused_on_the_connection_that_has_shown_it() {
        let pki = Pki::generate(&[], validity()).unwrap();
        let live = Live::new(&pki).unwrap();
        let peer = connected(&live, &pki);
        assert!(is_known(&live, &peer, BEGIN));
        assert!(!is_known(&live, &peer, BEGIN + 367 * 86_400));
    }

    #[test]
    fn files_that_change_are_read_again_and_half_written_ones_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::load_or_generate(dir.path(), &[], validity()).unwrap();
        let live = Live::new(&pki).unwrap();
        let peer = connected(&live, &pki);
        let shown = || live.shown.read().0.clone();
        let before = shown();
        live.reload();
        assert!(Arc::ptr_eq(&before, &shown()), "nothing has changed");

        std::fs::write(dir.path().join("apiserver.crt"), "-----BEGIN").unwrap();
        live.reload();
        assert!(Arc::ptr_eq(&before, &shown()), "the old one stays");
        assert!(is_known(&live, &peer, BEGIN));

        // Another authority: what the old one has signed is no longer good, on open connections too.
        let others = tempfile::tempdir().unwrap();
        Pki::load_or_generate(others.path(), &[], validity()).unwrap();
        for (name, _) in FILES {
            std::fs::copy(others.path().join(name), dir.path().join(name)).unwrap();
        }
        live.reload();
        assert!(!Arc::ptr_eq(&before, &shown()));
        assert!(!is_known(&live, &peer, BEGIN));
    }
}
