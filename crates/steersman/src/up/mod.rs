//! `steersman up`: a cluster in a box.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

mod bootstrap;
mod containers;
pub(crate) mod dashboard;
mod detach;
pub(crate) mod instance;
mod live;
mod log;
mod merge;
pub(crate) mod places;
mod predictor;
mod registration;
mod screen;
mod time;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::dashboard::Feed;
use anyhow::{Context, Result, bail};
use api::{Clock, Rng};
use apiserver::Extra;
use clap::{Args, ValueEnum};
use client::Client;
use manager::Options;
use nodes::stages::Stages;
use runtime::{Decisions, Stop, Task, spawn};
use tokio::net::TcpListener;

use crate::apiserver::{Features, Place, Served};
use crate::{files, forget, signals};
use instance::{Facts, Instance};
use log::Log;
use registration::{GaveUp, Signers, Waiting};
use screen::Screen;
use time::Timekeeping;

#[derive(Args)]
#[command(after_help = "Examples:
  steersman up
  steersman up --detach --name dev --nodes 10
  steersman up --in-memory --speed 60
  steersman up --data-dir /srv/cluster --merge-kubeconfig
  steersman status
  steersman down --name dev --forget --yes")]
pub(crate) struct Arguments {
    /// Name of the cluster: several can be up at once, each with its own data
    #[arg(long, value_name = "NAME", value_parser = places::parse_name)]
    name: Option<String>,
    /// How many nodes to simulate
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=i64::from(nodes::Config::MOST_NODES)))]
    nodes: u32,
    /// Which nodes to simulate, from a file (docs/behaviours.md)
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    node_config: Option<PathBuf>,
    /// How pods behave, from a file of stages (docs/behaviours.md)
    #[arg(long, value_name = "FILE")]
    stages: Option<PathBuf>,
    /// Where the addresses of LoadBalancer services and Ingresses come from: a range, or one of each family; "" for none
    #[arg(long, value_name = "RANGES", default_value = nodes::load_balancer::DEFAULT_RANGE)]
    load_balancer_range: String,
    /// The port of the API server; 0 picks a free one [default: 6443, or a free one if that is taken]
    #[arg(long)]
    port: Option<u16>,
    /// The port of the dashboard; 0 picks a free one [default: 6444, or a free one if that is taken]
    #[arg(long, value_name = "PORT")]
    dashboard_port: Option<u16>,
    /// Serve no dashboard
    #[arg(long, conflicts_with = "dashboard_port")]
    no_dashboard: bool,
    /// Where to keep the cluster between runs [default: steersman in your data folder]
    #[arg(long, value_name = "FOLDER", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Forget everything when stopped
    #[arg(long)]
    in_memory: bool,
    /// Drop damaged records from the disk, and list them
    #[arg(long, conflicts_with_all = ["in_memory", "detach"])]
    repair: bool,
    /// Write the kubeconfig here [default: in the data folder]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Put a context `steersman` (or `steersman-NAME`) into your own kubeconfig as well, until the cluster stops
    #[arg(long)]
    merge_kubeconfig: bool,
    /// Which controllers to run, as in kube-controller-manager's --controllers
    #[arg(long, default_value = "*", value_delimiter = ',')]
    controllers: Vec<String>,
    /// Features to turn on or off, as in kube-controller-manager's --feature-gates. The API server serves the kinds that
    /// are not stable yet for those that need them
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    feature_gates: Vec<String>,
    /// Let the node IPAM controller assign each node the range of its pod addresses
    #[arg(long)]
    allocate_node_cidrs: bool,
    /// Let each simulated kubelet get its client certificate by TLS bootstrap, and request a serving certificate
    #[arg(long, conflicts_with = "speed")]
    bootstrap_nodes: bool,
    /// Who runs the controllers
    #[arg(long, value_enum, default_value_t = Who::Embedded)]
    controller_manager: Who,
    /// Run the cluster's clock up to this many times as fast, for demonstrations
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_speed)]
    speed: f64,
    /// Return when the cluster is up and leave it running; `steersman down` stops it
    #[arg(long, short)]
    detach: bool,
    /// Print errors only
    #[arg(long)]
    quiet: bool,
    /// Output format of the line that says that the cluster is up
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Started by --detach
    #[arg(long, hide = true)]
    detached: bool,
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

