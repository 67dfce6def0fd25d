//! Answers: JSON bodies, statuses, streams.

use crate::status::Status;
use crate::{Body, BoxError};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    typed(code, "application/json", body)
}

pub(crate) fn value(code: u16, value: &Value) -> Response<Body> {
    json(code, value.to_string())
}

/// In the order of upstream's structs.
pub(crate) fn ordered(code: u16, value: &Value) -> Response<Body> {
    json(code, crate::ordered::print(value))
}

/// What is no API's own object. UPSTREAM: it is always indented.
pub(crate) fn raw(code: u16, value: &Value) -> Response<Body> {
    let text = crate::ordered::print(value);
    json(code, super::pretty::indented(text.as_ref()))
}

pub(crate) fn text(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    typed(code, "text/plain; charset=utf-8", body)
}

pub(crate) fn typed(
    code: u16,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(whole(body.into()));
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A body in one piece.
pub(crate) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| -> BoxError { match never {} })
        .boxed_unsync()
}

pub(crate) fn status(status: &Status) -> Response<Body> {
    let mut response = value(status.code, &status.to_value());
    if let Some(seconds) = status.details.retry_after_seconds {
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// UPSTREAM: how many characters all warnings together may have; beyond that each is cut.
const MAX_WARNINGS_CHARS: usize = 4 * 1024;
const CUT_WARNING_CHARS: usize = 256;

/// Adds `Warning: 299` headers, each warning once.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let mut written = 0;
    for (index, warning) in warnings.iter().enumerate() {
        // UPSTREAM: what no header can carry is dropped.
        let is_control = warning.chars().any(char::is_control);
        if warning.is_empty() || is_control || warnings[..index].contains(warning) {
            continue;
        }
        let cut: String = match total > MAX_WARNINGS_CHARS {
            true if written >= MAX_WARNINGS_CHARS => return,
            true => warning.chars().take(CUT_WARNING_CHARS).collect(),
            false => warning.clone(),
        };
        written += cut.chars().count();
        let escaped = cut.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(header) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response
                .headers_mut()
                .append(HeaderName::from_static("warning"), header);
        }
    }
}
