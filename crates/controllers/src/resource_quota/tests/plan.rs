//! `hard | status.hard | status.used | kind@revision: sum`, for a quota that was charged at revision 10.

use api::amounts::{Amounts, show};
use api::decision::Explain;
use api::kinds::{Pod, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};
use api::quota::{Evaluator, Item};
use api::{Istr, Meta, Quantity, Resource, Time};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::resource_quota::count::{Recount, recount};
use crate::resource_quota::plan::is_uncounted;
use crate::resource_quota::{Count, Usage, plan};

fn amounts(text: &str) -> Amounts {
    let pairs = text
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, amount)| (Istr::new(name), Quantity::parse(amount).unwrap()))
        .collect()
}

fn quota(text: &str) -> ResourceQuota {
    let parts: Vec<&str> = text.split('|').map(str::trim).collect();
    let known = |text: &str| (text != "none").then(|| amounts(text));
    ResourceQuota {
        metadata: Meta::default(),
        spec: ResourceQuotaSpec {
            hard: amounts(parts[0]),
            ..ResourceQuotaSpec::default()
        },
        status: ResourceQuotaStatus {
            hard: known(parts[1]),
            used: known(parts[2]),
        },
    }
}

/// `pods@12: pods=2`, or `pods@0: pods=?` for what is not listed.
fn count(text: &str) -> Count {
    let (head, sum) = text.split_once(':').unwrap();
    let (kind, revision) = head.trim().split_once('@').unwrap();
    let tracked = sum
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='));
    Count {
        kind: kind.to_owned(),
        tracked: tracked.map(|(name, _)| Istr::new(name)).collect(),
        usage: match sum.contains('?') {
            true => Usage::NotListed,
            false => Usage::Sum(amounts(sum), None),
        },
        revision: revision.parse().unwrap(),
    }
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    check_awaiting(text, 10, expected);
}

#[track_caller]
fn check_awaiting(text: &str, awaited: u64, expected: Expect) {
    let counts: Vec<Count> = text.split('|').skip(3).map(count).collect();
    let plan = plan(&quota(text), &counts, awaited, Time::from_unix(0).micro());
    let mut said: Vec<String> = plan.explain().iter().map(ToString::to_string).collect();
    if let Some(status) = &plan.status {
        let (hard, used) = (show(&status.hard), show(&status.used));
        said.insert(0, format!("write hard {hard} used {used}"));
    }
    said.extend(plan.failure().map(|failure| format!("fail {failure}")));
    expected.assert_eq(&said.join("\n"));
}

