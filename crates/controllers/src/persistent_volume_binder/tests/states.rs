//! One sync of a claim, or of a volume, in each state that the two may be in together. Upstream: TestSync,
//! TestSyncBlockVolume.

use api::kinds::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use api::{Gate, Gates, Key, Resource};
use runtime::Context;
use serde_json::{Value, json};
use testkit::World;

use super::super::controllers;
use super::sync::{lines, settings};
use super::{claim_json, volume_json};

/// Who is synced, once.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sync {
    Claim,
    Volume,
}

/// What the cache knows of the claim.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Seen {
    AsItIs,
    Not,
    /// Its predecessor of the same name.
    Before,
}

pub(super) struct State<'a> {
    pub(super) has_attributes_classes: bool,
    pub(super) sync: Sync,
    pub(super) seen: Seen,
    /// One per line; a claim's uid `!` is that of the claim that there is.
    pub(super) volumes: &'a str,
    pub(super) claim: &'a str,
}

impl State<'_> {
    pub(super) async fn build(&self, world: &World) {
        let mut uid = Value::Null;
        if !self.claim.is_empty() {
            let mut claim = claim_json(self.claim);
            let status = claim["status"].take();
            claim["metadata"]["uid"] = json!(null);
            claim["metadata"]["namespace"] = json!("default");
            let made = world.create(&PersistentVolumeClaim::TYPE, claim).await;
            uid = made["metadata"]["uid"].clone();
            let status = json!({"status": status});
            world
                .patch_subresource(&PersistentVolumeClaim::TYPE, "data", Some("status"), status)
                .await;
        }
        for text in self.volumes.lines() {
            let mut volume = volume_json(text.trim());
            let status = volume["status"].take();
            volume["metadata"]["uid"] = json!(null);
            if volume["spec"]["claimRef"]["uid"] == "!" {
                volume["spec"]["claimRef"]["uid"] = uid.clone();
            }
            let name = volume["metadata"]["name"].as_str().unwrap().to_owned();
            world.create(&PersistentVolume::TYPE, volume).await;
            let status = json!({"status": status});
            world
                .patch_subresource(&PersistentVolume::TYPE, &name, Some("status"), status)
                .await;
        }
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "waits"},
            "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
        });
        world.create(&StorageClass::TYPE, class).await;
    }

    fn look_away(&self, world: &World) {
        let claims = world.informers.store::<PersistentVolumeClaim>();
        let held = match self.seen {
            Seen::AsItIs => return,
            Seen::Not | Seen::Before => claims.remove("default", "data").unwrap(),
        };
        if self.seen == Seen::Before {
            let mut before = PersistentVolumeClaim::clone(&held);
            before.metadata.uid = "before".into();
            claims.put(before.into());
        }
    }

    /// `v Bound -> data, data Bound -> v 5Gi; Warning ClaimLost`: what both are, and the reasons of events.
    pub(super) async fn synced(&self) -> String {
        let world = World::new().await;
        self.build(&world).await;
        let context = Context {
            gates: Gates::default().with(Gate::VolumeAttributesClass, self.has_attributes_classes),
            ..world.context()
        };
        let loops = controllers(&context, settings());
        world.start().await;
        self.look_away(&world);
        let done = match self.sync {
            Sync::Claim => loops.claims.reconcile(&Key::new("default", "data")).await,
            Sync::Volume => loops.volumes.reconcile(&Key::new("", "v")).await,
        };
        world.wait_until_idle().await;
        let mut told = lines(&world).await.replace('\n', ", ");
        for event in world.events().await {
            let words: Vec<&str> = event.split(' ').take(2).collect();
            told += &format!("; {}", words.join(" "));
        }
        match done {
            Ok(_) => told,
            Err(_) => told + "; fails",
        }
    }
}

pub(super) const STATE: State<'static> = State {
    has_attributes_classes: true,
    sync: Sync::Claim,
    seen: Seen::AsItIs,
    volumes: "",
    claim: "",
};

/// Volumes and claim before, and what one sync of the claim makes of them.
async fn check_claim(rows: &[(&str, &str, &str)]) {
    for (volumes, claim, expected) in rows {
        let state = State {
            volumes,
            claim,
            ..STATE
        };
        assert_eq!(state.synced().await, *expected, "{volumes} | {claim}");
    }
}

