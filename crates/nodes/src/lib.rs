//! A simulated scheduler, simulated kubelets, a simulated volume driver (it provisions and attaches) and simulated load
//! balancers: what makes pods run in a cluster that has no machines.
//!
//! They talk to the API server like anybody else and to nothing besides: the crate knows nothing of the
//! embedded server or of controllers. [`Cluster`] is all of them, ready to run. What is pure (where a pod
//! goes, what becomes of it) is in functions without IO; time comes from the injected clock, so a whole
//! cluster runs deterministically on a virtual one.
//!
//! The scheduler is a fair stand-in, not a copy of kube-scheduler; no container is ever started.

mod attacher;
pub mod behaviour;
mod cluster;
mod config;
mod containers;
pub mod devices;
mod driver;
mod error;
pub mod identity;
mod kubelet;
pub mod load_balancer;
pub mod node;
pub mod pod;
mod pod_selector;
mod provisioner;
mod scheduler;
pub mod script;
pub mod stages;
pub mod storage;
mod usage;

pub use cluster::{Cluster, Registered};
pub use config::{Config, NodeConfig};
pub use containers::{Containers, ExecRequest, LogRequest, Output, Stream};
pub use driver::{AttributeConfig, DeviceConfig};
pub use error::Error;
pub use usage::NodeUsage;

#[cfg(test)]
mod tests;
