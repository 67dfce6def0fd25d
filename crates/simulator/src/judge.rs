//! Sees every single change, in order, and knows what must not happen.
//!
//! The judge holds a mirror of what is really in the API server, whatever the managers' caches say. After
//! each write it checks what must always hold; at the end it checks what must hold when nothing changes
//! any more.

mod end_state;
mod housekeeping;
mod jobs;
mod mirror;
mod past;
mod rest;
mod safety;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, MicroTime};
use apiserver::{ApiServer, Changed};
use bytes::Bytes;
use http::Method;
use tokio::sync::Notify;

use crate::faults::Gremlin;
use crate::trace::Actor;

pub(crate) use mirror::Mirror;
use past::Past;

/// Clones share it.
#[derive(Clone)]
pub(crate) struct Judge(Arc<Mutex<Inner>>, Arc<Notify>);

struct Inner {
    mirror: Mirror,
    past: Past,
    revision: u64,
    broken: Option<String>,
    clock: Clock,
    gremlin: Gremlin,
    checks: u64,
    /// Who each manager is in the lease. Empty while there is one that need not ask.
    identities: BTreeMap<usize, String>,
    /// Caches may lag behind for so long that a controller cannot be blamed for what it did not see.
    views_may_lag: bool,
    /// How far the clock of a manager may be ahead: it acts by its own.
    skew: Duration,
    /// How many requests there were in the present second.
    requests: (MicroTime, u32),
    /// How many changes there were in all, but for those that go on for ever, and how many are too many.
    changes: u64,
    changes_max: u64,
    counts: Counts,
}

/// How busy the server was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Everything that was asked, reads and watches too.
    pub requests: u64,
    /// Everything that changed: leases and events too.
    pub changes: u64,
}

/// More requests in a second than anything here has a reason for: somebody runs in circles, and virtual
/// time may never move again.
const REQUESTS_A_SECOND_MAX: u32 = 20_000;

/// What a request is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) plural: String,
    pub(crate) namespace: String,
    /// None for requests about many objects.
    pub(crate) name: Option<String>,
}

impl Place {
    pub(crate) fn of(path: &str) -> Place {
        let mut parts = path.trim_start_matches('/').split('/');
        let skipped = match parts.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return Place::default(),
        };
        let rest: Vec<&str> = parts.skip(skipped).collect();
        let (namespace, rest) = match rest.as_slice() {
            // The namespace itself, or its status and finalizers.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest.as_slice()),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        Place {
            plural: rest.first().copied().unwrap_or_default().to_owned(),
            namespace: namespace.to_owned(),
            name: rest.get(1).map(|name| (*name).to_owned()),
        }
    }

    fn holds(&self, changed: &Changed) -> bool {
        self.plural == changed.plural
            && self.namespace == changed.namespace
            && self.name.as_ref().is_none_or(|name| *name == changed.name)
    }
}

impl Judge {
    pub(crate) fn new(server: &ApiServer, clock: Clock, gremlin: Gremlin) -> Judge {
        let clock_now = clock.now();
        let judge = Judge(
            Arc::new(Mutex::new(Inner {
                mirror: Mirror::new(),
                past: Past::default(),
                revision: 0,
                broken: None,
                clock,
                gremlin,
                checks: 0,
                identities: BTreeMap::new(),
                views_may_lag: false,
                skew: Duration::ZERO,
                requests: (clock_now, 0),
                changes: 0,
                changes_max: u64::MAX,
                counts: Counts::default(),
            })),
            Arc::default(),
        );
        judge.lock().read_all(server);
        judge
    }

    /// Forgets what it saw and looks at everything: the server has lost changes.
    pub(crate) fn start_over(&self, server: &ApiServer) {
        let mut inner = self.lock();
        inner.read_all(server);
        let now = inner.clock.now();
        inner.past.forgive(now);
    }

    /// More changes than that are a sign of somebody who writes without end.
    pub(crate) fn expect_changes(&self, most: u64) {
        self.lock().changes_max = most;
    }

    pub(crate) fn expect_lag(&self) {
        self.lock().views_may_lag = true;
    }

    pub(crate) fn expect_skew(&self, skew: Duration) {
        self.lock().skew = skew;
    }

    pub(crate) fn expect_slow_requests(&self) {
        self.lock().past.is_slow = true;
    }

    /// A process begins that writes events.
    pub(crate) fn lives(&self) {
        self.lock().mirror.lives += 1;
    }

    /// From here on this manager may write only while the lease names it.
    pub(crate) fn stands(&self, manager: usize, identity: &str) {
        let mut inner = self.lock();
        inner.identities.insert(manager, identity.to_owned());
    }

    /// Looks at a request before it is sent.
    pub(crate) fn before(&self, actor: Actor, method: &Method, place: &Place, body: &Bytes) {
        let verdict = self.lock().check_request(actor, method, place, body);
        self.conclude(verdict);
    }

    /// Counts any request, reads too.
    pub(crate) fn count(&self, actor: Actor) {
        let mut inner = self.lock();
        let now = inner.clock.now();
        if now.since(inner.requests.0) >= Duration::from_secs(1) {
            inner.requests = (now, 0);
        }
        inner.requests.1 += 1;
        inner.counts.requests += 1;
        let spins = inner.requests.1 == REQUESTS_A_SECOND_MAX;
        drop(inner);
        if spins {
            let problem =
                format!("{actor} and others sent {REQUESTS_A_SECOND_MAX} requests in a second");
            self.conclude(Err(problem));
        }
    }

    /// Waits until something is broken.
    pub(crate) async fn breaks(&self) -> String {
        loop {
            if let Some(problem) = self.broken() {
                return problem;
            }
            self.1.notified().await;
        }
    }

    /// Looks at what has changed since the last time; `actor` did what is at `place`.
    pub(crate) fn look(&self, server: &ApiServer, actor: Actor, place: &Place) {
        let mut inner = self.lock();
        let from = inner.revision;
        if server.revision() <= from {
            return;
        }
        for changed in server.changes_after(from) {
            inner.revision = changed.revision;
            // A pod that finds no node for days says so every few minutes.
            let is_chatter =
                changed.plural == "leases" || changed.plural == "events" && actor == Actor::Nodes;
            inner.changes += u64::from(!is_chatter);
            inner.counts.changes += 1;
            let most = inner.changes_max;
            if inner.changes > most {
                drop(inner);
                return self.conclude(Err(format!(
                    "there were more than {most} changes, and no end"
                )));
            }
            let by = place.holds(&changed).then_some(actor);
            let (before, after) = inner.mirror.apply(&changed);
            let verdict = inner.check_change(by, &changed, before.as_ref(), after.as_ref());
            if verdict.is_err() {
                drop(inner);
                return self.conclude(verdict);
            }
        }
    }

    fn conclude(&self, verdict: Result<(), String>) {
        if let Err(problem) = verdict {
            self.lock().broken.get_or_insert(problem);
            self.1.notify_one();
        }
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    pub(crate) fn checks(&self) -> u64 {
        self.lock().checks
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    pub(crate) fn with_mirror<T>(&self, look: impl FnOnce(&Mirror) -> T) -> T {
        look(&self.lock().mirror)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

impl Inner {
    fn read_all(&mut self, server: &ApiServer) {
        let lives = self.mirror.lives;
        self.mirror = Mirror::new();
        self.mirror.lives = lives;
        for changed in server.objects() {
            self.mirror.apply(&changed);
        }
        self.revision = server.revision();
    }
}
