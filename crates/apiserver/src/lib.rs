//! The embedded Kubernetes API server: storage, watch, REST, patching, defaulting, validation, admission.
//!
//! One service function answers every request, whether it came over TLS or from a client in the same
//! process, so tests and the simulator exercise exactly what users run.

pub mod crd;
pub mod kinds;
pub mod schema;
