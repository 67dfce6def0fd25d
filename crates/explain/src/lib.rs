//! Why is it not done yet? From objects and decisions to plain words. Pure.
//!
//! [`explain`] takes [`Facts`] (an object, what belongs to it, its events, and what the controllers last
//! decided about it) and gives an [`Explanation`]: what is wanted, what is there, what was done and when,
//! what is awaited and until when, what is in the way, and the one command that would help. `steersman why`
//! prints it for an object of a cluster, `steersman preview` for a rollout that does not finish.
//!
//! Objects are read as JSON, not as the controllers' views: a person wants to know about images, probes and
//! exit codes, which no controller reads.

mod autoscaler;
mod budget;
mod certificate;
mod cron_job;
mod deletion;
mod deployment;
mod devices;
mod disruption;
mod facts;
mod finalizers;
mod help;
mod ingress;
mod job;
mod json;
mod kinds;
mod migration;
mod namespace;
mod node;
mod palette;
mod pod;
mod pod_state;
mod print;
mod quota;
mod references;
mod refusal;
mod replicas;
mod scheduling;
mod service;
mod sets;
mod storage;
#[cfg(test)]
mod tests;
mod time;
mod words;

use api::Time;
use api::decision::{Class, Decision, Line, reasons};
use serde::Serialize;

pub use disruption::{Budget, allows_no_disruption, budgets_to_count};
pub use facts::{Facts, Source, group_of, id_of, kind_of};
pub use help::Help;
pub use ingress::backends;
pub use json::{labels, selector_of};
pub use kinds::{AROUND, Kind, Need};
pub use node::{NODE_STOPPED, unknown_nodes_of_pods, unreachable_nodes};
pub use palette::Tone;
pub use pod::{Cause, Problem, problem};
pub use references::{Reference, missing_references};
pub use refusal::{QuotaRefusal, has_refusals, limited_by, refused_by};
pub use replicas::{Overlap, overlaps};
pub use scheduling::{has_unschedulable_pods, lacks_room};
pub use time::human;
pub use words::{Reason, first_sentence};

/// What a person wants to know about one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `deployment/web`
    pub object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub state: State,
    /// The answer in one sentence.
    pub verdict: String,
    pub wants: Vec<String>,
    pub sees: Vec<String>,
    /// Oldest first.
    pub did: Vec<Did>,
    /// What our controllers would do now, where they are not the ones that run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would: Vec<String>,
    pub waits: Vec<String>,
    pub in_the_way: Vec<Obstacle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<Help>,
    /// Where it comes from.
    pub source: String,
    /// What could not be read, and so is not in here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// How things stand, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Nothing to do.
    Settled,
    /// On its way.
    Progressing,
    /// Something has to be done by somebody.
    Stuck,
    /// It is not done, and what could be read does not say why.
    Unknown,
}

/// Something that a controller did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Did {
    pub at: Time,
    pub controller: String,
    pub what: String,
    /// Why it did not succeed, if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Something that has to change before there is progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    /// `pod/web-1`
    pub object: String,
    #[serde(skip)]
    kind: String,
    /// How many more objects have the same problem.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: usize,
    pub why: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// It resolves by itself.
    pub passing: bool,
    /// The verdict says it already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_verdict: bool,
}

impl Obstacle {
    pub(crate) fn of(object: &serde_json::Value, why: impl Into<Reason>) -> Obstacle {
        let (kind, name) = (
            json::text(object, "/kind"),
            json::text(object, "/metadata/name"),
        );
        Obstacle::named(kind, name, why)
    }

    /// That of an object which is known by its name alone.
    pub(crate) fn named(kind: &str, name: &str, why: impl Into<Reason>) -> Obstacle {
        Obstacle {
            object: format!("{}/{name}", kind.to_lowercase()),
            kind: kind.to_owned(),
            more: 0,
            why: why.into(),
            since: None,
            passing: false,
            in_verdict: false,
        }
    }

    #[must_use]
    pub(crate) fn since(mut self, since: impl Into<Option<Time>>) -> Obstacle {
        self.since = since.into();
        self
    }

    #[must_use]
    pub(crate) fn passing(mut self, passing: bool) -> Obstacle {
        self.passing = passing;
        self
    }

