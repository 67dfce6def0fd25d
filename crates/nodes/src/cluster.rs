//! The simulated part of a cluster, ready to run.

use std::sync::Arc;

use api::{Clock, Resource, Rng};
use client::Client;
use futures_util::StreamExt;
use runtime::controller::Controller;
use runtime::informer::StreamOptions;
use runtime::{Informers, Recorder, Stop, Task, spawn};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::attacher::{Attacher, ensure_driver};
use crate::config::{Config, NodeConfig};
use crate::driver;
use crate::error::Error;
use crate::identity::{Bootstrap, Kubelet, NodeClients, keep};
use crate::kubelet::Kubelets;
use crate::kubelet::node::{NodeLife, register};
use crate::kubelet::volumes::Volumes;
use crate::load_balancer::{Provider, classes_known, ensure_ingress_class};
use crate::node::Node;
use crate::provisioner::{Provisioner, ensure_classes};
use crate::scheduler::Scheduler;
use crate::storage::StorageClass;

/// Scheduler, kubelets and provisioner against one API server.
pub struct Cluster {
    client: Client,
    config: Config,
    clock: Clock,
    rng: Rng,
    bootstrap: Option<Bootstrap>,
    registered: watch::Sender<Registered>,
}

/// How far the registration of nodes has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Nodes that are there, whoever made them.
    pub nodes: usize,
    /// All that were asked for are among them.
    pub done: bool,
}

/// A recorder writes one event after the other. Each real kubelet has its own, so ours have a few between them:
/// on a disk, what is written at the same time is made durable together.
const KUBELET_VOICES: usize = 8;

/// Nodes are registered this many at a time: enough to hide a network's latency.
const REGISTERED_AT_ONCE: usize = 16;

impl Cluster {
    pub fn new(client: Client, config: Config, clock: Clock, rng: Rng) -> Cluster {
        Cluster {
            client,
            config,
            clock,
            rng,
            bootstrap: None,
            registered: watch::Sender::default(),
        }
    }

    /// Kubelets get certificates of their own before they register.
    #[must_use]
    pub fn bootstrapped(mut self, bootstrap: Bootstrap) -> Cluster {
        self.bootstrap = Some(bootstrap);
        self
    }

    /// Tells how many nodes there are while they are registered.
    pub fn registration(&self) -> watch::Receiver<Registered> {
        self.registered.subscribe()
    }

    /// Runs until the signal comes. Registers the nodes first; nodes that are there already are taken over
    /// as they are.
    pub async fn run(self, stop: Stop) {
        let (kubelet_events, kubelet_writers): (Vec<_>, Vec<_>) = (0..KUBELET_VOICES)
            .map(|_| self.recorder("kubelet"))
            .unzip();
        let (scheduler_events, scheduler_writer) = self.recorder("default-scheduler");
        let (volume_events, volume_writer) = self.recorder("steersman.dev/simulated");
        let writers = kubelet_writers
            .into_iter()
            .chain([volume_writer, scheduler_writer]);
        let _writers: Vec<Task<()>> = writers
            .map(|writer| spawn(writer.run(stop.clone())))
            .collect();
        let informers = Arc::new(Informers::new(
            self.client.clone(),
            StreamOptions {
                rng: self.rng.fork(),
                resync: None,
            },
        ));
        let volumes = self
            .config
            .provisioner
            .then(|| Arc::new(Volumes::new(&informers)));
        let bootstrapped = match &self.bootstrap {
            Some(_) => self.config.nodes.as_slice(),
            None => &[],
        };
        let clients = NodeClients::new(self.client.clone(), bootstrapped);
        let mut controllers: Vec<Controller> = vec![
            NodeLife::controller(
                clients.clone(),
                self.clock.clone(),
                kubelet_events[0].clone(),
                &self.config,
                volumes.clone(),
                &informers,
            ),
            Kubelets::controller(
                clients.clone(),
                self.clock.clone(),
                kubelet_events.clone(),
                &self.config,
                volumes,
                &informers,
            ),
        ];
        if self.config.provisioner {
            controllers.extend(Provisioner::controllers(
                self.client.clone(),
                volume_events,
                &informers,
                &self.clock,
            ));
            controllers.extend(Attacher::controllers(
                self.client.clone(),
                &informers,
                &self.clock,
            ));
        }
        let mut _balancer_writer = None;
        if let Some(ranges) = self.config.load_balancers.clone() {
            let (balancer_events, writer) = self.recorder("service-controller");
            _balancer_writer = Some(spawn(writer.run(stop.clone())));
            controllers.extend(Provider::controllers(
                self.client.clone(),
                balancer_events,
                ranges,
                &informers,
                &self.clock,
            ));
        }
        let scheduler = self.config.scheduler.then(|| {
            Scheduler::new(
                self.client.clone(),
                self.clock.clone(),
                scheduler_events,
                &informers,
                self.config.allocates_devices,
            )
        });
        informers.start(&stop);
        let mut tasks: Vec<Task<()>> = Vec::new();
        if let Some(scheduler) = scheduler {
            tasks.push(spawn(scheduler.run(stop.clone())));
        }
        for controller in controllers {
            tasks.push(spawn(controller.run(stop.clone())));
        }
        let nodes = informers.of::<Node>();
        if stop.or(nodes.synced().wait()).await.is_some() {
            self.register_nodes(&kubelet_events[0], &informers, &clients, &stop)
                .await;
        }
        if self
            .config
            .nodes
            .iter()
            .any(|node| !node.devices.is_empty())
        {
            let publish = || driver::publish(&self.client, &self.config.nodes);
            stop.or(until_made("the ResourceSlices", publish)).await;
        }
        if self.config.provisioner {
            stop.or(self.make_classes(&informers)).await;
        }
        if self.config.load_balancers.is_some() {
            stop.or(self.make_ingress_class(&informers)).await;
        }
        stop.stopped().await;
        for task in tasks {
            // A task that panicked has said so in the log.
            let _ = task.await;
        }
    }

