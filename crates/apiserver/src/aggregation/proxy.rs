//! Handing a request on to the server of its group version.

use super::Remote;
use crate::Body;
use crate::audit::Source;
use crate::auth::Identity;
use crate::outbound::NOBODY_CALLS;
use crate::rest::response;
use crate::serve::Upgrade;
use crate::server::Shared;
use crate::status::Status;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use std::net::IpAddr;

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
        request: Request<Bytes>,
        upgrade: Option<Upgrade>,
        identity: &Identity,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
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
        let seat = match upgrade.map(|upgrade| shared.aggregation.upgraded.seat(upgrade)) {
            None => None,
            Some(Some(seat)) => Some(seat),
            Some(None) => {
                let why =
                    "too many upgraded connections to aggregated servers, please try again later";
                return response::status(&Status::too_many_requests(why, 1));
            }
        };
        let protocol = parts.headers.get(header::UPGRADE).cloned();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = match Request::builder().method(parts.method).uri(path).body(body) {
            Ok(request) => request,
            Err(why) => return refused(&why.to_string()),
        };
        let source = parts.extensions.get::<Source>().map(|source| source.0);
        *request.headers_mut() = passed_on(parts.headers);
        forwarded_for(request.headers_mut(), source);
        name_user(request.headers_mut(), identity);
        if let (Some(protocol), Some(_)) = (protocol, &seat) {
            let headers = request.headers_mut();
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, protocol);
        }
        match outbound.call(target, request).await {
            // UPSTREAM: whoever follows it would take his credentials to where another server wants them.
            Ok(answer) if answer.status().is_redirection() => response::text(
                502,
                "the backend attempted to redirect this request, which is not permitted",
            ),
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => match seat {
                Some(seat) => seat.relay(answer),
                None => response::text(
                    502,
                    "the backend changed the protocol, which nobody asked for",
                ),
            },
            Ok(mut answer) => {
                for name in &OF_CONNECTION {
                    answer.headers_mut().remove(name);
                }
                answer
            }
            Err(why) => refused(&format!("error trying to reach service: {why}")),
        }
    }
}

/// Adds the client to those that the request comes from.
fn forwarded_for(headers: &mut HeaderMap, source: Option<IpAddr>) {
    const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
    let Some(source) = source else {
        return;
    };
    let before = headers.get_all(FORWARDED).iter();
    let mut sources: Vec<String> = before
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    sources.push(source.to_string());
    if let Ok(value) = HeaderValue::from_str(&sources.join(", ")) {
        headers.insert(FORWARDED, value);
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
    fn the_client_is_the_last_that_a_request_comes_from() {
        let mut headers = HeaderMap::new();
        forwarded_for(&mut headers, None);
        assert!(headers.is_empty());
        forwarded_for(&mut headers, Some([10, 0, 0, 1].into()));
        forwarded_for(&mut headers, Some([127, 0, 0, 1].into()));
        assert_eq!(headers["x-forwarded-for"], "10.0.0.1, 127.0.0.1");
    }

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
