//! What the caches say that is used.

use std::sync::Arc;

use api::amounts::{self, Amounts};
use api::kinds::{DeviceClass, ResourceClaim, ResourceQuota};
use api::quantity::Format;
use api::quota::{self, DeviceClasses, Evaluator, Item};
use api::{Gates, Istr, MicroTime, Quantity, Resource, ResourceType};
use runtime::Store;
use runtime::informer::MetadataInformer;

use super::Quotas;
use super::monitors::Opened;

/// What was found of one kind in the namespace of a quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The kind, for people.
    pub kind: String,
    /// The quota's resources that objects of the kind use up.
    pub tracked: Vec<Istr>,
    pub usage: Usage,
    /// The revision that the cache has reached.
    pub revision: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Usage {
    /// The first listing is not complete.
    NotListed,
    /// The sum, and when the first of these objects stops to count although it is still there.
    Sum(Amounts, Option<MicroTime>),
}

/// When a change of an object makes its quotas count again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recount {
    Never,
    Now,
    /// The object counts until then, if it is still there.
    At(MicroTime),
}

/// When it matters to a quota which of these two states an object is in.
pub(super) fn recount(
    evaluator: &Evaluator,
    old: &Item<'_>,
    new: &Item<'_>,
    now: MicroTime,
) -> Recount {
    let moved = match (old, new) {
        (Item::Pod(old), Item::Pod(new)) => {
            // Mostly the same template: then only the end of the pod makes a difference.
            if Arc::ptr_eq(&old.body, &new.body) && old.is_finished() == new.is_finished() {
                let until = quota::charged_until(new);
                return match until.filter(|_| old.metadata.deleted_at != new.metadata.deleted_at) {
                    None => Recount::Never,
                    Some(until) if until < now => Recount::Now,
                    Some(until) => Recount::At(until),
                };
            }
            old.body.charge != new.body.charge
        }
        (Item::Claim(old), Item::Claim(new)) => {
            !old.attributes_classes().eq(new.attributes_classes())
        }
        _ => false,
    };
    match moved || evaluator.usage(old, now) != evaluator.usage(new, now) {
        true => Recount::Now,
        false => Recount::Never,
    }
}

impl Quotas {
    /// Counts what the quota names, kind by kind. What is named for the first time begins to be watched.
    pub(super) fn count(&self, quota: &ResourceQuota, now: MicroTime) -> Vec<Count> {
        let mut monitors = self.monitors.lock();
        let opened = monitors.open(quota.spec.hard.keys());
        let classes = monitors.classes(self.extended);
        drop(monitors);
        for new in opened.iter().filter(|opened| opened.is_new) {
            let evaluator = Evaluator::of(&new.resource.group, &new.resource.plural);
            new.informer.on_metadata_change(self.listener(&evaluator));
        }
        let namespace = &quota.metadata.namespace;
        let tally = Tally {
            gates: self.context.gates,
            quota,
            classes: &classes,
            now,
        };
        let mut counts = vec![
            tally.count("pods", &self.pods, |pod| Item::Pod(pod)),
            tally.count("services", &self.services, |service| Item::Service(service)),
            tally.count("persistentvolumeclaims", &self.claims, |claim| {
                Item::Claim(claim)
            }),
        ];
        for Opened {
            resource, informer, ..
        } in opened
        {
            let count = match &*resource.plural {
                "resourceclaims" if resource.group == "resource.k8s.io" => {
                    self.count_devices(&tally, &*informer)
                }
                _ => tally.count_objects(&resource, &*informer, namespace),
            };
            counts.push(count);
        }
        counts.retain(|count| !count.tracked.is_empty());
        counts
    }

