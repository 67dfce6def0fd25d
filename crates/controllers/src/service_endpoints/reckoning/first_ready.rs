//! Which pods have ever been ready: no other pod may be published as ready, however stale the cache is.

use std::collections::BTreeSet;

use api::kinds::{Pod, Service};
use api::{Key, Resource};

use super::Target;
use crate::oracle::{Change, Sight, Verdict, World};

#[derive(Default)]
pub struct FirstReady {
    /// By uid.
    pods: BTreeSet<String>,
    /// Services that wanted all addresses at some time.
    lenient: BTreeSet<Key>,
}

impl FirstReady {
    pub fn note(&mut self, change: &Change) {
        if let Some(pod) = change.after::<Pod>().filter(|pod| pod.is_ready()) {
            self.pods.insert(pod.metadata.uid.to_string());
        }
        let service = change.after::<Service>();
        if let Some(service) = service.filter(|it| it.spec.publish_not_ready_addresses) {
            self.lenient.insert(service.key());
        }
    }

    /// After a write that lets traffic of a service go to these.
    pub fn check<'a>(
        &self,
        world: &World,
        service: &Key,
        mut published: impl Iterator<Item = &'a Target>,
    ) -> Verdict {
        if self.lenient.contains(service) {
            return Ok(());
        }
        let name = "what is published as ready was ready before";
        world.check(name, Sight::Seen, || {
            match published.find(|target| !self.pods.contains(&target.uid)) {
                Some(target) => Err(format!(
                    "{service}: pod {} is published as ready, and never was",
                    target.name
                )),
                None => Ok(()),
            }
        })
    }
}
