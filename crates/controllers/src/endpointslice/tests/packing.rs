//! Which slice an endpoint goes to. Upstream: reconciler_test.go, above all TestReconcileManyPods and those below it.

use expect_test::expect;
use serde_json::json;

use super::case::{Case, case};

/// `p1:ready p2:ready …`, from one number to another.
fn pods(from: usize, to: usize) -> String {
    let names: Vec<String> = (from..=to)
        .map(|number| format!("p{number}:ready"))
        .collect();
    names.join(" ")
}

/// Creations, updates and deletions as counts of endpoints.
fn sizes(case: &Case) -> String {
    let plan = case.plan();
    let family = &plan.families[0];
    let count = |drafts: &[super::super::packing::Draft]| {
        let counts: Vec<String> = drafts
            .iter()
            .map(|draft| draft.members.len().to_string())
            .collect();
        counts.join("+")
    };
    let deleted = family.delete.len();
    let unchanged = family.unchanged;
    format!(
        "create {} update {} delete {deleted} unchanged {unchanged}",
        count(&family.create),
        count(&family.update)
    )
}

// Upstream: TestReconcile1Pod, TestReconcile1EndpointSlice.
#[test]
fn a_pod_makes_a_slice() {
    case("a:ready").check(expect!["create [a]"]);
    case("a:ready b").check(expect!["create [a -b]"]);
    case("a:ready")
        .slice("s", "a:ready")
        .check(expect!["nothing"]);
}

// Upstream: TestReconcile1EndpointSlicePublishNotReadyAddresses, TestPodToEndpoint.
#[test]
fn what_is_not_ready_is_published_as_that_or_as_ready_where_the_service_says_so() {
    let all = json!({"spec": {"publishNotReadyAddresses": true}});
    case("a b:ready,gone c:gone").check(expect!["create [-a -b -c]"]);
    case("a b:ready,gone c:gone")
        .service(all)
        .check(expect!["create [a b c]"]);
}

// Upstream: TestReconcileManyPods.
#[test]
fn many_pods_fill_slices() {
    assert_eq!(
        sizes(&case(&pods(1, 250))),
        "create 100+100+50 update  delete 0 unchanged 0"
    );
}

// Upstream: TestReconcileEndpointSlicesSomePreexisting.
#[test]
fn what_is_missing_goes_into_new_slices_if_no_slice_has_room_for_all() {
    let case = case(&pods(1, 250))
        .slice("a", &pods(1, 62))
        .slice("b", &pods(63, 123));
    assert_eq!(sizes(&case), "create 100 update 89 delete 0 unchanged 1");
}

// Upstream: TestReconcileEndpointSlicesSomePreexistingWorseAllocation.
#[test]
fn slices_that_need_no_change_are_left_alone_even_if_that_makes_more_of_them() {
    let case = case(&pods(1, 300))
        .slice("a", &pods(1, 74))
        .slice("b", &pods(75, 148));
    assert_eq!(sizes(&case), "create 100+52 update  delete 0 unchanged 2");
}

// Upstream: TestReconcileEndpointSlicesUpdating, TestReconcileEndpointSlicesServicesLabelsUpdating.
#[test]
fn another_port_or_label_is_written_to_the_same_slices() {
    let port = json!({"spec": {"ports": [{"name": "http", "protocol": "TCP", "targetPort": 81}]}});
    let case_of = || {
        case(&pods(1, 250))
            .slice("a", &pods(1, 100))
            .slice("b", &pods(101, 200))
            .slice("c", &pods(201, 250))
    };
    let changed = case_of().service(port);
    assert_eq!(
        sizes(&changed),
        "create  update 50+100+100 delete 0 unchanged 0"
    );
    let label = json!({"metadata": {"labels": {"foo": "bar"}}});
    assert_eq!(
        sizes(&case_of().service(label)),
        "create  update 100+100+50 delete 0 unchanged 0"
    );
}

// Upstream: TestReconcileEndpointSlicesServicesReservedLabels.
#[test]
fn reserved_labels_of_a_service_do_not_count() {
    let reserved = json!({"metadata": {"labels": {
        "kubernetes.io/service-name": "x", "endpointslice.kubernetes.io/managed-by": "y",
        "service.kubernetes.io/headless": "z",
    }}});
    case("a:ready")
        .slice("s", "a:ready")
        .service(reserved)
        .check(expect!["nothing"]);
}

// Upstream: TestReconcileEndpointSlicesRecycling.
#[test]
fn slices_that_would_be_deleted_are_written_over() {
    let mut case = case(&pods(1, 300)).most(100);
    for number in 0..10 {
        let held = pods(1000 + number * 30, 1029 + number * 30);
        case = case.slice(&format!("s{number}"), &held);
    }
    assert_eq!(
        sizes(&case),
        "create  update 100+100+100 delete 7 unchanged 0"
    );
}

