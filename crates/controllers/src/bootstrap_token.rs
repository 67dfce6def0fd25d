//! Bootstrap tokens: secrets by which a node that nobody knows yet can trust a cluster, and be trusted. Pure.
//!
//! **Mirrors** `k8s.io/cluster-bootstrap/util/secrets` and `pkg/controller/bootstrap/util.go`.

use api::MicroTime;
use api::kinds::{BOOTSTRAP_TOKEN, Secret};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Where tokens are; secrets elsewhere are none, whatever their type.
pub(crate) const NAMESPACE: &str = "kube-system";

const NAME_PREFIX: &str = "bootstrap-token-";
const ID_LENGTH: usize = 6;

/// A token that may sign. No `Debug`: its secret must not be printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub id: String,
    pub secret: Vec<u8>,
    /// None if it is good for ever.
    pub expires_at: Option<MicroTime>,
}

/// Why a token does not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Name,
    NoId,
    OtherId,
    NoSecret,
    Expired,
    NotForSigning,
}

/// When a token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiration {
    Never,
    At(MicroTime),
    /// It says something that is no time: it has ended.
    Unreadable,
}

pub(crate) fn is_token(secret: &Secret) -> bool {
    secret.type_ == BOOTSTRAP_TOKEN && *secret.metadata.namespace == *NAMESPACE
}

impl Expiration {
    pub fn of(secret: &Secret) -> Expiration {
        let text = value(secret, "expiration");
        if text.is_empty() {
            return Expiration::Never;
        }
        let text = String::from_utf8(text).ok();
        match text.and_then(|text| MicroTime::parse(&text)) {
            Some(at) => Expiration::At(at),
            None => Expiration::Unreadable,
        }
    }

    pub fn is_past(self, now: MicroTime) -> bool {
        match self {
            Expiration::Never => false,
            Expiration::At(at) => at <= now,
            Expiration::Unreadable => true,
        }
    }
}

impl Token {
    /// The token of a secret, if it may sign now.
    pub fn for_signing(secret: &Secret, now: MicroTime) -> Result<Token, Unusable> {
        let named = id_of_name(&secret.metadata.name).ok_or(Unusable::Name)?;
        let id = value(secret, "token-id");
        if id.is_empty() {
            return Err(Unusable::NoId);
        }
        if id != named.as_bytes() {
            return Err(Unusable::OtherId);
        }
        let held = value(secret, "token-secret");
        if held.is_empty() {
            return Err(Unusable::NoSecret);
        }
        let expiration = Expiration::of(secret);
        if expiration.is_past(now) {
            return Err(Unusable::Expired);
        }
        if value(secret, "usage-bootstrap-signing") != b"true" {
            return Err(Unusable::NotForSigning);
        }
        Ok(Token {
            id: named.to_owned(),
            secret: held,
            expires_at: match expiration {
                Expiration::At(at) => Some(at),
                _ => None,
            },
        })
    }
}

impl Unusable {
    pub fn why(self) -> &'static str {
        match self {
            Unusable::Name => "its name must be of the form bootstrap-token-<secret-id>",
            Unusable::NoId => "it has no token-id",
            Unusable::OtherId => "its token-id does not match its name",
            Unusable::NoSecret => "it has no token-secret",
            Unusable::Expired => "it has expired",
            Unusable::NotForSigning => "usage-bootstrap-signing is not \"true\"",
        }
    }
}

fn id_of_name(name: &str) -> Option<&str> {
    let id = name.strip_prefix(NAME_PREFIX)?;
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (id.len() == ID_LENGTH && id.bytes().all(is_letter)).then_some(id)
}

/// Empty if it is not there, or no base64, which the API server does not let through.
fn value(secret: &Secret, key: &str) -> Vec<u8> {
    let held = secret.data.get(key).map_or("", |value| value.as_str());
    BASE64_STANDARD.decode(held).unwrap_or_default()
}

/// `token-id=abc123 token-secret=x`
#[cfg(test)]
pub(crate) fn test_secret(name: &str, data: &str) -> serde_json::Value {
    use serde_json::{Map, Value, json};
    let pairs = data.split(' ').filter_map(|pair| pair.split_once('='));
    let data: Map<String, Value> = pairs
        .map(|(key, value)| (key.to_owned(), json!(BASE64_STANDARD.encode(value))))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": name, "namespace": "kube-system"}, "data": data,
    })
}

#[cfg(test)]
mod tests {
    use api::{Resource, Time};

    use super::*;

    fn check(name: &str, data: &str, expected: &str) {
        let read = Secret::decode(test_secret(name, data).to_string().as_bytes()).unwrap();
        let now = Time::from_unix(1_704_067_200).micro();
        let answer = match Token::for_signing(&read, now) {
            Ok(token) => format!("{} {}", token.id, String::from_utf8_lossy(&token.secret)),
            Err(unusable) => format!("{unusable:?}"),
        };
        assert_eq!(answer, expected, "{name} {data}");
    }

    // Upstream: TestValidateSecretForSigning, TestValidateSecret, TestBadSecretName, TestMismatchSecretName.
    #[test]
    fn a_token_signs_if_all_of_it_is_right() {
        let (name, good) = (
            "bootstrap-token-abc123",
            "token-id=abc123 token-secret=s usage-bootstrap-signing=true",
        );
        check(name, good, "abc123 s");
        check(
            name,
            "token-id=abc123 token-secret=s usage-bootstrap-signing=false",
            "NotForSigning",
        );
        check(
            name,
            "token-id=abc123 token-secret=s usage-bootstrap-signing=True",
            "NotForSigning",
        );
        check(name, "token-id=abc123 token-secret=s", "NotForSigning");
        // Keys without a value are as good as none.
        check(
            name,
            "token-id=abc123 token-secret=s usage-bootstrap-signing= expiration=",
            "NotForSigning",
        );
        check(
            name,
            "token-id= token-secret=s usage-bootstrap-signing=true",
            "NoId",
        );
        check(
            name,
            "token-id=abc123 token-secret= usage-bootstrap-signing=true",
            "NoSecret",
        );
        check(name, "token-secret=s usage-bootstrap-signing=true", "NoId");
        check(
            name,
            "token-id=abc123 usage-bootstrap-signing=true",
            "NoSecret",
        );
        check(
            name,
            "token-id=def456 token-secret=s usage-bootstrap-signing=true",
            "OtherId",
        );
        check("bootstrap-token-ABC123", good, "Name");
        check("bootstrap-token-abc12", good, "Name");
        check("bootstrap-token-abc1234", good, "Name");
        check("token-abc123", good, "Name");
        check("bootstrap-token-", good, "Name");
        check("bootstrap-token-äbc12", good, "Name");
    }

    // Upstream: TestCleanerNoExpiration and the others of the cleaner; TestValidateSecretForSigning (expired).
    #[test]
    fn a_token_that_has_ended_does_not_sign() {
        let check = |expiration: &str, expected: &str| {
            let data = format!(
                "token-id=abc123 token-secret=s usage-bootstrap-signing=true expiration={expiration}"
            );
            check("bootstrap-token-abc123", &data, expected);
        };
        check("2024-01-01T00:00:01Z", "abc123 s");
        check("2024-01-01T00:00:00Z", "Expired");
        check("2023-12-31T23:59:59Z", "Expired");
        check("2024-01-01T02:00:00+02:00", "Expired");
        check("2024-01-01T02:00:01+02:00", "abc123 s");
        check("tomorrow", "Expired");
        check("", "abc123 s");
    }
}
