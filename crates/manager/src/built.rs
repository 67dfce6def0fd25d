//! The controllers that this build has, and how each is put together.

use std::sync::Arc;

use api::kinds::{
    ClusterRole, ConfigMap, ControllerRevision, DaemonSet, Deployment, Job, Lease, Namespace, Node,
    PersistentVolumeClaim, Pod, ReplicaSet, ReplicationController, Secret, ServiceAccount,
    StatefulSet,
};
use api::{Clock, Gate, Gates, Key, Rng};
use client::Client;
use controllers::garbage_collector::{self, SharedKind};

pub use controllers::garbage_collector::{GraphHandle, Memory};
use controllers::service_account_token::Signer;
use controllers::{
    Tools, cluster_role_aggregation, daemonset, deployment, job, legacy_token_cleaner, namespace,
    node_lifecycle, pod_gc, replicaset, root_ca_publisher, service_account, service_account_token,
    statefulset, taint_eviction, ttl, ttl_after_finished,
};
use futures_util::future::{BoxFuture, join_all};
use runtime::controller::Controller;
use runtime::decisions::{Decision, Decisions};
use runtime::events::Recorder;
use runtime::metrics::Metrics;
use runtime::{Informers, Stop};

use crate::config::Config;

/// What controllers are built from.
pub struct Parts {
    pub informers: Arc<Informers>,
    /// For reading what nobody caches.
    pub metadata: Client,
    /// What the garbage collector keeps from term to term.
    pub collector: Memory,
    /// The PEM that every namespace gets; none where nobody knows it.
    pub root_ca: Option<String>,
    /// The PEM of --service-account-private-key-file, which was checked when it was read.
    pub service_account_key: Option<Vec<u8>>,
    pub config: Config,
    pub gates: Gates,
    pub clock: Clock,
    pub rng: Rng,
    pub metrics: Metrics,
    pub decisions: Decisions,
}

/// A controller that this build has.
pub struct Built {
    pub name: &'static str,
    /// The kind of the objects that its decisions are about; none for the garbage collector, who decides about
    /// all kinds and begins its lines with the kind.
    pub decides_about: Option<&'static str>,
    /// The component that its events come from; empty if it emits none.
    pub component: &'static str,
    /// None where its flags turn it off.
    build: fn(&Parts, Tools) -> Option<Ready>,
}

/// A controller that is ready to run.
pub struct Ready {
    pub name: &'static str,
    pub(crate) run: Box<dyn FnOnce(Stop) -> BoxFuture<'static, ()> + Send>,
}

