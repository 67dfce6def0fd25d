//! What the machinery under the controllers costs: bytes and CPU per cached pod, queue rate.
//!
//! Each measurement runs in a process of its own, so that memory is its alone. The stream is the
//! client's and the informer's own, over a transport that makes up pods as they are read: nothing
//! but the informer holds them.

mod pods;
mod reconcile;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api::kinds::{Pod, ReplicaSet};
use api::{Gates, Key, Rng};
use bytes::Bytes;
use client::{Client, Transport};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use real_tests::process::{CpuTimes, Usage, cpu_times_of, usage_of};
use runtime::events::Recorder;
use runtime::informer::StreamOptions;
use runtime::rate_limit::Backoff;
use runtime::stop::Stop;
use runtime::{Decisions, Informers, Metrics, Queue};
use serde::{Deserialize, Serialize};

use crate::report::{Goal, Report};

/// Costs are compared between these two sizes: nothing may grow faster than the number of pods.
const SMALL: usize = 10_000;
const LARGE: usize = 100_000;
/// Updates per pod size that change nothing a controller reads.
const BEATS: usize = 20_000;
/// How often a key is added to the queue, whichever of the two numbers of keys there is.
const ADDITIONS: usize = 2_000_000;
const WORKERS: usize = 4;
/// How often each size is measured, in turns: the least is what the work costs, the rest is the machine's.
const ROUNDS: usize = 5;

/// A factor of ten in pods may cost this much more per pod before growth counts as worse than linear.
const LINEAR: f64 = 1.25;

/// What a child found out about a cache of some size.
#[derive(Debug, Serialize, Deserialize)]
struct Cached {
    pods: usize,
    bytes_per_pod: f64,
    peak_to_steady: f64,
    cpu_us_per_pod: f64,
    cpu_us_per_beat: f64,
    wakes_by_beats: usize,
}

impl Cached {
    /// The lesser cost of two rounds. What is held or woken is no matter of luck: there the greater counts.
    fn best(self, other: Cached) -> Cached {
        Cached {
            pods: self.pods,
            bytes_per_pod: self.bytes_per_pod.max(other.bytes_per_pod),
            peak_to_steady: self.peak_to_steady.max(other.peak_to_steady),
            cpu_us_per_pod: self.cpu_us_per_pod.min(other.cpu_us_per_pod),
            cpu_us_per_beat: self.cpu_us_per_beat.min(other.cpu_us_per_beat),
            wakes_by_beats: self.wakes_by_beats.max(other.wakes_by_beats),
        }
    }
}

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    match arguments {
        [] => {}
        [child, pods] if child == "--child" => {
            let cached = cache(pods.parse()?)?;
            println!("{}", serde_json::to_string(&cached)?);
            // The parent reports.
            std::process::exit(0);
        }
        _ => bail!("usage: cargo xtask bench runtime"),
    }
    let (small, large) = in_turns(|| in_child(SMALL), || in_child(LARGE), Cached::best)?;
    report.figure(
        "bytes-per-cached-pod",
        large.bytes_per_pod,
        "bytes",
        Some(Goal::AtMost(600.0)),
    );
    report.figure(
        "cpu-per-pod-event",
        large.cpu_us_per_pod,
        "us",
        Some(Goal::AtMost(20.0)),
    );
    report.figure(
        "cpu-per-unread-update",
        large.cpu_us_per_beat,
        "us",
        Some(Goal::AtMost(20.0)),
    );
    report.figure(
        "wakes-by-unread-updates",
        large.wakes_by_beats as f64,
        "keys",
        Some(Goal::AtMost(0.0)),
    );
    report.figure(
        "first-list-peak-to-steady",
        large.peak_to_steady,
        "x",
        Some(Goal::AtMost(1.3)),
    );
    report.figure(
        "growth-of-bytes-per-pod",
        large.bytes_per_pod / small.bytes_per_pod,
        "x",
        Some(Goal::AtMost(LINEAR)),
    );
    report.figure(
        "growth-of-cpu-per-pod-event",
        large.cpu_us_per_pod / small.cpu_us_per_pod,
        "x",
        Some(Goal::AtMost(LINEAR)),
    );
    report.figure(
        "reconcile-of-10000-pods-that-needs-nothing",
        reconcile::cpu_ms(SMALL)?,
        "ms",
        Some(Goal::AtMost(1.0)),
    );
    let (small, large) = in_turns(|| queue_rate(SMALL), || queue_rate(LARGE), f64::max)?;
    report.figure(
        "queue-with-4-workers",
        large,
        "keys/s",
        Some(Goal::AtLeast(1e6)),
    );
    report.figure(
        "growth-of-queue-cost",
        small / large,
        "x",
        Some(Goal::AtMost(LINEAR)),
    );
    Ok(())
}

