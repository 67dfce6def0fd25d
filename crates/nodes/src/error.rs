//! What can be wrong with what we are told.

use std::path::Path;

use serde::de::DeserializeOwned;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {file}")]
    Unreadable {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{file} is not text")]
    NotText { file: String },
    /// The file says something that we cannot take.
    #[error("{file}: {problem}")]
    Invalid {
        file: String,
        problem: api::yaml::Error,
    },
    #[error("cannot register node {name}")]
    Register {
        name: String,
        #[source]
        source: client::Error,
    },
}

pub(crate) fn read_text(path: &Path, name: &str) -> Result<String, Error> {
    let file = name.to_owned();
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| Error::NotText { file }),
        Err(source) => Err(Error::Unreadable { file, source }),
    }
}

/// Decodes YAML; errors name the file, the line and the field.
pub(crate) fn parse_yaml<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, Error> {
    api::yaml::from_str(text).map_err(|problem| Error::Invalid {
        file: file.to_owned(),
        problem,
    })
}

/// What a file says is well-formed, but makes no sense at this field (`nodes[1].name`).
pub(crate) fn senseless(text: &str, file: &str, field: String, problem: String) -> Error {
    Error::Invalid {
        file: file.to_owned(),
        problem: api::yaml::Error {
            line: api::yaml::line_of(text, &field),
            field,
            problem,
        },
    }
}
