use super::super::proportions::share;
use super::{planned, snapshot};

// Upstream: TestScale, TestActiveReplicaSetsFiltering.
#[test]
fn sets_keep_their_share_of_the_whole() {
    let cases = [
        ("replicas=12 was=10 | new:10", "new 10->12"),
        ("replicas=5 was=10 | new:10", "new 10->5"),
        ("replicas=10 was=5 | old:3 new:2", "old 3->6, new 2->4"),
        ("replicas=3 was=5 | old:3 new:2", "old 3->2, new 2->1"),
        ("replicas=4 was=9 | old:1 new:8", "new 8->4, old 1->0"),
        (
            "replicas=10 was=7 | a:2 b:3 new:2",
            "b 3->4, new 2->3, a 2->3",
        ),
        (
            "replicas=8 was=13 | a:3 b:8 new:2",
            "b 8->5, a 3->2, new 2->1",
        ),
        // Sets without pods get no share.
        (
            "replicas=10 was=5 | gone:0 old:3 new:2",
            "old 3->6, new 2->4",
        ),
        // What rounding leaves goes to the newest of equal ones, and comes from the oldest.
        (
            "replicas=4 was=3 | a:1 b:1 new:1",
            "new 1->2, b noted, a noted",
        ),
        (
            "replicas=2 was=3 | a:1 b:1 new:1",
            "a 1->0, b noted, new noted",
        ),
        ("replicas=5 was=4 | a:2 b:2", "b 2->3, a noted"),
        (
            "replicas=0 was=6 | a:1 b:2 new:3",
            "new 3->0, b 2->0, a 1->0",
        ),
        // Surge is shared as well.
        (
            "replicas=20 was=10 surge=2 | old:6 new:6",
            "new 6->11, old 6->11",
        ),
        (
            "replicas=50 was=10 surge=6 | old:8,max=13 new:5,max=13",
            "old 8->34, new 5->22",
        ),
        // A new template waits until the scaling is done.
        ("replicas=14 was=10 | a:3 b:7", "b 7->10, a 3->4"),
        // One that failed to get its share before gets it now.
        ("replicas=5 | a:1 b:1,desired=3,max=3 new:2", "b 1->2"),
        // With a limit that says it had room for five already, the rest goes to the largest.
        ("replicas=5 | a:1 b:1,desired=3 new:2", "new 2->3, b noted"),
    ];
    for (text, expected) in cases {
        assert_eq!(planned(text), expected, "{text}");
    }
}

#[test]
fn the_only_set_with_pods_is_resized_or_else_the_newest() {
    let cases = [
        ("replicas=6 paused | a:0 b:0 new:0", "new 0->6"),
        ("replicas=6 paused | a:0 b:0", "b 0->6"),
        ("replicas=6 paused | a:2 b:0 new:0", "a 2->6"),
        ("replicas=6 paused |", ""),
        // Recreate with two sets that have pods, the resized one among them: upstream never leaves it.
        ("replicas=6 was=4 recreate | a:2 new:2", "a 2->0"),
        ("replicas=6 was=4 recreate paused | a:2 new:2", ""),
        ("replicas=6 was=4 recreate | a:0 new:2", "new 2->6"),
    ];
    for (text, expected) in cases {
        assert_eq!(planned(text), expected, "{text}");
    }
}

#[test]
fn a_saturated_new_set_takes_it_all() {
    assert_eq!(
        planned("replicas=2 paused surge=1 | a:1 b:1 new:2"),
        "a 1->0, b 1->0"
    );
    // One that is broken does not.
    assert_eq!(planned("replicas=2 paused surge=1 | a:1 new:2/0"), "");
}

// Upstream has no test of it: there the annotation stays wrong, and no rollout ever comes.
#[test]
fn a_set_that_has_the_size_already_is_noted_and_then_rolled_out() {
    assert_eq!(planned("replicas=5 | a:5,desired=3"), "a noted");
    assert_eq!(planned("replicas=5 | a:5"), "create 0, a 5->4");
    assert_eq!(planned("replicas=5 paused | a:5,desired=-"), "");
}

// Upstream: TestGetReplicaSetFraction.
#[test]
fn shares() {
    let check = |head: &str, set: &str, to_add, added| {
        let snapshot = snapshot(&format!("{head} | {set}"));
        share(&snapshot.sets[0], &snapshot.deployment, to_add, added)
    };
    // 12 of 12 before, 24 now.
    assert_eq!(check("replicas=22 surge=2", "new:6,max=12", 12, 0), 6);
    // Never more than is left.
    assert_eq!(check("replicas=22 surge=2", "new:6,max=12", 12, 9), 3);
    assert_eq!(check("replicas=4", "new:6,max=12", -8, 0), -4);
    assert_eq!(check("replicas=4", "new:6,max=12", -8, -6), -2);
    assert_eq!(check("replicas=0", "new:6,max=12", -12, 0), -6);
    // Rounded to the nearest: 11.7 of 20; with the surge in both sums 59.1 of 130, then 42.3 of 110.
    assert_eq!(check("replicas=20", "new:7,max=12", 8, 0), 5);
    assert_eq!(check("replicas=120 surge=10", "new:50,max=110", 20, 0), 9);
    assert_eq!(check("replicas=100 surge=10", "new:50,max=130", -20, 0), -8);
    assert_eq!(check("replicas=10", "new:6,max=12", -2, 0), -1);
    // Nothing from nothing, and nothing to give.
    assert_eq!(check("replicas=20", "new:0,max=12", 12, 0), 0);
    assert_eq!(check("replicas=20", "new:6,max=12", 0, 0), 0);
    assert_eq!(check("replicas=20", "new:6,max=12", 12, 12), 0);
    // Without a usable annotation the present size of the Deployment counts, if it has one.
    for max in ["-", "0", "x", "-5", "4294967297"] {
        let set = format!("new:6,max={max}");
        assert_eq!(check("replicas=20 status=10/0/0", &set, 10, 0), 6, "{max}");
        assert_eq!(check("replicas=20 status=0/0/0", &set, 10, 0), 0, "{max}");
    }
}
