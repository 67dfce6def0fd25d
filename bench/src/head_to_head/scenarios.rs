//! What the managers are put through.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use real_tests::installation::Installation;
use real_tests::kubelet::AutomaticKubelet;
use real_tests::{Cluster, Flavor, Manager, ManagerOptions};
use serde_json::{Value, json};

use super::stage::{
    Phase, Stage, deployment, in_parallel, make_ready, same_controllers, template, until,
};
use super::{
    Options, at_rest, attachments, autoscalers, budgets, certificates, claims, cronjobs,
    housekeeping, quotas, services,
};

/// Sizes at 100 percent. Large enough that start-up does not count, small enough that a scenario with
/// three rounds of both managers stays below three minutes on two cores.
const DEPLOYMENT_PODS: usize = 5000;
const ROLLING_PODS: usize = 5000;
const FOREIGN_PODS: usize = 30_000;
const PARALLEL_PODS: usize = 500;
const ORDERED_PODS: usize = 50;
const DAEMON_NODES: usize = 500;
const DEFAULT_FLAGS_PODS: usize = 300;
/// Go's garbage collector runs late: memory is read after this much quiet.
pub(crate) const SETTLE: Duration = Duration::from_secs(10);
/// In scenarios that have to start many managers, less of it.
pub(super) const SHORT_SETTLE: Duration = Duration::from_secs(5);
/// How long an idle manager is watched.
const IDLE: Duration = Duration::from_secs(12);

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: Rounds,
}

/// How the rounds of a scenario are played.
pub(crate) enum Rounds {
    /// One after the other: both managers, the other one first if the flag says so.
    Each(fn(&Installation, &Options, bool) -> Result<Vec<Phase>>),
    /// All on one cluster, because filling it is what takes time.
    Together(fn(&Installation, &Options) -> Result<Vec<Phase>>),
}

pub(crate) const SCENARIOS: [Scenario; 20] = [
    Scenario {
        name: "idle",
        about: "all built controllers with nothing to do",
        run: Rounds::Each(idle),
    },
    Scenario {
        name: "deployment",
        about: "a large Deployment: created, ready, deleted",
        run: Rounds::Each(large_deployment),
    },
    Scenario {
        name: "rolling",
        about: "a rolling update with kubelets that answer at once",
        run: Rounds::Together(rolling),
    },
    Scenario {
        name: "cached",
        about: "foreign pods of 5 KB in the caches",
        run: Rounds::Together(cached),
    },
    Scenario {
        name: "statefulset",
        about: "a parallel and an ordered StatefulSet",
        run: Rounds::Each(statefulsets),
    },
    Scenario {
        name: "daemonset",
        about: "a DaemonSet on many nodes",
        run: Rounds::Each(daemonset),
    },
    Scenario {
        name: "default-flags",
        about: "a Deployment with no rate limits given",
        run: Rounds::Each(default_flags),
    },
    Scenario {
        name: "limited",
        about: "a Deployment deleted at 200 requests a second",
        run: Rounds::Each(housekeeping::deleted_at_a_limit),
    },
    Scenario {
        name: "namespace",
        about: "a namespace with objects of twenty kinds deleted",
        run: Rounds::Each(housekeeping::namespace),
    },
    Scenario {
        name: "failover",
        about: "the leader stops, or crashes, and the standby takes over",
        run: Rounds::Each(failover),
    },
    Scenario {
        name: "services",
        about: "pods behind services: ready, unready, rolled over, and endpoints in the caches",
        run: Rounds::Each(services::services),
    },
    Scenario {
        name: "cronjobs",
        about: "CronJobs that fire in the same minute",
        run: Rounds::Each(cronjobs::cronjobs),
    },
    Scenario {
        name: "budgets",
        about: "disruption budgets over pods that become ready",
        run: Rounds::Each(budgets::budgets),
    },
    Scenario {
        name: "quotas",
        about: "quotas of many namespaces while pods are created and deleted",
        run: Rounds::Each(quotas::quotas),
    },
    Scenario {
        name: "autoscalers",
        about: "two periods of many autoscalers that have nothing to change",
        run: Rounds::Each(autoscalers::autoscalers),
    },
    Scenario {
        name: "claims",
        about: "claims that are bound to volumes of mixed sizes, and what the caches hold of them",
        run: Rounds::Each(claims::claims),
    },
    Scenario {
        name: "matching",
        about: "claims among few volumes and among ten times as many",
        run: Rounds::Each(claims::matching),
    },
    Scenario {
        name: "attachments",
        about: "pods whose volumes are attached and detached",
        run: Rounds::Each(attachments::attachments),
    },
    Scenario {
        name: "certificates",
        about: "certificate requests of kubelets, approved and signed",
        run: Rounds::Each(certificates::certificates),
    },
    Scenario {
        name: "at-rest",
        about: "a large cluster in which nothing happens but heartbeats",
        run: Rounds::Together(at_rest::at_rest),
    },
];

