//! Our API server beside kube-apiserver and etcd of the test bed: the same client, the same machine.
//!
//! etcd of the bed does not call fsync, ours does: the comparison is to our disadvantage.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use real_tests::embedded::Embedded;
use real_tests::installation::Installation;
use real_tests::{Api, Cluster, ClusterOptions};
use serde_json::{Value, json};

use crate::report::{Goal, Report};

const NAMESPACE: &str = "bench";
const CLIENTS: usize = 32;
/// Enough for a rate that does not depend on the first second.
const CREATES: usize = 4_000;
const LISTED: usize = 10_000;
const WATCHERS: usize = 1_000;
/// Each is seen by all watchers, so the 99th percentile is of 20,000 deliveries.
const WATCHED_WRITES: usize = 20;
const LISTS: usize = 5;

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    let alone = arguments.iter().any(|argument| argument == "--ours-only");
    let folder = std::env::temp_dir().join(format!("steersman-bench-{}", std::process::id()));
    let outcome = measure(&folder, alone, report);
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn measure(folder: &std::path::Path, alone: bool, report: &mut Report) -> Result<()> {
    let started = Instant::now();
    let ours = Embedded::start(&folder.join("ours"))?;
    ours.api.get("/version")?;
    let start = started.elapsed();
    report.figure(
        "start to first answer",
        start.as_secs_f64() * 1e3,
        "ms",
        Some(Goal::AtMost(300.0)),
    );
    let empty = ours.process.usage()?.resident_bytes;
    report.figure(
        "resident memory, empty",
        mega(empty),
        "MB",
        Some(Goal::AtMost(15.0)),
    );

    let cluster = if alone {
        None
    } else {
        Some(Cluster::start(
            &Installation::pinned()?,
            ClusterOptions::default(),
        )?)
    };
    let theirs = cluster.as_ref().map(|cluster| &cluster.api);
    prepare(&ours.api)?;
    let our_rate = creates(&ours.api)?;
    report.figure("pod creates, durable, 32 clients", our_rate, "1/s", None);
    if let Some(theirs) = theirs {
        prepare(theirs)?;
        let rate = creates(theirs)?;
        report.figure("pod creates, kube-apiserver + etcd", rate, "1/s", None);
        report.figure(
            "pod creates, ratio",
            our_rate / rate,
            "times",
            Some(Goal::AtLeast(10.0)),
        );
    }
    fill(&ours.api)?;
    let full = ours.process.usage()?.resident_bytes;
    let per_pod = (full.saturating_sub(empty)) as f64 / 1024.0 / LISTED as f64;
    report.figure(
        "resident memory per stored pod",
        per_pod,
        "KB",
        Some(Goal::AtMost(4.0)),
    );
    let our_list = list(&ours.api)?;
    report.figure("list of 10,000 pods", our_list, "ms", None);
    if let Some(theirs) = theirs {
        fill(theirs)?;
        let list = list(theirs)?;
        report.figure("list of 10,000 pods, kube-apiserver", list, "ms", None);
        report.figure(
            "list, ratio",
            our_list / list,
            "times",
            Some(Goal::AtMost(0.5)),
        );
    }
    let p99 = watchers(&ours.api)?;
    report.figure(
        "a write seen by 1,000 watchers, p99",
        p99,
        "ms",
        Some(Goal::AtMost(50.0)),
    );
    if let Some(theirs) = theirs {
        let p99 = watchers(theirs)?;
        report.figure("the same on kube-apiserver, p99", p99, "ms", None);
    }
    Ok(())
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn prepare(api: &Api) -> Result<()> {
    api.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": NAMESPACE}}),
    )?;
    let account = json!({"metadata": {"name": "default"}});
    api.create(
        &format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
        &account,
    )?;
    Ok(())
}

fn pods() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

