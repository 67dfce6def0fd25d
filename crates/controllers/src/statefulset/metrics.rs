//! Figures that only StatefulSets have, under upstream's names.

use api::kinds::{PodManagement, StatefulSet};
use api::{Key, MicroTime};
use prometheus::GaugeVec;
use runtime::Metrics;
use runtime::metrics::Stability;

use super::plan::max_unavailable;
use super::snapshot::{Snapshot, is_unavailable};

pub(super) struct StatefulSetMetrics {
    max_unavailable: GaugeVec,
    unavailable: GaugeVec,
}

const LABELS: &[&str] = &[
    "statefulset_namespace",
    "statefulset_name",
    "pod_management_policy",
];

impl StatefulSetMetrics {
    pub(super) fn new(metrics: &Metrics) -> StatefulSetMetrics {
        StatefulSetMetrics {
            max_unavailable: metrics.gauge(
                "statefulset_controller_statefulset_max_unavailable",
                "How many pods an update of a StatefulSet may make unavailable",
                Stability::Alpha,
                LABELS,
            ),
            unavailable: metrics.gauge(
                "statefulset_controller_statefulset_unavailable_replicas",
                "How many pods of a StatefulSet are missing or unavailable",
                Stability::Alpha,
                LABELS,
            ),
        }
    }

    pub(super) fn observe(&self, snapshot: &Snapshot, now: MicroTime) {
        let set = &*snapshot.set;
        let unavailable = snapshot
            .replicas
            .values()
            .filter(|pod| is_unavailable(set, pod, now))
            .count();
        let labels = labels(set);
        self.max_unavailable
            .with_label_values(&labels)
            .set(max_unavailable(set) as f64);
        self.unavailable
            .with_label_values(&labels)
            .set((snapshot.missing_count() + unavailable) as f64);
    }

    /// A set that is gone has no figures.
    pub(super) fn forget(&self, key: &Key) {
        for policy in [PodManagement::OrderedReady, PodManagement::Parallel] {
            let labels = [&*key.namespace, &*key.name, policy_name(policy)];
            for family in [&self.max_unavailable, &self.unavailable] {
                // It has figures under one policy at most.
                let _ = family.remove_label_values(&labels);
            }
        }
    }
}

fn labels(set: &StatefulSet) -> [&str; 3] {
    let meta = &set.metadata;
    let policy = policy_name(set.spec.pod_management_policy);
    [&meta.namespace, &meta.name, policy]
}

fn policy_name(policy: PodManagement) -> &'static str {
    match policy {
        PodManagement::OrderedReady => "OrderedReady",
        PodManagement::Parallel => "Parallel",
    }
}
