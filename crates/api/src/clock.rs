//! The injected clock. Where it reads from (the wall, or virtual time) is the runtime's business.

use std::sync::Arc;

use crate::time::{MicroTime, Time};

/// Reads the time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> MicroTime + Send + Sync>);

impl Clock {
    pub fn new(read: impl Fn() -> MicroTime + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(read))
    }

    /// A clock that stands still: for pure tests.
    pub fn fixed(at: Time) -> Clock {
        Clock::new(move || at.micro())
    }

    pub fn now(&self) -> MicroTime {
        (self.0)()
    }
}
