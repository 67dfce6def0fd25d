//! Signing of service account tokens, as API servers verify them: RS256, ES256 or ES384 by the key.
//!
//! With ring, which is there for TLS, and not by the crate `jsonwebtoken`: it would bring a second library for cryptography
//! (C, or an `rsa` with an open advisory), read no SEC 1 keys, and leave the name of the key to us all the same.

use api::json::write_go_string;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest;

use crate::private_key::{Curve, Key, KeyError, P256_ALGORITHM, P384_ALGORITHM, PrivateKey};

/// A private key and the name by which API servers find its public half.
pub struct Signer {
    pub(super) private: PrivateKey,
    key_id: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the service account key: {0}")]
pub struct SignError(#[from] KeyError);

/// The `AlgorithmIdentifier` of RSA keys in DER.
const RSA_ALGORITHM: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

impl Signer {
    /// From the text of `--service-account-private-key-file`.
    pub fn from_pem(pem: &[u8]) -> Result<Signer, SignError> {
        let private = PrivateKey::from_pem(pem)?;
        let key_id = key_id(&private);
        Ok(Signer { private, key_id })
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
        let algorithm = match &self.private.key {
            Key::Rsa(_) => "RS256",
            Key::Ecdsa(_, Curve::P256) => "ES256",
            Key::Ecdsa(_, Curve::P384) => "ES384",
        };
        let header = object(&[("alg", algorithm), ("kid", &self.key_id)]);
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let message = format!("{}.{}", encode(&header), encode(&object(&claims)));
        let signature = self.private.sign(message.as_bytes())?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("{message}.{signature}"))
    }
}

/// The digest of the public key, as upstream names keys.
fn key_id(private: &PrivateKey) -> String {
    let algorithm = match &private.key {
        Key::Rsa(_) => RSA_ALGORITHM,
        Key::Ecdsa(_, Curve::P256) => P256_ALGORITHM,
        Key::Ecdsa(_, Curve::P384) => P384_ALGORITHM,
    };
    let public = private.public();
    let info = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(algorithm);
            writer.next().write_bitvec_bytes(public, public.len() * 8);
        });
    });
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &info))
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
