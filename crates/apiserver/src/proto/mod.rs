//! Reads protobuf request bodies: kubectl and Go clients send them for the built-in kinds.
//!
//! The schema tables hold the field numbers, so one walk turns any message into the JSON that the same
//! object would have been sent as. A few types have a JSON form of their own (times, quantities, embedded
//! objects); members that Go embeds are separate messages here and part of the object in JSON. Answers
//! are JSON, which those clients accept.

#[cfg(test)]
mod tests;

use api::protobuf::{Reader, Value as Wire};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::schema::{self, Field, Shape, Type};

/// What a protobuf body of the Kubernetes API begins with.
pub const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may nest: as deep as JSON may, and far deeper than any real object.
const DEPTH_MAX: usize = 100;

/// An object out of its envelope: apiVersion, kind and the object as JSON.
pub fn decode(body: &[u8]) -> Result<(String, String, Value), String> {
    decode_at(body, 0)
}

/// An object whose envelope lies that deep in another.
fn decode_at(body: &[u8], depth: usize) -> Result<(String, String, Value), String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix k8s")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &b""[..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, Wire::Bytes(meta)) => {
                let mut reader = Reader::new(meta);
                while let Some((number, value)) = reader.next()? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (3, Wire::Bytes(encoding)) if !encoding.is_empty() => {
                return Err("encoded protobuf bodies are not supported".to_owned());
            }
            _ => {}
        }
    }
    let ty = type_of(&api_version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = message(ty, raw, depth)?;
    object.insert("apiVersion".to_owned(), api_version.clone().into());
    object.insert("kind".to_owned(), kind.clone().into());
    Ok((api_version, kind, Value::Object(object)))
}

fn type_of(api_version: &str, kind: &str) -> Option<&'static Type> {
    // Options exist in every group and are the same everywhere.
    if matches!(kind, "DeleteOptions") {
        return schema::type_named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    schema::type_for(group, version, kind)
}

fn message(ty: &Type, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    if depth > DEPTH_MAX {
        return Err("the message is nested too deeply".to_owned());
    }
    let mut object = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if let Some(field) = ty.fields.iter().find(|field| field.number == number) {
            put(&mut object, field, wire, depth)?;
        } else if let (Some((_, inner)), Wire::Bytes(bytes)) = (
            ty.inlined.iter().find(|(inline, _)| *inline == number),
            wire,
        ) {
            object.append(&mut message(inner, bytes, depth + 1)?);
        }
    }
    Ok(object)
}

fn put(
    object: &mut Map<String, Value>,
    field: &Field,
    wire: Wire<'_>,
    depth: usize,
) -> Result<(), String> {
    match (&field.ty, wire) {
        (Shape::List(item), Wire::Bytes(bytes)) if is_number(item) => {
            // Numbers may come packed into one value.
            let list = list_in(object, field.name);
            let mut reader = Reader::new(bytes);
            while !reader.is_empty() {
                list.push(scalar(item, Wire::Number(reader.varint()?))?);
            }
        }
        (Shape::List(item), wire) => {
            let value = value(field, item, wire, depth)?;
            list_in(object, field.name).push(value);
        }
        (Shape::Map(item), Wire::Bytes(bytes)) => {
            let (mut key, mut found) = (String::new(), None);
            let mut reader = Reader::new(bytes);
            while let Some((number, wire)) = reader.next()? {
                match (number, wire) {
                    (1, Wire::Bytes(text)) => key = utf8(text)?,
                    (2, wire) => found = Some(map_value(field, item, wire, depth)?),
                    _ => {}
                }
            }
            let entries = object
                .entry(field.name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entries) = entries {
                entries.insert(key, found.unwrap_or_else(|| empty(item)));
            }
        }
        (shape, wire) => {
            let value = value(field, shape, wire, depth)?;
            object.insert(field.name.to_owned(), value);
        }
    }
    Ok(())
}

fn list_in<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    let value = object
        .entry(name)
        .or_insert_with(|| Value::Array(Vec::new()));
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("was made a list above")
}

fn is_number(shape: &Shape) -> bool {
    matches!(shape, Shape::Integer | Shape::Long | Shape::Boolean)
}

fn empty(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => "".into(),
        Shape::Ref(_) => Value::Object(Map::new()),
        Shape::Quantity => "0".into(),
        _ => Value::Null,
    }
}

/// Lists cannot be the value of a protobuf map: they are wrapped in a message.
fn map_value(field: &Field, item: &Shape, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    let (Shape::List(inner), Wire::Bytes(bytes)) = (item, wire) else {
        return value(field, item, wire, depth);
    };
    let mut items = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            items.push(value(field, inner, wire, depth)?);
        }
    }
    Ok(Value::Array(items))
}

