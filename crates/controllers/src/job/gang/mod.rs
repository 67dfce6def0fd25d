//! Gangs: jobs whose pods are of use only together get a Workload and a PodGroup, by which the scheduler places all of
//! them or none. Behind the gate `WorkloadWithJob`.
//!
//! A job is a candidate if it is indexed, all of its indexes run at once, there are at least two, and its template names
//! no group already. It gets the two objects before its first pod; each pod then names the group. The Workload says how
//! many pods a group needs, the group is created from its template.
//!
//! **Falls back** to pods that are scheduled one by one where somebody else has a say: Workloads or groups that others
//! control, several of them, a Workload of another shape, or a job that began before there was a Workload. A group that
//! was deleted is created again, a Workload is not.
//!
//! Who may change what later is the API server's to say: the plugin `JobValidation` keeps `parallelism` as it is.

mod apply;
mod bodies;
mod names;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::{Line, counted};
use api::kinds::{Job, Pod, PodGroup, Workload};
use api::{Gate, Istr, ObjectId};
use runtime::{Context, Index, IndexValue, Store};

use super::status::SUSPENDED;

use self::names::{pod_group_name, template_name, workload_name};

/// Workloads by the Job that they name. The name may be another job's by now: owner references decide.
const WORKLOADS_BY_JOB: Index<Workload> = Index {
    name: "of job",
    values: |workload, found| {
        if let Some(job) = workload.job() {
            let namespace = workload.metadata.namespace.clone();
            found(IndexValue::In(namespace, job.clone()));
        }
    },
};

/// Groups by the Workload that they were created from.
const GROUPS_BY_WORKLOAD: Index<PodGroup> = Index {
    name: "of workload",
    values: |group, found| {
        if !group.workload.is_empty() {
            let namespace = group.metadata.namespace.clone();
            found(IndexValue::In(namespace, group.workload.clone()));
        }
    },
};

/// The caches of both kinds: only where the gate is on, since the API server may not know them otherwise.
pub struct GangCaches {
    workloads: Arc<Store<Workload>>,
    groups: Arc<Store<PodGroup>>,
}

impl GangCaches {
    pub fn new(context: &Context) -> Option<GangCaches> {
        if !context.gates.enabled(Gate::WorkloadWithJob) {
            return None;
        }
        let workloads = context.informers.of::<Workload>();
        workloads.add_index(&WORKLOADS_BY_JOB);
        let groups = context.informers.of::<PodGroup>();
        groups.add_index(&GROUPS_BY_WORKLOAD);
        Some(GangCaches {
            workloads: workloads.store().clone(),
            groups: groups.store().clone(),
        })
    }

    /// What there is for a job that is a candidate.
    pub fn observe(&self, job: &Job) -> Option<Found> {
        if !is_candidate(job) {
            return None;
        }
        let namespace = &job.metadata.namespace;
        let of = |name: &str| IndexValue::In(namespace.clone(), Istr::new(name));
        let workloads = self
            .workloads
            .by(&WORKLOADS_BY_JOB, &of(&job.metadata.name));
        let groups = match &*workloads {
            [workload] => {
                let name = of(&workload.metadata.name);
                self.groups.by(&GROUPS_BY_WORKLOAD, &name)
            }
            _ => Vec::new(),
        };
        Some(Found { workloads, groups })
    }
}

/// Workloads that name a job, and the groups of the only one.
#[derive(Default)]
pub struct Found {
    pub workloads: Vec<Arc<Workload>>,
    pub groups: Vec<Arc<PodGroup>>,
}

/// How the pods of a job are scheduled.
#[derive(Debug)]
pub enum Gang {
    /// One by one: the job is no candidate, or the gate is off.
    NotACandidate,
    /// One by one, though the job is a candidate.
    FallsBack(Fallback),
    /// Together, after a Workload and a PodGroup of these names are created.
    CreateBoth { workload: String, group: String },
    /// Together, after the PodGroup of this Workload is created.
    CreateGroup {
        workload: Arc<Workload>,
        group: String,
    },
    /// Together, by this group.
    Has(Arc<PodGroup>),
}

/// Why pods are scheduled one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The job began without a Workload, or was suspended before it had one.
    BeganBefore,
    BeingDeleted,
    SeveralWorkloads(usize),
    WorkloadOfAnother(Istr),
    /// A Workload with this many templates, where one is expected.
    Templates(Istr, usize),
    SeveralGroups(usize),
    GroupOfAnother(Istr),
}

