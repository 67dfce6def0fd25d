//! Ranges of addresses for Services. A small controller.
//!
//! **Converges**: every ServiceCIDR has a finalizer and is `Ready`. One that is being deleted goes ten seconds later,
//! unless addresses of Services lie in it and in no other: then it says so and waits.
//!
//! **Triggers**: any change of a ServiceCIDR; one that comes enqueues those that it overlaps with, too; an IPAddress of the
//! API server's that comes or goes enqueues the ranges that it lies in; time.
//!
//! **Writes**: patches finalizers, applies the condition `Ready`; emits `KubernetesServiceCIDRError`.
//!
//! **Mirrors** `pkg/controller/servicecidrs`. The ten seconds are for allocators of API servers that have not heard of
//! the deletion.
//!
//! **Deliberate differences**: of ranges that are to go together one stays until no Service has an address of it.

mod actions;
mod invariants;
mod oracle;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::Explain;
use api::kinds::{IpAddress, SERVICE_CIDR_FINALIZER, ServiceCidr};
use api::{Key, ObjectId, Resource, Time};
use client::Patch;
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::{Value, json};

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{converged, safe};
pub use oracle::ServiceCidrOracle;
pub use plan::{Plan, Readiness, can_go, plan};

use plan::{Finalizer, containing, overlapping};

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "service-cidr-controller",
    caches: &[View::of::<ServiceCidr>(), View::of::<IpAddress>()],
    decides_about: &[ServiceCidr::TYPE],
    queues: &["ipaddresses"],
    // UPSTREAM: five workers, without a flag.
    build: Some(|ctx| Some(controller(ctx, 5).into())),
    oracle: Some(|| Box::<ServiceCidrOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named("service-cidr-controller", "", "service-cidrs-controller")
        .gated(&["MultiCIDRServiceAllocator"])
};

/// A range that fails so often in a row is left alone until it changes. Upstream's number.
const RETRIES_MAX: u32 = 15;

/// Who the fields of the condition belong to.
const FIELD_MANAGER: &str = "service-cidr-controller";

pub fn controller(context: &Context, workers: usize) -> Controller {
    let cidrs = context.informers.store::<ServiceCidr>();
    let (overlapped, contained) = (cidrs.clone(), cidrs.clone());
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("ipaddresses")
        .watches::<ServiceCidr>(move |change, queue| {
            queue.add(change.object().key());
            if let Change::Added(cidr) = change {
                for other in overlapping(cidr, &overlapped.list()) {
                    queue.add(other.key());
                }
            }
        })
        .watches::<IpAddress>(move |change, queue| {
            if let Change::Added(address) | Change::Deleted(address) = change
                && let Some(address) = address.allocated()
            {
                for cidr in containing(address, &contained.list()) {
                    queue.add(cidr.key());
                }
            }
        })
        .workers(workers)
        .retries(RETRIES_MAX)
        .reconciler(ServiceCidrs {
            context: context.clone(),
            cidrs,
            addresses: context.informers.store::<IpAddress>(),
        })
}

pub struct ServiceCidrs {
    context: Context,
    cidrs: Arc<Store<ServiceCidr>>,
    addresses: Arc<Store<IpAddress>>,
}

impl Reconcile for ServiceCidrs {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(cidr) = self.cidrs.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let now = self.context.clock.now();
        // A Service that comes enqueues its range: only where the range is to go does it matter which others there are.
        let addresses = match cidr.metadata.is_terminating() {
            true => self.addresses.list(),
            false => Vec::new(),
        };
        let allocated = addresses.iter().filter_map(|address| address.allocated());
        let plan = plan(&cidr, &self.cidrs.list(), allocated, now);
        report.decide(ObjectId::of(&*cidr), plan.explain());
        match plan.finalizer {
            Some(Finalizer::Add) => {
                let finalizers = json!({"finalizers": [SERVICE_CIDR_FINALIZER]});
                self.patch(key, finalizers).await?;
            }
            Some(Finalizer::Remove) => {
                let finalizers =
                    json!({"$deleteFromPrimitiveList/finalizers": [SERVICE_CIDR_FINALIZER]});
                self.patch(key, finalizers).await?;
            }
            None => {}
        }
        if let Some(ready) = &plan.ready
            && let Err(error) = self.apply(key, ready, now.time()).await
        {
            if ready.is_true {
                let message = "The ServiceCIDR Status can not be set to Ready=True";
                let about = ObjectRef::of(&*cidr);
                let recorder = &self.context.recorder;
                recorder.event(
                    &about,
                    EventType::Warning,
                    "KubernetesServiceCIDRError",
                    message,
                );
            }
            return Err(error);
        }
        Ok(plan.next)
    }
}

impl ServiceCidrs {
    async fn patch(&self, key: &Key, metadata: Value) -> Result<(), Error> {
        let patch = json!({"metadata": metadata}).to_string();
        let patch = Patch::Strategic(patch.into());
        let (client, resource) = (&self.context.client, &ServiceCidr::TYPE);
        match client.patch(resource, "", &key.name, None, &patch).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn apply(&self, key: &Key, ready: &Readiness, now: Time) -> Result<(), Error> {
        let resource = &ServiceCidr::TYPE;
        let body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"name": &*key.name},
            "status": {"conditions": [{
                "type": "Ready", "status": ready.status(), "reason": ready.reason(),
                "message": ready.message(), "lastTransitionTime": now,
            }]},
        });
        let patch = Patch::Apply {
            body: body.to_string().into(),
            field_manager: FIELD_MANAGER.to_owned(),
            force: true,
        };
        let client = &self.context.client;
        client
            .patch(resource, "", &key.name, Some("status"), &patch)
            .await?;
        Ok(())
    }
}
