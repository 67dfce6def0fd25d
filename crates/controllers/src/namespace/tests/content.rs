//! What to make of what is left.

use super::super::content::{grace_estimate, what_is_left};
use api::kinds::Pod;
use api::{Istr, Meta, Resource, Time};

fn pods(texts: &[(i64, &str)]) -> Vec<bytes::Bytes> {
    texts
        .iter()
        .map(|(grace, phase)| {
            format!(
                r#"{{"spec":{{"terminationGracePeriodSeconds":{grace}}},"status":{{"phase":"{phase}"}}}}"#
            )
            .into()
        })
        .collect()
}

// Upstream: TestSyncNamespaceThatIsTerminating has the estimates.
#[test]
fn the_longest_grace_period_counts_while_it_lasts() {
    let pods = pods(&[(30, "Running"), (90, "Failed"), (10, "Pending")]);
    let at = |seconds| {
        grace_estimate(
            &pods,
            Time::from_unix(100),
            Time::from_unix(seconds).micro(),
        )
    };
    assert_eq!(at(100), 30);
    assert_eq!(at(129), 30);
    assert_eq!(at(130), 0);
    assert_eq!(
        grace_estimate(&[], Time::from_unix(1), Time::from_unix(2).micro()),
        0
    );
}

fn left(finalizers: &[&str], estimate: i64) -> (usize, i64, Option<String>) {
    let meta = Meta {
        finalizers: api::meta::intern_names(finalizers.iter().map(|one| Istr::new(one)).collect()),
        ..Meta::default()
    };
    let left = what_is_left(&Pod::TYPE, "ns", &[meta.clone(), meta], estimate);
    (left.count, left.estimate_seconds, left.failure)
}

#[test]
fn what_needs_time_and_what_should_not_be_there() {
    assert_eq!(left(&[], 20), (2, 20, None));
    assert_eq!(left(&["a/f"], 20), (2, 20, None));
    assert_eq!(left(&["a/f"], 0), (2, 15, None));
    let unexpected = "unexpected items still remain in namespace: ns for gvr: /v1, Resource=pods";
    assert_eq!(left(&[], 0), (2, 0, Some(unexpected.into())));
    assert_eq!(what_is_left(&Pod::TYPE, "ns", &[], 9), Default::default());
}
