//! How a controller runs: caches, triggers, queue, reconcile loop.
//!
//! A controller is a [`Reconcile`] with a [`Queue`]; [`informer`]s keep its caches and wake its
//! keys. Everything that would make two runs differ lives here and nowhere else: the clock
//! ([`clock`]), tasks ([`mod@spawn`]), and the order of wake-ups. On a single-threaded runtime with
//! paused time the whole cluster is deterministic.

mod builder;
pub mod clock;
mod context;
pub mod controller;
pub mod expectations;
pub mod informer;
pub mod latch;
pub mod pace;
pub mod queue;
pub mod rate_limit;
mod repeats;
pub mod slow_start;
pub mod spawn;
pub mod stop;
pub mod store;
pub mod triggers;
pub mod written;

pub use api::{Clock, Rng, mutation};
pub use builder::Loop;
pub use context::Context;
pub use controller::{Controller, Error, Next, Reconcile, Runnable, panic_text};
pub use expectations::Expectations;
pub use informer::{Change, Informer, Informers};
pub use queue::Queue;
pub use slow_start::slow_start;
pub use spawn::{Task, spawn};
pub use stop::Stop;
pub use store::{Index, IndexValue, Store};
pub use triggers::Owns;
pub use written::Written;

pub mod decisions;
pub mod events;
pub mod leader;
pub mod metrics;
pub mod pending_work;

pub use api::Lru;
pub use decisions::{Decisions, Report, StartedGuard};
pub use events::{EventType, EventWriter, ObjectRef, Recorder};
pub use leader::{Fence, LeaderElector, Leadership, LeaseConfig};
pub use metrics::Metrics;
