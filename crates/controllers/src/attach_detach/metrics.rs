//! Upstream's figures of attached volumes.

use api::collections::HashMap;
use prometheus::{GaugeVec, IntCounterVec};
use runtime::Context;
use runtime::metrics::Stability;

use super::caches::Caches;
use super::names::{flex_driver, is_built_in, plugin_of};
use super::plan::Force;

pub struct AttachMetrics {
    forced: IntCounterVec,
    in_use: GaugeVec,
    total: GaugeVec,
}

impl AttachMetrics {
    pub fn new(context: &Context) -> AttachMetrics {
        let metrics = &context.metrics;
        AttachMetrics {
            forced: metrics.counter(
                "attach_detach_controller_attachdetach_controller_forced_detaches",
                "Number of times the A/D Controller performed a forced detach",
                Stability::Alpha,
                &["reason"],
            ),
            in_use: metrics.gauge(
                "storage_count_attachable_volumes_in_use",
                "Measure number of volumes in use",
                Stability::Alpha,
                &["node", "volume_plugin"],
            ),
            total: metrics.gauge(
                "attachdetach_controller_total_volumes",
                "Number of volumes in A/D Controller",
                Stability::Alpha,
                &["plugin_name", "state"],
            ),
        }
    }

    pub fn on_forced(&self, force: Force) {
        self.forced.with_label_values(&[force.label()]).inc();
    }

    pub fn count(&self, caches: &Caches) {
        let mut in_use: HashMap<(String, String), f64> = HashMap::default();
        let mut wanted: HashMap<(String, String), f64> = HashMap::default();
        let is_managed = |node: &str| {
            let node = caches.nodes.store().find("", node);
            node.is_some_and(|node| node.is_attach_managed())
        };
        for pod in caches.pods.list() {
            if pod.node_name.is_empty() {
                continue;
            }
            let names = caches.volumes_of(&pod);
            let names = names.iter().filter(|name| flex_driver(name).is_none());
            for volume in names {
                let plugin = plugin_of(volume);
                let node = pod.node_name.to_string();
                *in_use.entry((node.clone(), plugin)).or_default() += 1.0;
                if !pod.has_left_volumes() && is_managed(&node) {
                    wanted.insert((node, volume.to_string()), 1.0);
                }
            }
        }
        self.in_use.reset();
        for ((node, plugin), count) in in_use {
            self.in_use.with_label_values(&[&node, &plugin]).set(count);
        }
        self.total.reset();
        for (_, volume) in wanted.keys() {
            self.add(volume, "desired_state_of_world");
        }
        for attachment in caches.attachments.list() {
            if let Some(volume) = caches.volume_of(&attachment) {
                self.add(&volume, "actual_state_of_world");
            }
        }
        // Of what nobody has to attach the lists of nodes are all that there is.
        for node in caches.nodes.store().list() {
            let listed = node.status.volumes_attached.iter();
            for held in listed.filter(|held| is_built_in(&held.name)) {
                self.add(&held.name, "actual_state_of_world");
            }
        }
    }

    fn add(&self, volume: &str, state: &str) {
        self.total
            .with_label_values(&[&*plugin_of(volume), state])
            .inc();
    }
}