/// Is the job of the shape that gangs have?
pub fn is_candidate(job: &Job) -> bool {
    let parallelism = job.spec.parallelism;
    parallelism.is_some_and(|pods| pods > 1)
        && job.spec.completions == parallelism
        && job.is_indexed()
        && !names_a_group(job)
}

/// A template that names a group opts out: somebody else takes care of it.
fn names_a_group(job: &Job) -> bool {
    let template = job.spec.template.node();
    let group = template.get(&["spec", "schedulingGroup"]);
    group.is_some_and(|group| !group.is_null())
}

pub fn plan(job: &Job, pods: &[Arc<Pod>], found: Option<&Found>) -> Gang {
    let Some(Found { workloads, groups }) = found else {
        return Gang::NotACandidate;
    };
    let uid = &job.metadata.uid;
    let leaves = job.metadata.is_terminating();
    let workload = match &**workloads {
        [] if leaves => return Gang::FallsBack(Fallback::BeingDeleted),
        [] if has_begun(job, pods) => return Gang::FallsBack(Fallback::BeganBefore),
        [] => return create_both(job),
        [workload] => workload,
        several => return Gang::FallsBack(Fallback::SeveralWorkloads(several.len())),
    };
    let name = || Istr::new(&workload.metadata.name);
    if !workload.metadata.is_controlled_by(uid) {
        return Gang::FallsBack(Fallback::WorkloadOfAnother(name()));
    }
    let [template] = &*workload.spec.pod_group_templates else {
        let templates = workload.spec.pod_group_templates.len();
        return Gang::FallsBack(Fallback::Templates(name(), templates));
    };
    match &**groups {
        [] if leaves => Gang::FallsBack(Fallback::BeingDeleted),
        [] => Gang::CreateGroup {
            group: pod_group_name(&workload.metadata.name, &template.name),
            workload: workload.clone(),
        },
        [group] if group.metadata.is_controlled_by(uid) => Gang::Has(group.clone()),
        [group] => {
            let name = Istr::new(&group.metadata.name);
            Gang::FallsBack(Fallback::GroupOfAnother(name))
        }
        several => Gang::FallsBack(Fallback::SeveralGroups(several.len())),
    }
}

fn create_both(job: &Job) -> Gang {
    let workload = workload_name(job);
    Gang::CreateBoth {
        group: pod_group_name(&workload, &template_name(job)),
        workload,
    }
}

/// UPSTREAM: each sign alone has gaps. Pods may be gone, the start time is taken back when the job is suspended; then the
/// counts and the condition, even one that no longer holds, still tell.
fn has_begun(job: &Job, pods: &[Arc<Pod>]) -> bool {
    let status = &job.status;
    let mut conditions = status.conditions.iter();
    !pods.is_empty()
        || status.start_time.is_some()
        || status.succeeded != 0
        || status.failed != 0
        || conditions.any(|condition| condition.type_ == SUSPENDED)
}

impl Gang {
    /// What is worth a line of the decision: what is created, and why pods come one by one after all.
    pub fn line(&self) -> Option<Line> {
        let together = "its pods are to be scheduled together";
        match self {
            Gang::NotACandidate | Gang::Has(_) => None,
            Gang::CreateBoth { workload, group } => {
                let what = format!("creates Workload {workload} and PodGroup {group}");
                Some(Line::acts("CreatesGang", what).because(together))
            }
            Gang::CreateGroup { workload, group } => {
                let line = Line::acts("CreatesGang", format!("creates PodGroup {group}"))
                    .about(ObjectId::of(&**workload));
                Some(line.because(together))
            }
            Gang::FallsBack(why) => {
                let what = "has its pods scheduled one by one";
                Some(Line::states("NoGang", what).because(why.to_string()))
            }
        }
    }
}

impl std::fmt::Display for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fallback::BeganBefore => f.write_str("it began before it had a Workload"),
            Fallback::BeingDeleted => f.write_str("it is being deleted"),
            Fallback::SeveralWorkloads(count) => write!(f, "{count} Workloads name it"),
            Fallback::WorkloadOfAnother(name) => {
                write!(f, "Workload {name} names it and is not controlled by it")
            }
            Fallback::Templates(name, count) => {
                let templates = counted(*count, "template");
                write!(f, "Workload {name} has {templates} of pod groups, not one")
            }
            Fallback::SeveralGroups(count) => {
                write!(f, "its Workload has {count} PodGroups")
            }
            Fallback::GroupOfAnother(name) => {
                write!(f, "PodGroup {name} of its Workload is not controlled by it")
            }
        }
    }
}
