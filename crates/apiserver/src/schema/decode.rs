//! Reads an object as its type would: what a client sent becomes what upstream's types would print.
//!
//! Upstream decodes every body into Go structs and prints them again, which has effects that clients
//! see: unknown fields vanish (and are reported), empty values are dropped or filled in depending on
//! the field, quantities and times get their canonical form, and a value of the wrong type is
//! refused. This walk has the same effects on a JSON value, driven by the tables.

use api::Time;
use api::quantity::Quantity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Field, Shape, Type};

/// The most unknown fields that are named: a body full of rubbish must not give an answer of its size.
// UPSTREAM: the strict decoder stops at 100 errors as well.
const REPORTED_MAX: usize = 100;

/// The result of [`decode`].
#[derive(Debug, Default, PartialEq)]
pub struct Decoded {
    pub object: Value,
    /// Paths such as `spec.template.spec.containers[0].nam` of fields that the type does not have.
    pub unknown: Vec<String>,
}

/// A value that its field cannot hold. The text is what upstream puts after "cannot be handled as a Pod: ".
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

/// Reads `value` as an object of type `ty`.
pub fn decode(ty: &Type, value: Value) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder::default();
    let object = match value {
        Value::Object(mut fields) => {
            decoder.object(ty, &mut fields)?;
            Value::Object(fields)
        }
        other => {
            let (found, wanted) = (json_type(&other), go_name(ty));
            return Err(DecodeError(format!(
                "json: cannot unmarshal {found} into Go value of type {wanted}"
            )));
        }
    };
    Ok(Decoded {
        object,
        unknown: decoder.unknown,
    })
}

/// What a value of type `ty` prints as when nothing is set: `{}` or its few fields that are always there.
pub fn empty(ty: &Type) -> Value {
    let always = ty.fields.iter().filter(|field| field.always);
    Value::Object(
        always
            .map(|field| (field.name.to_owned(), zero(field)))
            .collect(),
    )
}

#[derive(Default)]
struct Decoder {
    path: Vec<Step>,
    unknown: Vec<String>,
}

enum Step {
    Field(&'static str),
    Index(usize),
    Key(String),
}

impl Decoder {
    /// Works in place: most fields stay as they are, and objects are large.
    fn object(&mut self, ty: &Type, fields: &mut Map<String, Value>) -> Result<(), DecodeError> {
        // Nearly always there are none: taking entries out while looking at all costs more than looking.
        let mut gone = Vec::new();
        for (name, value) in fields.iter_mut() {
            let Some(field) = ty.field(name) else {
                self.report_unknown(name.clone());
                gone.push(name.clone());
                continue;
            };
            self.path.push(Step::Field(field.name));
            self.value(ty, &field.ty, value)?;
            self.path.pop();
            let kept = if tells_empty_from_missing(ty, field) {
                !value.is_null()
            } else {
                let kept = keeps(field, value);
                // UPSTREAM: storage does not tell an empty list from none.
                if kept && is_empty_collection(field, value) {
                    *value = Value::Null;
                }
                kept
            };
            if !kept {
                gone.push(name.clone());
            }
        }
        for name in gone {
            fields.remove(&name);
        }
        for field in ty.fields.iter().filter(|field| field.always) {
            if !fields.contains_key(field.name) {
                fields.insert(field.name.to_owned(), zero(field));
            }
        }
        Ok(())
    }

