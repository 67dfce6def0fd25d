//! Everything that is tried on real servers. One program: it is linked once, and tests of all kinds wait for
//! their servers at the same time.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]
#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

mod bed;
mod commands;
mod contention;
mod corpus;
mod differential;
mod durability;
mod faults;
mod flags;
mod go_manager;
mod helm;
mod informers;
mod kubectl;
mod process;
mod projects;
mod rbac;
mod scenarios;
mod start_set;
mod swap;
mod templates;
mod trust_bundles;
mod versions;
mod watchers;
mod whole;
