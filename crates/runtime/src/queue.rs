//! The work queue: keys that want attention.
//!
//! A key is in the queue at most once, and in the hands of at most one worker. A key that is added
//! while a worker holds it goes back into the queue when the worker is done. So a burst of a
//! thousand events for one object costs one or two reconciles, and the queue can never hold more
//! than there are distinct keys.

use parking_lot::{Mutex, MutexGuard};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::Key;
use api::collections::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::{Metrics, QueueMetrics, Unfinished};
use crate::pending_work::Pending;
use crate::rate_limit::{Backoff, RateLimiter};

pub struct Queue<T = Key> {
    state: Mutex<State<T>>,
    changed: Notify,
    metrics: OnceLock<QueueMetrics>,
}

struct State<T> {
    ready: VecDeque<T>,
    /// Every item that is wanted or in a worker's hands.
    items: HashMap<T, Item>,
    delayed: Delayed<T>,
    limiter: RateLimiter<T>,
    closed: bool,
    /// Workers that found nothing. Who adds something wakes one of them, if there is one.
    waiting: usize,
    /// When one of the waiting workers checks the delayed keys: the others need no timer of their own.
    watched_until: Option<Instant>,
}

/// At least one of the two times is set.
#[derive(Clone, Copy, Default)]
struct Item {
    /// Since when it is wanted: it is in `ready`, or goes there when its worker is done.
    wanted_since: Option<Instant>,
    /// Since when a worker has it.
    held_since: Option<Instant>,
}

impl<T: Clone + Eq + Hash + Ord> Queue<T> {
    pub fn new(backoff: Backoff) -> Queue<T> {
        Queue {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                items: HashMap::default(),
                delayed: Delayed::new(),
                limiter: RateLimiter::new(backoff),
                closed: false,
                waiting: 0,
                watched_until: None,
            }),
            changed: Notify::new(),
            metrics: OnceLock::new(),
        }
    }

    pub fn add(&self, item: T) {
        let (added, anybody_waits) = {
            let mut state = self.lock();
            (state.add(item, Instant::now()), state.waiting > 0)
        };
        self.count_add(added);
        if added == Added::Ready && anybody_waits {
            self.changed.notify_one();
        }
    }

    /// Adds the item when `delay` has passed; of several delays for one item the shortest counts.
    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        if crate::mutation::on("lose-delayed-keys") && delay > Duration::from_secs(1) {
            return;
        }
        let due = Instant::now() + delay;
        let would_be_missed = {
            let mut state = self.lock();
            if !state.closed {
                state.delayed.push(item, due);
            }
            state.waiting > 0 && state.is_unwatched()
        };
        if would_be_missed {
            self.changed.notify_one();
        }
    }

    /// Adds the item after a delay that grows with each failure.
    pub fn add_rate_limited(&self, item: T) {
        if let Some(metrics) = self.metrics.get() {
            metrics.on_retry();
        }
        let delay = self.lock().limiter.delay(&item, Instant::now());
        self.add_after(item, delay);
    }

    /// Adds the item after a delay that grows up to `most`, for failures that are not the item's own.
    pub fn add_rate_limited_within(&self, item: T, most: Duration) {
        if let Some(metrics) = self.metrics.get() {
            metrics.on_retry();
        }
        let delay = self.lock().limiter.delay_within(&item, most);
        self.add_after(item, delay);
    }

    /// Adds the item after this delay, as one that has failed.
    pub fn add_failed_after(&self, item: T, delay: Duration) {
        if let Some(metrics) = self.metrics.get() {
            metrics.on_retry();
        }
        self.lock().limiter.delay_within(&item, delay);
        self.add_after(item, delay);
    }

    /// The item is fine again: its next failure starts with the shortest delay.
    pub fn forget(&self, item: &T) {
        if crate::mutation::on("never-forgive") {
            return;
        }
        self.lock().limiter.forget(item);
    }

    pub fn failures(&self, item: &T) -> u32 {
        self.lock().limiter.failures(item)
    }

    /// The next item; `None` once the queue is closed and empty.
    pub async fn get(&self) -> Option<T> {
        loop {
            let mut waiting = {
                let mut state = self.lock();
                let now = Instant::now();
                while let Some(item) = state.delayed.pop_due(now) {
                    self.count_add(state.add(item, now));
                }
                if let Some((item, waited)) = state.take(now) {
                    if state.waiting > 0 && (!state.ready.is_empty() || state.is_unwatched()) {
                        self.changed.notify_one();
                    }
                    if let Some(metrics) = self.metrics.get() {
                        metrics.on_get(waited);
                    }
                    return Some(item);
                }
                if state.closed {
                    self.changed.notify_one();
                    return None;
                }
                state.waiting += 1;
                let due = state.delayed.next_due().filter(|_| state.is_unwatched());
                state.watched_until = due.or(state.watched_until);
                Waiting {
                    queue: self,
                    due,
                    is_woken: false,
                }
            };
            // A wake-up that comes before the first poll is kept: nothing is lost in between.
            let changed = self.changed.notified();
            match waiting.due {
                Some(due) => {
                    let _ = tokio::time::timeout_at(due, changed).await;
                }
                None => changed.await,
            }
            waiting.is_woken = true;
        }
    }

    /// The worker is done with the item.
    pub fn done(&self, item: &T) {
        let (again, worked, anybody_waits) = {
            let mut state = self.lock();
            let (again, worked) = state.done(item, Instant::now());
            (again, worked, state.waiting > 0)
        };
        if let Some(metrics) = self.metrics.get() {
            metrics.on_done(worked);
        }
        if again && anybody_waits {
            self.changed.notify_one();
        }
    }

    /// No more adds; workers finish what is queued and then end.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Items that are ready to be taken.
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing queued, nothing in a worker's hands. Delayed items may still come.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.items.is_empty()
    }

    /// What is queued, in a worker's hands, and delayed: for the debug endpoint.
    pub fn contents(&self) -> Contents<T> {
        let state = self.lock();
        let mut processing: Vec<T> = state.held().map(|(item, _)| item.clone()).collect();
        processing.sort();
        Contents {
            ready: state.ready.iter().cloned().collect(),
            processing,
            delayed: state.delayed.contents(),
        }
    }

    fn work_under_way(&self) -> Unfinished {
        let now = Instant::now();
        let state = self.lock();
        let running = state.held().map(|(_, since)| now - since);
        running.fold(Unfinished::default(), |sum, each| Unfinished {
            total: sum.total + each,
            longest: sum.longest.max(each),
        })
    }

    fn count_add(&self, added: Added) {
        if added != Added::Known
            && let Some(metrics) = self.metrics.get()
        {
            metrics.on_add();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }
}