// Upstream: TestSyncResourceQuota.
#[test]
fn writes_what_is_used_where_the_status_says_otherwise() {
    check(
        "pods=5 | none | none | pods@10: pods=2",
        expect![[r#"
            write hard pods=5 used pods=2
            counts pods=2"#]],
    );
    check(
        "pods=5 | pods=5 | pods=0 | pods@10: pods=2",
        expect![[r#"
            write hard pods=5 used pods=2
            counts pods=2: it said pods=0"#]],
    );
    check("pods=5 | pods=5 | pods=2 | pods@10: pods=2", expect![""]);
    check("cpu=1 | cpu=1000m | cpu=0 | pods@10: cpu=0", expect![""]);
}

#[test]
fn takes_over_what_the_spec_says_and_forgets_what_it_does_not() {
    check(
        "pods=6 | pods=5 services=1 | pods=2 services=0 | pods@10: pods=2",
        expect![[r#"
            write hard pods=6 used pods=2
            forgets services=0"#]],
    );
    check(" | none | none", expect![""]);
    check(
        "count/foos.x=1 | none | none",
        expect![[r#"
            write hard count/foos.x=1 used 
            takes over the limits of its spec
            count/foos.x is not counted: no kind that is served uses it up, so it limits nothing"#]],
    );
    check(
        "count/foos.x=1 | count/foos.x=1 | none",
        expect![
            "count/foos.x is not counted: no kind that is served uses it up, so it limits nothing"
        ],
    );
}

#[test]
fn sums_of_several_kinds_are_one() {
    check(
        "requests.x/y=5 | requests.x/y=5 | requests.x/y=0 | pods@10: requests.x/y=2 | resourceclaims@10: requests.x/y=1",
        expect![[r#"
            write hard requests.x/y=5 used requests.x/y=3
            counts requests.x/y=3: it said requests.x/y=0"#]],
    );
}

#[test]
fn states_what_is_used_up_and_what_is_not_counted() {
    check(
        "pods=2 count/foos.x=3 | pods=2 count/foos.x=3 | pods=2 | pods@10: pods=2",
        expect![[r#"
            count/foos.x is not counted: no kind that is served uses it up, so it limits nothing
            pods: 2 of 2 used: what would use more is refused"#]],
    );
}

// Upstream: TestSyncResourceQuota, "quota-missing-…" with errors while listing.
#[test]
fn what_cannot_be_listed_stays_as_it_was() {
    check(
        "pods=5 count/foos.x=3 | pods=5 count/foos.x=3 | pods=1 count/foos.x=1 | pods@10: pods=2 | foos.x@0: count/foos.x=?",
        expect![[r#"
            write hard count/foos.x=3,pods=5 used count/foos.x=1,pods=2
            counts pods=2: it said pods=1
            waits for the first listing of foos.x
            fail failed to list content: foos.x not yet synced"#]],
    );
    // One part of a sum is no sum.
    check(
        "requests.x/y=5 | requests.x/y=5 | requests.x/y=4 | pods@10: requests.x/y=2 | resourceclaims@0: requests.x/y=?",
        expect![[r#"
            waits for the first listing of resourceclaims
            fail failed to list content: resourceclaims not yet synced"#]],
    );
}

#[test]
fn does_not_lower_what_is_used_by_a_cache_that_is_behind() {
    let lower = "pods=5 services=5 | pods=5 services=5 | pods=3 services=1 | pods@9: pods=2 | services@9: services=1";
    check(
        lower,
        expect![
            "waits for the cache of pods: the quota was charged for something that it has not seen"
        ],
    );
    check_awaiting(
        lower,
        0,
        expect![[r#"
            write hard pods=5,services=5 used pods=2,services=1
            counts pods=2: it said pods=3"#]],
    );
    // What grows can do no harm, and what is as new as the quota is right.
    check(
        "pods=5 services=5 | pods=5 services=5 | pods=3 services=1 | pods@10: pods=2 | services@9: services=2",
        expect![[r#"
            write hard pods=5,services=5 used pods=2,services=2
            counts pods=2,services=2: it said pods=3,services=1"#]],
    );
}

// Upstream: TestAddQuota.
#[test]
fn a_quota_that_nobody_has_counted_comes_first() {
    let uncounted = |text: &str| is_uncounted(&quota(text), |name| name != "count/foos.x");
    assert!(uncounted("cpu=4 | none | none"), "no status");
    assert!(uncounted("cpu=4 | cpu=6 | cpu=0"), "other limits");
    assert!(uncounted("cpu=4 | cpu=4 | none"), "no usage");
    assert!(
        uncounted("cpu=4 | cpu=4 | memory=1"),
        "usage of something else"
    );
    assert!(!uncounted("cpu=4 | cpu=4 | cpu=0"));
    assert!(
        !uncounted("count/foos.x=4 | count/foos.x=4 | none"),
        "nobody can"
    );
}

// Upstream: TestHasResourcesChanged, DefaultUpdateFilter.
#[test]
fn a_pod_is_counted_again_when_it_counts_for_another_amount() {
    let now = Time::from_unix(1_000_000).micro();
    let pod = |status: serde_json::Value, deadline: Option<i64>, deleted: Option<i64>| {
        let mut metadata = json!({"name": "p"});
        if let Some(after) = deleted {
            metadata["deletionTimestamp"] = json!(Time::from_unix(1_000_000 + after));
            metadata["deletionGracePeriodSeconds"] = json!(30);
        }
        let requests = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
        let container = json!({"name": "c", "resources": requests});
        let spec = json!({"activeDeadlineSeconds": deadline, "containers": [container]});
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        Pod::decode(pod.to_string().as_bytes()).unwrap()
    };
    let has = |cpu: &str| {
        let granted = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        json!({"phase": "Running", "containerStatuses": [{"name": "c", "resources": granted}]})
    };
    let running = || pod(has("1"), None, None);
    let evaluator = Evaluator::of("", "pods");
    let on = |old: &Pod, new: &Pod| recount(&evaluator, &Item::Pod(old), &Item::Pod(new), now);
    assert_eq!(on(&running(), &running()), Recount::Never);
    assert_eq!(on(&running(), &pod(has("2"), None, None)), Recount::Now);
    assert_eq!(on(&pod(has("2"), None, None), &running()), Recount::Now);
    assert_eq!(on(&running(), &pod(has("1"), Some(9), None)), Recount::Now);
    let over = pod(json!({"phase": "Succeeded"}), None, None);
    assert_eq!(on(&running(), &over), Recount::Now);
    assert_eq!(on(&over, &over), Recount::Never);
    // One that is to go counts until its grace period is over twice, or it is gone.
    let marked = pod(has("1"), None, Some(30));
    let until = Time::from_unix(1_000_060).micro();
    assert_eq!(on(&running(), &marked), Recount::At(until));
    assert_eq!(on(&marked, &marked), Recount::Never);
    assert_eq!(
        on(&running(), &pod(has("1"), None, Some(-31))),
        Recount::Now
    );
}