fn value(field: &Field, shape: &Shape, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    let Wire::Bytes(bytes) = wire else {
        return scalar(shape, wire);
    };
    Ok(match shape {
        Shape::Ref(ty) => Value::Object(message(ty, bytes, depth + 1)?),
        Shape::String => utf8(bytes)?.into(),
        Shape::Bytes => STANDARD.encode(bytes).into(),
        Shape::Quantity => member(bytes, 1)?
            .map(utf8)
            .transpose()?
            .unwrap_or_default()
            .into(),
        Shape::IntOrString => int_or_string(bytes)?,
        Shape::Time => time(bytes, false)?,
        Shape::MicroTime => time(bytes, true)?,
        Shape::Raw | Shape::FieldsV1 => json(member(bytes, 1)?.unwrap_or_default(), depth)?,
        Shape::Any => alternative(field, bytes, depth)?,
        Shape::List(_) | Shape::Map(_) => {
            return Err(format!(
                "{} is nested in a way that protobuf cannot be",
                field.name
            ));
        }
        Shape::Integer | Shape::Long | Shape::Number | Shape::Boolean => {
            return Err(format!("{} is not a number", field.name));
        }
    })
}

fn scalar(shape: &Shape, wire: Wire<'_>) -> Result<Value, String> {
    Ok(match (shape, wire) {
        (Shape::Boolean, Wire::Number(value)) => (value != 0).into(),
        // Negative numbers are sign-extended to 64 bits on the wire.
        (Shape::Integer | Shape::Long, Wire::Number(value)) => value.cast_signed().into(),
        (Shape::Number, Wire::Fixed64(value)) => f64::from_bits(value).into(),
        _ => return Err("a field does not have the wire type of its message".to_owned()),
    })
}

/// The bytes of one member of a small message.
fn member(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, String> {
    let mut reader = Reader::new(bytes);
    let mut found = None;
    while let Some((number, wire)) = reader.next()? {
        if let (true, Wire::Bytes(bytes)) = (number == wanted, wire) {
            found = Some(bytes);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0_i64, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((member, wire)) = reader.next()? {
        match (member, wire) {
            (1, Wire::Number(kind)) => is_text = kind != 0,
            (2, Wire::Number(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => text = utf8(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// Seconds and nanoseconds; an empty message is no time.
fn time(bytes: &[u8], micro: bool) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Number(value)) => seconds = value.cast_signed(),
            (2, Wire::Number(value)) => nanos = value.cast_signed(),
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).map_err(|_| "a time has an odd fraction")?;
    let time = jiff::Timestamp::new(seconds, nanos).ok();
    let time = time
        .filter(schema::is_rfc3339)
        .ok_or("a time is out of range")?;
    let format = if micro {
        "%Y-%m-%dT%H:%M:%S.%6fZ"
    } else {
        "%Y-%m-%dT%H:%M:%SZ"
    };
    Ok(time.strftime(format).to_string().into())
}

fn json(bytes: &[u8], depth: usize) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    if bytes.starts_with(MAGIC) {
        return decode_at(bytes, depth + 1).map(|(_, _, value)| value);
    }
    serde_json::from_slice(bytes).map_err(|error| format!("embedded JSON: {error}"))
}

/// The parts of a custom resource's schema that are one of two things, and plain JSON.
fn alternative(field: &Field, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let schema = || {
        schema::type_named(
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        )
    };
    let nested = |bytes: &[u8]| -> Result<Value, String> {
        let ty = schema().ok_or("the tables lack JSONSchemaProps")?;
        // Every scalar is on the wire, set or not: only what is set shall remain.
        let object = Value::Object(message(ty, bytes, depth + 1)?);
        schema::decode(ty, object)
            .map(|decoded| decoded.object)
            .map_err(|error| error.to_string())
    };
    let (mut flag, mut one, mut many, mut texts) = (false, None, Vec::new(), Vec::new());
    let kind = match field.name {
        "additionalItems" | "additionalProperties" => 'b',
        "items" => 'a',
        "dependencies" => 's',
        _ => return json(member(bytes, 1)?.unwrap_or_default(), depth),
    };
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (kind, number, wire) {
            ('b', 1, Wire::Number(value)) => flag = value != 0,
            ('b', 2, Wire::Bytes(bytes)) | ('a' | 's', 1, Wire::Bytes(bytes)) => {
                one = Some(nested(bytes)?)
            }
            ('a', 2, Wire::Bytes(bytes)) => many.push(nested(bytes)?),
            ('s', 2, Wire::Bytes(bytes)) => texts.push(Value::from(utf8(bytes)?)),
            _ => {}
        }
    }
    Ok(match (one, kind) {
        (Some(schema), _) => schema,
        (None, 'b') => flag.into(),
        (None, 'a') => many.into(),
        (None, _) => texts.into(),
    })
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| "a string is not UTF-8".to_owned())
}
