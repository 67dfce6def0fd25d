//! What the simulator holds the controller to: it touches its own slices alone, nobody who follows the slices of a service
//! sees an empty set between two full ones, and at rest they mirror the Endpoints.

use std::collections::BTreeSet;

use api::kinds::{EndpointSlice, Endpoints, Service};
use api::{Key, Resource};

use super::invariants::{is_mirrored, mirrored, ready};
use super::{CONTROLLER, DESCRIPTOR};
use crate::oracle::{Change, Oracle, Verdict, View, World, no_business};
use crate::service_endpoints::reckoning::{
    Followed, FullEndpoints, FullSlice, Supply, ready_in_slices, service_of, slices_of,
};

#[derive(Default)]
pub struct MirroringOracle {
    supply: Supply,
}

impl Oracle for MirroringOracle {
    fn views(&self) -> Vec<View> {
        vec![View::of::<FullEndpoints>(), View::of::<FullSlice>()]
    }

    fn observe(&mut self, world: &World, change: &Change) {
        if ["endpoints", "services"].contains(&&*change.plural) {
            let full = world.store::<FullEndpoints>().list().into_iter();
            let due = full.filter(|held| is_due(world, held));
            let full = due.flat_map(|held| {
                let families = ready(&held).into_iter();
                let full = families.map(|family| Followed::of_family(&held.key(), family));
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
        let is_behind = world.may_lag::<Endpoints>()
            || world.may_lag::<Service>()
            || world.may_lag::<EndpointSlice>();
        let name = "no slices that mirror are empty between two full sets";
        self.supply.check(world, name, &followed, counts, is_behind)
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let config = &world.run.config.endpoint_slice_mirroring_controller;
        let max_addresses = usize::try_from(config.max_endpoints_per_subset).unwrap_or(1);
        let mut expected = BTreeSet::new();
        for endpoints in world.store::<FullEndpoints>().list() {
            if is_due(world, &endpoints) {
                let slices = mirrors_of(world, &endpoints.key());
                mirrored(&endpoints, &slices, max_addresses)?;
                expected.insert(endpoints.key());
            }
        }
        for slice in world.store::<FullSlice>().list() {
            let meta = &slice.metadata;
            let service = slice.service().map(|name| Key::new(&meta.namespace, name));
            if slice.is_managed_by(CONTROLLER) && service.is_some_and(|it| !expected.contains(&it))
            {
                return Err(format!("slice {} mirrors nothing", meta.key()));
            }
        }
        Ok(())
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        self.at_rest(world)
    }
}

/// Endpoints that are mirrored, of a service without a selector.
fn is_due(world: &World, endpoints: &FullEndpoints) -> bool {
    let service = service_of(world, &endpoints.key());
    service.is_some_and(|service| service.spec.selector.iter().next().is_none())
        && is_mirrored(endpoints)
}

fn mirrors_of(world: &World, service: &Key) -> Vec<std::sync::Arc<FullSlice>> {
    let mut slices = slices_of(world, service);
    slices.retain(|slice| slice.is_managed_by(CONTROLLER) && !slice.metadata.is_terminating());
    slices
}
