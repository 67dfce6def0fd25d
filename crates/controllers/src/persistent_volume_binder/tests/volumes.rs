//! Upstream: TestSync (the rows of volumes), TestDeleteSync, TestRecycleSync, TestAnnealMigrationAnnotations,
//! TestModifyDeletionFinalizers.

use api::Resource;
use api::kinds::Pod;
use serde_json::json;

use super::super::annotations::{Migration, finalizers, migration_of_volume};
use super::super::reclaim::{self, Reclaim, Recycling, recycled_by, recycler, recycling};
use super::super::volume::{Action, is_released, plan};
use super::{claim, volume};

fn check(volume_text: &str, claim_text: Option<&str>, expected: &str) {
    let claim = claim_text.map(claim);
    let told = match plan(&volume(volume_text), claim.as_deref()) {
        Action::Phase(phase) => phase.to_owned(),
        Action::EnqueueClaim(key) => format!("enqueue {key}"),
        Action::Mismatch { volume, claim } => format!("{}; {}", volume.message, claim.message),
        other => format!("{other:?}").to_lowercase(),
    };
    assert_eq!(told, expected, "{volume_text} {claim_text:?}");
}

#[test]
fn a_volume_follows_its_claim() {
    check("v", None, "Available");
    check("v claim=shop/data/", None, "Available");
    check("v claim=shop/data/u1", None, "reclaim");
    check("v claim=shop/data/u1", Some("data volume=v"), "Bound");
    check("v claim=shop/data/u1", Some("data"), "enqueue shop/data");
    check(
        "v claim=shop/data/u1 by-us",
        Some("data volume=other"),
        "unbind",
    );
    check("v claim=shop/data/u1", Some("data volume=other"), "unbind");
    check(
        "v claim=shop/data/u1 made-by=p",
        Some("data volume=other"),
        "unbind",
    );
    check(
        "v claim=shop/data/u1 made-by=p policy=Delete",
        Some("data volume=other"),
        "reclaim",
    );
    check(
        "v claim=shop/data/u1 mode=Block",
        Some("data"),
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"data\" due to incompatible volumeMode.; Cannot bind PersistentVolume \"v\" to requested PersistentVolumeClaim due to incompatible volumeMode.",
    );
}

#[test]
fn a_volume_is_released_when_its_claim_is_gone_or_has_another() {
    let check = |volume_text: &str, claim_text: Option<&str>, expected: bool| {
        let claim = claim_text.map(claim);
        assert_eq!(
            is_released(&volume(volume_text), claim.as_deref()),
            expected
        );
    };
    check("v", None, false);
    check("v claim=shop/data/", None, false);
    check("v claim=shop/data/u1", None, true);
    check("v claim=shop/data/u1", Some("data"), false);
    check("v claim=shop/data/u1", Some("data volume=v"), false);
    check("v claim=shop/data/u1", Some("data volume=other"), true);
    check("v claim=shop/data/u1", Some("data uid=u2 volume=v"), true);
}

#[test]
fn the_reclaim_policy_decides_about_a_released_volume() {
    let check = |text: &str, expected: &str| {
        let told = match reclaim::plan(&volume(text)) {
            Reclaim::Fail(event) | Reclaim::FailDelete(event) => {
                format!("{}: {}", event.reason, event.message)
            }
            other => format!("{other:?}"),
        };
        assert_eq!(told, expected, "{text}");
    };
    check("v policy=Retain", "Leave");
    check("v policy=Delete", "Delete");
    check("v policy=Delete source=csi", "Leave");
    check(
        "v policy=Delete made-by=disk.example.com source=csi",
        "Leave",
    );
    check(
        "v policy=Delete made-by=kubernetes.io/aws-ebs migrated=ebs.csi.aws.com",
        "Leave",
    );
    check("v policy=Recycle migrated=ebs.csi.aws.com", "Leave");
    check("v policy=Recycle", "Recycle");
    check("v policy=Recycle source=nfs", "Recycle");
    // That nothing can empty it is told once nobody uses it.
    check("v policy=Recycle source=csi", "Recycle");
    check(
        "v policy=Delete path=/data",
        "VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /data",
    );
    check(
        "v policy=Delete made-by=kubernetes.io/host-path source=csi",
        "VolumeFailedDelete: failed to create deleter for volume \"v\": spec.PersistentVolumeSource.HostPath is nil",
    );
    check(
        "v policy=Delete path=/tmp/",
        "VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /tmp/",
    );
    check(
        "v policy=Delete source=nfs",
        "VolumeFailedDelete: error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
    );
    check(
        "v policy=Delete source=iscsi",
        "VolumeFailedDelete: error getting deleter volume plugin for volume \"v\": no volume plugin matched",
    );
    check(
        "v policy=Delete made-by=kubernetes.io/flocker",
        "VolumeFailedDelete: no volume plugin matched name: kubernetes.io/flocker",
    );
    check(
        "v policy=Burn",
        "VolumeUnknownReclaimPolicy: Volume has unrecognized PersistentVolumeReclaimPolicy",
    );
}

