//! CPU profiles.
//!
//! The sampler keeps a table of stacks that is made with the first profile and stays: some 70 MB. Whoever never
//! asks for a profile never pays for it.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use pprof::ProfilerGuardBuilder;
use pprof::protos::Message;
use tokio::sync::Mutex;

use super::super::router::{Reply, Request, Router, reply, text};

/// UPSTREAM: Go's default for `?seconds=`.
const DEFAULT_SECONDS: u64 = 30;

/// Longer profiles only blur; a connection that waits longer is more likely forgotten.
const MOST_SECONDS: u64 = 300;

/// Samples a second of CPU time, as Go takes them.
const SAMPLES_PER_SECOND: i32 = 100;

/// A sample taken inside these could wait for a lock that the interrupted code holds.
const NOT_SAMPLED: &[&str] = &["libc", "libgcc", "pthread", "vdso"];

pub(super) fn register(router: &Router) {
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

    #[tokio::test]
    async fn the_time_is_bounded() {
        let router = Router::default();
        register(&router);
        for seconds in ["0", "-1", "301", "x", ""] {
            let path = format!("/debug/pprof/profile?seconds={seconds}");
            let reply = router.answer(Request::get(&path)).await;
            assert_eq!(reply.status(), 400, "{seconds:?}");
        }
    }

    // The only test that takes a profile, since a process has one profiler. Real CPU time is what it measures,
    // so it works for as long as it takes to be seen.
    #[tokio::test]
    async fn a_profile_names_what_ran() {
        let router = Router::default();
        register(&router);
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
