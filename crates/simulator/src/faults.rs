//! The fault injector between a manager and the API server: what goes wrong with requests and watches.

mod watches;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{Rng, Uid};
use bytes::Bytes;
use client::{Body, BoxError, Transport};
use controllers::oracle::SLOW_REACTION;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::bell::Bell;

/// How often things go wrong: one in so many requests, watches or events. Zero means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    pub lost_before: usize,
    pub lost_after: usize,
    pub conflict: usize,
    pub too_many: usize,
    pub internal: usize,
    pub timeout: usize,
    pub slow: usize,
    pub slow_list: usize,
    pub watch_cut: usize,
    pub watch_frozen: usize,
    pub watch_expired: usize,
    pub duplicate: usize,
}

impl FaultRates {
    /// A mix that the seed decides: some runs are calm, some are wild.
    pub fn from_seed(rng: &Rng) -> FaultRates {
        let one_in = |most: usize| {
            if rng.chance(2) {
                0
            } else {
                5 + rng.below(most)
            }
        };
        FaultRates {
            lost_before: one_in(60),
            lost_after: one_in(60),
            conflict: one_in(100),
            too_many: one_in(100),
            internal: one_in(100),
            timeout: one_in(100),
            slow: one_in(10),
            slow_list: one_in(10),
            watch_cut: one_in(40),
            watch_frozen: one_in(10),
            watch_expired: one_in(40),
            duplicate: one_in(40),
        }
    }

    /// Each class by its name, for the command line and for shrinking.
    pub fn classes(&mut self) -> [(&'static str, &mut usize); 12] {
        [
            ("lost-before", &mut self.lost_before),
            ("lost-after", &mut self.lost_after),
            ("conflict", &mut self.conflict),
            ("too-many-requests", &mut self.too_many),
            ("internal-error", &mut self.internal),
            ("timeout", &mut self.timeout),
            ("slow", &mut self.slow),
            ("slow-list", &mut self.slow_list),
            ("watch-cut", &mut self.watch_cut),
            ("watch-frozen", &mut self.watch_frozen),
            ("watch-expired", &mut self.watch_expired),
            ("duplicate", &mut self.duplicate),
        ]
    }
}

impl fmt::Display for FaultRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut faults = *self;
        let named: Vec<String> = faults
            .classes()
            .iter()
            .filter(|(_, one_in)| **one_in > 0)
            .map(|(name, one_in)| format!("{name} 1/{one_in}"))
            .collect();
        f.write_str(&named.join(", "))
    }
}

/// Does what [`FaultRates`] says, until it is told to stop. Clones share it.
#[derive(Clone)]
pub struct FaultInjector(Arc<Inner>);

struct Inner {
    faults: FaultRates,
    /// It never does anything, so nobody need pass it.
    is_idle: bool,
    rng: Rng,
    resting: AtomicBool,
    cuts: Bell,
    expiries: Bell,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: BTreeMap<&'static str, u64>,
    frozen: BTreeMap<&'static str, Instant>,
    delayed: BTreeMap<&'static str, (Instant, Duration)>,
    isolated: BTreeMap<usize, Instant>,
    /// Until when a request of each controller took its time.
    slow: BTreeMap<(usize, &'static str), Instant>,
    /// How many creations each owner cannot know the outcome of.
    unacknowledged: BTreeMap<Uid, i32>,
}

impl FaultInjector {
    pub fn new(faults: FaultRates, rng: Rng) -> FaultInjector {
        FaultInjector::made(faults, rng, false)
    }

    /// For runs in which nothing goes wrong between managers and the API server.
    pub(crate) fn idle(rng: Rng) -> FaultInjector {
        FaultInjector::made(FaultRates::default(), rng, true)
    }

    fn made(faults: FaultRates, rng: Rng, is_idle: bool) -> FaultInjector {
        FaultInjector(Arc::new(Inner {
            faults,
            is_idle,
            rng,
            resting: AtomicBool::new(false),
            cuts: Bell::default(),
            expiries: Bell::default(),
            state: Mutex::default(),
        }))
    }

    /// No more faults from here on, and none that still lasts.
    pub fn stop(&self) {
        self.0.resting.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        state.frozen.clear();
        state.delayed.clear();
        state.isolated.clear();
    }

    /// How many faults were injected, by class.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().done.clone()
    }

    /// Counts faults that others make.
    pub(crate) fn count(&self, class: &'static str) {
        *self.lock().done.entry(class).or_default() += 1;
    }

    pub(crate) fn freeze(&self, plural: &'static str, lasts: Duration) {
        self.lock().frozen.insert(plural, Instant::now() + lasts);
    }

    pub(crate) fn delay(&self, plural: &'static str, by: Duration, lasts: Duration) {
        let until = Instant::now() + lasts;
        self.lock().delayed.insert(plural, (until, by));
    }

    pub(crate) fn isolate(&self, manager: usize, lasts: Duration) {
        self.lock().isolated.insert(manager, Instant::now() + lasts);
    }

    pub(crate) fn cut_watches(&self) {
        self.0.cuts.ring();
    }

    pub(crate) fn expire_watches(&self) {
        self.0.expiries.ring();
    }

