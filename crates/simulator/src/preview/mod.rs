//! What would happen? The real controllers on a virtual clock, on a copy of a cluster or an empty one.
//!
//! [`decide`] asks for one plan of each workload and writes nothing; `steersman why` uses it where no
//! manager of ours can be asked.

mod decide;
mod world;

pub use decide::{Decided, decide};

/// A runtime whose time jumps to the next timer when nobody has anything to do.
fn virtual_time() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing from the system")
}
