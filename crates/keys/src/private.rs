//! Private keys, from PEM in any of its three envelopes.
//!
//! Nothing here prints a key: it has no `Debug`, and no error quotes what was read.

use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{self, EcdsaKeyPair, KeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use crate::{P256_ALGORITHM, P384_ALGORITHM};

/// A key, and the source of randomness that ECDSA needs.
pub struct PrivateKey {
    pub key: Key,
    random: SystemRandom,
}

/// What can sign.
pub enum Key {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair, Curve),
}

/// The curves that ring signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    P256,
    P384,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("it is no PEM-encoded private key: {0}")]
    NotPem(rustls_pki_types::pem::Error),
    #[error("it cannot be used: {0}; give an RSA key, or an ECDSA key on P-256 or P-384")]
    Unusable(String),
    #[error("signing failed")]
    Failed,
}

impl PrivateKey {
    pub fn from_pem(pem: &[u8]) -> Result<PrivateKey, KeyError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(KeyError::NotPem)?;
        PrivateKey::from_der(&der)
    }

    pub(crate) fn from_der(der: &PrivateKeyDer<'_>) -> Result<PrivateKey, KeyError> {
        let key = match der {
            PrivateKeyDer::Pkcs1(der) => {
                let pair = RsaKeyPair::from_der(der.secret_pkcs1_der());
                Key::Rsa(pair.map_err(|error| KeyError::Unusable(error.to_string()))?)
            }
            PrivateKeyDer::Pkcs8(der) => from_pkcs8(der.secret_pkcs8_der())?,
            PrivateKeyDer::Sec1(der) => from_sec1(der.secret_sec1_der())?,
            _ => return Err(KeyError::Unusable("its format is unknown".into())),
        };
        Ok(PrivateKey {
            key,
            random: SystemRandom::new(),
        })
    }

    /// The public half, as the bit string of a `SubjectPublicKeyInfo` holds it.
    pub fn public(&self) -> &[u8] {
        match &self.key {
            Key::Rsa(pair) => pair.public_key().as_ref(),
            Key::Ecdsa(pair, _) => pair.public_key().as_ref(),
        }
    }

    /// PKCS #1 v1.5 with SHA-256, or ECDSA with the curve's own hash: r and s beside each other, as JOSE has them.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match &self.key {
            Key::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let encoding = &signature::RSA_PKCS1_SHA256;
                pair.sign(encoding, &self.random, message, &mut signature)
                    .map_err(|_| KeyError::Failed)?;
                Ok(signature)
            }
            Key::Ecdsa(pair, _) => {
                let signed = pair.sign(&self.random, message);
                let signature = signed.map_err(|_| KeyError::Failed)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }

    /// The same as X.509 has it: r and s are a sequence of two integers.
    pub fn sign_for_certificate(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.sign(message)?;
        if matches!(self.key, Key::Rsa(_)) {
            return Ok(signature);
        }
        let (r, s) = signature.split_at(signature.len() / 2);
        Ok(yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_bigint_bytes(r, true);
                writer.next().write_bigint_bytes(s, true);
            });
        }))
    }
}

fn from_pkcs8(der: &[u8]) -> Result<Key, KeyError> {
    let random = SystemRandom::new();
    for (algorithm, curve) in [
        (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, Curve::P256),
        (&signature::ECDSA_P384_SHA384_FIXED_SIGNING, Curve::P384),
    ] {
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, der, &random) {
            return Ok(Key::Ecdsa(pair, curve));
        }
    }
    match RsaKeyPair::from_pkcs8(der) {
        Ok(pair) => Ok(Key::Rsa(pair)),
        Err(error) => Err(KeyError::Unusable(error.to_string())),
    }
}

/// The older form of EC keys, put into the envelope that the library reads.
fn from_sec1(der: &[u8]) -> Result<Key, KeyError> {
    let mut last = Err(KeyError::Unusable("its format is unknown".into()));
    for algorithm in [P256_ALGORITHM, P384_ALGORITHM] {
        last = from_pkcs8(&yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_u8(0);
                writer.next().write_der(algorithm);
                writer.next().write_bytes(der);
            });
        }));
        if last.is_ok() {
            break;
        }
    }
    last
}
