//! What happens while the preview runs: recorded as it comes, evaluated afterwards.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use api::ObjectId;
use api::decision::Line;
use api::kinds::{Deployment, Job, PersistentVolumeClaim, Phase, Pod, ReplicaSet};
use api::{Clock, Key, MicroTime, Resource, Time, Uid};
use controllers::cronjob::scheduled_for;
use runtime::{Change, Informers};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kinds::Kind;

/// Shared by all who listen.
#[derive(Clone)]
pub(crate) struct Log {
    clock: Clock,
    /// Notified when a pod is gone or finished: quotas have to be counted again.
    pub(crate) freed: Arc<Notify>,
    inner: Arc<Mutex<Noted>>,
}

#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) pods: BTreeMap<Uid, PodLife>,
    /// ReplicaSets and who controls them.
    pub(crate) sets: BTreeMap<Uid, (Key, Option<Uid>)>,
    pub(crate) decisions: Vec<Noticed>,
    pub(crate) claims_deleted: Vec<(MicroTime, Key)>,
    /// Deployments that exceeded their progress deadline, and when.
    pub(crate) timed_out: BTreeMap<Uid, MicroTime>,
    /// Jobs that were deleted after they finished, by ttlSecondsAfterFinished; by uid.
    pub(crate) finished_jobs: BTreeMap<String, Value>,
    pub(crate) jobs: BTreeMap<Uid, JobLife>,
    /// Counts what changed.
    pub(crate) changes: u64,
    pub(crate) changed_at: MicroTime,
}

/// A decision as it was made.
#[derive(Clone, Debug)]
pub(crate) struct Noticed {
    pub(crate) at: MicroTime,
    pub(crate) object: ObjectId,
    pub(crate) lines: Vec<Line>,
}

/// The life of a Job, as far as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct JobLife {
    pub(crate) key: Key,
    pub(crate) owner: Option<Uid>,
    pub(crate) created: MicroTime,
    /// The time of its CronJob's schedule that it is for.
    pub(crate) scheduled: Option<Time>,
    /// When it ended, and whether well.
    pub(crate) finished: Option<(MicroTime, bool)>,
    /// When it was deleted while it was at work.
    pub(crate) deleted: Option<MicroTime>,
}

/// The life of a pod, as far as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct PodLife {
    pub(crate) key: Key,
    pub(crate) owner: Option<Uid>,
    /// What tells the pods of one template from those of another.
    pub(crate) hash: String,
    pub(crate) created: MicroTime,
    /// When it became ready and when it ceased to be, in turn.
    pub(crate) ready: Vec<MicroTime>,
    /// It was asked to stop, ended, or vanished.
    pub(crate) left: Option<MicroTime>,
    /// Why somebody took its place away: `PreemptionByScheduler`.
    pub(crate) disrupted: Option<String>,
    /// It ended by itself, well or not.
    pub(crate) finished_well: Option<bool>,
}

/// More than anybody reads; what keeps changing for hours must not fill the memory.
const DECISIONS_MAX: usize = 100_000;

