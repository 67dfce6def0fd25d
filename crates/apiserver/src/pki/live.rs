//! The certificates in use: read again when their files change, and asked on every request of a connection.

use super::{FILES, Pki, PkiError, Validity, certificates};
use api::Clock;
use parking_lot::RwLock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How often the files are looked at.
pub(crate) const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// What TLS shows and believes now.
pub(crate) struct Live {
    clock: Clock,
    dir: Option<PathBuf>,
    validity: Validity,
    current: RwLock<Arc<Current>>,
}

struct Current {
    key: Arc<CertifiedKey>,
    verifier: Arc<dyn ClientCertVerifier>,
    fingerprint: Fingerprint,
}

/// Changes with the files' contents, as far as sizes and times tell.
type Fingerprint = Vec<Option<(u64, SystemTime)>>;

/// A certificate that a client has shown, for as long as it is connected.
pub(crate) struct Shown {
    chain: Vec<CertificateDer<'static>>,
    /// Who said that it is good; another one is asked again.
    by: RwLock<Arc<Current>>,
    until: i64,
}

impl Live {
    pub(crate) fn new(pki: &Pki, clock: &Clock) -> Result<Arc<Live>, PkiError> {
        let fingerprint = pki.dir.as_deref().map(fingerprint).unwrap_or_default();
        Ok(Arc::new(Live {
            clock: clock.clone(),
            dir: pki.dir.clone(),
            validity: pki.validity,
            current: RwLock::new(Arc::new(Current::new(pki, fingerprint)?)),
        }))
    }

    /// TLS that shows the server's certificate and accepts, but does not require, clients of the authority.
    pub(crate) fn config(self: &Arc<Live>) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| PkiError::Tls(error.to_string()))?
            .with_client_cert_verifier(Arc::<Live>::clone(self))
            .with_cert_resolver(Arc::<Live>::clone(self));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A session that is resumed shows no certificate again, and what was believed once would be believed for hours.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(config))
    }

    /// Reads changed files again. What does not work leaves the old certificates in place.
    pub(crate) fn reload(&self) {
        let Some(dir) = &self.dir else { return };
        let found = fingerprint(dir);
        if found == self.current().fingerprint {
            return;
        }
        let pki = Pki::read(dir, self.validity);
        match pki.and_then(|pki| Current::new(&pki, found)) {
            Ok(current) => {
                tracing::info!(dir = %dir.display(), "Certificates changed and were read again");
                *self.current.write() = Arc::new(current);
            }
            // Half-written files are common; the next look finds them whole.
            Err(error) => tracing::warn!(%error, "Changed certificates are not usable"),
        }
    }

    /// What a client has shown, which TLS has found good.
    pub(crate) fn shown(&self, chain: &[CertificateDer<'_>]) -> Shown {
        let chain: Vec<_> = chain.iter().map(|one| one.clone().into_owned()).collect();
        Shown {
            until: chain.iter().map(until).min().unwrap_or(0),
            by: RwLock::new(self.current()),
            chain,
        }
    }

    /// Whether it is still good: its time is not over, and the authority has not changed, or knows it too.
    /// UPSTREAM: asked with every request.
    pub(crate) fn accepts(&self, shown: &Shown) -> bool {
        if self.clock.now().time().unix() > shown.until {
            return false;
        }
        let current = self.current();
        if Arc::ptr_eq(&current, &shown.by.read()) {
            return true;
        }
        let Some((leaf, others)) = shown.chain.split_first() else {
            return false;
        };
        let verified = current
            .verifier
            .verify_client_cert(leaf, others, self.now());
        let is_good = verified.is_ok();
        if is_good {
            *shown.by.write() = current;
        }
        is_good
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().clone()
    }

    /// What clients show must be valid by the cluster's clock: its time may be ahead of the machine's.
    fn now(&self) -> UnixTime {
        let seconds = u64::try_from(self.clock.now().time().unix()).unwrap_or(0);
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }
}

