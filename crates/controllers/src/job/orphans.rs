//! Pods whose job is gone or finished must not be held by its finalizer.

use std::sync::Arc;

use api::kinds::{Job, Pod};
use api::{Key, Resource};
use futures_util::future::BoxFuture;
use runtime::triggers::resolve_owner;
use runtime::{Error, Next, Reconcile, Store};

use super::snapshot::is_tracked;
use super::writes::release;
use crate::Tools;

pub struct OrphanPods {
    pub tools: Tools,
    pub jobs: Arc<Store<Job>>,
    pub pods: Arc<Store<Pod>>,
}

impl Reconcile for OrphanPods {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(async move {
            if let Some(pod) = self.pods.get(key)
                && is_held_in_vain(&self.jobs, &pod)
            {
                match release(&self.tools.client, &pod).await {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => {}
                }
            }
            Ok(Next::AwaitChange)
        })
    }
}

/// Pure: has the pod a finalizer that no job will remove?
fn is_held_in_vain(jobs: &Store<Job>, pod: &Pod) -> bool {
    if !is_tracked(pod) {
        return false;
    }
    let Some(owner) = pod.metadata.controller() else {
        return true;
    };
    if owner.kind != *Job::TYPE.kind || *owner.api_version != *Job::TYPE.api_version() {
        return false;
    }
    // A job that another controller manages is that controller's business.
    resolve_owner(jobs, &pod.metadata.namespace, owner)
        .is_none_or(|job| job.external_manager().is_none() && job.finished().is_some())
}