/// A look into the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents<T> {
    pub ready: Vec<T>,
    pub processing: Vec<T>,
    pub delayed: Vec<(Instant, T)>,
}

impl<T: Clone + Eq + Hash + Ord + Display + Send + 'static> Queue<T> {
    /// Measures this queue under `name`: depth, adds and latencies.
    pub fn measure(self: &Arc<Self>, metrics: &Metrics, name: &str) {
        let handle = metrics.queue(name);
        let queue = Arc::downgrade(self);
        let look = queue.clone();
        metrics
            .pending_work()
            .watch(name, move || Some(look.upgrade()?.pending_work()));
        handle.watch_unfinished(move || Some(queue.upgrade()?.work_under_way()));
        // Nothing is added between counting and measuring.
        let state = self.lock();
        let waiting = state
            .items
            .values()
            .filter(|item| item.wanted_since.is_some());
        handle.begin(waiting.count());
        // A second name for the same queue would count everything twice.
        let _ = self.metrics.set(handle);
    }
}

impl<T: Clone + Eq + Hash + Ord + Display> Queue<T> {
    fn pending_work(&self) -> Pending {
        let state = self.lock();
        let (busy, failing) = (
            in_words(state.items.keys()),
            in_words(state.limiter.failing()),
        );
        // Delayed keys are no pending work: their sync finds out that the object is gone.
        Pending {
            busy,
            failing,
            ..Pending::default()
        }
    }
}

fn in_words<'a, T: Display + 'a>(items: impl Iterator<Item = &'a T>) -> Vec<String> {
    let mut words: Vec<String> = items.map(ToString::to_string).collect();
    words.sort();
    words
}

/// What became of an item that was added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    Ready,
    /// A worker holds it; it becomes ready when the worker is done.
    AfterWork,
    /// It was waiting already, or the queue is closed.
    Known,
}