/// In upstream's order of registration.
pub const BUILT: &[Built] = &[
    Built {
        name: "serviceaccount-token-controller",
        decides_about: Some("Secret"),
        component: "",
        build: |parts, tools| {
            let signer = Signer::from_pem(parts.service_account_key.as_deref()?).ok()?;
            let controller = service_account_token::controller(
                &parts.informers,
                tools,
                signer,
                parts.root_ca.as_deref().map(str::as_bytes),
                workers(parts.config.sa_controller.concurrent_token_syncs),
            );
            Some(Ready::of(controller, parts, "serviceaccount_tokens_secret"))
        },
    },
    Built {
        name: "replicationcontroller-controller",
        decides_about: Some("ReplicationController"),
        component: "replication-controller",
        build: |parts, tools| {
            let workers = workers(parts.config.replication_controller.concurrent_syncs);
            let controller =
                replicaset::controller::<ReplicationController>(&parts.informers, tools, workers);
            Some(Ready::of(controller, parts, "replicationmanager"))
        },
    },
    Built {
        name: "pod-garbage-collector-controller",
        decides_about: Some("Pod"),
        component: "",
        build: |parts, tools| {
            let threshold = parts.config.pod_gc_controller.terminated_pod_threshold;
            let controller = pod_gc::controller(&parts.informers, tools, threshold);
            Some(Ready::of(controller, parts, "orphaned_pods_nodes"))
        },
    },
    Built {
        name: "namespace-controller",
        decides_about: Some("Namespace"),
        component: "",
        build: |parts, tools| {
            let workers = workers(parts.config.namespace_controller.concurrent_syncs);
            let controller = namespace::controller(&parts.informers, tools, workers);
            Some(Ready::of(controller, parts, "namespace"))
        },
    },
    Built {
        name: "serviceaccount-controller",
        decides_about: Some("Namespace"),
        component: "",
        build: |parts, tools| {
            let controller = service_account::controller(&parts.informers, tools, &["default"], 1);
            Some(Ready::of(controller, parts, "serviceaccount"))
        },
    },
    Built {
        name: "garbage-collector-controller",
        decides_about: None,
        component: "garbage-collector-controller",
        build: |parts, tools| {
            let config = &parts.config.garbage_collector_controller;
            if !config.enable_garbage_collector {
                return None;
            }
            let collector = garbage_collector::controller(
                tools,
                &parts.collector,
                cached_kinds(&parts.informers),
                workers(config.concurrent_syncs),
            );
            Some(Ready {
                name: "garbage-collector-controller",
                run: Box::new(move |stop| Box::pin(collector.run(stop))),
            })
        },
    },
    Built {
        name: "daemonset-controller",
        decides_about: Some("DaemonSet"),
        component: "daemonset-controller",
        build: |parts, tools| {
            let workers = workers(parts.config.daemon_set_controller.concurrent_syncs);
            let controller = daemonset::controller(&parts.informers, tools, workers);
            Some(Ready::of(controller, parts, "daemonset"))
        },
    },
    Built {
        name: job::NAME,
        decides_about: Some("Job"),
        component: "job-controller",
        build: |parts, tools| {
            let workers = workers(parts.config.job_controller.concurrent_syncs);
            let job::Controllers { jobs, orphans } =
                job::controller(&parts.informers, tools, workers);
            let jobs = jobs
                .measured(&parts.metrics, "job")
                .explained(&parts.decisions);
            orphans.queue.measure(&parts.metrics, "job_orphan_pod");
            Some(Ready::together(job::NAME, vec![jobs, orphans]))
        },
    },
    Built {
        name: "deployment-controller",
        decides_about: Some("Deployment"),
        component: "deployment-controller",
        build: |parts, tools| {
            let workers = workers(parts.config.deployment_controller.concurrent_syncs);
            let controller = deployment::controller(&parts.informers, tools, workers);
            Some(Ready::of(controller, parts, "deployment"))
        },
    },
    Built {
        name: "replicaset-controller",
        decides_about: Some("ReplicaSet"),
        component: "replicaset-controller",
        build: |parts, tools| {
            let workers = workers(parts.config.replica_set_controller.concurrent_syncs);
            let controller = replicaset::controller::<ReplicaSet>(&parts.informers, tools, workers);
            Some(Ready::of(controller, parts, "replicaset"))
        },
    },
    Built {
        name: "statefulset-controller",
        decides_about: Some("StatefulSet"),
        component: "statefulset-controller",
        build: |parts, tools| {
            let config = &parts.config.stateful_set_controller;
            let workers = workers(config.concurrent_syncs);
            let options = statefulset::Options {
                recover_stuck_rollouts: config.recover_stuck_rollouts,
            };
            let controller = statefulset::controller(&parts.informers, tools, workers, &options);
            Some(Ready::of(controller, parts, "statefulset"))
        },
    },
    Built {
        name: "ttl-controller",
        decides_about: Some("Node"),
        component: "",
        build: |parts, tools| {
            // UPSTREAM: five workers, without a flag.
            let controller = ttl::controller(&parts.informers, tools, 5);
            Some(Ready::of(controller, parts, "ttlcontroller"))
        },
    },
    Built {
        name: "node-lifecycle-controller",
        decides_about: Some("Node"),
        component: "node-controller",
        build: |parts, tools| {
            let settings = node_lifecycle_settings(&parts.config);
            // UPSTREAM: where the gate is off, which only older versions allow, evicting is part of this one.
            let is_separate = parts.gates.enabled(Gate::SeparateTaintEvictionController);
            let evicting = (!is_separate).then(|| taint_eviction_loop(parts, tools.clone()));
            let loops = node_lifecycle::controller(&parts.informers, tools, settings);
            let measured = |controller: Controller, queue| {
                let controller = controller.measured(&parts.metrics, queue);
                controller.explained(&parts.decisions)
            };
            let all = [
                measured(loops.nodes, "node_lifecycle_controller"),
                measured(loops.pods, "node_lifecycle_controller_pods"),
                loops.monitor,
                loops.tainter,
            ];
            Some(Ready::together(
                node_lifecycle::NAME,
                all.into_iter().chain(evicting).collect(),
            ))
        },
    },
    Built {
        name: "clusterrole-aggregation-controller",
        decides_about: Some("ClusterRole"),
        component: "",
        build: |parts, tools| {
            // UPSTREAM: five workers, without a flag.
            let controller = cluster_role_aggregation::controller(&parts.informers, tools, 5);
            Some(Ready::of(controller, parts, "ClusterRoleAggregator"))
        },
    },
    Built {
        name: "ttl-after-finished-controller",
        decides_about: Some("Job"),
        component: "",
        build: |parts, tools| {
            let workers = workers(parts.config.ttl_after_finished_controller.concurrent_syncs);
            let controller = ttl_after_finished::controller(&parts.informers, tools, workers);
            Some(Ready::of(controller, parts, "ttl_jobs_to_delete"))
        },
    },
    Built {
        name: "legacy-serviceaccount-token-cleaner-controller",
        decides_about: Some("Secret"),
        component: "",
        build: |parts, tools| {
            let period = parts
                .config
                .legacy_sa_token_cleaner
                .clean_up_period
                .to_std();
            let reading = parts.metadata.clone();
            let controller =
                legacy_token_cleaner::controller(&parts.informers, tools, reading, period);
            Some(Ready::of(
                controller,
                parts,
                "legacy_service_account_token_cleaner",
            ))
        },
    },
    Built {
        name: "root-ca-certificate-publisher-controller",
        decides_about: Some("Namespace"),
        component: "",
        build: |parts, tools| {
            let root_ca = parts.root_ca.as_deref()?;
            let controller = root_ca_publisher::controller(&parts.informers, tools, root_ca, 1);
            Some(Ready::of(controller, parts, "root_ca_cert_publisher"))
        },
    },
    Built {
        name: "taint-eviction-controller",
        decides_about: Some("Pod"),
        component: "taint-eviction-controller",
        build: |parts, tools| {
            let controller = taint_eviction_loop(parts, tools);
            Some(Ready::together(taint_eviction::NAME, vec![controller]))
        },
    },
];

