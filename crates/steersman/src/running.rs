//! `steersman status` and `steersman down`: clusters that are up, in this terminal or in another.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rustix::process::{Pid, Signal, kill_process};

use crate::connect;
use crate::up::instance::{self, Facts, Running};

#[derive(Args)]
pub(crate) struct StatusArguments {
    /// The cluster of this data folder [default: all that are up in the usual places]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// How to say it
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Args)]
pub(crate) struct DownArguments {
    /// Stop the cluster of this data folder [default: the one that is up]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Stop all that are up in the usual places
    #[arg(long, conflicts_with = "data_dir")]
    all: bool,
}

#[derive(Args)]
pub(crate) struct DashboardArguments {
    /// The cluster of this data folder [default: the one that is up]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Open it in the browser as well
    #[arg(long)]
    open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// What `status` exits with when nothing is up, as service managers do.
const NOTHING_IS_UP: u8 = 3;

/// `up` gives its tasks 10 s to finish.
const STOPS_WITHIN: Duration = Duration::from_secs(15);

pub(crate) fn status(arguments: &StatusArguments) -> Result<ExitCode> {
    let found = find(arguments.data_dir.as_deref())?;
    if arguments.output == Output::Json {
        let facts: Vec<&Facts> = found.iter().filter_map(|one| one.facts.as_ref()).collect();
        println!("{}", serde_json::to_string(&facts)?);
    } else if found.is_empty() {
        println!("No cluster is up. `steersman up` starts one.");
    }
    let tokio = small_runtime()?;
    for running in found.iter().filter(|_| arguments.output == Output::Text) {
        println!("{}", tokio.block_on(describe(running)));
    }
    Ok(match found.is_empty() {
        true => ExitCode::from(NOTHING_IS_UP),
        false => ExitCode::SUCCESS,
    })
}

async fn describe(running: &Running) -> String {
    let Some(facts) = running.facts.as_ref().filter(|facts| facts.is_serving()) else {
        return format!("A cluster is starting in {}", running.dir.display());
    };
    let health = match health(facts).await {
        Ok(()) => "answers".to_owned(),
        Err(error) => format!("does not answer: {error:#}"),
    };
    let data = match &facts.data_dir {
        Some(dir) => dir.display().to_string(),
        None => "in memory".to_owned(),
    };
    format!(
        "A cluster is up: {} {health}\n  nodes       {}\n  process     {}\n  data        {data}\n  kubeconfig  {}",
        facts.server,
        facts.nodes,
        facts.pid,
        facts.kubeconfig.display(),
    )
}

async fn health(facts: &Facts) -> Result<()> {
    let client = connect::to(&facts.kubeconfig)?;
    let request = http::Request::get("/readyz").body(bytes::Bytes::new())?;
    client.request(request).await?;
    Ok(())
}

pub(crate) fn down(arguments: &DownArguments) -> Result<()> {
    let found = find(arguments.data_dir.as_deref())?;
    if found.is_empty() {
        println!("No cluster is up.");
        return Ok(());
    }
    if found.len() > 1 && !arguments.all {
        let dirs: Vec<String> = found
            .iter()
            .map(|one| one.dir.display().to_string())
            .collect();
        bail!(
            "several clusters are up: choose one with --data-dir, or --all\n  {}",
            dirs.join("\n  ")
        );
    }
    let tokio = small_runtime()?;
    for running in &found {
        tokio.block_on(stop(running))?;
    }
    Ok(())
}

async fn stop(running: &Running) -> Result<()> {
    let dir = running.dir.display();
    let facts = running
        .facts
        .as_ref()
        .with_context(|| format!("the cluster in {dir} is just starting; try again"))?;
    let pid = i32::try_from(facts.pid).ok().and_then(Pid::from_raw);
    let pid = pid.with_context(|| format!("{dir} names no process"))?;
    // The lock is held, so the process is there, and it is the one that wrote its number.
    kill_process(pid, Signal::TERM)
        .with_context(|| format!("cannot stop process {}", facts.pid))?;
    let ended = async {
        while instance::look(&running.dir).is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(STOPS_WITHIN, ended).await.is_err() {
        bail!(
            "process {} was told to stop and has not yet; `kill -9 {}` ends it, and nothing is lost",
            facts.pid,
            facts.pid
        );
    }
    match &facts.data_dir {
        Some(dir) => println!("Stopped; what was in it stays in {}", dir.display()),
        None => println!("Stopped and forgotten"),
    }
    Ok(())
}

/// Prints a link that opens the dashboard once.
pub(crate) fn dashboard(arguments: &DashboardArguments) -> Result<()> {
    let found = find(arguments.data_dir.as_deref())?;
    let mut facts = found.into_iter().filter_map(|one| one.facts);
    let facts = match (facts.next(), facts.next()) {
        (Some(facts), None) => facts,
        (Some(_), Some(_)) => bail!("several clusters are up: choose one with --data-dir"),
        (None, _) => bail!("no cluster is up: `steersman up` starts one"),
    };
    let Some(place) = &facts.dashboard else {
        bail!("this cluster has no dashboard: it is starting, or was started with --no-dashboard");
    };
    let link = place.link()?;
    println!("{link}");
    if arguments.open {
        let opener = if cfg!(target_os = "macos") {
            "open"
        } else {
            "xdg-open"
        };
        let opened = std::process::Command::new(opener).arg(&link).status();
        opened.with_context(|| {
            format!("cannot open a browser with {opener}; open the link yourself")
        })?;
    }
    Ok(())
}

fn find(data_dir: Option<&Path>) -> Result<Vec<Running>> {
    match data_dir {
        Some(dir) => Ok(instance::look(dir).into_iter().collect()),
        None => instance::look_everywhere(),
    }
}

fn small_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
