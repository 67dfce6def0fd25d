//! The signature of a certificate request (PKCS #10), by which whoever sent it shows that they hold its key.

use ring::digest::Algorithm;
use ring::signature::{
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::oid_registry::{
    OID_PKCS1_SHA1WITHRSA, OID_PKCS1_SHA256WITHRSA, OID_PKCS1_SHA512WITHRSA,
};
use x509_parser::public_key::PublicKey;

use crate::ecdsa::{self, verify_ecdsa};

/// RSA keys from this size on are verified by the parser.
const USUAL_RSA_BITS: usize = 2048;
/// UPSTREAM: the smallest key that Go verifies with.
const LEAST_RSA_BITS: usize = 1024;

/// Is a request signed by the key that it is about? `SignatureUnsupportedAlgorithm` where no signature of its kind can be
/// verified.
pub fn verify_request(request: &X509CertificationRequest<'_>) -> Result<(), X509Error> {
    let info = &request.certification_request_info;
    let signature = &request.signature_value.data;
    match Verifier::of(request)? {
        Verifier::Parser => request.verify_signature(),
        // UPSTREAM: they are taken, though nobody should have them any more.
        Verifier::SmallRsa(algorithm) => {
            let key = UnparsedPublicKey::new(algorithm, &info.subject_pki.subject_public_key.data);
            key.verify(info.raw, signature)
                .map_err(|_| X509Error::SignatureVerificationError)
        }
        Verifier::Ecdsa(hash) => verify_ecdsa(&info.subject_pki, hash, info.raw, signature),
    }
}

/// Can a signature of its kind be verified? `SignatureUnsupportedAlgorithm` where it cannot.
pub fn knows_signature_of(request: &X509CertificationRequest<'_>) -> Result<(), X509Error> {
    Verifier::of(request).map(|_| ())
}

/// Who verifies a request's signature.
enum Verifier {
    /// By ring, with what it takes for safe.
    Parser,
    SmallRsa(&'static dyn VerificationAlgorithm),
    Ecdsa(&'static Algorithm),
}

impl Verifier {
    fn of(request: &X509CertificationRequest<'_>) -> Result<Verifier, X509Error> {
        let signed_by = &request.signature_algorithm;
        let key = &request.certification_request_info.subject_pki;
        match key.parsed() {
            Ok(PublicKey::RSA(key))
                if (LEAST_RSA_BITS..USUAL_RSA_BITS).contains(&key.key_size()) =>
            {
                for_small_keys(request).map(Verifier::SmallRsa)
            }
            Ok(PublicKey::EC(_)) if ecdsa::is_usual(key, signed_by) => Ok(Verifier::Parser),
            Ok(PublicKey::EC(_)) => match (ecdsa::hash_of(signed_by), ecdsa::is_known(key)) {
                (Some(hash), true) => Ok(Verifier::Ecdsa(hash)),
                _ => Err(X509Error::SignatureUnsupportedAlgorithm),
            },
            _ => Ok(Verifier::Parser),
        }
    }
}

fn for_small_keys(
    request: &X509CertificationRequest<'_>,
) -> Result<&'static dyn VerificationAlgorithm, X509Error> {
    let signed_by = &request.signature_algorithm.algorithm;
    if *signed_by == OID_PKCS1_SHA1WITHRSA {
        Ok(&RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY)
    } else if *signed_by == OID_PKCS1_SHA256WITHRSA {
        Ok(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY)
    } else if *signed_by == OID_PKCS1_SHA512WITHRSA {
        Ok(&RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY)
    } else {
        Err(X509Error::SignatureUnsupportedAlgorithm)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use x509_parser::prelude::FromDer;

    use super::*;

    /// By OpenSSL: `openssl req -new -newkey rsa:1024 -subj /CN=a -sha1`, and with other hashes.
    const SHA1: &str = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAFhMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCyq1W8akkjOTJNrAXTu0kTuZGgEKTCQEoluuEfT95EV3HUzbIKt+BuZLiElR9NztEGczDJ7WScOnEQABGiBhK3qsA/k6Z0K4sQ57zXBXNWnhtCFv7ejN94SMaMgCP62Fcrl/NMZorTwWcJLhIgqtnvQ4z3Y4s+6IG0yI9OYXKzRQIDAQABoAAwDQYJKoZIhvcNAQEFBQADgYEAWyV2n6u0gYcW9qNEcg6LmkAY2y0nK2VkxNRreJMGeEL8hbaf1exGi/Gg0itvD6aTvKUhtx/q1rC/lke5HEZKOY3jttld/Qah+t97gowAcSKDN4t/RTI1hzM31TNnl3If8gobg3EoZhe1505KsZP3ZsziNDqzWTFA1gOY9cyRgFs=";
    const SHA256: &str = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAFhMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC424OVziSRtylnvmJKvGJOahjRgK2re7Zseb5RerqiQO2Ai//pVOmeXQETZ9nsELJMP3NZAOheczy2CD+n6jBxhIHJfuzHe/7N7FilvWZyPA4KbMPgqVkpR4jvtjcljbqaNfc14bsjWCJ/glY8X+p0i0EJYWlHpy/+1qHlce1FLwIDAQABoAAwDQYJKoZIhvcNAQELBQADgYEASsAD1wSqGIHL1oSy5sZSBwoslKr8sS1oK/YDwR+u9vL/w2LIRhFVY9Lh8Y8vV+0roe2hXh6K+mCFucWVFnyHqyeu1eyKduqwBfE2l3maEcR7ZzKL/C1bmEGy6TbqlGn73vE6FnAFJ+qPdKgWHWlgj0NvLqn32aBJbpoRRlRgmWM=";
    const SHA384: &str = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAFhMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCYu3cA+WDadf02pWx/BgkwnM8LHw8hwR9HkeD8Yrp5OFU737RgkjL4PqmG71MD/MJe2uzxyXtD+Kxq6bW84FQKIw52mL7HdDlrwJWCWBOrHzE3bugSmL7Ij3ecReLWkcRbdC/sSiJ5oZ/EtQqwYpWXzk1rTyzd1pCrM8nhWXhF6wIDAQABoAAwDQYJKoZIhvcNAQEMBQADgYEAQHxVG+zYAfmncgQHCZWD2XWQdTxLM+lfkhbPIZ7HNOPEI+S1NkkJ4PZDWBpQs79hW2ZIn+Glls7hgsYmcJFnPC0+B7rCVQHyjB6zfNT7joIq91Lh96zOe1X5MvXpKzbg+z3Gn7rwdlKoBpLybKhQl4HNwsNh3yUEkjjWme4ZkMU=";
    const SHA512: &str = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAFhMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCssRCj3wj0lgLXI31UDqqGHgiE9Sp7RzkotLfi84eND4Fh0ojvziWcmOXPLWv127d7Eox/b93uRRQdIxNV0H0+ycRgLd9rMY/fbPVdlL5ceySirDpV+TAdV/znyQa436jgx8DdVVsqau5cSnptxc8J7wdXW2v254J4nNDC+8wz+QIDAQABoAAwDQYJKoZIhvcNAQENBQADgYEAjUbvTDW0b6DeOQD0I1bb6lz4uUdPqUU/l2pGBVv7Xuhq2E2zeUD1r4BYtOjlqf8uyuIrKI66fdqbcDc2+5gFbjQqjtP0n3B5XIeEgSEYE2XrmzW6Mr1tUOL3LvGgrqe7dwg4SgvRv8SxufOqD/G/H/Iw3ek7mB60IAHvj5U8CyI=";

    fn verify(der: &[u8]) -> Result<(), X509Error> {
        let (_, request) = X509CertificationRequest::from_der(der).unwrap();
        verify_request(&request)
    }

    #[test]
    fn small_rsa_keys_verify_with_the_hashes_that_there_are_for_them() {
        for text in [SHA1, SHA256, SHA512] {
            let mut der = BASE64_STANDARD.decode(text).unwrap();
            assert_eq!(verify(&der), Ok(()));
            *der.last_mut().unwrap() ^= 1;
            let forged = verify(&der);
            assert_eq!(forged, Err(X509Error::SignatureVerificationError));
        }
        let der = BASE64_STANDARD.decode(SHA384).unwrap();
        let unsupported = Err(X509Error::SignatureUnsupportedAlgorithm);
        assert_eq!(verify(&der), unsupported);
    }
}
