//! The dashboard: a page that shows what the controllers do and why.
//!
//! One [`Feed`] for the process: informers of its own client and the decisions of its controllers become rows, rows become
//! frames, and every page gets the same frames ([`feed`]). A page begins with everything that is there and the last minutes
//! of history, and from then on is told what changes: it never asks again, and no browser costs the API server a watch.
//! What is not in a row (an object's YAML, its events, the whole explanation) is asked for when somebody opens it, with the
//! rights of whoever looks.
//!
//! While no page is open there are no informers, no rows and no history.
//!
//! What this crate does not know is behind [`Source`]: how an object is explained, a rollout predicted, a node stopped.

mod access;
mod answer;
mod assets;
mod feed;
mod follow;
mod kinds;
mod port;
mod rows;
mod serve;
mod source;
#[cfg(test)]
mod tests;
mod verdicts;
mod viewer;

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Rng};
use client::Client;
use parking_lot::Mutex;
use runtime::{Decisions, Stop, Task, spawn};
use serde_json::Value;

pub use access::{Access, LinkKey};
pub use answer::{Body, Query, query};
pub use assets::{Notes, Recording, one_file};
pub use feed::{Feed, decision_json};
pub use kinds::drawn;
pub use port::{PATH, Sessions, turn_away};
pub use serve::serve;
pub use source::{Action, Named, Source};
pub use viewer::{Viewer, may_read_decisions};

use feed::{Frame, Snapshot};
use follow::Follower;
use verdicts::Verdicts;

/// What the dashboard is made of.
pub struct Setup {
    pub feed: Arc<Feed>,
    /// Sees everything; what a viewer may see of it is asked for.
    pub client: Client,
    pub decisions: Decisions,
    pub clock: Clock,
    pub rng: Rng,
    pub source: Arc<dyn Source>,
    /// What the page calls the cluster.
    pub cluster: String,
    /// Whether pages may do anything.
    pub acts: bool,
    /// Whether somebody sees everything: verdicts are made for him once, others ask for theirs.
    pub has_owner: bool,
}

/// The dashboard of a process.
pub struct Dashboard {
    feed: Arc<Feed>,
    decisions: Decisions,
    clock: Clock,
    rng: Rng,
    source: Arc<dyn Source>,
    cluster: String,
    acts: bool,
    has_owner: bool,
    owner: Arc<Viewer>,
    running: Mutex<Option<Running>>,
}

/// What runs while pages are open.
struct Running {
    tasks: Vec<Task<()>>,
    _stopper: runtime::stop::Stopper,
}

/// How long everything stays when the last page is closed: reloading a page must not forget the history.
const GRACE: Duration = Duration::from_secs(60);

impl Dashboard {
    pub fn new(setup: Setup) -> Arc<Dashboard> {
        Arc::new(Dashboard {
            feed: setup.feed,
            decisions: setup.decisions,
            clock: setup.clock,
            rng: setup.rng,
            source: setup.source,
            cluster: setup.cluster,
            acts: setup.acts,
            has_owner: setup.has_owner,
            owner: Viewer::owner(setup.client),
            running: Mutex::new(None),
        })
    }

    /// A page comes; the first one starts everything.
    pub(crate) fn open(self: &Arc<Dashboard>) -> Snapshot {
        let mut running = self.running.lock();
        if running.is_none() {
            let mut started = self.start();
            let dashboard = self.clone();
            let ending = spawn(async move { dashboard.stop_when_unused().await });
            started.tasks.push(ending);
            *running = Some(started);
        }
        self.feed.subscribe(self.clock.now())
    }

    /// Begins a recording: everything is followed, whether or not anybody looks.
    pub fn record(self: &Arc<Dashboard>) {
        *self.running.lock() = Some(self.start());
    }

    /// Ends a recording: what happened, for [`Recording`].
    pub fn recorded(&self) -> (Value, Vec<Value>) {
        let now = self.clock.now();
        self.feed.flush(now);
        let snapshot = self.feed.subscribe(now);
        self.running.lock().take();
        let parsed =
            |frame: &Frame| serde_json::from_str(&frame.render(|_| true)).unwrap_or_default();
        let frames = snapshot.history.iter().map(|frame| parsed(frame)).collect();
        (parsed(&snapshot.base), frames)
    }

    fn start(self: &Arc<Dashboard>) -> Running {
        self.feed
            .activate(self.decisions.about(|_, _| true), self.clock.now());
        let (stopper, stop) = Stop::new();
        let verdicts = Arc::new(Verdicts::new());
        let follower = Follower {
            feed: self.feed.clone(),
            verdicts: verdicts.clone(),
            client: self.owner.client.clone(),
            rng: self.rng.clone(),
            stop,
        };
        let mut tasks: Vec<Task<()>> = follower.all().into_iter().map(spawn).collect();
        let (feed, clock) = (self.feed.clone(), self.clock.clone());
        tasks.push(spawn(async move { feed.run(&clock).await }));
        if self.has_owner {
            let (feed, source) = (self.feed.clone(), self.source.clone());
            tasks.push(spawn(async move { verdicts.run(&feed, &source).await }));
        }
        Running {
            tasks,
            _stopper: stopper,
        }
    }

    async fn stop_when_unused(&self) {
        let mut was_used = true;
        loop {
            tokio::time::sleep(GRACE / 2).await;
            let is_used = self.feed.pages() > 0;
            if !is_used && !was_used {
                let mut running = self.running.lock();
                // A page may have come in between.
                if self.feed.pages() == 0 {
                    self.feed.deactivate();
                    // This ends the task that does it, too.
                    running.take();
                    return;
                }
            }
            was_used = is_used;
        }
    }
}
