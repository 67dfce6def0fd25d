//! The columns of custom kinds, as their definitions describe them with JSON paths.

use serde_json::Value;

use super::{Column, age};
use crate::crd::CustomVersion;
use crate::fields::{at, integer, text};

pub(super) fn columns(custom: &CustomVersion) -> Vec<Column> {
    let name = Column {
        name: "Name".to_owned(),
        ty: "string".to_owned(),
        format: "name".to_owned(),
        priority: 0,
        description: String::new(),
    };
    let mut columns = vec![name];
    for column in &custom.columns {
        columns.push(Column {
            name: text(column, "name").to_owned(),
            ty: text(column, "type").to_owned(),
            format: text(column, "format").to_owned(),
            priority: integer(column, "priority").unwrap_or_default(),
            description: text(column, "description").to_owned(),
        });
    }
    if custom.columns.is_empty() {
        columns.push(Column {
            name: "Age".to_owned(),
            ty: "date".to_owned(),
            format: String::new(),
            priority: 0,
            description: String::new(),
        });
    }
    columns
}

/// What the cells of one object may have in all: columns can be thousands, and each of them the whole object.
const MAX_ROW_BYTES: usize = 64 * 1024;

pub(super) fn cells(custom: &CustomVersion, object: &Value, now: i64) -> Vec<Value> {
    let mut cells = vec![at(object, "metadata.name").clone()];
    let mut room = MAX_ROW_BYTES;
    for column in &custom.columns {
        let found = match room {
            0 => Vec::new(),
            _ => find(object, text(column, "jsonPath")),
        };
        let mut cell = cell(text(column, "type"), &found, now);
        if let Value::String(text) = &mut cell {
            text.truncate(text.floor_char_boundary(room));
            room -= text.len();
        }
        cells.push(cell);
    }
    if custom.columns.is_empty() {
        cells.push(age::since(at(object, "metadata.creationTimestamp"), now).into());
    }
    cells
}

fn cell(ty: &str, found: &[&Value], now: i64) -> Value {
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match (ty, *first) {
        ("date", value) => age::since(value, now).into(),
        ("integer" | "number", value @ Value::Number(_)) | ("boolean", value @ Value::Bool(_)) => {
            value.clone()
        }
        ("integer" | "number" | "boolean", _) => Value::Null,
        _ => {
            let show = |value: &&Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            found.iter().map(show).collect::<Vec<_>>().join(" ").into()
        }
    }
}

/// The values at a path such as `.status.conditions[?(@.type=="Ready")].status`.
pub(super) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let path = path.strip_prefix('$').unwrap_or(path);
    let mut found = vec![object];
    let mut rest = path;
    while !rest.is_empty() {
        let Some((step, after)) = next_step(rest) else {
            return Vec::new();
        };
        found = found
            .into_iter()
            .flat_map(|value| step.apply(value))
            .collect();
        rest = after;
    }
    found
}

enum Step<'a> {
    Field(String),
    Index(i64),
    All,
    Filter { path: &'a str, value: &'a str },
}

impl Step<'_> {
    fn apply<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match self {
            Step::Field(name) => value
                .get(name)
                .into_iter()
                .filter(|value| !value.is_null())
                .collect(),
            Step::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index)
                    .ok()
                    .and_then(|index| items.get(index))
                    .into_iter()
                    .collect()
            }
            Step::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(entries) => entries.values().collect(),
                _ => Vec::new(),
            },
            Step::Filter {
                path,
                value: wanted,
            } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let matches = |item: &&Value| match find(item, path).first() {
                    Some(Value::String(text)) => text == wanted,
                    Some(other) => *wanted == other.to_string().as_str(),
                    None => false,
                };
                items.iter().filter(matches).collect()
            }
        }
    }
}

fn next_step(rest: &str) -> Option<(Step<'_>, &str)> {
    if let Some(rest) = rest.strip_prefix('.') {
        // A backslash keeps a dot inside a name.
        let mut name = String::new();
        let mut letters = rest.char_indices();
        while let Some((index, letter)) = letters.next() {
            match letter {
                '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
                '.' | '[' => return Some((step_for(name), &rest[index..])),
                letter => name.push(letter),
            }
        }
        return Some((step_for(name), ""));
    }
    let rest = rest.strip_prefix('[')?;
    if let Some(filter) = rest.strip_prefix("?(@") {
        let (expression, after) = filter.split_once(")]")?;
        let (path, value) = expression.split_once("==")?;
        return Some((
            Step::Filter {
                path: path.trim(),
                value: value.trim().trim_matches(['"', '\'']),
            },
            after,
        ));
    }
    let (inner, after) = rest.split_once(']')?;
    let step = match inner {
        "*" => Step::All,
        quoted if quoted.starts_with(['"', '\'']) => {
            Step::Field(quoted.trim_matches(['"', '\'']).to_owned())
        }
        number => Step::Index(number.parse().ok()?),
    };
    Some((step, after))
}

fn step_for(name: String) -> Step<'static> {
    if name == "*" {
        Step::All
    } else {
        Step::Field(name)
    }
}