impl Log {
    pub(crate) fn new(clock: Clock) -> Log {
        Log {
            clock,
            freed: Arc::default(),
            inner: Arc::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Noted> {
        self.inner.lock()
    }

    /// For [`runtime::Decisions::heard_by`].
    pub(crate) fn record_decision(
        &self,
        controller: &str,
        object: &ObjectId,
        at: MicroTime,
        lines: &[Line],
    ) {
        let mut noted = self.lock();
        let is_shown = controllers::find(controller).is_some_and(|found| found.in_preview);
        if !is_shown || noted.decisions.len() >= DECISIONS_MAX {
            return;
        }
        noted.decisions.push(Noticed {
            at,
            object: object.clone(),
            lines: lines.to_vec(),
        });
    }

    pub(crate) fn listen(&self, informers: &Informers) {
        for completion in Kind::all().filter_map(Kind::completion) {
            (completion.listen)(self, informers);
        }
        let log = self.clone();
        informers
            .of::<PersistentVolumeClaim>()
            .on_change(move |change| {
                if let Change::Deleted(claim) = change {
                    let key = claim.key();
                    log.note(|noted, now| noted.claims_deleted.push((now, key)));
                }
            });
    }

    pub(crate) fn listen_to_pods(&self, informers: &Informers) {
        let log = self.clone();
        informers
            .of::<Pod>()
            .on_change(move |change| log.pod_changed(&change));
    }

    pub(crate) fn listen_to_sets(&self, informers: &Informers) {
        let log = self.clone();
        informers.of::<ReplicaSet>().on_change(move |change| {
            let meta = &change.object().metadata;
            let owner = meta.controller().map(|owner| owner.uid.clone());
            log.note(|noted, _| {
                noted.sets.insert(meta.uid.clone(), (meta.key(), owner));
            });
        });
    }

    pub(crate) fn listen_to_deployments(&self, informers: &Informers) {
        let log = self.clone();
        informers.of::<Deployment>().on_change(move |change| {
            let deployment = change.object();
            let timed_out = deployment.status.conditions.iter().any(|held| {
                held.type_ == "Progressing" && held.reason == "ProgressDeadlineExceeded"
            });
            log.note(|noted, now| {
                let uid = &deployment.metadata.uid;
                if timed_out {
                    noted.timed_out.entry(uid.clone()).or_insert(now);
                } else {
                    noted.timed_out.remove(uid);
                }
            });
        });
    }

    pub(crate) fn listen_to_jobs(&self, informers: &Informers) {
        let log = self.clone();
        informers
            .of::<Job>()
            .on_change(move |change| log.job_changed(&change));
    }

    /// These say by themselves how far they are; that they changed is all that is noted.
    pub(crate) fn listen_to_status<K: Resource>(&self, informers: &Informers) {
        let log = self.clone();
        informers.of::<K>().on_change(move |_| log.note(|_, _| {}));
    }

    fn note(&self, write: impl FnOnce(&mut Noted, MicroTime)) {
        let now = self.clock.now();
        let mut noted = self.lock();
        noted.changes += 1;
        noted.changed_at = now;
        write(&mut noted, now);
    }

    fn job_changed(&self, change: &Change<'_, Job>) {
        self.note(|noted, now| {
            let job = change.object();
            let life = noted.jobs.entry(job.metadata.uid.clone());
            let life = life.or_insert_with(|| JobLife {
                key: job.key(),
                owner: job.metadata.controller().map(|owner| owner.uid.clone()),
                created: now,
                scheduled: scheduled_for(job),
                finished: None,
                deleted: None,
            });
            let is_leaving = job.metadata.is_terminating() || matches!(change, Change::Deleted(_));
            let is_open = life.finished.is_none() && life.deleted.is_none();
            match job.finished() {
                Some(end) if is_open => life.finished = Some((now, end.type_ == "Complete")),
                None if is_open && is_leaving => life.deleted = Some(now),
                _ => {}
            }
            if let Change::Deleted(job) = change
                && job.finished().is_some()
            {
                let (meta, spec) = (&job.metadata, &job.spec);
                let last = json!({
                    "apiVersion": "batch/v1", "kind": "Job",
                    "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
                    "spec": {"completions": spec.completions, "parallelism": spec.parallelism},
                    "status": {"conditions": job.status.conditions},
                });
                noted.finished_jobs.insert(meta.uid.to_string(), last);
            }
        });
    }

    fn pod_changed(&self, change: &Change<'_, Pod>) {
        let pod = change.object();
        self.note(|noted, now| {
            let life = noted
                .pods
                .entry(pod.metadata.uid.clone())
                .or_insert_with(|| PodLife::new(pod, now));
            let gone = matches!(change, Change::Deleted(_));
            life.see(pod, gone, now);
            if gone || pod.is_finished() {
                self.freed.notify_one();
            }
        });
    }
}

impl PodLife {
    fn new(pod: &Pod, now: MicroTime) -> PodLife {
        let label = |key: &str| pod.metadata.labels.get(key).map(str::to_owned);
        PodLife {
            key: pod.key(),
            owner: pod.metadata.controller().map(|owner| owner.uid.clone()),
            hash: label("pod-template-hash")
                .or_else(|| label("controller-revision-hash"))
                .unwrap_or_default(),
            created: now,
            ready: Vec::new(),
            left: None,
            disrupted: None,
            finished_well: None,
        }
    }

    fn see(&mut self, pod: &Pod, gone: bool, now: MicroTime) {
        // A pod may lose its owner, or find one.
        self.owner = pod.metadata.controller().map(|owner| owner.uid.clone());
        let leaves = gone || pod.is_terminating() || pod.is_finished();
        let ready = pod.is_ready() && !leaves;
        if ready != self.is_ready() {
            self.ready.push(now);
        }
        if leaves && self.left.is_none() {
            self.left = Some(now);
        }
        let disruption = pod.condition("DisruptionTarget");
        if let Some(disruption) = disruption.filter(|one| one.status == "True") {
            self.disrupted = Some(disruption.reason.to_string());
        }
        // How a pod ends that is being deleted says nothing about its work.
        if pod.is_finished() && !pod.metadata.is_terminating() {
            self.finished_well = Some(pod.status.phase == Phase::Succeeded);
        }
    }

    fn is_ready(&self) -> bool {
        self.ready.len() % 2 == 1
    }
}