    fn count_devices(&self, tally: &Tally<'_>, informer: &dyn MetadataInformer) -> Count {
        let classes = self.context.informers.of::<DeviceClass>();
        let store = self.context.informers.store::<ResourceClaim>();
        let namespace = &tally.quota.metadata.namespace;
        let revision = store.resource_version();
        let all = store.in_namespace(namespace);
        let mut count = tally.sum(
            Evaluator::of("resource.k8s.io", "resourceclaims"),
            "resourceclaims.resource.k8s.io",
            revision,
            || {
                all.iter().map(|claim| {
                    let owner = quota::paying_pod(claim);
                    let pod = owner.and_then(|owner| self.pods.find(namespace, &owner.name));
                    let others = all.iter().map(|claim| &**claim);
                    (
                        claim,
                        pod.filter(|pod| quota::is_paid_by(claim, pod, others)),
                    )
                })
            },
            |(claim, pod)| (Item::Devices(claim, tally.classes, pod.as_deref()), None),
        );
        if !informer.metadata_synced().is_done() || !classes.is_synced() {
            count.usage = Usage::NotListed;
        }
        count
    }
}

/// Adds up for one quota.
struct Tally<'a> {
    quota: &'a ResourceQuota,
    classes: &'a DeviceClasses,
    now: MicroTime,
    gates: Gates,
}

impl Tally<'_> {
    /// Core kinds that are cached in any case.
    fn count<K: Resource>(
        &self,
        plural: &str,
        store: &Store<K>,
        item: fn(&K) -> Item<'_>,
    ) -> Count {
        self.sum(
            Evaluator::of("", plural).gated(self.gates),
            plural,
            store.resource_version(),
            || store.in_namespace(&self.quota.metadata.namespace),
            |object| {
                let item = item(object);
                let until = match item {
                    Item::Pod(pod) if !pod.is_finished() => quota::charged_until(pod),
                    _ => None,
                };
                (item, until)
            },
        )
    }

    /// `revision` was read before `objects` will be: the count is at least as new as it says.
    fn sum<T, I: IntoIterator<Item = T>>(
        &self,
        evaluator: Evaluator,
        kind: &str,
        revision: u64,
        objects: impl FnOnce() -> I,
        read: impl for<'t> Fn(&'t T) -> (Item<'t>, Option<MicroTime>),
    ) -> Count {
        let hard = self.quota.spec.hard.keys();
        let tracked: Vec<Istr> = evaluator
            .tracked(hard, self.classes)
            .into_iter()
            .cloned()
            .collect();
        let (mut sum, mut ends): (Amounts, Option<MicroTime>) = (zeros(&tracked), None);
        if !tracked.is_empty() {
            for object in objects() {
                let (item, until) = read(&object);
                if !quota::matches_gated(self.quota, &item, self.gates) {
                    continue;
                }
                let usage = evaluator.usage(&item, self.now);
                amounts::add(&mut sum, &usage);
                let until = until.filter(|until| *until >= self.now);
                ends = ends.into_iter().chain(until).min();
            }
            sum.retain(|name, _| self.quota.spec.hard.contains_key(name));
        }
        Count {
            kind: kind.to_owned(),
            tracked,
            usage: Usage::Sum(sum, ends),
            revision,
        }
    }

    /// Any other kind: the number of its objects, to which no scope applies.
    fn count_objects(
        &self,
        resource: &ResourceType,
        informer: &dyn MetadataInformer,
        namespace: &str,
    ) -> Count {
        let evaluator = Evaluator::of(&resource.group, &resource.plural);
        let revision = informer.revision();
        let number = match self.quota.scopes().next() {
            None => informer.count_in_namespace(namespace),
            Some(_) => 0,
        };
        let number = Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSi);
        let hard = self.quota.spec.hard.keys();
        let tracked = evaluator.tracked(hard, self.classes).into_iter();
        let tracked: Vec<Istr> = tracked.cloned().collect();
        let sum = tracked.iter().map(|name| (name.clone(), number.clone()));
        Count {
            kind: match &*resource.group {
                "" => resource.plural.to_string(),
                group => format!("{}.{group}", resource.plural),
            },
            usage: match informer.metadata_synced().is_done() {
                true => Usage::Sum(sum.collect(), None),
                false => Usage::NotListed,
            },
            tracked,
            revision,
        }
    }
}

fn zeros(names: &[Istr]) -> Amounts {
    let zero = Quantity::new(0, Format::DecimalSi);
    names
        .iter()
        .map(|name| (name.clone(), zero.clone()))
        .collect()
}
