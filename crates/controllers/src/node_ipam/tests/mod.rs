//! The set first, then what flags say, then the whole against the embedded API server.

mod allocator;
mod flags;
mod set;
mod sync;
