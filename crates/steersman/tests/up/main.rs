//! `steersman up` as people meet it: what it says, what it refuses, what is left when it ends.

#![expect(
    clippy::disallowed_methods,
    reason = "another process lives in real time; it is waited for, never for a while"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on has found something, and one that is left out says so"
)]

mod apiserver;
mod bad_input;
mod bootstrap;
mod chaos;
mod containers;
mod detached;
mod envtest;
mod home;
mod life;
mod named;
mod scheduler;
mod terminal;
