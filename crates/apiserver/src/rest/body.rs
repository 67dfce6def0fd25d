//! Request bodies: JSON, YAML or protobuf in, one JSON value out.

use super::Context;
use super::applying::APPLY_PATCH;
use super::delete::DELETE_OPTIONS;
use super::go_json;
use super::metadata::{metadata_mut, normalize_managed_fields};
use super::strict::{self, Fault, Read, Source};
use super::type_meta::{self, match_type};
use crate::status::{Cause, Status};
use crate::{opaque, schema, semantics};
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
        match_type(&mut value, expected.0, expected.1)?;
        let opaque = opaque::text_of(&self.kind, &self.body);
        let (kind, version) = (&self.kind.kind, &self.kind.version);
        let (value, unknown) = (self.decode(value))
            .map_err(|why| semantics::cannot_be_handled(kind, version, &why))?;
        let mut faults = faults(duplicates, unknown, source(&self.headers));
        if self.kind.custom().is_none() {
            strict::sort_by_place(&self.body, &mut faults);
        }
        self.report(faults)?;
        Ok(Decoded { value, opaque })
    }

    /// The body as an object of the kind of a subresource.
    pub(crate) fn decode_part(&mut self, api_version: &str, kind: &str) -> Result<Value, Status> {
        let Read {
            mut value,
            duplicates,
        } = read(&self.headers, &self.body, kind)?;
        // UPSTREAM: this one may still be of the version before.
        if kind == "Eviction" && value["apiVersion"] == "policy/v1beta1" {
            value["apiVersion"] = Value::from(api_version);
        }
        match_type(&mut value, api_version, kind)?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut unknown = Vec::new();
        if let Some(ty) = schema::type_for(group, version, kind) {
            let decoded = schema::decode(ty, value)
                .map_err(|why| semantics::cannot_be_handled(kind, version, &why.to_string()))?;
            (value, unknown) = (decoded.object, decoded.unknown);
        }
        normalize_managed_fields(&mut value, None)?;
        let mut faults = faults(duplicates, unknown, source(&self.headers));
        strict::sort_by_place(&self.body, &mut faults);
        self.report(faults)?;
        Ok(value)
    }

    /// A value as the kind's type, without the fields that the type does not have, which are named.
    pub(crate) fn decode(&self, value: Value) -> Result<(Value, Vec<String>), String> {
        // An empty list is what nobody sends by chance: it asks for no more managed fields.
        let given = value["metadata"]["managedFields"].as_array();
        let cleared = given.is_some_and(Vec::is_empty);
        let (mut value, unknown) = semantics::read(&self.kind, value)?;
        if cleared && self.shared.track_fields {
            metadata_mut(&mut value).insert("managedFields".into(), Value::Array(Vec::new()));
        }
        Ok((value, unknown))
    }

    /// Says of fields that should not be there, or not twice, what `fieldValidation` wants to hear.
    pub(super) fn report(&mut self, faults: Vec<Fault>) -> Result<(), Status> {
        let (kind, version) = (self.kind.kind.clone(), self.kind.version.clone());
        self.note_faults(faults)
            .map_err(|why| semantics::cannot_be_handled(&kind, &version, &why))
    }

    /// Warns of faults; the error is what is said of them where they are not accepted.
    pub(crate) fn note_faults(&mut self, faults: Vec<Fault>) -> Result<(), String> {
        let mut problems = faults.iter().map(Fault::to_string);
        match self.info.query.get("fieldValidation") {
            "Ignore" => Ok(()),
            "Strict" if !faults.is_empty() => {
                let problems: Vec<String> = problems.collect();
                Err(format!("strict decoding error: {}", problems.join(", ")))
            }
            _ => {
                self.warnings.extend(problems.by_ref());
                Ok(())
            }
        }
    }

    /// What the options of this write are called.
    fn options_kind(&self) -> &'static str {
        match self.info.verb {
            "create" => "CreateOptions",
            "update" => "UpdateOptions",
            _ => "PatchOptions",
        }
    }

    /// The same of a create. UPSTREAM: it is asked for the type of its body before its options, an update after.
    pub(crate) fn create_options(&self) -> Result<bool, Status> {
        check_body_type(&self.headers)?;
        self.write_options()
    }

    /// What a write has to say of itself besides its body; whether it is to leave no trace.
    pub(crate) fn write_options(&self) -> Result<bool, Status> {
        let query = &self.info.query;
        let mut causes = Vec::new();
        let manager = query.get("fieldManager");
        let is_apply = content_type(&self.headers) == APPLY_PATCH;
        if self.info.verb == "patch" && is_apply && manager.is_empty() {
            let message = "Required value: is required for apply patch";
            causes.push(Cause::new("fieldManager", "FieldValueRequired", message));
        }
        if self.info.verb == "patch" && !is_apply && query.has("force") {
            let message = "Forbidden: may not be specified for non-apply patch";
            causes.push(Cause::new("force", "FieldValueForbidden", message));
        }
        causes.extend(manager_faults(manager));
        let dry_run = query.dry_run();
        causes.extend(dry_run.clone().err());
        let validation = query.get("fieldValidation");
        if !matches!(validation, "" | "Ignore" | "Strict" | "Warn") {
            let shown = api::syntax::go_quote(validation);
            let message = format!(
                "Unsupported value: {shown}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
            );
            causes.push(Cause::new(
                "fieldValidation",
                "FieldValueNotSupported",
                message,
            ));
        }
        match causes.is_empty() {
            true => Ok(dry_run.unwrap_or_default()),
            false => Err(Status::invalid_options(self.options_kind(), causes)),
        }
    }
}

