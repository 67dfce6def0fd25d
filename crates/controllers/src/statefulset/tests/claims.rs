//! Who owns claims, in every transition of the retention policy.

use super::super::ClaimOwner;
use super::*;

const POLICIES: [&str; 4] = [
    "",
    "whendeleted=delete",
    "scaled=delete",
    "scaled=delete whendeleted=delete",
];

fn owners(policy: &str, replicas: i32, facts: &str) -> (bool, Vec<String>) {
    let set = set(&format!("replicas={replicas} claims {policy}"));
    let claim = claim(&format!("data-web-0:{facts}"));
    let holder = ClaimOwner::of(&set, &pod("0:ready"), 0);
    let owners = holder.owners(&claim.metadata);
    let text = |owner: &api::OwnerRef| {
        assert_eq!(owner.controller, Some(true));
        format!("{}={}", owner.kind, owner.uid)
    };
    (
        holder.is_up_to_date(&claim.metadata),
        owners.iter().map(text).collect(),
    )
}

// Upstream: TestIsClaimOwnerUpToDate, TestUpdateClaimOwnerRefForSetAndPod, TestGetPersistentVolumeClaimRetentionPolicy.
#[test]
fn each_policy_has_its_owner() {
    let wanted: [(&[&str], &[&str]); 4] = [
        (&[], &[]),
        (&["StatefulSet=set"], &["StatefulSet=set"]),
        (&[], &["Pod=web-0"]),
        (&["StatefulSet=set"], &["Pod=web-0"]),
    ];
    for (policy, (wanted, condemned)) in POLICIES.into_iter().zip(wanted) {
        for (replicas, expected) in [(1, wanted), (0, condemned)] {
            for held in ["", "set", "pod", "set,pod"] {
                let (up_to_date, owners) = owners(policy, replicas, held);
                assert_eq!(owners, expected, "{policy} {replicas} {held}");
                let same = match held {
                    "" => expected.is_empty(),
                    "set" => expected == ["StatefulSet=set"],
                    "pod" => expected == ["Pod=web-0"],
                    _ => false,
                };
                assert_eq!(up_to_date, same, "{policy} {replicas} {held}");
            }
        }
    }
}

// Upstream: TestHasStaleOwnerRef, TestHasUnexpectedController, TestHasOwnerRef.
#[test]
fn claims_of_other_owners_are_left_alone() {
    for policy in &POLICIES[1..] {
        assert!(owners(policy, 1, "other").0, "{policy}");
        assert!(owners(policy, 1, "set=before").0, "{policy}");
        assert!(owners(policy, 1, "pod=before").0, "{policy}");
        let (up_to_date, left) = owners(policy, 1, "other,set");
        assert!(!up_to_date);
        assert_eq!(left, ["Other=boss"], "ours goes, theirs stays");
    }
    let (up_to_date, left) = owners("", 1, "other,pod");
    assert!(!up_to_date);
    assert_eq!(left, ["Other=boss"]);
    assert!(owners("", 1, "other").0);
}

#[test]
fn an_owner_that_does_not_control_is_put_right() {
    for (policy, held) in [
        ("whendeleted=delete", "plainset"),
        ("", "plainset"),
        ("scaled=delete", "plainpod"),
    ] {
        assert!(!owners(policy, 1, held).0, "{policy} {held}");
    }
    assert_eq!(
        owners("whendeleted=delete", 1, "plainset").1,
        ["StatefulSet=set"]
    );
}

// Upstream: TestClaimOwnerUpToDateEdgeCases, TestNonController, TestUpdateClaimControllerRef.
#[test]
fn of_the_right_owner_one_reference_that_controls_is_right() {
    let both = "scaled=delete whendeleted=delete";
    for (policy, replicas, held, expected) in [
        // Condemned: the pod is to own it.
        (both, 0, "pod", true),
        (both, 0, "plainpod", false),
        (both, 0, "pod=before", true),
        (both, 0, "pod,cousin", false),
        (both, 0, "pod,friend", true),
        // Wanted: the set is.
        ("whendeleted=delete", 1, "set", true),
        ("whendeleted=delete", 1, "plainset", false),
        ("whendeleted=delete", 1, "set=before", true),
        ("whendeleted=delete", 1, "set,cousin", false),
        ("whendeleted=delete", 1, "set,friend", true),
        ("whendeleted=delete", 1, "friend", false),
    ] {
        let set = set(&format!("replicas={replicas} claims {policy}"));
        let claim = claim(&format!("data-web-0:{held}"));
        let holder = ClaimOwner::of(&set, &pod("0:ready"), 0);
        assert_eq!(
            holder.is_up_to_date(&claim.metadata),
            expected,
            "{policy} {replicas} {held}"
        );
    }
}

// Upstream: TestNonController.
#[test]
fn an_owner_of_ours_that_does_not_control_is_seen_beside_one_that_does() {
    let set = set("replicas=1 claims");
    let holder = ClaimOwner::of(&set, &pod("0:ready"), 0);
    for (held, expected) in [
        ("set,pod", false),
        ("set,plainpod", true),
        ("plainset,pod", true),
        ("set", false),
        ("pod", false),
        ("", false),
        ("plainset", true),
        ("plainpod", true),
        ("friend", false),
    ] {
        let claim = claim(&format!("data-web-0:{held}"));
        let found = holder.owns_without_control(&claim.metadata);
        assert_eq!(found, expected, "{held}");
    }
    // A reference need not say at all whether it controls.
    let mut owner = holder.owners(&claim("data-web-0:friend").metadata);
    owner[0].uid = set.metadata.uid.clone();
    owner[0].controller = None;
    let mut silent = (*claim("data-web-0")).clone();
    silent.metadata.owners = api::meta::intern_owners(owner);
    assert!(holder.owns_without_control(&silent.metadata));
}

