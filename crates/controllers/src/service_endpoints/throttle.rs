//! How soon the endpoints of a service are written again.
//!
//! A rollout changes pods by the hundred within a second, and each sync of a large service writes its Endpoints and most
//! of its slices: the quicker the controller, the more often it would write each of them. So a service whose writes took
//! a while waits as long before the next ones, and what changes meanwhile is written together. A small service is written
//! in a few milliseconds and hardly waits.
//!
//! UPSTREAM: who meets its own writes in a cache that has not seen them yet waits for a second and more; here nobody waits
//! longer than that.

use std::time::Duration;

use api::Key;
use api::collections::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Until when services wait.
#[derive(Default)]
pub struct WriteThrottle(Mutex<HashMap<Key, Instant>>);

impl WriteThrottle {
    const LONGEST: Duration = Duration::from_secs(1);

    /// The writes of a sync took this long.
    pub fn written(&self, key: &Key, took: Duration) {
        let until = Instant::now() + took.min(WriteThrottle::LONGEST);
        self.0.lock().insert(key.clone(), until);
    }

    /// How long the service still has to wait; nothing if it may be written now.
    pub fn wait(&self, key: &Key) -> Option<Duration> {
        let mut held = self.0.lock();
        let wait = held.get(key)?.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            held.remove(key);
            return None;
        }
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_service_waits_as_long_as_its_writes_took_and_at_most_a_second() {
        let throttle = WriteThrottle::default();
        let [web, db] = ["web", "db"].map(|name| Key::new("ns", name));
        let ms = Duration::from_millis;
        assert_eq!(throttle.wait(&web), None);
        throttle.written(&web, ms(200));
        throttle.written(&db, ms(5000));
        assert_eq!(throttle.wait(&web), Some(ms(200)));
        tokio::time::sleep(ms(150)).await;
        assert_eq!(throttle.wait(&web), Some(ms(50)));
        assert_eq!(throttle.wait(&db), Some(ms(850)));
        tokio::time::sleep(ms(50)).await;
        assert_eq!(throttle.wait(&web), None);
    }
}
