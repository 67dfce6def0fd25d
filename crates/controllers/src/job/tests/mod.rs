//! Behaviour of the controller, weakest test that suffices first.

mod counting;
mod ending;
mod failing;
mod failures;
mod gates;
mod indexed;
mod invariants;
mod owning;
mod plan;
mod policies;
pub(super) mod pure;
mod running;
pub(super) mod scenario;
mod stale;
mod triggers;
