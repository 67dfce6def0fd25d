//! What must hold of requests and their answers.

use std::time::Duration;

use api::kinds::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};

use super::plan::{is_expired, plan};
use super::{CLEANUP_PERIOD, DESCRIPTOR};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct PoolStatusOracle;

/// How long a deletion may take once it is due, beyond the period.
const SLACK: Duration = Duration::from_secs(60);

impl Oracle for PoolStatusOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        if let Some(request) = change.ending::<ResourcePoolStatusRequest>() {
            return match is_expired(&request, world.latest_now()) {
                true => Ok(()),
                false => Err(format!(
                    "request {} was deleted before its time",
                    request.metadata.name
                )),
            };
        }
        match change.updated::<ResourcePoolStatusRequest>() {
            Some((before, _)) if before.status.is_some() => Err(format!(
                "request {} was answered twice",
                before.metadata.name
            )),
            Some((before, after)) if before.spec != after.spec => Err(format!(
                "the question of request {} was changed",
                before.metadata.name
            )),
            Some(_) => Ok(()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let slices = world.store::<ResourceSlice>().list();
        let claims = world.store::<ResourceClaim>().list();
        let late = world.now().minus(CLEANUP_PERIOD + SLACK);
        for request in world.store::<ResourcePoolStatusRequest>().list() {
            let name = &request.metadata.name;
            let answer = plan(&request.spec, &slices, &claims);
            if request.status.is_none() && answer.incomplete().is_none() {
                return Err(format!("request {name} has no answer"));
            }
            if is_expired(&request, late) && world.run.led_since < late {
                return Err(format!("request {name} is kept for too long"));
            }
        }
        Ok(())
    }
}
