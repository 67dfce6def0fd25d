//! Bytes that nobody would send, to everything that reads bytes of strangers.
//!
//! Each target hands an input to the code that users run: most of them as a request to a whole API server, in memory and with
//! `dryRun`, so that nothing stays. A run begins with the inputs in `corpus/<target>`, changes them at random from a
//! seed, and goes on from those whose answer was new: without instruments in the compiler, and so on a stable one, the
//! answer (its code and its words, without names and numbers) is what tells one way through the code from another.
//!
//! An input fails if it panics, if it takes longer than a second, or if the process grows by more than 200 MB.
#![expect(
    clippy::disallowed_methods,
    reason = "what is limited here is real time, and a thread looks after what hangs"
)]

pub mod limits;
pub mod mutate;
pub mod run;
pub mod targets;

use std::path::PathBuf;

/// Where the inputs of a target are kept.
pub fn corpus(target: &str) -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.join("corpus").join(target)
}
