//! Our API server beside kube-apiserver and etcd of the test cluster: the same client, the same machine.
//!
//! etcd of the test cluster does not call fsync, ours does: the comparison is to our disadvantage.

mod client;
mod watchers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::{Connection, Target};
use futures_util::future::try_join_all;
use real_tests::embedded::Embedded;
use real_tests::installation::Installation;
use real_tests::process::{self, Process};
use real_tests::{Api, Cluster, ClusterOptions};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::report::{Goal, Report};

const NAMESPACE: &str = "bench";
const CLIENTS: usize = 32;
/// Enough for a rate that does not depend on the first second.
const CREATES: usize = 10_000;
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
        Some(Goal::AtMost(20.0)),
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
    let our_rate = creates(&ours.api, || cpu([&ours.process]), "ours", report)?;
    if let Some(cluster) = &cluster {
        prepare(&cluster.api)?;
        let spent = || cpu(cluster.processes());
        let rate = creates(&cluster.api, spent, "kube-apiserver + etcd", report)?;
        report.figure(
            "pod creates, ratio",
            our_rate / rate,
            "times",
            Some(Goal::AtLeast(5.0)),
        );
    }
    let full = ours.process.usage()?.resident_bytes;
    let per_pod = (full.saturating_sub(empty)) as f64 / 1024.0 / CREATES as f64;
    report.figure(
        "resident memory per stored pod",
        per_pod,
        "KB",
        Some(Goal::AtMost(4.0)),
    );
    let our_list = list(&ours.api)?;
    report.figure("list of 10,000 pods", our_list, "ms", None);
    if let Some(theirs) = theirs {
        let list = list(theirs)?;
        report.figure("list of 10,000 pods, kube-apiserver", list, "ms", None);
        report.figure(
            "list, ratio",
            our_list / list,
            "times",
            Some(Goal::AtMost(0.5)),
        );
    }
    let p99 = watchers::latency(&ours.api)?;
    report.figure(
        "a write seen by 1,000 watchers, p99",
        p99,
        "ms",
        Some(Goal::AtMost(50.0)),
    );
    if let Some(theirs) = theirs {
        let p99 = watchers::latency(theirs)?;
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

/// How many pods a second are created by all clients together. What both sides spend says how much of the machine
/// the clients took from the server, and is steadier than the rate where others work, too.
fn creates(
    api: &Api,
    spent: impl Fn() -> Result<f64>,
    name: &str,
    report: &mut Report,
) -> Result<f64> {
    let own = || Ok::<_, anyhow::Error>(process::usage_of(std::process::id())?.cpu_seconds);
    let before = (spent()?, own()?);
    let rate = CREATES as f64 / create_all(api)?.as_secs_f64();
    let each = |seconds: f64| seconds * 1e6 / CREATES as f64;
    let name = format!("pod creates, durable, 32 clients, {name}");
    report.figure(&name, rate, "1/s", None);
    let figures = [
        ("CPU for each", each(spent()? - before.0)),
        ("CPU of the clients", each(own()? - before.1)),
    ];
    for (what, figure) in figures {
        report.figure(&format!("  {what}"), figure, "us", None);
    }
    Ok(rate)
}

fn cpu<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Result<f64> {
    let used = processes
        .into_iter()
        .map(|process| Ok(process.usage()?.cpu_seconds));
    used.sum()
}

/// How long it takes from the first request to the last answer, with connections that are open already.
fn create_all(api: &Api) -> Result<Duration> {
    let path = pods();
    let request = |number| client::request("POST", &path, &pod(number).to_string());
    let requests: Vec<Vec<u8>> = (0..CREATES).map(request).collect();
    let (target, next) = (Target::of(api), AtomicUsize::new(0));
    let work = async |mut connection: Connection| -> Result<()> {
        while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let status = connection.exchange(request).await?;
            ensure!(status == 201, "a creation answered {status}");
        }
        Ok(())
    };
    one_thread()?.block_on(async {
        let connections = try_join_all((0..CLIENTS).map(|_| target.connect())).await?;
        let started = Instant::now();
        try_join_all(connections.into_iter().map(work)).await?;
        Ok(started.elapsed())
    })
}

/// What all clients of a measurement share.
fn one_thread() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// The median of a few full lists, in milliseconds.
fn list(api: &Api) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let started = Instant::now();
        let answer = api.send("GET", &pods(), "application/json", &[])?;
        ensure!(
            answer.status == 200 && answer.body.len() > CREATES * 1000,
            "not a list of all pods"
        );
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
