//! Monitors the health of all nodes, and of their zones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::ConditionStatus;
use api::decision::Line;
use api::kinds::Node;
use api::{Key, ObjectId, Resource, Uid};
use client::Error;
use futures_util::{StreamExt, stream};
use runtime::Report;
use tokio::time::Instant;

use super::health::{Health, health_of};
use super::taints::{self, Change};
use super::zones::{self, Count, State, Transition, Zones};
use super::{LEASES, Lifecycle, NODE_WORKERS};
use crate::workload::on_node::pods_on;

/// UPSTREAM: a node whose conditions cannot be written is tried for a tenth of a second.
const TRIES: usize = 5;
const AGAIN: Duration = Duration::from_millis(20);

/// A node with this label does not count for the state of its zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// A node that was looked at.
struct Checked {
    node: Arc<Node>,
    is_ready: bool,
    /// What it is to be tainted with when the rate limit allows.
    taint: Option<Change>,
}

impl Lifecycle {
    pub(super) async fn monitor_node_health(&self, report: &Report<'_>) {
        let started = Instant::now();
        let nodes = self.nodes.list();
        let new = self.register(&nodes);
        let (mut checked, mut others) = (Vec::with_capacity(nodes.len()), Vec::new());
        for node in nodes {
            let is_new = new.contains(&*node.metadata.name);
            match !is_new && self.is_well(&node) {
                true => checked.push(Checked {
                    node,
                    is_ready: true,
                    taint: None,
                }),
                false => others.push((node, is_new)),
            }
        }
        if !others.is_empty() {
            // Boxed, because nearly always there are none.
            checked.extend(Box::pin(self.check_all(others, report)).await);
        }
        self.set_zone_states(checked, report).await;
        self.metrics.on_all(started.elapsed());
    }

    /// Whether a node is ready and nothing is to be done for it or its pods, as for nearly all nodes nearly always.
    fn is_well(&self, node: &Node) -> bool {
        let started = Instant::now();
        let health = self.health_of(node);
        let now = self.context.clock.now().time();
        let has_nothing_to_lose = || taints::REACHABLE.applied(&node.spec.taints, now).is_none();
        if health.says != Some(ConditionStatus::True)
            || !health.unknown.is_empty()
            || !has_nothing_to_lose()
        {
            return false;
        }
        let name = &node.metadata.name;
        let mut memory = self.memory();
        if let Some(zone) = memory.zones.get_mut(&taints::zone(node)) {
            zone.waiting.forget(name);
        }
        memory.unmarked.remove(name);
        drop(memory);
        self.metrics.on_node(started.elapsed());
        true
    }

    async fn check_all(&self, nodes: Vec<(Arc<Node>, bool)>, report: &Report<'_>) -> Vec<Checked> {
        stream::iter(nodes)
            .map(|(node, is_new)| self.check(node, is_new, report))
            .buffer_unordered(NODE_WORKERS)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    /// Notes who came and who went since the last sync; gives the names of those who came.
    fn register(&self, nodes: &[Arc<Node>]) -> BTreeSet<Arc<str>> {
        let mut new = BTreeSet::new();
        if self.memory().knows(nodes) {
            return new;
        }
        let mut gone: Vec<(Arc<str>, Uid)> = Vec::new();
        {
            let (now, rates) = (self.steady.now(), self.settings.rates);
            let mut memory = self.memory();
            let present: BTreeSet<&str> = nodes.iter().map(|node| &*node.metadata.name).collect();
            memory.known.retain(|name, uid| {
                let stays = present.contains(&**name);
                if !stays {
                    gone.push((name.clone(), uid.clone()));
                }
                stays
            });
            for (name, _) in &gone {
                memory.seen.remove(name);
                memory.unmarked.remove(name);
                for zone in memory.zones.values_mut() {
                    zone.waiting.forget(name);
                }
            }
            for node in nodes {
                let (meta, zone) = (&node.metadata, taints::zone(node));
                if !memory.zones.contains_key(&zone) {
                    memory.zone(&zone, &rates, now);
                    self.metrics.on_zone(&zone);
                }
                let known = memory.known.insert(meta.name.clone(), meta.uid.clone());
                if known.is_none() {
                    new.insert(meta.name.clone());
                }
            }
        }
        for node in nodes {
            let (name, uid) = (&node.metadata.name, &node.metadata.uid);
            if new.contains(name) {
                let said = format!("event: Registered Node {name} in Controller");
                self.node_event(name, uid, "RegisteredNode", &said);
            }
        }
        for (name, uid) in gone {
            let said = format!("event: Removing Node {name} from Controller");
            self.node_event(&name, &uid, "RemovingNode", &said);
        }
        new
    }

    /// Looks at one node and does what follows for it and its pods. None if that could not be found out.
    async fn check(&self, node: Arc<Node>, is_new: bool, report: &Report<'_>) -> Option<Checked> {
        let started = Instant::now();
        let (name, key) = (node.metadata.name.clone(), node.key());
        let node = match is_new {
            // UPSTREAM: who is seen for the first time gets the benefit of the doubt, after a restart too.
            true => {
                self.stop_eviction(node, "it is seen for the first time", report)
                    .await
            }
            false => node,
        };
        let checked = self.find_health(node, report).await;
        self.metrics.on_node(started.elapsed());
        let (node, health, fell) = match checked {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(node = &*name, %error, "cannot find out about the health of a node, its pods stay");
                return None;
            }
        };
        let (node, taint) = match &health.says {
            Some(ConditionStatus::True) => {
                (self.stop_eviction(node, "it is ready", report).await, None)
            }
            Some(says) => self.evict_or_queue(node, says, report).await,
            None => (node, None),
        };
        if is_new && health.said == ConditionStatus::Unknown {
            // The manager that wrote that may have ended before its pods were marked, and no kubelet marks them.
            self.memory().unmarked.insert(name.clone());
        }
        if health.says.is_some() {
            self.mark_pods(&key, &node, &health, fell).await;
        }
        Some(Checked {
            node,
            is_ready: health.says == Some(ConditionStatus::True),
            taint,
        })
    }

