//! Names of events: unique, and sortable by time in etcd.

use parking_lot::Mutex;

use api::syntax::validate_dns1123_subdomain;
use api::{MicroTime, Rng, Uid};

/// Makes the names of one recorder's events.
pub(super) struct Names(Mutex<State>);

struct State {
    rng: Rng,
    last_nanos: i64,
}

impl Names {
    pub(super) fn new(rng: Rng) -> Names {
        Names(Mutex::new(State { rng, last_nanos: 0 }))
    }

    /// `<object>.<nanoseconds since 1970 in hex>`.
    ///
    /// Our clock counts microseconds, and virtual time stands still while controllers work. So the
    /// nanoseconds are random, which tells apart recorders that speak of one object at one time, and
    /// one recorder never uses a number twice.
    pub(super) fn next(&self, object: &str, now: MicroTime) -> String {
        let mut state = self.0.lock();
        let below_micro = i64::try_from(state.rng.below(1000)).unwrap_or(0);
        let nanos = now
            .unix_micros()
            .saturating_mul(1000)
            .saturating_add(below_micro)
            .max(state.last_nanos.saturating_add(1));
        state.last_nanos = nanos;
        let name = format!("{object}.{nanos:x}");
        if validate_dns1123_subdomain(&name).is_empty() {
            name
        } else {
            // UPSTREAM: some kinds allow names that events do not, such as `system:node` or very
            // long ones (kubernetes/kubernetes#127594).
            Uid::from_random(state.rng.next_u128()).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Time;
    use api::collections::HashSet;

    #[test]
    fn names_differ_even_while_the_clock_stands_still() {
        let names = Names::new(Rng::from_seed(1));
        let now = Time::from_unix(1_700_000_000).micro();
        let made: HashSet<String> = (0..5000).map(|_| names.next("web", now)).collect();
        assert_eq!(made.len(), 5000);
        let first = names.next("web", now);
        assert!(first.starts_with("web.1797"), "{first}");
    }

    #[test]
    fn an_object_whose_name_no_event_can_carry_gets_a_uuid() {
        let names = Names::new(Rng::from_seed(1));
        for object in ["system:node", "Upper", &"a".repeat(250)] {
            let name = names.next(object, MicroTime::default());
            assert_eq!(name.len(), 36, "{name}");
            assert!(validate_dns1123_subdomain(&name).is_empty());
        }
    }
}
