//! What the products know of the kinds that controllers decide about. A kind that one of them does not know is told of by
//! its decisions alone; that this is meant is written here, so that a new kind is never left out by mistake.

use std::collections::BTreeSet;

use expect_test::expect;

#[test]
fn kinds_that_are_told_of_by_their_decisions_alone_are_known_to_be_so() {
    let built = controllers::built();
    let decided: BTreeSet<&api::ResourceType> = built.flat_map(|one| one.decides_about).collect();
    let mut told = String::new();
    for kind in decided {
        let explained = explain::Kind::all().any(|one| one.resource == *kind);
        let drawn = dashboard::drawn().any(|one| one == kind);
        let lacks = match (explained, drawn) {
            (true, true) => continue,
            (true, false) => "no row in the dashboard",
            (false, true) => "no explanation",
            (false, false) => "no explanation, no row in the dashboard",
        };
        told.push_str(&format!("{kind}: {lacks}\n"));
    }
    expect![[r#"
        configmaps: no explanation, no row in the dashboard
        secrets: no explanation, no row in the dashboard
        validatingadmissionpolicies.admissionregistration.k8s.io: no explanation, no row in the dashboard
        clustertrustbundles.certificates.k8s.io: no explanation, no row in the dashboard
        podcertificaterequests.certificates.k8s.io: no explanation, no row in the dashboard
        storageversions.internal.apiserver.k8s.io: no explanation, no row in the dashboard
        servicecidrs.networking.k8s.io: no explanation, no row in the dashboard
        clusterroles.rbac.authorization.k8s.io: no explanation, no row in the dashboard
        resourcepoolstatusrequests.resource.k8s.io: no explanation, no row in the dashboard
        devicetaintrules.resource.k8s.io: no explanation, no row in the dashboard
        podgroups.scheduling.k8s.io: no explanation, no row in the dashboard
        volumeattributesclasses.storage.k8s.io: no explanation, no row in the dashboard
    "#]].assert_eq(&told);
}

/// The page says that all is well when nothing that it follows is unsettled.
#[test]
fn whatever_is_explained_has_a_row_in_the_dashboard() {
    let is_drawn = |kind: &&explain::Kind| dashboard::drawn().any(|one| *one == kind.resource);
    let left_out = explain::Kind::all().filter(|kind| !is_drawn(kind));
    let left_out: Vec<String> = left_out.map(|kind| kind.resource.to_string()).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}
