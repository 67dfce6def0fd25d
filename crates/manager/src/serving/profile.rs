//! `/debug/pprof/`: profiles of this process in the format that `go tool pprof` and its kin read.
//!
//! The sampler keeps a table of stacks that is made with the first profile and stays: some 70 MB. Whoever never
//! asks for a profile never pays for it.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use pprof::ProfilerGuardBuilder;
use pprof::protos::Message;
use tokio::sync::Mutex;

use super::router::{Reply, Request, Router, reply, text};

const PREFIX: &str = "/debug/pprof/";

/// UPSTREAM: Go's default for `?seconds=`.
const DEFAULT_SECONDS: u64 = 30;

/// Longer profiles only blur; a connection that waits longer is more likely forgotten.
const MOST_SECONDS: u64 = 300;

/// Samples a second of CPU time, as Go takes them.
const SAMPLES_PER_SECOND: i32 = 100;

/// A sample taken inside these could wait for a lock that the interrupted code holds.
const NOT_SAMPLED: &[&str] = &["libc", "libgcc", "pthread", "vdso"];

/// Adds the pages to a router.
pub fn register_profiles(router: &Router) {
    router.handle(PREFIX, |request| match request.path.strip_prefix(PREFIX) {
        Some("") => text(StatusCode::OK, INDEX),
        Some("cmdline") => {
            let arguments: Vec<_> = std::env::args_os()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            text(StatusCode::OK, arguments.join("\0"))
        }
        Some("symbol") => text(StatusCode::OK, "num_symbols: 1\n"),
        _ => text(StatusCode::NOT_IMPLEMENTED, NOT_THERE),
    });
    let one_at_a_time = Arc::new(Mutex::new(()));
    router.handle_async("/debug/pprof/profile", move |request| {
        let one_at_a_time = Arc::clone(&one_at_a_time);
        async move {
            match one_at_a_time.try_lock() {
                Ok(_running) => cpu_profile(&request).await,
                Err(_) => text(
                    StatusCode::CONFLICT,
                    "A CPU profile is being taken already; try again when it is done.\n",
                ),
            }
        }
    });
}

const INDEX: &str = "/debug/pprof/\n\nprofile?seconds=N\tCPU profile; read it with: go tool pprof\ncmdline\t\t\tthe command line\n";

const NOT_THERE: &str = "This profile does not exist here: the process has no garbage collector or goroutines, and its allocator \
    keeps no record of its callers. /debug/pprof/profile is a CPU profile; /metrics has the memory in use.\n";

async fn cpu_profile(request: &Request) -> Reply {
    let seconds = match request.value("seconds").map(str::parse::<u64>) {
        None => DEFAULT_SECONDS,
        Some(Ok(seconds @ 1..=MOST_SECONDS)) => seconds,
        Some(_) => {
            let problem = format!("seconds must be a whole number between 1 and {MOST_SECONDS}\n");
            return text(StatusCode::BAD_REQUEST, problem);
        }
    };
    let failed = |error: &dyn std::fmt::Display| {
        text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("Could not take a CPU profile: {error}\n"),
        )
    };
    let profiler = ProfilerGuardBuilder::default()
        .frequency(SAMPLES_PER_SECOND)
        .blocklist(NOT_SAMPLED)
        .build();
    let profiler = match profiler {
        Ok(profiler) => profiler,
        Err(error) => return failed(&error),
    };
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let profile = profiler.report().build().and_then(|report| report.pprof());
    match profile {
        Ok(profile) => {
            let mut bytes = Vec::new();
            match profile.encode(&mut bytes) {
                Ok(()) => reply(StatusCode::OK, "application/octet-stream", bytes),
                Err(error) => failed(&error),
            }
        }
        Err(error) => failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(target: &str) -> (u16, String) {
        let router = Router::default();
        register_profiles(&router);
        let reply = router.answer(Request::get(target)).await;
        (
            reply.status().as_u16(),
            String::from_utf8_lossy(reply.body()).into_owned(),
        )
    }

    #[tokio::test]
    async fn what_there_is_not_is_said() {
        for path in ["heap", "goroutine", "allocs", "nope"] {
            let (code, body) = answer(&format!("/debug/pprof/{path}")).await;
            assert_eq!(code, 501, "{path}");
            assert!(
                body.starts_with("This profile does not exist here"),
                "{body}"
            );
        }
        assert_eq!(answer("/debug/pprof/").await.0, 200);
    }

    #[tokio::test]
    async fn the_time_is_bounded() {
        for seconds in ["0", "-1", "301", "x", ""] {
            let (code, _) = answer(&format!("/debug/pprof/profile?seconds={seconds}")).await;
            assert_eq!(code, 400, "{seconds:?}");
        }
    }

    // The only test that takes a profile, since a process has one profiler. Real CPU time is what it measures,
    // so it works for as long as it takes to be seen.
    #[tokio::test]
    async fn a_profile_names_what_ran() {
        let router = Router::default();
        register_profiles(&router);
        let profile = router.answer(Request::get("/debug/pprof/profile?seconds=1"));
        let mut profile = std::pin::pin!(profile);
        let mut rounds = 0_u64;
        let reply = loop {
            rounds = rounds.wrapping_add(std::hint::black_box(busy(rounds)));
            tokio::select! {
                biased;
                reply = &mut profile => break reply,
                () = tokio::task::yield_now() => {}
            }
        };
        assert_eq!(reply.status(), 200);
        let profile = pprof::protos::Profile::decode(&reply.body()[..]).unwrap();
        assert!(!profile.sample.is_empty(), "no sample in a second of work");
        let second = router.answer(Request::get("/debug/pprof/profile?seconds=1"));
        let third = router.answer(Request::get("/debug/pprof/profile?seconds=1"));
        let (second, third) = tokio::join!(second, third);
        assert_eq!(
            (second.status().as_u16(), third.status().as_u16()),
            (200, 409)
        );
    }

    fn busy(seed: u64) -> u64 {
        (0..100_000_u64).fold(seed, |sum, n| std::hint::black_box(sum.rotate_left(5) ^ n))
    }
}