impl<T: Clone + Eq + Hash + Ord> State<T> {
    fn add(&mut self, item: T, now: Instant) -> Added {
        if self.closed {
            return Added::Known;
        }
        match self.items.entry(item) {
            Entry::Occupied(mut known) => match known.get().wanted_since {
                Some(_) => Added::Known,
                None => {
                    known.get_mut().wanted_since = Some(now);
                    Added::AfterWork
                }
            },
            Entry::Vacant(new) => {
                self.ready.push_back(new.key().clone());
                new.insert(Item {
                    wanted_since: Some(now),
                    held_since: None,
                });
                Added::Ready
            }
        }
    }

    fn take(&mut self, now: Instant) -> Option<(T, Duration)> {
        let item = self.ready.pop_front()?;
        let known = self.items.get_mut(&item)?;
        known.held_since = Some(now);
        let wanted_since = known.wanted_since.take().unwrap_or(now);
        Some((item, now - wanted_since))
    }

    fn done(&mut self, item: &T, now: Instant) -> (bool, Duration) {
        let Some(known) = self.items.get_mut(item) else {
            return (false, Duration::ZERO);
        };
        let worked = now - known.held_since.take().unwrap_or(now);
        if crate::mutation::on("lose-dirty-keys") {
            known.wanted_since = None;
        }
        let again = known.wanted_since.is_some();
        if again {
            self.ready.push_back(item.clone());
        } else {
            self.items.remove(item);
        }
        (again, worked)
    }

    /// Whether a delayed key becomes due before a worker checks.
    fn is_unwatched(&self) -> bool {
        let (due, watched) = (self.delayed.next_due(), self.watched_until);
        due.is_some_and(|due| watched.is_none_or(|watched| due < watched))
    }

    fn held(&self) -> impl Iterator<Item = (&T, Instant)> {
        self.items
            .iter()
            .filter_map(|(item, known)| Some((item, known.held_since?)))
    }
}

/// A worker that waits; it is counted as long as this lives, also when it is cancelled.
struct Waiting<'a, T: Clone + Eq + Hash + Ord> {
    queue: &'a Queue<T>,
    /// Until when it watches the clock, if it does so for all.
    due: Option<Instant>,
    is_woken: bool,
}

impl<T: Clone + Eq + Hash + Ord> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        let needs_another = {
            let mut state = self.queue.lock();
            state.waiting -= 1;
            if self.due.is_some() && state.watched_until == self.due {
                state.watched_until = None;
            }
            // Who is woken looks for itself, and sees to it then.
            !self.is_woken && state.waiting > 0 && state.is_unwatched()
        };
        if needs_another {
            self.queue.changed.notify_one();
        }
    }
}

/// Items with a due time; each at most once.
struct Delayed<T> {
    heap: BinaryHeap<Reverse<(Instant, u64, T)>>,
    due: HashMap<T, Instant>,
    /// Keeps items with the same due time in the order in which they came.
    sequence: u64,
}

impl<T: Clone + Eq + Hash + Ord> Delayed<T> {
    fn new() -> Delayed<T> {
        Delayed {
            heap: BinaryHeap::new(),
            due: HashMap::default(),
            sequence: 0,
        }
    }

    fn push(&mut self, item: T, due: Instant) {
        if self.due.get(&item).is_some_and(|held| *held <= due) {
            return;
        }
        self.due.insert(item.clone(), due);
        self.sequence += 1;
        self.heap.push(Reverse((due, self.sequence, item)));
        self.compact();
    }

    fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    fn pop_due(&mut self, now: Instant) -> Option<T> {
        while let Some(Reverse((due, ..))) = self.heap.peek() {
            if *due > now {
                return None;
            }
            let Reverse((due, _, item)) = self.heap.pop()?;
            // A superseded entry is skipped: the item has another due time now.
            if self.due.get(&item) == Some(&due) {
                self.due.remove(&item);
                return Some(item);
            }
        }
        None
    }

    /// Superseded entries never outnumber the live ones by much.
    fn compact(&mut self) {
        if self.heap.len() > 64 + 2 * self.due.len() {
            let due = &self.due;
            self.heap
                .retain(|Reverse((at, _, item))| due.get(item) == Some(at));
        }
    }

