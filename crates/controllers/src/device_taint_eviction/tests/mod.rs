//! Behaviour of the controller, weakest test that suffices first.

mod plan;
mod sync;