    #[must_use]
    pub(crate) fn in_verdict(mut self) -> Obstacle {
        self.in_verdict = true;
        self
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Says why an object is as it is.
pub fn explain(facts: &Facts) -> Explanation {
    let mut draft = Draft::new(facts);
    if let Some(kind) = Kind::of(&facts.object) {
        (kind.explain)(facts, &mut draft);
    }
    draft.finish()
}

/// An explanation in the making.
struct Draft<'a> {
    facts: &'a Facts,
    /// What a controller says that a user can do; the first hint of the last decision.
    hint: String,
    explanation: Explanation,
}

impl<'a> Draft<'a> {
    fn new(facts: &'a Facts) -> Draft<'a> {
        let mut draft = Draft {
            facts,
            hint: String::new(),
            explanation: Explanation {
                object: facts.name_of(&facts.object),
                namespace: facts.namespace().to_owned(),
                state: State::Settled,
                verdict: String::new(),
                wants: Vec::new(),
                sees: Vec::new(),
                did: Vec::new(),
                would: Vec::new(),
                waits: Vec::new(),
                in_the_way: Vec::new(),
                help: None,
                source: facts.source.to_string(),
                missing: facts.missing.clone(),
            },
        };
        draft.add_decisions(&facts.object);
        draft
    }

    fn wants(&mut self, line: impl Into<String>) {
        self.explanation.wants.push(line.into());
    }

    fn sees(&mut self, line: impl Into<String>) {
        self.explanation.sees.push(line.into());
    }

    /// The first help that is offered is given: the cause before the consequences.
    fn offer(&mut self, help: Option<Help>) {
        if self.explanation.help.is_none() {
            self.explanation.help = help;
        }
    }

    fn conclude(&mut self, state: State, verdict: impl Into<String>) {
        self.explanation.state = state;
        self.explanation.verdict = verdict.into();
    }

    /// Adds what controllers decided about an object.
    fn add_decisions(&mut self, object: &serde_json::Value) {
        let about = self.facts.name_of(object);
        let own = std::ptr::eq(object, &self.facts.object);
        for decided in self.facts.decisions_about(object) {
            let last = decided.decisions.len().saturating_sub(1);
            for (index, decision) in decided.decisions.iter().enumerate() {
                for line in decision.lines.iter() {
                    let text = match own {
                        true => time::sentence(line, self.facts.now),
                        false => format!("{about} {}", time::sentence(line, self.facts.now)),
                    };
                    self.add_line(
                        &decided.controller,
                        decision,
                        line,
                        (own, index == last),
                        text,
                    );
                }
            }
        }
    }

    fn add_line(
        &mut self,
        controller: &str,
        decision: &Decision,
        line: &Line,
        (own, last): (bool, bool),
        text: String,
    ) {
        if last && own && self.hint.is_empty() {
            self.hint = line.hint.to_string();
        }
        match line.class {
            Class::Acts if matches!(self.facts.source, Source::Objects(_)) => {
                self.explanation.would.push(text);
            }
            Class::Acts => self.explanation.did.push(Did {
                at: decision.last_at.time(),
                controller: controller.to_owned(),
                what: text,
                failure: decision
                    .failure
                    .as_deref()
                    .filter(|_| last)
                    .map(str::to_owned),
            }),
            // The cleaner decides once an hour, and the object has changed since: when it is due is read from that.
            Class::Waits if line.reason == reasons::CLEANED_UP => {}
            Class::Waits if last => self.explanation.waits.push(text),
            // Two controllers may see the same.
            Class::States if last && own && !self.explanation.sees.contains(&text) => {
                self.explanation.sees.push(text);
            }
            Class::Waits | Class::States => {}
        }
    }

    /// Of what controllers see now, sees what is to be kept alone: the explanation says the rest in its own words.
    fn see_decisions(&mut self, keep: impl Fn(&Line) -> bool) {
        self.explanation.sees.clear();
        for decided in self.facts.decisions_about(&self.facts.object) {
            let last = decided.decisions.last().into_iter();
            for line in last.flat_map(|decision| decision.lines.iter()) {
                let text = time::sentence(line, self.facts.now);
                let is_new = !self.explanation.sees.contains(&text);
                if line.class == Class::States && is_new && keep(line) {
                    self.explanation.sees.push(text);
                }
            }
        }
    }

    /// Adds an obstacle, or counts it with an equal one.
    fn in_the_way(&mut self, obstacle: Obstacle) {
        let held = self.explanation.in_the_way.iter_mut();
        let mut same =
            held.filter(|held| (&held.kind, &held.why) == (&obstacle.kind, &obstacle.why));
        if let Some(held) = same.next() {
            held.more += 1;
            held.since = held.since.into_iter().chain(obstacle.since).min();
            return;
        }
        self.explanation.in_the_way.push(obstacle);
    }

    /// Concludes that it is progressing, unless too little could be read to know.
    fn conclude_progressing(&mut self, count: &str, verdict: String) {
        match self.facts.unread_inputs() {
            unread if unread.is_empty() => self.conclude(State::Progressing, verdict),
            unread => self.conclude(
                State::Unknown,
                format!("is not done: {count}; why is unknown without its {unread}"),
            ),
        }
    }

    fn finish(mut self) -> Explanation {
        deletion::explain(self.facts, &mut self);
        if self.explanation.state != State::Settled || !self.explanation.waits.is_empty() {
            let hint = std::mem::take(&mut self.hint);
            self.offer(help::hint(hint));
        }
        if self.explanation.state == State::Stuck {
            let command = format!("describe {}", self.explanation.object);
            self.offer(help::on(self.facts, &command, "shows its events"));
        }
        let explanation = &mut self.explanation;
        explanation.did.sort_by_key(|did| did.at);
        let surplus = explanation.did.len().saturating_sub(DID_MAX);
        explanation.did.drain(..surplus);
        explanation.in_the_way.truncate(OBSTACLES_MAX);
        if explanation.verdict.is_empty() {
            explanation.verdict = match (explanation.waits.first(), explanation.did.last()) {
                (Some(wait), _) => wait.clone(),
                (None, Some(did)) => format!("nothing is in the way; last: {}", did.what),
                (None, None) if explanation.sees.is_empty() => {
                    "no controller of this manager has decided anything about it".to_owned()
                }
                (None, None) => "nothing to do".to_owned(),
            };
        }
        self.explanation
    }
}

/// What was done before that is no news any more.
const DID_MAX: usize = 8;

/// Who has more problems than this has to solve the first ones first.
const OBSTACLES_MAX: usize = 12;
