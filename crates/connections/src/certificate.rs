//! Client certificates: is it signed by a CA we trust, and whom does it name?

use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DistinguishedName, RootCertStore};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::User;

/// What one bundle makes us trust.
#[derive(Clone)]
pub struct Roots {
    authorities: Arc<dyn ClientCertVerifier>,
    /// UPSTREAM: Go trusts whatever is in the bundle itself, without asking who signed it.
    certificates: Arc<[CertificateDer<'static>]>,
}

impl Roots {
    /// How the authorities are called.
    pub fn subjects(&self) -> &[DistinguishedName] {
        self.authorities.root_hint_subjects()
    }
}

/// A verifier for the certificates of a bundle.
pub fn roots(certificates: Vec<CertificateDer<'static>>) -> Result<Roots, String> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        return Err("holds no certificate that can be a certificate authority".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(Roots {
        authorities: verifier,
        certificates: certificates.into(),
    })
}

/// Checks signatures, validity and usage of the chain that a client showed.
pub fn verify(roots: &Roots, peer: &[CertificateDer<'_>], now: UnixTime) -> Result<(), String> {
    let [leaf, intermediates @ ..] = peer else {
        return Err("no client certificate".into());
    };
    if roots.certificates.contains(leaf) {
        return verify_trusted(leaf, now);
    }
    match roots
        .authorities
        .verify_client_cert(leaf, intermediates, now)
    {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("verifying the client certificate failed: {error}")),
    }
}

/// A certificate that needs no signature has to be valid and made for clients all the same.
fn verify_trusted(leaf: &CertificateDer<'_>, now: UnixTime) -> Result<(), String> {
    let refused = |why: &str| Err(format!("verifying the client certificate failed: {why}"));
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return refused("it cannot be parsed");
    };
    let validity = certificate.validity();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if seconds < validity.not_before.timestamp() || seconds > validity.not_after.timestamp() {
        return refused("it is expired or not yet valid");
    }
    match certificate.extended_key_usage() {
        Ok(None) => Ok(()),
        Ok(Some(usage)) if usage.value.any || usage.value.client_auth => Ok(()),
        _ => refused("it is not made for clients"),
    }
}

/// When a certificate ends, in Unix seconds.
pub fn expires(leaf: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// The attribute that carries a uid in a certificate's subject.
const UID_ATTRIBUTE: &str = "1.3.6.1.4.1.57683.2";

/// The common name is the user's, organizations are groups.
pub fn user(leaf: &CertificateDer<'_>, with_uid: bool) -> Result<User, String> {
    let (_, certificate) = X509Certificate::from_der(leaf)
        .map_err(|_| "the client certificate cannot be parsed".to_owned())?;
    let subject = certificate.subject();
    // UPSTREAM: of several names the last one counts.
    let name = subject
        .iter_common_name()
        .last()
        .and_then(|name| name.as_str().ok());
    let name = name.unwrap_or_default();
    if name.is_empty() {
        return Err("the client certificate has no common name, so it names no user".into());
    }
    let groups = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok());
    let uid = subject
        .iter_attributes()
        .find(|attribute| with_uid && attribute.attr_type().to_id_string() == UID_ATTRIBUTE);
    Ok(User {
        name: name.to_owned(),
        uid: uid
            .and_then(|uid| uid.as_str().ok())
            .unwrap_or_default()
            .to_owned(),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    })
}

/// The common name alone, which front proxies are known by.
pub fn common_name(leaf: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
    let name = certificate.subject().iter_common_name().last()?;
    name.as_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };

    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    fn authority(name: &str, key: KeyPair) -> (CertificateDer<'static>, Issuer<'static, KeyPair>) {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        (certificate.der().clone(), Issuer::new(params, key))
    }

    fn client(name: &str, issuer: &Issuer<'static, KeyPair>) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let signed = params(name).signed_by(&key, issuer).unwrap();
        signed.der().clone()
    }

    #[test]
    fn what_is_trusted_without_a_signature_has_to_be_made_for_clients() {
        let key = KeyPair::generate().unwrap();
        let with = |usages: &[ExtendedKeyUsagePurpose]| {
            let mut params = params("self");
            params.extended_key_usages = usages.to_vec();
            let certificate = params.self_signed(&key).unwrap().der().clone();
            let now = at(1_794_716_493);
            verify(
                &roots(vec![certificate.clone()]).unwrap(),
                &[certificate],
                now,
            )
        };
        assert_eq!(with(&[]), Ok(()));
        assert_eq!(with(&[ExtendedKeyUsagePurpose::ClientAuth]), Ok(()));
        let refused = with(&[ExtendedKeyUsagePurpose::ServerAuth]).unwrap_err();
        assert!(refused.contains("not made for clients"), "{refused}");
    }

    #[test]
    fn a_bundle_may_hold_leaves_and_authorities_with_keys_of_either_kind() {
        let rsa =
            include_str!("../../controllers/src/service_account_token/testdata/rsa_pkcs8.pem");
        let (rsa_der, rsa) = authority("rsa", KeyPair::from_pem(rsa).unwrap());
        let (elliptic_der, elliptic) = authority("elliptic", KeyPair::generate().unwrap());
        let (_, unknown) = authority("unknown", KeyPair::generate().unwrap());
        let pinned = client("pinned", &unknown);
        let bundle = vec![pinned.clone(), rsa_der, elliptic_der];
        let roots = roots(bundle).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let silent = crate::AnyClientCertificate::new(&provider);
        assert!(silent.root_hint_subjects().is_empty());
        let announcing = silent.announcing([&roots]);
        assert_eq!(announcing.root_hint_subjects().len(), 3);
        // 2026-11-15
        let now = at(1_794_716_493);
        for issuer in [&rsa, &elliptic] {
            assert_eq!(verify(&roots, &[client("anna", issuer)], now), Ok(()));
        }
        assert_eq!(verify(&roots, std::slice::from_ref(&pinned), now), Ok(()));
        // rcgen's certificates begin in 1975.
        let long_ago = at(0);
        let too_soon = verify(&roots, &[pinned], long_ago).unwrap_err();
        assert!(too_soon.contains("not yet valid"), "{too_soon}");
        let stranger = verify(&roots, &[client("anna", &unknown)], now).unwrap_err();
        assert!(stranger.contains("UnknownIssuer"), "{stranger}");
    }
}
