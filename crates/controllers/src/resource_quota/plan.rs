//! From counts to a status. Pure.

use std::time::Duration;

use api::amounts::Amounts;
use api::decision::{Explain, Line};
use api::kinds::{ResourceQuota, ResourceQuotaStatus};
use api::{Istr, MicroTime};
use runtime::Next;
use serde::Serialize;

use super::count::{Count, Usage};
use super::reason::Reason;

/// What is to be done about one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The status to write, if it is another one.
    pub status: Option<Status>,
    /// A cache is behind the quota: nothing may be written yet.
    pub is_stale: bool,
    pub next: Next,
    pub reasons: Vec<Reason>,
}

/// `status` of a quota.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    pub hard: Amounts,
    pub used: Amounts,
}

/// `awaited` is the revision that caches must have reached before a count of theirs may lower what is used.
pub fn plan(quota: &ResourceQuota, counts: &[Count], awaited: u64, now: MicroTime) -> Plan {
    let hard = &quota.spec.hard;
    let none = Amounts::new();
    let before = quota.status.used.as_ref().unwrap_or(&none);
    // What cannot be counted now stays as it was.
    let mut used = before.clone();
    used.retain(|name, _| hard.contains_key(name));
    let (mut reasons, mut ends) = (Vec::new(), None);
    let mut sums = Amounts::new();
    let mut unlisted: Vec<&Istr> = Vec::new();
    for count in counts {
        match &count.usage {
            Usage::NotListed => {
                let kind = count.kind.clone();
                reasons.push(Reason::NotListed { kind });
                unlisted.extend(&count.tracked);
            }
            Usage::Sum(sum, until) => {
                api::amounts::add(&mut sums, sum);
                ends = ends.into_iter().chain(*until).min();
            }
        }
    }
    // A sum that lacks a part is none.
    sums.retain(|name, _| !unlisted.contains(&name));
    used.extend(sums);
    let behind = counts
        .iter()
        .filter(|count| count.revision < awaited)
        .find(|count| {
            let mut tracked = count.tracked.iter();
            tracked.any(|name| before.get(name) > used.get(name) && used.contains_key(name))
        });
    if let Some(count) = behind {
        let kind = count.kind.clone();
        return Plan {
            status: None,
            is_stale: true,
            next: Next::AwaitChange,
            reasons: vec![Reason::Stale { kind }],
        };
    }
    for name in hard.keys().filter(|name| !used.contains_key(*name)) {
        if !unlisted.contains(&name) {
            let resource = name.clone();
            reasons.push(Reason::Uncountable { resource });
        }
    }
    let is_dirty = enforced(&quota.status) != hard || *before != used;
    if is_dirty {
        reasons.insert(0, Reason::counts(before, &used));
    }
    reasons.extend(hard.iter().filter_map(|(name, most)| {
        let used = used.get(name)?;
        (used >= most).then(|| Reason::Exhausted {
            resource: name.clone(),
            used: used.clone(),
            hard: most.clone(),
        })
    }));
    Plan {
        status: is_dirty.then(|| Status {
            hard: hard.clone(),
            used,
        }),
        is_stale: false,
        next: Next::after_first([ends.map(|until| after_end(until, now))]),
        reasons,
    }
}

/// How long until a pod no longer counts that counts up to and including `until`.
pub(super) fn after_end(until: MicroTime, now: MicroTime) -> Duration {
    until.since(now) + MOMENT
}

/// The smallest step of time that tells two moments apart.
const MOMENT: Duration = Duration::from_millis(1);

/// What the API server holds requests against. It stores no empty list.
fn enforced(status: &ResourceQuotaStatus) -> &Amounts {
    static NONE: Amounts = Amounts::new();
    status.hard.as_ref().unwrap_or(&NONE)
}

/// Does the quota ask for something that its status does not tell yet, although it could?
pub(super) fn is_uncounted(quota: &ResourceQuota, can_count: impl Fn(&str) -> bool) -> bool {
    let hard = enforced(&quota.status);
    if *hard != quota.spec.hard {
        return true;
    }
    hard.keys().any(|name| {
        let is_known = quota
            .status
            .used
            .as_ref()
            .is_some_and(|used| used.contains_key(name));
        !is_known && can_count(name)
    })
}

impl Plan {
    /// What has to be tried again.
    pub fn failure(&self) -> Option<String> {
        let failures: Vec<String> = self.reasons.iter().filter_map(Reason::failure).collect();
        (!failures.is_empty()).then(|| failures.join("; "))
    }
}

impl Explain for Plan {
    fn explain(&self) -> Vec<Line> {
        self.reasons.iter().map(Reason::line).collect()
    }
}
