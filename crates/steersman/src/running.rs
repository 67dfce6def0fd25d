//! `steersman status`, `steersman down` and `steersman dashboard`: clusters that are up, in this terminal or in another.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rustix::process::{Pid, Signal, kill_process};

use crate::connect;
use crate::forget;
use crate::terminal::{Terminal, Tone};
use crate::up::instance::{self, Facts, Instance, Running};
use crate::up::places;

/// Which cluster is meant.
#[derive(Args)]
pub(crate) struct Which {
    /// The cluster of this name
    #[arg(long, value_name = "NAME", value_parser = places::parse_name)]
    pub(crate) name: Option<String>,
    /// The cluster of this data folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "name")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "Exit codes: 0 if a cluster is up, 3 if none is, 1 if that cannot be told.")]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    which: Which,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Args)]
#[command(after_help = "Examples:
  steersman down
  steersman down --name dev --forget --yes
  steersman down --all")]
pub(crate) struct DownArguments {
    #[command(flatten)]
    which: Which,
    /// Stop all that are up
    #[arg(long, conflicts_with_all = ["data_dir", "name"])]
    all: bool,
    /// Delete its data as well, after asking; also that of a cluster that is stopped
    #[arg(long)]
    forget: bool,
    /// Delete without asking
    #[arg(long, short, requires = "forget")]
    yes: bool,
}

#[derive(Args)]
pub(crate) struct DashboardArguments {
    #[command(flatten)]
    which: Which,
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
    let found = find(&arguments.which)?;
    let terminal = Terminal::of_stdout();
    match arguments.output {
        Output::Json => {
            let facts: Vec<&Facts> = found.iter().filter_map(|one| one.facts.as_ref()).collect();
            println!("{}", serde_json::to_string(&facts)?);
        }
        Output::Text => {
            if found.is_empty() {
                println!("{}", nothing_is_up(&arguments.which));
            }
            let tokio = small_runtime()?;
            for running in &found {
                let text = tokio.block_on(describe(running, terminal));
                println!("{}", terminal.wrap(&text));
            }
            for dir in stopped(&arguments.which)? {
                let name = terminal.paint(Tone::Heading, &instance::name_of(&dir));
                let text = format!("{name} is stopped; its data is in {}", dir.display());
                println!("{}", terminal.wrap(&text));
            }
        }
    }
    Ok(match found.is_empty() {
        true => ExitCode::from(NOTHING_IS_UP),
        false => ExitCode::SUCCESS,
    })
}

/// Another one may be up, if one was named.
fn nothing_is_up(which: &Which) -> String {
    match which {
        Which {
            name: Some(name), ..
        } => format!("No cluster {name} is up. `steersman up --name {name}` starts it."),
        Which {
            data_dir: Some(dir),
            ..
        } => format!("No cluster is up in {}.", dir.display()),
        _ => "No cluster is up. `steersman up` starts one.".to_owned(),
    }
}

/// The same as the text of an error: it continues a line, and is one sentence with what helps behind it.
fn to_error(sentence: String) -> String {
    let (what, hint) = sentence.split_once(". ").unwrap_or((&sentence, ""));
    let what = what
        .trim_end_matches('.')
        .replacen("No cluster", "no cluster", 1);
    match hint {
        "" => what,
        hint => format!("{what}; {}", hint.trim_end_matches('.')),
    }
}

async fn describe(running: &Running, terminal: Terminal) -> String {
    let name = terminal.paint(Tone::Heading, &running.name());
    let Some(facts) = running.facts.as_ref().filter(|facts| facts.is_serving()) else {
        let starts = terminal.paint(Tone::Warning, "is starting");
        return format!("{name} {starts} in {}", running.dir.display());
    };
    let health = match health(facts).await {
        Ok(()) => terminal.paint(Tone::Good, "answers"),
        Err(error) => {
            let why = client::describe(error.as_ref());
            terminal.paint(Tone::Bad, &format!("does not answer: {why}"))
        }
    };
    let shown = |path: &Path| path.display().to_string();
    let mut rows = vec![
        ("nodes", facts.nodes.to_string()),
        ("process", facts.pid.to_string()),
        (
            "data",
            facts.data_dir.as_deref().map_or("in memory".into(), shown),
        ),
        ("kubeconfig", shown(&facts.kubeconfig)),
    ];
    rows.extend(facts.merged_into.as_deref().map(|path| {
        let context = places::context_of(&facts.name);
        ("context", format!("{context} in {}", shown(path)))
    }));
    rows.extend(facts.log.as_deref().map(|log| ("log", shown(log))));
    let mut text = format!("{name} is up: {} {health}", facts.server);
    for (heading, value) in rows {
        text.push_str(&format!("\n  {heading:<11} {value}"));
    }
    text
}

async fn health(facts: &Facts) -> Result<()> {
    let client = connect::to(&facts.kubeconfig)?;
    let request = http::Request::get("/readyz").body(bytes::Bytes::new())?;
    client.request(request).await?;
    Ok(())
}

pub(crate) fn down(arguments: &DownArguments) -> Result<()> {
    let found = find(&arguments.which)?;
    if found.len() > 1 && !arguments.all {
        bail!(
            "several clusters are up: choose one with --name or --data-dir, or --all\n  {}",
            list(&found)
        );
    }
    let mut doomed = Vec::new();
    if arguments.forget {
        doomed.extend(found.iter().filter_map(data_of));
        if found.is_empty() || arguments.all {
            doomed.extend(stopped(&arguments.which)?);
        }
        // Nothing is stopped before the answer is known.
        if !doomed.is_empty() && !arguments.yes && !forget::is_wanted(&doomed)? {
            println!("Nothing was stopped and nothing was deleted.");
            return Ok(());
        }
    }
    if found.is_empty() && doomed.is_empty() {
        return nothing_to_stop(&arguments.which);
    }
    let tokio = small_runtime()?;
    for running in &found {
        let name = running.name();
        let facts = tokio.block_on(stop(running))?;
        match &facts.data_dir {
            Some(_) if arguments.forget => {}
            Some(dir) => println!("Stopped {name}; what was in it stays in {}", dir.display()),
            None => {
                forget::clear_in_memory(&Instance::claim(&running.dir)?, &[])?;
                println!("Stopped and forgotten: {name} was in memory");
            }
        }
    }
    for dir in &doomed {
        forget::delete(dir)?;
    }
    Ok(())
}

fn nothing_to_stop(which: &Which) -> Result<()> {
    let is_known = match which {
        Which {
            name: Some(name), ..
        } => places::dir_of(name)?.is_dir(),
        Which {
            data_dir: Some(dir),
            ..
        } => dir.is_dir(),
        _ => true,
    };
    match (is_known, &which.name) {
        (true, _) => {
            println!("{}", nothing_is_up(which));
            Ok(())
        }
        (false, Some(name)) => bail!("there is no cluster {name}: `steersman status` lists them"),
        (false, None) => {
            let dir = which.data_dir.as_deref().unwrap_or(Path::new(""));
            bail!("there is no folder {}", dir.display())
        }
    }
}

fn data_of(running: &Running) -> Option<PathBuf> {
    running.facts.as_ref()?.data_dir.clone()
}

fn list(found: &[Running]) -> String {
    let lines = found
        .iter()
        .map(|one| format!("{:<12} {}", one.name(), one.dir.display()));
    lines.collect::<Vec<_>>().join("\n  ")
}

async fn stop(running: &Running) -> Result<Facts> {
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
    Ok(facts.clone())
}

/// Prints a link that opens the dashboard once.
pub(crate) fn dashboard(arguments: &DashboardArguments) -> Result<()> {
    let found = find(&arguments.which)?;
    let mut facts = found.into_iter().filter_map(|one| one.facts);
    let facts = match (facts.next(), facts.next()) {
        (Some(facts), None) => facts,
        (Some(_), Some(_)) => {
            bail!("several clusters are up: choose one with --name or --data-dir")
        }
        (None, _) => bail!("{}", to_error(nothing_is_up(&arguments.which))),
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

/// The clusters that are up and meant.
fn find(which: &Which) -> Result<Vec<Running>> {
    match which {
        Which {
            data_dir: Some(dir),
            ..
        } => Ok(instance::look(&absolute(dir)).into_iter().collect()),
        Which {
            name: Some(name), ..
        } => {
            let mut found = instance::look_everywhere()?;
            found.retain(|one| one.name() == *name);
            Ok(found)
        }
        _ => instance::look_everywhere(),
    }
}

/// The folders of clusters that are meant and not up, but have data.
fn stopped(which: &Which) -> Result<Vec<PathBuf>> {
    let mut dirs = match which {
        Which {
            data_dir: Some(dir),
            ..
        } => vec![absolute(dir)],
        Which {
            name: Some(name), ..
        } => {
            let mut dirs = places::all()?;
            dirs.retain(|dir| instance::name_of(dir) == *name);
            dirs
        }
        _ => places::all()?,
    };
    dirs.retain(|dir| dir.join("pki").is_dir() && instance::look(dir).is_none());
    Ok(dirs)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn small_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_up_does_not_mean_that_nothing_is() {
        let which = |name: Option<&str>, dir: Option<&str>| Which {
            name: name.map(str::to_owned),
            data_dir: dir.map(PathBuf::from),
        };
        let said = |which| nothing_is_up(&which);
        assert_eq!(
            said(which(Some("dev"), None)),
            "No cluster dev is up. `steersman up --name dev` starts it."
        );
        assert_eq!(said(which(None, Some("/a"))), "No cluster is up in /a.");
        assert_eq!(
            said(which(None, None)),
            "No cluster is up. `steersman up` starts one."
        );
        assert_eq!(
            to_error(said(which(Some("dev"), None))),
            "no cluster dev is up; `steersman up --name dev` starts it"
        );
        assert_eq!(
            to_error(said(which(None, Some("/a.b")))),
            "no cluster is up in /a.b"
        );
    }
}