/// Runs a scenario for each manager, each on servers of its own.
pub(super) fn both(
    installation: &Installation,
    options: &Options,
    reverse: bool,
    mut play: impl FnMut(&mut Stage, Flavor) -> Result<Vec<Phase>>,
) -> Result<Vec<Phase>> {
    let mut phases = Vec::new();
    for flavor in turns(options, reverse) {
        let mut stage = Stage::new(installation)?;
        phases.extend(
            play(&mut stage, flavor)
                .with_context(|| format!("with the {} manager", flavor.name()))?,
        );
    }
    // Comparing Go with itself: the second one takes the part of the other.
    if options.against == Flavor::Go {
        let half = phases.len() / 2;
        phases[half..]
            .iter_mut()
            .for_each(|phase| phase.flavor = Flavor::Ours);
    }
    Ok(phases)
}

fn turns(options: &Options, reverse: bool) -> [Flavor; 2] {
    if reverse {
        [options.against, Flavor::Go]
    } else {
        [Flavor::Go, options.against]
    }
}

/// One phase of each manager, on a cluster that they share.
pub(super) fn in_turns(
    options: &Options,
    reverse: bool,
    mut play: impl FnMut(Flavor) -> Result<Phase>,
) -> Result<Vec<Phase>> {
    let mut phases = Vec::new();
    for (index, flavor) in turns(options, reverse).into_iter().enumerate() {
        let mut phase =
            play(flavor).with_context(|| format!("with the {} manager", flavor.name()))?;
        if options.against == Flavor::Go && index == 1 {
            phase.flavor = Flavor::Ours;
        }
        phases.push(phase);
    }
    Ok(phases)
}

pub(super) fn size(options: &Options, items: usize) -> usize {
    (items * options.percent / 100).max(1)
}

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(crate) fn wait_status(cluster: &Cluster, path: &str, fields: &[(&str, usize)]) -> Result<()> {
    until(path, || {
        let object = cluster.api.get(path)?;
        Ok(fields
            .iter()
            .all(|(field, value)| object["status"][*field].as_u64().unwrap_or(0) == *value as u64))
    })
}

pub(super) fn delete_and_wait(cluster: &Cluster, path: &str, app: &str) -> Result<()> {
    cluster
        .api
        .delete(path, &json!({"propagationPolicy": "Background"}))?;
    until("the last pod to go", || {
        let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}&limit=1");
        Ok(cluster.api.list(&pods)?.is_empty())
    })
}

fn idle(installation: &Installation, options: &Options, reverse: bool) -> Result<Vec<Phase>> {
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        std::thread::sleep(SETTLE);
        let phase = stage.measure("idle", 1, &mut manager, |_| {
            std::thread::sleep(IDLE);
            Ok(())
        })?;
        Ok(vec![phase])
    })
}

fn large_deployment(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let pods = size(options, DEPLOYMENT_PODS);
    let path = format!("{DEPLOYMENTS}/web");
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let up = stage.measure("up", pods, &mut manager, |cluster| {
            cluster
                .api
                .create(DEPLOYMENTS, &deployment("web", pods, "1"))?;
            wait_status(cluster, &path, &[("replicas", pods)])
        })?;
        let ready = stage.measure("ready", pods, &mut manager, |cluster| {
            make_ready(cluster, "web")?;
            wait_status(cluster, &path, &[("readyReplicas", pods)])
        })?;
        let deleted = stage.measure("deleted", pods, &mut manager, |cluster| {
            delete_and_wait(cluster, &path, "web")
        })?;
        Ok(vec![up, ready, deleted])
    })
}

