//! What was written: a hash over all of it, and the last lines for a person.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{Clock, MicroTime};
use bytes::Bytes;
use http::Method;
use rustc_hash::FxHasher;

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    User,
    Nodes,
    Manager,
}

/// A log of writes. Clones share it.
#[derive(Clone)]
pub(crate) struct Trace(Arc<Mutex<Inner>>, Clock);

struct Inner {
    hash: FxHasher,
    writes: [u64; 3],
    last_manager_write: MicroTime,
    lines: VecDeque<Line>,
}

/// Enough for a person to see how it came to this.
const LINES_MAX: usize = 400;

#[derive(Clone)]
pub(crate) struct Line {
    at: MicroTime,
    actor: Actor,
    text: String,
}

impl Trace {
    pub(crate) fn new(clock: Clock) -> Trace {
        let inner = Inner {
            hash: FxHasher::default(),
            writes: [0; 3],
            last_manager_write: clock.now(),
            lines: VecDeque::new(),
        };
        Trace(Arc::new(Mutex::new(inner)), clock)
    }

    /// Notes a write and how it was answered. Gives the number of writes of that actor so far.
    pub(crate) fn note(
        &self,
        actor: Actor,
        method: &Method,
        path: &str,
        body: &Bytes,
        answer: u16,
    ) -> u64 {
        let at = self.1.now();
        let mut inner = self.lock();
        inner.hash.write_i64(at.unix_micros());
        inner.hash.write(method.as_str().as_bytes());
        inner.hash.write(path.as_bytes());
        inner.hash.write(body);
        inner.hash.write_u16(answer);
        inner.writes[actor as usize] += 1;
        if actor == Actor::Manager {
            inner.last_manager_write = at;
        }
        if inner.lines.len() == LINES_MAX {
            inner.lines.pop_front();
        }
        let text = format!("{method} {} -> {answer}", brief(path));
        inner.lines.push_back(Line { at, actor, text });
        inner.writes[actor as usize]
    }

    /// A line for the person alone: a fault, a crash, an action.
    pub(crate) fn remark(&self, actor: Actor, text: String) {
        let at = self.1.now();
        let mut inner = self.lock();
        if inner.lines.len() == LINES_MAX {
            inner.lines.pop_front();
        }
        inner.lines.push_back(Line { at, actor, text });
    }

    pub(crate) fn hash(&self) -> u64 {
        self.lock().hash.finish()
    }

    pub(crate) fn writes(&self, actor: Actor) -> u64 {
        self.lock().writes[actor as usize]
    }

    pub(crate) fn last_manager_write(&self) -> MicroTime {
        self.lock().last_manager_write
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().lines.iter().map(ToString::to_string).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn brief(path: &str) -> &str {
    path.split_once("/namespaces/")
        .map_or(path, |(_, rest)| rest)
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The time of day is enough: runs last minutes, and every run begins on the same day.
        let time = self.at.to_string();
        let actor = match self.actor {
            Actor::User => "user",
            Actor::Nodes => "nodes",
            Actor::Manager => "manager",
        };
        write!(f, "{} {actor:<8} {}", &time[11..23], self.text)
    }
}
