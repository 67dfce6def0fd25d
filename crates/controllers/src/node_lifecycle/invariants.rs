//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::ConditionStatus;
use api::kinds::{Lease, Node, Pod};
use api::taints::{Taint, TaintEffect};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

/// Remembers zones whose rate was set to nothing when no node at all was ready.
#[derive(Default)]
pub struct NodeLifecycleOracle {
    stopped: BTreeSet<Zone>,
}

impl Oracle for NodeLifecycleOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        let (before, after) = (change.before::<Node>(), change.after::<Node>());
        if before.is_none() && after.is_none() {
            return;
        }
        let nodes = world.store::<Node>().list();
        let zones: BTreeSet<Zone> = nodes.iter().map(|node| zone_of(node)).collect();
        let up: BTreeSet<Zone> = nodes
            .iter()
            .filter(|node| !is_down(node))
            .map(|node| zone_of(node))
            .collect();
        if up.is_empty() {
            self.stopped = zones;
        } else if zones == self.stopped {
            self.stopped.clear();
        } else {
            // UPSTREAM: a zone that is new then was never down, so not all were: the others keep their rate, which is
            // none, until they are no longer down.
            self.stopped.retain(|zone| !up.contains(zone));
        }
    }

    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        let is_node = change.updated::<Node>().is_some();
        // It says of the pods of a node that they are not ready.
        let is_pod = change.updated::<Pod>().is_some();
        match is_node || is_pod {
            true => Ok(()),
            false => no_business(DESCRIPTOR.name, change),
        }
    }

    fn after_any_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<Node>() {
            Some((before, after)) => safe(&before, &after),
            None => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        self.even_if_paused(world)
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        let nodes = world.store::<Node>().list();
        let is_stopped = |node: &Node| self.stopped.contains(&zone_of(node));
        converged(&nodes, |node| posts_status(world, node), is_stopped)?;
        let pods = world.store::<Pod>().list();
        let is_unreachable = |node: &Node| {
            let ready = node.ready();
            ready.is_some_and(|ready| ready.status == ConditionStatus::Unknown)
        };
        for node in nodes.iter().filter(|node| is_unreachable(node)) {
            let name = &node.metadata.name;
            let mut own = pods.iter().filter(|pod| *pod.node_name == **name);
            if let Some(pod) = own.find(|pod| pod.is_ready()) {
                let pod = pod.metadata.key();
                return Err(format!("{pod} is ready, and node {name} is unreachable"));
            }
        }
        Ok(())
    }
}

/// How long a node that is missed may take to say so, after its grace period: a check of all nodes every five seconds, and
/// requests.
const SLACK: Duration = Duration::from_secs(30);

/// Has the node given a sign of life so lately that the manager cannot miss it yet? What it saw before is forgotten when it
/// begins, and so it gives every node the whole time again.
fn posts_status(world: &World, node: &Node) -> bool {
    let name = &node.metadata.name;
    let lease = world.store::<Lease>().find("kube-node-lease", name);
    let renewed_at = lease.and_then(|lease| lease.spec.renew_time);
    let posted_at = node.status.heartbeat.0.map(|at| at.micro());
    let signs = [renewed_at, posted_at, Some(world.run.led_since)];
    let last = signs.into_iter().flatten().max().unwrap_or_default();
    let config = &world.run.config.node_lifecycle_controller;
    let grace = config.monitor_grace_period.to_std();
    world.now().since(last) <= grace + SLACK + world.delay()
}

/// Every node says what is known of it and carries the taints that go with that. `heard` is whether a node gave a
/// sign of life lately, `stopped` whether nobody is driven away from its zone.
pub fn converged(
    nodes: &[Arc<Node>],
    heard: impl Fn(&Node) -> bool,
    stopped: impl Fn(&Node) -> bool,
) -> Result<(), String> {
    for node in nodes {
        let name = &node.metadata.name;
        if let Some(ready) = node.ready()
            && ready.status != ConditionStatus::Unknown
            && !heard(node)
        {
            return Err(format!(
                "the kubelet of node {name} stopped posting status, and it still says Ready={}",
                ready.status
            ));
        }
        let mut held: BTreeSet<String> = node.spec.taints.iter().filter_map(managed).collect();
        let mut wanted = wanted_taints(node);
        if stopped(node) && is_down(node) || is_spared(node, nodes) {
            // Those that were there before may stay.
            held.retain(|taint| !taint.ends_with("NoExecute"));
            wanted.retain(|taint| !taint.ends_with("NoExecute"));
        }
        if held != wanted {
            return Err(format!(
                "node {name} has the taints {held:?} and should have {wanted:?}"
            ));
        }
    }
    Ok(())
}

