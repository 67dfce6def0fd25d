//! Behaviour of the controller, weakest test that suffices first.

mod bad_input;
mod case;
mod desired;
mod failures;
mod invariants;
mod metrics;
mod packing;
mod plan;
mod reasons;
mod stale;
mod sync;
mod topology;
mod traffic;
mod triggers;
mod world;
