//! Upstream: TestMatchVolume, TestMatchingWithBoundVolumes, TestListByAccessModes, TestAllPossibleAccessModes,
//! TestFindingVolumeWithDifferentAccessModes, TestFindingPreboundVolumes, TestBestMatchDelayed, TestCheckAccessModes,
//! TestVolumeModeCheck, TestFilteringVolumeModes, TestStorageObjectInUseProtectionFiltering.

use std::sync::Arc;

use api::kinds::{PersistentVolume, PersistentVolumeClaim};
use api::{Gate, Gates, Istr, Key};
use runtime::Change;

use super::super::claim::status_change;
use super::super::matching::{FreeVolumes, Volumes, explain, find, mismatch};
use super::{claim, volume};

fn find_in(claim_text: &str, volumes: &[Arc<PersistentVolume>], delayed: bool) -> String {
    find_with(Gates::default(), claim_text, volumes, delayed)
}

fn find_with(
    gates: Gates,
    claim_text: &str,
    volumes: &[Arc<PersistentVolume>],
    delayed: bool,
) -> String {
    let free = FreeVolumes::default();
    for volume in volumes {
        free.on_change(Change::Added(volume));
    }
    let named = |name: &str| {
        let mut volumes = volumes.iter();
        volumes
            .find(|volume| *volume.metadata.name == *name)
            .cloned()
    };
    let naming = |key: &Key| {
        let names = |volume: &&Arc<PersistentVolume>| {
            let held = volume.spec.claim_ref.as_ref();
            held.is_some_and(|held| held.namespace == key.namespace && *held.name == *key.name)
        };
        volumes.iter().filter(names).cloned().collect()
    };
    let around = Volumes {
        gates,
        free: &free,
        get: &named,
        naming: &naming,
    };
    match find(&claim(claim_text), delayed, &around) {
        Ok(Some(volume)) => volume.metadata.name.to_string(),
        Ok(None) => "none".to_owned(),
        Err(error) => error,
    }
}

/// `volumes` are one per line.
fn check(claim: &str, volumes: &str, expected: &str) {
    let volumes: Vec<_> = volumes.lines().map(volume).collect();
    assert_eq!(find_in(claim, &volumes, false), expected, "{claim}");
}

#[test]
fn the_smallest_volume_that_is_large_enough_is_taken() {
    let sizes = "a size=10Gi\nb size=5Gi\nc size=8Gi\nd size=1Gi";
    check("data size=5Gi", sizes, "b");
    check("data size=6Gi", sizes, "c");
    check("data size=9Gi", sizes, "a");
    check("data size=11Gi", sizes, "none");
    check("data size=0", sizes, "d");
    check("data size=8Ei", "huge size=8Ei\nlarge size=7Ei", "huge");
    // Quantities end below 8Ei, here as upstream.
    check("data size=9Ei", "huge size=8Ei", "huge");
    check("data size=5368709120", "b size=5Gi", "b");
    check("data", "b size=5Gi\na size=5Gi", "a");
}

#[test]
fn all_access_modes_must_be_there_and_few_more() {
    let volumes = "all size=5Gi modes=RWO,ROX,RWX\ntwo size=9Gi modes=RWO,ROX\none size=10Gi";
    check("data", volumes, "one");
    check("data modes=ROX", volumes, "two");
    check("data modes=RWX", volumes, "all");
    check("data modes=RWO,RWX", volumes, "all");
    check("data modes=RWOP", volumes, "none");
}

#[test]
fn class_mode_attributes_and_labels_must_match() {
    let volumes = "plain\nfast class=fast\nblock mode=Block\ngold attributes=gold\nssd labels=disk:ssd size=6Gi";
    check("data", volumes, "plain");
    check("data class=", volumes, "plain");
    check("data class=fast", volumes, "fast");
    check("data beta=fast class=slow", volumes, "fast");
    check("data class=slow", volumes, "none");
    check("data mode=Block", volumes, "block");
    check("data attributes=gold", volumes, "gold");
    check("data selects=disk:ssd", volumes, "ssd");
    check("data selects=disk:hdd", volumes, "none");
    check("data class=fast", "old beta=fast class=slow", "old");
}