/// What is wrong with the name of a field manager.
fn manager_faults(manager: &str) -> impl Iterator<Item = Cause> {
    let too_long = (manager.len() > MAX_MANAGER_NAME).then(|| {
        let message = format!("Too long: may not be more than {MAX_MANAGER_NAME} bytes");
        Cause::new("fieldManager", "FieldValueTooLong", message)
    });
    let unprintable = manager
        .char_indices()
        .filter(|(_, letter)| !is_printable(*letter))
        .map(move |(at, letter)| {
            let shown = api::syntax::go_quote(manager);
            let letter = u32::from(letter);
            let message = format!(
                "Invalid value: {shown}: invalid character U+{letter:04X} (at position {at})"
            );
            Cause::new("fieldManager", "FieldValueInvalid", message)
        });
    too_long.into_iter().chain(unprintable)
}

/// UPSTREAM: the longest name of a field manager.
pub(crate) const MAX_MANAGER_NAME: usize = 128;

/// Roughly what Go calls graphic: everything that leaves ink, and the blank.
fn is_printable(letter: char) -> bool {
    !letter.is_control() && (letter == ' ' || !letter.is_whitespace())
}

/// All that is wrong with the fields of a body. What lies in an unknown field was not looked at.
pub(crate) fn faults(duplicates: Vec<String>, unknown: Vec<String>, source: Source) -> Vec<Fault> {
    let is_skipped = |path: &String| unknown.iter().any(|unknown| lies_in(path, unknown));
    let repeated = duplicates.into_iter().filter(|path| !is_skipped(path));
    let repeated = repeated.map(|path| Fault {
        path,
        is_repeated: true,
        source,
    });
    let mut faults: Vec<Fault> = repeated.collect();
    faults.extend(unknown.into_iter().map(|path| Fault {
        path,
        is_repeated: false,
        source,
    }));
    faults
}

/// Whether a path is another or lies below it.
fn lies_in(path: &str, other: &str) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Parses a body by its content type.
pub(crate) fn parse(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<Value, Status> {
    let mut value = read(headers, body, kind)?.value;
    normalize_managed_fields(&mut value, None)?;
    Ok(value)
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// JSON is assumed where no content type is given, as upstream does.
fn check_body_type(headers: &HeaderMap) -> Result<(), Status> {
    match content_type(headers) {
        "" | "application/json" | "application/yaml" | PROTOBUF => Ok(()),
        _ => {
            let accepted = ["application/json", "application/yaml", PROTOBUF];
            Err(Status::unsupported_media_type(&accepted))
        }
    }
}

fn read(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<Read, Status> {
    check_body_type(headers)?;
    let mut read = match content_type(headers) {
        "application/yaml" => read_yaml(body)?,
        PROTOBUF => Read {
            value: parse_protobuf(body)?,
            duplicates: Vec::new(),
        },
        _ => read_json(body, kind)?,
    };
    if read.value.is_null() {
        read.value = Value::Object(serde_json::Map::new());
    }
    match type_meta::unreadable(&read.value) {
        None => Ok(read),
        Some(why) => Err(unrecognized(kind, &why, body)),
    }
}

pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(http::header::CONTENT_TYPE);
    // One that cannot be read is an unknown one, not a missing one.
    let value = value.map_or("", |value| value.to_str().unwrap_or("unreadable"));
    value.split(';').next().unwrap_or_default().trim()
}

fn source(headers: &HeaderMap) -> Source {
    match content_type(headers) {
        "application/yaml" => Source::Yaml,
        _ => Source::Json,
    }
}

/// UPSTREAM: how much of a body is shown that cannot be read.
const SHOWN_BYTES: usize = 30;

/// A body in which no kind can be found.
fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Status {
    let start = &body[..body.len().min(SHOWN_BYTES)];
    let mut shown = match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN_BYTES {
        shown.push_str(" ...");
    }
    // UPSTREAM: the body of a deletion is read by itself.
    Status::bad_request(match kind {
        DELETE_OPTIONS => why.to_owned(),
        _ => {
            format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})")
        }
    })
}

fn read_json(body: &[u8], kind: &str) -> Result<Read, Status> {
    strict::json(body).map_err(|error| {
        let why = type_meta::parse_error(&parse_error(body, &error));
        unrecognized(kind, &why, body)
    })
}

/// What is wrong with JSON text, in Go's words where Go finds something wrong.
pub(crate) fn parse_error(body: &[u8], error: &serde_json::Error) -> String {
    go_json::syntax_error(body).unwrap_or_else(|| error.to_string())
}

fn parse_protobuf(body: &[u8]) -> Result<Value, Status> {
    let wrong = |why| Status::bad_request(format!("error decoding protobuf: {why}"));
    let (api_version, kind, mut value) = crate::proto::decode(body).map_err(wrong)?;
    // A message can be several levels, and JSON in it adds its own.
    if let Some(why) = strict::excess(&value) {
        return Err(wrong(why.to_owned()));
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), Value::from(api_version));
        map.insert("kind".into(), Value::from(kind));
    }
    Ok(value)
}

pub(crate) fn read_yaml(body: &[u8]) -> Result<Read, Status> {
    // JSON is YAML, and by far the faster to parse.
    if let Some(read) = strict::json(body)
        .ok()
        .filter(|read| read.duplicates.is_empty())
    {
        return Ok(read);
    }
    strict::yaml(body).map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))
}
