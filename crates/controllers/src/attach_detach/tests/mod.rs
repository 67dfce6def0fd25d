//! Plans first, then the whole against the embedded API server.

mod metrics;
mod plans;
mod syncs;