/// Measures two things in turns, so that what else the machine does meets both, and keeps the best of each.
fn in_turns<T>(
    small: impl Fn() -> Result<T>,
    large: impl Fn() -> Result<T>,
    best: fn(T, T) -> T,
) -> Result<(T, T)> {
    let (mut best_small, mut best_large) = (small()?, large()?);
    for _ in 1..ROUNDS {
        best_small = best(best_small, small()?);
        best_large = best(best_large, large()?);
    }
    Ok((best_small, best_large))
}

fn in_child(pods: usize) -> Result<Cached> {
    eprintln!("caching {pods} pods");
    let output = Command::new(std::env::current_exe()?)
        .args(["runtime", "--child", &pods.to_string()])
        .output()?;
    if !output.status.success() {
        bail!(
            "the measuring process failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("the measuring process said something odd")
}

/// Fills the caches of the controllers that read pods, then sends updates that nobody cares for.
fn cache(pods: usize) -> Result<Cached> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // What making up the events costs is measured alone and taken off.
        let making = cpu_seconds_of(|| (0..pods).for_each(|number| drop(line(number, pods))))?;
        let making_beats =
            cpu_seconds_of(|| (pods..pods + BEATS).for_each(|number| drop(line(number, pods))))?;

        let (go_on, gate) = tokio::sync::watch::channel(false);
        let seen = Arc::new(AtomicUsize::new(0));
        let informers = Arc::new(Informers::new(
            Client::new(transport(pods, gate)),
            StreamOptions {
                rng: Rng::from_seed(1),
                resync: None,
            },
        ));
        let store = informers.store::<Pod>();
        // The indexes and triggers of the controllers that watch pods.
        let context = context(&informers);
        let controllers = [
            controllers::replicaset::controller::<ReplicaSet>(&context, 1),
            controllers::deployment::controller(&context, 1),
            controllers::daemonset::controller(&context, 1),
        ];
        let woken = seen.clone();
        informers.of::<Pod>().on_change(move |_| {
            woken.fetch_add(1, Ordering::Relaxed);
        });
        let (stopper, stop) = Stop::new();

        let (empty, start) = (usage()?, cpu()?);
        informers.start(&stop);
        informers.of::<Pod>().synced().wait().await;
        let synced = cpu()?;
        let full = usage()?;
        let woken = seen.load(Ordering::Relaxed);

        go_on.send(true)?;
        while store.resource_version() < (pods + BEATS) as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let beaten = cpu()?.seconds_since(&synced);
        let filled = synced.seconds_since(&start);
        let held = full.resident_bytes.saturating_sub(empty.resident_bytes) as f64;
        let found = Cached {
            pods: store.len(),
            bytes_per_pod: held / pods as f64,
            peak_to_steady: full.peak_resident_bytes as f64 / full.resident_bytes as f64,
            cpu_us_per_pod: (filled - making).max(0.0) * 1e6 / pods as f64,
            cpu_us_per_beat: (beaten - making_beats).max(0.0) * 1e6 / BEATS as f64,
            wakes_by_beats: seen.load(Ordering::Relaxed) - woken,
        };
        drop(controllers);
        stopper.stop();
        Ok(found)
    })
}