impl Current {
    fn new(pki: &Pki, fingerprint: Fingerprint) -> Result<Current, PkiError> {
        let tls = |error: &dyn std::fmt::Display| PkiError::Tls(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        for certificate in certificates(&pki.ca_certificate)? {
            roots.add(certificate).map_err(|error| tls(&error))?;
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()
                .map_err(|error| tls(&error))?;
        let key = PrivateKeyDer::from_pem_slice(pki.server_key.as_bytes())
            .map_err(|error| tls(&error))?;
        let chain = certificates(&pki.server_certificate)?;
        if chain.is_empty() {
            return Err(PkiError::Tls("there is no certificate".to_owned()));
        }
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| tls(&error))?;
        Ok(Current {
            key: Arc::new(key),
            verifier,
            fingerprint,
        })
    }
}

fn fingerprint(dir: &Path) -> Fingerprint {
    let of = |name: &str| {
        let metadata = std::fs::metadata(dir.join(name)).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    FILES.iter().map(|(name, _)| of(name)).collect()
}

fn until(certificate: &CertificateDer<'static>) -> i64 {
    X509Certificate::from_der(certificate).map_or(0, |(_, certificate)| {
        certificate.validity().not_after.timestamp()
    })
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("dir", &self.dir).finish()
    }
}

impl ResolvesServerCert for Live {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key.clone())
    }
}

impl ClientCertVerifier for Live {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // They may change, and nobody needs them: clients have one certificate for a cluster.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let current = self.current();
        current
            .verifier
            .verify_client_cert(leaf, others, self.now())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let current = self.current();
        current
            .verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let current = self.current();
        current
            .verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{MicroTime, Time};
    use std::sync::atomic::{AtomicI64, Ordering};

    const BEGIN: i64 = 1_700_000_000;

    fn clock(now: &Arc<AtomicI64>) -> Clock {
        let now = now.clone();
        Clock::new(move || MicroTime::from_unix_micros(now.load(Ordering::Relaxed) * 1_000_000))
    }

    fn validity() -> Validity {
        Validity::new(Time::from_unix(BEGIN), Time::from_unix(BEGIN), 1)
    }

    fn shown(live: &Live, pki: &Pki) -> Shown {
        let (certificate, _) = pki.issue_client("someone", &[]).unwrap();
        live.shown(&certificates(&certificate).unwrap())
    }

    // Issue 21, point 14. Upstream: x509 authenticators verify with every request.
    #[test]
    fn a_certificate_that_ends_is_refused_on_the_connection_that_has_shown_it() {
        let now = Arc::new(AtomicI64::new(BEGIN));
        let pki = Pki::generate(&[], validity()).unwrap();
        let live = Live::new(&pki, &clock(&now)).unwrap();
        let shown = shown(&live, &pki);
        assert!(live.accepts(&shown));
        now.store(BEGIN + 367 * 86_400, Ordering::Relaxed);
        assert!(!live.accepts(&shown));
    }

    #[test]
    fn files_that_change_are_read_again_and_half_written_ones_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::load_or_generate(dir.path(), &[], validity()).unwrap();
        let live = Live::new(&pki, &clock(&Arc::new(AtomicI64::new(BEGIN)))).unwrap();
        let shown = shown(&live, &pki);
        let before = live.current();
        live.reload();
        assert!(Arc::ptr_eq(&before, &live.current()), "nothing has changed");

        std::fs::write(dir.path().join("apiserver.crt"), "-----BEGIN").unwrap();
        live.reload();
        assert!(Arc::ptr_eq(&before, &live.current()), "the old one stays");
        assert!(live.accepts(&shown));

        // Another authority: what the old one has signed is no longer good, on open connections too.
        let others = tempfile::tempdir().unwrap();
        Pki::load_or_generate(others.path(), &[], validity()).unwrap();
        for (name, _) in FILES {
            std::fs::copy(others.path().join(name), dir.path().join(name)).unwrap();
        }
        live.reload();
        assert!(!Arc::ptr_eq(&before.key, &live.current().key));
        assert!(!live.accepts(&shown));
    }
}
