//! What is known about an object when it is explained.

use std::collections::BTreeSet;
use std::fmt;

use api::decision::{Decided, Started};
use api::{Key, ObjectId, Time, Uid};
use serde_json::Value;

use crate::json::{list, text, truth};
use crate::kinds::{Kind, group_of_kind};

/// Everything that an explanation may rest on. Objects carry their `apiVersion` and `kind`.
#[derive(Clone, Debug)]
pub struct Facts {
    pub now: Time,
    pub source: Source,
    /// What is asked about.
    pub object: Value,
    /// What may have to do with it: sets, pods, budgets, quotas, claims, and for a namespace whatever is left
    /// in it.
    pub related: Vec<Value>,
    pub events: Vec<Value>,
    /// What controllers decided about any of them.
    pub decisions: Vec<Decided>,
    /// Which controllers run where the decisions come from; none where nobody says so.
    pub started: Option<Started>,
    /// What could not be read.
    pub missing: Vec<String>,
    /// The kinds of what could not be read: that there are none of them must not be concluded.
    pub unread: BTreeSet<String>,
    /// What was looked for by kind and name in the object's namespace, and is not there.
    pub absent: BTreeSet<(String, String)>,
}

/// Where the decisions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A manager of ours, at this address.
    Manager(String),
    /// Nobody: the plans were made on a copy of the objects. Why the manager could not be asked.
    Objects(String),
    /// Nobody, and too little could be read for a plan.
    Part(String),
    /// A simulated cluster.
    Simulation,
}

/// Why a controller does not run where the decisions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Off {
    /// Another manager leads.
    Standby,
    LeftOut,
    /// It was chosen, and its own configuration gives it nothing to do.
    Skipped,
}

impl Off {
    pub(crate) fn why(self, controller: &str) -> String {
        match self {
            Off::Standby => "the manager that was asked does not lead".to_owned(),
            Off::LeftOut => {
                format!("{controller} was not started; --controllers chooses which are")
            }
            Off::Skipped => format!("the configuration of {controller} turns it off"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Manager(address) => write!(f, "the controllers themselves, at {address}"),
            Source::Objects(why) => write!(
                f,
                "the objects alone ({why}): what our controllers would decide on a copy of them"
            ),
            Source::Part(why) => write!(
                f,
                "the objects alone ({why}), of which too few could be read to say what our controllers would decide"
            ),
            Source::Simulation => write!(f, "the simulated controllers"),
        }
    }
}

impl Facts {
    pub fn new(now: Time, source: Source, object: Value) -> Facts {
        Facts {
            now,
            source,
            object,
            related: Vec::new(),
            events: Vec::new(),
            decisions: Vec::new(),
            started: None,
            missing: Vec::new(),
            unread: BTreeSet::new(),
            absent: BTreeSet::new(),
        }
    }

    pub(crate) fn is_absent(&self, kind: &str, name: &str) -> bool {
        self.absent.contains(&(kind.to_owned(), name.to_owned()))
    }

    /// Notes that objects of a kind are unknown, and why.
    pub fn could_not_read(&mut self, kind: &str, why: String) {
        self.unread.insert(kind.to_owned());
        if !self.missing.contains(&why) {
            self.missing.push(why);
        }
    }

    /// Why this controller does not run; none where it does, or where nobody says what runs.
    pub(crate) fn off(&self, controller: &str) -> Option<Off> {
        let started = self.started.as_ref()?;
        if started.running.iter().any(|one| one == controller) {
            None
        } else if started.running.is_empty() {
            Some(Off::Standby)
        } else if started.skipped.iter().any(|one| one == controller) {
            Some(Off::Skipped)
        } else {
            Some(Off::LeftOut)
        }
    }

    /// Can our controllers plan on these objects as they would in the cluster?
    pub fn has_inputs_of_a_plan(&self) -> bool {
        self.unread_inputs().is_empty()
    }

    /// What the object's own controller goes by and could not be read: `ReplicaSets and Pods`.
    pub(crate) fn unread_inputs(&self) -> String {
        let inputs = Kind::of(&self.object).map_or(&[][..], |kind| kind.inputs);
        let kinds = inputs.iter().map(|input| &*input.kind);
        let unread = kinds.filter(|kind| self.unread.contains(*kind));
        let unread: Vec<String> = unread.map(|kind| format!("{kind}s")).collect();
        unread.join(" and ")
    }

