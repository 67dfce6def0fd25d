//! `steersman apiserver`: the Kubernetes API without anyone who acts on it.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use api::{Clock, Gates, Rng};
use apiserver::pki::{Pki, Validity};
use apiserver::serve::{Limits, Spawner, default_limits, serve};
use apiserver::{ApiServer, Extra, Options, Storage};
use clap::Args;
use envtest::controllers::ServerKeys;
use envtest::outbound::Caller;
use manager::logging::{Logging, LoggingOptions};
use runtime::{Stop, Task};
use tokio::net::TcpListener;

use crate::kube_apiserver::CONTROLLERS;
use crate::{files, signals};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// Where to keep the objects
    #[arg(long, conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Keep the objects in memory: they are gone when the server stops
    #[arg(long)]
    in_memory: bool,
    /// Drop damaged records from the disk, and list them
    #[arg(long, conflicts_with = "in_memory")]
    repair: bool,
    /// How many connections to take at the same time [default: 8192, or what the limit of open files leaves]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..))]
    max_connections: Option<u32>,
    /// How many of them one address may have [default: half of them]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections_per_peer: Option<u32>,
    /// Which controllers to run in this process, as in kube-controller-manager's --controllers; none by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Vec<String>,
    /// Write an administrator's kubeconfig here once the server is ready
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// How much to log; 4 adds a line for each request
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: u32,
    /// Another -v for parts of the program: patterns of files with a level each, such as "rest*=6"
    #[arg(long, value_name = "PATTERN=N,...")]
    vmodule: Option<String>,
    /// How to log: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    logging_format: String,
}

pub(crate) fn main(arguments: Arguments) -> Result<()> {
    api::collections::key_hashes(manager::process::random_seed());
    let logging = Logging::install(&arguments.logging()?, runtime::clock::wall());
    let ended = serve_until_stopped(arguments);
    logging.writer.flush();
    ended
}

fn serve_until_stopped(arguments: Arguments) -> Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    tokio.block_on(run(arguments))
}

impl Arguments {
    /// The flags mean what they mean to the controller manager.
    fn logging(&self) -> Result<LoggingOptions> {
        let mut flags = vec![
            format!("--v={}", self.v),
            format!("--logging-format={}", self.logging_format),
        ];
        flags.extend(
            self.vmodule
                .iter()
                .map(|value| format!("--vmodule={value}")),
        );
        Ok(LoggingOptions::from_arguments(flags)?)
    }

    /// The controllers of the command line, or else of the environment.
    fn manager(&self) -> Result<Option<Box<manager::Options>>> {
        let from_environment = || {
            let list = std::env::var(CONTROLLERS).unwrap_or_default();
            list.split(',').map(|name| name.trim().to_owned()).collect()
        };
        let mut names = match self.controllers.is_empty() {
            true => from_environment(),
            false => self.controllers.clone(),
        };
        names.retain(|name| !name.is_empty());
        if names.is_empty() {
            return Ok(None);
        }
        let options = envtest::controllers::options(&names, &[], "steersman apiserver");
        Ok(Some(options?))
    }

    fn limits(&self) -> Limits {
        let mut limits = default_limits();
        if let Some(total) = self.max_connections {
            limits = Limits::of_process(total as usize);
        }
        if let Some(per_peer) = self.max_connections_per_peer {
            limits.per_peer = limits.total.min(per_peer as usize);
        }
        limits
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let limits = arguments.limits();
    let manager = arguments.manager()?;
    let (stop, _signals) = signals::stop_on_signal();
    let place = Place::choose(arguments.data_dir, arguments.in_memory)?;
    if arguments.repair {
        place.repair()?;
    }
    let address = (arguments.bind_address, arguments.port);
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen on {}:{}: is it in use? --port 0 picks a free one",
            address.0, address.1
        )
    })?;
    let served = Served::start(
        &place,
        listener,
        runtime::clock::wall(),
        1,
        limits,
        Features::default(),
        &stop,
    )?;
    if let Some(path) = &arguments.kubeconfig {
        files::write_private(path, &served.kubeconfig())?;
    }
    let controllers = manager.map(|options| {
        let rng = Rng::from_seed(manager::process::random_seed());
        let decisions = runtime::Decisions::new();
        let clock = runtime::clock::wall();
        let keys = served.keys();
        let manager =
            envtest::controllers::manager(&options, &served.server, keys, &clock, &rng, decisions);
        runtime::spawn(manager.run(None, stop.clone()))
    });
    println!("serving the Kubernetes API at {}", served.url);
    stop.stopped().await;
    if let Some(controllers) = controllers {
        let _ = controllers.await;
    }
    served.finish().await;
    Ok(())
}

