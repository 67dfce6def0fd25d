//! `steersman up`: how long it takes, and what it costs.
//!
//! It is measured as a user has it: the released binary, with its data on a disk, over HTTPS. The first start
//! warms the disk and is not counted.

mod cluster;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use real_tests::installation::{Installation, KUBERNETES};
use serde_json::json;

use crate::report::{Goal, Report};
use cluster::Cluster;

const USAGE: &str = "usage: cargo xtask bench up [--percent N] [small|large]...";

/// Starts are quick and noisy: the median of a few.
const STARTS: usize = 5;

/// Long enough for every lease and timer of an idle cluster to come round once.
const IDLE: Duration = Duration::from_secs(20);

/// The pods of one Deployment in the large cluster: as many as people really have in one.
const PODS_EACH: usize = 1000;

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    let mut percent = 100;
    let mut wanted: Vec<&str> = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--percent" => {
                let number = rest.next().and_then(|text| text.parse().ok());
                percent = number.with_context(|| format!("--percent takes a number; {USAGE}"))?;
            }
            name @ ("small" | "large") => wanted.push(name),
            other => bail!("{other:?} is not known; {USAGE}"),
        }
    }
    let chosen = |name: &str| wanted.is_empty() || wanted.contains(&name);
    if chosen("small") {
        starts(report)?;
        small(report)?;
    }
    if chosen("large") {
        large(report, percent)?;
    }
    Ok(())
}

/// Starting: anew, again, and after a kill.
fn starts(report: &mut Report) -> Result<()> {
    let mut anew = Vec::new();
    let mut again = Vec::new();
    let mut after_kill = Vec::new();
    for round in 0..=STARTS {
        let (cluster, seconds) = ready(Cluster::start(3)?)?;
        let (cluster, seconds_again) = ready(cluster.restart(false)?)?;
        let (_cluster, seconds_after_kill) = ready(cluster.restart(true)?)?;
        if round > 0 {
            anew.push(seconds);
            again.push(seconds_again);
            after_kill.push(seconds_after_kill);
        }
    }
    let goal = Some(Goal::AtMost(1.0));
    report.figure("up to all nodes Ready", median(&mut anew), "s", goal);
    report.figure("up again", median(&mut again), "s", goal);
    report.figure("up after kill -9", median(&mut after_kill), "s", goal);
    Ok(())
}

/// Waits for three nodes; the seconds since the process was started.
fn ready(cluster: Cluster) -> Result<(Cluster, f64)> {
    cluster.await_ready_nodes(3)?;
    let seconds = cluster.begun.elapsed().as_secs_f64();
    Ok((cluster, seconds))
}

/// Three nodes: memory, idle, and a Deployment of a thousand.
fn small(report: &mut Report) -> Result<()> {
    let cluster = Cluster::start(3)?;
    cluster.await_ready_nodes(3)?;
    std::thread::sleep(Duration::from_secs(5));
    let before = cluster.usage()?;
    std::thread::sleep(IDLE);
    let after = cluster.usage()?;
    let idle = (after.cpu_seconds - before.cpu_seconds) / IDLE.as_secs_f64() * 100.0;
    report.figure(
        "memory, 3 nodes",
        megabytes(after.resident_bytes),
        "MB",
        Some(Goal::AtMost(40.0)),
    );
    report.figure("idle CPU, 3 nodes", idle, "% core", Some(Goal::AtMost(1.0)));
    let begun = Instant::now();
    cluster.deploy("web", 1000)?;
    cluster.await_available("web", 1000)?;
    let seconds = begun.elapsed().as_secs_f64();
    report.figure(
        "1,000 pods Available",
        seconds,
        "s",
        Some(Goal::AtMost(3.0)),
    );
    report.figure(
        "memory, 1,000 pods",
        megabytes(cluster.usage()?.resident_bytes),
        "MB",
        None,
    );
    Ok(())
}

/// A thousand nodes and fifty thousand pods, or a part of that.
fn large(report: &mut Report, percent: usize) -> Result<()> {
    let nodes = 1000 * percent / 100;
    let deployments = (50 * percent / 100).max(1);
    let begun = Instant::now();
    let cluster = Cluster::start(nodes)?;
    cluster.await_ready_nodes(nodes)?;
    let nodes_ready = begun.elapsed().as_secs_f64();
    for number in 0..deployments {
        cluster.deploy(&format!("web-{number}"), PODS_EACH)?;
    }
    for number in 0..deployments {
        cluster.await_available(&format!("web-{number}"), PODS_EACH)?;
        eprintln!(
            "{} of {deployments} Deployments are available after {:.0} s",
            number + 1,
            begun.elapsed().as_secs_f64()
        );
    }
    let seconds = begun.elapsed().as_secs_f64();
    let usage = cluster.usage()?;
    let goal = |bound| (percent == 100).then_some(Goal::AtMost(bound));
    report.figure("1,000 nodes Ready", nodes_ready, "s", None);
    report.figure("50,000 pods Available", seconds, "s", goal(120.0));
    report.figure(
        "memory, 50,000 pods",
        megabytes(usage.resident_bytes),
        "MB",
        goal(500.0),
    );
    report.figure(
        "peak memory",
        megabytes(usage.peak_resident_bytes),
        "MB",
        None,
    );
    report.figure(
        "CPU per pod",
        usage.cpu_seconds / (deployments * PODS_EACH) as f64 * 1000.0,
        "ms",
        None,
    );
    kubectl(report, &cluster)
}

/// The kubectl of the real test cluster, in the middle of all that.
fn kubectl(report: &mut Report, cluster: &Cluster) -> Result<()> {
    let program = Installation::of(KUBERNETES)?.command("kubectl");
    if !program.is_file() {
        eprintln!("kubectl is not built (cargo xtask real build): its answers are not measured");
        return Ok(());
    }
    let commands: [(&str, &[&str], Option<Goal>); 4] = [
        (
            "kubectl get deployments",
            &["get", "deployments"],
            Some(Goal::AtMost(1.0)),
        ),
        (
            "kubectl get nodes",
            &["get", "nodes"],
            Some(Goal::AtMost(1.0)),
        ),
        (
            "kubectl get pods -l",
            &["get", "pods", "-l", "app=web-0"],
            Some(Goal::AtMost(1.0)),
        ),
        ("kubectl get pods, all", &["get", "pods"], None),
    ];
    for (name, arguments, goal) in commands {
        let begun = Instant::now();
        let output = std::process::Command::new(&program)
            .args(arguments)
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()?;
        if !output.status.success() {
            bail!("{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
        report.figure(name, begun.elapsed().as_secs_f64(), "s", goal);
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A Deployment as `kubectl create deployment` makes it.
fn deployment(name: &str, replicas: usize) -> serde_json::Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            // All of them at once, however long it takes.
            "progressDeadlineSeconds": 3600,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
            },
        },
    })
}
