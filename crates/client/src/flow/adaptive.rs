//! Concurrency that follows the server: more while it answers fast, less when it struggles.
//!
//! The idea is TCP's. The limit doubles per round (as many answers as the limit) until the server first
//! struggles, then grows by one per round; overload halves it, answers that take much longer than usual take
//! a tenth off it. It grows only while it is what holds requests back, so an idle hour does not raise it.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Signal;

/// Where we begin: what client-go's default burst of 30 would have under way at once, about.
const INITIAL: usize = 16;

/// Even a server that struggles gets this many at once: one could be a slow one, and all would wait for it.
const MIN: usize = 2;

/// The API server serves 400 reads and 200 writes at once by default, from all its clients.
const MAX: usize = 256;

/// Answers that take longer than usual by this factor and by this time mean that requests queue up in the server.
const SLOW_FACTOR: f64 = 3.0;
const SLOW_MARGIN: Duration = Duration::from_millis(25);

/// Weight of the newest answer in the running mean: about the last ten count.
const NEWEST_WEIGHT: f64 = 0.2;

/// The fastest answer seen is forgotten at this rate per round, so that a server that became slower for good is
/// measured against what it is now.
const FLOOR_DRIFT: f64 = 1.02;

/// Nobody is held back longer than this on one word of the server.
const MAX_HOLD: Duration = Duration::from_secs(30);

pub(crate) struct Adaptive {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
}

struct State {
    limit: usize,
    /// Slots that the limit no longer allows but that are still under way; they vanish when they end.
    excess: usize,
    /// The limit has never been too high yet.
    probing: bool,
    /// Answers in the present round, and whether it has already lowered the limit.
    answers: usize,
    lowered: bool,
    /// All slots were taken at some point in this round.
    wanted: bool,
    mean_seconds: f64,
    floor_seconds: f64,
    hold_until: Option<Instant>,
}

impl Adaptive {
    pub(crate) fn new() -> Adaptive {
        Adaptive {
            slots: Arc::new(Semaphore::new(INITIAL)),
            state: Mutex::new(State {
                limit: INITIAL,
                excess: 0,
                probing: true,
                answers: 0,
                lowered: false,
                wanted: false,
                mean_seconds: 0.0,
                floor_seconds: f64::INFINITY,
                hold_until: None,
            }),
        }
    }

    pub(crate) async fn acquire(self: &Arc<Adaptive>) -> Slot {
        let permit = Arc::clone(&self.slots)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let mut slot = Slot {
            flow: Arc::clone(self),
            permit: Some(permit),
            started: Instant::now(),
        };
        // Who has a slot still waits when the server asked to be left alone; a later answer may prolong it.
        while let Some(until) = self.held_until() {
            tokio::time::sleep_until(until).await;
        }
        slot.started = Instant::now();
        slot
    }

