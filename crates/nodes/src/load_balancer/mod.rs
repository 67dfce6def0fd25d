//! A simulated provider of load balancers: gives Services of type LoadBalancer and Ingresses an address.
//!
//! It does to the API what a cloud's service controller and an ingress controller do: finalizer, address, events, and all of
//! it taken back when the type changes or the object goes. Addresses come from a range that is documented and leads
//! nowhere. It serves Services without a `loadBalancerClass` or with [`CLASS`], and Ingresses of the classes whose controller
//! is [`CLASS`]; one class of that kind is made, and is the default where there is no other. [`plan`] decides, this file
//! carries it out.

mod plan;
mod views;

use std::sync::Arc;

use api::{Cidr, Clock, Key, Meta, Resource, ResourceType};
use client::{Client, Patch};
use parking_lot::Mutex;
use runtime::controller::Controller;
use runtime::{
    Change, Error, EventType, Informers, Next, ObjectRef, Queue, Reconcile, Recorder, Report, Store,
};
use serde_json::{Value, json};

use crate::kubelet::RETRY;
use plan::{Pool, ServicePlan, plan_service};
use views::{Ingress, IngressClass, Service};

pub use plan::PoolError;

/// The class of load balancers and the controller of ingresses that this provider answers to.
pub const CLASS: &str = "steersman.dev/simulated";

/// The ingress class that is made.
const INGRESS_CLASS: &str = "simulated";
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// Set aside for documentation by RFC 5737: nobody's real address.
pub const DEFAULT_RANGE: &str = "192.0.2.0/24";

/// One address for a Service, beside the first, which names the network, and the last, which all Ingresses share.
const SMALLEST_RANGE: u128 = 3;

/// The ranges that addresses come from: one, or one of each family.
#[derive(Clone, Debug)]
pub struct Ranges(pub(crate) Vec<Cidr>);

impl Ranges {
    pub fn parse(text: &str) -> Result<Ranges, PoolError> {
        let ranges = text.split(',').map(|range| {
            let parsed = Cidr::parse(range.trim()).map(|range| range.masked());
            parsed.ok_or_else(|| PoolError::NoRange(range.trim().to_owned()))
        });
        let ranges: Vec<Cidr> = ranges.collect::<Result<_, _>>()?;
        if let Some(small) = ranges.iter().find(|range| range.size() < SMALLEST_RANGE) {
            return Err(PoolError::TooSmall(small.to_string()));
        }
        match ranges.as_slice() {
            [one, two] if one.is_ipv4() == two.is_ipv4() => Err(PoolError::SameFamily),
            [_] | [_, _] => Ok(Ranges(ranges)),
            _ => Err(PoolError::TooMany),
        }
    }
}

pub(crate) struct Provider {
    client: Client,
    recorder: Recorder,
    services: Arc<Store<Service>>,
    ingresses: Arc<Store<Ingress>>,
    classes: Arc<Store<IngressClass>>,
    pool: Mutex<Pool>,
}

struct ForServices(Arc<Provider>);
struct ForIngresses(Arc<Provider>);

impl Provider {
    pub(crate) fn controllers(
        client: Client,
        recorder: Recorder,
        ranges: Ranges,
        informers: &Informers,
        clock: &Clock,
    ) -> [Controller; 2] {
        let services = informers.of::<Service>();
        let ingresses = informers.of::<Ingress>();
        let classes = informers.of::<IngressClass>();
        let provider = Arc::new(Provider {
            client,
            recorder,
            services: services.store().clone(),
            ingresses: ingresses.store().clone(),
            classes: classes.store().clone(),
            pool: Mutex::new(Pool::new(ranges)),
        });
        let service_queue: Arc<Queue> = Arc::new(Queue::new(RETRY));
        let ingress_queue: Arc<Queue> = Arc::new(Queue::new(RETRY));
        provider.listen(informers, &service_queue, &ingress_queue);
        let waits_for = vec![services.synced(), ingresses.synced(), classes.synced()];
        // One worker: two services must not take the same address.
        let controller = |name, queue, reconciler| Controller {
            waits_for: waits_for.clone(),
            ..Controller::plain(name, queue, reconciler, clock.clone())
        };
        [
            controller(
                "simulated-load-balancers",
                service_queue,
                Arc::new(ForServices(provider.clone())),
            ),
            controller(
                "simulated-ingresses",
                ingress_queue,
                Arc::new(ForIngresses(provider)),
            ),
        ]
    }

    fn listen(
        self: &Arc<Self>,
        informers: &Informers,
        services: &Arc<Queue>,
        ingresses: &Arc<Queue>,
    ) {
        let (queue, seen) = (services.clone(), self.clone());
        informers.of::<Service>().on_change(move |change| {
            let service = change.object();
            queue.add(service.key());
            // An address is free again: somebody may wait for one.
            if service.is_served() || matches!(change, Change::Deleted(_)) {
                for waiting in seen.services.list() {
                    if waiting.wants_address() && waiting.status.load_balancer.is_empty() {
                        queue.add(waiting.key());
                    }
                }
            }
        });
        let queue = ingresses.clone();
        informers
            .of::<Ingress>()
            .on_change(move |change| queue.add(change.object().key()));
        let (queue, seen) = (ingresses.clone(), self.clone());
        informers.of::<IngressClass>().on_change(move |_| {
            for ingress in seen.ingresses.list() {
                queue.add(ingress.key());
            }
        });
    }

