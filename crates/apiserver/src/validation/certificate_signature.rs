//! The PKCS #10 text in a CertificateSigningRequest. Upstream: `certificates.ParseCSR` and `x509.CheckSignature`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keys::pem::{Block, blocks};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;

use super::alternative_names;

/// UPSTREAM: the smallest key that Go verifies with.
const LEAST_RSA_BITS: usize = 1024;

/// The tag of a sequence, which every request is.
const SEQUENCE: u8 = 0x30;

/// Whoever asks must hold the key that the request is about: it is signed with it.
pub(super) fn verify(encoded: &str) -> Result<(), String> {
    let no_pem = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
    let text = STANDARD.decode(encoded).map_err(|_| no_pem())?;
    let text = String::from_utf8_lossy(&text);
    let blocks = blocks(&text);
    let is_request = |block: &&Block<'_>| block.label == "CERTIFICATE REQUEST";
    let der = &blocks.first().filter(is_request).ok_or_else(no_pem)?.der;
    let (rest, request) = X509CertificationRequest::from_der(der).map_err(|_| der_fault(der))?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    alternative_names::check(&request)?;
    match keys::verify_request(&request) {
        Ok(()) => Ok(()),
        Err(X509Error::SignatureUnsupportedAlgorithm) => {
            Err("x509: cannot verify signature: algorithm unimplemented".to_owned())
        }
        Err(_) => Err(signature_fault(&request)),
    }
}

/// A signature that does not fit, in the words of Go's package for its kind of key.
fn signature_fault(request: &X509CertificationRequest<'_>) -> String {
    match request.certification_request_info.subject_pki.parsed() {
        Ok(PublicKey::RSA(key)) if key.key_size() < LEAST_RSA_BITS => format!(
            "crypto/rsa: {}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)",
            key.key_size()
        ),
        Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error".to_owned(),
        Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure".to_owned(),
        _ => "x509: Ed25519 verification failure".to_owned(),
    }
}

/// What is wrong with DER that is no request, as far as its first lines say it.
fn der_fault(der: &[u8]) -> String {
    let [tag, length, rest @ ..] = der else {
        return "asn1: syntax error: sequence truncated".to_owned();
    };
    // A long length says in how many bytes it follows.
    let digits = match length & 0x80 {
        0 => 0,
        _ => usize::from(length & 0x7f).min(rest.len()),
    };
    let (long, contents) = rest.split_at(digits);
    let length = match digits {
        0 => usize::from(*length),
        _ => long.iter().fold(0_usize, |length, digit| {
            length
                .saturating_mul(256)
                .saturating_add(usize::from(*digit))
        }),
    };
    if *tag != SEQUENCE {
        return format!(
            "asn1: structure error: tags don't match (16 vs {{class:{} tag:{} length:{length} isCompound:{}}}) \
             {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> \
             stringType:0 timeType:0 set:false omitEmpty:false}} certificateRequest @{}",
            tag >> 6,
            tag & 0x1f,
            tag & 0x20 != 0,
            digits + 2
        );
    }
    match length {
        _ if length > contents.len() => "asn1: syntax error: data truncated".to_owned(),
        0 => "asn1: syntax error: sequence truncated".to_owned(),
        _ => "asn1: structure error: not a certificate request".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By OpenSSL: `openssl req -new -newkey rsa:1024 -subj /CN=a`, with keys of 512 and of 1,024 bits.
    const RSA_1024: &str = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAFhMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCwlh72zSo3f4lAsdBswR4vu9uveo4pNtew2MPEAfPaYmjWe7qu/gp2eNg5W+JwddLOjkj+rNmdCj0Yv21mnwAZ6FioDq+zVkwrRd/INmt6Y899HuWHhW10GBqXHT4qptKgbMVwLWTc7WSLTqu/2GoWTVRbhvuoTUfYYhPyfX9XfQIDAQABoAAwDQYJKoZIhvcNAQELBQADgYEANdceJYcHJYiS3HqGtzhYVG0OA5Dl0BtDtHDwrs0EPf+h895bnp8+lzysbHk73XoWifH+dx2eJU1K7JmsBH3jwy+vhK0hqElfmGYivhqcFmRIda43uRHKNbwKhhl44cQ9epzxmBiXjZb38AuQhbtmHIQi0fp2tVmnwxuP8+VD09I=";
    const RSA_512: &str = "MIHFMHECAQAwDDEKMAgGA1UEAwwBYTBcMA0GCSqGSIb3DQEBAQUAA0sAMEgCQQDgRhWJbaPs517mqr/ZPSc/luf1cJefx7KnNGsdIM9QhCRxs9v758X1Cll42JFC8k867RAZwPpxDTrN+tXeZh6nAgMBAAGgADANBgkqhkiG9w0BAQsFAANBAKyy072gZRZ6VAcp//Yh5qT2jAa+W7FTc2HpPdhbC5Orz5wB4h6Wd4XQItw4X4cUMgDU5+qAQsqy+QD3dFetBz8=";

    fn check(der: &[u8], expected: &str) {
        let text = STANDARD.encode(der);
        let block = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n"
        );
        let said = verify(&STANDARD.encode(block)).err().unwrap_or_default();
        assert_eq!(said, expected);
    }

    fn der(base64: &str) -> Vec<u8> {
        STANDARD.decode(base64).unwrap()
    }

    #[test]
    fn small_keys_sign_down_to_a_thousand_bits() {
        check(&der(RSA_1024), "");
        check(
            &der(RSA_512),
            "crypto/rsa: 512-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)",
        );
    }

    #[test]
    fn a_signature_that_does_not_fit_is_refused_in_gos_words() {
        let forged = |mut der: Vec<u8>| {
            *der.last_mut().unwrap() ^= 1;
            der
        };
        check(&forged(der(RSA_1024)), "crypto/rsa: verification error");
        for (algorithm, fault) in [
            (
                &rcgen::PKCS_ECDSA_P256_SHA256,
                "x509: ECDSA verification failure",
            ),
            (&rcgen::PKCS_ED25519, "x509: Ed25519 verification failure"),
        ] {
            let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let request = rcgen::CertificateParams::default().serialize_request(&key);
            check(&forged(request.unwrap().der().to_vec()), fault);
        }
    }

    #[test]
    fn what_is_no_request_is_refused_in_gos_words() {
        let mut longer = der(RSA_1024);
        longer.push(0);
        check(&longer, "asn1: syntax error: trailing data");
        check(&der(RSA_1024)[..40], "asn1: syntax error: data truncated");
        check(b"", "asn1: syntax error: sequence truncated");
        check(b"\x30\x00", "asn1: syntax error: sequence truncated");
        check(
            b"nonsense",
            "asn1: structure error: tags don't match (16 vs {class:1 tag:14 length:111 isCompound:true}) \
             {optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 \
             timeType:0 set:false omitEmpty:false} certificateRequest @2",
        );
    }
}
