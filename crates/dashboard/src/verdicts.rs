//! What is not settled, and why: one verdict for each object that is on its way or stuck.
//!
//! An object is explained when it, or something that it controls, has changed, and every few seconds as long as it is
//! not settled, because deadlines pass and events come. What rests on others (an Ingress on its Services) is explained
//! when one of them in its namespace becomes settled or is not any more. The words are those of `steersman why`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::collections::HashMap;
use api::kinds::{Service, WorkloadKind};
use api::{Meta, Resource, ResourceType, Uid};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::feed::{Feed, Item, Scope};
use crate::source::{Named, Source};

pub(crate) struct Verdicts {
    inner: Mutex<Inner>,
    dirty: Notify,
    /// Rollouts among what was explained are to be predicted.
    explained: Notify,
}

#[derive(Default)]
struct Inner {
    /// What may be unsettled, by key.
    open: BTreeMap<String, Open>,
    /// What controls pods, by uid: its key and who controls it in turn.
    owners: HashMap<Uid, (String, Option<Uid>)>,
    /// What rests on others, by namespace: its keys and what it is.
    resting: BTreeMap<String, BTreeMap<String, Named>>,
}

struct Open {
    object: Named,
    rolls_out: bool,
    generation: i64,
    dirty: bool,
    /// It takes one of the places of those that are explained.
    is_explained: bool,
    /// It has a verdict by which it is not settled.
    is_told: bool,
    rests_on_others: bool,
    predicted: Option<i64>,
}

/// Objects that are explained at a time; others take the places of those that become settled.
const OPEN_MAX: usize = 200;

/// Explanations in one go: enough that all are a few seconds old at most, few enough that nothing else waits.
const AT_ONCE: usize = 25;

/// Changes come in bursts, and what a controller makes of one follows it: a verdict in between would be wrong at once.
const GATHERING: Duration = Duration::from_millis(15);

/// Explaining large workloads takes time: so many times as long nothing is explained, so that most of a core is left.
const REST: u32 = 2;

/// Deadlines pass, and events come without a change of the object.
const AGAIN: Duration = Duration::from_secs(4);

impl Verdicts {
    pub(crate) fn new() -> Verdicts {
        Verdicts {
            inner: Mutex::default(),
            dirty: Notify::new(),
            explained: Notify::new(),
        }
    }

