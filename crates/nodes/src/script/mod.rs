//! The few commands that simulated containers understand, alone and as a shell script.
//!
//! No process is ever started. But manifests in examples and tests are full of `echo`, `sleep 5` and `exit 1`, and
//! whoever writes them expects just that: in the container's end, in its log, and from `kubectl exec`.

mod parse;
mod run;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use api::MicroTime;

pub use parse::NotUnderstood;
pub use run::normal;
use words::Word;

/// A command that is understood from its first to its last word.
#[derive(Clone, Debug, PartialEq)]
pub struct Script(Vec<Statement>);

#[derive(Clone, Debug, PartialEq)]
struct Statement {
    when: When,
    to: Target,
    run: Run,
}

/// Where a statement prints to.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    Stdout,
    Stderr,
    /// `/dev/null`.
    Nowhere,
    File {
        path: Word,
        append: bool,
    },
}

/// What the statement before it has to have come to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Always,
    Succeeded,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
enum Run {
    Echo {
        words: Vec<Word>,
        newline: bool,
    },
    Sleep(Duration),
    /// `sleep infinity` and others that never end by themselves.
    Forever,
    /// `exit`; with the code before it where none is given.
    Exit(Option<i32>),
    /// `true`, `false`.
    Status(i32),
    Assign(String, Word),
    Date(Option<Word>),
    Hostname,
    WorkingDirectory,
    User,
    Environment(Vec<Word>),
    Cat(Vec<Word>),
    List(Vec<Word>),
    Loop(Vec<Statement>),
}

/// What a container finds around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    pub hostname: String,
    pub environment: BTreeMap<String, String>,
    pub files: Files,
}

/// Contents by absolute path; or why one cannot be read.
pub type Files = BTreeMap<String, Result<String, String>>;

/// Something that was printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    pub at: MicroTime,
    pub to_stderr: bool,
    pub text: String,
}

/// What a script does in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Performance {
    pub printed: Vec<Printed>,
    /// When it ended and with which code, if it did by the end of the stretch.
    pub ended: Option<(MicroTime, i32)>,
    /// What files hold then, those that it has written among them.
    pub files: Files,
}
