//! What a controller decided about an object, and why: typed from the plan to the last printer.
//!
//! A plan's reasons become [`Line`]s, the reconcile loop keeps them as [`Decision`]s, the debug endpoint serves
//! these as JSON, and `steersman why`, `preview` and the dashboard read the same types back. Nobody parses a
//! sentence: what a program needs to know stands in a field.

pub mod controllers;
pub mod reasons;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Istr, Key, Meta, MicroTime, Resource, ResourceType, Time, Uid};

/// The controllers of a process: nothing is to be expected of those that are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// None while another process leads.
    pub running: Vec<Cow<'static, str>>,
    /// Those that were chosen and that their own configuration turns off.
    pub skipped: Vec<Cow<'static, str>>,
}

/// Names one object of one kind: a recreated namesake is another one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    /// The API group; empty for the core group. A custom resource called `Job` is not a Job.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub group: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub namespace: Istr,
    pub name: Arc<str>,
    /// Empty where it is not known.
    #[serde(default, skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
}

fn is_empty(text: &Istr) -> bool {
    text.is_empty()
}

impl ObjectId {
    pub fn of<K: Resource>(object: &K) -> ObjectId {
        ObjectId::new(&K::TYPE, object.meta())
    }

    pub fn new(resource: &ResourceType, meta: &Meta) -> ObjectId {
        ObjectId {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
        }
    }

    /// An object that is known by its name alone.
    pub fn named<K: Resource>(key: &Key) -> ObjectId {
        ObjectId {
            group: K::TYPE.group.clone(),
            kind: K::TYPE.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: Uid::default(),
        }
    }

    pub fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// `Deployment default/web`
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What kind of sentence a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The controller does something.
    Acts,
    /// It will do something, but not yet.
    Waits,
    /// How things are.
    States,
}

/// One line of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub class: Class,
    /// The name of the typed reason, such as `ScalesUp`: for programs, and stable across wording.
    pub reason: Cow<'static, str>,
    /// The object that the line concerns, where that is not the one that the decision is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Box<ObjectId>>,
    /// `scales web-1 from 3 to 2`
    pub what: Cow<'static, str>,
    /// `enough pods are available without them`; empty where there is no more to say.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub why: Cow<'static, str>,
    /// When it happens, if only time has to pass: `progress deadline`, `is evicted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// What a user can do about it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub hint: Cow<'static, str>,
}

impl Line {
    pub fn acts(reason: &'static str, what: impl Into<Cow<'static, str>>) -> Line {
        Line::new(Class::Acts, reason, what.into())
    }

    pub fn waits(reason: &'static str, what: impl Into<Cow<'static, str>>) -> Line {
        Line::new(Class::Waits, reason, what.into())
    }

    pub fn states(reason: &'static str, what: impl Into<Cow<'static, str>>) -> Line {
        Line::new(Class::States, reason, what.into())
    }

    fn new(class: Class, reason: &'static str, what: Cow<'static, str>) -> Line {
        Line {
            class,
            reason: Cow::Borrowed(reason),
            object: None,
            what,
            why: Cow::Borrowed(""),
            until: None,
            hint: Cow::Borrowed(""),
        }
    }

    #[must_use]
    pub fn because(mut self, why: impl Into<Cow<'static, str>>) -> Line {
        self.why = why.into();
        self
    }

    #[must_use]
    pub fn until(mut self, at: impl Into<Option<Time>>) -> Line {
        self.until = at.into();
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Line {
        self.hint = hint.into();
        self
    }

    #[must_use]
    pub fn about(mut self, object: ObjectId) -> Line {
        self.object = Some(Box::new(object));
        self
    }

    /// Does it say the same as another but for numbers and times?
    pub fn repeats(&self, other: &Line) -> bool {
        (self.class, &self.reason, &self.object) == (other.class, &other.reason, &other.object)
    }

    /// How much memory its texts and its object take.
    pub fn bytes(&self) -> usize {
        let object = self.object.as_deref();
        let object = object.map_or(0, |object| size_of::<ObjectId>() + object.name.len());
        self.what.len() + self.why.len() + self.hint.len() + object
    }
}

/// `what at 2026-01-01T09:43:07Z: why`
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(at) = self.until {
            write!(f, " at {at}")?;
        }
        match &*self.why {
            "" => Ok(()),
            why => write!(f, ": {why}"),
        }
    }
}

