//! The whole cluster in one thread on a virtual clock, from a seed.
//!
//! The same manager, API server, scheduler and kubelets that run in production, called directly.
//! Time is tokio's paused time: it jumps to the next timer when nobody has anything to do. All
//! randomness comes from the seed, so a run can be replayed byte for byte: [`Report::hash`] is a hash
//! over every write.
//!
//! A run has three parts. A user does what the [`Scenario`] says, while a fault injector loses requests, cuts
//! watches, and managers, nodes and the API server die. Then all faults stop and the cluster must
//! converge. Then nothing may be written any more, and it must have ended as the same actions end in a
//! world without faults ([`verify()`]). What breaks is made smaller until it is easy to read ([`shrink()`]).

mod bell;
mod cluster;
mod faults;
mod front;
mod oracle;
mod report;
mod run;
mod scenario;
mod shrink;
mod trace;
mod user;
mod verify;

pub use cluster::Cluster;
pub use controllers::oracle::Tally;
pub use faults::{FaultInjector, FaultRates};
pub use oracle::Counts;
pub use report::{Failure, Report};
pub use run::{Moment, moments_of, run_scenario, timeline_of};
pub use scenario::{Action, Fault, Scenario, Step, Target, UserAction, library, paces};
pub use shrink::{Cut, shrink};
pub use verify::{explain, run_seed, verify, verify_crash};