/// Beyond it requests would time out before they are answered.
const FASTEST: f64 = 1000.0;
const SLOWEST: f64 = 0.1;

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok();
    speed
        .filter(|speed| (SLOWEST..=FASTEST).contains(speed))
        .ok_or_else(|| format!("not a number from {SLOWEST} to {FASTEST}"))
}

pub(crate) fn main(arguments: Arguments) -> Result<()> {
    api::collections::key_hashes(manager::process::random_seed());
    // What is wrong with the arguments is said before anything is written.
    let setup = Setup::new(&arguments)?;
    if arguments.detach {
        return detach::main(&arguments);
    }
    let log = Log::default();
    tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_max_level(if arguments.quiet {
            tracing::Level::ERROR
        } else {
            tracing::Level::WARN
        })
        .init();
    let tokio = if time::is_usual(arguments.speed) {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
    } else {
        // Only here can time be moved by hand.
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()?
    };
    let mut instance = None;
    let data = arguments.place()?.dir().map(Path::to_path_buf);
    let is_in_memory = data.is_none();
    let new_data = data.filter(|dir| !dir.join("pki").is_dir());
    let ended = tokio.block_on(run(arguments, setup, &log, &mut instance));
    // Connections that are still open hold the data: it is given up when they are gone, and only then the claim.
    drop(tokio);
    if let Some(instance) = instance.as_ref().filter(|_| is_in_memory) {
        // The log has been named, and whoever stops us looks at what is up.
        if let Err(error) = forget::clear_in_memory(instance, &[LOG, instance::FILE]) {
            let error = format!("{error:#}");
            tracing::warn!(error, "The cluster's kubeconfig could not be deleted");
        }
    }
    drop(instance);
    match (ended, new_data) {
        // Nobody has had anything of this cluster yet.
        (Err(error), Some(dir)) if error.is::<GaveUp>() => {
            forget::empty(&dir)?;
            Err(error)
        }
        (ended, _) => ended,
    }
}

/// In the data folder, or where a cluster in memory has its kubeconfig.
const LOG: &str = "up.log";

/// What the arguments and the files that they name amount to.
struct Setup {
    manager: Box<Options>,
    nodes: nodes::Config,
}

impl Setup {
    fn new(arguments: &Arguments) -> Result<Setup> {
        let mut nodes = match &arguments.node_config {
            Some(path) => nodes::Config::load(path)?,
            None => nodes::Config::with_nodes(arguments.nodes as usize),
        };
        if arguments.allocate_node_cidrs {
            nodes = nodes.without_ranges();
        }
        if let Some(path) = &arguments.stages {
            nodes.stages = Stages::load(path)?;
        }
        if !arguments.load_balancer_range.is_empty() {
            let ranges = nodes::load_balancer::Ranges::parse(&arguments.load_balancer_range);
            nodes.load_balancers = Some(ranges.context("--load-balancer-range")?);
        }
        Ok(Setup {
            manager: manager_options(arguments)?,
            nodes,
        })
    }
}

