//! What can go wrong when talking to an API server, as a taxonomy that says whether and when to retry.
//!
//! The predicates follow apimachinery's rules: the machine-readable reason decides, and the HTTP code
//! only where the reason is missing or not one of the known ones (a proxy in between answered).

use std::time::Duration;

use crate::config::ConfigError;
use crate::https::ConnectError;
use crate::status::Cause;
use crate::{BoxError, Status};

/// A request that did not end well. `Display` never repeats the source: print the chain with [`describe`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered, and its answer is no.
    #[error("{0}")]
    Status(Box<Status>),
    /// No answer, or one that broke off: connection refused, reset, cut in the middle of an object.
    #[error("{request} got no complete answer from the API server")]
    Transport {
        request: String,
        #[source]
        source: BoxError,
    },
    /// The connection stands, but the server keeps silent.
    #[error("{request} was not answered within {} s", .after.as_secs())]
    Timeout { request: String, after: Duration },
    /// The answer is not what the Kubernetes API promises.
    #[error(
        "{request} was answered with something that is not a Kubernetes API object: {excerpt:?}"
    )]
    Decode {
        request: String,
        excerpt: String,
        #[source]
        source: BoxError,
    },
    /// The answer, or one watch event, exceeds what we are willing to hold in memory.
    #[error("{request} was answered with more than {limit} bytes")]
    TooLarge { request: String, limit: usize },
    /// The caller asked for something that has no URL, such as an object without a name.
    #[error("cannot build the request: {0}")]
    InvalidRequest(String),
}

impl Error {
    /// The server's own description of the failure, when there is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Status(status) => Some(status),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.has_reason_or_code("NotFound", 404)
    }

    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists")
    }

    pub fn is_conflict(&self) -> bool {
        self.has_reason_or_code("Conflict", 409)
    }

    /// The resource version or continue token is too old (410): list again.
    pub fn is_gone(&self) -> bool {
        self.has_reason("Expired") || self.has_reason_or_code("Gone", 410)
    }

    pub fn is_too_many_requests(&self) -> bool {
        self.has_reason("TooManyRequests") || self.code() == Some(429)
    }

    pub fn is_invalid(&self) -> bool {
        self.has_reason_or_code("Invalid", 422)
    }

    pub fn is_forbidden(&self) -> bool {
        self.has_reason_or_code("Forbidden", 403)
    }

    pub fn is_unauthorized(&self) -> bool {
        self.has_reason_or_code("Unauthorized", 401)
    }

    pub fn is_method_not_supported(&self) -> bool {
        self.has_reason_or_code("MethodNotAllowed", 405)
    }

    pub fn is_bad_request(&self) -> bool {
        self.has_reason_or_code("BadRequest", 400)
    }

    /// Creating in a namespace that is being deleted: retrying cannot help.
    pub fn is_namespace_terminating(&self) -> bool {
        self.is_forbidden() && self.has_cause("NamespaceTerminating")
    }

    /// The server asks to try again: it could not finish the work in time.
    pub fn is_server_timeout(&self) -> bool {
        self.has_reason("ServerTimeout")
    }

    /// The server, or we, gave up waiting; whether the request took effect is unknown.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout { .. }) || self.has_reason_or_code("Timeout", 504)
    }

    /// The server has not yet seen the resource version that was asked for.
    pub fn is_resource_version_too_large(&self) -> bool {
        // UPSTREAM: servers before 1.18 sent no cause, just this message.
        self.is_timeout()
            && (self.has_cause("ResourceVersionTooLarge")
                || self.status().is_some_and(|status| {
                    status
                        .causes
                        .iter()
                        .any(|cause| cause.message == "Too large resource version")
                }))
    }

    pub fn is_transport(&self) -> bool {
        matches!(self, Error::Transport { .. })
    }

    /// How long the server asked us to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status()?.retry_after
    }

    /// Whether the same request may succeed later without a change. A conflict is not among them: it
    /// needs a fresh read first.
    pub fn should_retry(&self) -> bool {
        match self {
            Error::Status(status) => {
                self.is_too_many_requests() || status.retry_after.is_some() || status.code >= 500
            }
            Error::Transport { .. } | Error::Timeout { .. } => true,
            Error::Decode { .. } | Error::TooLarge { .. } | Error::InvalidRequest(_) => false,
        }
    }

    /// For an answer that is not what was promised.
    pub fn decode(request: &str, bytes: &[u8], source: impl Into<BoxError>) -> Error {
        /// Enough to recognise a proxy's error page in a log line.
        const EXCERPT_BYTES: usize = 120;
        let head = &bytes[..bytes.len().min(EXCERPT_BYTES)];
        Error::Decode {
            request: request.to_owned(),
            excerpt: String::from_utf8_lossy(head).into_owned(),
            source: source.into(),
        }
    }

    pub(crate) fn transport(request: &str, source: impl Into<BoxError>) -> Error {
        Error::Transport {
            request: request.to_owned(),
            source: source.into(),
        }
    }

    /// A field was changed that cannot change any more.
    pub fn forbids_change_of(&self, field: &str) -> bool {
        let causes = self.status().map_or(&[][..], |status| &status.causes);
        let is_it = |cause: &Cause| cause.reason == "FieldValueForbidden" && cause.field == field;
        causes.iter().any(is_it)
    }

    fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.status().is_some_and(|status| status.reason == reason)
    }

    fn has_reason_or_code(&self, reason: &str, code: u16) -> bool {
        self.status().is_some_and(|status| {
            status.reason == reason || (status.code == code && !status.has_known_reason())
        })
    }

    fn has_cause(&self, reason: &str) -> bool {
        self.status()
            .is_some_and(|status| status.causes.iter().any(|cause| cause.reason == reason))
    }
}

