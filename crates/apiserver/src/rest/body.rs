//! Request bodies: JSON, YAML or protobuf in, one JSON value out.

use super::Context;
use super::metadata::{metadata_mut, settle_fields};
use super::strict::{self, Read};
use crate::status::{Cause, Status};
use crate::{opaque, semantics};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

/// A decoded object, whose managed fields are still to be settled, and, for kinds that have one, the text of its opaque field.
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) opaque: Option<String>,
}

impl Context {
    /// The body as an object of the request's kind.
    pub(crate) fn decode_object(&mut self) -> Result<Decoded, Status> {
        let Read {
            mut value,
            duplicates,
        } = read(&self.headers, &self.body, &self.kind.kind)?;
        let expected = (self.kind.api_version(), &*self.kind.kind);
        if self.kind.custom().is_some()
            && value["apiVersion"].as_str().unwrap_or_default().is_empty()
        {
            // UPSTREAM: of a custom object nothing is guessed.
            return Err(Status::bad_request(format!(
                "the API version in the data () does not match the expected API version ({})",
                expected.0
            )));
        }
        settle_type(&mut value, expected.0, expected.1)?;
        let opaque = opaque::text_of(&self.kind, &self.body);
        let value = self.read_typed(value, duplicates)?;
        Ok(Decoded { value, opaque })
    }

    /// Reads a value as the kind's type. Unknown fields vanish and repeated ones count once, with as
    /// much noise as `fieldValidation` asks for.
    pub(crate) fn read_typed(
        &mut self,
        value: Value,
        mut duplicates: Vec<String>,
    ) -> Result<Value, Status> {
        // An empty list is what nobody sends by chance: it asks for no more managed fields.
        let given = value["metadata"]["managedFields"].as_array();
        let cleared = given.is_some_and(Vec::is_empty);
        let (mut value, unknown) = semantics::decode(&self.kind, value)?;
        if cleared && self.shared.track_fields {
            metadata_mut(&mut value).insert("managedFields".into(), Value::Array(Vec::new()));
        }
        duplicates.retain(|path| !unknown.iter().any(|unknown| lies_in(path, unknown)));
        let duplicates = duplicates.iter().map(|path| match path.strip_prefix(YAML) {
            Some(path) => format!("key \"{path}\" already set in map"),
            None => format!("duplicate field \"{path}\""),
        });
        let unknown = unknown
            .iter()
            .map(|path| format!("unknown field \"{path}\""));
        let mut problems: Vec<String> = duplicates.chain(unknown).collect();
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
                let cause = Cause::new("fieldValidation", "FieldValueNotSupported", message);
                return Err(Status::invalid_options(self.options_kind(), cause));
            }
        }
        Ok(value)
    }

    /// What the options of this write are called.
    fn options_kind(&self) -> &'static str {
        match self.info.verb {
            "create" => "CreateOptions",
            "update" => "UpdateOptions",
            _ => "PatchOptions",
        }
    }

    /// Options that every write may have in its query.
    pub(crate) fn check_options(&self) -> Result<(), Status> {
        let manager = self.info.query.get("fieldManager");
        let wrong = |message: String| {
            let cause = Cause::new("fieldManager", "FieldValueInvalid", message);
            Err(Status::invalid_options(self.options_kind(), cause))
        };
        let shown = api::syntax::go_quote(manager);
        if manager.len() > MAX_MANAGER_NAME {
            return wrong(format!(
                "Too long: may not be more than {MAX_MANAGER_NAME} bytes"
            ));
        }
        match manager.chars().position(|letter| !is_printable(letter)) {
            None => Ok(()),
            Some(at) => {
                let letter = u32::from(manager.chars().nth(at).unwrap_or_default());
                wrong(format!(
                    "Invalid value: {shown}: invalid character U+{letter:04X} (at position {at})"
                ))
            }
        }
    }
}

/// UPSTREAM: the longest name of a field manager.
pub(crate) const MAX_MANAGER_NAME: usize = 128;