fn node_lifecycle_settings(config: &Config) -> node_lifecycle::Settings {
    let lifecycle = &config.node_lifecycle_controller;
    node_lifecycle::Settings {
        period: config.kube_cloud_shared.node_monitor_period.to_std(),
        patience: node_lifecycle::Patience {
            monitor: lifecycle.monitor_grace_period.to_std(),
            startup: lifecycle.startup_grace_period.to_std(),
        },
        rates: node_lifecycle::Rates {
            usual: lifecycle.eviction_rate,
            secondary: lifecycle.secondary_eviction_rate,
            large_zone: lifecycle.large_cluster_size_threshold,
            unhealthy_share: lifecycle.unhealthy_zone_threshold,
        },
    }
}

fn taint_eviction_loop(parts: &Parts, tools: Tools) -> Controller {
    taint_eviction::controller(&parts.informers, tools)
        .measured(&parts.metrics, "noexec_taint_pod")
        .explained(&parts.decisions)
}

/// Kinds that some controller caches: the garbage collector listens there.
fn cached_kinds(informers: &Arc<Informers>) -> Vec<SharedKind> {
    vec![
        SharedKind::of::<Pod>(informers),
        SharedKind::of::<ReplicaSet>(informers),
        SharedKind::of::<ReplicationController>(informers),
        SharedKind::of::<Deployment>(informers),
        SharedKind::of::<StatefulSet>(informers),
        SharedKind::of::<DaemonSet>(informers),
        SharedKind::of::<Job>(informers),
        SharedKind::of::<ControllerRevision>(informers),
        SharedKind::of::<PersistentVolumeClaim>(informers),
        SharedKind::of::<Node>(informers),
        SharedKind::of::<Lease>(informers),
        SharedKind::of::<Namespace>(informers),
        SharedKind::of::<ServiceAccount>(informers),
        SharedKind::of::<Secret>(informers),
        SharedKind::of::<ConfigMap>(informers),
        SharedKind::of::<ClusterRole>(informers),
    ]
}

/// Does this build have the controller?
pub fn has(name: &str) -> bool {
    find(name).is_some()
}

pub fn find(name: &str) -> Option<&'static Built> {
    BUILT.iter().find(|built| built.name == name)
}

/// What is recorded about an object, by controller. Decisions are kept by name alone, and a Service is often called
/// like its Deployment: who decides about other kinds speaks of a namesake.
pub fn decisions_about(
    decisions: &Decisions,
    kind: &str,
    key: &Key,
) -> Vec<(&'static str, Vec<Decision>)> {
    let mut found = decisions.about(key);
    found.retain(|(controller, _)| {
        let about = find(controller).and_then(|built| built.decides_about);
        about.is_none_or(|about| about == kind)
    });
    found
}

