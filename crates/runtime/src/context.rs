//! What every controller works with.

use std::sync::Arc;

use api::{Clock, Gates};
use client::Client;

use crate::decisions::Decisions;
use crate::events::Recorder;
use crate::informer::Informers;
use crate::metrics::Metrics;

/// A controller's own client and recorder, and what it shares with the others. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The name in `--controllers`.
    pub controller: &'static str,
    pub client: Client,
    pub informers: Arc<Informers>,
    pub recorder: Recorder,
    pub clock: Clock,
    pub gates: Gates,
    pub decisions: Decisions,
    pub metrics: Metrics,
}
