//! When the invariants of tainted devices hold.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kinds::{DeviceTaintRule, Pod, ResourceClaim, ResourceSlice};
use api::{Gate, MicroTime, Uid};

use super::DESCRIPTOR;
use super::invariants::{Devices, converged, due};
use crate::oracle::{Change, LAG, Oracle, Verdict, View, World, no_business};

/// Remembers when each pod had to go, and until when that was so.
#[derive(Default)]
pub struct DeviceTaintOracle {
    pods: BTreeMap<Uid, Vec<Due>>,
    changed_at: MicroTime,
}

struct Due {
    at: MicroTime,
    /// None while it is so.
    until: Option<MicroTime>,
}

/// How long an eviction may take once it is due: conflicts, and requests that are tried again.
const SLACK: Duration = Duration::from_secs(30);

impl Oracle for DeviceTaintOracle {
    fn views(&self) -> Vec<View> {
        vec![View::of::<DeviceTaintRule>()]
    }

    fn observe(&mut self, world: &World, change: &Change) {
        let pod = change.after::<Pod>().or(change.before::<Pod>());
        let is_of_pod = pod.is_some_and(|pod| !pod.claims().is_empty());
        let is_of_devices = change.after::<ResourceSlice>().is_some()
            || change.before::<ResourceSlice>().is_some()
            || change.after::<ResourceClaim>().is_some()
            || change.before::<ResourceClaim>().is_some()
            || change.after::<DeviceTaintRule>().is_some()
            || change.before::<DeviceTaintRule>().is_some();
        if !is_of_pod && !is_of_devices {
            return;
        }
        let (now, devices) = (world.now(), devices(world));
        self.changed_at = now;
        for pod in world.store::<Pod>().list() {
            if pod.claims().is_empty() {
                continue;
            }
            let found = due(&pod, &devices);
            let held = self.pods.entry(pod.metadata.uid.clone()).or_default();
            let open = held.iter_mut().find(|held| held.until.is_none());
            match (open, found) {
                (Some(open), Some(at)) if open.at == at => continue,
                (Some(open), _) => open.until = Some(now),
                (None, _) => {}
            }
            if let Some(at) = found {
                held.push(Due { at, until: None });
            }
        }
    }

    fn forget_lost(&mut self) {
        self.pods.clear();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        if let Some(pod) = change.ending::<Pod>() {
            return self.check_evicted(world, &pod);
        }
        if let Some((before, after)) = change.updated::<DeviceTaintRule>() {
            return match before.spec == after.spec {
                true => Ok(()),
                false => Err(format!("rule {} was changed", before.metadata.name)),
            };
        }
        match change.before::<Pod>() {
            // The condition that says why it goes.
            Some(_) => Ok(()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        self.even_if_paused(world)
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        let devices = devices(world);
        let since = self.changed_at.max(world.run.led_since);
        let since = since.plus(SLACK + world.delay());
        let pods = world.store::<Pod>().list();
        pods.iter()
            .filter(|pod| !pod.claims().is_empty())
            .try_for_each(|pod| converged(pod, &devices, since, world.now()))
    }
}

fn devices(world: &World) -> Devices {
    let has_rules = world.run.gates.enabled(Gate::DRADeviceTaintRules);
    Devices {
        claims: world.store::<ResourceClaim>().list(),
        slices: world.store::<ResourceSlice>().list(),
        rules: match has_rules {
            true => world.store::<DeviceTaintRule>().list(),
            false => Vec::new(),
        },
    }
}

impl DeviceTaintOracle {
    /// Had the pod to go, as far as the controller may have seen?
    fn check_evicted(&self, world: &World, pod: &Pod) -> Verdict {
        let now = world.now();
        let may_lag = world.may_lag::<Pod>()
            || world.may_lag::<ResourceClaim>()
            || world.may_lag::<ResourceSlice>()
            || world.may_lag::<DeviceTaintRule>();
        let window = if may_lag { LAG } else { world.reaction() };
        let held = self.pods.get(&pod.metadata.uid);
        let mut held = held.into_iter().flatten();
        let is_due = held.any(|held| {
            let is_over = held.until.is_some_and(|until| now.since(until) > window);
            held.at <= world.latest_now() && !is_over
        });
        match is_due {
            true => Ok(()),
            false => Err(format!(
                "{} was evicted although none of its devices drives it away",
                pod.metadata.key()
            )),
        }
    }
}
