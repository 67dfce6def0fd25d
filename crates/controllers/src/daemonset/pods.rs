//! Daemon pods: what a new one looks like, where one belongs, and whether one is up to date. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use api::json::Node as Json;
use api::kinds::{DaemonSet, Pod};
use api::taints::Toleration;

use super::eligibility::automatic_tolerations;
use crate::workload::claim::controller_reference;
use crate::workload::pod_body;
use crate::workload::pods::{PodName, pod_name_base};

/// The label by which a pod tells its revision, and a revision its hash.
pub const REVISION_HASH: &str = "controller-revision-hash";

/// What revisions were told apart by before they had hashes; pods still carry it.
const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";
const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

const NODE_TERMS: [&str; 5] = [
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
];

/// Makes the pods of one set at one revision.
pub struct PodMaker(Json);

impl PodMaker {
    pub fn new(set: &DaemonSet, hash: &str) -> PodMaker {
        let base = pod_name_base(&set.metadata.name);
        let owner = controller_reference(set);
        let mut pod = pod_body(&set.spec.template, PodName::Generate(&base), &owner);
        if let Some(generation) = template_generation(set) {
            let path = ["metadata", "labels", TEMPLATE_GENERATION_LABEL];
            pod.set(&path, Json::text(&generation.to_string()));
        }
        if !hash.is_empty() {
            pod.set(&["metadata", "labels", REVISION_HASH], Json::text(hash));
        }
        for toleration in automatic_tolerations(set.spec.placement.host_network) {
            tolerate(&mut pod, &toleration);
        }
        PodMaker(pod)
    }

    /// The pod for a node: the scheduler is told to put it there and nowhere else.
    pub fn on(&self, node: &str) -> Json {
        let mut pod = self.0.clone();
        let mut field = Json::object();
        field.set(&["key"], Json::text("metadata.name"));
        field.set(&["operator"], Json::text("In"));
        field.set(&["values"], Json::Array(vec![Json::text(node)]));
        let mut term = Json::object();
        term.set(&["matchFields"], Json::Array(vec![field]));
        pod.set(&NODE_TERMS, Json::Array(vec![term]));
        pod
    }
}

/// Adds a toleration, or puts it in the place of one that tolerates the same for another time.
fn tolerate(pod: &mut Json, toleration: &Toleration) {
    let list = pod.entry(&["spec", "tolerations"]);
    if !matches!(list, Json::Array(_)) {
        *list = Json::Array(Vec::new());
    }
    let Json::Array(held) = list else {
        unreachable!("made an array above");
    };
    let mut replaced = false;
    for one in held.iter_mut() {
        let read: Option<Toleration> = serde_json::from_str(&one.to_string()).ok();
        if read.is_some_and(|read| read.is_same(toleration)) {
            *one = Json::of(toleration);
            replaced = true;
        }
    }
    if !replaced {
        held.push(Json::of(toleration));
    }
}

/// UPSTREAM: an annotation that is no number counts as absent; the hash decides alone then.
pub fn template_generation(set: &DaemonSet) -> Option<i64> {
    set.metadata
        .annotation(TEMPLATE_GENERATION_ANNOTATION)?
        .parse()
        .ok()
}

/// Is the pod of this revision? Either mark suffices.
pub fn is_updated(pod: &Pod, hash: &str, generation: Option<i64>) -> bool {
    let labels = &pod.metadata.labels;
    let same_hash = !hash.is_empty() && labels.get(REVISION_HASH) == Some(hash);
    let same_generation = || {
        let generation = generation.map(|generation| generation.to_string());
        generation.is_some() && labels.get(TEMPLATE_GENERATION_LABEL) == generation.as_deref()
    };
    same_hash || same_generation()
}

/// The pod to keep comes first: bound before unbound, then the oldest.
pub fn by_seniority(one: &Arc<Pod>, two: &Arc<Pod>) -> Ordering {
    let order = |pod: &Pod| (pod.node_name.is_empty(), pod.metadata.created_at);
    order(one)
        .cmp(&order(two))
        .then_with(|| one.metadata.name.cmp(&two.metadata.name))
}
