//! Behaviour of the controller, weakest test that suffices first.

mod failing;
mod indexed;
mod owning;
mod running;
mod story;
