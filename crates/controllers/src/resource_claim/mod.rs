//! Claims for devices: created for pods, and given back when nobody uses them. A small controller, behind the gate
//! `DynamicResourceAllocation`.
//!
//! **Converges**: each claim that a pod takes from a template is there, with a generated name that the pod's status tells,
//! controlled by the pod; pods that somebody bound without the scheduler are among the consumers of their claims; no
//! consumer of a claim is a pod that is gone or over; a claim whose last consumer went has no devices and no finalizer,
//! and if it was created for a pod that is over, it is gone. With `DRAWorkloadResourceClaims` the same holds of pod groups,
//! whose claims their pods share.
//!
//! **Triggers**: pods with claims, also those that the scheduler created for extended resources; claims, for themselves and
//! for the pods that use them; templates, for the pods that name them; pod groups.
//!
//! **Writes**: creates claims; applies `status.resourceClaimStatuses` of pods and pod groups; patches consumers, devices
//! and the finalizer of claims, and deletes them; emits `FailedResourceClaimCreation`.
//!
//! **Mirrors** `pkg/controller/resourceclaim`, and `k8s.io/dynamic-resource-allocation/resourceclaim` (`plan`).
//!
//! **Deliberate differences**: an apply says all generated claims of a pod, where upstream says the new ones alone and so
//! takes the others back; what only a template, a claim or a group can change is told once and waited for, and not tried
//! with ever longer waits; a pod that is over gets no claim in the place of the one that went with it, where upstream creates and
//! deletes claims for as long as it is there; a claim that is full of consumers is not asked to take one more; claims are deleted by their uid, once.

mod actions;
mod apply;
mod invariants;
mod metrics;
mod new_claim;
mod oracle;
mod plan;
mod release;
mod triggers;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::kinds::{ClaimConsumer, Pod, PodGroup, ResourceClaim, ResourceClaimTemplate};
use api::{Gate, Istr, Key, ObjectId, Resource, Uid};
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report};

use self::metrics::ClaimMetrics;
use self::new_claim::claim_body;
use self::release::{Presence, is_done};
use self::triggers::Caches;
use crate::Descriptor;
use crate::oracle::View;
use crate::workload::Consistency;

pub use invariants::{converged, released, safe_claim};
pub use oracle::ResourceClaimOracle;
pub use plan::{Known, Problem, Requester, Step, Wait, plan};
pub use release::Release;
pub use triggers::Item;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "resource_claim",
    caches: &[
        View::of::<Pod>(),
        View::of::<ResourceClaim>(),
        View::of::<ResourceClaimTemplate>(),
    ],
    gated_caches: &[(Gate::DRAWorkloadResourceClaims, View::of::<PodGroup>())],
    decides_about: &[Pod::TYPE, ResourceClaim::TYPE, PodGroup::TYPE],
    queues: &["resource_claim"],
    metrics: &["resourceclaim_controller_"],
    build: Some(|ctx| {
        let flag = ctx.config.resource_claim_controller.concurrent_syncs;
        Some(controller(ctx, ctx.workers(flag)).into())
    }),
    oracle: Some(|| Box::<ResourceClaimOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "resourceclaim-controller",
        "resource-claim-controller",
        "resource-claim-controller",
    )
    .gated(&["DynamicResourceAllocation"])
};

pub fn controller(context: &Context, workers: usize) -> Controller<Item> {
    let has_groups = context.gates.enabled(Gate::DRAWorkloadResourceClaims);
    let caches = Arc::new(Caches::new(context, has_groups));
    let metrics = ClaimMetrics::new(context);
    let (pods, claims, templates) = (caches.clone(), caches.clone(), caches.clone());
    let mut built = Loop::on::<Item>(context, Backoff::DEFAULT)
        .queue("resource_claim")
        .watches::<Pod>(move |change, queue| pods.on_pod(&change, queue))
        .watches::<ResourceClaim>(move |change, queue| claims.on_claim(&change, queue))
        .watches::<ResourceClaimTemplate>(move |change, queue| {
            templates.on_template(&change, queue);
        });
    if has_groups {
        let groups = caches.clone();
        built = built.watches::<PodGroup>(move |change, queue| groups.on_group(&change, queue));
    }
    let claims = Arc::new(ResourceClaims::new(context, caches, metrics));
    let counted = Arc::downgrade(&claims);
    context.metrics.before_scrape(move || {
        let claims = counted.upgrade();
        claims.is_some_and(|claims| {
            claims.metrics.count(&claims.caches.claims);
            true
        })
    });
    built.workers(workers).reconciler(Syncs(claims))
}