    fn value(&mut self, outer: &Type, shape: &Shape, value: &mut Value) -> Result<(), DecodeError> {
        match (shape, &mut *value) {
            (_, Value::Null)
            | (Shape::Any | Shape::Raw | Shape::FieldsV1, _)
            | (Shape::String, Value::String(_))
            | (Shape::Boolean, Value::Bool(_))
            | (Shape::Number, Value::Number(_))
            | (Shape::IntOrString, Value::String(_)) => {}
            (Shape::Ref(ty), Value::Object(fields)) => self.object(ty, fields)?,
            (Shape::List(item), Value::Array(items)) => {
                for (index, value) in items.iter_mut().enumerate() {
                    self.path.push(Step::Index(index));
                    self.value(outer, item, value)?;
                    self.path.pop();
                    if value.is_null() {
                        *value = zero_of(item);
                    }
                }
            }
            (Shape::Map(item), Value::Object(entries)) => {
                // Only what has fields of its own can hold unknown ones, whose path needs the key.
                let named = matches!(**item, Shape::Ref(_) | Shape::List(_) | Shape::Map(_));
                for (key, value) in entries.iter_mut() {
                    if named {
                        self.path.push(Step::Key(key.clone()));
                    }
                    self.value(outer, item, value)?;
                    if named {
                        self.path.pop();
                    }
                    if value.is_null() {
                        *value = zero_of(item);
                    }
                }
            }
            (Shape::Integer | Shape::IntOrString, Value::Number(number)) => {
                let fits = number
                    .as_i64()
                    .is_some_and(|value| i32::try_from(value).is_ok());
                if !fits {
                    return Err(self.mismatch(outer, &format!("number {number}"), "int32"));
                }
            }
            (Shape::Long, Value::Number(number)) => {
                if number.as_i64().is_none() {
                    return Err(self.mismatch(outer, &format!("number {number}"), "int64"));
                }
            }
            (Shape::Quantity, Value::String(text)) if Quantity::is_plain(text) => {}
            (Shape::Quantity, Value::String(text)) => *value = quantity(text)?,
            (Shape::Quantity, Value::Number(number)) => *value = quantity(&number.to_string())?,
            // Almost all times come back as we printed them.
            (Shape::Time, Value::String(text)) if is_canonical_time(text, b"Z") => {}
            (Shape::MicroTime, Value::String(text)) if is_canonical_time(text, b".000000Z") => {}
            (Shape::Time, Value::String(text)) => *value = time(text, Precision::Seconds)?,
            (Shape::MicroTime, Value::String(text)) => {
                *value = time(text, Precision::Microseconds)?;
            }
            (Shape::Bytes, Value::String(text)) => *value = bytes(text)?,
            (shape, value) => {
                let wanted = go_type(shape);
                return Err(self.mismatch(outer, json_type(value), &wanted));
            }
        }
        Ok(())
    }

    fn mismatch(&self, outer: &Type, found: &str, wanted: &str) -> DecodeError {
        let owner = outer.name.rsplit('.').next().unwrap_or_default();
        let mut path = String::new();
        for step in &self.path {
            if let Step::Field(name) = step {
                path.push('.');
                path.push_str(name);
            }
        }
        DecodeError(format!(
            "json: cannot unmarshal {found} into Go struct field {owner}{path} of type {wanted}"
        ))
    }

    fn report_unknown(&mut self, name: String) {
        if self.unknown.len() >= REPORTED_MAX {
            return;
        }
        self.path.push(Step::Key(name));
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Index(index) => text.push_str(&format!("[{index}]")),
                Step::Field(name) => push_name(&mut text, name),
                Step::Key(name) => push_name(&mut text, name),
            }
        }
        self.path.pop();
        self.unknown.push(text);
    }
}

fn push_name(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(name);
}

/// Whether Go would print this value: pointers unless nil, others unless empty or always printed.
fn keeps(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => false,
        _ if field.pointer || field.always => true,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(flag) => *flag,
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty() || matches!(field.ty, Shape::Ref(_)),
    }
}

/// UPSTREAM: default policies are for who leaves them out; an empty list is refused. It is never stored, so that
/// nothing is lost by keeping it.
fn tells_empty_from_missing(ty: &Type, field: &Field) -> bool {
    field.name == "policies" && ty.name == "api.autoscaling.v2.HPAScalingRules"
}

fn is_empty_collection(field: &Field, value: &Value) -> bool {
    let empty = match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty() && matches!(field.ty, Shape::Map(_)),
        _ => false,
    };
    empty && !field.pointer
}

/// What is printed for a field that is always printed and was not given.
fn zero(field: &Field) -> Value {
    if field.pointer {
        return Value::Null;
    }
    zero_of(&field.ty)
}

fn zero_of(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::from(""),
        Shape::Integer | Shape::Long | Shape::Number | Shape::IntOrString => Value::from(0),
        Shape::Boolean => Value::from(false),
        Shape::Quantity => Value::from("0"),
        Shape::Ref(ty) => empty(ty),
        _ => Value::Null,
    }
}

