//! Request bodies: JSON, YAML or protobuf in, one JSON value out.

use super::Context;
use crate::status::{Cause, Status};
use crate::{opaque, semantics};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

/// A decoded object and, for kinds that have one, the text of its opaque field.
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) opaque: Option<String>,
}

impl Context {
    /// The body as an object of the request's kind.
    pub(crate) fn decode_object(&mut self) -> Result<Decoded, Status> {
        let mut value = parse(&self.headers, &self.body)?;
        let expected = (self.kind.api_version(), self.kind.kind.to_string());
        settle_type(&mut value, &expected.0, &expected.1)?;
        let opaque = opaque::text_of(&self.kind, &self.body);
        let value = self.read_typed(value)?;
        Ok(Decoded { value, opaque })
    }

    /// Reads a value as the kind's type. Unknown fields vanish, with as much noise as `fieldValidation` asks for.
    pub(crate) fn read_typed(&mut self, value: Value) -> Result<Value, Status> {
        let (value, unknown) = semantics::decode(&self.kind, value)?;
        let mut problems: Vec<String> = unknown
            .iter()
            .map(|path| format!("unknown field \"{path}\""))
            .collect();
        match self.info.query.get("fieldValidation") {
            "Ignore" => {}
            "" | "Warn" => self.warnings.append(&mut problems),
            "Strict" if problems.is_empty() => {}
            "Strict" => {
                let why = format!("strict decoding error: {}", problems.join(", "));
                return Err(semantics::cannot_be_handled(&self.kind, &why));
            }
            other => {
                let message = format!(
                    "Unsupported value: \"{other}\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                );
                let options = match self.info.verb {
                    "create" => "CreateOptions",
                    "update" => "UpdateOptions",
                    _ => "PatchOptions",
                };
                let cause = Cause::new("fieldValidation", "FieldValueNotSupported", message);
                return Err(Status::invalid_options(options, cause));
            }
        }
        Ok(value)
    }
}

/// Parses a body by its content type. JSON is assumed where none is given, as upstream does.
pub(crate) fn parse(headers: &HeaderMap, body: &Bytes) -> Result<Value, Status> {
    let value = match content_type(headers) {
        "application/json" | "" => parse_json(body)?,
        "application/yaml" => parse_yaml(body)?,
        "application/vnd.kubernetes.protobuf" => parse_protobuf(body)?,
        other => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf (got {other})"
            );
            return Err(Status::new(415, "UnsupportedMediaType", message));
        }
    };
    if !value.is_object() {
        return Err(Status::bad_request("the request body is not a JSON object"));
    }
    Ok(value)
}

pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

pub(crate) fn parse_json(body: &[u8]) -> Result<Value, Status> {
    // serde_json limits the depth to 128, so a hostile body cannot exhaust the stack.
    serde_json::from_slice(body).map_err(|error| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type JSON): {error}"
        ))
    })
}

fn parse_protobuf(body: &[u8]) -> Result<Value, Status> {
    let wrong = |why| Status::bad_request(format!("error decoding protobuf: {why}"));
    let (api_version, kind, mut value) = crate::proto::decode(body).map_err(wrong)?;
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), Value::from(api_version));
        map.insert("kind".into(), Value::from(kind));
    }
    Ok(value)
}

pub(crate) fn parse_yaml(body: &[u8]) -> Result<Value, Status> {
    // JSON is YAML, and by far the faster to parse.
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    serde_yaml_ng::from_slice(body)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))
}

/// Fills in a missing apiVersion and kind, and refuses others than expected.
pub(crate) fn settle_type(value: &mut Value, api_version: &str, kind: &str) -> Result<(), Status> {
    let given_version = value["apiVersion"].as_str().unwrap_or_default();
    let given_kind = value["kind"].as_str().unwrap_or_default();
    if !given_version.is_empty() && given_version != api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
        )));
    }
    if !given_kind.is_empty() && given_kind != kind {
        return Err(Status::bad_request(format!(
            "the kind in the data ({given_kind}) does not match the expected kind ({kind})"
        )));
    }
    value["apiVersion"] = Value::from(api_version);
    value["kind"] = Value::from(kind);
    Ok(())
}