    /// An object has changed.
    pub(crate) fn note(
        &self,
        key: &str,
        resource: &ResourceType,
        meta: &Meta,
        open: bool,
        rests_on_others: bool,
    ) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let owner = meta.controller().map(|owner| owner.uid.clone());
        inner.touch_owner(owner.as_ref());
        let workload = WorkloadKind::of(&resource.group, &resource.kind);
        if workload.is_some() {
            inner
                .owners
                .insert(meta.uid.clone(), (key.to_owned(), owner));
        }
        let object = || named(resource, &meta.namespace, &meta.name);
        if rests_on_others {
            let resting = inner.resting.entry(meta.namespace.to_string()).or_default();
            resting.insert(key.to_owned(), object());
        }
        let rolls_out = workload.is_some_and(|found| found.rolls_out);
        match inner.open.get_mut(key) {
            Some(known) => {
                known.dirty = true;
                known.generation = meta.generation;
            }
            None if !open => return,
            None => {
                let opened = Open {
                    rolls_out,
                    generation: meta.generation,
                    ..Open::new(object(), rests_on_others)
                };
                inner.open.insert(key.to_owned(), opened);
            }
        }
        self.dirty.notify_one();
    }

    /// Something else says of an object that it may not be settled, or has changed for it.
    pub(crate) fn touch(
        &self,
        key: &str,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
        open: bool,
    ) {
        let mut inner = self.inner.lock();
        match inner.open.get_mut(key) {
            Some(known) => known.dirty = true,
            None if !open => return,
            None => {
                let opened = Open::new(named(resource, namespace, name), false);
                inner.open.insert(key.to_owned(), opened);
            }
        }
        self.dirty.notify_one();
    }

    /// An object is gone.
    pub(crate) fn forget(&self, key: &str, resource: &ResourceType, meta: &Meta) {
        let mut inner = self.inner.lock();
        inner.owners.remove(&meta.uid);
        let owner = meta.controller().map(|owner| owner.uid.clone());
        inner.touch_owner(owner.as_ref());
        if let Some(resting) = inner.resting.get_mut(&*meta.namespace) {
            resting.remove(key);
            if resting.is_empty() {
                inner.resting.remove(&*meta.namespace);
            }
        }
        if let Some(open) = inner.open.get_mut(key) {
            // Gone is settled; the next pass takes its verdict away.
            open.dirty = true;
        }
        if *resource == Service::TYPE {
            // An Ingress may lead to it.
            inner.open_resting(&meta.namespace);
        }
        self.dirty.notify_one();
    }

    /// Explains and predicts what has to be, for as long as it is polled. No verdict waits for a prediction, which runs
    /// a whole rollout.
    pub(crate) async fn run(&self, feed: &Arc<Feed>, source: &Arc<dyn Source>) {
        tokio::join!(self.explain(feed, source), self.predict(feed, source));
    }

    async fn explain(&self, feed: &Arc<Feed>, source: &Arc<dyn Source>) {
        let mut again = tokio::time::Instant::now() + AGAIN;
        loop {
            tokio::select! {
                () = self.dirty.notified() => {}
                () = tokio::time::sleep_until(again) => {
                    again = tokio::time::Instant::now() + AGAIN;
                    self.inner.lock().open.values_mut().for_each(|open| open.dirty = true);
                }
            }
            tokio::time::sleep(GATHERING).await;
            let begun = tokio::time::Instant::now();
            for (key, object) in self.take_dirty() {
                let verdict = source.why(&object, None).await;
                self.tell(feed, &key, &object, verdict.ok());
            }
            self.explained.notify_one();
            tokio::time::sleep(begun.elapsed() * REST).await;
        }
    }

    async fn predict(&self, feed: &Arc<Feed>, source: &Arc<dyn Source>) {
        loop {
            let Some((key, object, generation)) = self.next_rollout() else {
                self.explained.notified().await;
                continue;
            };
            if let Some(mut prediction) = source.predict(&object, None).await {
                prediction["generation"] = generation.into();
                feed.put(&format!("preview/{key}"), for_owners_alone(&prediction));
            }
        }
    }

    /// What is explained next.
    fn take_dirty(&self) -> Vec<(String, Named)> {
        let mut inner = self.inner.lock();
        let explained = inner.open.values().filter(|open| open.is_explained);
        let mut places = OPEN_MAX.saturating_sub(explained.count());
        let mut taken = Vec::new();
        let mut more = false;
        for (key, open) in inner.open.iter_mut().filter(|(_, open)| open.dirty) {
            if !open.is_explained && places == 0 {
                continue;
            }
            if taken.len() == AT_ONCE {
                more = true;
                break;
            }
            places -= usize::from(!open.is_explained);
            open.dirty = false;
            open.is_explained = true;
            taken.push((key.clone(), open.object.clone()));
        }
        if more {
            self.dirty.notify_one();
        }
        taken
    }

    /// The next rollout that has a verdict and no prediction of this generation.
    fn next_rollout(&self) -> Option<(String, Named, i64)> {
        let mut inner = self.inner.lock();
        let mut due = inner.open.iter_mut().filter(|(_, open)| {
            open.rolls_out && open.is_explained && open.predicted != Some(open.generation)
        });
        let (key, open) = due.next()?;
        open.predicted = Some(open.generation);
        Some((key.clone(), open.object.clone(), open.generation))
    }

    fn tell(&self, feed: &Feed, key: &str, object: &Named, verdict: Option<Value>) {
        let row = format!("why/{key}");
        let unsettled = verdict.filter(|found| found["state"] != "settled");
        let is_told = unsettled.is_some();
        {
            let mut inner = self.inner.lock();
            let (was_told, rests) = inner
                .open
                .get(key)
                .map_or((false, true), |open| (open.is_told, open.rests_on_others));
            if was_told != is_told && !rests {
                inner.open_resting(&object.namespace);
                self.dirty.notify_one();
            }
            match inner.open.get_mut(key) {
                Some(open) if is_told => open.is_told = true,
                // What has changed since it was explained is explained once more.
                Some(open) if open.dirty => open.is_told = false,
                _ => {
                    inner.open.remove(key);
                    // Somebody may wait for its place.
                    self.dirty.notify_one();
                }
            }
        }
        let Some(found) = unsettled else {
            feed.remove(&row);
            return;
        };
        let told = json!({
            "kind": object.kind, "ns": object.namespace, "name": object.name,
            "state": found["state"], "verdict": found["verdict"], "help": found["help"],
            "waits": found["waits"],
        });
        feed.put(&row, for_owners_alone(&told));
    }
}

impl Open {
    fn new(object: Named, rests_on_others: bool) -> Open {
        Open {
            object,
            rolls_out: false,
            generation: 0,
            dirty: true,
            is_explained: false,
            is_told: false,
            rests_on_others,
            predicted: None,
        }
    }
}

