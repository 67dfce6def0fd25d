//! What the caches say about one service.

use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{EndpointSlice, Pod, Service, TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE};
use api::{Gate, Gates, Istr, Time};

use super::topology::{Hinted, Zones};

pub struct Snapshot {
    pub service: Arc<Service>,
    /// The pods that its selector matches.
    pub pods: Vec<Arc<Pod>>,
    /// The zones (empty where unknown) of those nodes of the pods that exist.
    pub nodes: HashMap<Istr, Istr>,
    /// Its slices that we manage, by name, without those that are being deleted.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// When what changes the endpoints happened.
    pub triggered_at: Option<Time>,
    pub max_endpoints: usize,
    /// How much of the cluster's CPU each zone has, for a service that asks for hints by that.
    pub zones: Arc<Zones>,
    /// The hints that its last sync gave by that.
    pub hinted: Hinted,
    pub gates: Gates,
}

/// How an endpoint's traffic is to be kept close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closeness {
    /// By an annotation, in proportion to the CPU of zones.
    Proportional,
    /// By `trafficDistribution`, to the zone of the endpoint, or to its node first.
    Zone,
    Node,
    Nowhere,
}

impl Closeness {
    pub fn of(service: &Service, gates: Gates) -> Closeness {
        if requests_topology(service) {
            return Closeness::Proportional;
        }
        let has_newer = gates.enabled(Gate::PreferSameTrafficDistribution);
        match service.spec.traffic_distribution.as_deref() {
            Some("PreferClose") => Closeness::Zone,
            Some("PreferSameZone") if has_newer => Closeness::Zone,
            Some("PreferSameNode") if has_newer => Closeness::Node,
            _ => Closeness::Nowhere,
        }
    }

    /// Does the service's `trafficDistribution` decide?
    pub fn is_distribution(self) -> bool {
        matches!(self, Closeness::Zone | Closeness::Node)
    }
}

/// The older annotation wins where both are there.
fn requests_topology(service: &Service) -> bool {
    let meta = &service.metadata;
    let mode = meta
        .annotation(TOPOLOGY_AWARE_HINTS)
        .or_else(|| meta.annotation(TOPOLOGY_MODE));
    matches!(mode, Some("Auto" | "auto"))
}
