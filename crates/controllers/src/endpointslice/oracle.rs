//! What the simulator holds the controller to: it touches its own slices alone, calls no pod ready that never was, nobody who
//! follows the slices of a service sees an empty set between two full ones, and at rest they say what the pods say.

use api::kinds::{EndpointSlice, Node, Pod, Service};

use super::DESCRIPTOR;
use super::invariants::{NodeZones, published, ready};
use super::ownership::CONTROLLER;
use crate::oracle::{Change, Oracle, Verdict, View, World, no_business};
use crate::service_endpoints::reckoning::{
    FirstReady, Followed, FullSlice, Supply, pods_of, publishes_pods, ready_in_slices, services,
    slices_of,
};

#[derive(Default)]
pub struct EndpointSliceOracle {
    supply: Supply,
    first_ready: FirstReady,
}

impl Oracle for EndpointSliceOracle {
    fn views(&self) -> Vec<View> {
        vec![View::of::<FullSlice>()]
    }

    fn observe(&mut self, world: &World, change: &Change) {
        self.first_ready.note(change);
        if ["pods", "services", "nodes"].contains(&&*change.plural) {
            let zones = zones(world);
            let publishing = services(world).filter(|(_, service)| publishes_pods(service));
            let full = publishing.flat_map(|(key, service)| {
                let families = ready(&service, &pods_of(world, &service), &zones).into_iter();
                let full = families.map(|family| Followed::of_family(&key, family));
                full.collect::<Vec<Followed>>()
            });
            self.supply.note(world, full);
        }
    }

    fn forget_lost(&mut self) {
        self.supply.forget();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let Some((followed, counts)) = ready_in_slices(world, change, CONTROLLER) else {
            return no_business(DESCRIPTOR.name, change);
        };
        if let Some(after) = change.after::<FullSlice>() {
            let published = after.ready_targets();
            self.first_ready
                .check(world, &followed.service, published)?;
        }
        let is_behind = world.may_lag::<Pod>()
            || world.may_lag::<Service>()
            || world.may_lag::<Node>()
            || world.may_lag::<EndpointSlice>();
        let name = "no slices are empty between two full sets";
        self.supply.check(world, name, &followed, counts, is_behind)
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let config = &world.run.config.endpoint_slice_controller;
        let max_endpoints = usize::try_from(config.max_endpoints_per_slice).unwrap_or(1);
        let zones = zones(world);
        for (key, service) in services(world) {
            if !publishes_pods(&service) {
                continue;
            }
            let mut slices = slices_of(world, &key);
            slices.retain(|it| it.is_managed_by(CONTROLLER) && !it.metadata.is_terminating());
            let pods = pods_of(world, &service);
            published(&service, &pods, &zones, &slices, max_endpoints)?;
        }
        Ok(())
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        self.at_rest(world)
    }
}

fn zones(world: &World) -> NodeZones {
    let nodes = world.store::<Node>().list().into_iter();
    nodes
        .map(|node| (node.metadata.name.to_string(), node.zone().to_owned()))
        .collect()
}