/// Marks paths that come from YAML, whose parser has words of its own.
const YAML: &str = "yaml:";

/// Roughly what Go calls graphic: everything that leaves ink, and the blank.
fn is_printable(letter: char) -> bool {
    !letter.is_control() && (letter == ' ' || !letter.is_whitespace())
}

/// Whether a path is another or lies below it.
fn lies_in(path: &str, other: &str) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Parses a body by its content type.
pub(crate) fn parse(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<Value, Status> {
    let mut value = read(headers, body, kind)?.value;
    settle_fields(&mut value, None)?;
    Ok(value)
}

/// JSON is assumed where no content type is given, as upstream does.
fn read(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<Read, Status> {
    let mut read = match content_type(headers) {
        "application/json" | "" => read_json(body, kind)?,
        "application/yaml" => read_yaml(body)?,
        "application/vnd.kubernetes.protobuf" => Read {
            value: parse_protobuf(body)?,
            duplicates: Vec::new(),
        },
        _ => {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf";
            return Err(Status::new(415, "UnsupportedMediaType", message));
        }
    };
    if read.value.is_null() {
        read.value = Value::Object(serde_json::Map::new());
    }
    if !read.value.is_object() {
        return Err(unrecognized(kind, "json: it is not an object"));
    }
    Ok(read)
}

pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(http::header::CONTENT_TYPE);
    // One that cannot be read is an unknown one, not a missing one.
    let value = value.map_or("", |value| value.to_str().unwrap_or("unreadable"));
    value.split(';').next().unwrap_or_default().trim()
}

fn unrecognized(kind: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {why}"
    ))
}

fn read_json(body: &[u8], kind: &str) -> Result<Read, Status> {
    strict::json(body).map_err(|error| unrecognized(kind, &format!("json parse error: {error}")))
}

/// A patch and its repeated fields.
pub(crate) fn parse_patch(body: &[u8]) -> Result<Read, Status> {
    strict::json(body)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
}

fn parse_protobuf(body: &[u8]) -> Result<Value, Status> {
    let wrong = |why| Status::bad_request(format!("error decoding protobuf: {why}"));
    let (api_version, kind, mut value) = crate::proto::decode(body).map_err(wrong)?;
    // A message can be several levels, and JSON in it adds its own.
    if !strict::is_shallow(&value, strict::MAX_DEPTH) {
        return Err(wrong(strict::TOO_DEEP.to_owned()));
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), Value::from(api_version));
        map.insert("kind".into(), Value::from(kind));
    }
    Ok(value)
}

pub(crate) fn read_yaml(body: &[u8]) -> Result<Read, Status> {
    // JSON is YAML, and by far the faster to parse.
    if let Ok(read) = strict::json(body) {
        return Ok(read);
    }
    let mut read = strict::yaml(body)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
    for path in &mut read.duplicates {
        path.insert_str(0, YAML);
    }
    Ok(read)
}

/// Fills in a missing apiVersion and kind, and refuses others than expected.
pub(crate) fn settle_type(value: &mut Value, api_version: &str, kind: &str) -> Result<(), Status> {
    let given_version = value["apiVersion"].as_str().unwrap_or_default();
    let given_kind = value["kind"].as_str().unwrap_or_default();
    if !given_version.is_empty() && given_version != api_version {
        let version = given_version.rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{given_kind} in version \"{version}\" cannot be handled as a {kind}: the API version in the data \
             ({given_version}) does not match the expected API version ({api_version})"
        )));
    }
    if !given_kind.is_empty() && given_kind != kind {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{given_kind} in version \"{version}\" cannot be handled as a {kind}: the kind in the data ({given_kind}) does not match the expected kind ({kind})"
        )));
    }
    if given_version.is_empty() {
        value["apiVersion"] = Value::from(api_version);
    }
    if value["kind"].as_str().unwrap_or_default().is_empty() {
        value["kind"] = Value::from(kind);
    }
    Ok(())
}
