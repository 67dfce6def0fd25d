//! From certificates in PEM to a TLS configuration.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use api::{MicroTime, Time};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use crate::config::{ConfigError, Material, TlsSettings};

/// Where distributions keep the authorities that everyone trusts; the first one that is there is taken.
const SYSTEM_AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Certificate chain and key of an exec plugin, in PEM.
pub(super) type KeyPair = (Vec<u8>, Vec<u8>);

/// When a certificate may be used; none where that cannot be read.
pub(super) fn validity((chain, _): &KeyPair) -> Option<Range<MicroTime>> {
    let leaf = CertificateDer::pem_slice_iter(chain).next()?.ok()?;
    let (_, certificate) = X509Certificate::from_der(&leaf).ok()?;
    let validity = certificate.validity();
    let at = |time: ASN1Time| Time::from_unix(time.timestamp()).micro();
    Some(at(validity.not_before)..at(validity.not_after))
}

/// Reads all certificates and keys. A certificate from an exec plugin takes the place of the configured one.
pub(super) fn configure(
    settings: &TlsSettings,
    from_plugin: Option<&KeyPair>,
) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad("the TLS library", error))?;
    let builder = if settings.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnyone(provider)))
    } else {
        let given = settings.authorities.as_ref();
        let verifier = Arc::new(TrustBundle::new(given, provider)?);
        builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
    };
    let identity = match (from_plugin, &settings.client) {
        (Some((certificate, key)), _) => Some((certificate.clone(), key.clone())),
        (None, Some(client)) => Some((
            read("client-certificate", &client.certificate)?,
            read("client-key", &client.key)?,
        )),
        (None, None) => None,
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("client-certificate", &certificate)?;
            let key =
                PrivateKeyDer::from_pem_slice(&key).map_err(|error| bad("client-key", error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| bad("client-certificate with its client-key", error))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The certificates that are trusted: those given, or the system's.
fn authorities(given: Option<&Material>) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let pem = match given {
        Some(material) => read("certificate-authority", material)?,
        None => {
            let bundle = SYSTEM_AUTHORITIES
                .iter()
                .find(|path| Path::new(path).exists());
            let bundle = bundle.ok_or_else(|| {
                bad(
                    "the system's certificate authorities",
                    "there are none; set certificate-authority",
                )
            })?;
            read(
                "the system's certificate authorities",
                &Material::File(bundle.into()),
            )?
        }
    };
    certificates("certificate-authority", &pem)
}

fn read(what: &'static str, material: &Material) -> Result<Vec<u8>, ConfigError> {
    match material {
        Material::Inline(bytes) => Ok(bytes.clone()),
        Material::File(path) => std::fs::read(path).map_err(|source| ConfigError::MissingFile {
            what,
            path: path.clone(),
            source,
        }),
    }
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| bad(what, error))?;
    if all.is_empty() {
        return Err(bad(what, "it contains no PEM certificate"));
    }
    Ok(all)
}

fn bad(what: &str, problem: impl std::fmt::Display) -> ConfigError {
    ConfigError::BadMaterial {
        what: what.to_owned(),
        problem: problem.to_string(),
    }
}

/// Servers whose certificate is signed by one of a bundle, or is in it.
#[derive(Debug)]
struct TrustBundle {
    authorities: Arc<WebPkiServerVerifier>,
    /// UPSTREAM: Go trusts whatever is in the bundle itself, without asking who signed it. envtest gives webhooks so.
    certificates: Vec<CertificateDer<'static>>,
}

impl TrustBundle {
    fn new(
        given: Option<&Material>,
        provider: Arc<CryptoProvider>,
    ) -> Result<TrustBundle, ConfigError> {
        let certificates = authorities(given)?;
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if added == 0 {
            return Err(bad(
                "certificate-authority",
                "none of its certificates can be parsed",
            ));
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let authorities = verifier
            .build()
            .map_err(|error| bad("certificate-authority", error))?;
        Ok(TrustBundle {
            authorities,
            // Nobody gives the system's bundle for one server.
            certificates: match given {
                Some(_) => certificates,
                None => Vec::new(),
            },
        })
    }
}

impl ServerCertVerifier for TrustBundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.contains(end_entity) {
            verify_trusted(end_entity, server_name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// A certificate that needs no signature has to be valid, for servers, and for this name all the same.
fn verify_trusted(
    leaf: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let refused = |problem| Err(rustls::Error::InvalidCertificate(problem));
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return refused(CertificateError::BadEncoding);
    };
    let validity = certificate.validity();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if seconds < validity.not_before.timestamp() {
        return refused(CertificateError::NotValidYet);
    }
    if seconds > validity.not_after.timestamp() {
        return refused(CertificateError::Expired);
    }
    match certificate.extended_key_usage() {
        Ok(None) => {}
        Ok(Some(usage)) if usage.value.any || usage.value.server_auth => {}
        _ => return refused(CertificateError::InvalidPurpose),
    }
    verify_server_name(&ParsedCertificate::try_from(leaf)?, name)
}

/// `insecure-skip-tls-verify`: whoever answers is believed; the handshake itself must still be sound.
#[derive(Debug)]
struct TrustAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
