//! ECDSA on the curves and with the hashes that Go verifies and ring does not: P-224 and P-521, and P-256 and P-384 with
//! hashes that are longer or shorter than usual.

use ecdsa::elliptic_curve::generic_array::ArrayLength;
use ecdsa::elliptic_curve::sec1::{FromEncodedPoint, ModulusSize, ToEncodedPoint};
use ecdsa::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytes, FieldBytesSize};
use ecdsa::hazmat::VerifyPrimitive;
use ecdsa::signature::hazmat::PrehashVerifier;
use ecdsa::{PrimeCurve, Signature, SignatureSize, VerifyingKey};
use p224::NistP224;
use p256::NistP256;
use p384::NistP384;
use p521::NistP521;
use ring::digest::{self, digest};
use x509_parser::error::X509Error;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_SIG_ECDSA_WITH_SHA256,
    OID_SIG_ECDSA_WITH_SHA384, OID_SIG_ECDSA_WITH_SHA512, Oid, asn1_rs::oid,
};
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

/// What verifies a point's signature of a hash.
type Verify = fn(&[u8], &[u8], &[u8]) -> Result<(), ecdsa::Error>;

/// Has this key signed the message? The signature is r and s in DER. `SignatureUnsupportedAlgorithm` where the key is on
/// none of Go's curves.
pub fn verify_ecdsa(
    key: &SubjectPublicKeyInfo<'_>,
    hash: &'static digest::Algorithm,
    message: &[u8],
    signature: &[u8],
) -> Result<(), X509Error> {
    let verify = on_curve_of(key).ok_or(X509Error::SignatureUnsupportedAlgorithm)?;
    let hashed = digest(hash, message);
    verify(&key.subject_public_key.data, hashed.as_ref(), signature)
        .map_err(|_| X509Error::SignatureVerificationError)
}

