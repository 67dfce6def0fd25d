//! Pods whose job is gone or finished must not be held by its finalizer.

use std::sync::Arc;

use api::kinds::{Job, Pod};
use api::{Gates, Key, Resource};
use runtime::triggers::resolve_owner;
use runtime::{Context, Error, Next, Reconcile, Report, Store};

use super::snapshot::is_tracked;
use super::writes::remove_finalizer;

pub struct OrphanPods {
    pub context: Context,
    pub jobs: Arc<Store<Job>>,
    pub pods: Arc<Store<Pod>>,
}

impl Reconcile for OrphanPods {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        if let Some(pod) = self.pods.get(key)
            && is_held_in_vain(&self.jobs, &pod, self.context.gates)
        {
            match remove_finalizer(&self.context.client, &pod).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Next::AwaitChange)
    }
}

/// Pure: has the pod a finalizer that no job will remove?
fn is_held_in_vain(jobs: &Store<Job>, pod: &Pod, gates: Gates) -> bool {
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
        .is_none_or(|job| job.external_manager(gates).is_none() && job.finished().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    // Upstream: TestSyncOrphanPod.
    #[test]
    fn only_pods_of_a_running_managed_job_are_kept() {
        let jobs = Store::new();
        let put = |name: &str, spec: Value, status: Value| {
            let meta = json!({"name": name, "namespace": "default", "uid": name});
            let job = json!({"metadata": meta, "spec": spec, "status": status});
            jobs.put(Arc::new(Job::decode(job.to_string().as_bytes()).unwrap()));
        };
        let over = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        let others = json!({"managedBy": "example.com/other"});
        put("runs", json!({}), json!({}));
        put("over", json!({}), over.clone());
        put("others", others, over);
        let held = |api_version: &str, kind: &str, name: &str, controller: bool| {
            let owner = json!({
                "apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": controller,
            });
            let meta = json!({
                "name": "p", "namespace": "default", "uid": "p", "ownerReferences": [owner],
                "finalizers": ["batch.kubernetes.io/job-tracking"],
            });
            let pod = Pod::decode(json!({"metadata": meta}).to_string().as_bytes()).unwrap();
            is_held_in_vain(&jobs, &pod, Gates::default())
        };
        assert!(!held("batch/v1", "Job", "runs", true));
        assert!(held("batch/v1", "Job", "runs", false), "nobody controls it");
        assert!(held("batch/v1", "Job", "over", true));
        assert!(held("batch/v1", "Job", "gone", true));
        assert!(!held("batch/v1", "Job", "others", true));
        assert!(!held("batch/v1", "CronJob", "gone", true));
        assert!(!held("example/v1", "Job", "gone", true));
        let free = Pod::decode(br#"{"metadata":{"name":"p"}}"#).unwrap();
        assert!(
            !is_held_in_vain(&jobs, &free, Gates::default()),
            "has no finalizer"
        );
    }
}
