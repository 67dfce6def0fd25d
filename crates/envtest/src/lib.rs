//! A Kubernetes control plane for tests of operators.
//!
//! For Rust, [`Cluster`] is an API server in the test's own process, with controllers and nodes by choice. For everything
//! that starts binaries, as controller-runtime's envtest does, there are stand-ins for [`kube_apiserver`] and [`etcd`] that
//! take their flags.

mod cluster;
pub mod controllers;
pub mod etcd;
pub mod kube_apiserver;
pub mod outbound;

pub use cluster::{ClientConfig, Cluster, ClusterOptions, Error};