async fn run(
    arguments: Arguments,
    setup: Setup,
    log: &Log,
    instance: &mut Option<Instance>,
) -> Result<()> {
    let (stop, signals) = signals::stop_on_signal();
    let screen = Screen::new(&arguments);
    let place = arguments.place()?;
    *instance = claim(&arguments, &place)?;
    if arguments.repair {
        place.repair()?;
    }
    let name = arguments.cluster_name(instance.as_ref());
    let log_path = start_log(&arguments, &screen, log, instance.as_ref())?;
    screen.open(&name);
    let listener = listen(&arguments, &screen).await?;
    let time = Timekeeping::start(arguments.speed, place.dir(), &stop);
    let served = Served::start(
        &place,
        listener,
        time.clock.clone(),
        // As fast as it may ever be made to pass: certificates are good for a year of the wall's time.
        if time.speed.is_some() {
            FASTEST as u32
        } else {
            1
        },
        apiserver::serve::default_limits(),
        Features {
            serves: Extra {
                usage: true,
                previews: serves_previews(&setup.manager),
            },
            gates: setup.manager.gates.for_controllers(),
        },
        &stop,
    )?;
    let kubeconfig = kubeconfig_path(&arguments, instance.as_ref())?;
    let context = places::context_of(&name);
    let before = std::fs::read_to_string(&kubeconfig).unwrap_or_default();
    let own = merge::own(&served.kubeconfig(), &context, &before)?;
    files::write_private(&kubeconfig, &own)?;
    let merged_into = match arguments.merge_kubeconfig {
        true => Some(merge::merge(&own, &kubeconfig, &context).await?),
        false => None,
    };
    screen.step("API server", &served.url);
    let mut facts = Facts {
        name,
        server: served.url.clone(),
        kubeconfig,
        merged_into,
        log: log_path,
        data_dir: place.dir().map(absolute),
        ..Facts::of_this_process()
    };
    if let Some(instance) = instance {
        instance.announce(&facts)?;
    }

    let feed = Feed::new();
    let decisions = Decisions::new().heard_by(feed.listener());
    let simulated = setup.nodes.nodes.len();
    let rng = Rng::from_seed(manager::process::random_seed());
    // A seed of its own: what else is drawn is seen by everybody, and must not give the token away.
    let secrets = Rng::from_seed(manager::process::random_seed());
    let bootstrap = match arguments.bootstrap_nodes {
        true => Some(bootstrap::prepare(&served, &time.clock, &secrets).await?),
        false => None,
    };
    let surroundings = Surroundings {
        served: &served,
        clock: &time.clock,
        rng,
        decisions: &decisions,
        bootstrap,
    };
    let (mut tasks, waiting) = start(&arguments, setup, surroundings, &screen, &stop);
    if let Some(instance) = instance.as_ref().filter(|_| !arguments.no_dashboard) {
        let listener = dashboard::listen(arguments.dashboard_port).await?;
        let parts = dashboard::Parts {
            served: &served,
            feed,
            decisions,
            clock: &time.clock,
            speed: time.speed.clone(),
            rng: Rng::from_seed(manager::process::random_seed()),
            nodes: simulated,
        };
        let (task, place) = dashboard::start(parts, listener, &instance.dir, &stop)?;
        tasks.push(task);
        screen.step("dashboard", &place.url);
        facts.dashboard = Some(place);
    }
    let is_told = arguments.detached && arguments.bootstrap_nodes;
    let progress = |text: &str| screen.progress("nodes", text);
    let tell = is_told.then_some(detach::tell_progress);
    let ready = waiting.until_ready(&stop, progress, tell).await;
    let (ready, failure) = match ready {
        Ok(ready) => (ready, None),
        Err(failure) => (None, Some(failure)),
    };
    if failure.is_some() {
        // Without those who listen to them, all is told to stop.
        drop(signals);
    }
    if let Some(nodes) = ready {
        screen.step("nodes", &format!("{nodes} ready"));
        facts.nodes = nodes;
        if let Some(instance) = instance {
            instance.announce(&facts)?;
        }
        if arguments.detached {
            detach::report(&facts)?;
        } else if arguments.output == Output::Json {
            let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string(&facts)?);
        }
        screen.greet(&facts);
    }
    let live = screen.is_live().then(|| {
        let client = Client::new(served.server.transport()).with_user_agent("steersman-up");
        let speed = time.speed.clone();
        let pace = move || speed.as_ref().map_or(1.0, runtime::pace::Speed::get);
        spawn(live::run(client, screen.clone(), log.clone(), pace))
    });
    stop.stopped().await;
    drop(live);
    screen.close();
    screen.say("stopping");
    finish(tasks, served).await;
    take_context_away(&facts, &context).await;
    match failure {
        Some(failure) => Err(failure),
        None => time.finish(),
    }
}