pub struct ResourceClaims {
    context: Context,
    caches: Arc<Caches>,
    metrics: ClaimMetrics,
    /// What was written for pods, for groups, and to claims themselves.
    for_pods: Consistency,
    for_groups: Consistency,
    for_claims: Consistency,
}

struct Syncs(Arc<ResourceClaims>);

impl Reconcile<Item> for Syncs {
    async fn reconcile(&self, item: &Item, report: &Report<'_>) -> Result<Next, Error> {
        match item {
            Item::Claim(key) => self.0.sync_claim(key, report).await?,
            Item::Pod(key) => self.0.sync_pod(key, report).await?,
            Item::PodGroup(key) => self.0.sync_group(key, report).await?,
        }
        Ok(Next::AwaitChange)
    }
}

impl ResourceClaims {
    fn new(context: &Context, caches: Arc<Caches>, metrics: ClaimMetrics) -> ResourceClaims {
        let claims = || Consistency::always().of::<ResourceClaim>(context);
        let for_groups = match caches.groups.is_some() {
            true => claims().of::<PodGroup>(context),
            false => claims(),
        };
        ResourceClaims {
            context: context.clone(),
            caches,
            metrics,
            for_pods: claims().of::<Pod>(context),
            for_groups,
            for_claims: claims(),
        }
    }

    async fn sync_pod(&self, key: &Key, report: &Report<'_>) -> Result<(), Error> {
        let Some(pod) = self.caches.pods.get(key) else {
            self.for_pods.forget(key);
            return Ok(());
        };
        self.for_pods.check(key)?;
        let group = self.caches.group_of(&pod);
        let requester = Requester::Pod {
            pod: &pod,
            group: group.as_deref(),
        };
        self.provide::<Pod>(requester, &self.for_pods, report).await
    }

    async fn sync_group(&self, key: &Key, report: &Report<'_>) -> Result<(), Error> {
        let groups = self.caches.groups.as_ref();
        let Some(group) = groups.and_then(|groups| groups.get(key)) else {
            self.for_groups.forget(key);
            return Ok(());
        };
        self.for_groups.check(key)?;
        let requester = Requester::Group(&group);
        self.provide::<PodGroup>(requester, &self.for_groups, report)
            .await
    }

    /// Does what the plan says for a pod or a group, which is a `K`.
    async fn provide<K: Resource>(
        &self,
        requester: Requester<'_>,
        written: &Consistency,
        report: &Report<'_>,
    ) -> Result<(), Error> {
        let steps = plan(requester, self.caches.known());
        if steps.is_empty() {
            return Ok(());
        }
        let (meta, client) = (requester.meta(), &self.context.client);
        let (object, key) = (ObjectId::new(&K::TYPE, meta), meta.key());
        report.decide(object, steps.iter().map(Step::line));
        let mut recorded: Vec<(Istr, Istr)> = Vec::new();
        for step in &steps {
            match step {
                Step::Create { claim, .. } => {
                    let created = self.create(requester, step).await;
                    let created = created.map_err(|error| {
                        // UPSTREAM: a claim that has no name yet is named all the same.
                        let message = format!("create ResourceClaim : {error}");
                        self.emit_failure::<K>(requester, claim, &message);
                        error
                    })?;
                    written.note::<ResourceClaim>(&key, created.revision);
                    recorded.push((claim.clone(), created.name));
                }
                Step::Record { claim, generated } => {
                    recorded.push((claim.clone(), generated.clone()));
                }
                Step::Reserve { claim, consumer } => {
                    let revision = apply::reserve(client, claim, consumer).await?;
                    written.note::<ResourceClaim>(&key, revision);
                }
                Step::Refuse { claim, problem } => {
                    let message = problem.to_string();
                    self.emit_failure::<K>(requester, claim, &message);
                    let entry = requester.entry_kind();
                    return Err(Error::Terminal(format!("{entry} {claim}: {message}")));
                }
                Step::Wait(_) => {}
            }
        }
        if !recorded.is_empty() {
            let revision = apply::record(client, requester, &recorded).await?;
            written.note::<K>(&key, revision);
        }
        Ok(())
    }