    /// Finds out how the node is and writes it down where its kubelet stopped posting status. Gives the node as it is then, and
    /// whether it was ready until now.
    async fn find_health(
        &self,
        node: Arc<Node>,
        report: &Report<'_>,
    ) -> Result<(Arc<Node>, Health, bool), Error> {
        let (name, mut was_ready) = (node.metadata.name.clone(), false);
        let found = self.try_find_health(node, &mut was_ready, report).await;
        if found.is_err() && was_ready {
            // If the write came through after all, nothing will tell that its pods have not been marked.
            self.memory().unmarked.insert(name);
        }
        found
    }

    async fn try_find_health(
        &self,
        mut node: Arc<Node>,
        was_ready: &mut bool,
        report: &Report<'_>,
    ) -> Result<(Arc<Node>, Health, bool), Error> {
        let mut tries = 1;
        loop {
            let health = self.health_of(&node);
            // A write may have come through although its answer did not: what was seen first counts.
            *was_ready |= health.said == ConditionStatus::True;
            if health.unknown.is_empty() {
                let fell = *was_ready && health.is_down();
                return Ok((node, health, fell));
            }
            report.decide(ObjectId::of(&*node), [Line::from(&health)]);
            match self.mark_unknown(&node, &health).await {
                Ok(written) => {
                    self.remember(&written, &health);
                    let fell = *was_ready && health.is_down();
                    return Ok((written, health, fell));
                }
                Err(error) if tries == TRIES => return Err(error),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(AGAIN).await;
            node = self.fetch(&node).await?;
        }
    }

    fn health_of(&self, node: &Node) -> Health {
        let lease = self.leases.find(LEASES, &node.metadata.name);
        let mut memory = self.memory();
        let seen = memory.seen.get(&node.metadata.name);
        let (now, patience) = (self.steady.now(), self.settings.patience);
        let health = health_of(node, lease.as_deref(), seen, now, patience);
        let mut seen = health.seen.clone();
        // Until it is written, it is as it was.
        seen.ready = node.ready().map(|ready| ready.status.clone());
        memory.seen.insert(node.metadata.name.clone(), seen);
        health
    }

    fn remember(&self, node: &Node, health: &Health) {
        let seen = health.seen.clone();
        let mut memory = self.memory();
        memory.seen.insert(node.metadata.name.clone(), seen);
    }

    /// Takes the taints away that drive pods away, if there are any.
    async fn stop_eviction(
        &self,
        node: Arc<Node>,
        why: &'static str,
        report: &Report<'_>,
    ) -> Arc<Node> {
        let name = &node.metadata.name;
        if let Some(zone) = self.memory().zones.get_mut(&taints::zone(&node)) {
            zone.waiting.forget(name);
        }
        self.retaint_now(node, &taints::REACHABLE, why, report)
            .await
    }

    /// A node that is down is tainted as fast as the rate limit allows; one that has the other taint of the two, at once. Gives the
    /// node as it is then, and what it is still to be tainted with.
    async fn evict_or_queue(
        &self,
        node: Arc<Node>,
        says: &ConditionStatus,
        report: &Report<'_>,
    ) -> (Arc<Node>, Option<Change>) {
        let Some(change) = taints::eviction(says) else {
            return (node, None);
        };
        let has = |taint| taints::has(&node.spec.taints, taint);
        if change.remove.iter().any(has) {
            let why = "it is down in another way";
            return (self.retaint_now(node, &change, why, report).await, None);
        }
        let is_tainted = change.add.iter().all(has);
        (node, (!is_tainted).then_some(change))
    }

    /// Puts a node into the queue of its zone.
    fn queue_for_taint(&self, node: Arc<Node>, change: &Change, report: &Report<'_>) {
        let (zone, object) = (taints::zone(&node), ObjectId::of(&*node));
        let (is_new, rate) = {
            let (now, rates) = (self.steady.now(), self.settings.rates);
            let mut memory = self.memory();
            let waiting = &mut memory.zone(&zone, &rates, now).waiting;
            waiting.readmit(&object.name);
            (waiting.add(node), waiting.rate())
        };
        if is_new {
            let why = format!("the eviction rate limit of its zone is {rate} nodes a second");
            let what = format!("waits until it may be tainted: {change}");
            report.decide(
                object,
                [Line::waits("EvictionRateLimit", what).because(why)],
            );
            self.zones_to_taint.add(Key::new("", &zone));
        }
    }

    /// Changes taints regardless of the rate limit, if that changes anything. Gives the node as it is then.
    async fn retaint_now(
        &self,
        node: Arc<Node>,
        change: &Change,
        why: &'static str,
        report: &Report<'_>,
    ) -> Arc<Node> {
        let now = self.context.clock.now().time();
        if change.applied(&node.spec.taints, now).is_none() {
            return node;
        }
        let (key, held) = (node.key(), node.clone());
        report.decide(ObjectId::of(&*held), [change.line(why)]);
        self.retaint(node, change).await.unwrap_or_else(|error| {
            tracing::warn!(node = %key, %error, "cannot change taints, will try again in the next sync");
            held
        })
    }

    /// When a node goes down, its pods are not ready any more, and nobody else is there to say so.
    async fn mark_pods(&self, key: &Key, node: &Node, health: &Health, fell: bool) {
        let (name, uid) = (&node.metadata.name, &node.metadata.uid);
        if fell {
            self.node_event(name, uid, "NodeNotReady", "status is now: NodeNotReady");
        }
        let is_late = health.is_down() && self.memory().unmarked.contains(name);
        if fell || is_late {
            let marked = self.mark_pods_unready(pods_on(&self.pods, name)).await;
            if let Err(error) = marked {
                tracing::warn!(node = %key, %error, "cannot mark all pods of a node that is down, will try again");
                self.memory().unmarked.insert(name.clone());
                return;
            }
        }
        self.memory().unmarked.remove(name);
    }

    /// Sets the pace of each zone by how many of its nodes are down. Only then do new ones wait for the rate limit:
    /// when nobody is ready, nobody is to be tainted.
    async fn set_zone_states(&self, checked: Vec<Checked>, report: &Report<'_>) {
        let mut counts: Zones<Count> = Zones::new();
        for Checked { node, is_ready, .. } in &checked {
            if node.metadata.labels.get(EXCLUDED).is_some() {
                continue;
            }
            let count = counts.entry(taints::zone(node)).or_default();
            match is_ready {
                true => count.ready += 1,
                false => count.down += 1,
            }
        }
        if self.set_pace(&counts) == Transition::AllDown {
            tracing::warn!("no node is ready: no pod is evicted until one is");
            let why = "no node of the cluster is ready, so the fault may be between us and them";
            for Checked { node, .. } in checked {
                Box::pin(self.stop_eviction(node, why, report)).await;
            }
            return;
        }
        for Checked { node, taint, .. } in checked {
            if let Some(change) = taint {
                self.queue_for_taint(node, &change, report);
            }
        }
    }

    fn set_pace(&self, counts: &Zones<Count>) -> Transition {
        let (now, rates) = (self.steady.now(), self.settings.rates);
        let mut memory = self.memory();
        let was: Zones<State> = memory
            .zones
            .iter()
            .map(|(name, zone)| (name.clone(), zone.state))
            .collect();
        let verdict = zones::assess(&was, counts, &rates);
        for (name, count) in counts {
            self.metrics.on_count(name, *count);
        }
        let uncounted = was.keys().filter(|name| !counts.contains_key(*name));
        let uncounted: Vec<&String> = uncounted.collect();
        if !uncounted.is_empty() {
            let nodes = self.nodes.list();
            let peopled: BTreeSet<String> = nodes.iter().map(|node| taints::zone(node)).collect();
            for name in uncounted {
                // None of its nodes counts: it is as a new one.
                self.metrics.on_count(name, Count::default());
                memory.zone(name, &rates, now).state = State::Initial;
            }
            memory.zones.retain(|name, _| peopled.contains(name));
        }
        for (name, state) in &verdict.states {
            // A node that moved since the sync began brings its zone along.
            memory.zone(name, &rates, now).state = *state;
        }
        for (name, rate) in &verdict.rates {
            let state = verdict.states.get(name).copied().unwrap_or_default();
            tracing::info!(zone = %name.replace('\0', ""), %state, rate, "zone is in a new state");
            memory.zone(name, &rates, now).waiting.set_rate(*rate, now);
            self.zones_to_taint.add(Key::new("", name));
        }
        if verdict.transition == Transition::SomeUp {
            tracing::info!("some nodes are ready again: the grace period of all starts over");
            for seen in memory.seen.values_mut() {
                seen.alive_at = now;
            }
        }
        verdict.transition
    }
}