/// An error and all that caused it in one line, for logs and for the user's terminal. Where there is no connection
/// at all, why that is so is all that matters, and not which request would have needed it.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    let mut cause = error.source();
    while let Some(current) = cause {
        if current.is::<ConnectError>() || current.is::<ConfigError>() {
            error = current;
        }
        cause = current.source();
    }
    sentence(error)
}

/// An error and all that caused it in one line: what went wrong, cause by cause, and after that what to do about it, which
/// a message has behind a semicolon.
pub fn sentence(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = String::new();
    let mut advice = String::new();
    let mut current = Some(error);
    while let Some(error) = current {
        current = error.source();
        let text = error.to_string();
        let (what, hint) = match text.split_once("; ") {
            Some((what, hint)) if current.is_some() => (what, hint),
            _ => (&*text, ""),
        };
        // Some libraries repeat their source in their own message; saying it twice helps nobody.
        if !line.contains(what) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(what);
        }
        if !hint.is_empty() {
            advice.push_str("; ");
            advice.push_str(hint);
        }
    }
    without_numbers(&(line + &advice))
}

/// The standard library puts the number of a system's error behind its text: `No such file or directory (os error 2)`.
/// It tells a user nothing.
pub fn without_numbers(text: &str) -> String {
    const NUMBER: &str = " (os error ";
    let mut parts = text.split(NUMBER);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((digits, rest)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                plain.push_str(rest);
            }
            _ => {
                plain.push_str(NUMBER);
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str) -> Error {
        Error::Status(Box::new(Status {
            code,
            reason: reason.to_owned(),
            ..Status::default()
        }))
    }

    #[test]
    fn reason_beats_code() {
        assert!(status(404, "NotFound").is_not_found());
        assert!(status(404, "").is_not_found());
        assert!(status(404, "ProxySaysNo").is_not_found());
        assert!(!status(404, "Gone").is_not_found());
        assert!(!status(409, "AlreadyExists").is_conflict());
        assert!(status(409, "AlreadyExists").is_already_exists());
        assert!(!status(409, "").is_already_exists());
    }

    #[test]
    fn expired_and_gone_are_both_gone() {
        assert!(status(410, "Expired").is_gone());
        assert!(status(410, "Gone").is_gone());
        assert!(status(410, "").is_gone());
        assert!(!status(400, "BadRequest").is_gone());
    }

    /// Which predicates hold of an answer, and whether it is worth asking again.
    fn told(code: u16, reason: &str, cause: &str) -> String {
        let causes = [cause].into_iter().filter(|cause| !cause.is_empty());
        let error = Error::Status(Box::new(Status {
            code,
            reason: reason.to_owned(),
            causes: causes
                .map(|reason| crate::status::Cause {
                    reason: reason.to_owned(),
                    ..Default::default()
                })
                .collect(),
            ..Status::default()
        }));
        let words = [
            (error.is_not_found(), "not found"),
            (error.is_already_exists(), "already exists"),
            (error.is_conflict(), "conflict"),
            (error.is_gone(), "gone"),
            (error.is_too_many_requests(), "too many requests"),
            (error.is_invalid(), "invalid"),
            (error.is_forbidden(), "forbidden"),
            (error.is_namespace_terminating(), "namespace terminating"),
            (error.is_unauthorized(), "unauthorized"),
            (error.is_method_not_supported(), "method not supported"),
            (error.is_bad_request(), "bad request"),
            (error.is_timeout(), "timeout"),
            (error.is_server_timeout(), "server timeout"),
            (error.is_resource_version_too_large(), "from the future"),
            (error.should_retry(), "again"),
        ];
        let held = words.iter().filter(|(holds, _)| *holds);
        held.map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn every_kind_of_answer_is_told_apart() {
        for (code, reason, cause, expected) in [
            (404, "NotFound", "", "not found"),
            (409, "AlreadyExists", "", "already exists"),
            (409, "Conflict", "", "conflict"),
            (410, "Expired", "", "gone"),
            (410, "Gone", "", "gone"),
            (429, "TooManyRequests", "", "too many requests, again"),
            (422, "Invalid", "FieldValueRequired", "invalid"),
            (403, "Forbidden", "", "forbidden"),
            (
                403,
                "Forbidden",
                "NamespaceTerminating",
                "forbidden, namespace terminating",
            ),
            (401, "Unauthorized", "", "unauthorized"),
            (405, "MethodNotAllowed", "", "method not supported"),
            (400, "BadRequest", "", "bad request"),
            (504, "Timeout", "", "timeout, again"),
            (500, "ServerTimeout", "", "server timeout, again"),
            (
                504,
                "Timeout",
                "ResourceVersionTooLarge",
                "timeout, from the future, again",
            ),
            (503, "ServiceUnavailable", "", "again"),
            (500, "InternalError", "", "again"),
        ] {
            assert_eq!(told(code, reason, cause), expected, "{code} {reason}");
        }
    }

    #[test]
    fn conflicts_need_a_fresh_read_and_overload_does_not() {
        assert!(!status(409, "Conflict").should_retry());
        assert!(!status(422, "Invalid").should_retry());
        assert!(status(429, "TooManyRequests").should_retry());
        assert!(status(500, "InternalError").should_retry());
        assert!(Error::transport("GET /", "connection reset").should_retry());
    }

    #[test]
    fn a_chain_is_told_once() {
        let inner = std::io::Error::other("connection refused");
        let error = Error::transport("GET /version", inner);
        assert_eq!(
            describe(&error),
            "GET /version got no complete answer from the API server: connection refused"
        );
    }

    #[test]
    fn the_cause_comes_before_what_to_do_about_it() {
        let error = ConnectError::Unreachable {
            server: "https://a".to_owned(),
            source: std::sync::Arc::new(std::io::Error::from_raw_os_error(2)),
        };
        assert_eq!(
            sentence(&error),
            "cannot reach the API server at https://a: No such file or directory; check that it runs and that the \
             kubeconfig's server is right"
        );
        let alone = ConnectError::Expired {
            server: "https://a".to_owned(),
        };
        assert_eq!(sentence(&alone), alone.to_string());
    }

    #[test]
    fn only_numbers_of_the_system_are_left_out() {
        assert_eq!(
            without_numbers("a: gone (os error 2); b (os error x) c (os error 7"),
            "a: gone; b (os error x) c (os error 7"
        );
    }
}