    /// How many more pods than wanted an owner may have made, because it was not told that it did.
    pub(crate) fn unacknowledged(&self, owner: &Uid) -> i32 {
        self.lock().unacknowledged.get(owner).copied().unwrap_or(0)
    }

    fn note_slow(&self, client: (usize, &'static str), lasts: Duration) {
        let mut state = self.lock();
        let until = state.slow.entry(client).or_insert_with(Instant::now);
        *until = (*until).max(Instant::now() + lasts);
    }

    /// Has a request of this controller been slow lately? Then what it writes now was decided some time ago.
    pub(crate) fn has_slowed(&self, manager: usize, controller: &'static str) -> bool {
        let until = self.lock().slow.get(&(manager, controller)).copied();
        until.is_some_and(|until| Instant::now() < until + SLOW_REACTION)
    }

    /// The transport of one manager, with the fault injector in between.
    pub fn between(&self, inner: Transport, manager: usize, controller: &'static str) -> Transport {
        if self.0.is_idle {
            return inner;
        }
        let injector = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            let (injector, inner) = (injector.clone(), inner.clone());
            async move { injector.pass(inner, request, (manager, controller)).await }
        }))
    }

    async fn pass(
        &self,
        mut inner: Transport,
        request: Request<Bytes>,
        (manager, controller): (usize, &'static str),
    ) -> Result<Response<Body>, BoxError> {
        let faults = &self.0.faults;
        let is_read = request.method() == Method::GET;
        let plural = watches::listed(&request);
        self.hold_up(manager).await?;
        let (there, back) = self.latency(is_read && plural.is_some());
        if !(there + back).is_zero() {
            self.note_slow((manager, controller), there + back);
        }
        pause(there).await;
        if self.strikes("lost-before", faults.lost_before) {
            return Err("the request was lost".into());
        }
        if !is_read && let Some(refusal) = self.refusal()? {
            return Ok(refusal);
        }
        let (is_create, body) = (request.method() == Method::POST, request.body().clone());
        let is_watch = is_read && watches::is_watch(&request);
        let response = inner.ready().await?.call(request).await?;
        pause(back).await;
        if !is_read && self.strikes("lost-after", faults.lost_after) {
            if is_create {
                self.note_unacknowledged(&body);
            }
            return Err("the answer was lost".into());
        }
        Ok(match plural {
            Some(plural) if is_watch => self.spoil(response, plural, manager),
            _ => response,
        })
    }

    /// The wall around an isolated manager.
    async fn hold_up(&self, manager: usize) -> Result<(), BoxError> {
        if self.is_isolated(manager).is_some() {
            // What a client waits for a connection before it gives up, more or less.
            pause(Duration::from_secs(1)).await;
            return Err("no route to the API server".into());
        }
        Ok(())
    }

    /// How long a request takes to come there, and its answer to come back. Watches may be faster than the answer: then
    /// a controller is told of its own write while it still waits for it, and of what others do meanwhile.
    fn latency(&self, is_list: bool) -> (Duration, Duration) {
        let faults = &self.0.faults;
        let (slow, most) = match is_list {
            true => (self.strikes("slow-list", faults.slow_list), 10_000),
            false => (self.strikes("slow", faults.slow), 2000),
        };
        if !slow {
            return (Duration::ZERO, Duration::ZERO);
        }
        let lasts = Duration::from_millis(self.0.rng.below(most) as u64);
        match self.0.rng.chance(2) {
            true => (lasts, Duration::ZERO),
            false => (Duration::ZERO, lasts),
        }
    }

    fn is_isolated(&self, manager: usize) -> Option<Instant> {
        let until = self.lock().isolated.get(&manager).copied();
        until.filter(|until| Instant::now() < *until)
    }

    fn note_unacknowledged(&self, body: &Bytes) {
        let object: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
        if let Some(owner) = owner {
            *self.lock().unacknowledged.entry(owner.into()).or_default() += 1;
        }
    }

    fn refusal(&self) -> Result<Option<Response<Body>>, BoxError> {
        let faults = &self.0.faults;
        let refusals = [
            ("conflict", faults.conflict, 409, "Conflict"),
            ("too-many-requests", faults.too_many, 429, "TooManyRequests"),
            ("internal-error", faults.internal, 500, "InternalError"),
            ("timeout", faults.timeout, 504, "Timeout"),
        ];
        for (class, one_in, code, reason) in refusals {
            if self.strikes(class, one_in) {
                return refuse(code, reason).map(Some);
            }
        }
        Ok(None)
    }

    fn strikes(&self, class: &'static str, one_in: usize) -> bool {
        let strikes =
            one_in > 0 && !self.0.resting.load(Ordering::Relaxed) && self.0.rng.chance(one_in);
        if strikes {
            self.count(class);
        }
        strikes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// A sleep of no time at all would still let others go first.
async fn pause(lasts: Duration) {
    if !lasts.is_zero() {
        tokio::time::sleep(lasts).await;
    }
}

fn refuse(code: u16, reason: &str) -> Result<Response<Body>, BoxError> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "the fault injector says no", "reason": reason, "code": code,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    Ok(Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(body.boxed_unsync())?)
}
