//! What is not settled, and why: one verdict for each object that is on its way or stuck.
//!
//! An object is explained when it, or something that it controls, has changed, and every few seconds as long as it is
//! not settled, because deadlines pass and events come. The words are those of `steersman why`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::collections::HashMap;
use api::kinds::WorkloadKind;
use api::{Meta, ResourceType, Uid};
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
}

struct Open {
    object: Named,
    rolls_out: bool,
    generation: i64,
    dirty: bool,
    is_explained: bool,
    predicted: Option<i64>,
}

/// Objects that are explained at all; who has more that is not settled has to solve the first ones first.
const OPEN_MAX: usize = 200;

/// Explanations in one go: enough that all are a few seconds old at most, few enough that nothing else waits.
const AT_ONCE: usize = 25;

/// Changes come in bursts.
const GATHERING: Duration = Duration::from_millis(40);

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
    pub(crate) fn note(&self, key: &str, resource: &ResourceType, meta: &Meta, open: bool) {
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
        let is_full = inner.open.len() >= OPEN_MAX;
        match (inner.open.get_mut(key), open) {
            (Some(known), _) => {
                known.dirty = true;
                known.generation = meta.generation;
            }
            (None, false) => return,
            (None, true) if is_full => return,
            (None, true) => {
                let opened = Open {
                    object: Named {
                        kind: resource.kind.to_string(),
                        namespace: meta.namespace.to_string(),
                        name: meta.name.to_string(),
                    },
                    rolls_out: workload.is_some_and(|found| found.rolls_out),
                    generation: meta.generation,
                    dirty: true,
                    is_explained: false,
                    predicted: None,
                };
                inner.open.insert(key.to_owned(), opened);
            }
        }
        self.dirty.notify_one();
    }

    /// An object is gone.
    pub(crate) fn forget(&self, key: &str, meta: &Meta) {
        let mut inner = self.inner.lock();
        inner.owners.remove(&meta.uid);
        let owner = meta.controller().map(|owner| owner.uid.clone());
        inner.touch_owner(owner.as_ref());
        if let Some(open) = inner.open.get_mut(key) {
            // Gone is settled; the next pass takes its verdict away.
            open.dirty = true;
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
            for (key, object) in self.take_dirty() {
                let verdict = source.why(&object, None).await;
                self.tell(feed, &key, &object, verdict.ok());
            }
            self.explained.notify_one();
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
        let all = inner.open.iter_mut().filter(|(_, open)| open.dirty);
        let taken: Vec<_> = all
            .take(AT_ONCE)
            .map(|(key, open)| {
                open.dirty = false;
                open.is_explained = true;
                (key.clone(), open.object.clone())
            })
            .collect();
        if inner.open.values().any(|open| open.dirty) {
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
        let Some(found) = unsettled else {
            self.inner.lock().open.remove(key);
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

impl Inner {
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
