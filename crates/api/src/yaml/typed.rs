//! YAML into types, with errors that name the line and the field.

use saphyr_parser::{Event, Parser};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, first_document};

/// The first document of a text as a type; no document at all is `null`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let document = first_document(text)?;
    let json = document.map_or_else(|| "null".to_owned(), |document| document.json);
    let value: Value =
        serde_json::from_str(&json).map_err(|error| Error::at(1, error.to_string()))?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = match error.path().to_string() {
            root if root == "." => String::new(),
            field => field,
        };
        Error {
            line: line_of(text, &field),
            field,
            problem: plain(&error.into_inner().to_string()),
        }
    })
}

/// Whoever writes a file does not know our types: `expected a whole number, not string "many"`.
fn plain(problem: &str) -> String {
    // A list is read into the fields of a map one by one, until there are too few.
    if let Some((_, expected)) = problem
        .strip_prefix("invalid length ")
        .and_then(|text| text.split_once(", expected "))
    {
        return plain(&format!("invalid type: sequence, expected {expected}"));
    }
    let mismatch = problem
        .strip_prefix("invalid type: ")
        .or_else(|| problem.strip_prefix("invalid value: "));
    let Some((found, expected)) = mismatch.and_then(|text| text.split_once(", expected ")) else {
        return problem.to_owned();
    };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        text if text.starts_with("struct ") => "a map",
        text => text,
    };
    let found = match found {
        "null" => "nothing",
        "sequence" => "a list",
        "map" => "a map",
        text => text,
    };
    format!("expected {expected}, not {found}")
}

/// The line of a field such as `nodes[1].name`. A field that is not there has the line of what should hold it.
pub fn line_of(text: &str, field: &str) -> usize {
    let steps: Vec<&str> = field
        .split(['.', '[', ']'])
        .filter(|step| !step.is_empty())
        .collect();
    let mut walk = Walk::default();
    for (event, place) in Parser::new_from_str(text).flatten() {
        let line = place.start.line();
        match event {
            Event::DocumentEnd => break,
            Event::Scalar(content, ..) => walk.node(&steps, line, Some(&content), None),
            Event::Alias(_) => walk.node(&steps, line, None, None),
            Event::SequenceStart(..) => walk.node(&steps, line, None, Some(Open::List(0))),
            Event::MappingStart(..) => walk.node(&steps, line, None, Some(Open::Map(None))),
            Event::SequenceEnd | Event::MappingEnd => walk.close(),
            _ => {}
        }
    }
    walk.found.map_or(1, |(_, line)| line)
}

/// A collection that is not closed yet.
enum Open {
    /// With the index of the item that comes next.
    List(usize),
    /// With the name whose value comes next.
    Map(Option<String>),
}

#[derive(Default)]
struct Walk {
    open: Vec<Open>,
    /// How many of the open collections are on the way to the field.
    on_path: usize,
    /// How many steps of the way lead to the place that was found so far, and its line.
    found: Option<(usize, usize)>,
}

impl Walk {
    fn node(&mut self, steps: &[&str], line: usize, scalar: Option<&str>, opens: Option<Open>) {
        if let (Some(Open::Map(name @ None)), Some(scalar)) = (self.open.last_mut(), scalar) {
            *name = Some(scalar.to_owned());
            // A field is where its name is.
            if self.leads_on(steps) {
                self.arrive(self.on_path, line);
            }
            return;
        }
        let leads_on = self.open.is_empty() || self.leads_on(steps);
        if leads_on {
            self.arrive(self.on_path, line);
        }
        match self.open.last_mut() {
            Some(Open::List(index)) => *index += 1,
            Some(Open::Map(name)) => *name = None,
            None => {}
        }
        if let Some(collection) = opens {
            self.open.push(collection);
            self.on_path += usize::from(leads_on);
        }
    }

    /// Whether what comes next in the innermost collection is the next step of the way.
    fn leads_on(&self, steps: &[&str]) -> bool {
        if self.on_path < self.open.len() {
            return false;
        }
        let step = self.on_path.checked_sub(1).and_then(|at| steps.get(at));
        match (self.open.last(), step) {
            (Some(Open::List(index)), Some(step)) => step.parse() == Ok(*index),
            (Some(Open::Map(Some(name))), Some(step)) => name == step,
            _ => false,
        }
    }

    fn arrive(&mut self, depth: usize, line: usize) {
        if self.found.is_none_or(|(before, _)| depth > before) {
            self.found = Some((depth, line));
        }
    }

    fn close(&mut self) {
        self.open.pop();
        self.on_path = self.on_path.min(self.open.len());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const TEXT: &str = "# nodes\nkind: List\nnodes:\n- name: a\n  labels: {zone: x}\n-\n  name: b\n  zones:\n  - 1\n  - 2\n";

    #[test]
    fn a_field_has_the_line_of_its_name() {
        let lines = [
            ("kind", 2),
            ("nodes", 3),
            ("nodes[0]", 4),
            ("nodes[0].labels", 5),
            ("nodes[0].labels.zone", 5),
            ("nodes[1].name", 7),
            ("nodes[1].zones[1]", 10),
        ];
        for (field, line) in lines {
            assert_eq!(line_of(TEXT, field), line, "{field}");
        }
    }

    #[test]
    fn a_field_that_is_not_there_has_the_line_of_what_should_hold_it() {
        assert_eq!(line_of(TEXT, "nodes[0].taints"), 4);
        assert_eq!(line_of(TEXT, "nodes[1].zones[7].name"), 8);
        assert_eq!(line_of(TEXT, "spec.nodes"), 2);
        assert_eq!(line_of("", "spec"), 1);
    }

    #[test]
    fn errors_name_line_and_field() {
        type Nodes = BTreeMap<String, BTreeMap<String, i64>>;
        let error = from_str::<Nodes>("a:\n  b: 1\n  c: many\n").unwrap_err();
        assert_eq!((error.line, error.field.as_str()), (3, "a.c"));
        assert_eq!(
            error.to_string(),
            "line 3: a.c: expected a whole number, not string \"many\""
        );
        let problem = |text: &str| from_str::<Nodes>(text).unwrap_err().to_string();
        assert_eq!(problem(""), "line 1: expected a map, not nothing");
        assert_eq!(problem("a: [1]"), "line 1: a: expected a map, not a list");
        assert_eq!(from_str::<Option<Nodes>>("# nothing\n"), Ok(None));
    }
}