/// Where the objects and keys are kept.
pub(crate) enum Place {
    Memory,
    Dir(PathBuf),
}

impl Place {
    pub(crate) fn choose(data_dir: Option<PathBuf>, in_memory: bool) -> Result<Place> {
        match data_dir {
            _ if in_memory => Ok(Place::Memory),
            Some(dir) => Ok(Place::Dir(dir)),
            None => Ok(Place::Dir(files::default_data_dir()?)),
        }
    }

    /// Drops what is damaged, and says so.
    pub(crate) fn repair(&self) -> Result<()> {
        let Place::Dir(dir) = self else {
            return Ok(());
        };
        files::refuse_foreign_dir(dir)?;
        files::create_private_dir(dir)?;
        let repaired = apiserver::repair(dir)?;
        for dropped in &repaired.dropped {
            eprintln!("dropped: {dropped}");
        }
        let kept = repaired.kept;
        match &repaired.saved_as {
            Some(saved) => eprintln!(
                "{kept} objects are kept; the damaged file is {}",
                saved.display()
            ),
            None => eprintln!("nothing is damaged: {kept} objects"),
        }
        Ok(())
    }

    pub(crate) fn dir(&self) -> Option<&std::path::Path> {
        match self {
            Place::Memory => None,
            Place::Dir(dir) => Some(dir),
        }
    }
}

/// What the API server has beside upstream's defaults.
#[derive(Clone, Copy, Default)]
pub(crate) struct Features {
    pub(crate) serves: Extra,
    pub(crate) gates: Gates,
}

/// A running API server.
pub(crate) struct Served {
    pub(crate) server: ApiServer,
    pub(crate) url: String,
    pub(crate) pki: Pki,
    task: Task<()>,
}

impl Served {
    pub(crate) fn start(
        place: &Place,
        listener: TcpListener,
        clock: Clock,
        pace: u32,
        limits: Limits,
        features: Features,
        stop: &Stop,
    ) -> Result<Served> {
        let rng = Rng::from_seed(manager::process::random_seed());
        let address = listener.local_addr()?;
        let names = vec![address.ip().to_string()];
        let machine = runtime::clock::wall().now().time();
        let validity = Validity::new(machine, clock.now().time(), pace);
        let caller = Caller::new(clock.clone());
        let mut options = Options::in_memory(clock.clone(), rng);
        options.outbound = Some(caller);
        let pki = match place {
            Place::Memory => Pki::generate(&names, validity)?,
            Place::Dir(dir) => {
                files::refuse_foreign_dir(dir)?;
                files::create_private_dir(dir)?;
                options.storage = Storage::Dir(dir.clone());
                Pki::load_or_generate(&dir.join("pki"), &names, validity)?
            }
        };
        // Tokens stay good across restarts because their key is kept with the certificates.
        options.service_account_key = Some(pki.service_account_key.clone());
        options.advertise = Some((address.ip(), address.port()));
        let Features { serves, gates } = features;
        options.serves = serves;
        options.settings.gates = gates;
        // Usage is what simulated nodes say: then the rest of a control plane is here, too.
        if serves.usage {
            options.components = &["controller-manager", "scheduler"];
        }
        let server = ApiServer::open(options)?;
        let tls = pki.tls()?;
        let (serving, stop) = (server.clone(), stop.clone());
        let task = runtime::spawn(async move {
            let spawner = Spawner::new(|connection| runtime::spawn(connection).detach());
            serve(serving, listener, tls, spawner, limits, stop.stopped()).await;
        });
        Ok(Served {
            server,
            url: format!("https://{address}"),
            pki,
            task,
        })
    }

    /// What controllers in the same process need of it.
    pub(crate) fn keys(&self) -> ServerKeys {
        ServerKeys {
            root_ca: Some(self.pki.ca_certificate.clone()),
            service_account_key: Some(self.pki.service_account_key.clone()),
            client_ca: Some((self.pki.ca_certificate.clone(), self.pki.ca_key.clone())),
        }
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.pki.kubeconfig(&self.url)
    }

    /// Waits until the last request is answered.
    pub(crate) async fn finish(self) {
        let _ = self.task.await;
        self.server.disconnect_kubelets();
    }
}
