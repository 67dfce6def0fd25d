//! A large cluster in which nothing happens but the heartbeats of its nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use real_tests::Api;
use real_tests::installation::Installation;
use serde_json::json;

use super::Options;
use super::fixtures::{PODS, create_nodes, make_all_ready, node_name, wait_for};
use super::scenarios::{DEPLOYMENTS, in_turns, size};
use super::stage::{Phase, Stage, deployment, in_parallel, same_controllers};

const NODES: usize = 1000;
const PODS_EACH: usize = 30;
/// Until the caches are full and what a start causes is over.
const SETTLE: Duration = Duration::from_secs(20);
const REST: Duration = Duration::from_secs(30);
/// How often a kubelet renews its lease.
const RENEWAL: Duration = Duration::from_secs(10);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

pub(super) fn at_rest(installation: &Installation, options: &Options) -> Result<Vec<Phase>> {
    let nodes = size(options, NODES);
    let mut stage = Stage::new(installation)?;
    let api = stage.cluster.api.clone();
    create_nodes(&api, nodes)?;
    let _heartbeats = Heartbeats::start(&api, nodes)?;
    eprintln!("at-rest: {nodes} nodes, {} pods", nodes * PODS_EACH);
    let filling = stage.start_manager(options.against, &same_controllers())?;
    in_parallel(nodes, |number| {
        let name = format!("web-{number}");
        let mut deployment = deployment(&name, PODS_EACH, "1");
        deployment["spec"]["template"]["spec"]["nodeName"] = json!(node_name(number));
        api.create(DEPLOYMENTS, &deployment).map(drop)
    })?;
    until_deployments(&api, nodes, "replicas")?;
    make_all_ready(&api, PODS)?;
    until_deployments(&api, nodes, "availableReplicas")?;
    filling.kill();
    let mut phases = Vec::new();
    for round in 1..=options.rounds {
        eprintln!("at-rest round {round} of {}", options.rounds);
        phases.extend(in_turns(options, round % 2 == 0, |flavor| {
            let mut manager = stage.start_manager(flavor, &same_controllers())?;
            std::thread::sleep(SETTLE);
            let rest = stage.measure("rest", 1, &mut manager, |_| {
                std::thread::sleep(REST);
                Ok(())
            })?;
            manager.kill();
            Ok(rest)
        })?);
    }
    Ok(phases)
}

fn until_deployments(api: &Api, count: usize, field: &str) -> Result<()> {
    wait_for(api, DEPLOYMENTS, count, |deployment| {
        deployment["status"][field] == PODS_EACH
    })
}

/// Kubelets that renew their leases, a tenth of them every second.
struct Heartbeats {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeats {
    fn start(api: &Api, nodes: usize) -> Result<Heartbeats> {
        in_parallel(nodes, |number| {
            let name = node_name(number);
            let spec =
                json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()});
            api.create(LEASES, &json!({"metadata": {"name": name}, "spec": spec}))
                .map(drop)
        })?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (api, told) = (api.clone(), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            let shares = RENEWAL.as_secs() as usize;
            for share in (0..shares).cycle() {
                let started = Instant::now();
                for number in (share..nodes).step_by(shares) {
                    if told.load(Ordering::Relaxed) {
                        return;
                    }
                    // A server that is busy is asked again in ten seconds, as by a kubelet.
                    let renewed = json!({"spec": {"renewTime": now()}});
                    let _ = api.merge_patch(&format!("{LEASES}/{}", node_name(number)), &renewed);
                }
                std::thread::sleep(Duration::from_secs(1).saturating_sub(started.elapsed()));
            }
        });
        Ok(Heartbeats {
            stopping,
            thread: Some(thread),
        })
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The time with microseconds, as leases have it.
fn now() -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    api::time::MicroTime::from_unix_micros(now.as_micros() as i64).to_string()
}