// Upstream: TestUpdateClaimControllerRef. `Kind=uid` of each owner, with a mark if it does not control.
#[test]
fn references_to_the_set_are_written_anew_and_all_others_stay() {
    let updated = |held: Value| {
        let set = set("replicas=1 claims scaled=delete whendeleted=delete");
        let claim = json!({"metadata": {"name": "data-web-0", "ownerReferences": held}});
        let claim = PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap();
        let owners = ClaimOwner::of(&set, &pod("0:ready"), 0).owners(&claim.metadata);
        let text = |owner: &api::OwnerRef| {
            let mark = if owner.controller == Some(true) {
                ""
            } else {
                "?"
            };
            format!("{}={}{mark}", owner.kind, owner.uid)
        };
        owners.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    let owner = |version: &str, kind: &str, uid: &str, controls: bool| {
        json!({
            "apiVersion": version, "kind": kind, "name": "web", "uid": uid,
            "controller": controls.then_some(true),
        })
    };
    let own = |uid, controls| owner("apps/v1", "StatefulSet", uid, controls);
    let other = || owner("example.com/v1", "Else", "other", false);
    assert_eq!(updated(json!([])), "StatefulSet=set");
    assert_eq!(
        updated(json!([own("set", true), other()])),
        "Else=other? StatefulSet=set"
    );
    assert_eq!(updated(json!([own("set", false)])), "StatefulSet=set");
    assert_eq!(
        updated(json!([other()])),
        "Else=other? StatefulSet=set",
        "the name alone says nothing"
    );
    // Without the right uid it is a set of before: its reference goes, and the claim is left alone.
    assert_eq!(updated(json!([own("", true)])), "");
    assert_eq!(updated(json!([own("", false)])), "");
    // By the uid it is us, though of another version.
    let beta = owner("apps/v1beta1", "StatefulSet", "set", false);
    assert_eq!(updated(json!([beta])), "StatefulSet=set?");
}

// Upstream: TestPodClaimIsStale.
#[test]
fn a_claim_of_the_pod_before_is_stale_when_scaling_deletes_claims() {
    let stale = |policy: &str, facts: &str| {
        let set = set(&format!("replicas=1 claims {policy}"));
        let claims = [(
            "data-web-0".to_string(),
            claim(&format!("data-web-0:{facts}")),
        )];
        let holder = ClaimOwner {
            set: &set,
            ordinal: 0,
            uid: Default::default(),
        };
        holder.stale_claim(&claims.into_iter().collect())
    };
    assert_eq!(
        stale("scaled=delete", "pod=before"),
        Some("data-web-0".into())
    );
    assert_eq!(stale("scaled=delete", "set"), None);
    assert_eq!(stale("scaled=delete", ""), None);
    assert_eq!(stale("whendeleted=delete", "pod=before"), None);
}

// Upstream: TestMatchesRef, TestHasUnexpectedController, TestClaimOwnerUpToDateEdgeCases.
#[test]
fn only_controllers_that_are_not_ours_conflict() {
    let conflicts = |policy: &str, facts: &str| {
        let set = set(&format!("replicas=1 claims {policy}"));
        let claims = [(
            "data-web-0".to_string(),
            claim(&format!("data-web-0:{facts}")),
        )];
        let holder = ClaimOwner::of(&set, &pod("0:ready"), 0);
        let work = holder.work(&claims.into_iter().collect());
        !work.conflicting.is_empty()
    };
    for (facts, expected) in [
        ("", false),
        ("other", true),
        ("friend", false),
        ("cousin", true),
        ("set", false),
        ("set=before", true),
        ("pod", false),
        ("pod=before", true),
        ("pod,other", true),
        ("pod,friend", false),
    ] {
        for policy in &POLICIES[1..] {
            assert_eq!(conflicts(policy, facts), expected, "{policy} {facts}");
        }
        assert!(!conflicts("", facts), "who retains does not mind {facts}");
    }
}

// Seed 233 of the simulator: the pod may be on its way out already.
#[test]
fn a_claim_is_bound_to_a_pod_that_the_set_no_longer_wants_and_to_no_other() {
    let bound = |scaled: &str, name: &str, owner: &str| {
        let set = with_claims(stateful_set(2), scaled, "Retain").to_string();
        let set = StatefulSet::decode(set.as_bytes()).unwrap();
        let claim = json!({"metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": "u", "controller": true},
        ]}});
        let claim = PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap();
        let owner = claim.metadata.controller().unwrap();
        super::super::claim_bound(&set, &claim, owner).is_ok()
    };
    assert!(bound("Delete", "data-web-2", "web-2"));
    assert!(!bound("Delete", "data-web-1", "web-1"), "it is wanted");
    assert!(!bound("Delete", "data-web-2", "web-3"), "another's pod");
    assert!(!bound("Retain", "data-web-2", "web-2"), "it is to be kept");
    assert!(bound("Retain", "other-web-2", "web-2"), "nobody's claim");
}
