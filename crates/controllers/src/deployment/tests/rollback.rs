use super::planned;

// Upstream: TestReentrantRollback and the rules of rollback.go.
#[test]
fn rolls_back_to_the_requested_revision() {
    let cases = [
        (
            "rollback=0 | a:0 b:0 new:1",
            "DeploymentRollback: Rolled back deployment \"web\" to revision 2",
        ),
        (
            "rollback=1 | a:0 b:0 new:1",
            "DeploymentRollback: Rolled back deployment \"web\" to revision 1",
        ),
        (
            "rollback=7 | a:0 new:1",
            "DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.",
        ),
        (
            "rollback=0 | new:1",
            "DeploymentRollbackRevisionNotFound: Unable to find last revision.",
        ),
        (
            "rollback=2 | a:0 new:1",
            "DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment \"web\"",
        ),
        // The template of now gets its set first, so that it is not lost.
        (
            "rollback=0 | a:1",
            "create 0, DeploymentRollback: Rolled back deployment \"web\" to revision 1",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(planned(&format!("replicas=1 {text}")), expected, "{text}");
    }
}

#[test]
fn an_unparsable_revision_is_no_rollback_request() {
    assert_eq!(planned("replicas=1 rollback=x | new:1"), "");
    assert_eq!(planned("replicas=1 rollback= | new:1"), "");
}

#[test]
fn a_paused_deployment_does_not_roll_back_and_forgets_nothing() {
    assert_eq!(
        planned("replicas=1 paused rollback=0 history=0 | a:0 new:1"),
        ""
    );
}
