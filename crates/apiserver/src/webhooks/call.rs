//! One call to a webhook: where it goes, how long it may take, and what failed, in the words of Go's client.

use super::configuration::{ClientConfig, ServiceReference};
use super::service;
use crate::outbound::{Backend, NOBODY_CALLS, Target};
use crate::rest::body::parse_error;
use crate::rest::{strict, type_meta};
use crate::server::Shared;
use crate::{Body, BoxError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::Duration;

/// The largest answer that is read. Twice a request, in base64: an answer holds a patch of an object, or objects.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// UPSTREAM: how much of an answer without structure is repeated.
const MAX_REPEATED_BYTES: usize = 2048;

/// UPSTREAM: the port of a Service that is not named.
const DEFAULT_SERVICE_PORT: u16 = 443;

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(crate) enum CallFailure {
    /// Nobody can be called, by the configuration.
    NoClient(String),
    /// It answered with a code that is no success.
    Refused(u16, String),
    Failed(String),
}

/// Posts a review and reads the answer as JSON.
pub(crate) async fn post(
    shared: &Shared,
    config: &ClientConfig,
    review: &Value,
    timeout: Duration,
) -> Result<Value, CallFailure> {
    let address = Address::of(config)?;
    let failed = |why: String| {
        let shown = shown(&address.origin, &address.path, timeout);
        CallFailure::Failed(format!("Post \"{shown}\": {why}"))
    };
    let authority = match &address.service {
        Some((service, port)) => {
            service::resolve(shared, &service.namespace, &service.name, *port).map_err(failed)?
        }
        None => address.authority,
    };
    let target = Target {
        is_https: address.is_https,
        authority,
        authorities: authorities(config).map_err(failed)?,
        server_name: address.server_name,
        ..Target::default()
    };
    let backend = Backend {
        target,
        origin: address.origin,
        path: address.path,
        authorization: None,
    };
    post_to(shared, &backend, review, timeout).await
}

/// The address of a call, with the time that it may take.
fn shown(origin: &str, path: &str, timeout: Duration) -> String {
    format!("{origin}{path}?timeout={}s", timeout.as_secs())
}

/// The same to a server whose place is known.
pub(crate) async fn post_to(
    shared: &Shared,
    backend: &Backend,
    review: &Value,
    timeout: Duration,
) -> Result<Value, CallFailure> {
    let shown = shown(&backend.origin, &backend.path, timeout);
    let failed = |why: String| CallFailure::Failed(format!("Post \"{shown}\": {why}"));
    let Some(outbound) = shared.outbound.clone() else {
        return Err(failed(NOBODY_CALLS.to_owned()));
    };
    let mut request = Request::post(&shown[backend.origin.len()..])
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*");
    if let Some(authorization) = &backend.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request
        .body(Bytes::from(review.to_string()))
        .map_err(|why| failed(why.to_string()))?;
    let target = backend.target.clone();
    let call = async {
        let response = outbound.call(target, request).await?;
        read(response).await
    };
    let answered = tokio::time::timeout(timeout, call).await;
    let (code, headers, body) = answered
        .map_err(|_| failed("context deadline exceeded".to_owned()))?
        .map_err(|why| failed(why.to_string()))?;
    if !(200..=206).contains(&code) {
        let why = refusal(code, &headers, &body);
        return Err(CallFailure::Refused(code, why));
    }
    decode(code, &headers, &body).map_err(CallFailure::Failed)
}

/// Where a client configuration leads.
struct Address {
    is_https: bool,
    /// `https://host:port`, as errors name it.
    origin: String,
    authority: String,
    path: String,
    server_name: Option<String>,
    service: Option<(ServiceReference, u16)>,
}

impl Address {
    fn of(config: &ClientConfig) -> Result<Address, CallFailure> {
        if let Some(service) = &config.service {
            let port = service.port.unwrap_or(DEFAULT_SERVICE_PORT);
            let name = format!("{}.{}.svc", service.name, service.namespace);
            return Ok(Address {
                is_https: true,
                origin: format!("https://{name}:{port}"),
                authority: String::new(),
                path: joined(service.path.as_deref().unwrap_or_default()),
                server_name: Some(name),
                service: Some((service.clone(), port)),
            });
        }
        let no_client = |why: &str| CallFailure::NoClient(why.to_owned());
        let url = config.url.as_deref().unwrap_or_default();
        if url.is_empty() {
            return Err(no_client(
                "webhook configuration must have either service or URL",
            ));
        }
        let parsed: http::Uri = url
            .parse()
            .map_err(|why| no_client(&format!("Unparsable URL: {why}")))?;
        let Some(authority) = parsed.authority() else {
            return Err(no_client("Unparsable URL: it names no host"));
        };
        let scheme = parsed.scheme_str().unwrap_or("https");
        let port = match authority.port() {
            Some(_) => "",
            None if scheme == "http" => ":80",
            None => ":443",
        };
        Ok(Address {
            is_https: scheme != "http",
            origin: format!("{scheme}://{authority}"),
            authority: format!("{authority}{port}"),
            path: joined(parsed.path()),
            server_name: None,
            service: None,
        })
    }
}

/// UPSTREAM: as Go joins paths, without empty parts.
fn joined(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

fn authorities(config: &ClientConfig) -> Result<Option<Bytes>, String> {
    let bundle = config.ca_bundle.as_deref().unwrap_or_default();
    if bundle.is_empty() {
        return Ok(None);
    }
    let decoded = STANDARD.decode(bundle).map_err(|why| why.to_string())?;
    Ok(Some(Bytes::from(decoded)))
}

/// Reads an answer, up to a limit.
pub(crate) async fn read(response: Response<Body>) -> Result<(u16, HeaderMap, Bytes), BoxError> {
    let (parts, mut body) = response.into_parts();
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if read.len() + data.len() > MAX_ANSWER_BYTES {
                let why = format!("the answer is larger than {MAX_ANSWER_BYTES} bytes");
                return Err(why.into());
            }
            read.extend_from_slice(&data);
        }
    }
    Ok((parts.status.as_u16(), parts.headers, read.freeze()))
}

