//! Which devices there are for a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Istr;

use crate::devices::{Device, DeviceId, Place, ResourceSlice};
use crate::node::Node;

/// The devices of one driver that are handed out together.
pub(super) struct NodePool {
    pub(super) driver: Istr,
    pub(super) name: Istr,
    pub(super) state: PoolState,
    pub(super) devices: Vec<NodeDevice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    Usable,
    /// Not all of its slices are there yet.
    Incomplete,
    /// A name is there twice.
    Invalid,
}

#[derive(Clone)]
pub(super) struct NodeDevice {
    pub(super) id: DeviceId,
    slice: Arc<ResourceSlice>,
    at: usize,
}

impl NodeDevice {
    pub(super) fn device(&self) -> &Device {
        &self.slice.spec.devices[self.at]
    }

    /// Where it can be reached: the slice says so, or else the device itself.
    pub(super) fn place(&self) -> &Place {
        match self.slice.spec.per_device_node_selection {
            Some(true) => &self.device().place,
            _ => &self.slice.spec.place,
        }
    }
}

/// The pools that have devices for a node, by driver and name.
///
/// UPSTREAM: a pool is complete when as many slices of its newest generation are there as each of them says.
pub(super) fn of_node(slices: &[Arc<ResourceSlice>], node: &Node) -> Vec<NodePool> {
    let mut pools: BTreeMap<(Istr, Istr), Vec<&Arc<ResourceSlice>>> = BTreeMap::new();
    for slice in slices {
        let spec = &slice.spec;
        let key = (spec.driver.clone(), spec.pool.name.clone());
        pools.entry(key).or_default().push(slice);
    }
    let pools = pools
        .into_iter()
        .filter_map(|((driver, name), mut slices)| {
            let newest = slices.iter().map(|one| one.spec.pool.generation).max()?;
            slices.retain(|slice| slice.spec.pool.generation == newest);
            slices.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
            let complete = slices.len() == slices[0].spec.pool.resource_slice_count;
            let devices: Vec<NodeDevice> = slices.iter().flat_map(|slice| all(slice)).collect();
            let reachable: Vec<NodeDevice> = devices
                .iter()
                .filter(|device| reaches(device.place(), node))
                .cloned()
                .collect();
            if reachable.is_empty() {
                return None;
            }
            let mut names: Vec<&Istr> = devices.iter().map(|device| &device.id.device).collect();
            names.sort();
            let state = match (complete, names.windows(2).any(|two| two[0] == two[1])) {
                (false, _) => PoolState::Incomplete,
                (true, true) => PoolState::Invalid,
                (true, false) => PoolState::Usable,
            };
            Some(NodePool {
                driver,
                name,
                state,
                devices: reachable,
            })
        });
    pools.collect()
}

fn all(slice: &Arc<ResourceSlice>) -> impl Iterator<Item = NodeDevice> + '_ {
    let spec = &slice.spec;
    (0..spec.devices.len()).map(move |at| NodeDevice {
        id: DeviceId {
            driver: spec.driver.clone(),
            pool: spec.pool.name.clone(),
            device: spec.devices[at].name.clone(),
        },
        slice: slice.clone(),
        at,
    })
}

fn reaches(place: &Place, node: &Node) -> bool {
    if let Some(name) = &place.node_name {
        return **name == *node.name();
    }
    if place.all_nodes == Some(true) {
        return true;
    }
    let selector = place.node_selector.as_ref();
    selector.is_some_and(|selector| {
        let selector = selector.compile();
        selector
            .matches(node.name(), node.labels())
            .unwrap_or(false)
    })
}