    fn held_until(&self) -> Option<Instant> {
        let mut state = self.lock();
        let until = state.hold_until?;
        if until <= Instant::now() {
            state.hold_until = None;
        }
        state.hold_until
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Learns from one finished request; answers how many slots to add now.
    fn learn(&mut self, signal: Signal, took: Duration, now: Instant) -> usize {
        let before = self.limit;
        match signal {
            Signal::None => {}
            Signal::Overloaded(wait) => {
                if let Some(wait) = wait {
                    let until = now + wait.min(MAX_HOLD);
                    self.hold_until = Some(self.hold_until.map_or(until, |other| other.max(until)));
                }
                self.lower_to(self.limit / 2);
            }
            Signal::Answered => {
                let seconds = took.as_secs_f64();
                self.floor_seconds = self.floor_seconds.min(seconds);
                self.mean_seconds = if self.mean_seconds == 0.0 {
                    seconds
                } else {
                    self.mean_seconds + NEWEST_WEIGHT * (seconds - self.mean_seconds)
                };
                if self.is_slow() {
                    self.lower_to(self.limit - self.limit.div_ceil(10));
                } else if self.probing && self.wanted {
                    self.limit = (self.limit + 1).min(MAX);
                }
            }
        }
        self.end_window();
        if self.limit < before {
            self.excess += before - self.limit;
            return 0;
        }
        // Slots that were to vanish may as well stay.
        let grown = self.limit - before;
        let kept = grown.min(self.excess);
        self.excess -= kept;
        grown - kept
    }

    fn is_slow(&self) -> bool {
        self.mean_seconds > self.floor_seconds * SLOW_FACTOR
            && self.mean_seconds > self.floor_seconds + SLOW_MARGIN.as_secs_f64()
    }

    /// Once per round: the answers still under way were asked for under the old limit and prove nothing new.
    fn lower_to(&mut self, limit: usize) {
        if !self.lowered {
            self.limit = limit.max(MIN);
            self.lowered = true;
            self.probing = false;
            self.answers = 0;
        }
    }

    fn end_window(&mut self) {
        self.answers += 1;
        if self.answers < self.limit {
            return;
        }
        if self.wanted && !self.lowered && !self.probing && !self.is_slow() {
            self.limit = (self.limit + 1).min(MAX);
        }
        self.floor_seconds *= FLOOR_DRIFT;
        self.answers = 0;
        self.lowered = false;
        self.wanted = false;
    }
}

/// One request under way.
pub(crate) struct Slot {
    flow: Arc<Adaptive>,
    permit: Option<OwnedSemaphorePermit>,
    started: Instant,
}

impl Slot {
    pub(crate) fn finish(self, signal: Signal) {
        let now = Instant::now();
        let mut state = self.flow.lock();
        // Our own slot is still counted, so none left means that the limit is what holds requests back.
        state.wanted |= self.flow.slots.available_permits() == 0;
        let added = state.learn(signal, now - self.started, now);
        drop(state);
        if added > 0 {
            self.flow.slots.add_permits(added);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.flow.lock();
        if state.excess > 0
            && let Some(permit) = self.permit.take()
        {
            state.excess -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;

    /// A server that works on so many requests at once, 2 ms each, and lets the rest queue up.
    struct Server {
        workers: Semaphore,
    }

    impl Server {
        fn new(workers: usize) -> Server {
            Server {
                workers: Semaphore::new(workers),
            }
        }

        async fn answer(&self) {
            let _worker = self.workers.acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn load(flow: &Arc<Adaptive>, server: &Server, requests: usize) {
        join_all((0..requests).map(|_| async {
            let slot = flow.acquire().await;
            server.answer().await;
            slot.finish(Signal::Answered);
        }))
        .await;
    }

    async fn fail(flow: &Arc<Adaptive>, wait: Option<Duration>) {
        flow.acquire().await.finish(Signal::Overloaded(wait));
    }

    fn limit(flow: &Adaptive) -> usize {
        flow.lock().limit
    }

    #[tokio::test(start_paused = true)]
    async fn grows_to_what_a_fast_server_takes() {
        let flow = Arc::new(Adaptive::new());
        load(&flow, &Server::new(1000), 3000).await;
        assert_eq!(limit(&flow), MAX);
        assert_eq!(flow.slots.available_permits(), MAX, "slots and limit agree");
    }

    #[tokio::test(start_paused = true)]
    async fn stops_growing_when_answers_get_slow() {
        let flow = Arc::new(Adaptive::new());
        let server = Server::new(4);
        load(&flow, &server, 5000).await;
        // 4 at once, 2 ms each: with n under way an answer takes n/2 ms; slow begins at 2 + 25 ms.
        assert!((20..=70).contains(&limit(&flow)), "limit {}", limit(&flow));
        assert_eq!(
            flow.slots.available_permits(),
            limit(&flow),
            "slots and limit agree"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_grow_while_nobody_waits() {
        let flow = Arc::new(Adaptive::new());
        for _ in 0..1000 {
            load(&flow, &Server::new(1000), 1).await;
        }
        assert_eq!(limit(&flow), INITIAL);
    }

    #[tokio::test(start_paused = true)]
    async fn overload_halves_once_per_round_and_never_starves() {
        let flow = Arc::new(Adaptive::new());
        let slots = join_all((0..8).map(|_| flow.acquire())).await;
        for slot in slots {
            slot.finish(Signal::Overloaded(None));
        }
        assert_eq!(
            limit(&flow),
            INITIAL / 2,
            "one burst of failures counts once"
        );
        for _ in 0..100 {
            fail(&flow, None).await;
        }
        assert_eq!(limit(&flow), MIN);
        assert_eq!(flow.slots.available_permits(), MIN);
        load(&flow, &Server::new(1000), 1000).await;
        assert!(limit(&flow) > 16, "recovers, limit {}", limit(&flow));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_holds_everyone_back() {
        let flow = Arc::new(Adaptive::new());
        let started = Instant::now();
        fail(&flow, Some(Duration::from_secs(3))).await;
        load(&flow, &Server::new(1000), 10).await;
        assert_eq!(started.elapsed().as_secs(), 3);
        fail(&flow, Some(Duration::from_secs(3600))).await;
        load(&flow, &Server::new(1000), 1).await;
        assert_eq!(started.elapsed().as_secs(), 3 + MAX_HOLD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_request_returns_its_slot() {
        let flow = Arc::new(Adaptive::new());
        drop(join_all((0..INITIAL).map(|_| flow.acquire())).await);
        assert_eq!(flow.slots.available_permits(), INITIAL);
    }
}
