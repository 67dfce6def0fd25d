//! Behaviour of the controller, weakest test that suffices first.

mod cleanup;
mod crash;
mod intervals;
mod invariants;
mod new_job;
mod plan;
mod policies;
mod pure;
mod schedule;
mod sync;
mod times;
mod triggers;
