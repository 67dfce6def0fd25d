//! Logs in klog's text form or as JSON, so that what operators grep, parse and dial stays the same.
//!
//! Code logs through `tracing`. An event's verbosity is its field `v` if it has one (`info!(v = 2, ..)`), else
//! that of its level: errors, warnings and info are always wanted, debug is `-v 4`, trace is `-v 6`. `-v` can be
//! changed while running (`/debug/flags/v`), and `--vmodule` raises it for files or modules by pattern.

mod format;
mod layer;
mod verbosity;
mod writer;

use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt;

pub(crate) use format::civil_date;
pub use layer::KlogLayer;
pub use verbosity::Verbosity;
pub use writer::{Sink, Writer};

pub use crate::options::LoggingOptions;

/// What the rest of the process holds of the log: the dial and the buffer.
#[derive(Clone)]
pub struct Logging {
    pub verbosity: Arc<Verbosity>,
    pub writer: Arc<Writer>,
}

impl Logging {
    /// The log that the options ask for, and the layer to install as (part of) the subscriber.
    pub fn new(options: &LoggingOptions, clock: api::Clock, sinks: Sink) -> (Logging, KlogLayer) {
        let verbosity = Arc::new(Verbosity::new(options.verbosity, &options.vmodule));
        let writer = Arc::new(Writer::new(options, sinks));
        let logging = Logging {
            verbosity: Arc::clone(&verbosity),
            writer: Arc::clone(&writer),
        };
        (
            logging,
            KlogLayer::new(options.json, clock, verbosity, writer),
        )
    }

    /// Makes this the log of the whole process. The first call counts.
    pub fn install(options: &LoggingOptions, clock: api::Clock) -> Logging {
        let (logging, layer) = Logging::new(options, clock, Sink::process());
        // A log that is already there, a test's for example, keeps its place.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
        logging
    }
}

#[cfg(test)]
mod tests;
