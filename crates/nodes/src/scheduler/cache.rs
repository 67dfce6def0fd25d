//! What the scheduler knows of the cluster, kept up to date change by change.
//!
//! Each node carries the sum of what its pods ask for, so that a look at a node does not look at its pods. A
//! pod that the scheduler has decided on counts from that moment, before the API server has heard of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::collections::HashMap;
use api::{Istr, Key, LabelSet, Resource, Uid};

use crate::node::Node;
use crate::pod::{Amounts, Pod};

#[derive(Default)]
pub(super) struct Cache {
    nodes: BTreeMap<Istr, NodeState>,
    pods: BTreeMap<Key, Placed>,
    /// Pods on nodes that keep others away from them.
    repelling: BTreeMap<Key, Arc<Pod>>,
    /// Pods that wait for their victims to leave a node.
    nominated: BTreeMap<Key, Placed>,
    pub(super) namespaces: BTreeMap<Istr, LabelSet>,
}

/// A pod and where it is.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) pod: Arc<Pod>,
    pub(super) node: Istr,
    /// Decided, but not seen from the API server yet.
    pub(super) assumed: bool,
}

#[derive(Default)]
pub(super) struct NodeState {
    /// None while pods are known whose node is not.
    pub(super) node: Option<Arc<Node>>,
    pub(super) requested: Amounts,
    pub(super) scored_milli_cpu: i64,
    pub(super) scored_memory: i64,
    pub(super) pods: BTreeMap<Key, Arc<Pod>>,
    /// How many pods of each controller run here.
    pub(super) by_owner: HashMap<Uid, u32>,
}

impl Cache {
    pub(super) fn set_node(&mut self, node: Arc<Node>) {
        let name = Istr::from(node.name());
        self.nodes.entry(name).or_default().node = Some(node);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(state) = self.nodes.get_mut(name) {
            state.node = None;
            if state.pods.is_empty() {
                self.nodes.remove(name);
            }
        }
    }

    /// Nodes by name.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&Arc<Node>, &NodeState)> {
        self.nodes
            .values()
            .filter_map(|state| Some((state.node.as_ref()?, state)))
    }

    pub(super) fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name).filter(|state| state.node.is_some())
    }

    pub(super) fn placed(&self, key: &Key) -> Option<&Placed> {
        self.pods.get(key)
    }

    /// Pods on nodes in one namespace.
    pub(super) fn in_namespace(&self, namespace: &Istr) -> impl Iterator<Item = &Placed> {
        let from = Key {
            namespace: namespace.clone(),
            name: Arc::from(""),
        };
        self.pods
            .range(from..)
            .take_while(|(key, _)| key.namespace == *namespace)
            .map(|(_, placed)| placed)
    }

    pub(super) fn all_pods(&self) -> impl Iterator<Item = &Placed> {
        self.pods.values()
    }

    pub(super) fn repelling(&self) -> impl Iterator<Item = (&Arc<Pod>, &Istr)> {
        self.repelling
            .iter()
            .filter_map(|(key, pod)| Some((pod, &self.pods.get(key)?.node)))
    }

    /// Puts a pod on a node, in the place of what was known of it. True if it was not there before.
    pub(super) fn place(&mut self, pod: Arc<Pod>, node: &Istr, assumed: bool) -> bool {
        let key = pod.key();
        let was_there = self.remove(&key).is_some_and(|old| old.node == *node);
        self.nominated.remove(&key);
        let state = self.nodes.entry(node.clone()).or_default();
        state.requested.add(&pod.spec.requests.total);
        state.scored_milli_cpu += pod.spec.requests.scored_milli_cpu;
        state.scored_memory += pod.spec.requests.scored_memory;
        if let Some(owner) = pod.metadata.controller() {
            *state.by_owner.entry(owner.uid.clone()).or_insert(0) += 1;
        }
        state.pods.insert(key.clone(), pod.clone());
        if repels(&pod) {
            self.repelling.insert(key.clone(), pod.clone());
        }
        let placed = Placed {
            pod,
            node: node.clone(),
            assumed,
        };
        self.pods.insert(key, placed);
        !was_there
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Placed> {
        self.repelling.remove(key);
        let placed = self.pods.remove(key)?;
        let state = self.nodes.get_mut(&placed.node)?;
        let (pod, requests) = (&placed.pod, &placed.pod.spec.requests);
        state.requested.subtract(&requests.total);
        state.scored_milli_cpu -= requests.scored_milli_cpu;
        state.scored_memory -= requests.scored_memory;
        if let Some(owner) = pod.metadata.controller()
            && let Some(count) = state.by_owner.get_mut(&owner.uid)
        {
            *count -= 1;
            if *count == 0 {
                state.by_owner.remove(&owner.uid);
            }
        }
        state.pods.remove(key);
        if state.pods.is_empty() && state.node.is_none() {
            self.nodes.remove(&placed.node);
        }
        Some(placed)
    }

    pub(super) fn nominate(&mut self, pod: Arc<Pod>, node: &str) {
        let key = pod.key();
        let placed = Placed {
            pod,
            node: Istr::from(node),
            assumed: true,
        };
        self.nominated.insert(key, placed);
    }

    pub(super) fn withdraw_nomination(&mut self, key: &Key) {
        self.nominated.remove(key);
    }

    /// Pods that have a claim to a node which `pod` must respect.
    pub(super) fn nominated_before<'a>(
        &'a self,
        pod: &'a Pod,
        node: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.nominated.values().filter_map(move |placed| {
            let counts = placed.node == *node
                && placed.pod.spec.priority >= pod.spec.priority
                && placed.pod.metadata.uid != pod.metadata.uid;
            counts.then_some(&placed.pod)
        })
    }

    pub(super) fn has_nominations(&self) -> bool {
        !self.nominated.is_empty()
    }
}

fn repels(pod: &Pod) -> bool {
    let anti = pod
        .spec
        .affinity
        .as_ref()
        .and_then(|one| one.pod_anti_affinity.as_ref());
    anti.is_some_and(|anti| !anti.required.is_empty())
}
