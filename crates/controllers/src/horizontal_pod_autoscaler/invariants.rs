//! What must hold: whatever an autoscaler scales stays within its bounds, and is never scaled to zero by mistake.

use api::Resource;
use api::conditions;
use api::kinds::{
    Deployment, HorizontalPodAutoscaler, ReplicaSet, ReplicationController, StatefulSet,
};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct AutoscalerOracle;

impl Oracle for AutoscalerOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        if let Some((before, after)) = change.updated::<HorizontalPodAutoscaler>() {
            return match before.spec == after.spec && before.metadata == after.metadata {
                true => Ok(()),
                false => Err(format!(
                    "more than the status of autoscaler {} was changed",
                    after.metadata.key()
                )),
            };
        }
        scaled::<Deployment>(world, change, |target| target.spec.replicas)
            .or_else(|| scaled::<ReplicaSet>(world, change, |target| target.spec.replicas))
            .or_else(|| scaled::<StatefulSet>(world, change, |target| target.spec.replicas))
            .or_else(|| {
                scaled::<ReplicationController>(world, change, |target| target.spec.replicas)
            })
            .unwrap_or_else(|| no_business(DESCRIPTOR.name, change))
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for hpa in world.store::<HorizontalPodAutoscaler>().list() {
            let (namespace, target) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
            if target.kind != "Deployment" || !world.is_namespace_alive(namespace) {
                continue;
            }
            let held = world.store::<Deployment>().find(namespace, &target.name);
            if let Some(held) = held.filter(|held| !held.metadata.is_terminating()) {
                let replicas = held.spec.replicas.unwrap_or(1);
                // Who was scaled to zero is left alone.
                if replicas != 0 {
                    bounded(&hpa, replicas)?;
                    at_its_end(&hpa)?;
                }
            }
        }
        Ok(())
    }

    /// UPSTREAM: that a target is not there is told every period.
    fn may_complain(&self, world: &World) -> bool {
        let autoscalers = world.store::<HorizontalPodAutoscaler>().list();
        autoscalers.iter().any(|hpa| {
            let (namespace, target) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
            let held = world.store::<Deployment>().find(namespace, &target.name);
            target.kind == "Deployment" && held.is_none()
        })
    }
}

/// The target that the controller scaled, if it is of this kind.
fn scaled<K: Resource>(
    world: &World,
    change: &Change,
    replicas: fn(&K) -> Option<i32>,
) -> Option<Verdict> {
    let (before, after) = change.updated::<K>()?;
    let (from, to) = (
        replicas(&before).unwrap_or(1),
        replicas(&after).unwrap_or(1),
    );
    let meta = after.meta();
    let by: Vec<_> = world
        .store::<HorizontalPodAutoscaler>()
        .select(&meta.namespace, |hpa| {
            let target = &hpa.spec.scale_target_ref;
            *target.kind == *K::TYPE.kind && *target.name == *meta.name
        });
    if by.is_empty() {
        return Some(Ok(()));
    }
    // One that has just been changed or deleted may not have been seen so.
    let sight = world.sight(&by);
    let verdicts = by.iter().map(|hpa| {
        bounded(hpa, to)?;
        if hpa.metadata.name.starts_with(CALM) && bounded(hpa, from).is_ok() {
            return Err(format!(
                "{} {} was scaled from {from} to {to} inside the tolerance",
                K::TYPE.kind,
                meta.key()
            ));
        }
        match from == 0 {
            true => Err(format!(
                "{} {} was scaled from zero, where somebody had put it",
                K::TYPE.kind,
                meta.key()
            )),
            false => Ok(()),
        }
    });
    // Of several any one may have been the one.
    let verdict = || verdicts.reduce(Result::or).unwrap_or(Ok(()));
    Some(world.check(BOUNDED, sight, verdict))
}

const BOUNDED: &str = "autoscalers stay within their bounds";
/// How the names of autoscalers begin whose load is within the tolerance.
pub(super) const CALM: &str = "calm-";

/// A window that is still open would end the rest.
fn at_its_end(hpa: &HorizontalPodAutoscaler) -> Verdict {
    let able = conditions::find(&hpa.status.conditions, "AbleToScale");
    match able.is_some_and(|held| held.reason.ends_with("Stabilized")) {
        true => Err(format!(
            "autoscaler {} waits for its window",
            hpa.metadata.key()
        )),
        false => Ok(()),
    }
}

/// Within its bounds, whatever was measured.
fn bounded(hpa: &HorizontalPodAutoscaler, replicas: i32) -> Verdict {
    let (least, most) = (hpa.min_replicas(), hpa.spec.max_replicas);
    match (least..=most).contains(&replicas) {
        true => Ok(()),
        false => Err(format!(
            "the target of autoscaler {} has {replicas} replicas, and {least} to {most} are allowed",
            hpa.metadata.key()
        )),
    }
}
