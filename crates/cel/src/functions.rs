//! Which functions there are: one table, in the order in which upstream declares overloads.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use crate::types::{Type, parse_list};

/// One way to call a function.
#[derive(Debug)]
pub struct Overload {
    pub id: Arc<str>,
    pub method: bool,
    pub args: Vec<Type>,
    pub result: Type,
}

/// Kubernetes' base environment of 1.36, whose compatibility version is 1.35: name, style, overload, types.
static TABLE: &str = include_str!("functions.txt");
/// What only mutating admission policies may call.
static MUTATING: &str =
    "jsonpatch.escapeKey function string_jsonpatch_escapeKey_string (string) string";

static BASE: LazyLock<FxHashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| read(TABLE));
static PATCHING: LazyLock<FxHashMap<&'static str, Vec<Overload>>> =
    LazyLock::new(|| read(MUTATING));

/// The overloads of a function, if there is one of that name.
pub fn overloads(name: &str, mutating: bool) -> Option<&'static [Overload]> {
    let found = BASE.get(name).map(Vec::as_slice);
    if found.is_none() && mutating {
        return PATCHING.get(name).map(Vec::as_slice);
    }
    found
}

fn read(table: &'static str) -> FxHashMap<&'static str, Vec<Overload>> {
    let mut functions: FxHashMap<&str, Vec<Overload>> = FxHashMap::default();
    for line in table.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some(name), Some(style), Some(id), Some(types)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        // The arguments' closing parenthesis is the one before the last blank outside of any other.
        let close = closing(types);
        functions.entry(name).or_default().push(Overload {
            id: id.into(),
            method: style == "method",
            args: parse_list(&types[1..close]),
            result: Type::parse(&types[close + 1..]),
        });
    }
    functions
}

fn closing(types: &str) -> usize {
    let mut depth = 0;
    for (at, c) in types.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    types.len()
}
