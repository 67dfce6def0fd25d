//! Behaviour of the controller, weakest test that suffices first.

mod bad_input;
mod plan;
mod sync;
