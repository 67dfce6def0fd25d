//! What can be wrong with what we are told.

use serde::de::DeserializeOwned;

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