/// Which condition in which state keeps new pods away, and the last part of the taint that does. Written down apart from
/// what the controller goes by.
const KEEPS_AWAY: [(&str, &str, &str); 6] = [
    ("Ready", "False", "not-ready"),
    ("Ready", "Unknown", "unreachable"),
    ("MemoryPressure", "True", "memory-pressure"),
    ("DiskPressure", "True", "disk-pressure"),
    ("NetworkUnavailable", "True", "network-unavailable"),
    ("PIDPressure", "True", "pid-pressure"),
];

/// The taints that the controller should have put on a node, as key and effect.
fn wanted_taints(node: &Node) -> BTreeSet<String> {
    let mut wanted = BTreeSet::new();
    for condition in &node.status.conditions {
        let status = condition.status.to_string();
        let is_meant =
            |(kind, state, _): &&(&str, &str, &str)| *condition.type_ == **kind && status == *state;
        if let Some((kind, _, taint)) = KEEPS_AWAY.iter().find(is_meant) {
            wanted.insert(format!("{taint}:NoSchedule"));
            if *kind == "Ready" {
                wanted.insert(format!("{taint}:NoExecute"));
            }
        }
    }
    if node.spec.unschedulable {
        wanted.insert("unschedulable:NoSchedule".to_owned());
    }
    wanted
}

/// A taint that is the controller's to put on and to remove, without what all of them begin with.
fn managed(taint: &Taint) -> Option<String> {
    let key = taint.key.strip_prefix("node.kubernetes.io/")?;
    let by_condition = KEEPS_AWAY.iter().find(|(_, _, taint)| *taint == key);
    let is_managed = match &taint.effect {
        TaintEffect::NoSchedule => by_condition.is_some() || key == "unschedulable",
        TaintEffect::NoExecute => by_condition.is_some_and(|(kind, _, _)| *kind == "Ready"),
        _ => false,
    };
    is_managed.then(|| format!("{key}:{}", taint.effect))
}

fn is_down(node: &Node) -> bool {
    node.ready().is_none_or(|ready| !ready.is_true())
}

/// Region and zone, as labels say.
type Zone = [Option<String>; 2];

fn zone_of(node: &Node) -> Zone {
    let label = |key: &str| node.metadata.labels.get(key).map(str::to_owned);
    [
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ]
    .map(label)
}

/// UPSTREAM: where no node at all is ready nobody is driven away, nor from a small zone of which more than two nodes and
/// 55 % are down, but not all.
fn is_spared(node: &Node, nodes: &[Arc<Node>]) -> bool {
    let neighbours = || nodes.iter().filter(|other| zone_of(other) == zone_of(node));
    let (down, all) = (
        neighbours().filter(|other| is_down(other)).count(),
        neighbours().count(),
    );
    let is_partly_down = down > 2 && down < all && down * 100 >= all * 55;
    is_down(node) && (is_partly_down || nodes.iter().all(|other| is_down(other)))
}

/// What a write of this controller may do to a node: `before` is the node as it was. Nobody is tainted who is
/// ready, nobody is both unreachable and not ready, and nobody else's taint is touched.
pub fn safe(before: &Node, after: &Node) -> Result<(), String> {
    let name = &before.metadata.name;
    let drives = |taint: &&Taint| {
        let key = managed(taint);
        key.is_some_and(|key| key.ends_with(":NoExecute"))
    };
    let has = |node: &Node, taint: &Taint| {
        let mut held = node.spec.taints.iter();
        held.any(|held| held.key == taint.key && held.effect == taint.effect)
    };
    let gained = |taint: &&Taint| !has(before, taint);
    let mut new = after.spec.taints.iter().filter(drives).filter(gained);
    if let Some(taint) = new.next() {
        if before.ready().is_some_and(|ready| ready.is_true()) {
            return Err(format!("node {name} is ready and got the taint {taint}"));
        }
        if after.spec.taints.iter().filter(drives).count() > 1 {
            return Err(format!("node {name} is both not ready and unreachable"));
        }
    }
    let foreign = |taint: &&Taint| !taint.key.starts_with("node.kubernetes.io/");
    let mut others = before.spec.taints.iter().filter(foreign);
    match others.find(|taint| !has(after, taint)) {
        Some(taint) => Err(format!(
            "node {name} lost the taint {taint}, which is somebody else's"
        )),
        None => Ok(()),
    }
}
