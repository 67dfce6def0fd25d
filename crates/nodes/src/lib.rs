//! A simulated scheduler, simulated kubelets and a simulated volume provisioner: what makes pods run in a
//! cluster that has no machines.
pub mod node;
pub mod pod;