    fn recorder(&self, component: &str) -> (Recorder, runtime::EventWriter) {
        Recorder::new(
            component,
            "",
            self.client.clone(),
            self.clock.clone(),
            self.rng.fork(),
        )
    }

    async fn make_classes(&self, informers: &Informers) {
        let classes = informers.of::<StorageClass>();
        classes.synced().wait().await;
        let make = || ensure_classes(&self.client, classes.store());
        until_made("the StorageClasses", make).await;
        until_made("the CSIDriver", || ensure_driver(&self.client)).await;
    }

    async fn make_ingress_class(&self, informers: &Informers) {
        classes_known(informers).await;
        let make = || ensure_ingress_class(&self.client, informers);
        until_made("the IngressClass", make).await;
    }

    async fn register_nodes(
        &self,
        recorder: &Recorder,
        informers: &Informers,
        clients: &Arc<NodeClients>,
        stop: &Stop,
    ) {
        let known = informers.store::<Node>();
        let mut wanted: Vec<(NodeConfig, bool)> = Vec::new();
        for node in &self.config.nodes {
            let is_missing = known.find("", &node.name).is_none();
            // A node that is there already needs a certificate as well.
            if is_missing || self.bootstrap.is_some() {
                wanted.push((node.clone(), is_missing));
            }
        }
        let registrations = wanted.into_iter().map(|(node, is_missing)| async move {
            if let Some(bootstrap) = &self.bootstrap {
                let kubelet = Kubelet {
                    node: node.clone(),
                    bootstrap: bootstrap.clone(),
                    clients: clients.clone(),
                    clock: self.clock.clone(),
                    rng: self.rng.fork(),
                    stop: stop.clone(),
                };
                keep(kubelet).await;
            }
            if is_missing {
                let client = clients.of(&node.name).unwrap_or(self.client.clone());
                let own = clients.recorder_of(&node.name);
                let recorder = own.unwrap_or_else(|| recorder.clone());
                let (clock, has_driver) = (self.clock.clone(), self.config.provisioner);
                register_until_done(client, recorder, clock, node, has_driver).await;
            }
            usize::from(is_missing)
        });
        let tell = |nodes, done| self.registered.send_replace(Registered { nodes, done });
        let mut nodes = known.len();
        let mut registrations =
            futures_util::stream::iter(registrations).buffered(REGISTERED_AT_ONCE);
        while let Some(Some(more)) = stop.or(registrations.next()).await {
            nodes += more;
            tell(nodes, false);
        }
        if !stop.is_stopped() {
            info!(nodes, resource = %Node::TYPE, "simulated nodes are up");
            tell(nodes, true);
        }
    }
}

/// Tries again until it is made, and says so each time that it cannot.
async fn until_made<F>(what: &str, make: impl Fn() -> F)
where
    F: Future<Output = Result<(), client::Error>>,
{
    let mut wait = FIRST_RETRY;
    while let Err(error) = make().await {
        warn!(error = %client::describe(&error), "cannot make {what}, will retry");
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_RETRY);
    }
}

/// A kubelet tries until it gets through.
async fn register_until_done(
    client: Client,
    recorder: Recorder,
    clock: Clock,
    node: NodeConfig,
    has_driver: bool,
) {
    let mut wait = FIRST_RETRY;
    while let Err(source) = register(&client, &recorder, &node, has_driver, clock.now()).await {
        let name = node.name.clone();
        let is_hopeless = source.is_invalid();
        let error = Error::Register { name, source };
        if is_hopeless {
            tracing::error!(error = %describe(&error), "the node is left out");
            return;
        }
        warn!(error = %describe(&error), "will retry");
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_RETRY);
    }
}

/// UPSTREAM: the kubelet's waits between attempts to register: 100 ms doubling to 7 s.
const FIRST_RETRY: std::time::Duration = std::time::Duration::from_millis(100);
const LONGEST_RETRY: std::time::Duration = std::time::Duration::from_secs(7);

/// The error and what caused it, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
