//! Managers: alone, or two that contend for the lease.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{Clock, MicroTime};
use client::{Client, Transport};
use controllers::Environment;
use controllers::csr_signing::CaSource;
use controllers::garbage_collector::Memory;
use controllers::oracle::Actor;
use manager::run::{Manager, select};
use manager::{Command, Options};
use runtime::informer::{MetadataStreams, StreamOptions};
use runtime::leader::{Fence, LeaderElector, LeaseConfig};
use runtime::metrics::Metrics;
use runtime::stop::Stopper;
use runtime::{Informers, Stop, Task, spawn};

use super::Cluster;

/// A manager that runs. Dropping it is `kill -9`: every task of it is gone at this very moment.
pub(crate) struct Running {
    _stopper: Stopper,
    _tasks: Vec<Task<()>>,
    pub(crate) informers: Arc<Informers>,
    pub(crate) metrics: Metrics,
    /// Who it is in the lease; none for one that leads without asking.
    pub(crate) identity: Option<String>,
}

impl Drop for Running {
    /// Listeners hold controllers, which hold the informers that hold the listeners.
    fn drop(&mut self) {
        self.informers.clear_listeners();
    }
}

/// Where managers contend, as upstream's do.
pub(crate) const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");

/// What every namespace is to trust.
pub(crate) const ROOT_CA: &str = CA_CERTIFICATE;

/// Signs tokens. An RSA key, because its signatures are the same each time.
const SERVICE_ACCOUNT_KEY: &[u8] =
    include_bytes!("../../../controllers/src/service_account_token/testdata/rsa_pkcs8.pem");

/// Signs certificates. Of RSA for the same reason.
const CA_CERTIFICATE: &str = include_str!("../../../controllers/src/certificates/testdata/ca.crt");
const CA_KEY: &str = include_str!("../../../controllers/src/certificates/testdata/ca.key");

/// Old tokens go after a day: runs of a year are for others. Nodes come without ranges of addresses, and get them.
const FLAGS: [&str; 2] = [
    "--legacy-service-account-token-clean-up-period=24h",
    "--allocate-node-cidrs",
];

/// Where pods get their addresses from: in clusters of one family, and of both.
const POD_NETWORKS: [&str; 2] = [
    "--cluster-cidr=10.64.0.0/16",
    "--cluster-cidr=10.64.0.0/16,fd00:64::/56",
];

/// Gates under which a controller that runs anyway does more.
const MORE_GATES: [&str; 1] = ["DRADeviceTaintRules"];

/// All controllers, also those that are off by default.
fn flags(is_dual_stack: bool) -> Vec<String> {
    let off = controllers::built().filter(|descriptor| !descriptor.on_by_default);
    let names: String = off
        .map(|descriptor| format!(",{}", descriptor.name))
        .collect();
    let gates = controllers::built().flat_map(|descriptor| descriptor.gates);
    let gates: BTreeSet<&str> = gates.copied().chain(MORE_GATES).collect();
    let gates: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
    let mut flags = vec![
        format!("--controllers=*{names}"),
        format!("--feature-gates={}", gates.join(",")),
    ];
    flags.extend(FLAGS.map(str::to_owned));
    flags.push(POD_NETWORKS[usize::from(is_dual_stack)].to_owned());
    flags
}

impl Cluster {
    /// The one manager, which leads without asking anyone.
    pub fn start_manager(&mut self) {
        self.start(0, None);
    }

    /// One of several, which leads only while it holds the lease. Its clock is `skew` ahead.
    pub(crate) fn start_contender(&mut self, number: usize, skew: Duration) {
        self.start(number, Some(skew));
    }

    /// As `kill -9`.
    pub fn crash_manager(&mut self) {
        self.crash_contender(0);
    }

    pub(crate) fn crash_contender(&mut self, number: usize) {
        if let Some(slot) = self.managers.get_mut(number) {
            *slot = None;
        }
    }

    pub(crate) fn managers(&self) -> impl Iterator<Item = &Running> {
        self.managers.iter().flatten()
    }

