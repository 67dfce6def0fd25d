//! The checks that the simulator asks: what the controller says passes, and whatever is wrong in it does not.

use super::super::compute;
use super::super::invariants::{counts_in_time, reported};
use super::*;

struct Given {
    set: DaemonSet,
    nodes: Vec<Arc<Node>>,
    pods: Vec<Arc<Pod>>,
}

/// The set with the status that the controller gives it.
fn given(text: &str) -> Given {
    let snapshot = snapshot(text);
    let mut set = (*snapshot.set).clone();
    set.status = compute(&snapshot, now());
    let nodes = snapshot.nodes.values().map(|(node, _)| node.clone());
    Given {
        set,
        nodes: nodes.collect(),
        pods: snapshot.all_pods().cloned().collect(),
    }
}

impl Given {
    fn told(&self) -> Result<(), String> {
        let gates = Gates::default();
        reported(&self.set, &self.nodes, &self.pods, "new", gates, now())
    }

    fn falsify(&mut self, field: &str) {
        let mut status = serde_json::to_value(&self.set.status).unwrap();
        status[field] = json!(9);
        self.set.status = serde_json::from_value(status).unwrap();
    }
}

#[test]
fn every_field_of_a_status_is_checked() {
    let text = "max=1 min=10 | n1 n2 n3:taint=k/NoSchedule n4 | a@n1:ready,since=5 b@n2:old,ready c@n3:ready";
    assert_eq!(given(text).told(), Ok(()));
    for field in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberMisscheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "observedGeneration",
    ] {
        let mut given = given(text);
        given.falsify(field);
        let told = given.told().unwrap_err();
        let start = format!("default/web: status says {field} 9");
        assert!(told.starts_with(&start), "{field}: {told}");
    }
}

/// Two opinions on where a set runs, and the numbers that both come to.
#[test]
fn nodes_are_judged_alike() {
    let check = |text: &str, desired: i32, misscheduled: i32| {
        let given = given(text);
        let status = &given.set.status;
        let said = (status.desired_number_scheduled, status.number_misscheduled);
        assert_eq!(said, (desired, misscheduled), "{text}");
        assert_eq!(given.told(), Ok(()), "{text}");
    };
    check("node=n2 | n1 n2 |", 1, 0);
    check(
        "selector=disk/ssd | n1 n2:disk=ssd n3:disk=hdd | a@n3:",
        1,
        1,
    );
    check(
        "tolerate=k | n1:taint=k/NoExecute n2:taint=j/NoExecute |",
        1,
        0,
    );
    let automatic = "node.kubernetes.io";
    for (taint, desired) in [
        ("not-ready/NoExecute", 1),
        ("unreachable/NoExecute", 1),
        ("not-ready/NoSchedule", 0),
        ("disk-pressure/NoSchedule", 1),
        ("memory-pressure/NoSchedule", 1),
        ("pid-pressure/NoSchedule", 1),
        ("unschedulable/NoSchedule", 1),
        ("network-unavailable/NoSchedule", 0),
    ] {
        check(
            &format!("max=1 | n1:taint={automatic}/{taint} |"),
            desired,
            0,
        );
    }
    let network = format!("hostnetwork | n1:taint={automatic}/network-unavailable/NoSchedule |");
    check(&network, 1, 0);
}

#[test]
fn required_affinity_is_judged_alike() {
    let check = |terms: Value, desired: i32| {
        let mut set = daemon_set();
        set["metadata"]["namespace"] = json!("default");
        set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let set = Arc::new(DaemonSet::decode(set.to_string().as_bytes()).unwrap());
        let nodes = ["n1:disk=ssd,size=5", "n2:disk=hdd,size=9", "n3"]
            .map(node)
            .to_vec();
        let gates = Gates::default();
        let snapshot = Snapshot::new(set, nodes.clone(), Vec::new(), "new", true, gates);
        let mut set = (*snapshot.set).clone();
        set.status = compute(&snapshot, now());
        assert_eq!(set.status.desired_number_scheduled, desired, "{terms}");
        assert_eq!(
            reported(&set, &nodes, &[], "new", gates, now()),
            Ok(()),
            "{terms}"
        );
    };
    let label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    check(json!([label("disk", "In", &["ssd"])]), 1);
    check(json!([label("disk", "NotIn", &["ssd"])]), 2);
    check(json!([label("disk", "Exists", &[])]), 2);
    check(json!([label("disk", "DoesNotExist", &[])]), 1);
    check(json!([label("size", "Gt", &["5"])]), 1);
    check(json!([label("size", "Lt", &["9"])]), 1);
    check(
        json!([label("disk", "In", &["ssd"]), label("size", "Gt", &["5"])]),
        2,
    );
    check(json!([{}]), 0);
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n3"]});
    check(json!([{"matchFields": [field]}]), 1);
}

#[test]
fn a_pod_counts_as_available_when_its_time_has_come() {
    let mut given = given("min=10 | n1 n2 | a@n1:ready,since=5 b@n2:ready");
    assert_eq!(counts_in_time(&given.set, &given.pods, now()), Ok(()));
    given.set.status.number_available = 2;
    assert_eq!(
        counts_in_time(&given.set, &given.pods, now()).unwrap_err(),
        "default/web: status says 2 available pods, 1 have been ready for long enough"
    );
}
