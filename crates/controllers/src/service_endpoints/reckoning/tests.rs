//! Nobody who follows what is published sees an empty set between two full ones, and the check of it finds who lets them.

use std::time::Duration;

use api::kinds::{EndpointSlice, Endpoints, Node, Pod, Service};
use api::{Clock, Resource, Time};
use serde_json::{Value, json};

use crate::oracle::{Actor, Oracle, Raw, Run, Verdict, View, World};

/// A service with a pod that is ready, and what is published of it.
struct Seen {
    world: World,
    oracle: Box<dyn Oracle>,
    controller: &'static str,
}

impl Seen {
    fn by(controller: &'static str) -> Seen {
        let oracle = crate::find(controller).and_then(|found| found.oracle);
        let oracle = oracle.expect("it has an oracle")();
        let views = [
            View::of::<Service>(),
            View::of::<Pod>(),
            View::of::<Node>(),
            View::of::<Endpoints>(),
            View::of::<EndpointSlice>(),
        ];
        let views = views.into_iter().chain(oracle.views());
        let mut seen = Seen {
            world: World::new(Run::calm(Time::from_unix(0)), views),
            oracle,
            controller,
        };
        seen.write::<Node>("n1", json!({}));
        seen
    }

    fn selecting(mut self) -> Seen {
        self.service(false);
        self.pod("True");
        self
    }

    fn service(&mut self, publishes_all: bool) {
        let spec = json!({
            "selector": {"app": "web"}, "clusterIP": "10.1.0.1", "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{"port": 80, "targetPort": 80}], "publishNotReadyAddresses": publishes_all,
        });
        self.write::<Service>("web", json!({"spec": spec}));
    }

    fn pod(&mut self, ready: &str) {
        let ips = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
        let status = json!({"podIPs": ips, "conditions": [{"type": "Ready", "status": ready}]});
        let labels = json!({"labels": {"app": "web"}});
        let pod = json!({"metadata": labels, "spec": {"nodeName": "n1"}, "status": status});
        self.write::<Pod>("web", pod);
    }

    fn endpoints(&mut self, ready: bool, by: Option<&'static str>) -> Verdict {
        let field = ["notReadyAddresses", "addresses"][usize::from(ready)];
        let target = json!({"kind": "Pod", "name": "web", "uid": "pods-web"});
        let address = json!({"ip": "10.0.0.1", "targetRef": target});
        let subset = json!({field: [address], "ports": [{"port": 80}]});
        let object = json!({"subsets": [subset]});
        self.write_by::<Endpoints>("web", object, by)
    }

    fn slice(&mut self, name: &str, ready: bool) -> Verdict {
        self.slice_of(name, "10.0.0.1", ready)
    }

    fn slice_of(&mut self, name: &str, ip: &str, ready: bool) -> Verdict {
        let family = if ip.contains(':') { "IPv6" } else { "IPv4" };
        let writer = format!("{}.k8s.io", self.controller);
        let labels = json!({
            "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": writer,
        });
        let target = json!({"kind": "Pod", "name": "web", "uid": "pods-web"});
        let endpoint = json!({
            "addresses": [ip], "conditions": {"ready": ready}, "targetRef": target,
        });
        let object = json!({
            "metadata": {"labels": labels}, "addressType": family, "endpoints": [endpoint],
        });
        self.write_by::<EndpointSlice>(name, object, Some(self.controller))
    }

    fn write<K: Resource>(&mut self, name: &str, object: Value) {
        let written = self.write_by::<K>(name, object, None);
        written.expect("users may write what they want");
    }

    fn write_by<K: Resource>(
        &mut self,
        name: &str,
        mut object: Value,
        by: Option<&'static str>,
    ) -> Verdict {
        let namespace = if K::TYPE.namespaced { "ns" } else { "" };
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["uid"] = json!(format!("{}-{name}", K::TYPE.plural));
        let body = object.to_string();
        let raw = Raw {
            group: &K::TYPE.group,
            plural: &K::TYPE.plural,
            namespace,
            name,
            is_deleted: false,
            body: body.as_bytes(),
        };
        let actor = by.map_or(Actor::User, |controller| Actor::Manager(0, controller));
        let change = self.world.apply(&raw, Some(actor), false)?;
        self.oracle.observe(&self.world, &change);
        self.world.run.acting = Some(actor);
        match by {
            Some(_) => self.oracle.after_write(&self.world, &change),
            None => Ok(()),
        }
    }