/// The same for a sync of volume `v`.
async fn check_volume(rows: &[(&str, &str, &str)]) {
    for (volumes, claim, expected) in rows {
        let state = State {
            sync: Sync::Volume,
            volumes,
            claim,
            ..STATE
        };
        assert_eq!(state.synced().await, *expected, "{volumes} | {claim}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_names_no_volume() {
    let bound = "v Bound -> data by us, data Bound -> v 5Gi by us";
    let by_hand = "v Bound -> data, data Bound -> v 5Gi by us";
    let waits = "v Available, data Pending; Normal FailedBinding";
    check_claim(&[
        ("v", "data class=", bound),
        ("v size=1Gi", "data class=", waits),
        ("v size=1Gi", "data class= phase=Bound", waits),
        (
            "large size=10Gi\nv",
            "data class=",
            "large Available, v Bound -> data by us, data Bound -> v 5Gi by us",
        ),
        // One that names the claim comes first, by name or by uid.
        (
            "v size=10Gi claim=default/data/\nw",
            "data class=",
            "v Bound -> data, w Available, data Bound -> v 10Gi by us",
        ),
        (
            "v size=10Gi claim=default/data/!\nw",
            "data class=",
            "v Bound -> data, w Available, data Bound -> v 10Gi by us",
        ),
        (
            "v claim=default/data/other",
            "data class=",
            "v Available -> data, data Pending; Normal FailedBinding",
        ),
        // What a crash has left.
        ("v claim=default/data/! by-us", "data class=", bound),
        (
            "v claim=default/data/! by-us phase=Bound",
            "data class=",
            bound,
        ),
        (
            "v claim=default/data/! phase=Bound",
            "data class= node=n1",
            by_hand,
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_claim_selects() {
    let bound = "v Bound -> data by us, data Bound -> v 5Gi by us";
    let waits = "v Available, data Pending; Normal FailedBinding";
    check_claim(&[
        (
            "v labels=foo:true,bar:false",
            "data class= selects=foo:true,bar:false",
            bound,
        ),
        ("v", "data class= selects=foo:true,bar:false", waits),
        // Only what is available is taken, unless it names the claim.
        (
            "a phase=Pending\nb phase=Failed\nc phase=Released",
            "data class=",
            "a Pending, b Failed, c Released, data Pending; Normal FailedBinding",
        ),
        // Of a class that waits for a consumer the scheduler chooses, by naming the claim.
        (
            "v class=waits",
            "data class=waits",
            "v Available, data Pending; Normal WaitForFirstConsumer",
        ),
        (
            "v class=waits claim=default/data/",
            "data class=waits",
            "v Bound -> data, data Bound -> v 5Gi by us",
        ),
        (
            "v class=waits claim=default/data/!",
            "data class=waits node=n1",
            "v Bound -> data, data Bound -> v 5Gi by us",
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn classes_must_be_the_same_whatever_the_sizes() {
    check_claim(&[
        (
            "v class=gold size=10Gi\nw",
            "data class=gold",
            "v Bound -> data by us, w Available, data Bound -> v 10Gi by us",
        ),
        (
            "v size=10Gi\nw class=gold",
            "data",
            "v Bound -> data by us, w Available, data Bound -> v 10Gi by us",
        ),
        (
            "v class=gold size=10Gi\nw class=silver",
            "data class=gold",
            "v Bound -> data by us, w Available, data Bound -> v 10Gi by us",
        ),
        (
            "v",
            "data class=",
            "v Bound -> data by us, data Bound -> v 5Gi by us",
        ),
        (
            "v",
            "data",
            "v Bound -> data by us, data Bound -> v 5Gi by us",
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_asks_for_a_volume_by_name() {
    let bound = "v Bound -> data by us, data Bound -> v 5Gi";
    let by_hand = "v Bound -> data, data Bound -> v 5Gi";
    let mismatch = "v Available, data Pending -> v; Warning VolumeMismatch";
    check_claim(&[
        ("", "data class= volume=v", "data Pending -> v"),
        ("", "data class= volume=v phase=Bound", "data Pending -> v"),
        ("v", "data class= volume=v", bound),
        ("v claim=default/data/", "data class= volume=v", by_hand),
        ("v claim=default/data/!", "data class= volume=v", by_hand),
        (
            "v size=10Gi\nw",
            "data class= volume=v",
            "v Bound -> data by us, w Available, data Bound -> v 10Gi",
        ),
        (
            "v claim=default/other/one phase=Bound",
            "data class= volume=v phase=Bound",
            "v Bound -> other, data Pending -> v; Warning FailedBinding",
        ),
        (
            "v claim=default/other/one phase=Bound",
            "data class= volume=v phase=Bound by-us",
            "v Bound -> other, data Bound -> v by us; Warning FailedBinding; fails",
        ),
        ("v", "data class= volume=v selects=foo:true", bound),
        ("v size=1Gi", "data class= volume=v phase=Bound", mismatch),
        ("v class=gold", "data class= volume=v phase=Bound", mismatch),
        ("v", "data class= volume=v modes=RWX", mismatch),
        (
            "v attributes=gold",
            "data class= volume=v phase=Bound",
            mismatch,
        ),
        (
            "v attributes=gold",
            "data class= volume=v attributes=gold",
            bound,
        ),
    ])
    .await;
    let state = State {
        has_attributes_classes: false,
        volumes: "v attributes=gold",
        claim: "data class= volume=v attributes=gold phase=Bound",
        ..STATE
    };
    assert_eq!(state.synced().await, mismatch, "without the gate");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_bound() {
    let bound = "v Bound -> data by us, data Bound -> v 5Gi by us";
    check_claim(&[
        (
            "",
            "data class= done by-us phase=Bound",
            "data Lost by us; Warning ClaimLost",
        ),
        (
            "",
            "data class= volume=v done by-us phase=Bound",
            "data Lost -> v by us; Warning ClaimLost",
        ),
        ("v", "data class= volume=v done by-us", bound),
        (
            "v claim=default/data/other",
            "data class= volume=v done by-us",
            "v Available -> data, data Lost -> v by us; Warning ClaimMisbound",
        ),
        (
            "v claim=default/data/!",
            "data class= volume=v done",
            "v Bound -> data, data Bound -> v 5Gi",
        ),
        (
            "v claim=default/other/one",
            "data class= volume=v done",
            "v Available -> other, data Lost -> v; Warning ClaimMisbound",
        ),
        (
            "v",
            "data class= volume=v done by-us selects=foo:true",
            bound,
        ),
        // What a crash has left: the claim's status alone is missing.
        (
            "v claim=default/data/! by-us phase=Bound",
            "data class= volume=v done by-us",
            bound,
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_and_the_claim_that_it_names() {
    check_volume(&[
        ("v phase=Pending", "", "v Available"),
        (
            "v phase=Pending claim=default/data/",
            "",
            "v Available -> data (no uid)",
        ),
        (
            "v phase=Bound claim=default/data/gone",
            "",
            "v Released -> data",
        ),
        (
            "v phase=Bound claim=default/data/other",
            "data class= volume=v done phase=Bound",
            "v Released -> data, data Bound -> v",
        ),
        // The claim's own sync goes on.
        (
            "v phase=Bound claim=default/data/! by-us",
            "data class=",
            "v Bound -> data by us, data Pending",
        ),
        (
            "v phase=Bound claim=default/data/!",
            "data class=",
            "v Bound -> data, data Pending",
        ),
        (
            "v claim=default/data/!",
            "data class= volume=v phase=Bound",
            "v Bound -> data, data Bound -> v",
        ),
        // The claim has another volume.
        (
            "v phase=Bound claim=default/data/! by-us",
            "data class= volume=w phase=Bound",
            "v Available, data Bound -> w",
        ),
        (
            "v phase=Bound claim=default/data/!",
            "data class= volume=w phase=Bound",
            "v Available -> data (no uid), data Bound -> w",
        ),
        (
            "v claim=default/data/! policy=Delete",
            "data class= volume=v phase=Bound",
            "v Bound -> data, data Bound -> v",
        ),
        (
            "v claim=default/data/gone policy=Delete source=iscsi",
            "",
            "v Failed -> data; Warning VolumeFailedDelete",
        ),
    ])
    .await;
}

// Upstream: TestDeleteSync, TestDeleteMultiSync. The finalizer by which admission protects volumes stays: who takes it
// off does not run here.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_to_be_deleted() {
    let failed = "v Failed -> data; Warning VolumeFailedDelete";
    check_volume(&[
        ("v phase=Bound claim=default/data/gone policy=Delete by-us", "", "v Released -> data by us, gone"),
        ("v phase=Bound claim=default/data/gone policy=Delete", "", "v Released -> data, gone"),
        // What has failed once is tried again.
        ("v phase=Failed claim=default/data/gone policy=Delete", "", "v Failed -> data, gone"),
        ("v phase=Bound claim=default/data/gone policy=Delete source=nfs", "", failed),
        (
            "v phase=Bound claim=default/data/gone policy=Delete source=csi made-by=kubernetes.io/host-path",
            "",
            failed,
        ),
        ("v phase=Bound claim=default/data/gone policy=Delete path=/data", "", failed),
        (
            "v phase=Bound claim=default/data/other policy=Delete",
            "data class=",
            "v Released -> data, gone, data Pending",
        ),
        // Drivers delete theirs.
        (
            "v phase=Bound claim=default/data/gone policy=Delete source=csi made-by=disk.example.com",
            "",
            "v Released -> data",
        ),
        (
            "v phase=Bound claim=default/data/gone policy=Delete source=csi",
            "",
            "v Released -> data",
        ),
        (
            "v phase=Bound claim=default/data/gone policy=Delete made-by=kubernetes.io/gce-pd migrated=pd.csi.storage.gke.io",
            "",
            "v Released -> data",
        ),
        // Two were made for one claim.
        (
            "v phase=Bound claim=default/data/! policy=Delete made-by=kubernetes.io/host-path\nw phase=Bound claim=default/data/! policy=Delete",
            "data class= volume=w phase=Bound",
            "v Released -> data, gone, w Bound -> data, data Bound -> w",
        ),
        (
            "v phase=Bound claim=default/data/! policy=Delete source=csi made-by=disk.example.com\nw phase=Bound claim=default/data/! policy=Delete",
            "data class= volume=w phase=Bound",
            "v Released -> data, w Bound -> data, data Bound -> w",
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_cache_lacks_still_has_its_volume() {
    for seen in [Seen::Not, Seen::Before] {
        let state = State {
            sync: Sync::Volume,
            seen,
            volumes: "v claim=default/data/! policy=Delete",
            claim: "data class= volume=v phase=Bound",
            ..STATE
        };
        assert_eq!(state.synced().await, "v Bound -> data, data Bound -> v");
    }
}

#[tokio::test(start_paused = true)]
async fn the_modes_of_claim_and_volume_must_be_the_same() {
    let bound = "v Bound -> data by us, data Bound -> v 5Gi by us";
    let by_volume = "v Bound -> data, data Bound -> v 5Gi by us";
    let by_claim = "v Bound -> data by us, data Bound -> v 5Gi";
    let waits = "v Available, data Pending; Normal FailedBinding";
    let no_class = "v Available, data Pending; Warning ProvisioningFailed";
    let mismatch = "v Available, data Pending -> v; Warning VolumeMismatch";
    let kept = "v Available -> data (no uid), data Pending; Normal FailedBinding";
    check_claim(&[
        ("v mode=Block", "data class= mode=Block", bound),
        ("v", "data class=", bound),
        ("v", "data class= mode=Block", waits),
        ("v mode=Block", "data class=", waits),
        ("v class=gold", "data class=gold mode=Block", no_class),
        ("v class=gold", "data class=silver", no_class),
        ("v class=gold", "data class=silver volume=v", mismatch),
        (
            "v mode=Block claim=default/data/",
            "data class= mode=Block",
            by_volume,
        ),
        ("v mode=Block", "data class= volume=v", mismatch),
        ("v mode=Block claim=default/data/", "data class=", kept),
        ("v mode=Block", "data class= mode=Block volume=v", by_claim),
        ("v claim=default/data/", "data class=", by_volume),
        ("v", "data class= volume=v", by_claim),
    ])
    .await;
    let told =
        "v Available -> data by us, data Pending; Warning VolumeMismatch; Warning VolumeMismatch";
    check_volume(&[
        (
            "v claim=default/data/! by-us",
            "data class= mode=Block",
            told,
        ),
        (
            "v mode=Block claim=default/data/! by-us",
            "data class=",
            told,
        ),
        (
            "v mode=Block claim=default/data/! by-us",
            "data class= mode=Block",
            "v Available -> data by us, data Pending",
        ),
        (
            "v claim=default/data/! by-us",
            "data class=",
            "v Available -> data by us, data Pending",
        ),
    ])
    .await;
}
