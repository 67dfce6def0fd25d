//! What the rest of the program knows of a controller: one value, beside the controller.
//!
//! `--controllers`, `--help`, identities, the metrics check, what the simulator runs and what the tests on real
//! servers start are all derived from [`crate::ALL`].

use std::ops::Deref;
use std::sync::Arc;

use api::{Clock, Gate, Gates, ResourceType, Rng};
use client::Client;
use futures_util::future::BoxFuture;
use runtime::events::Recorder;
use runtime::informer::MetadataStreams;
use runtime::metrics::Metrics;
use runtime::{Context, Decisions, Informers, Runnable, Stop};

use crate::Config;
use crate::oracle::{Actions, NewOracle, View, Workloads};

/// One controller of kube-controller-manager.
#[derive(Clone, Copy)]
pub struct Descriptor {
    /// The name in `--controllers`.
    pub name: &'static str,
    /// The name it had before names were unified; empty if it never had another.
    pub alias: &'static str,
    /// The service account in kube-system that it acts as with --use-service-account-credentials.
    pub service_account: &'static str,
    /// Features that must all be on for it to run.
    pub gates: &'static [&'static str],
    pub on_by_default: bool,
    /// Cloud providers run it in their own manager; here it is a name only.
    pub cloud: bool,
    /// Started before all others with the manager's own identity, whatever --controllers says, because the
    /// others' credentials may depend on it.
    pub first: bool,
    /// How many times the rate and the burst of --kube-api-qps and --kube-api-burst its client may have.
    pub rate: (f64, u32),
    /// The component that its events come from; empty if it emits none.
    pub component: &'static str,
    /// The kinds that it keeps in caches, whatever gates are on.
    pub caches: &'static [View],
    /// Those that it keeps only where a gate is on, since the API server may not know them otherwise.
    pub gated_caches: &'static [(Gate, View)],
    /// The kinds that its decisions are about; empty if they may be about any.
    pub decides_about: &'static [ResourceType],
    /// Its decisions are steps of a rollout, or change what rolls out: `preview` shows them on its timeline.
    pub in_preview: bool,
    /// It decides by metrics too, which a copy of objects does not have: nobody asks it for plans on one.
    pub reads_metrics: bool,
    /// Upstream's names of its queues.
    pub queues: &'static [&'static str],
    /// How the names of its own metrics begin.
    pub metrics: &'static [&'static str],
    /// How it is built; none while it is only a name.
    pub build: Option<Build>,
    /// What must hold of what it looks after. The simulator runs no controller without.
    pub oracle: Option<NewOracle>,
    /// What users do to what it looks after, beyond its workloads.
    pub actions: &'static [Actions],
    /// How users run things by what it looks after.
    pub workloads: &'static [Workloads],
}

/// None where the configuration turns the controller off.
pub type Build = fn(&BuildContext<'_>) -> Option<Runnable>;

impl Descriptor {
    /// A controller by its names alone: what follows is filled in beside the controller.
    pub const fn named(
        name: &'static str,
        alias: &'static str,
        service_account: &'static str,
    ) -> Descriptor {
        Descriptor {
            name,
            alias,
            service_account,
            gates: &[],
            on_by_default: true,
            cloud: false,
            first: false,
            rate: (1.0, 1),
            component: "",
            caches: &[],
            gated_caches: &[],
            decides_about: &[],
            in_preview: false,
            reads_metrics: false,
            queues: &[],
            metrics: &[],
            build: None,
            oracle: None,
            actions: &[],
            workloads: &[],
        }
    }

    pub(crate) const fn gated(mut self, gates: &'static [&'static str]) -> Descriptor {
        self.gates = gates;
        self
    }

    pub(crate) const fn off(mut self) -> Descriptor {
        self.on_by_default = false;
        self
    }

    /// A name that only a cloud provider's manager runs.
    pub(crate) const fn of_cloud(name: &'static str, alias: &'static str) -> Descriptor {
        let mut cloud = Descriptor::named(name, alias, "");
        cloud.cloud = true;
        cloud
    }

    pub(crate) const fn faster(mut self, rate: f64, burst: u32) -> Descriptor {
        self.rate = (rate, burst);
        self
    }

    /// The kinds that it keeps in caches where these gates are on.
    pub fn cached(&self, gates: Gates) -> impl Iterator<Item = &'static View> + use<> {
        let gated = self.gated_caches.iter();
        let gated = gated.filter(move |(gate, _)| gates.enabled(*gate));
        self.caches.iter().chain(gated.map(|(_, view)| view))
    }

    pub fn is_built(&self) -> bool {
        self.build.is_some()
    }

    /// Puts the controller together, with a client of its own; none where the configuration turns it off.
    pub fn build(
        &'static self,
        environment: &Environment,
        client: Client,
    ) -> Option<ControllerWithEvents> {
        let build = self.build?;
        let (recorder, writer) = Recorder::new(
            self.component,
            "",
            client.clone(),
            environment.clock.clone(),
            environment.rng.fork(),
        );
        let recorder = recorder.with_metrics(environment.metrics.events(self.component));
        let context = BuildContext {
            context: Context {
                controller: self.name,
                client,
                informers: environment.informers.clone(),
                recorder,
                clock: environment.clock.clone(),
                gates: environment.gates,
                decisions: environment.decisions.clone(),
                metrics: environment.metrics.clone(),
            },
            config: &environment.config,
            environment,
        };
        let controller = build(&context)?;
        let (stopper, stop) = Stop::new();
        Some(ControllerWithEvents {
            controller,
            events: Box::pin(writer.run(stop)),
            events_stopper: EventsStopper(stopper),
        })
    }
}

/// A controller and the writer of its events, which outlives it.
pub struct ControllerWithEvents {
    pub controller: Runnable,
    pub events: BoxFuture<'static, ()>,
    pub events_stopper: EventsStopper,
}

/// Ends a controller's event writer when dropped, after the controller itself has ended.
pub struct EventsStopper(pub runtime::stop::Stopper);

/// What the controllers of one process have in common.
pub struct Environment {
    pub informers: Arc<Informers>,
    /// For reading what nobody caches, with the manager's own identity.
    pub metadata: Client,
    /// Of kinds that nobody caches, for those who count or collect objects of any kind.
    pub streams: MetadataStreams,
    /// What the garbage collector keeps from term to term.
    pub collector: crate::garbage_collector::Memory,
    /// The PEM that every namespace gets; none where nobody knows it.
    pub root_ca: Option<String>,
    /// The PEM of --service-account-private-key-file, which was checked when it was read.
    pub service_account_key: Option<Vec<u8>>,
    /// The CA that signs requests where no flag names one.
    pub cluster_ca: Option<crate::csr_signing::CaSource>,
    pub config: Config,
    pub gates: Gates,
    pub clock: Clock,
    pub rng: Rng,
    pub metrics: Metrics,
    pub decisions: Decisions,
}

/// What one controller is built from: its own context, its settings, and what the process shares.
pub struct BuildContext<'a> {
    pub context: Context,
    pub config: &'a Config,
    pub environment: &'a Environment,
}

impl BuildContext<'_> {
    /// The number of workers that a flag asks for.
    pub fn workers(&self, flag: i32) -> usize {
        // UPSTREAM: some flags may be zero or less, and nothing of that kind runs then; --controllers says that better.
        usize::try_from(flag).unwrap_or(1).max(1)
    }
}

impl Deref for BuildContext<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}
