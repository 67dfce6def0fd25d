//! How much of the cluster's CPU each zone has.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Istr;
use api::kinds::Node;

use super::ByZone;
use super::allocation::share_at_least;

/// The share of each zone; none where that cannot be told.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Zones(pub Option<BTreeMap<Istr, f64>>);

/// Nodes that run no pods of users do not count.
const EXCLUDED: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

impl Zones {
    /// Of nodes that are ready. One of them without zone or CPU is enough for not knowing.
    pub fn of(nodes: &[Arc<Node>]) -> Zones {
        let mut by_zone: BTreeMap<Istr, i64> = BTreeMap::new();
        let mut total: i64 = 0;
        for node in nodes {
            let labels = &node.metadata.labels;
            if EXCLUDED.iter().any(|label| labels.contains_key(label)) || !node.is_ready() {
                continue;
            }
            let (zone, cpu) = (node.zone(), node.status.allocatable_millicpu);
            if zone.is_empty() || cpu == 0 {
                return Zones(None);
            }
            total = total.saturating_add(cpu);
            let held = by_zone.entry(Istr::new(zone)).or_default();
            *held = held.saturating_add(cpu);
        }
        if total == 0 || by_zone.len() < 2 {
            return Zones(None);
        }
        let share = |(zone, cpu)| (zone, cpu as f64 / total as f64);
        Zones(Some(by_zone.into_iter().map(share).collect()))
    }
}

/// Has a zone fewer endpoints of a service than it needs, now that nodes have changed?
pub fn is_overloaded(by_zone: &ByZone, zones: &Zones) -> bool {
    if by_zone.is_empty() {
        return false;
    }
    let Some(zones) = &zones.0 else {
        return true;
    };
    let total: usize = by_zone.values().sum();
    zones.iter().any(|(zone, share)| {
        let held = by_zone.get(zone);
        held.is_none_or(|held| *held < share_at_least(share * total as f64))
    })
}
