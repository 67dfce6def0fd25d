//! What is sent to create a Workload and a PodGroup.

use api::Resource;
use api::kinds::{Job, PodGroup, Workload};
use serde_json::{Value, json};

use super::names::{pod_group_name, template_name, workload_name};
use crate::workload::claim::controller_reference;

/// One template for all pods of the job: all of them, or none.
pub fn workload(job: &Job) -> Value {
    json!({
        "apiVersion": Workload::TYPE.api_version(),
        "kind": Workload::TYPE.kind,
        "metadata": {
            "name": workload_name(job), "namespace": job.metadata.namespace,
            "ownerReferences": [controller_reference(job)],
        },
        "spec": {
            "controllerRef": {
                "apiGroup": Job::TYPE.group, "kind": Job::TYPE.kind, "name": job.metadata.name,
            },
            "podGroupTemplates": [{
                "name": template_name(job),
                "schedulingPolicy": {"gang": {"minCount": job.parallelism()}},
            }],
        },
    })
}

/// The group of the first template; none where the Workload has no template.
pub fn pod_group(job: &Job, workload: &Workload) -> Option<Value> {
    let template = workload.spec.pod_group_templates.first()?;
    let (name, uid) = (&workload.metadata.name, &workload.metadata.uid);
    let policy: Value = serde_json::from_str(template.scheduling_policy.raw()).ok()?;
    Some(json!({
        "apiVersion": PodGroup::TYPE.api_version(),
        "kind": PodGroup::TYPE.kind,
        "metadata": {
            "name": pod_group_name(name, &template.name), "namespace": job.metadata.namespace,
            // It does not block the deletion of the Workload: only its controller is the job.
            "ownerReferences": [controller_reference(job), {
                "apiVersion": Workload::TYPE.api_version(), "kind": Workload::TYPE.kind,
                "name": name, "uid": uid,
            }],
        },
        "spec": {
            "podGroupTemplateRef": {
                "workload": {"workloadName": name, "podGroupTemplateName": template.name},
            },
            "schedulingPolicy": policy,
        },
    }))
}
