//! The dashboard as people meet it: in a real Chromium. Where there is none (Debian's package is `chromium`), these tests
//! say so and check nothing; they install nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "another process lives in real time; it is waited for, never for a while"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    dead_code,
    reason = "a test that cannot go on has found something, and one that is left out says so"
)]

mod browser;
mod figures;
#[path = "../up/home.rs"]
mod home;
mod page;
mod screenshots;