    fn contents(&self) -> Vec<(Instant, T)> {
        let mut items: Vec<(Instant, T)> = self
            .due
            .iter()
            .map(|(item, due)| (*due, item.clone()))
            .collect();
        items.sort();
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue<&'static str> {
        Queue::new(Backoff::DEFAULT)
    }

    async fn next(queue: &Queue<&'static str>) -> &'static str {
        queue.get().await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_when_measuring_begins_is_counted() {
        let metrics = Metrics::new();
        for (waiting, taken) in [(2, 1), (1, 1), (0, 0)] {
            let queue = Arc::new(Queue::new(Backoff::DEFAULT));
            (0..waiting).for_each(|number| queue.add(number));
            queue.measure(&metrics, "q");
            assert_eq!(metrics.queue("q").depth(), waiting, "as a new term begins");
            for _ in 0..taken {
                queue.get().await;
            }
            assert_eq!(metrics.queue("q").depth(), waiting - taken);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_is_queued_once() {
        let queue = queue();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!((next(&queue).await, next(&queue).await), ("a", "b"));
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_added_while_processed_is_requeued_when_done() {
        let queue = queue();
        queue.add("a");
        let item = next(&queue).await;
        queue.add("a");
        assert!(queue.is_empty(), "never in two hands");
        queue.done(&item);
        assert_eq!(next(&queue).await, "a");
        queue.done(&"a");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn the_shortest_delay_counts() {
        let queue = queue();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(2));
        queue.add_after("a", Duration::from_secs(20));
        assert_eq!(next(&queue).await, "a");
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        queue.done(&"a");
        queue.close();
        assert!(queue.get().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeping_worker_hears_of_a_sooner_item() {
        let queue = std::sync::Arc::new(queue());
        queue.add_after("late", Duration::from_secs(100));
        let worker = {
            let queue = queue.clone();
            crate::spawn(async move { queue.get().await })
        };
        tokio::task::yield_now().await;
        queue.add_after("soon", Duration::from_secs(1));
        assert_eq!(worker.await.unwrap(), Some("soon"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_worker_waits_for_the_timer_and_another_takes_over_when_it_is_busy() {
        let queue = Arc::new(Queue::new(Backoff::DEFAULT));
        let start = Instant::now();
        for seconds in 1..=4 {
            queue.add_after(seconds, Duration::from_secs(seconds));
        }
        let worker = || {
            let queue = queue.clone();
            crate::spawn(async move { (queue.get().await, start.elapsed().as_secs()) })
        };
        // None of them is ever done: each item needs another worker.
        let cancelled = tokio::time::timeout(Duration::from_millis(500), queue.get());
        let (first, second) = (worker(), worker());
        assert!(cancelled.await.is_err());
        let (third, fourth) = (worker(), worker());
        for (seconds, worker) in (1..).zip([first, second, third, fourth]) {
            assert_eq!(worker.await.unwrap(), (Some(seconds), seconds));
        }
        assert_eq!(queue.lock().waiting, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_have_one_timer_in_all() {
        let queue = Arc::new(queue());
        queue.add_after("a", Duration::from_secs(60));
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(queue.get())).collect();
        for worker in &mut waiting {
            assert!(futures_util::poll!(worker.as_mut()).is_pending());
        }
        assert_eq!(
            queue.lock().watched_until,
            Some(Instant::now() + Duration::from_secs(60))
        );
        let woken = waiting.pop().expect("there are five");
        drop(waiting);
        assert_eq!(queue.lock().watched_until, None, "it was the first one's");
        assert_eq!(woken.await, Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn retries_wait_longer_each_time() {
        let queue = queue();
        for expected in [5, 10, 20] {
            let start = Instant::now();
            queue.add_rate_limited("a");
            next(&queue).await;
            queue.done(&"a");
            assert_eq!(start.elapsed().as_millis(), expected);
        }
        queue.forget(&"a");
        assert_eq!(queue.failures(&"a"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn every_worker_ends_when_closed() {
        let queue = std::sync::Arc::new(queue());
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                crate::spawn(async move { while queue.get().await.is_some() {} })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.close();
        queue.add("ignored");
        for worker in workers {
            worker.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn superseded_delays_do_not_pile_up() {
        let queue = queue();
        for seconds in (1..10_000).rev() {
            queue.add_after("a", Duration::from_secs(seconds));
        }
        assert!(queue.lock().delayed.heap.len() <= 70);
    }
}
