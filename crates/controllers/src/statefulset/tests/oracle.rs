//! What the oracle remembers of pods whose claims nobody looks at any more.

use api::kinds::{DaemonSet, ReplicaSet, ReplicationController};

use crate::oracle::{Actor, Oracle, Raw, Run, View, World as Objects};

use super::super::DESCRIPTOR;
use super::super::oracle::StatefulSetOracle;
use super::*;

/// A set of two pods, and the claims of four.
struct Seen {
    world: Objects,
    oracle: StatefulSetOracle,
}

impl Seen {
    fn new() -> Seen {
        let views = [
            View::of::<StatefulSet>(),
            View::of::<Pod>(),
            View::of::<PersistentVolumeClaim>(),
            View::of::<ReplicaSet>(),
            View::of::<ReplicationController>(),
            View::of::<DaemonSet>(),
        ];
        let mut seen = Seen {
            world: Objects::new(Run::calm(now().time()), views),
            oracle: StatefulSetOracle::default(),
        };
        let mut set = stateful_set(2);
        set["metadata"] = json!({"name": "web", "namespace": "default", "uid": "set"});
        seen.change("statefulsets", "web", Some(&set), Actor::User);
        for place in 0..4 {
            let name = format!("data-web-{place}");
            let claim = json!({"metadata": {"name": name, "namespace": "default", "uid": name}});
            seen.change("persistentvolumeclaims", &name, Some(&claim), controller());
            seen.pod(place, false, controller());
        }
        seen
    }

    fn pod(&mut self, place: u32, is_leaving: bool, by: Actor) {
        let name = format!("web-{place}");
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": true,
        });
        let mut metadata = json!({
            "name": name, "namespace": "default", "uid": name, "ownerReferences": [owner],
        });
        if is_leaving {
            metadata["deletionTimestamp"] = json!(now().time());
        }
        self.change("pods", &name, Some(&json!({"metadata": metadata})), by);
    }

    fn gone(&mut self, place: u32, by: Actor) {
        self.change("pods", &format!("web-{place}"), None, by);
    }

    /// None is a deletion.
    fn change(&mut self, plural: &'static str, name: &str, object: Option<&Value>, by: Actor) {
        let group = match plural {
            "statefulsets" | "replicasets" => "apps",
            _ => "",
        };
        let body = object.map_or("{}".to_owned(), Value::to_string);
        let raw = Raw {
            group,
            plural: &plural.into(),
            namespace: "default",
            name,
            is_deleted: object.is_none(),
            body: body.as_bytes(),
        };
        let change = self.world.apply(&raw, Some(by), false).unwrap();
        self.oracle.observe(&self.world, &change);
    }

    fn looked_after(&self) -> String {
        let claims = self.oracle.looked_after(&self.world, "default");
        let mut names: Vec<&str> = claims.iter().map(|claim| &*claim.metadata.name).collect();
        names.sort_unstable();
        names.join(" ")
    }
}

fn controller() -> Actor {
    Actor::Manager(0, DESCRIPTOR.name)
}

#[test]
fn claims_of_pods_that_were_scaled_down_are_looked_after() {
    let mut seen = Seen::new();
    for place in [3, 2] {
        seen.pod(place, true, controller());
        seen.gone(place, Actor::Nodes);
    }
    let all = "data-web-0 data-web-1 data-web-2 data-web-3";
    assert_eq!(seen.looked_after(), all);
}

#[test]
fn the_claim_of_a_condemned_pod_deleted_by_a_user_may_stay() {
    let mut seen = Seen::new();
    seen.pod(3, true, Actor::User);
    seen.gone(3, Actor::Nodes);
    seen.gone(2, Actor::User);
    assert_eq!(seen.looked_after(), "data-web-0 data-web-1");
}

#[test]
fn the_claim_of_a_replaced_and_not_recreated_pod_may_stay() {
    let mut seen = Seen::new();
    seen.pod(1, true, controller());
    seen.gone(1, Actor::Nodes);
    let others = "data-web-0 data-web-2 data-web-3";
    assert_eq!(seen.looked_after(), others);
    seen.pod(1, false, controller());
    assert_eq!(
        seen.looked_after(),
        "data-web-0 data-web-1 data-web-2 data-web-3"
    );
}

#[test]
fn the_pods_in_the_end_are_not_compared_where_another_may_adopt_them() {
    let mut seen = Seen::new();
    let end = |seen: &Seen| seen.oracle.end_state(&seen.world);
    let alone = ["statefulset default/web: 2 wanted, 4 pods of version none"];
    assert_eq!(end(&seen), alone);
    for (plural, app) in [
        ("replicasets", json!({"matchLabels": {"app": "web"}})),
        ("replicationcontrollers", json!({"app": "web"})),
    ] {
        let other = json!({
            "metadata": {"name": "other", "namespace": "default", "uid": "other"},
            "spec": {"selector": app},
        });
        seen.change(plural, "other", Some(&other), Actor::User);
        assert_eq!(
            end(&seen),
            ["statefulset default/web: 2 wanted"],
            "{plural}"
        );
        seen.change(plural, "other", None, Actor::User);
        assert_eq!(end(&seen), alone);
    }
}
