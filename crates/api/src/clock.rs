//! The injected clock. Where it reads from (the wall, or virtual time) is the runtime's business.

use std::sync::Arc;

use crate::cron::Zone;
use crate::time::{MicroTime, Time};

/// Reads the time. Cheap to clone.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> MicroTime + Send + Sync>,
    zone: Zone,
}

impl Clock {
    /// In UTC.
    pub fn new(read: impl Fn() -> MicroTime + Send + Sync + 'static) -> Clock {
        Clock {
            read: Arc::new(read),
            zone: Zone::UTC,
        }
    }

    #[must_use]
    pub fn in_zone(mut self, zone: Zone) -> Clock {
        self.zone = zone;
        self
    }

    /// Where times of day are meant that name no zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// A clock that stands still: for pure tests.
    pub fn fixed(at: Time) -> Clock {
        Clock::new(move || at.micro())
    }

    pub fn now(&self) -> MicroTime {
        (self.read)()
    }
}