fn named(resource: &ResourceType, namespace: &str, name: &str) -> Named {
    Named {
        kind: resource.kind.to_string(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

impl Inner {
    /// Something in this namespace has become settled, or is not any more: what rests on it is to be explained.
    fn open_resting(&mut self, namespace: &str) {
        let resting = self.resting.get(namespace).into_iter().flatten();
        for (key, object) in resting {
            let open = self.open.entry(key.clone());
            open.or_insert_with(|| Open::new(object.clone(), true))
                .dirty = true;
        }
    }

    /// Something changed below this owner: whoever is at the top of it is to be explained again.
    fn touch_owner(&mut self, owner: Option<&Uid>) {
        let mut above = owner.cloned();
        // Deployments own ReplicaSets, CronJobs own Jobs: nothing is deeper.
        for _ in 0..3 {
            let Some(found) = above.as_ref().and_then(|uid| self.owners.get(uid)) else {
                return;
            };
            if let Some(open) = self.open.get_mut(&found.0) {
                open.dirty = true;
            }
            above = found.1.clone();
        }
    }
}

/// It rests on more than one kind: who may not see everything asks for a verdict of his own.
fn for_owners_alone(value: &Value) -> Item {
    Item {
        scope: Arc::new(Scope {
            group: String::new(),
            plural: String::new(),
            namespace: String::new(),
            decided: false,
        }),
        json: value.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use api::kinds::{Deployment, ResourceQuota};

    use super::*;

    fn meta(name: &str) -> Meta {
        let meta = json!({"name": name, "namespace": "shop", "uid": name, "generation": 1});
        serde_json::from_value(meta).unwrap()
    }

    fn stuck() -> Option<Value> {
        Some(json!({"state": "stuck", "verdict": "is stuck"}))
    }

    fn complete() -> Option<Value> {
        Some(json!({"state": "settled", "verdict": "is complete"}))
    }

    fn taken(verdicts: &Verdicts) -> Vec<String> {
        verdicts
            .take_dirty()
            .into_iter()
            .map(|(key, _)| key)
            .collect()
    }

    /// The verdict of whatever is due is this one.
    fn explain(verdicts: &Verdicts, feed: &Feed, verdict: Option<Value>) -> Vec<String> {
        let due = verdicts.take_dirty();
        for (key, object) in &due {
            verdicts.tell(feed, key, object, verdict.clone());
        }
        due.into_iter().map(|(key, _)| key).collect()
    }

    fn note(verdicts: &Verdicts, name: &str, open: bool) {
        verdicts.note(name, &Deployment::TYPE, &meta(name), open, false);
    }

    #[test]
    fn what_rests_on_others_is_explained_when_one_of_them_becomes_stuck_and_when_it_is_settled() {
        let (verdicts, feed) = (Verdicts::new(), Feed::new());
        verdicts.note("quota", &ResourceQuota::TYPE, &meta("quota"), false, true);
        assert!(taken(&verdicts).is_empty());
        note(&verdicts, "web", true);
        assert_eq!(explain(&verdicts, &feed, stuck()), ["web"]);
        assert_eq!(explain(&verdicts, &feed, complete()), ["quota"]);
        note(&verdicts, "web", true);
        assert_eq!(
            explain(&verdicts, &feed, stuck()),
            ["web"],
            "that is nothing new"
        );
        note(&verdicts, "web", false);
        assert_eq!(explain(&verdicts, &feed, complete()), ["web"]);
        assert_eq!(taken(&verdicts), ["quota"]);
    }

    #[test]
    fn more_than_there_is_room_for_wait_for_a_place() {
        let (verdicts, feed) = (Verdicts::new(), Feed::new());
        for number in 0..=OPEN_MAX {
            note(&verdicts, &format!("web-{number:03}"), true);
        }
        let mut explained = Vec::new();
        while let due = explain(&verdicts, &feed, stuck())
            && !due.is_empty()
        {
            explained.extend(due);
        }
        assert_eq!(explained.len(), OPEN_MAX);
        note(&verdicts, "web-000", false);
        assert_eq!(explain(&verdicts, &feed, complete()), ["web-000"]);
        assert_eq!(taken(&verdicts), [format!("web-{OPEN_MAX:03}")]);
    }

    #[test]
    fn what_changes_while_it_is_explained_is_explained_again() {
        let (verdicts, feed) = (Verdicts::new(), Feed::new());
        note(&verdicts, "web", true);
        let (key, object) = verdicts.take_dirty().remove(0);
        note(&verdicts, "web", true);
        verdicts.tell(&feed, &key, &object, complete());
        assert_eq!(taken(&verdicts), ["web"]);
    }
}
