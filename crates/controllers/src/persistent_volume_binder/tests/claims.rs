//! Upstream: TestSync (the rows of claims), TestSyncBlockVolume, TestDelayBindingMode, TestProvisionSync,
//! TestRetroactiveStorageClassAssignment, TestUpdatePVCMigrationAnnotations.

use std::sync::Arc;

use api::Istr;
use api::kinds::{PersistentVolume, StorageClass};
use serde_json::json;

use super::super::annotations::{Migration, migration_of_claim};
use super::super::claim::{Action, Snapshot, plan, status_change};
use super::super::class::default_of;
use super::{claim, volume};

struct Case<'a> {
    claim: &'a str,
    /// The volume that matching finds.
    found: Option<&'a str>,
    /// The volume that there is.
    exists: Option<&'a str>,
    /// `provisioner mode`
    class: Option<&'a str>,
    default: Option<&'a str>,
    pods: &'a [&'a str],
    is_dynamic: bool,
}

const CASE: Case<'static> = Case {
    claim: "data",
    found: None,
    exists: None,
    class: None,
    default: None,
    pods: &[],
    is_dynamic: true,
};

fn check(case: &Case<'_>, expected: &str) {
    let class = case.class.map(|text| {
        let (provisioner, mode) = text.split_once(' ').unwrap_or((text, "Immediate"));
        let mode = (mode != "unset").then_some(mode);
        let json = json!({"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode});
        Arc::new(serde_json::from_value::<StorageClass>(json).unwrap())
    });
    let exists: Option<Arc<PersistentVolume>> = case.exists.map(volume);
    let plan = plan(
        &claim(case.claim),
        &Snapshot {
            gates: api::Gates::default(),
            class,
            default_class: &|| case.default.map(Istr::new),
            volume: &|name| exists.clone().filter(|held| *held.metadata.name == *name),
            find: &|_| Ok(case.found.map(volume)),
            unscheduled: &|| case.pods.iter().map(ToString::to_string).collect(),
            is_dynamic: case.is_dynamic,
        },
    );
    let mut told = match &plan.action {
        Action::Bind(volume) => format!("bind {}", volume.metadata.name),
        Action::AssignClass(class) => format!("class {class}"),
        Action::AskProvisioner(name) => format!("ask {name}"),
        Action::Fail(message) => format!("fail {message}"),
        other => format!("{other:?}").to_lowercase(),
    };
    if let Some(event) = &plan.event {
        told += &format!(
            "; {:?} {} {}",
            event.event_type, event.reason, event.message
        );
    }
    assert_eq!(told, expected, "{}", case.claim);
}

#[test]
fn a_claim_that_names_no_volume_takes_what_suits() {
    check(
        &Case {
            found: Some("a"),
            ..CASE
        },
        "bind a",
    );
    check(
        &Case {
            found: Some("a"),
            class: Some("p WaitForFirstConsumer"),
            claim: "data class=fast",
            ..CASE
        },
        "bind a",
    );
}

#[test]
fn without_volume_and_class_it_waits() {
    let waits = "pending; Normal FailedBinding no persistent volumes available for this claim and no storage class is set";
    check(&CASE, waits);
    check(
        &Case {
            claim: "data class=",
            default: Some("standard"),
            ..CASE
        },
        waits,
    );
    check(
        &Case {
            claim: "data beta=",
            default: Some("standard"),
            ..CASE
        },
        waits,
    );
}

#[test]
fn a_default_class_is_assigned_later_unless_a_volume_suits() {
    check(
        &Case {
            default: Some("standard"),
            ..CASE
        },
        "class standard",
    );
    check(
        &Case {
            default: Some("standard"),
            found: Some("a"),
            ..CASE
        },
        "bind a",
    );
}

#[test]
fn a_provisioner_outside_is_asked() {
    let asked = |name: &str| {
        format!(
            "ask {name}; Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner '{name}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        )
    };
    let fast = Case {
        claim: "data class=fast",
        ..CASE
    };
    check(
        &Case {
            class: Some("disk.example.com"),
            ..fast
        },
        &asked("disk.example.com"),
    );
    check(
        &Case {
            class: Some("kubernetes.io/aws-ebs"),
            ..fast
        },
        &asked("ebs.csi.aws.com"),
    );
    check(
        &Case {
            class: Some("kubernetes.io/portworx-volume"),
            ..fast
        },
        &asked("pxd.portworx.com"),
    );
    check(
        &Case {
            class: Some("disk.example.com"),
            is_dynamic: false,
            ..fast
        },
        "nothing",
    );
}

#[test]
fn failed_provisioning_is_reported() {
    let fast = Case {
        claim: "data class=fast",
        ..CASE
    };
    let failed = |why: &str| format!("nothing; Warning ProvisioningFailed {why}");
    check(
        &fast,
        &failed("storageclass.storage.k8s.io \"fast\" not found"),
    );
    check(
        &Case {
            class: Some("kubernetes.io/no-provisioner"),
            ..fast
        },
        &failed("no volume plugin matched name: kubernetes.io/no-provisioner"),
    );
    check(
        &Case {
            class: Some("kubernetes.io/nfs"),
            ..fast
        },
        &failed("no provisionable volume plugin matched"),
    );
    check(
        &Case {
            class: Some("kubernetes.io/host-path"),
            ..fast
        },
        &failed(
            "Failed to create provisioner: provisioning in volume plugin \"kubernetes.io/host-path\" is disabled",
        ),
    );
    check(
        &Case {
            class: Some("p unset"),
            ..fast
        },
        "fail VolumeBindingMode not set for StorageClass \"fast\"",
    );
}

#[test]
fn a_class_that_waits_for_a_consumer_does_so_until_a_node_is_selected() {
    let fast = Case {
        claim: "data class=fast",
        class: Some("p WaitForFirstConsumer"),
        ..CASE
    };
    check(
        &fast,
        "pending; Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
    );
    check(
        &Case {
            pods: &["a"],
            ..fast
        },
        "pending; Normal WaitForPodScheduled waiting for pod a to be scheduled",
    );
    check(
        &Case {
            pods: &["a", "b"],
            ..fast
        },
        "pending; Normal WaitForPodScheduled waiting for pods a,b to be scheduled",
    );
    let chosen = Case {
        claim: "data class=fast node=n1",
        ..fast
    };
    check(
        &Case {
            class: Some("kubernetes.io/no-provisioner WaitForFirstConsumer"),
            ..chosen
        },
        "nothing; Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner",
    );
}

#[test]
fn a_claim_that_names_a_volume_gets_that_one_or_waits() {
    let named = Case {
        claim: "data volume=v",
        ..CASE
    };
    check(&named, "pending");
    check(
        &Case {
            exists: Some("v"),
            ..named
        },
        "bind v",
    );
    check(
        &Case {
            exists: Some("v claim=shop/data/"),
            ..named
        },
        "bind v",
    );
    check(
        &Case {
            exists: Some("v claim=shop/data/u1"),
            ..named
        },
        "bind v",
    );
    let taken = "Warning FailedBinding volume \"v\" already bound to a different claim.";
    check(
        &Case {
            exists: Some("v claim=shop/other/u2"),
            ..named
        },
        &format!("pending; {taken}"),
    );
    check(
        &Case {
            exists: Some("v claim=far/data/u1"),
            ..named
        },
        &format!("pending; {taken}"),
    );
    check(
        &Case {
            exists: Some("v claim=shop/other/u2"),
            claim: "data volume=v by-us",
            ..named
        },
        &format!(
            "fail invalid binding of claim \"shop/data\" to volume \"v\": volume already claimed by \"shop/other\"; {taken}"
        ),
    );
}

#[test]
fn a_volume_that_is_asked_for_by_name_must_suit() {
    let cases = [
        ("v leaving", "the volume is marked for deletion \"v\""),
        ("v size=1Gi", "requested PV is too small"),
        ("v class=slow", "storageClassName does not match"),
        (
            "v attributes=gold",
            "volumeAttributesClassName does not match",
        ),
        ("v mode=Block", "incompatible volumeMode"),
        ("v modes=ROX", "incompatible accessMode"),
    ];
    for (volume, why) in cases {
        let expected =
            format!("pending; Warning VolumeMismatch Cannot bind to requested volume \"v\": {why}");
        check(
            &Case {
                claim: "data volume=v",
                exists: Some(volume),
                ..CASE
            },
            &expected,
        );
    }
}

#[test]
fn a_bound_claim_keeps_its_volume_or_is_lost() {
    let bound = Case {
        claim: "data done volume=v phase=Bound",
        ..CASE
    };
    check(
        &Case {
            exists: Some("v claim=shop/data/u1"),
            ..bound
        },
        "bind v",
    );
    check(
        &Case {
            exists: Some("v"),
            ..bound
        },
        "bind v",
    );
    check(
        &bound,
        "lose; Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
    );
    check(
        &Case {
            claim: "data done phase=Bound",
            ..bound
        },
        "lose; Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
    );
    let misbound = "lose; Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly";
    check(
        &Case {
            exists: Some("v claim=shop/other/u2"),
            ..bound
        },
        misbound,
    );
    check(
        &Case {
            exists: Some("v claim=shop/data/"),
            ..bound
        },
        misbound,
    );
    check(
        &Case {
            claim: "data done volume=v phase=Lost",
            ..bound
        },
        "nothing",
    );
}

#[test]
fn the_status_says_what_the_volume_is() {
    let status = |claim_text: &str, phase, volume_text: Option<&str>| {
        let volume = volume_text.map(volume);
        let change = status_change(
            &claim(claim_text),
            phase,
            volume.as_deref(),
            api::Gates::default(),
        )
        .unwrap();
        let storage = change.storage.flatten().map(|size| size.to_string());
        (
            change.phase,
            storage,
            change.access_modes.is_some(),
            change.attributes_class,
        )
    };
    let (phase, storage, modes, _) = status("data", "Bound", Some("v size=9Gi"));
    assert_eq!(
        (phase, storage.as_deref(), modes),
        (Some("Bound"), Some("9Gi"), true)
    );
    let (_, storage, ..) = status("data", "Bound", Some("v size=9Gi was=6Gi"));
    assert_eq!(storage.as_deref(), Some("6Gi"));
    let (_, storage, ..) = status("data", "Bound", Some("v size=9Gi was=nonsense"));
    assert_eq!(storage.as_deref(), Some("9Gi"));
    let (.., class) = status("data", "Bound", Some("v attributes=gold"));
    assert_eq!(class, Some(Some("gold".into())));
    // The resizer reports a volume that has grown.
    let (phase, storage, ..) = status("data phase=Bound", "Bound", Some("v size=9Gi"));
    assert_eq!((phase, storage), (None, None));
    assert!(
        status_change(&claim("data"), "Pending", None, api::Gates::default())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_claim_says_who_has_taken_over_from_its_provisioner() {
    let check = |text: &str, expected: Option<Migration>| {
        assert_eq!(migration_of_claim(&claim(text)), expected, "{text}");
    };
    let ebs = Some(Migration::To("ebs.csi.aws.com"));
    check("data", None);
    check("data asked=disk.example.com", None);
    check("data asked=kubernetes.io/aws-ebs", ebs);
    check("data asked-beta=kubernetes.io/aws-ebs", ebs);
    check(
        "data asked=kubernetes.io/aws-ebs migrated=ebs.csi.aws.com",
        None,
    );
    check("data asked=kubernetes.io/aws-ebs migrated=other", ebs);
    for asked in ["asked", "asked-beta"] {
        check(
            &format!("data {asked}=disk.example.com migrated=ebs.csi.aws.com"),
            Some(Migration::Off),
        );
    }
}

#[test]
fn of_several_default_classes_the_newest_is_assigned() {
    let class = |name: &str, created: &str, is_default: &str| {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": is_default});
        let meta = json!({"name": name, "creationTimestamp": created, "annotations": annotations});
        let json = json!({"metadata": meta, "provisioner": "p"});
        Arc::new(serde_json::from_value::<StorageClass>(json).unwrap())
    };
    let check = |classes: &[(&str, &str, &str)], expected: Option<&str>| {
        let classes: Vec<_> = classes
            .iter()
            .map(|(name, created, is_default)| class(name, created, is_default))
            .collect();
        let found = default_of(&classes).map(|class| &*class.metadata.name);
        assert_eq!(found, expected);
    };
    let (early, late) = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
    check(&[], None);
    check(&[("a", late, "false"), ("b", late, "True")], None);
    check(&[("a", early, "true"), ("b", late, "true")], Some("b"));
    check(&[("b", late, "true"), ("a", late, "true")], Some("a"));
    check(&[("a", early, "true"), ("b", late, "false")], Some("a"));
}
