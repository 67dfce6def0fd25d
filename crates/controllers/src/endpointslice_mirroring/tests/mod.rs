//! Behaviour of the controller, weakest test that suffices first.

mod bad_input;
mod invariants;
mod plan;
mod rows;
mod sync;