    /// The object that is asked about and all others.
    pub(crate) fn all_of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let own = Some(&self.object).filter(|_| self.kind() == kind);
        own.into_iter().chain(self.of_kind(kind))
    }

    /// The kind of the object; empty for a custom resource that is merely called like one of the built-in kinds.
    pub(crate) fn kind(&self) -> &str {
        kind_of(&self.object)
    }

    pub(crate) fn namespace(&self) -> &str {
        text(&self.object, "/metadata/namespace")
    }

    /// `pod/web-1`
    pub(crate) fn name_of(&self, object: &Value) -> String {
        let kind = text(object, "/kind").to_lowercase();
        format!("{kind}/{}", text(object, "/metadata/name"))
    }

    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.related
            .iter()
            .filter(move |object| kind_of(object) == kind)
    }

    /// Objects of a kind that an owner controls, by name.
    pub(crate) fn controlled<'a>(&'a self, kind: &'a str, owner: &Value) -> Vec<&'a Value> {
        let uid = text(owner, "/metadata/uid");
        let mut found: Vec<&Value> = self
            .of_kind(kind)
            .filter(|object| controller_uid(object) == Some(uid))
            .collect();
        found.sort_by_key(|object| text(object, "/metadata/name"));
        found
    }

    /// What controllers decided about this very object: a recreated namesake, or one of another group, is another one.
    pub(crate) fn decisions_about(&self, object: &Value) -> Vec<Decided> {
        let asked = id_of(object);
        let is_meant = |decided: &&Decided| {
            let about = &decided.object;
            let is_same = about.uid.is_empty() || asked.uid.is_empty() || about.uid == asked.uid;
            is_same
                && (&about.group, &about.kind) == (&asked.group, &asked.kind)
                && (&about.namespace, &about.name) == (&asked.namespace, &asked.name)
        };
        self.decisions.iter().filter(is_meant).cloned().collect()
    }

    /// The messages of the object's events of a reason, latest first.
    pub(crate) fn messages<'a>(&'a self, object: &Value, reason: &'a str) -> Vec<&'a str> {
        let found = self.events_of(object, reason).into_iter();
        found.map(|event| text(event, "/message")).collect()
    }

    /// The object's events of a reason, latest first.
    pub(crate) fn events_of<'a>(&'a self, object: &Value, reason: &str) -> Vec<&'a Value> {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        let mut found: Vec<&Value> = self
            .events
            .iter()
            .filter(|event| {
                text(event, "/reason") == reason
                    && text(event, "/involvedObject/kind") == kind
                    && text(event, "/involvedObject/name") == name
            })
            .collect();
        found.sort_by_key(|event| std::cmp::Reverse(event_time(event)));
        found
    }
}

/// The kind of an object; empty for a custom resource that is merely called like one of the built-in kinds.
pub fn kind_of(object: &Value) -> &str {
    let kind = text(object, "/kind");
    match group_of_kind(kind) {
        Some(group) if group != group_of(object) => "",
        _ => kind,
    }
}

/// The API group of an object; empty for the core group.
pub fn group_of(object: &Value) -> &str {
    let group = text(object, "/apiVersion").split_once('/');
    group.map_or("", |(group, _)| group)
}

/// Which object it is.
pub fn id_of(object: &Value) -> ObjectId {
    let text = |pointer: &str| text(object, pointer);
    let key = Key::new(text("/metadata/namespace"), text("/metadata/name"));
    ObjectId {
        group: group_of(object).to_owned().into(),
        kind: text("/kind").to_owned().into(),
        namespace: key.namespace,
        name: key.name,
        uid: Uid::parse(text("/metadata/uid")),
    }
}

fn event_time(event: &Value) -> &str {
    let times = [
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    times
        .iter()
        .map(|pointer| text(event, pointer))
        .find(|time| !time.is_empty())
        .unwrap_or_default()
}

pub(crate) fn controller_uid(object: &Value) -> Option<&str> {
    list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| truth(owner, "/controller"))
        .map(|owner| text(owner, "/uid"))
}