    fn start(&mut self, number: usize, contends: Option<Duration>) {
        self.started += 1;
        let clock = ahead(&self.clock, contends.unwrap_or_default());
        let (stopper, stop) = Stop::new();
        let mut tasks = Vec::new();
        let identity = contends.map(|_| format!("manager-{number}_{}", self.started));
        let leadership = identity.as_ref().map(|identity| {
            self.oracles.expect_candidate(number, identity);
            let transport = self.transport_of(number, "");
            let config = LeaseConfig::new(LEASE.0, LEASE.1, identity);
            let client = Client::new(transport);
            let elector = LeaderElector::new(client, config, clock.clone(), self.rng.fork(), None)
                .expect("the default lease settings are valid");
            let leadership = elector.leadership();
            tasks.push(spawn(elector.run(stop.clone())));
            leadership
        });
        let fenced = leadership.clone();
        let fence = move |transport: Transport| match &fenced {
            Some(leadership) => Fence::around(transport, leadership.clone()),
            None => transport,
        };
        let manager = self.manager(number, clock, fence);
        let informers = manager.environment.informers.clone();
        let metrics = manager.environment.metrics.clone();
        self.oracles.expect_manager(number, &informers);
        tasks.push(spawn(manager.run(leadership, stop)));
        if self.managers.len() <= number {
            self.managers.resize_with(number + 1, || None);
        }
        self.managers[number] = Some(Running {
            _stopper: stopper,
            _tasks: tasks,
            informers,
            metrics,
            identity,
        });
    }

    fn transport_of(&self, number: usize, controller: &'static str) -> Transport {
        let watched = self.watched(Actor::Manager(number, controller));
        self.injector.between(watched, number, controller)
    }

    fn manager(
        &self,
        number: usize,
        clock: Clock,
        fence: impl Fn(Transport) -> Transport,
    ) -> Manager {
        let options = options(self.is_dual_stack);
        let stream = StreamOptions {
            rng: self.rng.fork(),
            resync: None,
        };
        let own = Client::new(self.transport_of(number, ""));
        let informers = Informers::new(own.clone(), stream.clone());
        let streams = MetadataStreams::new(own.clone(), stream);
        let selected = select(&options.config.generic.controllers, &options.gates);
        let clients: Vec<(&'static str, Client)> = selected
            .iter()
            .map(|descriptor| {
                let transport = self.transport_of(number, descriptor.name);
                (descriptor.name, Client::new(fence(transport)))
            })
            .collect();
        Manager {
            start_interval: options.config.generic.controller_start_interval.to_std(),
            environment: Environment {
                informers: Arc::new(informers),
                metadata: own.clone(),
                collector: Memory::new(streams.clone()),
                streams,
                root_ca: Some(ROOT_CA.to_owned()),
                service_account_key: Some(SERVICE_ACCOUNT_KEY.to_vec()),
                cluster_ca: Some(CaSource::Fixed {
                    certificate: CA_CERTIFICATE.into(),
                    key: CA_KEY.into(),
                }),
                config: options.config.controllers.clone(),
                gates: options.gates.for_controllers(),
                clock,
                rng: self.rng.fork(),
                metrics: Metrics::new(),
                decisions: self.decisions.clone(),
            },
            selected,
            clients: Arc::new(move |descriptor| {
                let found = clients.iter().find(|(name, _)| *name == descriptor.name);
                let client = found.map_or_else(|| own.clone(), |(_, client)| client.clone());
                Box::pin(std::future::ready(Ok(client)))
            }),
            patience: Duration::from_secs(1),
        }
    }
}

/// The flags that every manager of such clusters runs with. Reading all of them takes longer than starting one.
pub(crate) fn options(is_dual_stack: bool) -> &'static Options {
    static OPTIONS: [OnceLock<Options>; 2] = [OnceLock::new(), OnceLock::new()];
    OPTIONS[usize::from(is_dual_stack)].get_or_init(|| {
        match Options::parse(flags(is_dual_stack), "simulator") {
            Ok(Command::Run(options)) => *options,
            _ => unreachable!("these flags are valid"),
        }
    })
}

fn ahead(clock: &Clock, by: Duration) -> Clock {
    if by.is_zero() {
        return clock.clone();
    }
    let (clock, by) = (clock.clone(), i64::try_from(by.as_micros()).unwrap_or(0));
    Clock::new(move || MicroTime::from_unix_micros(clock.now().unix_micros() + by))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oracle of one that does not run can find nothing.
    #[test]
    fn every_controller_runs() {
        let options = options(false);
        let running = select(&options.config.generic.controllers, &options.gates);
        let running: BTreeSet<&str> = running.iter().map(|it| it.name).collect();
        let built: BTreeSet<&str> = controllers::built().map(|it| it.name).collect();
        assert_eq!(running, built);
    }
}