/// What a status code says by itself, unless the body is a Status.
fn refusal(code: u16, headers: &HeaderMap, body: &[u8]) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    if status["kind"] == "Status"
        && status["status"] != "Success"
        && let Some(message) = status["message"].as_str()
    {
        return message.to_owned();
    }
    let content_type = content_type(headers);
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_REPEATED_BYTES)]);
    let message = match is_text {
        true => text.trim(),
        false => "unknown",
    };
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => message.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if matches!(message, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => message.to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .to_owned(),
        500.. => format!(
            "an error on the server ({}) has prevented the request from succeeding",
            api::syntax::go_quote(message)
        ),
        _ => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    }
}

fn decode(code: u16, headers: &HeaderMap, body: &[u8]) -> Result<Value, String> {
    if body.is_empty() {
        return Err(format!(
            "0-length response with status code: {code} and content type: {}",
            content_type(headers)
        ));
    }
    // UPSTREAM: what does not begin as a JSON object is read as YAML.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let value: Value = match is_object {
        true => serde_json::from_slice(body)
            .map_err(|why| type_meta::parse_error(&parse_error(body, &why)))?,
        false => strict::yaml(body)
            .map(|read| read.value)
            .map_err(|why| format!("error converting YAML to JSON: yaml: {why}"))?,
    };
    match type_meta::unreadable(&value) {
        Some(why) => Err(why),
        None => Ok(value),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    let given = headers.get(CONTENT_TYPE);
    given
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_read_as_upstream_prints_them() {
        let check = |config: Value, expected: &str| {
            let config = ClientConfig::read(&config).unwrap();
            let shown = match Address::of(&config) {
                Ok(address) => format!(
                    "{}{} to {}",
                    address.origin, address.path, address.authority
                ),
                Err(failure) => format!("{failure:?}"),
            };
            assert_eq!(shown, expected);
        };
        check(
            json!({"url": "https://a.example/x/"}),
            "https://a.example/x to a.example:443",
        );
        check(
            json!({"url": "https://[::1]:8443"}),
            "https://[::1]:8443/ to [::1]:8443",
        );
        check(
            json!({"service": {"namespace": "n", "name": "s", "path": "/p"}}),
            "https://s.n.svc:443/p to ",
        );
        check(
            json!({}),
            "NoClient(\"webhook configuration must have either service or URL\")",
        );
    }

    #[test]
    fn refusals_without_structure_are_told_by_their_code() {
        let text = HeaderMap::new();
        assert_eq!(
            refusal(500, &text, b"boom\n"),
            "an error on the server (\"boom\") has prevented the request from succeeding"
        );
        assert_eq!(
            refusal(404, &text, b"x"),
            "the server could not find the requested resource"
        );
        let status = br#"{"kind":"Status","status":"Failure","message":"no"}"#;
        assert_eq!(refusal(500, &text, status), "no");
    }

    #[test]
    fn answers_that_are_none_are_told_apart() {
        let headers = HeaderMap::new();
        let why = |body: &[u8]| decode(200, &headers, body).unwrap_err();
        assert_eq!(
            why(b"hello"),
            "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"
        );
        assert_eq!(
            why(b"{,"),
            "couldn't get version/kind; json parse error: invalid character ',' looking for beginning of object key \
             string"
        );
        assert_eq!(
            why(b""),
            "0-length response with status code: 200 and content type: "
        );
    }
}
