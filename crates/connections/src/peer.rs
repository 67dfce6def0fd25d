//! Client certificates at the TLS layer: asked for, never demanded, and not judged here.
//!
//! Whether a certificate is trusted is for authentication to say, because that knows which CAs are in force now
//! and can answer 401 instead of cutting the connection. TLS still proves that the client has the key.

use crate::certificate::Roots;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

#[derive(Debug)]
pub struct AnyClientCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    /// Whose certificates are asked for; none: nothing is said about it.
    authorities: Vec<DistinguishedName>,
}

impl AnyClientCertificate {
    pub fn new(provider: &CryptoProvider) -> AnyClientCertificate {
        AnyClientCertificate {
            algorithms: provider.signature_verification_algorithms,
            authorities: Vec::new(),
        }
    }

    /// Tells clients which authorities their certificate should come from: only where these stay as they are, for a
    /// client that has another one does not show it then.
    #[must_use]
    pub fn announcing<'a>(mut self, roots: impl IntoIterator<Item = &'a Roots>) -> Self {
        let subjects = roots.into_iter().flat_map(Roots::subjects).cloned();
        self.authorities.extend(subjects);
        self
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
