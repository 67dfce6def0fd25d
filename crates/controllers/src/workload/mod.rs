//! Pieces that the workload controllers share: claiming, pods from templates, status, time.

pub mod availability;
pub mod claim;
pub mod disruption;
mod freshness;
pub mod history;
pub mod on_node;
pub mod pods;
pub mod status;
mod status_window;

pub use claim::{Claimer, Live};
pub use freshness::{Cached, Freshness};
pub use history::{History, NewRevision};
pub use pods::{PodControl, pod_body};
pub use status_window::StatusWindow;
