//! JobValidation and PodGroupWorkloadExists: what pods that are scheduled together may rely on.
//!
//! Both do nothing where PodGroups and Workloads are not served: then there are none.

use serde_json::Value;

use super::{Context, Operation, Request, built_in};
use crate::fields::{at, list, text};
use crate::status::Status;

const GROUP: &str = "scheduling.k8s.io";

/// A gang has as many pods as it was planned with: the job behind it keeps its `parallelism`.
pub(super) fn check_parallelism(
    context: &Context<'_>,
    request: &Request<'_>,
    job: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let Some(old) = old else { return Ok(()) };
    if request.operation != Operation::Update
        || request.subresource.is_some()
        || !request.is("batch", "Job")
        || at(job, "spec.parallelism") == at(old, "spec.parallelism")
    {
        return Ok(());
    }
    let groups = built_in(GROUP, "PodGroup");
    let named = text(old, "spec.template.spec.schedulingGroup.podGroupName");
    let group = if named.is_empty() {
        let all = context.cluster.list(groups, request.namespace);
        let mut its = all
            .into_iter()
            .filter(|group| is_gang(group) && controls(old, group));
        its.next()
    } else {
        let group = context.cluster.get(groups, request.namespace, named);
        group.filter(|group| is_gang(group))
    };
    match group {
        None => Ok(()),
        Some(group) => Err(request.forbidden(&format!(
            "cannot change parallelism for a Job referencing gang-scheduled PodGroup {:?}",
            text(&group, "metadata.name")
        ))),
    }
}

fn is_gang(group: &Value) -> bool {
    !at(group, "spec.schedulingPolicy.gang").is_null()
}

fn controls(job: &Value, group: &Value) -> bool {
    let mut owners = list(group, "metadata.ownerReferences").iter();
    owners.any(|owner| owner["controller"] == true && owner["uid"] == *at(job, "metadata.uid"))
}

/// A group that says what it was created from says the truth.
pub(super) fn check_template(
    context: &Context<'_>,
    request: &Request<'_>,
    group: &Value,
) -> Result<(), Status> {
    let reference = at(group, "spec.podGroupTemplateRef.workload");
    if request.operation != Operation::Create
        || request.subresource.is_some()
        || !request.is(GROUP, "PodGroup")
        || reference.is_null()
    {
        return Ok(());
    }
    let name = text(reference, "workloadName");
    let template = text(reference, "podGroupTemplateName");
    let workload = built_in(GROUP, "Workload");
    let refused = |why: String| Err(request.forbidden(&format!("PodGroup rejected: {why}")));
    let Some(workload) = context.cluster.get(workload, request.namespace, name) else {
        return refused(format!("Workload {name:?} not found"));
    };
    if !at(&workload, "metadata.deletionTimestamp").is_null() {
        return refused(format!("Workload {name:?} is being deleted"));
    }
    let mut templates = list(&workload, "spec.podGroupTemplates").iter();
    match templates.any(|known| text(known, "name") == template) {
        true => Ok(()),
        false => refused(format!(
            "PodGroupTemplate {template:?} not found in Workload {name:?}"
        )),
    }
}
