//! Bootstrap tokens: `<id>.<secret>`, by which a node that nobody knows yet asks for its first certificate.
//!
//! Each is a secret `bootstrap-token-<id>` of type `bootstrap.kubernetes.io/token` in `kube-system`. Whoever shows one is
//! `system:bootstrap:<id>`, in `system:bootstrappers` and in the groups that the secret names.

use super::Identity;
use super::authenticate::same;
use crate::kinds;
use crate::server::Shared;
use api::MicroTime;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeSet;

const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// The user of a token; none if it is no such token, or not accepted.
pub(crate) fn verify(shared: &Shared, token: &str) -> Option<Identity> {
    let (id, secret) = parse(token)?;
    let kind = kinds::find("", "Secret")?;
    let key = format!("kube-system/bootstrap-token-{id}");
    let held = shared.store.get(kind, &key)?.value(kind);
    identify(&held, id, secret, shared.clock.now())
}

fn identify(held: &Value, id: &str, secret: &str, now: MicroTime) -> Option<Identity> {
    let is_going = !held["metadata"]["deletionTimestamp"].is_null();
    if is_going || held["type"] != TYPE {
        return None;
    }
    if !same(&data(held, "token-secret")?, secret) || data(held, "token-id")? != id {
        return None;
    }
    // What is no time has passed.
    let expiration = data(held, "expiration").filter(|text| !text.is_empty());
    let has_expired = |text: String| MicroTime::parse(&text).is_none_or(|at| at <= now);
    if expiration.is_some_and(has_expired) {
        return None;
    }
    if data(held, "usage-bootstrap-authentication")? != "true" {
        return None;
    }
    let extra = data(held, "auth-extra-groups").unwrap_or_default();
    let groups = groups(&extra)?;
    let groups: Vec<&str> = groups.into_iter().collect();
    Some(Identity::new(&format!("system:bootstrap:{id}"), &groups))
}

/// Sorted, each once; none if one of them is no name that a token may give.
fn groups(extra: &str) -> Option<BTreeSet<&str>> {
    let mut groups = BTreeSet::from([GROUP]);
    if extra.is_empty() {
        return Some(groups);
    }
    for group in extra.split(',') {
        // UPSTREAM: system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]
        let name = group.strip_prefix(GROUP)?.strip_prefix(':')?;
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_inner = |byte: u8| is_letter(byte) || matches!(byte, b':' | b'-');
        let last = name.bytes().last()?;
        if name.len() > 256 || !name.bytes().all(is_inner) || !is_letter(last) {
            return None;
        }
        groups.insert(group);
    }
    Some(groups)
}

fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_part = |part: &str, length: usize| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.len() == length && part.bytes().all(is_letter)
    };
    (is_part(id, ID_LENGTH) && is_part(secret, SECRET_LENGTH)).then_some((id, secret))
}

fn data(held: &Value, key: &str) -> Option<String> {
    let value = held["data"][key].as_str()?;
    String::from_utf8(STANDARD.decode(value).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Time;
    use serde_json::json;

    /// `token-id=abcdef token-secret=…`; the type and whether it is going are given apart.
    fn secret(pairs: &str) -> Value {
        let mut secret =
            json!({"type": TYPE, "metadata": {"name": "bootstrap-token-abcdef"}, "data": {}});
        for (key, value) in pairs.split(' ').filter_map(|pair| pair.split_once('=')) {
            secret["data"][key] = json!(STANDARD.encode(value));
        }
        secret
    }

    fn check(secret: &Value, expected: &str) {
        let now = Time::from_unix(1_704_067_200).micro();
        let identity = identify(secret, "abcdef", "0123456789abcdef", now);
        let answer = identity.map_or("nobody".to_owned(), |identity| {
            format!("{} in {}", identity.user, identity.groups.join(" "))
        });
        assert_eq!(answer, expected, "{secret}");
    }

    const GOOD: &str =
        "token-id=abcdef token-secret=0123456789abcdef usage-bootstrap-authentication=true";

    // Upstream: TestTokenAuthenticator.
    #[test]
    fn a_token_is_accepted_if_all_of_it_is_right() {
        let good = "system:bootstrap:abcdef in system:bootstrappers system:authenticated";
        check(&secret(GOOD), good);
        let with = |more: &str, expected: &str| check(&secret(&format!("{GOOD} {more}")), expected);
        with(
            "auth-extra-groups=system:bootstrappers:b,system:bootstrappers:a:c-d,system:bootstrappers:b",
            "system:bootstrap:abcdef in system:bootstrappers system:bootstrappers:a:c-d system:bootstrappers:b system:authenticated",
        );
        for groups in [
            "foo",
            "system:masters",
            "system:bootstrappers",
            "system:bootstrappers:",
            "system:bootstrappers:A",
            "system:bootstrappers:a-",
            "system:bootstrappers:a,",
        ] {
            with(&format!("auth-extra-groups={groups}"), "nobody");
        }
        with("expiration=2024-01-01T00:00:01Z", good);
        with("expiration=2024-01-01T00:00:00Z", "nobody");
        with("expiration=nonsense", "nobody");
        with("expiration=", good);
        with("usage-bootstrap-authentication=false", "nobody");
        with("token-id=fedcba", "nobody");
        with("token-secret=0123456789abcdeX", "nobody");
        with("token-secret=", "nobody");
        check(
            &secret("token-id=abcdef token-secret=0123456789abcdef"),
            "nobody",
        );
        let mut other = secret(GOOD);
        other["type"] = json!("Opaque");
        check(&other, "nobody");
        let mut going = secret(GOOD);
        going["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        check(&going, "nobody");
        check(&json!({"type": TYPE}), "nobody");
    }

    #[test]
    fn what_is_not_like_a_token_is_none() {
        assert_eq!(
            parse("abcdef.0123456789abcdef"),
            Some(("abcdef", "0123456789abcdef"))
        );
        for token in [
            "",
            ".",
            "abcdef",
            "abcde.0123456789abcdef",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789abcde",
            "abcdef.0123456789abcdef.",
            "äbcde.0123456789abcdef",
            "../../.0123456789abcdef",
        ] {
            assert_eq!(parse(token), None, "{token}");
        }
    }
}
