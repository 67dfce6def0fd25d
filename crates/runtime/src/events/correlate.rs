//! Merges and limits events before they reach the API server, by upstream's rules.
//!
//! In this order: similar events (they differ in the message alone) are combined once there are ten
//! within ten minutes of each other; the same event again is a higher count of the first; and an
//! object may have 25 events at once, then one every five minutes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use api::{MicroTime, Time};
use tokio::time::Instant;

use super::event::Event;
use super::name::Names;
use api::Lru;

pub(super) struct Correlator {
    similar: Lru<u128, Similar>,
    written: Lru<u128, Written>,
    budgets: Lru<u128, Budget>,
}

/// Upstream remembers so many events, so many groups of similar ones, and so many objects.
const REMEMBERED: usize = 4096;

/// From so many different messages on, similar events are combined.
const COMBINE_FROM: usize = 10;

/// Similar events further apart than this start anew.
const COMBINE_WITHIN: Duration = Duration::from_secs(600);

/// An object may have so many events at once…
const BURST: f64 = 25.0;

/// …and then another one each five minutes, which keeps the tail of what always fails short.
const REFILL_SECONDS: f64 = 300.0;

struct Similar {
    /// Hashes of the different messages seen, fewer than [`COMBINE_FROM`].
    messages: Vec<u64>,
    last: Instant,
}

/// What the API server has of an event, as far as we know.
struct Written {
    count: u64,
    first_at: Time,
    name: Box<str>,
}

struct Budget {
    tokens: f64,
    at: Instant,
}

impl Correlator {
    pub(super) fn new() -> Correlator {
        Correlator {
            similar: Lru::new(REMEMBERED),
            written: Lru::new(REMEMBERED),
            budgets: Lru::new(REMEMBERED),
        }
    }

    /// The event to write, whose count is above 1 when one is there already; `None` when the object
    /// has used up its budget.
    pub(super) fn correlate(
        &mut self,
        event: Event,
        now: Instant,
        wall: MicroTime,
        names: &Names,
    ) -> Option<Event> {
        let (event, key) = self.combine(event, now, wall, names);
        let event = self.count(event, key);
        // UPSTREAM: what the budget suppresses has been counted before, so the next event that
        // passes shows how often it really happened.
        self.within_budget(&event, now).then_some(event)
    }

    fn combine(
        &mut self,
        event: Event,
        now: Instant,
        wall: MicroTime,
        names: &Names,
    ) -> (Event, u128) {
        let group = group_key(&event);
        let similar = self.similar.get_or_insert(group, || Similar {
            messages: Vec::new(),
            last: now,
        });
        if now.duration_since(similar.last) > COMBINE_WITHIN {
            similar.messages.clear();
        }
        similar.last = now;
        let message = hash_of(&event.message);
        if similar.messages.contains(&message) {
            return with_own_key(event);
        }
        if similar.messages.len() + 1 < COMBINE_FROM {
            similar.messages.push(message);
            return with_own_key(event);
        }
        // UPSTREAM: at the limit some message is forgotten, whichever comes first in a Go map. Here
        // it is always the new one, so the first nine keep events of their own.
        let combined = Event {
            name: names.next(&event.object.name, wall),
            message: format!("(combined from similar events): {}", event.message),
            first_at: wall.time(),
            last_at: wall.time(),
            count: 1,
            combined: true,
            ..event
        };
        (combined, group)
    }

    /// Makes the event an update of the one that was written before, if there was one.
    fn count(&mut self, mut event: Event, key: u128) -> Event {
        let written = self.written.get_or_insert(key, || Written {
            count: 0,
            first_at: event.first_at,
            name: event.name.as_str().into(),
        });
        if written.count > 0 && !crate::mutation::on("repeat-events") {
            event.name = written.name.to_string();
            event.first_at = written.first_at;
        }
        written.count += 1;
        event.count = match crate::mutation::on("repeat-events") {
            true => 1,
            false => written.count,
        };
        event
    }

    fn within_budget(&mut self, event: &Event, now: Instant) -> bool {
        let budget = self.budgets.get_or_insert(object_key(event), || Budget {
            tokens: BURST,
            at: now,
        });
        let refilled = now.duration_since(budget.at).as_secs_f64() / REFILL_SECONDS;
        budget.tokens = (budget.tokens + refilled).min(BURST);
        budget.at = now;
        if budget.tokens < 1.0 {
            return false;
        }
        budget.tokens -= 1.0;
        true
    }
}

fn with_own_key(event: Event) -> (Event, u128) {
    let object = &event.object;
    let key = key_of(&(
        object_key(&event),
        &object.field_path,
        &event.reason,
        &event.message,
    ));
    (event, key)
}

/// Source, object and type, but neither reason nor message. The source is the same for all events
/// that a correlator sees.
fn object_key(event: &Event) -> u128 {
    let object = &event.object;
    key_of(&(
        &object.kind,
        &*object.namespace,
        &object.name,
        &object.uid,
        &object.api_version,
        event.event_type,
    ))
}

/// Everything but the message. It never equals a key with a message: the shapes differ.
fn group_key(event: &Event) -> u128 {
    key_of(&(object_key(event), &event.reason))
}

/// Keys are hashes, because three caches full of long texts for each of two dozen recorders would
/// be megabytes. With 128 bits two events are not mistaken for one another in a lifetime.
fn key_of(parts: &impl Hash) -> u128 {
    let high = hash_of(&(1_u8, parts));
    let low = hash_of(&(2_u8, parts));
    u128::from(high) << 64 | u128::from(low)
}

fn hash_of(parts: &impl Hash) -> u64 {
    // Unlike the hasher of std's maps this one is the same in each run.
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
