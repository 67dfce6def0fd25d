//! What can be wrong with what we are told.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {file}")]
    Unreadable {
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// The file says something that we cannot take.
    #[error("{file}: {}{}{problem}", place(.line), named(.field))]
    Invalid {
        file: String,
        line: Option<usize>,
        field: String,
        problem: String,
    },
    #[error("cannot register node {name}")]
    Register {
        name: String,
        #[source]
        source: client::Error,
    },
}

fn place(line: &Option<usize>) -> String {
    line.map_or(String::new(), |line| format!("line {line}: "))
}

fn named(field: &str) -> String {
    match field {
        "" | "." => String::new(),
        field => format!("{field}: "),
    }
}

/// Decodes YAML; errors name the file, the line and the field.
pub(crate) fn parse_yaml<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, Error> {
    let deserializer = serde_yaml_ng::Deserializer::from_str(text);
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let field = error.path().to_string();
        let inner = error.into_inner();
        let line = inner.location().map(|location| location.line());
        let mut problem = inner.to_string();
        // The library adds its own idea of the place at the end, and of the path in front.
        if let Some(cut) = problem.rfind(" at line ") {
            problem.truncate(cut);
        }
        if let Some((path, rest)) = problem.split_once(": ")
            && field.starts_with(path)
        {
            problem = rest.to_owned();
        }
        Error::Invalid {
            file: file.to_owned(),
            line,
            field,
            problem,
        }
    })
}

/// What a file says is well-formed, but makes no sense at this field (`nodes[1].name`).
pub(crate) fn senseless(text: &str, file: &str, field: String, problem: String) -> Error {
    Error::Invalid {
        file: file.to_owned(),
        line: line_of(text, &field),
        field,
        problem,
    }
}

/// The line of a field. A field that is not there has the line of what should hold it.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let steps: Vec<&str> = field
        .split(['.', '[', ']'])
        .filter(|step| !step.is_empty())
        .collect();
    (0..=steps.len()).rev().find_map(|known| {
        let deserializer = serde_yaml_ng::Deserializer::from_str(text);
        let error = Seek(&steps[..known]).deserialize(deserializer).err()?;
        error.location().map(|location| location.line())
    })
}

/// Walks to a field and fails there, because errors are what carries places.
struct Seek<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    /// Anything that cannot be walked into is an error at its place: just what is wanted, if it is the end.
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the end of the walk")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((step, rest)) = self.0.split_first() else {
            return Err(de::Error::custom("here"));
        };
        while let Some(key) = map.next_key::<String>()? {
            if key == *step {
                return map.next_value_seed(Seek(rest));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((step, rest)) = self.0.split_first() else {
            return Err(de::Error::custom("here"));
        };
        for _ in 0..step.parse::<usize>().unwrap_or(0) {
            list.next_element::<IgnoredAny>()?;
        }
        list.next_element_seed(Seek(rest)).map(|_| ())
    }
}
