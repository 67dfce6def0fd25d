//! The rows that `kubectl get` prints: the server knows the columns, so that old clients can show new kinds.
//!
//! Columns are data (`columns.txt`); most cells are a field, the others are computed in `cells.rs` and
//! `pod.rs`. Mirrors `pkg/printers/internalversion/printers.go`, always wide, as the server prints.

mod age;
mod cells;
mod custom;
mod event;
mod network;
mod pod;
mod previews;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::fields::at;
use crate::kinds::Kind;

/// One column of a Table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: String,
    /// `name` for the object's name.
    pub format: String,
    /// Above 0 only for `-o wide`.
    pub priority: i64,
    pub description: String,
}

impl Column {
    pub fn to_value(&self) -> Value {
        json!({"name": self.name, "type": self.ty, "format": self.format, "description": self.description, "priority": self.priority})
    }
}

/// The columns of a kind.
pub fn columns(kind: &Kind) -> Vec<Column> {
    if let Some(custom) = kind.custom() {
        return custom::columns(custom);
    }
    layout(kind)
        .iter()
        .map(|cell| cell.column.clone())
        .collect()
}

/// A row for an object, at the time `now` (RFC 3339).
pub fn cells(kind: &Kind, object: &Value, now: &str) -> Vec<Value> {
    let now = age::seconds(now).unwrap_or_default();
    if let Some(custom) = kind.custom() {
        return custom::cells(custom, object, now);
    }
    let cells = layout(kind)
        .iter()
        .map(|cell| cell.source.read(object, now));
    // UPSTREAM: a row of an IPAddress has a cell more than the table has columns.
    let more = kind.is("networking.k8s.io", "IPAddress");
    let age = more.then(|| Source::Age("metadata.creationTimestamp").read(object, now));
    cells.chain(age).collect()
}

struct Cell {
    column: Column,
    source: Source,
}

enum Source {
    Field {
        path: &'static str,
        absent: &'static str,
    },
    Number(&'static str),
    Flag(&'static str),
    Count(&'static str),
    Age(&'static str),
    Computed(fn(&Value, i64) -> Value),
}

impl Source {
    fn read(&self, object: &Value, now: i64) -> Value {
        match self {
            Source::Field { path, absent } => match at(object, path) {
                Value::Null => Value::from(*absent),
                Value::String(text) if text.is_empty() => Value::from(*absent),
                value => value.clone(),
            },
            Source::Number(path) => at(object, path).as_i64().unwrap_or_default().into(),
            Source::Flag(path) => at(object, path).as_bool().unwrap_or_default().into(),
            Source::Count(path) => count(at(object, path)).into(),
            Source::Age(path) => age::since(at(object, path), now).into(),
            Source::Computed(compute) => compute(object, now),
        }
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        _ => 0,
    }
}

fn layout(kind: &Kind) -> &'static [Cell] {
    let key = (kind.api_version().to_owned(), kind.kind.to_string());
    LAYOUTS.get(&key).map(Vec::as_slice).unwrap_or(&PLAIN)
}

static LAYOUTS: LazyLock<BTreeMap<(String, String), Vec<Cell>>> = LazyLock::new(|| {
    let lines = include_str!("columns.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let parse = |line: &'static str| {
        let mut words = line.split(' ');
        let (version, kind) = (words.next()?, words.next()?);
        Some((
            (version.to_owned(), kind.to_owned()),
            words.filter_map(parse_cell).collect(),
        ))
    };
    lines.filter_map(parse).collect()
});

/// For kinds without columns of their own.
static PLAIN: LazyLock<Vec<Cell>> = LazyLock::new(|| {
    [
        "Name:string/name=.metadata.name",
        "Created_At:date=.metadata.creationTimestamp",
    ]
    .into_iter()
    .filter_map(parse_cell)
    .collect()
});

fn parse_cell(word: &'static str) -> Option<Cell> {
    let (header, source) = word.split_once('=')?;
    let mut parts = header.split(':');
    let (name, ty) = (parts.next()?.replace('_', " "), parts.next()?);
    let (ty, format) = ty.split_once('/').unwrap_or((ty, ""));
    let priority = parts
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    let column = Column {
        name,
        ty: ty.to_owned(),
        format: format.to_owned(),
        priority,
        description: String::new(),
    };
    let rest = source.get(1..)?;
    let source = match source.as_bytes().first()? {
        b'.' => {
            let (path, absent) = rest.split_once('|').unwrap_or((rest, ""));
            Source::Field { path, absent }
        }
        b'+' => Source::Number(rest),
        b'?' => Source::Flag(rest),
        b'#' => Source::Count(rest),
        b'@' => Source::Age(rest),
        b'~' => Source::Computed(computed(rest)?),
        _ => return None,
    };
    Some(Cell { column, source })
}

fn computed(name: &str) -> Option<fn(&Value, i64) -> Value> {
    let places = [
        pod::named,
        cells::named,
        network::named,
        workload::named,
        event::named,
        previews::named,
    ];
    places.into_iter().find_map(|named| named(name))
}
