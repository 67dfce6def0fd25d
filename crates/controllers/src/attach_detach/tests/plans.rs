//! Plans: what becomes of a volume on each node.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Pod, VolumeAttachment};
use api::{Istr, MicroTime, Resource, Time};
use expect_test::{Expect, expect};
use serde_json::json;

use super::super::plan::{Attacher, Place, Plan, Settings, Snapshot, Step, plan};
use super::super::reason;

const NOW: i64 = 10_000;

fn now() -> MicroTime {
    Time::from_unix(NOW).micro()
}

fn pod(name: &str, node: &str) -> Arc<Pod> {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let json = json!({
        "metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {"nodeName": node},
    });
    Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
}

/// `n1 pod=a attached listed used since=400`: words about one node. Nodes are managed and ready unless said otherwise.
fn place(text: &str) -> (Istr, Place) {
    let mut words = text.split_whitespace();
    let node = Istr::new(words.next().unwrap_or_default());
    let mut place = Place {
        is_managed: true,
        is_ready: true,
        ..Place::default()
    };
    let mut attachment =
        json!({"metadata": {"name": "va", "uid": "va"}, "spec": {"nodeName": node}});
    let mut is_there = false;
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "unmanaged" => place.is_managed = false,
            "unready" => place.is_ready = false,
            "gone" => (place.is_managed, place.is_ready) = (false, false),
            "out-of-service" => place.is_out_of_service = true,
            "used" => place.is_in_use = true,
            "listed" => place.is_listed = true,
            "pod" => place.pods.push(pod(value, &node)),
            "since" => {
                let seconds = Duration::from_secs(value.parse().unwrap());
                place.memory.unwanted_since = Some(now().minus(seconds));
            }
            "va" => is_there = true,
            "attached" => {
                is_there = true;
                attachment["status"]["attached"] = json!(true);
            }
            "deleting" => {
                is_there = true;
                attachment["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
            }
            // So many seconds ago.
            "deleted" => {
                let ago = Duration::from_secs(value.parse().unwrap_or(0));
                place.memory.on_deleted("va".into(), now().minus(ago));
            }
            "error" => {
                is_there = true;
                attachment["status"]["attachError"] = json!({"message": value});
            }
            "detach-error" => attachment["status"]["detachError"] = json!({"message": value}),
            other => panic!("what is {other}?"),
        }
    }
    if is_there {
        let decoded = VolumeAttachment::decode(attachment.to_string().as_bytes());
        place.attachment = Some(Arc::new(decoded.unwrap()));
    }
    (node, place)
}

/// `shared fc: n1 … | n2 …`
fn snapshot(text: &str) -> Snapshot {
    let (header, places) = text.split_once(": ").unwrap_or(("", text));
    let mut snapshot = Snapshot {
        volume: "kubernetes.io/csi/d.example.com^h".into(),
        name: "data".to_owned(),
        ..Snapshot::default()
    };
    for word in header.split_whitespace() {
        match word {
            "shared" => snapshot.is_shared = true,
            "fc" => snapshot.attacher = Attacher::Kubelet,
            "needless" => snapshot.attacher = Attacher::Needless,
            "flex" => snapshot.attacher = Attacher::Program("k8s/nfs".into()),
            other => panic!("what is {other}?"),
        }
    }
    snapshot.places = places.split('|').map(place).collect();
    snapshot
}

