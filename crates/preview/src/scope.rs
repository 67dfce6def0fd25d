//! What a preview is about: what was applied, and what depends on it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::kinds::StatefulSet;
use api::{Key, Uid};
use serde_json::Value;

use crate::facts::{self, Gathered};
use crate::log::Noted;
use crate::report::{Workload, is};
use crate::run::Run;

pub(crate) struct Scope<'a> {
    /// What was applied, and the workloads that are reported.
    roots: BTreeSet<String>,
    /// Who controls whom, by uid; with what is gone by now.
    owners: BTreeMap<String, String>,
    /// Claims that pods of the scope use.
    claims: BTreeSet<Key>,
    workloads: &'a [Workload],
}

impl<'a> Scope<'a> {
    pub(crate) fn of(
        run: &Run,
        gathered: &Gathered,
        noted: &Noted,
        workloads: &'a [Workload],
    ) -> Scope<'a> {
        let mut scope = Scope {
            roots: run.applied.iter().map(|one| one.uid.clone()).collect(),
            owners: owners(gathered, noted),
            claims: BTreeSet::new(),
            workloads,
        };
        let uids = workloads.iter().map(|one| one.id.uid.to_string());
        scope.roots.extend(uids);
        let claims = gathered
            .of_kind("Pod")
            .filter(|pod| scope.has(facts::text(pod, "/metadata/uid")))
            .flat_map(claims_of)
            .collect();
        scope.claims = claims;
        scope
    }

    /// Whether the object was applied, or depends on what was.
    pub(crate) fn has(&self, uid: &str) -> bool {
        let mut uid = uid;
        // Nobody owns their owner, but a copied state may say so.
        for _ in 0..OWNERS_MAX {
            if self.roots.contains(uid) {
                return true;
            }
            match self.owners.get(uid) {
                Some(owner) => uid = owner,
                None => return false,
            }
        }
        false
    }

    /// The workload that is reported.
    pub(crate) fn workload(&self, uid: &Uid) -> Option<&'a Workload> {
        self.workloads.iter().find(|one| one.id.uid == *uid)
    }

    /// Claims of pods, and those that a StatefulSet has created: they end in its name and a number.
    pub(crate) fn has_claim(&self, key: &Key) -> bool {
        let created = |workload: &Workload| {
            let stem = key.name.rsplit_once('-').map_or("", |(stem, _)| stem);
            is::<StatefulSet>(&workload.id)
                && workload.id.namespace == key.namespace
                && stem.ends_with(&format!("-{}", workload.id.name))
        };
        self.claims.contains(key) || self.workloads.iter().any(created)
    }

    /// Whether an event is about what was applied, or depends on it.
    pub(crate) fn concerns(&self, event: &Value) -> bool {
        let text = |pointer: &str| facts::text(event, pointer);
        let namespace = text("/involvedObject/namespace");
        self.has(text("/involvedObject/uid"))
            || (text("/involvedObject/kind") == "PersistentVolumeClaim"
                && self.has_claim(&Key::new(namespace, text("/involvedObject/name"))))
    }
}

/// CronJob, Job, Pod: the longest line of owners there is, and some more.
const OWNERS_MAX: usize = 8;

fn owners(gathered: &Gathered, noted: &Noted) -> BTreeMap<String, String> {
    let pods = noted.pods.iter();
    let pods = pods.filter_map(|(uid, life)| Some((uid, life.owner.as_ref()?)));
    let sets = noted.sets.iter();
    let sets = sets.filter_map(|(uid, (_, owner))| Some((uid, owner.as_ref()?)));
    let jobs = noted.jobs.iter();
    let jobs = jobs.filter_map(|(uid, life)| Some((uid, life.owner.as_ref()?)));
    let mut found: BTreeMap<String, String> = pods
        .chain(sets)
        .chain(jobs)
        .map(|(uid, owner)| (uid.to_string(), owner.to_string()))
        .collect();
    for object in gathered.workloads().chain(gathered.of_kind("Pod")) {
        let uid = facts::text(object, "/metadata/uid");
        let owner = facts::text(object, "/metadata/ownerReferences/0/uid");
        if !owner.is_empty() {
            found
                .entry(uid.to_owned())
                .or_insert_with(|| owner.to_owned());
        }
    }
    found
}

fn claims_of(pod: &Value) -> Vec<Key> {
    let namespace = facts::text(pod, "/metadata/namespace");
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let claims = volumes.into_iter().flatten().filter_map(|volume| {
        let claim = volume.pointer("/persistentVolumeClaim/claimName")?;
        Some(Key::new(namespace, claim.as_str()?))
    });
    claims.collect()
}