/// A pod that is stored in about 3 KB.
fn pod(number: usize) -> Value {
    let env: Vec<Value> = (0..12)
        .map(|index| json!({"name": format!("VARIABLE_{index}"), "value": "a value of the usual length"}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": "web", "number": number.to_string()}},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/team/web:1.2.3", "env": env,
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}}]},
    })
}

/// How many pods a second are created by all clients together.
fn creates(api: &Api) -> Result<f64> {
    let bodies = bodies(0, CREATES);
    let started = Instant::now();
    create_all(api, &bodies)?;
    Ok(CREATES as f64 / started.elapsed().as_secs_f64())
}

fn fill(api: &Api) -> Result<()> {
    create_all(api, &bodies(CREATES, LISTED))
}

/// Printed before the clock starts: the clients share the machine with the server.
fn bodies(first: usize, end: usize) -> Vec<String> {
    (first..end).map(|number| pod(number).to_string()).collect()
}

fn create_all(api: &Api, bodies: &[String]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let path = pods();
    let worker = || -> Result<()> {
        while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = api.send("POST", &path, "application/json", body.as_bytes())?;
            ensure!(
                answer.status == 201,
                "a creation answered {}",
                answer.status
            );
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))?
        })
    })
}

/// The median of a few full lists, in milliseconds.
fn list(api: &Api) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let started = Instant::now();
        let answer = api.send("GET", &pods(), "application/json", &[])?;
        ensure!(
            answer.status == 200 && answer.body.len() > LISTED * 1000,
            "not a list of all pods"
        );
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// The 99th percentile of how long a write takes to reach each of many watchers, in milliseconds.
fn watchers(api: &Api) -> Result<f64> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let revision = api.get(&path)?["metadata"]["resourceVersion"]
        .as_str()
        .context("no revision")?
        .to_owned();
    let watch = format!("{path}?watch=true&resourceVersion={revision}");
    let origin = Instant::now();
    let written = Arc::new(AtomicU64::new(0));
    let latencies = Arc::new(Mutex::new(Vec::with_capacity(WATCHERS * WATCHED_WRITES)));
    let open = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    for _ in 0..WATCHERS {
        let (api, watch) = (api.clone(), watch.clone());
        let (written, latencies, open) = (written.clone(), latencies.clone(), open.clone());
        let body = move || {
            let mut seen = 0;
            let mut own = Vec::with_capacity(WATCHED_WRITES);
            let _ = api.watch_lines(&watch, Duration::from_secs(60), |_| {
                let now = origin.elapsed().as_nanos() as u64;
                if seen == 0 {
                    // The first write only shows that the watch is open.
                    open.fetch_add(1, Ordering::Relaxed);
                } else {
                    own.push(now.saturating_sub(written.load(Ordering::Relaxed)));
                }
                seen += 1;
                seen <= WATCHED_WRITES
            });
            latencies
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(own);
        };
        // A watcher needs little: a thousand of them need little, too.
        threads.push(
            std::thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn(body)?,
        );
    }
    let write =
        |number: usize| api.create(&path, &json!({"metadata": {"name": format!("w{number}")}}));
    write(0)?;
    let patience = Instant::now() + Duration::from_secs(60);
    while open.load(Ordering::Relaxed) < WATCHERS && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    let opened = open.load(Ordering::Relaxed);
    ensure!(
        opened == WATCHERS,
        "{opened} of {WATCHERS} watches could be opened; is the limit of open files too low?"
    );
    for number in 1..=WATCHED_WRITES {
        written.store(origin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        write(number)?;
        // Long enough for the last watcher, so that each delivery is measured from its own write.
        std::thread::sleep(Duration::from_millis(400));
    }
    for thread in threads {
        let _ = thread.join();
    }
    let mut latencies = latencies
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    latencies.sort_unstable();
    let p99 = latencies
        .get(latencies.len() * 99 / 100)
        .context("nothing was delivered")?;
    Ok(*p99 as f64 / 1e6)
}
