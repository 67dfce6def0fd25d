//! Private keys, from PEM in any of its three envelopes.
//!
//! Nothing here prints a key: it has no `Debug`, and no error quotes what was read.

use ring::error::KeyRejected;
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
    #[error(
        "it is encrypted, and nobody is there to give the passphrase: decrypt it by `openssl pkey -in FILE -out DECRYPTED`"
    )]
    Encrypted,
    #[error("it cannot be used: {0}; give an RSA key, or an ECDSA key on P-256 or P-384")]
    Unusable(String),
    #[error("signing failed")]
    Failed,
}

impl PrivateKey {
    pub fn from_pem(pem: &[u8]) -> Result<PrivateKey, KeyError> {
        match PrivateKeyDer::from_pem_slice(pem) {
            Ok(der) => PrivateKey::from_der(&der),
            Err(_) if is_encrypted(pem) => Err(KeyError::Encrypted),
            Err(error) => Err(KeyError::NotPem(error)),
        }
    }

    pub(crate) fn from_der(der: &PrivateKeyDer<'_>) -> Result<PrivateKey, KeyError> {
        let key = match der {
            PrivateKeyDer::Pkcs1(der) => {
                let pair = RsaKeyPair::from_der(der.secret_pkcs1_der());
                Key::Rsa(pair.map_err(|error| KeyError::rejected(&error))?)
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

impl KeyError {
    /// ring's names for what is wrong are those of its types.
    fn rejected(error: &KeyRejected) -> KeyError {
        KeyError::Unusable(match error.to_string().as_str() {
            "TooSmall" => "it is an RSA key of less than 2048 bits".to_owned(),
            "TooLarge" => "it is an RSA key of more than 4096 bits".to_owned(),
            "WrongAlgorithm" => "it is of another kind".to_owned(),
            other => format!("it is broken ({other})"),
        })
    }
}

/// By the label of PKCS #8, or the header of the older forms.
fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    let mut lines = text.lines();
    lines.any(|line| {
        let line = line.trim_end();
        line == "-----BEGIN ENCRYPTED PRIVATE KEY-----" || line == "Proc-Type: 4,ENCRYPTED"
    })
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
        Err(error) => Err(KeyError::rejected(&error)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// By OpenSSL, for keys that nobody has kept: `openssl pkcs8 -topk8`, and `openssl ec -aes256`.
    const ENCRYPTED: [&str; 2] = [
        "\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhRIGCPv8eFhgICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEITMlGWlQReWQYR3Bbj5fqMEgZCJ
U3vTApuVW4sttk5QVDtZ6QHDmU1RrFPj099NqE+24D9zF/ZXKv+K2GCYYPBhx4o/
+XP5MWZWCh6o1sJqyuuWl/sS6COOyKRSvNsjzuHkAoPq0buXqG8H85klZSavjVhz
n8GTRdc5MRCj41//kHHwk2vsAEDrmJeYJc6a6rSkUrxk0fO+JIVAsbOoHPTPryM=
-----END ENCRYPTED PRIVATE KEY-----
",
        "\
-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,6A54E1FF4279ADD51AC726A3BB58B6A0

eIRdoWx3QaR8+sb3PdLf3PJ3S/vTqoof+3TZYO9cOCNwmbKMJa49/RRP7cdX7ALq
SKvpu/5fgBavqDBUNc3xdncDBq27QlzERkdNVz9NiBz/LA1c0cidx2W/Z1ywaDh4
NWieJsggpNz2hqr40PxxO0OE3YvAsTR032Jr2yzi4kw=
-----END EC PRIVATE KEY-----
",
    ];

    #[test]
    fn an_encrypted_key_is_said_to_be_that() {
        for pem in ENCRYPTED {
            for pem in [pem.to_owned(), pem.replace('\n', "\r\n")] {
                let refused = PrivateKey::from_pem(pem.as_bytes()).err();
                assert!(matches!(refused, Some(KeyError::Encrypted)), "{refused:?}");
            }
        }
        let refused = PrivateKey::from_pem(b"nothing").err();
        assert!(matches!(refused, Some(KeyError::NotPem(_))), "{refused:?}");
    }
}
