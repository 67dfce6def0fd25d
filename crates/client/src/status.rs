//! `metav1.Status`: how an API server says what went wrong.

use std::fmt;
use std::time::Duration;

use api::protobuf::{self, Malformed, Message, Value};
use http::{HeaderMap, Method, StatusCode, header};
use serde::Deserialize;

use crate::envelope::Envelope;

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

impl<'a> Message<'a> for Wire {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            3 => self.message = Some(value.text()?.to_owned()),
            4 => self.reason = Some(value.text()?.to_owned()),
            5 => self.details = Some(value.message()?),
            6 => self.code = u16::try_from(value.number()?).unwrap_or(0),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Details {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = Some(value.text()?.to_owned()),
            3 => self.kind = Some(value.text()?.to_owned()),
            4 => self.causes.get_or_insert_default().push(value.message()?),
            5 => self.retry_after_seconds = u64::try_from(value.number()?).ok(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Cause {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.reason = value.text()?.to_owned(),
            2 => self.message = value.text()?.to_owned(),
            3 => self.field = value.text()?.to_owned(),
            _ => {}
        }
        Ok(())
    }
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

impl From<Wire> for Status {
    fn from(wire: Wire) -> Status {
        let details = wire.details.unwrap_or_default();
        Status {
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
        }
    }
}

impl Status {
    /// Reads a `Status` object in either encoding; `None` when the bytes are something else.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Status> {
        if Envelope::is_one(bytes) {
            let envelope = Envelope::open(bytes).ok()?;
            return match envelope.kind {
                "Status" => Status::parse_message(envelope.message).ok(),
                _ => None,
            };
        }
        let wire: Wire = serde_json::from_slice(bytes).ok()?;
        (wire.kind == "Status").then(|| wire.into())
    }

    /// Reads the protobuf message of a `Status`.
    pub(crate) fn parse_message(message: &[u8]) -> Result<Status, Malformed> {
        protobuf::read::<Wire>(message).map(Status::from)
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

#[derive(Default, Deserialize)]
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
    fn protobuf_says_the_same_as_json() {
        let message = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x49\x0a\x06\x0a\0\x12\0\x1a\0\x12\x07Failure\x1a\x15pods \"nope\" not found\"\x08NotFound*\x12\x0a\x04nope\x12\0\x1a\x04pods(\x002\x000\x94\x03\x1a\0\"\0";
        let json = br#"{"kind":"Status","message":"pods \"nope\" not found","reason":"NotFound","details":{"name":"nope","kind":"pods"},"code":404}"#;
        assert_eq!(Status::parse(message), Status::parse(json));
        assert!(Status::parse(json).is_some());
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
