//! The process itself beside Go's: what it holds while idle, how soon it works, how it hands over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use real_tests::installation::{self, Installation};
use real_tests::manager::{Manager, USER};
use real_tests::{Flavor, ManagerOptions};
use serde_json::json;

use crate::head_to_head::scenarios::{DEPLOYMENTS, SETTLE, wait_status};
use crate::head_to_head::stage::{Phase, Stage, deployment, same_controllers, until};
use crate::report::{Goal, Report};

/// How long an idle manager is watched: some 15 renewals of its lease.
const IDLE: Duration = Duration::from_secs(30);

/// How long a standby is watched: whoever lists again does so sooner.
const STANDBY: Duration = Duration::from_secs(15);

/// Upstream's lease duration: nobody can take over sooner after a crash.
const LEASE_SECONDS: f64 = 15.0;

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    if !arguments.is_empty() {
        bail!("usage: cargo xtask bench process");
    }
    let installation = Installation::pinned()?;
    let mut found = BTreeMap::new();
    for flavor in [Flavor::Go, Flavor::Ours] {
        eprintln!("{}: start, idle, takeover", flavor.name());
        found.insert(flavor, measure(&installation, flavor)?);
    }
    let (go, ours) = (&found[&Flavor::Go], &found[&Flavor::Ours]);
    let megabytes = |phase: &Phase| phase.resident_bytes / 1e6;
    report.figure("idle-resident.go", megabytes(&go.idle), "MB", None);
    report.figure("idle-resident", megabytes(&ours.idle), "MB", None);
    report.figure(
        "idle-resident-ratio",
        megabytes(&ours.idle) / megabytes(&go.idle),
        "x of Go",
        Some(Goal::AtMost(0.2)),
    );
    report.figure("idle-anonymous", ours.idle_anonymous / 1e6, "MB", None);
    let per_second = |cpu: f64| cpu * 1e3 / IDLE.as_secs_f64();
    report.figure("idle-cpu.go", per_second(go.idle_cpu), "ms/s", None);
    report.figure("idle-cpu", per_second(ours.idle_cpu), "ms/s", None);
    report.figure(
        "idle-cpu-ratio",
        ours.idle_cpu / go.idle_cpu,
        "x of Go",
        Some(Goal::AtMost(0.15)),
    );
    report.figure("first-reconcile.go", go.first_reconcile, "s", None);
    report.figure(
        "first-reconcile",
        ours.first_reconcile,
        "s",
        Some(Goal::AtMost(0.3)),
    );
    report.figure("takeover-clean.go", go.clean, "s", None);
    report.figure("takeover-clean", ours.clean, "s", Some(Goal::AtMost(1.0)));
    report.figure("takeover-crash.go", go.crash, "s", None);
    report.figure(
        "takeover-crash",
        ours.crash,
        "s",
        Some(Goal::AtMost(LEASE_SECONDS + 1.0)),
    );
    report.figure(
        "standby-lists",
        ours.standby_lists as f64,
        "requests",
        Some(Goal::AtMost(0.0)),
    );
    let binary = installation::steersman_binary()?.metadata()?.len();
    report.figure(
        "binary",
        binary as f64 / 1e6,
        "MB",
        Some(Goal::AtMost(30.0)),
    );
    Ok(())
}

struct Measured {
    first_reconcile: f64,
    idle: Phase,
    /// What of it is heap and stacks.
    idle_anonymous: f64,
    /// Seconds of CPU while idle.
    idle_cpu: f64,
    clean: f64,
    crash: f64,
    /// Lists that a standby asks for once it has settled.
    standby_lists: u64,
}

fn measure(installation: &Installation, flavor: Flavor) -> Result<Measured> {
    let mut stage = Stage::new(installation)?;
    let options = ManagerOptions {
        leader_elect: true,
        ..same_controllers()
    };
    // Work is waiting when it starts.
    let waiting = format!("{DEPLOYMENTS}/waiting");
    let api = &stage.cluster.api;
    api.create(DEPLOYMENTS, &deployment("waiting", 1, "1"))?;
    let started = Instant::now();
    let mut leader = Manager::start(&stage.cluster, flavor, &options)?;
    wait_status(&stage.cluster, &waiting, &[("replicas", 1)])?;
    let first_reconcile = started.elapsed().as_secs_f64();

    std::thread::sleep(SETTLE);
    let before = leader.process().cpu_times()?;
    let idle = stage.measure("idle", 1, &mut leader, |_| {
        std::thread::sleep(IDLE);
        Ok(())
    })?;
    let idle_anonymous = leader.usage()?.anonymous_bytes as f64;
    let idle_cpu = leader.process().cpu_times()?.seconds_since(&before);

    let second = ManagerOptions {
        user: format!("{USER}-second"),
        ..options.clone()
    };
    let mut standby = Manager::start_named(&stage.cluster, flavor, "second", &second)?;
    std::thread::sleep(SETTLE);
    let stood_by = stage.measure("standby", 1, &mut standby, |_| {
        std::thread::sleep(STANDBY);
        Ok(())
    })?;
    let clean = take_over(&stage, "clean", || leader.stop())?;
    let third = Manager::start_named(&stage.cluster, flavor, "third", &options)?;
    std::thread::sleep(SETTLE);
    let crash = take_over(&stage, "crash", || {
        standby.kill();
        Ok(())
    })?;
    third.stop()?;
    Ok(Measured {
        first_reconcile,
        standby_lists: stood_by.requests_with("list"),
        idle,
        idle_anonymous,
        idle_cpu,
        clean,
        crash,
    })
}

/// Seconds from the end of the leader to the first work of the other one.
fn take_over(stage: &Stage, name: &str, end: impl FnOnce() -> Result<()>) -> Result<f64> {
    let path = format!("{DEPLOYMENTS}/{name}");
    let started = Instant::now();
    end()?;
    stage
        .cluster
        .api
        .create(DEPLOYMENTS, &deployment(name, 1, "1"))?;
    until("the other one to work", || {
        Ok(stage.cluster.api.get(&path)?["status"]["replicas"] == json!(1))
    })?;
    Ok(started.elapsed().as_secs_f64())
}
