//! Pieces that the workload controllers share: claiming, pods from templates, status, time.

pub mod availability;
pub mod claim;
pub mod disruption;
pub mod history;
pub mod on_node;
mod own_writes;
pub mod pods;
pub mod status;
mod status_window;

pub use claim::{Claimer, Live};
pub use history::{History, NewRevision};
pub use own_writes::OwnWrites;
pub use pods::{PodControl, pod_body};
pub use status_window::StatusWindow;
