//! Behaviour of the controller, weakest test that suffices first.

mod conditions;
mod content;
mod sync;
