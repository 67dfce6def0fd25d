//! What the simulator holds the controller to: it touches its own slices alone, and at rest they say what the pods say.

use std::sync::Arc;

use api::Istr;
use api::collections::HashMap;
use api::kinds::{EndpointSlice, Node, Pod, Service};

use super::DESCRIPTOR;
use super::invariants::converged;
use super::ownership::is_managed;
use super::snapshot::Snapshot;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};
use crate::service_endpoints::slices::service_of;

#[derive(Default)]
pub struct EndpointSliceOracle;

impl Oracle for EndpointSliceOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        let slice = change.before().or(change.after());
        match slice.filter(|slice: &Arc<EndpointSlice>| is_managed(slice)) {
            Some(_) => Ok(()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let services = world.store::<Service>().list();
        let maximum = world
            .run
            .config
            .endpoint_slice_controller
            .max_endpoints_per_slice;
        let max_endpoints = usize::try_from(maximum).unwrap_or(1).max(1);
        services
            .into_iter()
            .try_for_each(|service| converged(&snapshot(world, service, max_endpoints)))
    }
}

/// The service as the server has it, with its pods and slices.
fn snapshot(world: &World, service: Arc<Service>, max_endpoints: usize) -> Snapshot {
    let namespace = service.metadata.namespace.clone();
    let mut pods = world.store::<Pod>().in_namespace(&namespace);
    pods.retain(|pod| service.selects(&pod.metadata.labels));
    let mut slices = world.store::<EndpointSlice>().in_namespace(&namespace);
    slices.retain(|slice| {
        let is_of = service_of(slice).is_some_and(|key| *key.name == *service.metadata.name);
        is_of && is_managed(slice) && !slice.metadata.is_terminating()
    });
    let nodes = world.store::<Node>().list();
    let zones = nodes.iter().map(|node| {
        let name = Istr::new(&node.metadata.name);
        (name, Istr::new(node.zone()))
    });
    Snapshot {
        gates: api::Gates::default(),
        nodes: zones.collect::<HashMap<_, _>>(),
        triggered_at: None,
        max_endpoints,
        zones: Arc::default(),
        hinted: Default::default(),
        service,
        pods,
        slices,
    }
}
