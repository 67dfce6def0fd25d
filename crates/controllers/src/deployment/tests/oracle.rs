//! What the oracle remembers of Deployments that adopt sets of others.

use api::kinds::Pod;

use crate::oracle::{Actor, Oracle, Raw, Run, Verdict, View, World as Objects};

use super::super::DESCRIPTOR;
use super::super::oracle::DeploymentOracle;
use super::*;

/// A Deployment of six pods, of which eight may be, and two sets that are sized as it likes.
struct Seen {
    world: Objects,
    oracle: DeploymentOracle,
}

impl Seen {
    fn new() -> Seen {
        let views = [
            View::of::<Deployment>(),
            View::of::<ReplicaSet>(),
            View::of::<Pod>(),
        ];
        let mut seen = Seen {
            world: Objects::new(Run::calm(Time::from_unix(0)), views),
            oracle: DeploymentOracle::default(),
        };
        let rolling = json!({"maxSurge": "25%", "maxUnavailable": 1});
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "web", "generation": 1},
            "spec": {
                "replicas": 6,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                "template": {"metadata": {"labels": {"app": "web"}}},
            },
        });
        let _ = seen.write("deployments", "web", &deployment, Actor::User);
        assert_eq!(seen.sized("new", 3, [6, 8], true), Ok(()));
        seen
    }

    /// The controller gives a set this size, and notes how many the Deployment wants and may have.
    fn sized(&mut self, name: &str, replicas: i32, noted: [i32; 2], is_owned: bool) -> Verdict {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true,
        });
        let set = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": name,
                "ownerReferences": if is_owned { json!([owner]) } else { json!([]) },
                "annotations": {
                    "deployment.kubernetes.io/desired-replicas": noted[0].to_string(),
                    "deployment.kubernetes.io/max-replicas": noted[1].to_string(),
                },
            },
            "spec": {
                "replicas": replicas,
                "template": {"metadata": {"labels": {"app": "web", "set": name}}},
            },
        });
        let controller = Actor::Manager(0, DESCRIPTOR.name);
        self.write("replicasets", name, &set, controller)
    }

    fn write(&mut self, plural: &'static str, name: &str, object: &Value, by: Actor) -> Verdict {
        let body = object.to_string();
        let raw = Raw {
            group: "apps",
            plural: &plural.into(),
            namespace: "default",
            name,
            is_deleted: false,
            body: body.as_bytes(),
        };
        let change = self.world.apply(&raw, Some(by), false)?;
        self.oracle.observe(&self.world, &change);
        self.oracle.after_write(&self.world, &change)
    }
}

const TOO_MANY: &str = "default/web asks for 10 pods, at most 8 are allowed";

#[test]
fn a_set_that_was_sized_here_gets_no_more_than_the_surge_allows() {
    let mut seen = Seen::new();
    assert_eq!(seen.sized("old", 5, [6, 8], true), Ok(()));
    assert_eq!(seen.sized("old", 7, [6, 8], true), Err(TOO_MANY.to_owned()));
}

#[test]
fn a_set_that_was_sized_elsewhere_may_get_more_until_all_have_their_share() {
    let mut seen = Seen::new();
    let _ = seen.sized("other", 5, [5, 6], false);
    assert_eq!(
        seen.sized("other", 5, [5, 6], true),
        Ok(()),
        "it is adopted"
    );
    assert_eq!(seen.sized("other", 7, [6, 8], true), Ok(()));
    assert_eq!(seen.sized("other", 5, [6, 8], true), Ok(()));
    assert_eq!(
        seen.sized("other", 7, [6, 8], true),
        Err(TOO_MANY.to_owned())
    );
}
