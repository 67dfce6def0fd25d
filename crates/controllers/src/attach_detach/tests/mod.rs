//! Plans first, then the whole against the embedded API server.

mod plans;
mod syncs;