impl Built {
    /// Puts the controller together, with a client of its own.
    pub fn build(
        &self,
        parts: &Parts,
        client: Client,
    ) -> Option<(Ready, BoxFuture<'static, ()>, Stops)> {
        let (recorder, writer) = Recorder::new(
            self.component,
            "",
            client.clone(),
            parts.clock.clone(),
            parts.rng.fork(),
        );
        let recorder = recorder.with_metrics(parts.metrics.events(self.component));
        let tools = Tools {
            client,
            recorder,
            clock: parts.clock.clone(),
            gates: parts.gates,
            decisions: parts.decisions.clone(),
            metrics: parts.metrics.clone(),
        };
        let ready = (self.build)(parts, tools)?;
        let (stopper, stop) = Stop::new();
        let writing = Box::pin(writer.run(stop));
        Some((ready, writing, Stops(stopper)))
    }
}

/// Ends a controller's event writer when dropped, after the controller itself has ended.
pub struct Stops(
    #[expect(dead_code, reason = "it acts by being dropped")] pub(crate) runtime::stop::Stopper,
);

impl Ready {
    /// A controller with the common loop; `queue` is upstream's name for its queue.
    fn of(controller: Controller, parts: &Parts, queue: &str) -> Ready {
        let controller = controller
            .measured(&parts.metrics, queue)
            .explained(&parts.decisions);
        Ready {
            name: controller.name,
            run: Box::new(move |stop| Box::pin(controller.run(stop))),
        }
    }

    /// A controller of several loops, which end together.
    fn together(name: &'static str, loops: Vec<Controller>) -> Ready {
        Ready {
            name,
            run: Box::new(move |stop| {
                let all = loops.into_iter().map(move |part| part.run(stop.clone()));
                Box::pin(async { drop(join_all(all).await) })
            }),
        }
    }

    pub fn run(self, stop: Stop) -> BoxFuture<'static, ()> {
        (self.run)(stop)
    }
}

fn workers(flag: i32) -> usize {
    // UPSTREAM: some flags may be zero or less, and nothing of that kind runs then; --controllers says that better.
    usize::try_from(flag).unwrap_or(1).max(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use api::Time;
    use runtime::informer::StreamOptions;

    use super::*;
    use crate::descriptors;
    use crate::options::{Command, Options};

    /// A server that never answers.
    fn silence() -> Client {
        let wait =
            |_| std::future::pending::<Result<http::Response<client::Body>, client::BoxError>>();
        Client::new(client::Transport::new(tower::service_fn(wait)))
    }

    /// Puts every controller together, as far as its flags allow. None of them runs.
    pub(crate) fn build_all(metrics: &Metrics) -> Vec<&'static str> {
        let Ok(Command::Run(options)) = Options::parse([] as [&str; 0], "x", has) else {
            unreachable!("no flags are fine");
        };
        let stream = StreamOptions {
            rng: Rng::from_seed(1),
            resync: None,
        };
        let key = rcgen::KeyPair::generate().map(|key| key.serialize_pem().into_bytes());
        let parts = Parts {
            informers: Arc::new(Informers::new(silence(), stream.clone())),
            metadata: silence(),
            collector: Memory::new(silence(), stream),
            root_ca: Some("the root".into()),
            service_account_key: key.ok(),
            config: options.config.clone(),
            gates: options.gates.for_controllers(),
            clock: Clock::new(|| Time::from_unix(0).micro()),
            rng: Rng::from_seed(1),
            metrics: metrics.clone(),
            decisions: Decisions::new(),
        };
        let built = BUILT
            .iter()
            .filter_map(|built| built.build(&parts, silence()));
        built.map(|(ready, ..)| ready.name).collect()
    }

    #[test]
    fn every_built_controller_has_a_descriptor_and_is_called_by_its_name() {
        for built in BUILT {
            let descriptor = descriptors::find(built.name);
            assert_eq!(descriptor.map(|found| found.name), Some(built.name));
        }
        let names: Vec<&str> = BUILT.iter().map(|built| built.name).collect();
        assert_eq!(
            names[0], "serviceaccount-token-controller",
            "upstream's first"
        );
        assert_eq!(build_all(&Metrics::new()), names);
    }
}
