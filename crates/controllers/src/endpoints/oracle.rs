//! What the simulator holds the controller to: it touches Endpoints alone, and at rest they say what the pods say.

use std::sync::Arc;

use api::kinds::{Endpoints, Pod, Service};

use super::DESCRIPTOR;
use super::invariants::converged;
use super::plan::Snapshot;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct EndpointsOracle;

impl Oracle for EndpointsOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        let endpoints: Option<Arc<Endpoints>> = change.before().or(change.after());
        match endpoints {
            Some(_) => Ok(()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let services = world.store::<Service>().list();
        services.into_iter().try_for_each(|service| {
            let meta = &service.metadata;
            let mut pods = world.store::<Pod>().in_namespace(&meta.namespace);
            pods.retain(|pod| service.selects(&pod.metadata.labels));
            let endpoints = world.store::<Endpoints>().find(&meta.namespace, &meta.name);
            converged(&Snapshot {
                endpoints,
                pods,
                triggered_at: None,
                service,
            })
        })
    }
}
