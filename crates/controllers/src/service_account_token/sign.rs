//! Signing of service account tokens, as API servers verify them: RS256, ES256 or ES384 by the key.

use api::json::write_go_string;
use keys::{KeyError, PrivateKey, PublicKey, jws};

/// A private key and the name by which API servers find its public half.
pub struct Signer {
    pub(super) private: PrivateKey,
    public: PublicKey,
}

#[derive(Debug, thiserror::Error)]
#[error("the service account key: {0}")]
pub struct SignError(#[from] KeyError);

impl Signer {
    /// From the text of `--service-account-private-key-file`.
    pub fn from_pem(pem: &[u8]) -> Result<Signer, SignError> {
        let private = PrivateKey::from_pem(pem)?;
        let public = private.public_key();
        Ok(Signer { private, public })
    }

    pub fn key_id(&self) -> &str {
        self.public.id()
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
        let header = object(&[("alg", self.public.algorithm()), ("kid", self.key_id())]);
        Ok(jws::sign(&self.private, &header, &object(&claims))?)
    }
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