    async fn sync_service(&self, key: &Key) -> Result<Next, Error> {
        let Some(service) = self.services.get(key) else {
            self.pool.lock().release(key);
            return Ok(Next::AwaitChange);
        };
        let planned = {
            let others = self.services.list();
            plan_service(&service, &others, &mut self.pool.lock())
        };
        match planned {
            ServicePlan::Nothing => {}
            ServicePlan::Protect => {
                self.say(&service, "EnsuringLoadBalancer", "Ensuring load balancer");
                let patch = json!({"metadata": {"finalizers": [plan::FINALIZER]}});
                self.patch(&*service, None, patch).await?;
            }
            ServicePlan::Publish(addresses) => {
                let addresses = addresses
                    .iter()
                    .map(|address| json!({"ip": address.to_string(), "ipMode": "VIP"}));
                let ingress: Vec<Value> = addresses.collect();
                let patch = json!({"status": {"loadBalancer": {"ingress": ingress}}});
                self.patch(&*service, Some("status"), patch).await?;
                self.say(&service, "EnsuredLoadBalancer", "Ensured load balancer");
            }
            ServicePlan::Withdraw => {
                self.say(&service, "DeletingLoadBalancer", "Deleting load balancer");
                let patch = json!({"status": {"loadBalancer": {"ingress": null}}});
                self.patch(&*service, Some("status"), patch).await?;
            }
            ServicePlan::Unprotect => {
                let key = "$deleteFromPrimitiveList/finalizers";
                let patch = json!({"metadata": {key: [plan::FINALIZER]}});
                self.patch(&*service, None, patch).await?;
                self.pool.lock().release(&service.key());
                self.say(&service, "DeletedLoadBalancer", "Deleted load balancer");
            }
            ServicePlan::Refuse(problem) => {
                let message = format!(
                    "Error syncing load balancer: failed to ensure load balancer: {problem}"
                );
                let object = ObjectRef::of(&*service);
                let reason = "SyncLoadBalancerFailed";
                self.recorder
                    .event(&object, EventType::Warning, reason, message);
            }
        }
        Ok(Next::AwaitChange)
    }

    async fn sync_ingress(&self, key: &Key) -> Result<Next, Error> {
        let Some(ingress) = self.ingresses.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let class = ingress.class();
        let class = class.and_then(|name| self.classes.find("", name));
        let is_served = class.is_some_and(|class| class.spec.controller == CLASS);
        let wanted = is_served.then(|| self.pool.lock().shared());
        let held = ingress.status.load_balancer.only_ip();
        if wanted.as_deref() == held || !is_served && held != Some(&self.pool.lock().shared()) {
            return Ok(Next::AwaitChange);
        }
        let addresses = wanted.map(|address| json!([{"ip": address}]));
        let patch = json!({"status": {"loadBalancer": {"ingress": addresses}}});
        self.patch(&*ingress, Some("status"), patch).await?;
        Ok(Next::AwaitChange)
    }

    fn say(&self, service: &Service, reason: &'static str, message: &str) {
        let object = ObjectRef::of(service);
        self.recorder
            .event(&object, EventType::Normal, reason, message);
    }

    async fn patch<K: Resource>(
        &self,
        object: &K,
        subresource: Option<&str>,
        patch: Value,
    ) -> Result<(), Error> {
        let Meta {
            namespace,
            name,
            uid,
            ..
        } = object.meta();
        let mut patch = patch;
        patch["metadata"]["uid"] = json!(uid);
        let patch = Patch::Strategic(patch.to_string().into());
        let kind: &ResourceType = &K::TYPE;
        let patched = self
            .client
            .patch(kind, namespace, name, subresource, &patch)
            .await;
        match patched {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            // Gone or another one by now: its change wakes us again.
            _ => Ok(()),
        }
    }
}

impl Reconcile for ForServices {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_service(key).await
    }
}

impl Reconcile for ForIngresses {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_ingress(key).await
    }
}

/// Makes the ingress class, unless there is one of that name; the default only where no other one is.
pub(crate) async fn ensure_ingress_class(
    client: &Client,
    informers: &Informers,
) -> Result<(), client::Error> {
    let classes = informers.store::<IngressClass>();
    if classes.find("", INGRESS_CLASS).is_some() {
        return Ok(());
    }
    let is_default =
        |class: &Arc<IngressClass>| class.metadata.annotation(IS_DEFAULT) == Some("true");
    let has_default = classes.list().iter().any(is_default);
    let class = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": INGRESS_CLASS, "annotations": {IS_DEFAULT: (!has_default).to_string()}},
        "spec": {"controller": CLASS},
    });
    match client
        .create(&IngressClass::TYPE, "", class.to_string())
        .await
    {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

/// Waits until it is known which classes there are.
pub(crate) async fn classes_known(informers: &Informers) {
    informers.of::<IngressClass>().synced().wait().await;
}
