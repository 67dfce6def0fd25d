//! Reading the files that flags name, with errors that name both.

use std::path::Path;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// Larger files are refused: no certificate bundle or configuration comes near this, and a wrong path
/// (a device, a log) must not fill the memory.
const LARGEST_BYTES: u64 = 4 << 20;

pub fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |source| Error::Unreadable {
        flag,
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST_BYTES {
        return Err(bad(
            flag,
            path,
            format!("has {size} bytes, more than the {LARGEST_BYTES} allowed"),
        ));
    }
    std::fs::read(path).map_err(unreadable)
}

pub fn read_text(flag: &'static str, path: &Path) -> Result<String, Error> {
    String::from_utf8(read(flag, path)?).map_err(|_| bad(flag, path, "is not text (UTF-8)".into()))
}

/// All certificates of a PEM bundle, in order: leaf and CA certificates may be mixed.
pub fn read_certificates(
    flag: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    parse_certificates(&read(flag, path)?).map_err(|problem| bad(flag, path, problem))
}

/// The first private key of a PEM file: PKCS#1, PKCS#8 or SEC1, so RSA and EC.
pub fn read_private_key(flag: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    parse_private_key(&read(flag, path)?).map_err(|problem| bad(flag, path, problem))
}

pub fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("holds broken PEM: {error}"))?;
    for (index, certificate) in certificates.iter().enumerate() {
        x509_parser::parse_x509_certificate(certificate).map_err(|_| {
            format!(
                "holds a certificate (number {}) that cannot be parsed",
                index + 1
            )
        })?;
    }
    match certificates.is_empty() {
        true => Err("holds no certificate; it must be PEM with BEGIN CERTIFICATE".into()),
        false => Ok(certificates),
    }
}

pub fn parse_private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        "holds no private key; it must be PEM with BEGIN [RSA|EC] PRIVATE KEY".to_owned()
    })?;
    rustls::crypto::ring::sign::any_supported_type(&key).map_err(|_| {
        "holds a private key of a kind that is not supported; use RSA or ECDSA".to_owned()
    })?;
    Ok(key)
}

fn bad(flag: &'static str, path: &Path, problem: String) -> Error {
    Error::BadFile {
        flag,
        path: path.to_owned(),
        problem,
    }
}