/// A context that leads nowhere is in everybody's way. The namespace that was set in it is kept for the next time.
async fn take_context_away(facts: &Facts, context: &str) {
    let Some(path) = &facts.merged_into else {
        return;
    };
    let taken = async {
        if let Some(namespace) = merge::unmerge(path, context).await? {
            let own = std::fs::read_to_string(&facts.kubeconfig)?;
            files::write_private(&facts.kubeconfig, &merge::with_namespace(&own, &namespace)?)?;
        }
        anyhow::Ok(())
    };
    if let Err(error) = taken.await {
        eprintln!(
            "the context {context} is still in {}: {error:#}",
            path.display()
        );
    }
}

/// Where a line can be written over, log lines would run into it: then they go to a file. Answers the file.
fn start_log(
    arguments: &Arguments,
    screen: &Screen,
    log: &Log,
    instance: Option<&Instance>,
) -> Result<Option<PathBuf>> {
    match instance {
        // Its standard error is the file already.
        _ if arguments.detached => detach::log_path(arguments).map(|path| Some(absolute(&path))),
        Some(instance) if screen.is_live() => {
            let path = absolute(&instance.dir.join(LOG));
            log.to_file(&path)?;
            Ok(Some(path))
        }
        _ => Ok(None),
    }
}

impl Arguments {
    /// Where the objects are kept.
    fn place(&self) -> Result<Place> {
        match (&self.data_dir, &self.name) {
            (None, Some(name)) if !self.in_memory => Ok(Place::Dir(places::dir_of(name)?)),
            (dir, _) => Place::choose(dir.as_deref().map(absolute), self.in_memory),
        }
    }

    fn cluster_name(&self, instance: Option<&Instance>) -> String {
        let given = self.name.clone();
        let by_place = || instance.map(|instance| places::name_of(&instance.dir));
        given
            .or_else(by_place)
            .unwrap_or_else(|| "in-memory".to_owned())
    }
}

/// Makes sure that nobody else uses the data. A cluster in memory whose kubeconfig has a place of its own needs
/// none of ours.
fn claim(arguments: &Arguments, place: &Place) -> Result<Option<Instance>> {
    match (place, &arguments.name) {
        (Place::Dir(dir), _) => {
            files::refuse_foreign_dir(dir)?;
            files::create_private_dir(dir)?;
            let claimed = Instance::claim(dir)?;
            if let Err(error) = places::remember(dir) {
                let error = format!("{error:#}");
                tracing::warn!(error, "`steersman status` finds it by --data-dir alone");
            }
            Ok(Some(claimed))
        }
        (Place::Memory, Some(name)) => {
            let dir = places::dir_of(name)?;
            if dir.join("pki").is_dir() {
                bail!(
                    "the cluster {name} is kept in {}; choose another --name for one in memory",
                    dir.display()
                );
            }
            files::create_private_dir(&dir)?;
            Instance::claim(&dir).map(Some)
        }
        (Place::Memory, None) if arguments.kubeconfig.is_some() => {
            Ok(Instance::claim_in_memory().ok())
        }
        (Place::Memory, None) => Instance::claim_in_memory().map(Some),
    }
}

/// What the parts of a cluster find when they start.
struct Surroundings<'a> {
    served: &'a Served,
    clock: &'a Clock,
    rng: Rng,
    decisions: &'a Decisions,
    bootstrap: Option<nodes::identity::Bootstrap>,
}

