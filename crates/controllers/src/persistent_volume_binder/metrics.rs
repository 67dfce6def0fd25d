//! Upstream's figures of claims and volumes.

use api::collections::HashMap;
use api::kinds::{PersistentVolume, PersistentVolumeClaim};
use prometheus::{GaugeVec, IntCounter, IntCounterVec};
use runtime::metrics::Stability;
use runtime::{Context, Store};

use super::class;
use super::reclaim::HOST_PATH;

pub struct BinderMetrics {
    volumes: GaugeVec,
    bound_volumes: GaugeVec,
    unbound_volumes: GaugeVec,
    bound_claims: GaugeVec,
    unbound_claims: GaugeVec,
    errors: [IntCounterVec; 2],
    assigned: IntCounter,
    assignment_errors: IntCounter,
}

impl BinderMetrics {
    pub fn new(context: &Context) -> BinderMetrics {
        let metrics = &context.metrics;
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            metrics.gauge(
                &format!("pv_collector_{name}"),
                help,
                Stability::Alpha,
                labels,
            )
        };
        let errors = |name: &str| {
            let labels = ["plugin_name", "operation_name"];
            metrics.counter(
                name,
                "Total volume operation errors",
                Stability::Alpha,
                &labels,
            )
        };
        let assigned = |name: &str, help: &str| {
            let none: [&str; 0] = [];
            let family = metrics.counter(name, help, Stability::Alpha, &none);
            family.with_label_values(&none)
        };
        let of_claims = ["namespace", "storage_class", "volume_attributes_class"];
        BinderMetrics {
            volumes: gauge(
                "total_pv_count",
                "Gauge measuring total number of persistent volumes",
                &["plugin_name", "volume_mode"],
            ),
            bound_volumes: gauge(
                "bound_pv_count",
                "Gauge measuring number of persistent volume currently bound",
                &["storage_class"],
            ),
            unbound_volumes: gauge(
                "unbound_pv_count",
                "Gauge measuring number of persistent volume currently unbound",
                &["storage_class"],
            ),
            bound_claims: gauge(
                "bound_pvc_count",
                "Gauge measuring number of persistent volume claim currently bound",
                &of_claims,
            ),
            unbound_claims: gauge(
                "unbound_pvc_count",
                "Gauge measuring number of persistent volume claim currently unbound",
                &of_claims,
            ),
            errors: [
                errors("volume_operation_total_errors"),
                errors("volume_operation_errors_total"),
            ],
            assigned: assigned(
                "retroactive_storageclass_total",
                "Total number of retroactive StorageClass assignments to persistent volume claim",
            ),
            assignment_errors: assigned(
                "retroactive_storageclass_errors_total",
                "Total number of failed retroactive StorageClass assignments to persistent volume claim",
            ),
        }
    }

    pub fn failed(&self, plugin: &str, operation: &str) {
        for family in &self.errors {
            family.with_label_values(&[plugin, operation]).inc();
        }
    }

    pub fn class_assigned(&self, is_done: bool) {
        self.assigned.inc();
        if !is_done {
            self.assignment_errors.inc();
        }
    }

    /// Counts everything anew: what is not there any more is not shown.
    pub fn count(&self, volumes: &Store<PersistentVolume>, claims: &Store<PersistentVolumeClaim>) {
        let (mut all, mut by_class, mut by_claim) = (
            HashMap::<(&str, String), u64>::default(),
            HashMap::<(bool, String), u64>::default(),
            HashMap::<(bool, [String; 3]), u64>::default(),
        );
        for volume in volumes.list() {
            let spec = &volume.spec;
            let plugin = match (&spec.host_path, &spec.nfs) {
                (Some(_), _) => HOST_PATH,
                (None, Some(_)) => "kubernetes.io/nfs",
                (None, None) => "N/A",
            };
            *all.entry((plugin, spec.volume_mode.to_string()))
                .or_default() += 1;
            let is_bound = volume.status.phase == "Bound";
            let class = spec.class_name.to_string();
            *by_class.entry((is_bound, class)).or_default() += 1;
        }
        for claim in claims.list() {
            let attributes = claim.spec.volume_attributes_class_name.clone();
            let labels = [
                claim.metadata.namespace.to_string(),
                class::of_claim(&claim).to_owned(),
                attributes.unwrap_or_default().to_string(),
            ];
            let is_bound = claim.status.phase == "Bound";
            *by_claim.entry((is_bound, labels)).or_default() += 1;
        }
        for family in [
            &self.volumes,
            &self.bound_volumes,
            &self.unbound_volumes,
            &self.bound_claims,
            &self.unbound_claims,
        ] {
            family.reset();
        }
        let set = |family: &GaugeVec, labels: &[&str], count: u64| {
            family.with_label_values(labels).set(count as f64);
        };
        for ((plugin, mode), count) in &all {
            set(&self.volumes, &[plugin, mode], *count);
        }
        for ((is_bound, class), count) in &by_class {
            let family = if *is_bound {
                &self.bound_volumes
            } else {
                &self.unbound_volumes
            };
            set(family, &[class], *count);
        }
        for ((is_bound, labels), count) in &by_claim {
            let family = if *is_bound {
                &self.bound_claims
            } else {
                &self.unbound_claims
            };
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            set(family, &labels, *count);
        }
    }
}
