//! The `tracing` layer that turns events into lines.

use std::sync::Arc;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::format::{Fields, Header, Severity, json_line, text_line};
use super::{Verbosity, Writer};

pub struct KlogLayer {
    json: bool,
    clock: api::Clock,
    verbosity: Arc<Verbosity>,
    writer: Arc<Writer>,
    process: u32,
}

impl KlogLayer {
    pub(super) fn new(
        json: bool,
        clock: api::Clock,
        verbosity: Arc<Verbosity>,
        writer: Arc<Writer>,
    ) -> KlogLayer {
        KlogLayer {
            json,
            clock,
            verbosity,
            writer,
            process: std::process::id(),
        }
    }
}

impl KlogLayer {
    /// Whether an event or a span could ever be seen. Our spans carry context for the events inside them;
    /// those of the HTTP libraries, one for each frame, are for nobody.
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() && metadata.target().starts_with("steersman") {
            return true;
        }
        self.verbosity.could_want(default_verbosity(metadata))
    }
}

/// The verbosity of an event that does not say its own. Libraries talk of frames and wake-ups where we talk of
/// pods, so theirs is for those who debug the libraries.
fn default_verbosity(metadata: &Metadata<'_>) -> u32 {
    let ours = metadata.target().starts_with("steersman");
    match *metadata.level() {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG if ours => 4,
        Level::TRACE if ours => 6,
        Level::DEBUG => 10,
        Level::TRACE => 11,
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for KlogLayer {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // `tracing` remembers the answer until the dial is turned: what is not wanted costs nothing.
        match self.wants(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let verbosity = fields
            .verbosity
            .unwrap_or_else(|| default_verbosity(metadata));
        let severity = match *metadata.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            _ => Severity::Info,
        };
        // UPSTREAM: errors and warnings are logged whatever the verbosity.
        if severity == Severity::Info && verbosity > self.verbosity.at(metadata) {
            return;
        }
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.context.extend(outer.own.iter().cloned());
            }
        }
        let header = Header {
            severity,
            verbosity,
            unix_micros: self.clock.now().unix_micros(),
            process: self.process,
            file: metadata.file().unwrap_or("unknown"),
            line: metadata.line().unwrap_or(0),
        };
        let line = if self.json {
            json_line(&header, &fields)
        } else {
            text_line(&header, &fields)
        };
        self.writer
            .write(line.as_bytes(), severity == Severity::Error);
    }
}