/// A number and its noun, which agree: `1 pod`, `3 pods`.
pub fn counted<N: Copy + PartialEq + From<u8> + fmt::Display>(
    count: N,
    noun: &str,
) -> impl fmt::Display {
    let plural = agree(count, "", "s");
    fmt::from_fn(move |f| write!(f, "{count} {noun}{plural}"))
}

/// The word that agrees with a number: `agree(count, "is", "are")`.
pub fn agree<N: PartialEq + From<u8>>(
    count: N,
    one: &'static str,
    many: &'static str,
) -> &'static str {
    match count == N::from(1) {
        true => one,
        false => many,
    }
}

/// One plan, and how often in a row it was made again unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When it was made first.
    #[serde(rename = "time")]
    pub at: MicroTime,
    /// When it was made last.
    #[serde(rename = "lastTime")]
    pub last_at: MicroTime,
    pub count: u64,
    /// One for each step of the plan, with its reason; none when there was nothing to do.
    pub lines: Arc<[Line]>,
    /// Why it could not be carried out, the last time that it could not; none once it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Arc<str>>,
}

impl Decision {
    /// How much memory its texts take.
    pub fn bytes(&self) -> usize {
        self.lines.iter().map(Line::bytes).sum()
    }

    /// Does another say the same but for numbers and times?
    pub fn repeats(&self, lines: &[Line]) -> bool {
        let pairs = self.lines.iter().zip(lines);
        self.lines.len() == lines.len() && pairs.into_iter().all(|(one, two)| one.repeats(two))
    }
}

/// What one controller decided about one object, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    pub controller: Cow<'static, str>,
    pub object: ObjectId,
    pub decisions: Vec<Decision>,
}

/// A plan that says why.
pub trait Explain {
    fn explain(&self) -> Vec<Line>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let line = Line::waits("TimesOutAt", "progress deadline")
            .because("2 new pods are not available yet")
            .until(Time::from_unix(60))
            .hint("kubectl describe pod web-2")
            .about(ObjectId {
                group: "apps".into(),
                kind: "ReplicaSet".into(),
                namespace: "default".into(),
                name: "web-1".into(),
                uid: Uid::default(),
            });
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            r#"{"class":"waits","reason":"TimesOutAt","object":{"group":"apps","kind":"ReplicaSet","namespace":"default","name":"web-1"},"what":"progress deadline","why":"2 new pods are not available yet","until":"1970-01-01T00:01:00Z","hint":"kubectl describe pod web-2"}"#
        );
        assert_eq!(serde_json::from_str::<Line>(&json).unwrap(), line);
        assert_eq!(
            line.to_string(),
            "progress deadline at 1970-01-01T00:01:00Z: 2 new pods are not available yet"
        );
    }

    #[test]
    fn lines_that_differ_in_numbers_alone_repeat_each_other() {
        let creates = |count: usize| {
            let what = format!("creates {}", counted(count, "pod"));
            Line::acts("CreatesPods", what)
        };
        assert!(creates(1).repeats(&creates(2)));
        assert!(!creates(1).repeats(&Line::waits("CreatesPods", "creates 1 pod")));
    }

    #[test]
    fn nouns_and_verbs_agree_with_numbers() {
        assert_eq!(counted(1_i32, "pod").to_string(), "1 pod");
        assert_eq!(counted(0_usize, "pod").to_string(), "0 pods");
        assert_eq!(counted(2_i64, "old pod").to_string(), "2 old pods");
        assert_eq!(
            [agree(1, "is", "are"), agree(3, "is", "are")],
            ["is", "are"]
        );
    }
}
