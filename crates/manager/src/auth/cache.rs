//! Answers that stay good for a while, bounded in number.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// A digest of what was asked: tokens must not stay in memory, and keys must not be confusable.
pub(super) type CacheKey = [u8; 32];

pub(super) fn key(parts: &[&str]) -> CacheKey {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        // The length before each part keeps "ab","c" apart from "a","bc".
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    key
}

pub(super) struct Cache<T> {
    ttl: Duration,
    capacity: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    answers: BTreeMap<CacheKey, (Instant, T)>,
    /// Keys with their expiry, oldest first; one lifetime for all makes this a queue.
    order: VecDeque<(Instant, CacheKey)>,
}

impl<T: Clone> Cache<T> {
    pub(super) fn new(ttl: Duration, capacity: usize) -> Cache<T> {
        let state = State {
            answers: BTreeMap::new(),
            order: VecDeque::new(),
        };
        Cache {
            ttl,
            capacity,
            state: Mutex::new(state),
        }
    }

    pub(super) fn get(&self, key: &CacheKey) -> Option<T> {
        let state = self.state.lock();
        let (expires, answer) = state.answers.get(key)?;
        (*expires > Instant::now()).then(|| answer.clone())
    }

    pub(super) fn insert(&self, key: CacheKey, answer: T) {
        if self.ttl.is_zero() {
            return;
        }
        let now = Instant::now();
        let expires = now + self.ttl;
        let mut state = self.state.lock();
        while let Some((oldest, key)) = state.order.front().copied()
            && (oldest <= now || state.order.len() >= self.capacity)
        {
            state.order.pop_front();
            // A key that was asked again meanwhile has a later entry further back.
            if state
                .answers
                .get(&key)
                .is_some_and(|(expires, _)| *expires == oldest)
            {
                state.answers.remove(&key);
            }
        }
        state.answers.insert(key, (expires, answer));
        state.order.push_back((expires, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_expire() {
        let cache = Cache::new(Duration::from_secs(10), 4);
        cache.insert(key(&["a"]), 1);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(cache.get(&key(&["a"])), Some(1));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(cache.get(&key(&["a"])), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_is_evicted_when_it_is_full() {
        let cache = Cache::new(Duration::from_secs(10), 2);
        for (name, answer) in [("a", 1), ("b", 2), ("c", 3)] {
            cache.insert(key(&[name]), answer);
        }
        assert_eq!(
            ["a", "b", "c"].map(|name| cache.get(&key(&[name]))),
            [None, Some(2), Some(3)]
        );
        assert_eq!(cache.state.lock().answers.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_lifetime_nothing_is_kept() {
        let cache = Cache::new(Duration::ZERO, 2);
        cache.insert(key(&["a"]), 1);
        assert_eq!(cache.get(&key(&["a"])), None);
    }

    #[test]
    fn parts_are_kept_apart() {
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
    }
}
