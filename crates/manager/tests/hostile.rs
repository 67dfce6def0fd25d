//! An API server that lies: the real controllers on top of it neither break nor grow, and say what is wrong.

mod lies;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::{Rng, Time};
use bytes::Bytes;
use client::{BoxError, Transport};
use http::Request;
use parking_lot::Mutex;
use runtime::{Decisions, Stop};
use steersman_manager::logging::{Logging, LoggingOptions, Sink};
use steersman_manager::run::Manager;
use steersman_manager::{Command, Options};
use tracing_subscriber::layer::SubscriberExt;

/// What the process may grow by: lists of it are small, so what grows is kept without need.
const LARGEST_BYTES: u64 = 600 << 20;

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// A log to look at.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lies_breaks_nothing_and_is_told_of() {
    let clock = runtime::clock::following_tokio_from(Time::from_unix(1_700_000_000).micro());
    let log = Log::default();
    let sink = Sink {
        info: Box::new(log.clone()),
        error: Box::new(log.clone()),
    };
    let options = LoggingOptions::from_arguments([]).unwrap();
    let (_logging, layer) = Logging::new(&options, clock.clone(), sink);
    let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let panics = Arc::new(AtomicUsize::new(0));
    let counted = panics.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |why| {
        counted.fetch_add(1, Ordering::Relaxed);
        before(why);
    }));

    let rng = Rng::from_seed(21);
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, seed) = (asked.clone(), rng.fork());
    let transport = Transport::new(tower::service_fn(move |request: Request<Bytes>| {
        count.fetch_add(1, Ordering::Relaxed);
        let response = lies::answer(&seed, &request);
        async move { Ok::<_, BoxError>(response) }
    }));
    let Ok(Command::Run(options)) = Options::parse(["--controllers=*"], "x") else {
        unreachable!("these flags are fine");
    };
    let manager = Manager::in_process(transport, &options, clock, rng, Decisions::new());
    let (ender, stop) = Stop::new();
    let running = runtime::spawn(manager.run(None, stop));
    let begin = peak_bytes();
    tokio::time::sleep(Duration::from_secs(60)).await;
    ender.stop();
    running.await.expect("the manager itself does not break");

    assert_eq!(panics.load(Ordering::Relaxed), 0);
    let grew = peak_bytes().saturating_sub(begin);
    assert!(grew < LARGEST_BYTES, "{} MB", grew / 1_000_000);
    assert!(asked.load(Ordering::Relaxed) > 100, "it goes on to ask");
    let log = String::from_utf8_lossy(&log.0.lock()).into_owned();
    assert!(log.len() < 20 << 20, "{} bytes of log", log.len());
    for said in ["not a Kubernetes API object", "was answered with more than"] {
        assert!(
            log.contains(said),
            "{said} is not in the log:\n{}",
            &log[..log.len().min(4000)]
        );
    }
}