/// The hash that goes with ECDSA in the signature of a request.
pub(crate) fn hash_of(signed_by: &AlgorithmIdentifier<'_>) -> Option<&'static digest::Algorithm> {
    let with_sha1 = oid!(1.2.840.10045.4.1);
    let hashes: [(Oid<'_>, &'static digest::Algorithm); 4] = [
        // UPSTREAM: taken for a request, whose signature protects nobody but its sender.
        (with_sha1, &digest::SHA1_FOR_LEGACY_USE_ONLY),
        (OID_SIG_ECDSA_WITH_SHA256, &digest::SHA256),
        (OID_SIG_ECDSA_WITH_SHA384, &digest::SHA384),
        (OID_SIG_ECDSA_WITH_SHA512, &digest::SHA512),
    ];
    let mut hashes = hashes.into_iter();
    hashes.find_map(|(known, hash)| (known == signed_by.algorithm).then_some(hash))
}

/// Does ring verify it? It does the usual two curves with the usual two hashes.
pub(crate) fn is_usual(
    key: &SubjectPublicKeyInfo<'_>,
    signed_by: &AlgorithmIdentifier<'_>,
) -> bool {
    let hashes = [OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ECDSA_WITH_SHA384];
    let curves = [OID_EC_P256, OID_NIST_EC_P384];
    hashes.contains(&signed_by.algorithm)
        && curve_of(key).is_some_and(|curve| curves.contains(&curve))
}

/// Is the key on one of Go's curves?
pub(crate) fn is_known(key: &SubjectPublicKeyInfo<'_>) -> bool {
    on_curve_of(key).is_some()
}

fn curve_of(key: &SubjectPublicKeyInfo<'_>) -> Option<Oid<'static>> {
    key.algorithm
        .parameters
        .as_ref()?
        .as_oid()
        .ok()
        .map(|curve| curve.to_owned())
}

fn on_curve_of(key: &SubjectPublicKeyInfo<'_>) -> Option<Verify> {
    let curve = curve_of(key)?;
    let p224 = oid!(1.3.132.0.33);
    let curves: [(Oid<'_>, Verify); 4] = [
        (p224, verify::<NistP224>),
        (OID_EC_P256, verify::<NistP256>),
        (OID_NIST_EC_P384, verify::<NistP384>),
        (OID_NIST_EC_P521, verify::<NistP521>),
    ];
    let mut curves = curves.into_iter();
    curves.find_map(|(known, verify)| (known == curve).then_some(verify))
}

fn verify<C>(point: &[u8], hash: &[u8], signature: &[u8]) -> Result<(), ecdsa::Error>
where
    C: PrimeCurve + CurveArithmetic,
    AffinePoint<C>: VerifyPrimitive<C> + FromEncodedPoint<C> + ToEncodedPoint<C>,
    FieldBytesSize<C>: ModulusSize,
    SignatureSize<C>: ArrayLength<u8>,
    ecdsa::der::MaxSize<C>: ArrayLength<u8>,
    <FieldBytesSize<C> as std::ops::Add>::Output:
        std::ops::Add<ecdsa::der::MaxOverhead> + ArrayLength<u8>,
{
    // UPSTREAM: a point whose second coordinate is left out is none.
    const WHOLE: u8 = 4;
    let point = Some(point).filter(|point| point.first() == Some(&WHOLE));
    let key = VerifyingKey::<C>::from_sec1_bytes(point.ok_or_else(ecdsa::Error::new)?)?;
    let signature = Signature::<C>::from_der(signature)?;
    key.verify_prehash(&as_number::<C>(hash), &signature)
}

/// A hash as a number of the field's length (FIPS 186-5, section 6.4): its first bytes of a longer one, zeros before a
/// shorter one, which the library would refuse if it was less than half as long.
fn as_number<C: PrimeCurve>(hash: &[u8]) -> FieldBytes<C> {
    let mut number = FieldBytes::<C>::default();
    let taken = hash.len().min(number.len());
    let from = number.len() - taken;
    number[from..].copy_from_slice(&hash[..taken]);
    number
}

#[cfg(test)]
mod tests {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer;

    use super::*;
    use crate::verify_request;

    /// By OpenSSL, for keys that nobody has kept: P-224, P-256, P-384 and P-521, each with SHA-1, SHA-256, SHA-384 and
    /// SHA-512. Go 1.26 verifies them all.
    const REQUESTS: &str = include_str!("testdata/ecdsa.pem");

    fn verify(der: &[u8]) -> Result<(), X509Error> {
        verify_request(&X509CertificationRequest::from_der(der).unwrap().1)
    }

    #[test]
    fn each_curve_verifies_with_each_hash() {
        let blocks = crate::pem::blocks(REQUESTS);
        assert_eq!(blocks.len(), 16);
        for (at, mut block) in blocks.into_iter().enumerate() {
            assert_eq!(verify(&block.der), Ok(()), "request {at}");
            *block.der.last_mut().unwrap() ^= 1;
            let forged = verify(&block.der);
            let refused = Err(X509Error::SignatureVerificationError);
            assert_eq!(forged, refused, "request {at}");
        }
    }

    #[test]
    fn a_point_that_is_not_whole_verifies_nothing() {
        for block in crate::pem::blocks(REQUESTS) {
            let (_, request) = X509CertificationRequest::from_der(&block.der).unwrap();
            let info = &request.certification_request_info;
            let verify = on_curve_of(&info.subject_pki).unwrap();
            let hash = digest(hash_of(&request.signature_algorithm).unwrap(), info.raw);
            let signature = &request.signature_value.data;
            let point = &info.subject_pki.subject_public_key.data;
            let verify = |point: &[u8]| verify(point, hash.as_ref(), signature).is_ok();
            assert!(verify(point));
            // Two, or three where the number that is left out is odd.
            let half = point.len() / 2;
            let compressed = [&[2 + (point[point.len() - 1] & 1)], &point[1..=half]].concat();
            assert!(!verify(&compressed));
            assert!(!verify(&point[..half]));
            assert!(!verify(&[]));
        }
    }
}
