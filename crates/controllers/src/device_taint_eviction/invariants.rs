//! What must hold of pods whose devices are tainted. Pure, and reckoned apart from the code that the controller goes by.

use std::sync::Arc;

use api::MicroTime;
use api::kinds::{DeviceTaintRule, Pod, ResourceClaim, ResourceSlice};
use api::taints::{Taint, TaintEffect, Toleration, TolerationOperator};

use crate::oracle::Verdict;

/// Everything that has to do with devices, as it is.
pub struct Devices {
    pub claims: Vec<Arc<ResourceClaim>>,
    pub slices: Vec<Arc<ResourceSlice>>,
    pub rules: Vec<Arc<DeviceTaintRule>>,
}

/// From when on the pod must not be there. None if nothing drives it away.
pub fn due(pod: &Pod, devices: &Devices) -> Option<MicroTime> {
    if pod.node_name.is_empty() {
        return None;
    }
    let meta = &pod.metadata;
    let names: Vec<&str> = pod
        .claims()
        .iter()
        .filter_map(|entry| entry.claim_name().map(|name| name.as_str()))
        .collect();
    let used = devices.claims.iter().filter(|claim| {
        let mut consumers = claim.status.reserved_for.iter();
        claim.metadata.namespace == meta.namespace
            && names.contains(&&*claim.metadata.name)
            && consumers.any(|consumer| consumer.uid == meta.uid)
    });
    let mut first: Option<MicroTime> = None;
    for claim in used {
        for result in claim
            .status
            .allocation
            .iter()
            .flat_map(|it| it.devices.results.iter())
        {
            let place = (&*result.driver, &*result.pool, &*result.device);
            for taint in taints_of(place, devices) {
                let Some(added) = taint.time_added else {
                    continue;
                };
                if let Some(seconds) = patience(&result.tolerations, &taint) {
                    let at = added.micro().plus(std::time::Duration::from_secs(seconds));
                    first = first.into_iter().chain([at]).min();
                }
            }
        }
    }
    first
}

fn taints_of(place: (&str, &str, &str), devices: &Devices) -> Vec<Taint> {
    let (driver, pool, name) = place;
    let of_pool = || {
        let slices = devices.slices.iter();
        slices.filter(|slice| slice.spec.driver == *driver && slice.spec.pool.name == *pool)
    };
    let latest = of_pool().map(|slice| slice.spec.pool.generation).max();
    let published = of_pool()
        .filter(|slice| Some(slice.spec.pool.generation) == latest)
        .flat_map(|slice| slice.spec.devices.iter())
        .filter(|device| device.name == *name)
        .flat_map(|device| device.taints.iter().cloned());
    let ruled = devices.rules.iter();
    let ruled = ruled
        .filter(|rule| rule.selects(driver, pool, name))
        .map(|rule| rule.spec.taint.clone());
    let all = published.chain(ruled);
    all.filter(|taint| taint.effect == TaintEffect::NoExecute)
        .collect()
}

/// How many seconds a taint is put up with; none if it is for ever.
fn patience(tolerations: &[Toleration], taint: &Taint) -> Option<u64> {
    let covers = |it: &&Toleration| {
        it.effect == TaintEffect::NoExecute
            && (it.key.is_empty() || it.key == taint.key)
            && (it.operator == TolerationOperator::Exists || it.value == taint.value)
    };
    let covering: Vec<&Toleration> = tolerations.iter().filter(covers).collect();
    let times: Option<Vec<i64>> = covering.iter().map(|it| it.toleration_seconds).collect();
    let least = times?.into_iter().min().unwrap_or(0);
    Some(u64::try_from(least).unwrap_or(0))
}

/// Nobody uses a device that has driven them away: `since` is from when on the controller could know.
pub fn converged(pod: &Pod, devices: &Devices, since: MicroTime, now: MicroTime) -> Verdict {
    if pod.metadata.is_terminating() {
        return Ok(());
    }
    match due(pod, devices) {
        Some(at) if at.max(since) < now => Err(format!(
            "{} still uses a device that is tainted",
            pod.metadata.key()
        )),
        _ => Ok(()),
    }
}