#[test]
fn only_what_is_free_is_taken() {
    check("data", "a claim=shop/other/u2", "none");
    check("data", "a claim=shop/data/u2", "none");
    check("data", "a claim=far/data/u1", "none");
    check("data", "a leaving", "none");
    for phase in ["Pending", "Bound", "Released", "Failed"] {
        check("data", &format!("a phase={phase}"), "none");
    }
}

#[test]
fn a_volume_that_names_the_claim_is_taken_whatever_its_class_and_labels() {
    let named = "a size=5Gi\nb size=9Gi class=slow claim=shop/data/";
    check("data", named, "b");
    check("data selects=x:y", named, "b");
    check("data", "a\nb claim=shop/data/u1 phase=Pending", "b");
    check("data size=10Gi", "b size=9Gi claim=shop/data/", "none");
    check("data mode=Block", "b claim=shop/data/", "none");
    check("data attributes=gold", "b claim=shop/data/", "none");
    check("data", "b leaving claim=shop/data/", "none");
    // Fewer modes come first all the same.
    check("data", "a\nb modes=RWO,ROX claim=shop/data/", "a");
    check("data", "b modes=ROX claim=shop/data/", "none");
}

#[test]
fn where_the_scheduler_chooses_only_its_choice_counts() {
    let volumes = [volume("a"), volume("b size=9Gi")];
    assert_eq!(find_in("data", &volumes, true), "none");
    let chosen = [volumes[0].clone(), volume("b claim=shop/data/u1")];
    assert_eq!(find_in("data", &chosen, true), "b");
}

#[test]
fn binding_ten_thousand_claims_examines_one_volume_each() {
    let volumes: Vec<_> = (0..10_000)
        .map(|number| volume(&format!("v{number} size={number}Mi")))
        .collect();
    let free = FreeVolumes::default();
    for volume in &volumes {
        free.on_change(Change::Added(volume));
    }
    let looked_at = std::cell::Cell::new(0);
    let named = |name: &str| {
        looked_at.set(looked_at.get() + 1);
        let number: usize = name[1..].parse().unwrap();
        Some(volumes[number].clone())
    };
    for number in 0..10_000 {
        let claim = claim(&format!("data size={number}Mi"));
        let around = Volumes {
            gates: api::Gates::default(),
            free: &free,
            get: &named,
            naming: &|_| Vec::new(),
        };
        let found = find(&claim, false, &around).unwrap().unwrap();
        assert_eq!(*found.metadata.name, *format!("v{number}"));
    }
    assert_eq!(looked_at.get(), 10_000);
}

// Issue 21, point 18: versions that still have the gate.
#[test]
fn without_its_gate_no_attributes_class_matches() {
    let mut wanted = PersistentVolumeClaim::clone(&claim("data"));
    wanted.spec.volume_attributes_class_name = Some(Istr::new("fast"));
    let mut has = PersistentVolume::clone(&volume("a"));
    has.spec.volume_attributes_class_name = Some(Istr::new("fast"));
    let on = api::Gates::default();
    let off = on.with(api::Gate::VolumeAttributesClass, false);
    assert_eq!(mismatch(&has, &wanted, on), None);
    let refused = mismatch(&has, &wanted, off).expect("classes are not known");
    assert!(refused.contains("is not supported when the feature-gate VolumeAttributesClass"));
    let plain = volume("a");
    assert_eq!(mismatch(&plain, &claim("data"), off), None);
    let bound = |gates| {
        let change = status_change(&wanted, "Bound", Some(&has), gates).unwrap();
        change.attributes_class
    };
    assert_eq!(bound(on), Some(Some(Istr::new("fast"))));
    assert_eq!(bound(off), None);
}

