//! Front proxies: a caller with the right certificate may say in headers for whom it asks.

use std::collections::BTreeMap;

use http::HeaderMap;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::User;
use crate::certificate::{self, Roots};

/// Which proxies are believed, and which headers they use.
#[derive(Clone)]
pub struct RequestHeader {
    pub roots: Roots,
    pub names: HeaderNames,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderNames {
    /// Common names of proxies; empty means any that the CA signed.
    pub allowed: Vec<String>,
    pub username: Vec<String>,
    pub uid: Vec<String>,
    pub group: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

/// The user that a proxy speaks for; none if the caller does not claim to be a proxy.
pub fn user(
    proxy: &RequestHeader,
    peer: &[CertificateDer<'_>],
    headers: &HeaderMap,
    now: UnixTime,
) -> Result<Option<User>, String> {
    certificate::verify(&proxy.roots, peer, now)?;
    let name = certificate::common_name(&peer[0]).unwrap_or_default();
    if !proxy.names.allowed.is_empty() && !proxy.names.allowed.contains(&name) {
        return Err(format!(
            "x509: subject with cn={name} is not in the allowed list"
        ));
    }
    Ok(read(&proxy.names, headers))
}

/// The user that headers name; none if they name nobody. Whoever sent them must be a front proxy.
pub fn read(names: &HeaderNames, headers: &HeaderMap) -> Option<User> {
    let text = |name: &String| {
        headers
            .get(name.as_str())
            .and_then(|value| value.to_str().ok())
    };
    let first = |names: &[String]| {
        names
            .iter()
            .filter_map(text)
            .find(|value| !value.is_empty())
            .map(str::to_owned)
    };
    let groups = names
        .group
        .iter()
        .flat_map(|name| headers.get_all(name.as_str()));
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        for prefix in &names.extra_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            if let (Some(key), Ok(value)) = (header.as_str().strip_prefix(&prefix), value.to_str())
            {
                extra
                    .entry(unescape(key))
                    .or_default()
                    .push(value.to_owned());
            }
        }
    }
    Some(User {
        name: first(&names.username)?,
        uid: first(&names.uid).unwrap_or_default(),
        groups: groups
            .filter_map(|group| group.to_str().ok().map(str::to_owned))
            .collect(),
        extra,
    })
}

/// Percent-decoding; a key that does not decode is taken as it is.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        let decoded = match (first, tail) {
            (b'%', [high, low, ..]) => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            _ => None,
        };
        match decoded {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_become_a_user() {
        let names = HeaderNames {
            username: vec!["X-Remote-User".into()],
            uid: vec!["X-Remote-Uid".into()],
            group: vec!["X-Remote-Group".into()],
            extra_prefixes: vec!["X-Remote-Extra-".into()],
            ..HeaderNames::default()
        };
        let mut headers = HeaderMap::new();
        assert_eq!(read(&names, &headers), None);
        for (name, value) in [
            ("x-remote-user", "bob"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-acme.com%2fproject", "p"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let user = read(&names, &headers).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "7"));
        assert_eq!(user.groups, ["a", "b"]);
        assert_eq!(user.extra["acme.com/project"], ["p"]);
    }

    #[test]
    fn broken_escapes_are_left_alone() {
        for (key, expected) in [
            ("a%2", "a%2"),
            ("%", "%"),
            ("%zz", "%zz"),
            ("%ff", "%ff"),
            ("%41", "A"),
        ] {
            assert_eq!(unescape(key), expected);
        }
    }
}