/// One Deployment that the two roll over in turns: making it ready takes as long as a rollout.
fn rolling(installation: &Installation, options: &Options) -> Result<Vec<Phase>> {
    let pods = size(options, ROLLING_PODS);
    let path = format!("{DEPLOYMENTS}/web");
    let mut stage = Stage::new(installation)?;
    let _kubelet = AutomaticKubelet::start(&stage.cluster.api, "default", 4);
    let first = stage.start_manager(options.against, &same_controllers())?;
    let api = stage.cluster.api.clone();
    api.create(DEPLOYMENTS, &deployment("web", pods, "1"))?;
    wait_status(&stage.cluster, &path, &[("readyReplicas", pods)])?;
    first.kill();
    let (mut version, mut phases) = (1, Vec::new());
    for round in 1..=options.rounds {
        eprintln!("rolling round {round} of {}", options.rounds);
        phases.extend(in_turns(options, round % 2 == 0, |flavor| {
            version += 1;
            let mut manager = stage.start_manager(flavor, &same_controllers())?;
            let rolled = stage.measure("rolled", pods, &mut manager, |cluster| {
                let template = template("web", &version.to_string());
                cluster
                    .api
                    .merge_patch(&path, &json!({"spec": {"template": template}}))?;
                let fields = [
                    ("updatedReplicas", pods),
                    ("replicas", pods),
                    ("availableReplicas", pods),
                    ("observedGeneration", version),
                ];
                wait_status(cluster, &path, &fields)
            })?;
            manager.kill();
            Ok(rolled)
        })?);
    }
    Ok(phases)
}

/// Both managers without the pods, and then in every round with them.
fn cached(installation: &Installation, options: &Options) -> Result<Vec<Phase>> {
    let pods = size(options, FOREIGN_PODS);
    let mut stage = Stage::new(installation)?;
    let api = stage.cluster.api.clone();
    api.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "foreign"}}),
    )?;
    let accounts = "/api/v1/namespaces/foreign/serviceaccounts";
    api.create(accounts, &json!({"metadata": {"name": "default"}}))?;
    let mut phases = measure_caches(&mut stage, options, false, ("empty", pods))?;
    create_foreign_pods(&stage.cluster, pods)?;
    for round in 1..=options.rounds {
        eprintln!("cached round {round} of {}", options.rounds);
        let reverse = round % 2 == 0;
        phases.extend(measure_caches(
            &mut stage,
            options,
            reverse,
            ("filled", pods),
        )?);
    }
    Ok(phases)
}

/// Starts each manager in turn and measures it once its caches are full.
fn measure_caches(
    stage: &mut Stage,
    options: &Options,
    reverse: bool,
    phase: (&'static str, usize),
) -> Result<Vec<Phase>> {
    in_turns(options, reverse, |flavor| {
        until_caches_are_full(stage, flavor, &same_controllers(), phase)
    })
}

/// Starts a manager, measures it once its caches are full, and ends it.
pub(super) fn until_caches_are_full(
    stage: &mut Stage,
    flavor: Flavor,
    manager: &ManagerOptions,
    (name, items): (&'static str, usize),
) -> Result<Phase> {
    let started = Instant::now();
    let mut manager = stage.start_manager(flavor, manager)?;
    let sync = manager.usage()?;
    let until_work = started.elapsed().as_secs_f64();
    let mut phase = stage.measure(name, items, &mut manager, |_| {
        std::thread::sleep(SHORT_SETTLE);
        Ok(())
    })?;
    // What counts is the cost of the first list, which came before the probe's pod.
    phase.cpu_seconds += sync.cpu_seconds;
    phase.wall_seconds = until_work;
    manager.kill();
    Ok(phase)
}

fn create_foreign_pods(cluster: &Cluster, count: usize) -> Result<()> {
    let pod = |number: usize| -> Value {
        let environment: Vec<Value> =
            (0..30).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("a value of some length {n}")})).collect();
        json!({
            "metadata": {"name": format!("foreign-{number}"), "labels": {"app": "foreign", "shard": format!("{}", number % 50)}},
            "spec": {"nodeName": format!("node-{}", number % 500), "containers": [
                {"name": "main", "image": "example.invalid/foreign:1", "env": environment},
                {"name": "side", "image": "example.invalid/side:1", "args": ["--verbose", "--port=9000"]},
            ]},
        })
    };
    in_parallel(count, |number| {
        let pods = "/api/v1/namespaces/foreign/pods";
        cluster.api.create(pods, &pod(number)).map(drop)
    })
}

