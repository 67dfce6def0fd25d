//! What was found in a namespace, and the five conditions that say so. Pure.

use std::collections::BTreeMap;

use api::conditions::ConditionStatus;
use api::decision::{Line, agree, counted};
use api::{Condition, Istr, Time};

/// What one sync of emptying came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub discovery_failure: Option<String>,
    /// Failures to delete or to list, one for each resource.
    pub content_failures: Vec<String>,
    /// Resources with something left, such as `pods.`: how many.
    pub remaining: BTreeMap<String, usize>,
    /// Finalizers on what is left: how many objects carry them.
    pub finalizers: BTreeMap<String, usize>,
    /// How long what is left may take by itself.
    pub estimate_seconds: i64,
    /// Pods are left, and the rest has not been looked at yet.
    pub pods_first: bool,
}

/// Type, reason and message of each condition while all is well.
const GOOD: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// Sets all five conditions; says whether anything changed.
pub fn update_conditions(held: &mut Vec<Condition>, findings: &Findings, now: Time) -> bool {
    let mut changed = false;
    for (type_, reason, message) in GOOD {
        let (status, reason, message) = match findings.bad(type_) {
            Some((reason, message)) => (ConditionStatus::True, reason, message),
            None => (ConditionStatus::False, reason, message.to_owned()),
        };
        let Some(old) = held.iter_mut().find(|old| old.type_ == type_) else {
            held.push(Condition::new(type_, status, reason, message, now));
            changed = true;
            continue;
        };
        if old.status == status && old.reason == reason && *old.message == *message {
            continue;
        }
        if old.status != status {
            old.last_transition_time = Some(now);
        }
        old.status = status;
        old.reason = Istr::new(reason);
        old.message = message.into();
        changed = true;
    }
    changed
}

impl Findings {
    /// Why the sync has to be done again soon, if it has to.
    pub fn failure(&self) -> Option<String> {
        let mut texts: Vec<&str> = Vec::new();
        let all = self.discovery_failure.iter().chain(&self.content_failures);
        for text in all {
            if !texts.contains(&text.as_str()) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [] => None,
            [only] => Some((*only).to_owned()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }

    /// For an operator: what is left, and who holds it.
    pub fn lines(&self) -> Vec<Line> {
        let left = |(resource, count): (&String, &usize)| {
            let resource = resource.trim_end_matches('.');
            let what = format!("waits until all {resource} are gone");
            let are = agree(*count, "is", "are");
            Line::waits("ContentRemains", what).because(format!("{count} {are} left"))
        };
        let held = |(finalizer, count): (&String, &usize)| {
            let objects = counted(*count, "object");
            let what = format!("waits for {objects} with finalizer {finalizer}");
            Line::waits("FinalizersRemain", what).hint(
                "the controller that set the finalizer has to remove it; see what owns the objects",
            )
        };
        let mut lines: Vec<Line> = self.remaining.iter().map(left).collect();
        lines.extend(self.finalizers.iter().map(held));
        if self.pods_first {
            let line = Line::waits("PodsFirst", "waits with everything else");
            lines.push(line.because("pods go first"));
        }
        if self.estimate_seconds > 0 {
            let what = format!("checks again in at most {} s", self.estimate_seconds);
            lines.push(Line::waits("GracePeriods", what).because("deletion may take that long"));
        }
        lines.extend(self.failure().map(|failure| {
            Line::states("ContentFailure", "could not delete everything").because(failure)
        }));
        if lines.is_empty() {
            lines.push(Line::acts("Finalizes", "removes its finalizer").because("it is empty"));
        }
        lines
    }

    fn bad(&self, type_: &str) -> Option<(&'static str, String)> {
        // UPSTREAM: while pods are left the totals are not reported.
        let counted = !self.pods_first;
        match type_ {
            "NamespaceDeletionDiscoveryFailure" => {
                let failure = self.discovery_failure.clone()?;
                Some(("DiscoveryFailed", failure))
            }
            "NamespaceDeletionContentFailure" if !self.content_failures.is_empty() => {
                let mut failures = self.content_failures.clone();
                failures.sort();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failures.len(),
                    failures.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if counted && !self.remaining.is_empty() => {
                let counts = joined(&self.remaining, |resource, count| {
                    format!("{resource} has {count} resource instances")
                });
                let message = format!("Some resources are remaining: {counts}");
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if counted && !self.finalizers.is_empty() => {
                let counts = joined(&self.finalizers, |finalizer, count| {
                    format!("{finalizer} in {count} resource instances")
                });
                let message =
                    format!("Some content in the namespace has finalizers remaining: {counts}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

fn joined(counts: &BTreeMap<String, usize>, text: impl Fn(&str, usize) -> String) -> String {
    let mut texts: Vec<String> = counts
        .iter()
        .map(|(name, count)| text(name, *count))
        .collect();
    texts.sort();
    texts.join(", ")
}
