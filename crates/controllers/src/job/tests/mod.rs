//! Behaviour of the controller, weakest test that suffices first.

mod ending;
mod failing;
mod indexed;
mod owning;
mod plan;
mod policies;
pub(super) mod round;
mod running;
mod stale;
mod story;
mod trouble;
mod wakeups;