#[test]
fn volumes_leave_the_index_when_they_are_bound_or_gone() {
    let free = FreeVolumes::default();
    let (before, after) = (volume("a"), volume("a claim=shop/other/u2"));
    free.on_change(Change::Added(&before));
    free.on_change(Change::Updated {
        old: &before,
        new: &after,
    });
    let none = |_: &str| -> Option<Arc<PersistentVolume>> { panic!("nothing is left") };
    let around = Volumes {
        gates: Gates::default(),
        free: &free,
        get: &none,
        naming: &|_| Vec::new(),
    };
    assert_eq!(find(&claim("data"), false, &around), Ok(None));
    free.on_change(Change::Updated {
        old: &after,
        new: &before,
    });
    free.on_change(Change::Deleted(&before));
    assert_eq!(find(&claim("data"), false, &around), Ok(None));
}

#[test]
fn says_why_each_volume_is_passed_over() {
    let volumes: Vec<_> = [
        "a size=1Gi",
        "b class=slow",
        "c modes=ROX",
        "d mode=Block",
        "e phase=Released",
    ]
    .map(volume)
    .to_vec();
    let free = FreeVolumes::default();
    for volume in &volumes {
        free.on_change(Change::Added(volume));
    }
    assert_eq!(free.some("slow")[0], *"b", "of its class first");
    assert_eq!(free.some("").len(), 5);
    let told = explain(&claim("data"), &volumes, api::Gates::default());
    let told: Vec<String> = told
        .iter()
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    assert_eq!(
        told,
        [
            "a: it is too small (1Gi)",
            "b: it is of slow",
            "c: it does not allow ReadWriteOnce",
            "d: its mode is Block",
            "e: its phase is Released",
        ]
    );
}

#[test]
fn says_which_volumes_are_kept_for_a_claim() {
    let volumes: Vec<_> = [
        "a claim=shop/other/u2 phase=Bound",
        "b claim=shop/other phase=Available",
        "c claim=shop/data phase=Available size=1Gi",
        "d claim=shop/gone/u3 phase=Released",
        "e class=slow claim=shop/other phase=Available",
        "f size=1Gi",
    ]
    .map(volume)
    .to_vec();
    let free = FreeVolumes::default();
    for volume in &volumes {
        free.on_change(Change::Added(volume));
    }
    let names = |free: &FreeVolumes| free.some("").join(" ");
    assert_eq!(
        names(&free),
        "b c f",
        "there is room for those that are free"
    );
    assert_eq!(free.some("slow").join(" "), "e f");
    let told = explain(&claim("data"), &volumes, api::Gates::default());
    let told: Vec<String> = told
        .iter()
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    assert_eq!(
        told,
        [
            "a: it is bound to claim shop/other",
            "b: it is kept for claim shop/other",
            "c: it is kept for this claim, but it is too small (1Gi)",
            "d: it is retained with what claim shop/gone left on it",
            "e: it is kept for claim shop/other",
            "f: it is too small (1Gi)",
        ]
    );
    free.on_change(Change::Updated {
        old: &volumes[1],
        new: &volume("b claim=shop/other/u2 phase=Bound"),
    });
    free.on_change(Change::Deleted(&volumes[2]));
    assert_eq!(names(&free), "d f");
}

#[test]
fn without_attributes_classes_no_claim_gets_one() {
    let gates = Gates::default().with(Gate::VolumeAttributesClass, false);
    let volumes = [volume("gold attributes=gold"), volume("plain")];
    let check = |claim: &str, expected: &str| {
        assert_eq!(find_with(gates, claim, &volumes, false), expected);
    };
    check("data", "plain");
    check(
        "data attributes=gold",
        "unsupported volumeAttributesClassName is set on claim shop/data when the feature-gate VolumeAttributesClass is disabled",
    );
}
