//! The whole cluster in one thread on a virtual clock, from a seed.
//!
//! The same manager, API server, scheduler and kubelets that run in production, called directly.
//! Time is tokio's paused time: it jumps to the next timer when nobody has anything to do. All
//! randomness comes from the seed, so a run can be replayed byte for byte: [`run_seed`] gives a hash
//! over every write.
//!
//! A run has three parts. A seeded user creates workloads and changes them, while a seeded gremlin
//! loses requests, cuts watches and crashes the manager. Then both stop and the cluster must
//! converge. Then nothing may be written any more.

mod cluster;
mod faults;
mod mirror;
pub mod preview;
mod report;
mod run;
mod trace;
mod user;

pub use cluster::Cluster;
pub use faults::{Faults, Gremlin};
pub use report::{Failure, Report};
pub use run::{Plan, crash_points, run_plan, run_seed};