// Upstream: TestReconcileEndpointSlicesUpdatePacking.
#[test]
fn the_fullest_of_the_slices_that_are_written_are_filled_first() {
    // 95 of a stay, of which one has changed; 20 of b stay as they are, 40 of c of which one has changed.
    let held = format!("{} p200", pods(2, 95));
    let case = case(&format!(
        "{} p200:ready {} p201:ready",
        pods(2, 199),
        pods(300, 310)
    ))
    .slice("a", &held)
    .slice("b", &pods(96, 115))
    .slice("c", &format!("{} p201", pods(116, 155)));
    // 44 + 11 are new: 5 fill a, 50 go to c.
    assert_eq!(sizes(&case), "create  update 100+91 delete 0 unchanged 1");
}

// Upstream: TestReconcileEndpointSlicesReplaceDeprecated.
#[test]
fn slices_of_another_family_are_deleted() {
    let old = json!({"addressType": "IPv6"});
    case("a:ready")
        .slice_with("s", "a:ready", old)
        .check(expect!["create [a] | delete s (other family)"]);
}

// Upstream: TestReconcileEndpointSlicesRecreation.
#[test]
fn slices_of_a_namesake_are_deleted_and_not_reused() {
    let owner = |uid: &str| json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}]}});
    case("a:ready")
        .slice_with("s", "a:ready", owner("u0"))
        .check(expect!["create [a]; delete s"]);
    case("a:ready")
        .slice_with("s", "a:ready", owner("u1"))
        .check(expect!["nothing"]);
    let none = json!({"metadata": {"ownerReferences": null}});
    case("a:ready")
        .slice_with("s", "a:ready", none)
        .check(expect!["create [a]; delete s"]);
    case("")
        .slice_with("s", "", owner("u0"))
        .check(expect!["create [:]; delete s"]);
}

// Upstream: TestReconcileEndpointSlicesNamedPorts.
#[test]
fn pods_with_other_ports_have_other_slices() {
    let named =
        json!({"spec": {"ports": [{"name": "http", "protocol": "TCP", "targetPort": "web"}]}});
    case("a:ready,port=web/81 b:ready,port=web/82 c:ready,port=web/81 d:ready")
        .service(named)
        .check(expect![
            "create [http/81: a c]; create [http/82: b]; create [: d]"
        ]);
}

// Upstream: TestReconcileMaxEndpointsPerSlice.
#[test]
fn the_flag_says_how_many_fit() {
    for (most, expected) in [
        (50, "create 50+50+50+50+50 update  delete 0 unchanged 0"),
        (80, "create 80+80+80+10 update  delete 0 unchanged 0"),
        (150, "create 150+100 update  delete 0 unchanged 0"),
        (250, "create 250 update  delete 0 unchanged 0"),
        (500, "create 250 update  delete 0 unchanged 0"),
    ] {
        assert_eq!(sizes(&case(&pods(1, 250)).most(most)), expected);
    }
}

// Upstream: getSliceToFill, which has no test of its own.
#[test]
fn what_is_left_goes_into_the_one_slice_that_it_fills_best() {
    let with = |sizes: [usize; 3], new: usize| {
        let mut case = case(&format!("{} {}", pods(1, 300), pods(1001, 1000 + new))).most(100);
        let mut first = 1;
        for (name, size) in ["a", "b", "c"].iter().zip(sizes) {
            case = case.slice(name, &pods(first, first + size - 1));
            first += size;
        }
        let last = pods(1, first - 1);
        case.snapshot.pods = format!("{last} {}", pods(1001, 1000 + new))
            .split_whitespace()
            .map(super::case::pod)
            .collect();
        sizes_of(&case)
    };
    assert_eq!(with([20, 50, 90], 10), "update c to 100");
    assert_eq!(with([20, 50, 90], 11), "update b to 61");
    assert_eq!(with([20, 50, 90], 60), "update a to 80");
    assert_eq!(with([20, 50, 90], 99), "create 99");
}

fn sizes_of(case: &Case) -> String {
    let plan = case.plan();
    let family = &plan.families[0];
    let created = family
        .create
        .iter()
        .map(|draft| format!("create {}", draft.members.len()));
    let names = |number: usize| case.snapshot.slices[number].metadata.name.clone();
    let updated = family.update.iter().map(|draft| {
        let name = draft.slice.map(names).unwrap_or_default();
        format!("update {name} to {}", draft.members.len())
    });
    created.chain(updated).collect::<Vec<String>>().join("; ")
}

#[test]
fn one_pod_of_five_thousand_is_one_slice() {
    let mut case = case(&pods(1, 5000));
    for number in 0..50 {
        case = case.slice(
            &format!("s{number:02}"),
            &pods(number * 100 + 1, number * 100 + 100),
        );
    }
    assert_eq!(case.to_text(), "nothing");
    case.snapshot.pods[4321] = super::case::pod("p4322");
    assert_eq!(sizes_of(&case), "update s43 to 100");
    case.snapshot.pods.remove(17);
    case.snapshot.pods.push(super::case::pod("p9000:ready"));
    assert_eq!(sizes_of(&case), "update s43 to 100; update s00 to 100");
}
