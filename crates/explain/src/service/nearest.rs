//! Whose labels come nearest to a selector that selects nobody.

use api::LabelSet;
use api::decision::counted;
use api::kinds::WORKLOADS;

use crate::facts::Facts;
use crate::json::{labels, text};
use crate::replicas::wanted;

/// An exact pair of a selector counts more than all near ones.
const EXACT: usize = 1000;
/// The value is right and the key is not: `app.kubernetes.io/name=web` for `app=web`.
const OTHER_KEY: usize = 20;
/// The key is right and the value is not; what values have in common at their beginning is added.
const OTHER_VALUE: usize = 10;

pub(super) fn lines(facts: &Facts, selector: &LabelSet) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(makers(facts, selector));
    let mut scored: Vec<(usize, String, String)> = candidates(facts)
        .map(|(name, own)| (score(selector, &own), difference(selector, &own), name))
        .filter(|(score, _, _)| *score > 0)
        .collect();
    scored.sort_by(|one, other| (other.0, &one.2).cmp(&(one.0, &other.2)));
    if let Some((best, difference, name)) = scored.first() {
        let like_it = scored
            .iter()
            .filter(|other| (&other.0, &other.1) == (best, difference))
            .count();
        let more = match like_it {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        lines.push(format!("the nearest is {name}{more}: {difference}"));
    }
    if lines.is_empty() {
        lines.push(match candidates(facts).count() {
            0 => "there are no pods in its namespace".to_owned(),
            count => format!(
                "{} in its namespace, without a label like these",
                counted(count, "pod")
            ),
        });
    }
    lines
}

fn candidates(facts: &Facts) -> impl Iterator<Item = (String, LabelSet)> {
    let pods = facts.of_kind("Pod");
    pods.map(|pod| (facts.name_of(pod), labels(pod, "/metadata/labels")))
}

/// Owners whose pods would be selected, if they had any.
fn makers<'a>(facts: &'a Facts, selector: &'a LabelSet) -> impl Iterator<Item = String> + use<'a> {
    // The pods of a Job are on their way to an end.
    let kinds = WORKLOADS.iter().map(|one| &*one.resource.kind);
    let owners = kinds
        .filter(|kind| *kind != "Job")
        .flat_map(|kind| facts.of_kind(kind));
    let owners = owners.filter(|owner| crate::facts::controller_uid(owner).is_none());
    let would = owners.filter(|owner| {
        let made = labels(owner, "/spec/template/metadata/labels");
        selector
            .iter()
            .all(|(key, value)| made.get(key) == Some(value))
    });
    would.map(|owner| {
        let name = facts.name_of(owner);
        let count = match text(owner, "/kind") {
            "DaemonSet" => owner["status"]["desiredNumberScheduled"].as_i64(),
            _ => Some(wanted(owner)),
        };
        match count {
            Some(0) => format!("{name} creates pods with these labels, and wants none"),
            _ => format!(
                "{name} creates pods with these labels, and none is there: steersman why {name}"
            ),
        }
    })
}

fn score(selector: &LabelSet, own: &LabelSet) -> usize {
    let of_pair = |(key, value): (&str, &str)| match own.get(key) {
        Some(held) if held == value => EXACT,
        Some(held) => OTHER_VALUE + common_start(held, value).min(9),
        None if own.iter().any(|(_, held)| held == value) => OTHER_KEY,
        None => 0,
    };
    selector.iter().map(of_pair).sum()
}

fn common_start(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(one, other)| one == other).count()
}

/// `app=web is there, tier=back instead of front`
fn difference(selector: &LabelSet, own: &LabelSet) -> String {
    let of_pair = |(key, value): (&str, &str)| match own.get(key) {
        Some(held) if held == value => format!("has {key}={value}"),
        Some(held) => format!("has {key}={held} instead of {key}={value}"),
        None => match own.iter().find(|(_, held)| *held == value) {
            Some((other, held)) => format!("has {other}={held} instead of {key}={value}"),
            None => format!("has no label {key}"),
        },
    };
    let parts: Vec<String> = selector.iter().map(of_pair).collect();
    parts.join(", ")
}
