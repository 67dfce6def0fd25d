//! What the simulator holds the controller to: it touches its own slices alone, and at rest they mirror the Endpoints.

use std::sync::Arc;

use api::kinds::{EndpointSlice, Endpoints, MANAGED_BY, SERVICE_NAME, Service};

use super::invariants::converged;
use super::plan::Snapshot;
use super::{CONTROLLER, DESCRIPTOR, repack};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct MirroringOracle;

impl Oracle for MirroringOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        let slice = change.before().or(change.after());
        match slice.filter(|slice: &Arc<EndpointSlice>| is_ours(slice)) {
            Some(_) => Ok(()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let config = &world.run.config.endpoint_slice_mirroring_controller;
        let max_addresses = usize::try_from(config.max_endpoints_per_subset).unwrap_or(1);
        for endpoints in world.store::<Endpoints>().list() {
            let meta = &endpoints.metadata;
            let service = world.store::<Service>().find(&meta.namespace, &meta.name);
            let is_bare = service.is_some_and(|service| service.spec.selector.is_empty());
            let Some(subsets) = endpoints.subsets() else {
                continue;
            };
            if !is_bare || !endpoints.is_mirrored() {
                continue;
            }
            let mut slices = world.store::<EndpointSlice>().in_namespace(&meta.namespace);
            slices.retain(|slice| {
                let service = slice.metadata.labels.get(SERVICE_NAME);
                is_ours(slice) && service == Some(&*meta.name)
            });
            slices.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
            converged(&Snapshot {
                subsets: repack(&subsets),
                max_addresses,
                endpoints: &endpoints,
                slices,
            })?;
        }
        Ok(())
    }
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.metadata.labels.get(MANAGED_BY) == Some(CONTROLLER)
}