/// Starts everything that lives beside the API server.
fn start(
    arguments: &Arguments,
    setup: Setup,
    surroundings: Surroundings<'_>,
    screen: &Screen,
    stop: &Stop,
) -> (Vec<Task<()>>, Waiting) {
    let Surroundings {
        served,
        clock,
        rng,
        decisions,
        bootstrap,
    } = surroundings;
    let mut tasks: Vec<Task<()>> = Vec::new();
    let mut signers = Signers::Elsewhere;
    if arguments.controller_manager == Who::Embedded {
        let (options, decisions) = (&setup.manager, decisions.clone());
        let keys = served.keys();
        let manager =
            envtest::controllers::manager(options, &served.server, keys, clock, &rng, decisions);
        let count = manager.selected.len();
        signers = Signers::among(manager.selected.iter().map(|one| one.name));
        tasks.push(spawn(manager.run(None, stop.clone())));
        screen.step("controllers", &format!("{count} running"));
    } else {
        screen.step("controllers", "left to another process");
    }
    containers::connect(served, clock, &setup.nodes);
    let wanted = setup.nodes.nodes.len();
    let client = Client::new(served.server.transport()).with_user_agent("steersman-nodes");
    let mut cluster = nodes::Cluster::new(client, setup.nodes, clock.clone(), rng.fork());
    if let Some(bootstrap) = bootstrap {
        cluster = cluster.bootstrapped(bootstrap);
    }
    let waiting = Waiting {
        registration: cluster.registration(),
        wanted,
        signers,
    };
    tasks.push(spawn(cluster.run(stop.clone())));
    (tasks, waiting)
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
async fn listen(arguments: &Arguments, screen: &Screen) -> Result<TcpListener> {
    let asked = arguments.port.unwrap_or(DEFAULT_PORT);
    match (TcpListener::bind(("127.0.0.1", asked)).await, arguments.port) {
        (Ok(listener), _) => Ok(listener),
        (Err(error), Some(port)) => Err(error).with_context(|| {
            format!("cannot listen on port {port}: is it in use? Leave --port out and a free one is picked")
        }),
        (Err(_), None) => {
            screen.say(&format!("  port {DEFAULT_PORT} is taken, so another one is used"));
            TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on any port")
        }
    }
}

fn kubeconfig_path(arguments: &Arguments, instance: Option<&Instance>) -> Result<PathBuf> {
    match (&arguments.kubeconfig, instance) {
        (Some(path), _) => Ok(absolute(path)),
        (None, Some(instance)) => Ok(absolute(&instance.dir.join("kubeconfig"))),
        (None, None) => bail!("there is no place for the kubeconfig: give --kubeconfig"),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Is a feature on whose kinds are not stable yet?
fn serves_previews(options: &Options) -> bool {
    let gates = [
        "ClusterTrustBundle",
        "DRADeviceTaintRules",
        "DRAResourcePoolStatus",
        "GenericWorkload",
        "PodCertificateRequest",
    ];
    gates.iter().any(|gate| options.gates.enabled(gate))
}

/// The controller manager's own defaults, with the controllers that were asked for.
fn manager_options(arguments: &Arguments) -> Result<Box<Options>> {
    let mut flags = Vec::new();
    if !arguments.feature_gates.is_empty() {
        flags.push(format!(
            "--feature-gates={}",
            arguments.feature_gates.join(",")
        ));
    }
    if arguments.allocate_node_cidrs {
        let (network, prefix) = (nodes::Config::POD_CIDR, nodes::Config::NODE_PREFIX);
        flags.push("--allocate-node-cidrs".to_owned());
        flags.push(format!("--cluster-cidr={network}"));
        flags.push(format!("--node-cidr-mask-size={prefix}"));
    }
    let options = envtest::controllers::options(&arguments.controllers, &flags, "steersman up");
    Ok(options?)
}
