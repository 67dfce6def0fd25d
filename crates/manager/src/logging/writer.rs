//! Where log lines go: all to standard error, or split so that errors go there and the rest to standard output.

use parking_lot::Mutex;
use std::io::{self, Write};
use std::time::Duration;

use crate::options::LoggingOptions;

/// The two streams.
pub struct Sink {
    pub info: Box<dyn Write + Send>,
    pub error: Box<dyn Write + Send>,
}

impl Sink {
    /// The process's own streams.
    pub fn process() -> Sink {
        Sink {
            info: Box::new(io::stdout()),
            error: Box::new(io::stderr()),
        }
    }
}

/// Writes whole lines, buffering informational ones if asked to.
pub struct Writer {
    split: bool,
    buffer_size: usize,
    flush_every: Duration,
    state: Mutex<State>,
}

struct State {
    sink: Sink,
    buffer: Vec<u8>,
}

/// No buffer grows beyond this, whatever the flag says: it is memory that an exit can lose.
const LARGEST_BUFFER: usize = 16 << 20;

impl Writer {
    pub(super) fn new(options: &LoggingOptions, sink: Sink) -> Writer {
        // UPSTREAM: the buffer is for the split stream only.
        let wanted = if options.split_stream {
            options.info_buffer_size
        } else {
            0
        };
        Writer {
            split: options.split_stream,
            buffer_size: usize::try_from(wanted)
                .unwrap_or(LARGEST_BUFFER)
                .min(LARGEST_BUFFER),
            flush_every: options.flush_frequency,
            state: Mutex::new(State {
                sink,
                buffer: Vec::new(),
            }),
        }
    }

    /// A log that cannot be written is not worth dying for, so failures to write are dropped.
    pub(super) fn write(&self, line: &[u8], is_error: bool) {
        let mut state = self.state.lock();
        if is_error || !self.split {
            // What led to an error should be on the stream before it.
            state.flush();
            let _ = state.sink.error.write_all(line);
        } else if self.buffer_size == 0 {
            let _ = state.sink.info.write_all(line);
        } else {
            if state.buffer.len() + line.len() > self.buffer_size {
                state.flush();
            }
            state.buffer.extend_from_slice(line);
        }
    }

    pub fn flush(&self) {
        self.state.lock().flush();
    }

    /// Flushes every --log-flush-frequency. Does nothing, and ends, if nothing is buffered.
    pub async fn flush_forever(&self) {
        if self.buffer_size > 0 {
            loop {
                tokio::time::sleep(self.flush_every).await;
                self.flush();
            }
        }
    }
}

impl State {
    fn flush(&mut self) {
        if !self.buffer.is_empty() {
            let _ = self.sink.info.write_all(&self.buffer);
            self.buffer.clear();
        }
        let _ = self.sink.info.flush();
    }
}
