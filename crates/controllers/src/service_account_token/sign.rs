//! Signing of service account tokens, as API servers verify them: RS256, ES256 or ES384 by the key.
//!
//! With ring, which is there for TLS, and not by the crate `jsonwebtoken`: it would bring a second library for cryptography
//! (C, or an `rsa` with an open advisory), read no SEC 1 keys, and leave the name of the key to us all the same.

use api::json::write_go_string;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{self, EcdsaKeyPair, KeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

/// A private key and the name by which API servers find its public half.
pub struct Signer {
    pub(super) key: Key,
    key_id: String,
    random: SystemRandom,
}

pub(super) enum Key {
    Rsa(RsaKeyPair),
    /// With the JOSE name of its algorithm.
    Ecdsa(EcdsaKeyPair, &'static str),
}

#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("the service account key is no PEM-encoded private key: {0}")]
    NotPem(rustls_pki_types::pem::Error),
    #[error(
        "the service account key cannot be used: {0}; give an RSA key, or an ECDSA key on P-256 or P-384"
    )]
    Unusable(String),
    #[error("signing a token failed")]
    Failed,
}

/// The `AlgorithmIdentifier` of RSA keys in DER.
const RSA_ALGORITHM: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
/// The same for ECDSA keys on P-256 and on P-384.
const P256_ALGORITHM: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
const P384_ALGORITHM: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];

const SEQUENCE: u8 = 0x30;
const OCTET_STRING: u8 = 0x04;
const BIT_STRING: u8 = 0x03;

impl Signer {
    /// From the text of `--service-account-private-key-file`.
    pub fn from_pem(pem: &[u8]) -> Result<Signer, SignError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(SignError::NotPem)?;
        let key = match &der {
            PrivateKeyDer::Pkcs1(der) => {
                let pair = RsaKeyPair::from_der(der.secret_pkcs1_der());
                Key::Rsa(pair.map_err(|error| SignError::Unusable(error.to_string()))?)
            }
            PrivateKeyDer::Pkcs8(der) => from_pkcs8(der.secret_pkcs8_der())?,
            PrivateKeyDer::Sec1(der) => from_sec1(der.secret_sec1_der())?,
            _ => return Err(SignError::Unusable("its format is unknown".into())),
        };
        let key_id = key_id(&key);
        Ok(Signer {
            key,
            key_id,
            random: SystemRandom::new(),
        })
    }

    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// A token that does not expire, bound to the secret that holds it.
    pub fn legacy_token(
        &self,
        namespace: &str,
        account: &str,
        account_uid: &str,
        secret: &str,
    ) -> Result<String, SignError> {
        let subject = format!("system:serviceaccount:{namespace}:{account}");
        // In the order in which upstream writes them.
        let claims = [
            ("iss", "kubernetes/serviceaccount"),
            ("kubernetes.io/serviceaccount/namespace", namespace),
            ("kubernetes.io/serviceaccount/secret.name", secret),
            ("kubernetes.io/serviceaccount/service-account.name", account),
            (
                "kubernetes.io/serviceaccount/service-account.uid",
                account_uid,
            ),
            ("sub", &subject),
        ];
        let algorithm = match &self.key {
            Key::Rsa(_) => "RS256",
            Key::Ecdsa(_, name) => name,
        };
        let header = object(&[("alg", algorithm), ("kid", &self.key_id)]);
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let message = format!("{}.{}", encode(&header), encode(&object(&claims)));
        let signature = self.sign(message.as_bytes())?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("{message}.{signature}"))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        match &self.key {
            Key::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(
                    &signature::RSA_PKCS1_SHA256,
                    &self.random,
                    message,
                    &mut signature,
                )
                .map_err(|_| SignError::Failed)?;
                Ok(signature)
            }
            Key::Ecdsa(pair, _) => {
                let signed = pair.sign(&self.random, message);
                let signature = signed.map_err(|_| SignError::Failed)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }
}

fn from_pkcs8(der: &[u8]) -> Result<Key, SignError> {
    let random = SystemRandom::new();
    for (algorithm, name) in [
        (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "ES256"),
        (&signature::ECDSA_P384_SHA384_FIXED_SIGNING, "ES384"),
    ] {
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, der, &random) {
            return Ok(Key::Ecdsa(pair, name));
        }
    }
    match RsaKeyPair::from_pkcs8(der) {
        Ok(pair) => Ok(Key::Rsa(pair)),
        Err(error) => Err(SignError::Unusable(error.to_string())),
    }
}

/// The older form of EC keys, put into the envelope that the library reads.
fn from_sec1(der: &[u8]) -> Result<Key, SignError> {
    let mut last = Err(SignError::Unusable("its format is unknown".into()));
    for algorithm in [P256_ALGORITHM, P384_ALGORITHM] {
        let version = [0x02, 0x01, 0x00];
        let inner = tagged(OCTET_STRING, der);
        let body = [&version[..], algorithm, &inner].concat();
        last = from_pkcs8(&tagged(SEQUENCE, &body));
        if last.is_ok() {
            break;
        }
    }
    last
}

/// The digest of the public key, as upstream names keys.
fn key_id(key: &Key) -> String {
    let (algorithm, public) = match key {
        Key::Rsa(pair) => (RSA_ALGORITHM, pair.public_key().as_ref()),
        Key::Ecdsa(pair, "ES256") => (P256_ALGORITHM, pair.public_key().as_ref()),
        Key::Ecdsa(pair, _) => (P384_ALGORITHM, pair.public_key().as_ref()),
    };
    // A bit string begins with the number of unused bits.
    let bits = [&[0][..], public].concat();
    let body = [algorithm, &tagged(BIT_STRING, &bits)].concat();
    let digest = digest::digest(&digest::SHA256, &tagged(SEQUENCE, &body));
    BASE64_URL_SAFE_NO_PAD.encode(digest)
}

/// A DER value: tag, length, content.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut der = vec![tag];
    match length {
        0..=0x7f => der.push(length as u8),
        0x80..=0xff => der.extend([0x81, length as u8]),
        // Keys are a few kilobytes at most; two bytes suffice.
        _ => der.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    der.extend(content);
    der
}

fn object(fields: &[(&str, &str)]) -> String {
    let mut text = String::from("{");
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_go_string(&mut text, name);
        text.push(':');
        write_go_string(&mut text, value);
    }
    text.push('}');
    text
}
