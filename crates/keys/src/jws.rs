//! Compact JWS (RFC 7515): header, payload and signature in base64url, with dots between them.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::{KeyError, PrivateKey, PublicKey};

pub fn sign(key: &PrivateKey, header: &str, payload: &str) -> Result<String, KeyError> {
    let encode = |part: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(part);
    let signed = format!(
        "{}.{}",
        encode(header.as_bytes()),
        encode(payload.as_bytes())
    );
    let signature = key.sign(signed.as_bytes())?;
    Ok(format!("{signed}.{}", encode(&signature)))
}

/// What somebody sent, whose signature is still to be verified.
pub struct Unverified<'a> {
    pub header: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    /// None where it is no JWS.
    pub fn read(token: &'a str) -> Option<Unverified<'a>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, _) = signed.split_once('.')?;
        Some(Unverified {
            header: decode(header)?,
            signed,
            signature: decode(signature)?,
        })
    }

    /// The payload, if this key has signed it. The algorithm is the key's, whatever the header says.
    pub fn verify(&self, key: &PublicKey) -> Option<Vec<u8>> {
        let (_, payload) = self.signed.split_once('.')?;
        let is_signed = key.verifies(self.signed.as_bytes(), &self.signature);
        is_signed.then(|| decode(payload))?
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(part).ok()
}