fn quantity(text: &str) -> Result<Value, DecodeError> {
    // UPSTREAM: blanks around it are no part of it, but those that JSON has to escape are looked at as they are written.
    let is_blank = |letter: char| letter.is_whitespace() && !letter.is_control();
    match Quantity::parse(text.trim_matches(is_blank)) {
        Ok(mut quantity) => {
            quantity.cap();
            Ok(Value::from(quantity.to_string()))
        }
        Err(error) => Err(DecodeError(error.to_string())),
    }
}

enum Precision {
    Seconds,
    Microseconds,
}

fn time(text: &str, precision: Precision) -> Result<Value, DecodeError> {
    if matches!(precision, Precision::Microseconds) {
        check_microseconds(text)?;
    }
    let parsed = text.parse().ok().filter(is_rfc3339);
    let parsed: jiff::Timestamp = parsed.ok_or_else(|| {
        let layout = match precision {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        };
        DecodeError(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""
        ))
    })?;
    Ok(Value::from(match precision {
        Precision::Seconds => parsed.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Precision::Microseconds => parsed.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    }))
}

/// Whether a time can be written: years have four digits and no sign.
pub(crate) fn is_rfc3339(time: &jiff::Timestamp) -> bool {
    (Time::FIRST_UNIX..=Time::LAST_UNIX).contains(&time.as_second())
}

/// UPSTREAM: microsecond times must have exactly six digits after the point.
fn check_microseconds(text: &str) -> Result<(), DecodeError> {
    let rest = text.get("2006-01-02T15:04:05".len()..).unwrap_or_default();
    let digits = rest.strip_prefix('.').map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    if digits == 6 || rest.is_empty() {
        return Ok(());
    }
    let layout = "2006-01-02T15:04:05.000000Z07:00";
    Err(DecodeError(format!(
        "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as \".000000\""
    )))
}

/// `2006-01-02T15:04:05` and an end, with plausible digits; the calendar is checked only for other spellings.
fn is_canonical_time(text: &str, end: &[u8]) -> bool {
    let pattern = b"0000-00-00T00:00:00";
    text.len() == pattern.len() + end.len()
        && text
            .bytes()
            .zip(pattern.iter().chain(end))
            .all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                _ => byte == *wanted,
            })
        && ("01"..="12").contains(&&text[5..7])
        && ("01"..="28").contains(&&text[8..10])
        && text[11..13] <= *"23"
        && text[14..16] <= *"59"
        && text[17..19] <= *"59"
}

fn bytes(text: &str) -> Result<Value, DecodeError> {
    // Go's decoder skips line breaks.
    let stripped: String = text
        .chars()
        .filter(|letter| !matches!(letter, '\r' | '\n'))
        .collect();
    let decoded = STANDARD.decode(&stripped).map_err(|error| {
        let offset = match error {
            base64::DecodeError::InvalidByte(offset, _)
            | base64::DecodeError::InvalidLastSymbol(offset, _) => offset,
            base64::DecodeError::InvalidLength(length) => length / 4 * 4,
            base64::DecodeError::InvalidPadding => stripped.len(),
        };
        DecodeError(format!("illegal base64 data at input byte {offset}"))
    })?;
    Ok(Value::from(STANDARD.encode(decoded)))
}

pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Ref(ty) => go_name(ty),
        Shape::List(item) => format!("[]{}", go_type(item)),
        Shape::Map(item) => format!("map[string]{}", go_type(item)),
        Shape::String => "string".to_owned(),
        // UPSTREAM: what is no string is read as an int32.
        Shape::Integer | Shape::IntOrString => "int32".to_owned(),
        Shape::Long => "int64".to_owned(),
        Shape::Number => "float64".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Raw | Shape::FieldsV1 | Shape::Any => "interface {}".to_owned(),
    }
}

/// `v1.PodSpec`: the package's last part and the name.
fn go_name(ty: &Type) -> String {
    let mut parts = ty.name.rsplitn(3, '.');
    let (name, package) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    format!("{package}.{name}")
}