fn statefulsets(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    const PATH: &str = "/apis/apps/v1/namespaces/default/statefulsets";
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let mut phases = Vec::new();
        let kinds = [
            ("parallel", "Parallel", PARALLEL_PODS),
            ("ordered", "OrderedReady", ORDERED_PODS),
        ];
        for (name, policy, items) in kinds {
            let pods = size(options, items);
            let _kubelet = AutomaticKubelet::start(&stage.cluster.api, "default", 4);
            phases.push(stage.measure(name, pods, &mut manager, |cluster| {
                let set = json!({
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
                    "spec": {
                        "replicas": pods, "podManagementPolicy": policy, "serviceName": name,
                        "selector": {"matchLabels": {"app": name}}, "template": template(name, "1"),
                    },
                });
                cluster.api.create(PATH, &set)?;
                wait_status(
                    cluster,
                    &format!("{PATH}/{name}"),
                    &[("readyReplicas", pods)],
                )
            })?);
        }
        Ok(phases)
    })
}

fn daemonset(installation: &Installation, options: &Options, reverse: bool) -> Result<Vec<Phase>> {
    const PATH: &str = "/apis/apps/v1/namespaces/default/daemonsets";
    let nodes = size(options, DAEMON_NODES);
    both(installation, options, reverse, |stage, flavor| {
        // Nodes come first and node-lifecycle stays off: what is measured is one controller.
        for number in 0..nodes {
            let name = format!("node-{number}");
            stage
                .cluster
                .api
                .create("/api/v1/nodes", &json!({"metadata": {"name": name}}))?;
            let untainted = json!({"spec": {"taints": null}});
            stage
                .cluster
                .api
                .merge_patch(&format!("/api/v1/nodes/{name}"), &untainted)?;
        }
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let up = stage.measure("up", nodes, &mut manager, |cluster| {
            let set = json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
                "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "1")},
            });
            cluster.api.create(PATH, &set)?;
            wait_status(cluster, &format!("{PATH}/agent"), &[("currentNumberScheduled", nodes)])
        })?;
        Ok(vec![up])
    })
}

fn default_flags(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let pods = size(options, DEFAULT_FLAGS_PODS);
    both(installation, options, reverse, |stage, flavor| {
        let flags = ManagerOptions {
            requests_per_second: None,
            ..same_controllers()
        };
        let mut manager = stage.start_manager(flavor, &flags)?;
        let mut up = stage.measure("up", pods, &mut manager, |cluster| {
            cluster
                .api
                .create(DEPLOYMENTS, &deployment("web", pods, "1"))?;
            wait_status(
                cluster,
                &format!("{DEPLOYMENTS}/web"),
                &[("replicas", pods)],
            )
        })?;
        stage.count_on(&mut up, SHORT_SETTLE)?;
        Ok(vec![up])
    })
}

/// Both at the same time: what is measured is how long they wait.
fn failover(installation: &Installation, options: &Options, reverse: bool) -> Result<Vec<Phase>> {
    let played = std::thread::scope(|scope| {
        let flavors = turns(options, reverse);
        let threads = flavors.map(|flavor| scope.spawn(move || fail_over(installation, flavor)));
        threads.map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| anyhow::bail!("a thread panicked"))
        })
    });
    let mut phases = Vec::new();
    for (index, played) in played.into_iter().enumerate() {
        let mut played = played?;
        if options.against == Flavor::Go && index == 1 {
            played
                .iter_mut()
                .for_each(|phase| phase.flavor = Flavor::Ours);
        }
        phases.extend(played);
    }
    Ok(phases)
}

fn fail_over(installation: &Installation, flavor: Flavor) -> Result<Vec<Phase>> {
    let mut stage = Stage::new(installation)?;
    let elected = ManagerOptions {
        leader_elect: true,
        ..same_controllers()
    };
    let mut phases = Vec::new();
    let mut leader = stage.start_manager(flavor, &elected)?;
    for (name, clean) in [("stopped", true), ("crashed", false)] {
        let mut standby = Manager::start_named(&stage.cluster, flavor, name, &elected)?;
        std::thread::sleep(SHORT_SETTLE);
        let leaving = leader;
        let phase = stage.measure(name, 1, &mut standby, |cluster| {
            if clean {
                leaving.stop()?;
            } else {
                leaving.kill();
            }
            let after = format!("after-{name}");
            cluster
                .api
                .create(DEPLOYMENTS, &deployment(&after, 1, "1"))?;
            wait_status(
                cluster,
                &format!("{DEPLOYMENTS}/{after}"),
                &[("replicas", 1)],
            )
        })?;
        phases.push(phase);
        leader = standby;
    }
    Ok(phases)
}
