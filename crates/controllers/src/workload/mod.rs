//! Pieces that the workload controllers share: the driver, claiming, pods from templates, status, time.

pub mod availability;
pub mod claim;
mod consistency;
pub mod disruption;
mod driver;
pub mod history;
pub(crate) mod lines;
pub mod on_node;
pub mod pods;
pub mod status;
mod throttle;

pub use claim::{Claimer, Live, candidates};
pub use consistency::Consistency;
pub use driver::{Driver, KeyState, Observed, Outcome, StatusChange, Workload};
pub use history::{History, NewRevision};
pub use pods::{PodControl, pod_body};
pub use throttle::StatusThrottle;
