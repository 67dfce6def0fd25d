//! A real control plane for tests: etcd, kube-apiserver and a controller manager, Go's or ours.
//!
//! Nothing in Steersman counts until it holds on the real API server, next to the real peer. This
//! crate builds those servers from pinned Go modules, starts them on free loopback ports in a
//! folder of their own, and always stops them: on drop, on panic and when the test process dies.
//! It shares no code with the crates it judges; even its HTTP client is a small one of its own.
//!
//! Everything here is blocking and runs in real time, because real servers do.
#![expect(
    clippy::disallowed_methods,
    reason = "real servers live in real time; virtual time is for the simulator"
)]
#![expect(
    clippy::print_stderr,
    reason = "a test cluster tells the person at the terminal what it skips, keeps and builds"
)]

pub mod audit;
pub mod building;
pub mod certificates;
pub mod cluster;
pub mod conformance;
pub mod corpus;
pub mod embedded;
pub mod http;
pub mod installation;
pub mod kubectl_suite;
pub mod kubelet;
pub mod manager;
pub mod process;
pub mod proxy;
pub mod scenario;
pub mod snapshot;
pub mod stranger;
pub mod tour;
pub mod wait;

pub use cluster::{Cluster, ClusterOptions};
pub use http::Api;
pub use manager::{Flavor, Manager, ManagerOptions};