    fn pass(&mut self) {
        let later = self.world.now().plus(Duration::from_secs(1));
        self.world.run.clock = Clock::fixed(later.time());
    }
}

/// What is said of who publishes nothing.
fn is_found(verdict: &Verdict) -> bool {
    let problem = verdict.as_ref().err();
    problem.is_some_and(|it| it.contains("1 ready addresses were published, then none"))
}

#[test]
fn slices_with_nothing_ready_are_found_where_a_pod_was_ready_all_the_time() {
    let mut seen = Seen::by("endpointslice-controller").selecting();
    assert_eq!(seen.slice("s", true), Ok(()));
    seen.pass();
    assert!(is_found(&seen.slice("s", false)));
    let mut seen = Seen::by("endpointslice-controller").selecting();
    assert_eq!(
        (seen.slice("s", true), seen.slice("t", true)),
        (Ok(()), Ok(()))
    );
    seen.pass();
    assert_eq!(seen.slice("s", false), Ok(()), "the other slice has one");
    seen.pod("False");
    seen.pod("True");
    assert_eq!(
        seen.slice("t", false),
        Ok(()),
        "none was ready a moment ago"
    );
}

#[test]
fn slices_of_one_family_with_nothing_ready_are_found_whatever_the_other_has() {
    for (kept, emptied) in [("10.0.0.1", "fd00::1"), ("fd00::1", "10.0.0.1")] {
        let mut seen = Seen::by("endpointslice-controller").selecting();
        assert_eq!(seen.slice_of("kept", kept, true), Ok(()));
        assert_eq!(seen.slice_of("emptied", emptied, true), Ok(()));
        seen.pass();
        assert!(is_found(&seen.slice_of("emptied", emptied, false)));
    }
}

#[test]
fn endpoints_with_nothing_ready_are_found_where_a_pod_was_ready_all_the_time() {
    let by = Some("endpoints-controller");
    let mut seen = Seen::by("endpoints-controller").selecting();
    assert_eq!(seen.endpoints(true, by), Ok(()));
    assert_eq!(
        seen.endpoints(false, by),
        Ok(()),
        "it may not have seen the pod"
    );
    assert_eq!(seen.endpoints(true, by), Ok(()));
    seen.pass();
    assert!(is_found(&seen.endpoints(false, by)));
    assert_eq!(seen.endpoints(true, by), Ok(()));
    seen.pod("False");
    assert_eq!(seen.endpoints(false, by), Ok(()));
}

#[test]
fn mirrors_with_nothing_ready_are_found_where_endpoints_had_something_ready() {
    let mut seen = Seen::by("endpointslice-mirroring-controller");
    seen.controller = "endpointslicemirroring-controller";
    seen.write::<Service>("web", json!({}));
    assert_eq!(seen.endpoints(true, None), Ok(()));
    assert_eq!(seen.slice("s", true), Ok(()));
    seen.pass();
    assert!(is_found(&seen.slice("s", false)));
    assert_eq!(seen.slice("s", true), Ok(()));
    assert_eq!(seen.endpoints(false, None), Ok(()));
    assert_eq!(seen.slice("s", false), Ok(()));
}

#[test]
fn a_pod_that_never_was_ready_is_not_published_as_ready() {
    let never_was = |verdict: &Verdict| {
        let problem = verdict.as_ref().err();
        problem.is_some_and(|it| it.contains("pod web is published as ready, and never was"))
    };
    type Publish = fn(&mut Seen) -> Verdict;
    let publishers: [(&'static str, Publish); 2] = [
        ("endpoints-controller", |seen| {
            seen.endpoints(true, Some("endpoints-controller"))
        }),
        ("endpointslice-controller", |seen| seen.slice("s", true)),
    ];
    for (controller, publish) in publishers {
        let mut seen = Seen::by(controller);
        seen.service(false);
        seen.pod("False");
        assert!(never_was(&publish(&mut seen)), "{controller}");
        seen.pod("True");
        seen.pod("False");
        assert_eq!(publish(&mut seen), Ok(()), "its view may be old");
        let mut seen = Seen::by(controller);
        seen.service(true);
        seen.pod("False");
        assert_eq!(publish(&mut seen), Ok(()), "the service wants all");
    }
}
