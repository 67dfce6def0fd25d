//! Which tokens are unused, and what comes next for them. Pure.

use std::time::Duration;

use api::decision::Line;
use api::kinds::{SERVICE_ACCOUNT_TOKEN, Secret, ServiceAccount};
use api::{MicroTime, Time};
use runtime::Store;

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
pub(super) const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// What is younger, or used later, than this is kept.
#[derive(Clone, Debug)]
pub struct Limits {
    today: String,
    kept_from: MicroTime,
    kept_from_day: String,
}

impl Limits {
    pub fn new(now: MicroTime, clean_up_period: Duration) -> Limits {
        let kept_from = now.minus(clean_up_period);
        Limits {
            today: day(now.time()),
            kept_from,
            kept_from_day: day(kept_from.time()),
        }
    }
}

/// A token that is old and unused, as far as its account says auto-generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    invalid_since: Option<String>,
}

/// What comes next for a candidate that no pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is marked, and not long enough.
    Wait,
    MarkInvalid {
        today: String,
    },
    Delete,
}

/// `None` for what has to be kept, whatever pods do.
pub fn candidate(
    secret: &Secret,
    accounts: &Store<ServiceAccount>,
    limits: &Limits,
) -> Option<Candidate> {
    let meta = &secret.metadata;
    if secret.type_ != SERVICE_ACCOUNT_TOKEN
        || meta.created_at.micro() >= limits.kept_from
        || meta.is_terminating()
    {
        return None;
    }
    if let Some(last_used) = meta.labels.get(LAST_USED) {
        // What cannot be read may mean anything: it stays.
        parse_day(last_used)?;
        if *last_used >= *limits.kept_from_day {
            return None;
        }
    }
    if !is_listed(secret, accounts) {
        return None;
    }
    let invalid_since = meta.labels.get(INVALID_SINCE);
    let invalid_since = invalid_since.filter(|text| parse_day(text).is_some());
    Some(Candidate {
        invalid_since: invalid_since.map(str::to_owned),
    })
}

/// Only tokens that their account lists were auto-generated.
fn is_listed(secret: &Secret, accounts: &Store<ServiceAccount>) -> bool {
    let meta = &secret.metadata;
    let name = meta.annotation("kubernetes.io/service-account.name");
    let Some(account) = name.and_then(|name| accounts.find(&meta.namespace, name)) else {
        return false;
    };
    let uid = meta.annotation("kubernetes.io/service-account.uid");
    let same = uid.is_none_or(|uid| uid.is_empty() || account.metadata.uid == uid.into());
    same && account.secrets.iter().any(|held| *held.name == *meta.name)
}

pub fn next_step(candidate: &Candidate, limits: &Limits) -> Step {
    match &candidate.invalid_since {
        None => Step::MarkInvalid {
            today: limits.today.clone(),
        },
        Some(since) if *since >= limits.kept_from_day => Step::Wait,
        Some(_) => Step::Delete,
    }
}

/// `2024-01-31`, at midnight UTC.
pub(super) fn parse_day(text: &str) -> Option<Time> {
    if text.len() != "2006-01-02".len() {
        return None;
    }
    Time::parse(&format!("{text}T00:00:00Z"))
}

fn day(time: Time) -> String {
    let mut text = time.to_string();
    text.truncate("2006-01-02".len());
    text
}

impl From<&Step> for Line {
    fn from(step: &Step) -> Line {
        match step {
            Step::Wait => Line::waits(
                "MarkedInvalid",
                "is kept for a while after it was marked invalid",
            )
            .because("it may still be in use"),
            Step::MarkInvalid { today } => {
                Line::acts("MarksInvalid", format!("marks it invalid since {today}"))
                    .because("it was generated and is not used")
            }
            Step::Delete => Line::acts("DeletesToken", "deletes it")
                .because("it was marked invalid long ago and not used since"),
        }
    }
}
