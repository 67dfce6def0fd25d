//! The checks that the simulator asks: what the controller says passes, and whatever is wrong in it does not.

use api::kinds::Pod;
use serde_json::Value;

use super::super::invariants::{
    Seen, progressing_is_true, reported, rolled_back, scaled_in_proportion,
};
use super::super::plan::Report;
use super::super::{compute, plan};
use super::*;

/// A Deployment with the status that the controller gives it, its sets, and a pod for each that they speak of.
struct Given {
    deployment: Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    pods: Vec<Arc<Pod>>,
    progressed_at: MicroTime,
}

fn given(text: &str) -> Given {
    let mut snapshot = snapshot(text);
    let owner = json!([{"kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
    for set in &mut snapshot.sets {
        let owners = serde_json::from_value(owner.clone()).unwrap();
        Arc::make_mut(set).metadata.owners = api::meta::intern_owners(owners);
    }
    let after = plan(&snapshot, now()).after;
    let mut deployment = (*snapshot.deployment).clone();
    let report = match deployment.spec.paused {
        true => Report::Counts,
        false => Report::Progress,
    };
    let after = super::super::plan::After { report, ..after };
    deployment.status = compute(&deployment, &after, snapshot.gates, now());
    deployment.metadata.annotations = after.annotations;
    Given {
        pods: snapshot.sets.iter().flat_map(|set| pods_of(set)).collect(),
        sets: snapshot.sets,
        deployment,
        progressed_at: now(),
    }
}

fn pods_of(set: &ReplicaSet) -> Vec<Arc<Pod>> {
    let pod = |number: i32| {
        let is_ready = number < set.status.available_replicas;
        let pod = json!({
            "metadata": {
                "name": format!("{}-{number}", set.metadata.name), "labels": {"app": "web"},
                "ownerReferences": [{"kind": "ReplicaSet", "uid": set.metadata.uid, "controller": true}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if is_ready {"True"} else {"False"}}]},
        });
        Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap())
    };
    (0..set.status.replicas).map(pod).collect()
}

impl Given {
    fn told(&self) -> String {
        let seen = Seen {
            sets: &self.sets,
            pods: &self.pods,
            gates: Gates::default(),
            now: now(),
            progressed_at: self.progressed_at,
        };
        reported(&self.deployment, &seen).err().unwrap_or_default()
    }

    fn falsify(&mut self, field: &str, value: Value) {
        let mut status = serde_json::to_value(&self.deployment.status).unwrap();
        status[field] = value;
        self.deployment.status = serde_json::from_value(status).unwrap();
    }

    fn says(&mut self, type_: &str, status: &str, reason: &str) {
        let conditions = &mut self.deployment.status.conditions;
        conditions.retain(|held| held.type_ != type_);
        let held = json!({"type": type_, "status": status, "reason": reason});
        conditions.push(serde_json::from_value(held).unwrap());
    }
}

const DONE: &str = "replicas=3 surge=1 deadline=60 status=3/3/3 | old:0,rev=8 new:3,rev=9";
const STUCK: &str = "replicas=3 surge=1 deadline=60 progressing=ReplicaSetUpdated/10 status=4/1/3 | old:3,rev=8 new:1/0,rev=9";

#[test]
fn every_count_of_a_status_is_checked() {
    for text in [DONE, STUCK] {
        assert_eq!(given(text).told(), "", "{text}");
        for field in [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "observedGeneration",
        ] {
            let mut given = given(text);
            given.falsify(field, json!(9));
            let (told, start) = (given.told(), format!("default/web: status says {field} "));
            assert!(told.starts_with(&start), "{field}: {told}");
        }
    }
}

#[test]
fn every_condition_of_a_status_is_checked() {
    let check = |text: &str, (type_, status, reason): (&str, &str, &str)| {
        let mut given = given(text);
        assert_eq!(given.told(), "", "{text}");
        given.says(type_, status, reason);
        let (told, start) = (given.told(), format!("default/web: status says {type_} "));
        assert!(
            told.starts_with(&start),
            "{type_}={status} {reason}: {told}"
        );
    };
    let available = ("Available", "True", "MinimumReplicasAvailable");
    let unavailable = ("Available", "False", "MinimumReplicasUnavailable");
    check(DONE, unavailable);
    check(DONE, ("Available", "True", "Other"));
    check(
        "replicas=3 deadline=60 unavailable=1 | new:3/1,rev=9",
        available,
    );
    check("replicas=3 deadline=60 recreate | new:3/2,rev=9", available);
    check(DONE, ("Progressing", "True", "ReplicaSetUpdated"));
    check(DONE, ("Progressing", "False", "ProgressDeadlineExceeded"));
    check(STUCK, ("Progressing", "Unknown", "DeploymentPaused"));
    check(STUCK, ("ReplicaFailure", "True", "FailedCreate"));
    let paused = "replicas=3 deadline=60 paused | new:3,rev=9";
    check(paused, ("Progressing", "True", "NewReplicaSetAvailable"));
    let endless = "replicas=3 | new:3,rev=9";
    check(endless, ("Progressing", "True", "NewReplicaSetAvailable"));
}

#[test]
fn a_rollout_without_progress_is_reported_in_time() {
    let mut given = given(STUCK);
    given.progressed_at = now().minus(std::time::Duration::from_secs(89));
    assert_eq!(given.told(), "", "it may still be on its way");
    given.progressed_at = now().minus(std::time::Duration::from_secs(91));
    assert_eq!(
        given.told(),
        r#"default/web: status says Progressing Some(("True", "ReplicaSetUpdated")), the objects say Some(("False", "ProgressDeadlineExceeded"))"#
    );
    given.says("Progressing", "False", "ProgressDeadlineExceeded");
    assert_eq!(given.told(), "");
}

#[test]
fn revisions_and_shares_are_checked() {
    let mut unshown = given(DONE);
    unshown.deployment.metadata.annotations = api::LabelSet::default();
    assert_eq!(
        unshown.told(),
        "default/web shows revision None and is at 9"
    );
    let mut given_ = given(DONE);
    given_.sets = given("replicas=3 surge=1 | old:0,rev=9 new:3,rev=9").sets;
    assert_eq!(
        given_.told(),
        "default/web: new has revision 9, and old, which is older, 9"
    );
    let mut unknown = given(DONE);
    unknown.sets = given("replicas=3 was=5 surge=1 | old:0,rev=8 new:3,rev=9").sets;
    assert_eq!(
        unknown.told(),
        "default/web wants 3 pods, and new knows of Some(\"5\")"
    );
    let shared = "replicas=3 surge=1 deadline=60 paused | old:3,rev=8 new:1/0,rev=9";
    assert_eq!(given(shared).told(), "");
    let mut lost = given(shared);
    let fewer = given("replicas=3 surge=1 deadline=60 | old:2,rev=8 new:1/0,rev=9");
    (lost.sets, lost.pods) = (fewer.sets, fewer.pods);
    lost.falsify("replicas", json!(3));
    lost.falsify("readyReplicas", json!(2));
    lost.falsify("availableReplicas", json!(2));
    assert_eq!(
        lost.told(),
        "default/web is paused, and its sets ask for 3 pods instead of 4"
    );
}

#[test]
fn what_a_write_says_of_a_rollout_is_checked() {
    let told = |before: &Given, after: &Given| {
        let (before, after) = (&before.deployment, after);
        progressing_is_true(before, &after.deployment, &after.sets, now())
            .err()
            .unwrap_or_default()
    };
    let (stuck, done) = (given(STUCK), given(DONE));
    assert_eq!(told(&stuck, &done), "");
    let mut early = given(STUCK);
    early.says("Progressing", "True", "NewReplicaSetAvailable");
    assert_eq!(
        told(&stuck, &early),
        "default/web is said to be complete, with 1 updated of 4 pods, 3 available, 3 wanted"
    );
    let mut late = given(STUCK);
    late.says("Progressing", "False", "ProgressDeadlineExceeded");
    let before_its_time = "default/web is said to be stuck before its time";
    assert_eq!(told(&stuck, &late), before_its_time);
    let mut stuck = stuck;
    let held = &mut stuck.deployment.status.conditions;
    for held in held.iter_mut() {
        held.last_update_time = Some(Time::from_unix(now().time().unix() - 61));
    }
    assert_eq!(told(&stuck, &late), "");
}

#[test]
fn a_rollback_goes_where_it_was_asked_to_go() {
    let sets = "| first:0,rev=3 second:0,rev=4 new:3,rev=5";
    let told = |to: &str, reached: &str| {
        let before = given(&format!("replicas=3 rollback={to} {sets}"));
        let after = given(&format!("replicas=3 {sets}"));
        let mut deployment = after.deployment.clone();
        let target = after.sets.iter().find(|set| *set.metadata.name == *reached);
        deployment.spec.template = target.unwrap().spec.template.clone();
        rolled_back(&before.deployment, &deployment, &after.sets)
            .err()
            .unwrap_or_default()
    };
    assert_eq!(told("0", "second"), "");
    assert_eq!(told("3", "first"), "");
    assert_eq!(told("7", "new"), "", "there is none");
    let astray = "default/web was to go back to revision 4, and did not";
    assert_eq!(told("0", "first"), astray);
    assert_eq!(told("4", "new"), astray);
    assert_eq!(
        told("no-number", "first"),
        "default/web got another template, which nobody asked for"
    );
}

#[test]
fn sets_are_resized_in_proportion() {
    let told = |was: &str, is: &str| {
        let before = given(&format!("replicas=10 surge=2 was=5 {was}"));
        let after = given(&format!("replicas=10 surge=2 was=5 {is}"));
        let mut resized = (*after.sets[0]).clone();
        let noted = "deployment.kubernetes.io/desired-replicas";
        resized.metadata.annotations = resized.metadata.annotations.with(noted, "10");
        scaled_in_proportion(&after.deployment, &after.sets, &before.sets[0], &resized)
            .err()
            .unwrap_or_default()
    };
    let before = "| old:5,max=7 new:2/0,max=7";
    assert_eq!(told(before, "| old:9,max=7 new:2/0,max=7"), "");
    assert_eq!(told(before, "| old:8,max=7 new:2/0,max=7"), "");
    let all = "default/web: old had 5 of 7 pods and gets 12 of 12";
    assert_eq!(told(before, "| old:12,max=7 new:2/0,max=7"), all);
    let none = "default/web: old had 5 of 7 pods and gets 5 of 12";
    assert_eq!(told(before, "| old:5,max=7 new:2/0,max=7"), none);
    let alone = "| old:7,max=7 new:0,max=7";
    assert_eq!(
        told(alone, "| old:12,max=7 new:0,max=7"),
        "",
        "nothing to share"
    );
}
