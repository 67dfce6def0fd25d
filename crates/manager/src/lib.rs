//! The process around the controllers: which of them run and how.
//!
//! Everything that makes Steersman a drop-in for kube-controller-manager lives here: its flags and what they
//! mean (`flags`, `options`), feature gates and emulated versions (`gates`), the list of controllers
//! (`descriptors`), log formats (`logging`), the secure port (`serving`, `auth`), and which identity each
//! controller acts under (`identity`). It must not know how any single controller decides.

pub mod duration;
pub mod flags;
pub mod gates;
