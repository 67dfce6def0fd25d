//! What can be wrong with the manager's input. Each message names the flag or file and says what to do.

use std::fmt;
use std::path::PathBuf;

use crate::flags::ParseError;
use crate::gates::{GateError, VersionError};
use crate::selection::UnknownController;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Flags(#[from] ParseError),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Controllers(#[from] UnknownController),
    /// A value that parses, but that the rules refuse.
    #[error("--{flag}: {problem}")]
    Setting { flag: &'static str, problem: String },
    #[error("--{flag}: cannot read {}", path.display())]
    Unreadable {
        flag: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("--{flag}: {} {problem}", path.display())]
    BadFile {
        flag: &'static str,
        path: PathBuf,
        problem: String,
    },
    #[error("--secure-port: cannot listen on {address}; is another process using the port?")]
    Listen {
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("--{flag}: {problem}")]
    Lookup {
        flag: &'static str,
        problem: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Everything that is wrong, so that it can be fixed in one go.
#[derive(Debug)]
pub struct Errors(pub Vec<Error>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                write!(f, ": {cause}")?;
                source = cause.source();
            }
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

impl<E: Into<Error>> From<E> for Errors {
    fn from(error: E) -> Errors {
        Errors(vec![error.into()])
    }
}