fn describe(step: &Step) -> String {
    let nodes = |by: &[Istr]| {
        let names: Vec<&str> = by.iter().map(Istr::as_str).collect();
        names.join(",")
    };
    let error = |error: &Option<Box<str>>| {
        let error = error.as_deref();
        error.map(|error| format!("({error})")).unwrap_or_default()
    };
    match step {
        Step::Blocked { by } => format!("blocked by {}", nodes(by)),
        Step::AwaitAttach { error: said } => format!("await attach{}", error(said)),
        Step::AwaitDetach { error: said } => format!("await detach{}", error(said)),
        Step::AwaitUnmount { until: Some(at) } => {
            format!("await unmount {}s", at.since(now()).as_secs())
        }
        Step::AwaitUnmount { until: None } => "await unmount".to_owned(),
        Step::Detach { force: Some(force) } => format!("detach by force: {}", force.label()),
        Step::Detach { force: None } => "detach".to_owned(),
        Step::Refuse { .. } => "refuse".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn planned(text: &str, settings: Settings) -> (Snapshot, Plan) {
    let snapshot = snapshot(text);
    let plan = plan(&snapshot, settings, now());
    (snapshot, plan)
}

/// The steps by node, with `*` where the node's list is to have the volume.
fn told(text: &str, settings: Settings) -> String {
    let (snapshot, plan) = planned(text, settings);
    let step = |(node, step): (&Istr, &Step)| {
        let mark = if plan.lists(&snapshot, node) { "*" } else { "" };
        format!("{node}{mark} {}", describe(step))
    };
    let steps: Vec<String> = plan.steps.iter().map(step).collect();
    steps.join(" | ")
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&told(text, Settings::default()));
}

/// Upstream: Test_Run_Positive_OneDesiredVolumeAttach, Test_Run_OneVolumeAttachAndDetachUncertainNodesWithReadWriteOnce.
#[test]
fn what_a_pod_needs_is_attached_and_listed_once_it_is() {
    check("n1 pod=a", expect!["n1 attach"]);
    check("n1 pod=a va", expect!["n1 await attach"]);
    check("n1 pod=a error=full", expect!["n1 await attach(full)"]);
    check("n1 pod=a attached", expect!["n1* keep"]);
    check("n1 pod=a attached listed used", expect!["n1* keep"]);
    check("n1 pod=a attached deleting", expect!["n1 awaitdeletion"]);
    check("n1 pod=a attached deleted", expect!["n1 awaitdeletion"]);
    // No news of it for so long: a server that was restored from a backup has it again.
    check("n1 pod=a attached deleted=299", expect!["n1 awaitdeletion"]);
    check("n1 pod=a attached deleted=301", expect!["n1* keep"]);
    check("n1 pod=a listed", expect!["n1 attach"]);
}

/// Upstream: TestDetermineVolumeAction, TestAttachDetachController's unmanaged nodes, TestProcessPodVolumes.
#[test]
fn nodes_that_are_not_managed_get_nothing_and_keep_what_they_have() {
    check("n1 unmanaged pod=a", expect![""]);
    check("n1 unmanaged pod=a attached", expect!["n1* keep"]);
    check("n1 gone pod=a", expect![""]);
    check("n1 gone pod=a attached used", expect!["n1* keep"]);
    check("n1 unmanaged attached", expect!["n1 detach"]);
}

/// Upstream: Test_Run_Positive_OneDesiredVolumeAttachThenDetachWithUnmountedVolume, …WithMountedVolume,
/// Test_Run_Negative_OneDesiredVolumeAttachThenDetachWithUnmountedVolumeUpdateStatusFail.
#[test]
fn an_unused_volume_leaves_the_list_before_it_is_detached() {
    check("n1 attached listed", expect!["n1 unlist"]);
    check("n1 attached", expect!["n1 detach"]);
    check("n1 va", expect!["n1 detach"]);
    check("n1 attached listed used", expect!["n1* await unmount"]);
    check("n1 attached used", expect!["n1 await unmount"]);
    check("n1 listed", expect!["n1 unlist"]);
    check("n1 listed used", expect!["n1* await unmount"]);
    check("n1 attached deleting", expect!["n1 await detach"]);
    check("n1 attached deleted", expect!["n1 await detach"]);
    check("n1 attached deleted=301", expect!["n1 detach"]);
    check(
        "n1 attached deleting detach-error=busy",
        expect!["n1 await detach(busy)"],
    );
    check("n1 used", expect![""]);
}

/// Upstream: Test_Run_OneVolumeDetachOnUnhealthyNode, …WithForceDetachOnUnmountDisabled,
/// Test_Run_Positive_VolumeDetachWhenNodeHealthy and the timeout tests.
#[test]
fn a_node_that_is_not_ready_is_waited_for_six_minutes() {
    check(
        "n1 attached listed used unready",
        expect!["n1* await unmount 360s"],
    );
    check(
        "n1 attached listed used unready since=100",
        expect!["n1* await unmount 260s"],
    );
    check(
        "n1 attached listed used unready since=360",
        expect!["n1* await unmount 0s"],
    );
    check(
        "n1 attached listed used unready since=361",
        expect!["n1 unlist"],
    );
    check(
        "n1 attached used unready since=361",
        expect!["n1 detach by force: timeout"],
    );
    check("n1 attached used since=9999", expect!["n1 await unmount"]);
    check(
        "n1 gone attached used since=20",
        expect!["n1 await unmount 340s"],
    );
    check(
        "n1 gone attached used since=400",
        expect!["n1 detach by force: timeout"],
    );
    let never = Settings {
        never_by_timeout: true,
    };
    let wait = told("n1 attached used unready since=9999", never);
    assert_eq!(wait, "n1 await unmount");
    let unused = told("n1 attached unready since=9999", never);
    assert_eq!(unused, "n1 detach");
}

/// Upstream: Test_Run_OneVolumeDetachOnOutOfServiceTaintedNode, …OnNoOutOfServiceTaintedNode.
#[test]
fn a_node_out_of_service_is_not_waited_for() {
    check(
        "n1 attached listed used unready out-of-service",
        expect!["n1 unlist"],
    );
    check(
        "n1 attached used unready out-of-service",
        expect!["n1 detach by force: out-of-service"],
    );
    let never = Settings {
        never_by_timeout: true,
    };
    let forced = told("n1 attached used out-of-service", never);
    assert_eq!(forced, "n1 detach by force: out-of-service");
}

/// Upstream: Test_Run_OneVolumeAttachAndDetachMultipleNodesWithReadWriteOnce, …ReadWriteMany, Test_ReportMultiAttachError.
#[test]
fn a_volume_for_one_node_is_not_attached_to_another() {
    check(
        "n1 pod=a attached listed | n2 pod=b",
        expect!["n1* keep | n2 blocked by n1"],
    );
    check(
        "n1 attached | n2 pod=b",
        expect!["n1 detach | n2 blocked by n1"],
    );
    check(
        "n1 deleting | n2 pod=b",
        expect!["n1 await detach | n2 blocked by n1"],
    );
    check(
        "n1 va pod=a | n2 pod=b",
        expect!["n1 await attach | n2 blocked by n1"],
    );
    // UPSTREAM: what is not confirmed is detached like what is; another node waits for that here.
    check("n1 va | n2 pod=b", expect!["n1 detach | n2 blocked by n1"]);
    check("n2 pod=b", expect!["n2 attach"]);
    check(
        "n1 pod=a | n2 pod=b",
        expect!["n1 attach | n2 blocked by n1"],
    );
    check(
        "shared: n1 pod=a | n2 pod=b",
        expect!["n1 attach | n2 attach"],
    );
    check(
        "shared: n1 pod=a attached | n2 pod=b",
        expect!["n1* keep | n2 attach"],
    );
    // Both have it by somebody's hand: neither is taken away from a pod.
    check(
        "n1 pod=a attached | n2 pod=b attached",
        expect!["n1* keep | n2* keep"],
    );
}

#[test]
fn volumes_that_need_no_attaching_are_listed() {
    check("fc: n1 pod=a", expect!["n1* list"]);
    check("fc: n1 pod=a listed", expect!["n1* keep"]);
    check("fc: n1 listed", expect!["n1 unlist"]);
    check("fc: n1 listed used", expect!["n1* await unmount"]);
    check(
        "fc: n1 pod=a | n2 pod=b",
        expect!["n1* list | n2 blocked by n1"],
    );
    check(
        "fc: n1 pod=a | n2 pod=b listed",
        expect!["n1 blocked by n2 | n2* keep"],
    );
    check(
        "fc shared: n1 pod=a | n2 pod=b",
        expect!["n1* list | n2* list"],
    );
    check("flex: n1 pod=a", expect!["n1 refuse"]);
}

/// Upstream: TestFindAndRemoveNonattachableVolumes.
#[test]
fn a_driver_that_does_not_attach_is_not_asked() {
    check("needless: n1 pod=a", expect![""]);
    check("needless: n1 pod=a attached", expect!["n1 detach"]);
    check(
        "needless: n1 pod=a attached used",
        expect!["n1 await unmount"],
    );
}

/// Upstream: Test_ReportMultiAttachError, case by case.
#[test]
fn a_pod_is_told_who_has_the_volume_but_no_names_of_other_namespaces() {
    let told = |text: &str| {
        let (snapshot, plan) = planned(text, Settings::default());
        let Some(Step::Blocked { by }) = plan.steps.get("n2") else {
            panic!("n2 is not blocked");
        };
        let message = reason::multi_attach(&snapshot, by, &snapshot.places["n2"].pods[0]);
        let words = message.strip_prefix("Multi-Attach error for volume \"data\" ");
        words.unwrap().to_owned()
    };
    assert_eq!(
        told("n1 attached | n2 pod=ns1/p"),
        "Volume is already exclusively attached to one node and can't be attached to another"
    );
    assert_eq!(
        told("n1 attached pod=ns1/a | n2 pod=ns1/p"),
        "Volume is already used by pod(s) a"
    );
    assert_eq!(
        told("n1 attached pod=ns1/a pod=ns2/b pod=ns1/c | n2 pod=ns1/p"),
        "Volume is already used by pod(s) a, c and 1 pod(s) in different namespaces"
    );
    assert_eq!(
        told("n1 attached pod=ns2/a pod=ns3/b | n2 pod=ns1/p"),
        "Volume is already used by 2 pod(s) in different namespaces"
    );
}

#[test]
fn why_names_the_pod_that_uses_the_volume_and_until_when() {
    let (snapshot, plan) = planned(
        "n1 attached used unready since=100 | n2 pod=b",
        Settings::default(),
    );
    let line = |node: &str| {
        let line = reason::line(&snapshot, &plan, &node.into(), &plan.steps[node]);
        let until = line.until.map(|at| at.unix() - NOW);
        format!("{line} {until:?}")
    };
    expect![[r#"detaches volume data from n1 by force at 1970-01-01T02:51:00Z: its kubelet says that it is in use, and the node is not ready Some(260)"#]].assert_eq(&line("n1"));
    expect![[r#"waits to attach volume data to n2 at 1970-01-01T02:51:00Z: only one node may have it, and n1 does Some(260)"#]].assert_eq(&line("n2"));
}
