//! Handing a request on to the server of its group version.

use super::Remote;
use crate::Body;
use crate::auth::Identity;
use crate::outbound::NOBODY_CALLS;
use crate::rest::response;
use crate::server::Shared;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response};

/// Headers of one connection, which the next one makes for itself.
const OF_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

impl Remote {
    /// Answers a request by asking the server that it is for. UPSTREAM: what fails is told in plain text.
    pub(crate) async fn proxy(
        &self,
        shared: &Shared,
        parts: Parts,
        body: Bytes,
        identity: &Identity,
    ) -> Response<Body> {
        let refused = |why: &str| response::text(503, format!("{why}\n"));
        if !self.is_available {
            return refused("service unavailable");
        }
        let target = match self.target(shared) {
            Ok(target) => target,
            Err(why) => {
                tracing::warn!(service = %self.name, %why, "an aggregated server cannot be resolved");
                return refused("service unavailable");
            }
        };
        let Some(outbound) = shared.outbound.clone() else {
            return refused(NOBODY_CALLS);
        };
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = match Request::builder().method(parts.method).uri(path).body(body) {
            Ok(request) => request,
            Err(why) => return refused(&why.to_string()),
        };
        *request.headers_mut() = passed_on(parts.headers);
        name_user(request.headers_mut(), identity);
        match outbound.call(target, request).await {
            Ok(mut answer) => {
                for name in &OF_CONNECTION {
                    answer.headers_mut().remove(name);
                }
                answer
            }
            Err(why) => refused(&why.to_string()),
        }
    }
}

/// What of a client's headers the other server gets to see: not its credentials, and no name that it gave itself.
fn passed_on(headers: HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    let mut name = None;
    for (next, value) in headers {
        name = next.or(name);
        let Some(name) = &name else {
            continue;
        };
        let is_private = *name == header::AUTHORIZATION
            || name.as_str().starts_with("x-remote-")
            || name.as_str().starts_with("impersonate-")
            || OF_CONNECTION.contains(name);
        if !is_private {
            kept.append(name.clone(), value);
        }
    }
    kept
}

/// Says for whom the request is made. UPSTREAM: by the headers that a front proxy uses.
pub(super) fn name_user(headers: &mut HeaderMap, identity: &Identity) {
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
        ) {
            headers.append(name, value);
        }
    };
    add("x-remote-user", &identity.user);
    if !identity.uid.is_empty() {
        add("x-remote-uid", &identity.uid);
    }
    for group in &identity.groups {
        add("x-remote-group", group);
    }
    for (key, values) in &identity.extra {
        for value in values {
            add(&format!("x-remote-extra-{}", escaped(key)), value);
        }
    }
}

/// UPSTREAM: characters that no header's name may have are written as in a URL.
fn escaped(key: &str) -> String {
    let mut out = String::new();
    for byte in key.to_lowercase().bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => out.push(char::from(byte)),
            byte if b"!#$&'*+-.^_`|~".contains(&byte) => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_and_nobody_names_himself() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "x-remote-group",
            "impersonate-user",
            "accept",
        ] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        let mut passed = passed_on(headers);
        let identity = Identity {
            user: "jane".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: [("example.com/Role".to_owned(), vec!["r".to_owned()])].into(),
            ..Identity::default()
        };
        name_user(&mut passed, &identity);
        let shown: Vec<String> = passed
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                "accept=x",
                "x-remote-user=jane",
                "x-remote-group=a",
                "x-remote-group=b",
                "x-remote-extra-example.com%2frole=r"
            ]
        );
    }
}
