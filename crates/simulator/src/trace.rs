//! What was written: a hash over all of it, and the last lines for a person.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use api::{Clock, MicroTime};
use bytes::Bytes;
use controllers::oracle::Actor;
use http::Method;
use rustc_hash::FxHasher;

/// A log of writes. Clones share it.
#[derive(Clone)]
pub(crate) struct Trace(Arc<Mutex<Inner>>, Clock);

struct Inner {
    hash: FxHasher,
    writes: [u64; 3],
    last_manager_write: MicroTime,
    unrest: Unrest,
    lines: VecDeque<Line>,
}

/// What managers did since everything was said to be at rest.
#[derive(Default)]
struct Unrest {
    written: u64,
    events: u64,
    /// Writes that the server refused, by what they were, and how often each was tried.
    refused: BTreeMap<u64, u64>,
}

/// Enough for a person to see how it came to this.
const LINES_MAX: usize = 1000;

struct Line {
    at: MicroTime,
    actor: Actor,
    text: Text,
}

/// A write is put into words only if somebody reads it.
enum Text {
    Write(Method, String, u16),
    Remark(String),
}

impl Trace {
    pub(crate) fn new(clock: Clock) -> Trace {
        let inner = Inner {
            hash: FxHasher::default(),
            writes: [0; 3],
            last_manager_write: clock.now(),
            unrest: Unrest::default(),
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
        // The election goes on for as long as there are two: it is no sign of unrest.
        let is_lease = path.contains("/leases/");
        if matches!(actor, Actor::Manager(..)) && !is_lease {
            inner.last_manager_write = at;
            inner.unrest.note(method, path, body, answer);
        }
        // Heartbeats would bury everything else.
        if is_lease {
            return 0;
        }
        if !(actor == Actor::Nodes && path.starts_with("/api/v1/nodes/")) {
            let text = Text::Write(method.clone(), path.to_owned(), answer);
            inner.push(Line { at, actor, text });
        }
        inner.writes[number(actor)] += 1;
        inner.writes[number(actor)]
    }

    /// A line for the person alone: a fault, a crash, an action.
    pub(crate) fn remark(&self, actor: Actor, text: String) {
        let at = self.1.now();
        let text = Text::Remark(text);
        self.lock().push(Line { at, actor, text });
    }

    pub(crate) fn hash(&self) -> u64 {
        self.lock().hash.finish()
    }

    /// Writes of users, nodes and managers; leases do not count.
    pub(crate) fn writes(&self) -> [u64; 3] {
        self.lock().writes
    }

    pub(crate) fn manager_writes(&self) -> u64 {
        self.writes()[2]
    }

    pub(crate) fn last_manager_write(&self) -> MicroTime {
        self.lock().last_manager_write
    }

    /// From here on nothing may be written.
    pub(crate) fn begin_rest(&self) {
        self.lock().unrest = Unrest::default();
    }

    /// Was it quiet since then? Events are let pass where somebody has a reason to repeat them.
    pub(crate) fn check_rest(&self, may_complain: bool) -> Result<(), String> {
        let unrest = &mut self.lock().unrest;
        if may_complain {
            unrest.events = 0;
        }
        unrest.check()
    }

    pub(crate) fn lines(&self) -> Vec<(MicroTime, String)> {
        let inner = self.lock();
        let lines = inner.lines.iter();
        lines.map(|line| (line.at, line.to_string())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

impl Unrest {
    fn note(&mut self, method: &Method, path: &str, body: &Bytes, answer: u16) {
        if path.ends_with("/events") || path.contains("/events/") {
            self.events += 1;
        } else if answer < 400 {
            self.written += 1;
        } else {
            let mut hash = FxHasher::default();
            hash.write(method.as_str().as_bytes());
            hash.write(path.as_bytes());
            hash.write(body);
            *self.refused.entry(hash.finish()).or_default() += 1;
        }
    }

    /// What the server refuses changes nothing: it may be tried again, and told, for as long as the reason lasts (a
    /// StatefulSet whose pod's name is taken waits for ever, as upstream). But each time the wait doubles: it is longer
    /// than the time of rest when that begins, so nothing is tried twice in it.
    fn check(&self) -> Result<(), String> {
        let (written, events) = (self.written, self.events);
        let refused: u64 = self.refused.values().sum();
        if written > 0 || events > refused {
            let all = written + events;
            return Err(format!(
                "managers wrote {all} times although everything has converged"
            ));
        }
        match self.refused.values().find(|tries| **tries > 1) {
            Some(tries) => Err(format!(
                "managers tried the same thing {tries} times although it was refused: their back-off does not grow"
            )),
            None => Ok(()),
        }
    }
}

impl Inner {
    fn push(&mut self, line: Line) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// Where its writes are counted.
fn number(actor: Actor) -> usize {
    match actor {
        Actor::User => 0,
        Actor::Nodes => 1,
        Actor::Manager(..) => 2,
    }
}

/// The time of day is enough: runs last minutes, and every run begins on the same day.
pub(crate) fn time_of_day(at: MicroTime) -> String {
    at.to_string()[11..23].to_owned()
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, actor) = (time_of_day(self.at), self.actor);
        match &self.text {
            Text::Write(method, path, answer) => {
                let brief = path
                    .split_once("/namespaces/")
                    .map_or(path.as_str(), |(_, rest)| rest);
                write!(f, "{time} {actor:<18} {method} {brief} -> {answer}")
            }
            Text::Remark(text) => write!(f, "{time} {actor:<18} {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_no_writes_as_long_as_they_become_rarer() {
        let told = |writes: &[(&'static str, &str, u16)]| {
            let mut unrest = Unrest::default();
            for (path, body, answer) in writes {
                let body = Bytes::copy_from_slice(body.as_bytes());
                unrest.note(&Method::POST, path, &body, *answer);
            }
            unrest.check().err().unwrap_or_default()
        };
        let (pods, events) = ("/api/v1/namespaces/n/pods", "/api/v1/namespaces/n/events");
        assert_eq!(told(&[]), "");
        let unrest = "managers wrote 1 times although everything has converged";
        assert_eq!(told(&[(pods, "a", 201)]), unrest);
        assert_eq!(told(&[(events, "a", 201)]), unrest);
        let each_once = [(pods, "a", 409), (pods, "b", 409), (events, "a", 200)];
        assert_eq!(told(&each_once), "");
        let fast = "managers tried the same thing 2 times although it was refused: their back-off does not grow";
        assert_eq!(told(&[(pods, "a", 409), (pods, "a", 409)]), fast);
    }
}