#[test]
fn finalizers_say_who_deletes_a_volume() {
    let check = |text: &str, expected: Option<&str>| {
        let wanted = finalizers(&volume(text)).map(|names| {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            names.join(",")
        });
        assert_eq!(wanted.as_deref(), expected, "{text}");
    };
    let (ours, driver) = (
        "kubernetes.io/pv-controller",
        "external-provisioner.volume.kubernetes.io/finalizer",
    );
    check("v policy=Delete", None);
    check("v policy=Delete made-by=disk.example.com", None);
    check(
        &format!("v policy=Delete made-by=disk.example.com held={driver}"),
        None,
    );
    check(
        "v policy=Delete made-by=kubernetes.io/host-path",
        Some(ours),
    );
    check(
        &format!("v policy=Delete made-by=kubernetes.io/host-path held={ours}"),
        None,
    );
    check(
        &format!("v policy=Retain made-by=kubernetes.io/host-path held=a,{ours}"),
        Some("a"),
    );
    check(
        &format!("v policy=Recycle made-by=kubernetes.io/host-path held={ours}"),
        Some(""),
    );
    check(
        &format!("v policy=Delete made-by=kubernetes.io/host-path held={driver}"),
        Some(ours),
    );
    check(
        &format!("v policy=Delete made-by=kubernetes.io/aws-ebs held={ours},a"),
        Some("a"),
    );
    check("v policy=Delete made-by=kubernetes.io/aws-ebs held=a", None);
    check(
        &format!("v policy=Delete made-by=kubernetes.io/aws-ebs held={driver},{ours}"),
        Some(driver),
    );
    // Those of others stay.
    let in_tree = "v policy=Delete made-by=kubernetes.io/host-path";
    check(&format!("{in_tree} held=a"), Some(&format!("a,{ours}")));
    check(
        &format!("{in_tree} held={driver},a"),
        Some(&format!("a,{ours}")),
    );
    check(&format!("v policy=Delete held={driver}"), None);
    for policy in ["Retain", "Recycle"] {
        check(
            &format!("v policy={policy} made-by=kubernetes.io/host-path"),
            None,
        );
    }
}

#[test]
fn a_volume_says_who_has_taken_over_from_its_provisioner() {
    let check = |text: &str, expected: Option<Migration>| {
        assert_eq!(migration_of_volume(&volume(text)), expected, "{text}");
    };
    check("v", None);
    check(
        "v made-by=kubernetes.io/gce-pd",
        Some(Migration::To("pd.csi.storage.gke.io")),
    );
    check(
        "v made-by=kubernetes.io/gce-pd migrated=pd.csi.storage.gke.io",
        None,
    );
    check("v made-by=p migrated=q", Some(Migration::Off));
    check("v made-by=p", None);
    check("v made-by=kubernetes.io/rbd", None);
    check(
        "v made-by=kubernetes.io/rbd migrated=rbd.csi.ceph.com",
        Some(Migration::Off),
    );
}

#[test]
fn a_recycler_has_a_minute_or_half_of_one_for_each_gibibyte() {
    let settings = crate::config::Recycler {
        maximum_retry: 3,
        minimum_timeout_nfs: 300,
        pod_template_file_path_nfs: String::new(),
        increment_timeout_nfs: 30,
        pod_template_file_path_host_path: String::new(),
        minimum_timeout_host_path: 60,
        increment_timeout_host_path: 30,
    };
    let check = |text: &str, seconds: i64, source: serde_json::Value| {
        let pod = recycler(&volume(text), &settings);
        assert_eq!(pod["spec"]["activeDeadlineSeconds"], seconds, "{text}");
        assert_eq!(pod["spec"]["volumes"][0], source);
        assert_eq!(pod["metadata"]["name"], "recycler-for-v");
    };
    let host_path = json!({"name": "vol", "hostPath": {"path": "/tmp/data"}});
    check("v size=1Gi", 60, host_path.clone());
    check("v size=10Gi", 300, host_path.clone());
    check("v size=8Ei", i64::MAX / (1 << 30) * 30, host_path);
    let nfs = json!({"name": "vol", "nfs": {"server": "s", "path": "/p"}});
    check("v size=1Gi source=nfs", 300, nfs);
}

#[test]
fn a_recyclers_pod_says_how_far_it_is() {
    let pod = |name: &str, namespace: &str, phase: &str| {
        let json =
            json!({"metadata": {"name": name, "namespace": namespace}, "status": {"phase": phase}});
        Pod::decode(json.to_string().as_bytes()).unwrap()
    };
    assert_eq!(recycling(None), Recycling::Start);
    for (phase, expected) in [
        ("Pending", Recycling::Wait),
        ("Running", Recycling::Wait),
        ("Succeeded", Recycling::Done),
        ("Failed", Recycling::Failed),
    ] {
        assert_eq!(recycling(Some(&pod("x", "default", phase))), expected);
    }
    assert_eq!(
        recycled_by(&pod("recycler-for-v", "default", "")),
        Some("v")
    );
    assert_eq!(recycled_by(&pod("recycler-for-v", "shop", "")), None);
    assert_eq!(recycled_by(&pod("web", "default", "")), None);
}