    async fn create(&self, requester: Requester<'_>, step: &Step) -> Result<apply::Created, Error> {
        let Step::Create {
            claim,
            template,
            admin_access,
        } = step
        else {
            unreachable!("only creations are created");
        };
        let body = claim_body(requester, claim, template).to_string();
        let namespace = &requester.meta().namespace;
        let created = apply::create(&self.context.client, namespace, body).await;
        self.metrics.created(created.is_ok(), *admin_access);
        created
    }

    fn emit_failure<K: Resource>(&self, requester: Requester<'_>, claim: &str, problem: &str) {
        let object = ObjectRef::new(&K::TYPE, requester.meta());
        let message = format!("{} {claim}: {problem}", requester.entry_kind());
        let (recorder, reason) = (&self.context.recorder, "FailedResourceClaimCreation");
        recorder.event(&object, EventType::Warning, reason, message);
    }

    async fn sync_claim(&self, key: &Key, report: &Report<'_>) -> Result<(), Error> {
        let Some(claim) = self.caches.claims.get(key) else {
            self.for_claims.forget(key);
            return Ok(());
        };
        self.for_claims.check(key)?;
        let mut gone: Vec<Uid> = Vec::new();
        for consumer in &claim.status.reserved_for {
            let presence = match self.presence(key, consumer) {
                Presence::Unknown => self.fetch_presence(key, consumer).await?,
                known => known,
            };
            if presence == Presence::Gone {
                gone.push(consumer.uid.clone());
            }
        }
        let owner = claim.metadata.controller();
        let owner = owner.filter(|owner| owner.kind == "Pod" && owner.api_version == "v1");
        // One that the cache does not have may be new; if it is gone, the garbage collector deletes the claim.
        let owner = owner.and_then(|owner| self.caches.pods.find(&key.namespace, &owner.name));
        let release = release::plan(&claim, &gone, owner.as_deref());
        if release.is_empty() {
            return Ok(());
        }
        report.decide(ObjectId::of(&*claim), release.lines());
        let written = apply::release(&self.context.client, &claim, &release).await?;
        if let Some(revision) = written {
            self.for_claims.note::<ResourceClaim>(key, revision);
        }
        Ok(())
    }

    /// What the caches say of a consumer.
    fn presence(&self, claim: &Key, consumer: &ClaimConsumer) -> Presence {
        let (namespace, name) = (&claim.namespace, &consumer.name);
        // Another one of the name may be the one that came before: the cache lags behind the scheduler's.
        let is_gone = if plan::is_pod(consumer) {
            let pod = self.caches.pods.find(namespace, name);
            let pod = pod.filter(|pod| pod.metadata.uid == consumer.uid);
            pod.map(|pod| is_done(&pod))
        } else if plan::is_group(consumer)
            && let Some(groups) = &self.caches.groups
        {
            let group = groups.find(namespace, name);
            let group = group.filter(|group| group.metadata.uid == consumer.uid);
            group.map(|_| false)
        } else {
            // Nobody knows how to tell, and its devices must not be taken away.
            Some(false)
        };
        match is_gone {
            Some(true) => Presence::Gone,
            Some(false) => Presence::Stays,
            None if self.caches.is_deleted(&consumer.uid) => Presence::Gone,
            None => Presence::Unknown,
        }
    }

    /// What the API server says: the scheduler may know a pod that the cache does not have yet.
    async fn fetch_presence(
        &self,
        claim: &Key,
        consumer: &ClaimConsumer,
    ) -> Result<Presence, Error> {
        let kind = match plan::is_pod(consumer) {
            true => &Pod::TYPE,
            false => &PodGroup::TYPE,
        };
        let (client, namespace) = (&self.context.client, &claim.namespace);
        let found = apply::look_up(client, kind, namespace, &consumer.name).await?;
        Ok(match found {
            Some(uid) if uid == consumer.uid => Presence::Stays,
            _ => Presence::Gone,
        })
    }
}
