//! `metav1.Status`: how an API server says what went wrong.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};
use serde::Deserialize;

/// The failure as the server described it, or as its HTTP code implies where it sent no `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; empty when the server gave none.
    pub reason: String,
    pub message: String,
    /// Which object it was about, as far as the server said.
    pub kind: String,
    pub name: String,
    pub causes: Vec<Cause>,
    /// From the `Retry-After` header, or from the details where there is no header.
    pub retry_after: Option<Duration>,
}

/// One part of a failure: a field that is invalid, or a machine-readable circumstance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = if self.reason.is_empty() {
            "no reason given"
        } else {
            &self.reason
        };
        if self.message.is_empty() {
            write!(f, "the API server answered {} ({reason})", self.code)?;
        } else {
            // The server's own words alone: they become messages of conditions and events.
            f.write_str(&self.message)?;
        }
        if self.code == 401 {
            f.write_str("; check that the kubeconfig's token or client certificate is for this cluster and still valid")?;
        }
        Ok(())
    }
}

impl Status {
    /// Reads a `Status` object; `None` when the bytes are something else.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Status> {
        let wire: Wire = serde_json::from_slice(bytes).ok()?;
        if wire.kind != "Status" {
            return None;
        }
        let details = wire.details.unwrap_or_default();
        Some(Status {
            code: wire.code,
            reason: wire.reason.unwrap_or_default(),
            message: wire.message.unwrap_or_default(),
            kind: details.kind.unwrap_or_default(),
            name: details.name.unwrap_or_default(),
            causes: details.causes.unwrap_or_default(),
            retry_after: match details.retry_after_seconds {
                Some(seconds) if seconds > 0 => Some(Duration::from_secs(seconds)),
                _ => None,
            },
        })
    }

    /// What a failed response says, whoever sent it.
    pub(crate) fn of_response(
        method: &Method,
        code: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Status {
        let mut status =
            Status::parse(body).unwrap_or_else(|| Status::implied_by(method, code, body));
        if status.code == 0 {
            status.code = code.as_u16();
        }
        status.retry_after = retry_after(headers).or(status.retry_after);
        status
    }

    /// Whether the reason is one that Kubernetes defines, so that the HTTP code need not be asked.
    pub(crate) fn has_known_reason(&self) -> bool {
        KNOWN_REASONS.contains(&self.reason.as_str())
    }

    fn implied_by(method: &Method, code: StatusCode, body: &[u8]) -> Status {
        /// A proxy's page can be long; its beginning says enough.
        const MESSAGE_BYTES: usize = 512;
        let reason = match code.as_u16() {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            406 => "NotAcceptable",
            // UPSTREAM: without a Status a create can only have failed because the object is there.
            409 if method == Method::POST => "AlreadyExists",
            409 => "Conflict",
            410 => "Gone",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            500.. => "InternalError",
            _ => "",
        };
        let text = String::from_utf8_lossy(&body[..body.len().min(MESSAGE_BYTES)]);
        Status {
            code: code.as_u16(),
            reason: reason.to_owned(),
            message: text.trim().to_owned(),
            ..Status::default()
        }
    }
}

const KNOWN_REASONS: &[&str] = &[
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
];

/// `Retry-After` in seconds, the only form that API servers send.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

#[derive(Deserialize)]
struct Wire {
    kind: String,
    #[serde(default)]
    code: u16,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    name: Option<String>,
    kind: Option<String>,
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn reads_causes_and_prefers_the_header() {
        let body = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no",
            "reason":"Forbidden","details":{"name":"a","kind":"pods","causes":[{"reason":"NamespaceTerminating",
            "message":"going","field":"metadata.namespace"}],"retryAfterSeconds":3},"code":403}"#;
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
        let status = Status::of_response(&Method::POST, StatusCode::FORBIDDEN, &headers, body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(7)));
        assert_eq!((status.kind.as_str(), status.name.as_str()), ("pods", "a"));
        assert_eq!(status.causes[0].reason, "NamespaceTerminating");
        assert_eq!(status.to_string(), "no");
        let status = Status::of_response(
            &Method::POST,
            StatusCode::FORBIDDEN,
            &HeaderMap::new(),
            body,
        );
        assert_eq!(status.retry_after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_proxy_page_becomes_a_status() {
        let check = |method: Method, code: u16, reason: &str| {
            let code = StatusCode::from_u16(code).unwrap();
            let status =
                Status::of_response(&method, code, &HeaderMap::new(), b"<html>Bad Gateway\n");
            assert_eq!(
                (status.code, status.reason.as_str()),
                (code.as_u16(), reason)
            );
            assert_eq!(status.message, "<html>Bad Gateway");
        };
        check(Method::GET, 502, "InternalError");
        check(Method::GET, 503, "ServiceUnavailable");
        check(Method::POST, 409, "AlreadyExists");
        check(Method::PUT, 409, "Conflict");
        check(Method::GET, 418, "");
    }
}
