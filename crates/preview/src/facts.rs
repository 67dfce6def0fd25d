//! The objects at the end of a preview, and what they mean.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use api::decision::Decided;
use api::kinds::Pod;
use api::{ObjectId, ResourceType};
use explain::{Facts, Source};
use serde_json::Value;

use crate::kinds::Kind;
use crate::run::Run;
use crate::state;

/// All objects that a report speaks of, as they are in the end.
pub(crate) struct Gathered {
    objects: Vec<Value>,
    /// Where an object is, by its uid.
    places: BTreeMap<String, usize>,
    /// What an object owns, by its uid.
    below: BTreeMap<String, Vec<usize>>,
    pub(crate) events: Vec<Value>,
}

/// The text at a place of an object; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Where events are.
const EVENTS: ResourceType = ResourceType::namespaced("", "v1", "events", "Event");

/// What beside what is followed a report speaks of: what explanations of it rest on.
static OTHERS: LazyLock<BTreeSet<&'static ResourceType>> = LazyLock::new(|| {
    let is_followed = |resource: &ResourceType| Kind::all().any(|kind| kind.resource == *resource);
    let explained = explain::Kind::all().filter(|kind| is_followed(&kind.resource));
    let read = explained.flat_map(explain::Kind::reads);
    let read = read.chain(&explain::AROUND);
    read.filter(|resource| !is_followed(resource)).collect()
});

fn label(object: &Value, key: &str) -> Option<String> {
    let label = object["metadata"]["labels"][key].as_str();
    label.map(str::to_owned)
}

fn uid_of(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

impl Gathered {
    pub(crate) async fn of(run: &Run) -> Gathered {
        let client = run.world.client("preview");
        let mut objects = Vec::new();
        let followed = Kind::all().map(|kind| &kind.resource);
        for kind in followed.chain(OTHERS.iter().copied()) {
            objects.extend(state::list(&client, &run.discovery, kind).await);
        }
        objects.extend(run.log.lock().finished_jobs.values().cloned());
        let events = state::list(&client, &run.discovery, &EVENTS).await;
        let mut gathered = Gathered {
            objects,
            places: BTreeMap::new(),
            below: BTreeMap::new(),
            events,
        };
        gathered.index();
        gathered
    }

    fn index(&mut self) {
        for (place, object) in self.objects.iter().enumerate() {
            let uid = text(object, "/metadata/uid").to_owned();
            self.places.insert(uid, place);
            let owners = object["metadata"]["ownerReferences"].as_array();
            for owner in owners.into_iter().flatten() {
                let owner = text(owner, "/uid").to_owned();
                self.below.entry(owner).or_default().push(place);
            }
        }
    }

    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> + Clone {
        self.objects
            .iter()
            .filter(move |object| explain::kind_of(object) == kind)
    }

    pub(crate) fn workloads(&self) -> impl Iterator<Item = &Value> + Clone {
        self.objects.iter().filter(|object| {
            Kind::of(object).is_some_and(|kind| !kind.is_endless() && !kind.is::<Pod>())
        })
    }

    pub(crate) fn find(&self, uid: &str) -> Option<&Value> {
        self.objects.get(*self.places.get(uid)?)
    }

    /// What the pods of the current template carry; `None` where the kind tells no templates apart.
    pub(crate) fn current_hash(&self, object: &Value) -> Option<String> {
        let completion = Kind::of(object)?.completion()?;
        (completion.current_hash)(self, object)
    }

    pub(crate) fn hash_of_deployment(&self, deployment: &Value) -> Option<String> {
        let revision = |set: &&Value| {
            let revision = text(
                set,
                "/metadata/annotations/deployment.kubernetes.io~1revision",
            );
            revision.parse::<i64>().unwrap_or(0)
        };
        let newest = self.owned("ReplicaSet", deployment).max_by_key(revision)?;
        label(newest, "pod-template-hash")
    }

    pub(crate) fn hash_of_daemon_set(&self, set: &Value) -> Option<String> {
        let revision = |one: &&Value| one["revision"].as_i64().unwrap_or(0);
        let revisions = self.owned("ControllerRevision", set);
        label(revisions.max_by_key(revision)?, "controller-revision-hash")
    }

    fn owned<'a>(&'a self, kind: &'a str, owner: &Value) -> impl Iterator<Item = &'a Value> {
        self.below(owner)
            .filter(move |object| explain::kind_of(object) == kind)
    }

    fn below(&self, owner: &Value) -> impl Iterator<Item = &Value> {
        let places = self.below.get(text(owner, "/metadata/uid"));
        let places = places.into_iter().flatten();
        places.filter_map(|place| self.objects.get(*place))
    }

    /// What an explanation of an object may speak of: its owner, what it owns, and in its namespace what nobody
    /// owns and pods depend on. All of a namespace would be copied once for each of its workloads.
    fn related(&self, object: &Value) -> Vec<Value> {
        let owner = self.find(text(object, "/metadata/ownerReferences/0/uid"));
        let mut found: Vec<&Value> = owner.into_iter().chain(self.below(object)).collect();
        // A copied state may have cycles of owners.
        let mut seen: BTreeSet<&str> = [object].into_iter().chain(owner).map(uid_of).collect();
        let mut next = owner.iter().count();
        while let Some(one) = found.get(next) {
            if seen.insert(uid_of(one)) {
                found.extend(self.below(one));
            }
            next += 1;
        }
        let endless = Kind::all().filter(|kind| kind.is_endless());
        let endless = endless.map(|kind| &kind.resource);
        let namespace = &object["metadata"]["namespace"];
        let is_near = |other: &&Value| match explain::kind_of(other) {
            "Node" => true,
            "Namespace" => other["metadata"]["name"] == *namespace,
            _ => other["metadata"]["namespace"] == *namespace,
        };
        let around = OTHERS
            .iter()
            .copied()
            .chain(endless)
            .flat_map(|resource| self.of_kind(&resource.kind))
            .filter(is_near)
            .filter(|other| other["metadata"]["ownerReferences"].is_null());
        found.into_iter().chain(around).cloned().collect()
    }

    /// Why a workload is as it is in the end.
    pub(crate) fn explain(&self, run: &Run, object: &Value) -> explain::Explanation {
        let mut facts = Facts::new(run.end.time(), Source::Simulation, object.clone());
        facts.related = self.related(object);
        let about: BTreeSet<&str> = facts
            .related
            .iter()
            .chain([object])
            .map(|one| text(one, "/metadata/uid"))
            .collect();
        let concerns = |event: &&Value| about.contains(text(event, "/involvedObject/uid"));
        facts.events = self.events.iter().filter(concerns).cloned().collect();
        // Why a claim is not bound its binder says.
        let claims = facts.related.iter().filter(|one| {
            explain::kind_of(one) == "PersistentVolumeClaim"
                && text(one, "/status/phase") != "Bound"
        });
        let own = std::iter::once(object).chain(self.owned("ReplicaSet", object));
        facts.decisions = decisions(run, own.chain(claims));
        explain::explain(&facts)
    }
}

fn decisions<'a>(run: &Run, objects: impl Iterator<Item = &'a Value>) -> Vec<Decided> {
    let asked: Vec<ObjectId> = objects.map(explain::id_of).collect();
    run.world.decisions.about(|_, about| {
        let is_it = |one: &ObjectId| (&one.group, &one.kind) == (&about.group, &about.kind);
        let mut asked = asked.iter();
        asked.any(|one| is_it(one) && one.key() == about.key())
    })
}
