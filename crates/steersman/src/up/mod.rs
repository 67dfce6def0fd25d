//! `steersman up`: a cluster in a box.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is where users are spoken to"
)]

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::{Clock, Rng};
use clap::{Args, ValueEnum};
use client::Client;
use manager::built::{Memory, Parts};
use manager::run::{Manager, select};
use manager::{Command, Options};
use runtime::decisions::Decisions;
use runtime::informer::StreamOptions;
use runtime::metrics::Metrics;
use runtime::{Informers, Task, spawn};
use tokio::net::TcpListener;

use crate::apiserver::{Place, Served};
use crate::{files, signals};

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many nodes to simulate
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// The port of the API server; 0 picks a free one [default: 6443, or a free one if that is taken]
    #[arg(long)]
    port: Option<u16>,
    /// Where to keep the cluster between runs
    #[arg(long, conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Forget everything when stopped
    #[arg(long)]
    in_memory: bool,
    /// Write the kubeconfig here [default: in the data folder]
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Which controllers to run, as in kube-controller-manager's --controllers
    #[arg(long, default_value = "*", value_delimiter = ',')]
    controllers: Vec<String>,
    /// Who runs the controllers
    #[arg(long, value_enum, default_value_t = Who::Embedded)]
    controller_manager: Who,
    /// Say nothing but errors
    #[arg(long)]
    quiet: bool,
    /// How to say that the cluster is up
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Who {
    /// This process
    Embedded,
    /// Another process: ours or Go's
    External,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

const DEFAULT_PORT: u16 = 6443;

pub(crate) fn main(arguments: Arguments) -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(if arguments.quiet {
            tracing::Level::ERROR
        } else {
            tracing::Level::WARN
        })
        .init();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    tokio.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    // What is wrong with the arguments is said before anything is written.
    let options = manager_options(&arguments)?;
    let (stop, _signals) = signals::stop_on_signal();
    let place = Place::choose(arguments.data_dir.clone(), arguments.in_memory)?;
    let listener = listen(&arguments).await?;
    let served = Served::start(&place, listener, &stop)?;
    let kubeconfig = kubeconfig_path(&arguments, &place)?;
    files::write_private(&kubeconfig, &served.kubeconfig())?;

    let clock = runtime::clock::wall();
    let rng = Rng::from_seed(manager::process::random_seed());
    let client = |agent: &str| Client::new(served.server.transport()).with_user_agent(agent);
    let mut tasks: Vec<Task<()>> = Vec::new();
    if arguments.controller_manager == Who::Embedded {
        let manager = manager(&options, &served, &clock, &rng);
        tasks.push(spawn(manager.run(None, stop.clone())));
    }
    let config = nodes::Config::with_nodes(arguments.nodes as usize);
    let cluster = nodes::Cluster::new(client("steersman-nodes"), config, clock.clone(), rng.fork());
    tasks.push(spawn(cluster.run(stop.clone())));

    greet(&arguments, &served.url, &kubeconfig);
    stop.stopped().await;
    if !arguments.quiet && arguments.output == Output::Text {
        // Whoever read our output may be gone by now; that is no reason not to stop in order.
        let _ = writeln!(std::io::stdout(), "\nstopping");
    }
    finish(tasks, served).await;
    Ok(())
}

async fn finish(tasks: Vec<Task<()>>, served: Served) {
    let patience = Duration::from_secs(10);
    let all = async {
        for task in tasks {
            let _ = task.await;
        }
        served.finish().await;
    };
    if tokio::time::timeout(patience, all).await.is_err() {
        eprintln!("some tasks did not finish in time and were dropped");
    }
}

/// The port that was asked for, or else the default one, or else any.
async fn listen(arguments: &Arguments) -> Result<TcpListener> {
    let asked = arguments.port.unwrap_or(DEFAULT_PORT);
    match (TcpListener::bind(("127.0.0.1", asked)).await, arguments.port) {
        (Ok(listener), _) => Ok(listener),
        (Err(error), Some(port)) => Err(error).with_context(|| {
            format!("cannot listen on port {port}: is it in use? Leave --port out and a free one is picked")
        }),
        (Err(_), None) => {
            if !arguments.quiet && arguments.output == Output::Text {
                println!("port {DEFAULT_PORT} is taken, using a free one");
            }
            TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on any port")
        }
    }
}

fn kubeconfig_path(arguments: &Arguments, place: &Place) -> Result<PathBuf> {
    match (&arguments.kubeconfig, place) {
        (Some(path), _) => Ok(path.clone()),
        (None, Place::Dir(dir)) => Ok(dir.join("kubeconfig")),
        (None, Place::Memory) => Ok(files::default_data_dir()?.join("in-memory.kubeconfig")),
    }
}

/// The controller manager's own defaults, with the controllers that were asked for.
fn manager_options(arguments: &Arguments) -> Result<Box<Options>> {
    let flags = [format!("--controllers={}", arguments.controllers.join(","))];
    match Options::parse(flags, "steersman up", manager::built::has) {
        Ok(Command::Run(options)) => Ok(options),
        Ok(Command::Print(_)) => bail!("--controllers takes names of controllers"),
        Err(errors) => bail!("{errors}"),
    }
}

/// All built controllers, in this process, called directly.
fn manager(options: &Options, served: &Served, clock: &Clock, rng: &Rng) -> Manager {
    let transport = served.server.transport();
    let stream = StreamOptions {
        rng: rng.fork(),
        resync: None,
    };
    let informers = Informers::new(
        Client::new(transport.clone()).with_user_agent("steersman/shared-informers"),
        stream.clone(),
    );
    let metadata = Client::new(transport.clone()).with_user_agent("steersman/metadata-informers");
    Manager {
        parts: Parts {
            informers: Arc::new(informers),
            collector: Memory::new(metadata.clone(), stream),
            metadata,
            root_ca: Some(served.pki.ca_certificate.clone()),
            service_account_key: Some(served.pki.service_account_key.clone().into_bytes()),
            config: options.config.clone(),
            gates: options.gates.for_controllers(),
            clock: clock.clone(),
            rng: rng.fork(),
            metrics: Metrics::new(),
            decisions: Decisions::new(),
        },
        selected: select(&options.config.generic.controllers, &options.gates),
        clients: Arc::new(move |descriptor| {
            let agent = format!("steersman/{}", descriptor.name);
            let client = Client::new(transport.clone()).with_user_agent(&agent);
            Box::pin(std::future::ready(Ok(client)))
        }),
        patience: Duration::from_secs(5),
    }
}

fn greet(arguments: &Arguments, url: &str, kubeconfig: &std::path::Path) {
    let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_path_buf());
    match arguments.output {
        Output::Json => println!(
            "{}",
            serde_json::json!({"server": url, "kubeconfig": kubeconfig, "nodes": arguments.nodes})
        ),
        Output::Text if arguments.quiet => {}
        Output::Text => println!(
            "A Kubernetes cluster is up: {url} with {} simulated nodes

  export KUBECONFIG={}

Try:
  kubectl create deployment web --image=nginx --replicas=3
  kubectl get pods -w
  kubectl rollout restart deployment/web

Ctrl-C stops it.",
            arguments.nodes,
            kubeconfig.display()
        ),
    }
}
