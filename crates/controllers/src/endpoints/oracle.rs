//! What the simulator holds the controller to: it touches Endpoints alone, calls no pod ready that never was, nobody who
//! follows them sees an empty set between two full ones, and at rest they say what the pods say.

use std::sync::Arc;

use api::Resource;
use api::kinds::{ENDPOINT_CONTROLLER, ENDPOINTS_MANAGED_BY, Endpoints, Pod, Service};

use super::DESCRIPTOR;
use super::invariants::{published, ready};
use crate::oracle::{Change, Oracle, Verdict, View, World, no_business};
use crate::service_endpoints::reckoning::{
    FirstReady, Followed, FullEndpoints, Supply, pods_of, publishes_pods, service_of, services,
};

#[derive(Default)]
pub struct EndpointsOracle {
    supply: Supply,
    first_ready: FirstReady,
}

impl Oracle for EndpointsOracle {
    fn views(&self) -> Vec<View> {
        vec![View::of::<FullEndpoints>()]
    }

    fn observe(&mut self, world: &World, change: &Change) {
        self.first_ready.note(change);
        if ["pods", "services"].contains(&&*change.plural) {
            let full = services(world).filter(|(_, service)| {
                publishes_pods(service) && ready(service, &pods_of(world, service)) > 0
            });
            self.supply
                .note(world, full.map(|(key, _)| Followed::whole(&key)));
        }
    }

    fn forget_lost(&mut self) {
        self.supply.forget();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let (before, after) = (
            change.before::<FullEndpoints>(),
            change.after::<FullEndpoints>(),
        );
        let Some(endpoints) = before.as_ref().or(after.as_ref()) else {
            return no_business(DESCRIPTOR.name, change);
        };
        if let Some(after) = &after {
            let published = after.ready_targets();
            self.first_ready.check(world, &after.key(), published)?;
        }
        let count = |held: &Option<Arc<FullEndpoints>>| held.as_ref().map_or(0, |it| it.ready());
        let is_behind =
            world.may_lag::<Pod>() || world.may_lag::<Service>() || world.may_lag::<Endpoints>();
        let name = "no Endpoints are empty between two full ones";
        let counts = (count(&before), count(&after));
        let followed = Followed::whole(&endpoints.key());
        self.supply.check(world, name, &followed, counts, is_behind)
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for (key, service) in services(world) {
            if publishes_pods(&service) {
                let held = world.store::<FullEndpoints>();
                let held = held.find(&key.namespace, &key.name);
                published(&service, &pods_of(world, &service), held.as_deref())?;
            }
        }
        let mut all = world.store::<FullEndpoints>().list().into_iter();
        let is_left = |held: &Arc<FullEndpoints>| {
            let manager = held.metadata.labels.get(ENDPOINTS_MANAGED_BY);
            manager == Some(ENDPOINT_CONTROLLER) && service_of(world, &held.key()).is_none()
        };
        match all.find(is_left) {
            Some(held) => Err(format!("{}: Endpoints are of no service", held.key())),
            None => Ok(()),
        }
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        self.at_rest(world)
    }
}