/// Event `number` of the stream: each pod once, then updates that change nothing a controller reads.
fn line(number: usize, pods: usize) -> String {
    if number < pods {
        pods::event("ADDED", number, number + 1, 0)
    } else {
        pods::event("MODIFIED", number % pods, number + 1, number)
    }
}

/// An API server that has nothing but pods: all of them, a bookmark, and after `gate` opens updates.
fn transport(pods: usize, gate: tokio::sync::watch::Receiver<bool>) -> Transport {
    Transport::new(tower::service_fn(move |request: http::Request<Bytes>| {
        let is_pods = request.uri().path() == "/api/v1/pods";
        let (pods, gate) = (if is_pods { pods } else { 0 }, gate.clone());
        let lines = stream::unfold(0, move |number: usize| {
            let mut gate = gate.clone();
            async move {
                // The bookmark takes a place of its own between listing and updates.
                if number > pods && gate.wait_for(|open| *open).await.is_err() {
                    return None;
                }
                if number > pods + BEATS || (number > pods && pods == 0) {
                    return std::future::pending().await;
                }
                let line = match number {
                    number if number < pods => line(number, pods),
                    number if number == pods => bookmark(pods),
                    number => line(number - 1, pods),
                };
                let frame = http_body::Frame::data(Bytes::from(line));
                Some((Ok::<_, client::BoxError>(frame), number + 1))
            }
        });
        let body = BodyExt::boxed_unsync(StreamBody::new(lines));
        async move { Ok::<_, client::BoxError>(http::Response::new(body)) }
    }))
}

fn bookmark(revision: usize) -> String {
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{revision}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
    )
}

/// What controllers are built with; these never run.
fn context(informers: &Arc<Informers>) -> runtime::Context {
    let unused = Transport::new(tower::service_fn(|_: http::Request<Bytes>| async {
        Err::<http::Response<client::Body>, _>(client::BoxError::from("nobody is asked"))
    }));
    let (client, clock) = (Client::new(unused), runtime::clock::wall());
    let rng = Rng::from_seed(2);
    let (recorder, _) = Recorder::new("bench", "", client.clone(), clock.clone(), rng);
    runtime::Context {
        controller: "bench",
        informers: informers.clone(),
        client,
        recorder,
        clock,
        gates: Gates::default(),
        decisions: Decisions::new(),
        metrics: Metrics::new(),
    }
}

fn usage() -> Result<Usage> {
    usage_of(std::process::id())
}

/// In nanoseconds: a round of the small size takes a dozen of the kernel's ticks, and each reading may be off by one.
fn cpu() -> Result<CpuTimes> {
    cpu_times_of(std::process::id())
}

fn cpu_seconds_of(work: impl FnOnce()) -> Result<f64> {
    let before = cpu()?;
    work();
    Ok(cpu()?.seconds_since(&before))
}

/// Keys a second through add, get and done with four workers on all cores, for so many objects.
fn queue_rate(objects: usize) -> Result<f64> {
    eprintln!("queueing {objects} keys");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let queue: Arc<Queue> = Arc::new(Queue::new(Backoff::DEFAULT));
        let names: Vec<Key> = (0..objects)
            .map(|number| Key::new("team", &format!("object-{number}")))
            .collect();
        let started = Instant::now();
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let queue = queue.clone();
                runtime::spawn(async move {
                    let mut done: u32 = 0;
                    while let Some(key) = queue.get().await {
                        queue.done(&key);
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let adder = queue.clone();
        let adding = runtime::spawn(async move {
            for key in names.iter().cycle().take(ADDITIONS) {
                adder.add(key.clone());
            }
            adder.close();
        });
        adding.await?;
        let mut done: u32 = 0;
        for worker in workers {
            done += worker.await?;
        }
        // A key that is added again while it waits is one key: count what was worked on.
        Ok(f64::from(done) / started.elapsed().as_secs_f64())
    })
}
