use parking_lot::Mutex;
use std::io::{self, Write};
use std::time::Duration;

use expect_test::{Expect, expect};
use tracing::{debug, error, info, info_span, trace, warn};

use super::*;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

fn options() -> LoggingOptions {
    LoggingOptions {
        json: false,
        verbosity: 0,
        vmodule: Vec::new(),
        flush_frequency: Duration::from_secs(5),
        split_stream: false,
        info_buffer_size: 0,
    }
}

/// What `log` writes to (standard output, standard error), with the process id and line numbers masked.
fn captured(options: &LoggingOptions, log: impl FnOnce(&Logging)) -> (String, String) {
    let (info, error) = (Memory::default(), Memory::default());
    let sink = Sink {
        info: Box::new(info.clone()),
        error: Box::new(error.clone()),
    };
    // 2026-11-15 04:21:33.123456 UTC
    let clock = api::Clock::new(|| api::MicroTime::from_unix_micros(1_794_716_493_123_456));
    let (logging, layer) = Logging::new(options, clock, sink);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || log(&logging));
    (mask(&info.text()), mask(&error.text()))
}

fn mask(text: &str) -> String {
    let process = format!("{:>7} ", std::process::id());
    let text = text.replace(&process, "    PID ");
    let mut parts = text.split("tests.rs:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "tests.rs:N" + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

fn check(options: &LoggingOptions, log: impl FnOnce(&Logging), expected: Expect) {
    expected.assert_eq(&captured(options, log).1);
}

#[test]
fn lines_look_like_klogs() {
    check(
        &options(),
        |_| {
            let _span =
                info_span!("reconcile", logger = "job-controller", job = "default/a").entered();
            info!(pods = 3, ready = true, node = %"n1", "Scaled");
            warn!("Slow");
            error!(
                error = &io::Error::other("boom") as &dyn std::error::Error,
                "Failed \"badly\""
            );
        },
        expect![[r#"
            I1115 04:21:33.123456     PID tests.rs:N] "Scaled" logger="job-controller" job="default/a" pods=3 ready=true node="n1"
            W1115 04:21:33.123456     PID tests.rs:N] "Slow" logger="job-controller" job="default/a"
            E1115 04:21:33.123456     PID tests.rs:N] "Failed \"badly\"" logger="job-controller" job="default/a" err="boom"
        "#]],
    );
}

#[test]
fn lines_of_json_have_the_usual_keys() {
    check(
        &LoggingOptions {
            json: true,
            ..options()
        },
        |_| {
            info!(count = 1, name = "a\"b", "Hello");
            error!("No");
        },
        expect![[r#"
            {"ts":1794716493123.456,"caller":"logging/tests.rs:N","msg":"Hello","v":0,"count":1,"name":"a\"b"}
            {"ts":1794716493123.456,"caller":"logging/tests.rs:N","msg":"No"}
        "#]],
    );
}

#[test]
fn text_of_several_lines_is_a_block() {
    check(
        &options(),
        |_| info!(diff = "a\nb\n", "Changed"),
        expect![[r#"
            I1115 04:21:33.123456     PID tests.rs:N] "Changed" diff=<
            	a
            	b
             >
        "#]],
    );
}

fn verbosities() {
    info!("0");
    info!(v = 2, "2");
    debug!("4");
    trace!("6");
}

fn lines(options: &LoggingOptions, log: impl FnOnce(&Logging)) -> usize {
    captured(options, log).1.lines().count()
}

#[test]
fn verbosity_decides() {
    for (verbosity, expected) in [(0, 1), (1, 1), (2, 2), (4, 3), (5, 3), (6, 4)] {
        assert_eq!(
            lines(
                &LoggingOptions {
                    verbosity,
                    ..options()
                },
                |_| verbosities()
            ),
            expected,
            "-v {verbosity}"
        );
    }
}

#[test]
fn verbosity_can_be_turned_while_running() {
    let count = lines(&options(), |logging| {
        verbosities();
        logging.verbosity.set(6);
        verbosities();
        logging.verbosity.set(0);
        verbosities();
    });
    assert_eq!(count, 1 + 4 + 1);
}

#[test]
fn libraries_are_quieter() {
    for (verbosity, expected) in [(9, 0), (10, 1), (11, 2)] {
        let count = lines(
            &LoggingOptions {
                verbosity,
                ..options()
            },
            |_| {
                debug!(target: "h2::codec", "send");
                trace!(target: "h2::codec", "poll");
            },
        );
        assert_eq!(count, expected, "-v {verbosity}");
    }
}

#[test]
fn modules_have_their_own() {
    for (pattern, expected) in [
        ("tests", 3),
        ("logg*", 3),
        ("*/logging/te?ts", 3),
        ("other", 1),
    ] {
        let options = LoggingOptions {
            vmodule: vec![(pattern.into(), 4)],
            ..options()
        };
        assert_eq!(lines(&options, |_| verbosities()), expected, "{pattern}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let (_, text) = captured(&options(), |_| {
        info!(
            token = "s3cret",
            header = "Bearer s3cret",
            secret = "kube-system/name",
            "Got"
        );
    });
    assert!(
        !text.contains("s3cret") && text.contains("secret=\"kube-system/name\""),
        "{text}"
    );
}

#[test]
fn a_split_stream_buffers_what_is_not_an_error() {
    let split = LoggingOptions {
        split_stream: true,
        info_buffer_size: 4096,
        ..options()
    };
    let (before, _) = captured(&split, |_| info!("kept"));
    assert_eq!(before, "");
    let (info, error) = captured(&split, |_| {
        info!("kept");
        error!("told");
    });
    assert!(info.contains("kept") && error.contains("told") && !error.contains("kept"));
    let (flushed, _) = captured(&split, |logging| {
        info!("kept");
        logging.writer.flush();
    });
    assert!(flushed.contains("kept"));
}
