//! ResourceQuota: what a namespace may hold. Usage that is granted is written with the object, so two
//! requests cannot both take the last of something; the quota controller gives back what is deleted.
//!
//! What an object uses is `api::quota`'s to say: the controller counts by the same rules.

mod limited;

use std::collections::BTreeSet;

use api::amounts::{self, Amounts};
use api::kinds::ResourceQuota;
use api::quota::{self, Counted, DeviceClasses, Evaluator, IGNORED, Item};
use api::{Istr, MicroTime, Resource};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::quota_objects::{Objects, Read};
use super::{Change, Context, Operation, Request, Verdict, built_in};
use crate::apply;
use crate::fields::{at, set};
use crate::kinds::{Registry, Subresource};
use crate::resources;
use crate::status::Status;
use crate::storage::Transaction;
pub(super) use limited::LimitedResources;

/// Refuses what would exceed a quota of the namespace, and counts up those that it fits into.
pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let (group, plural) = (&*request.kind.group, &*request.kind.plural);
    if request.namespace.is_empty() || IGNORED.contains(&(group, plural)) {
        return Ok(());
    }
    let evaluator = Evaluator::of(group, plural);
    if !may_charge(request, evaluator.counted()) {
        return Ok(());
    }
    let kind = built_in("", ResourceQuota::TYPE.kind.as_ref());
    let stored = context.cluster.list(kind, request.namespace);
    let limited = &context.settings.plugin_settings.limited_resources;
    if stored.is_empty() && limited.is_empty() {
        return Ok(());
    }
    let objects = Objects::new(context.cluster, request.namespace, &evaluator);
    let new = objects.read(object);
    let old = old.map(|old| objects.read(old));
    if !raises_usage(request, &evaluator, &new, old.as_ref(), context.now) {
        return Ok(());
    }
    let quotas: Vec<(&Value, ResourceQuota)> = stored
        .iter()
        .filter_map(|stored| Some((&**stored, ResourceQuota::deserialize(&**stored).ok()?)))
        .collect();
    let claim = Claim {
        request,
        evaluator: &evaluator,
        classes: objects.classes(),
        new: new.item(objects.classes()),
        old: old.as_ref().map(|old| old.item(objects.classes())),
        now: context.now,
    };
    let pertinent = claim.pertinent(object, &quotas)?;
    claim.refuse_negative()?;
    if !limited.is_empty() {
        claim.refuse_uncovered(limited, &pertinent, &quotas)?;
    }
    for (stored, used) in claim.fit(&pertinent)? {
        let mut charged = Value::clone(stored);
        set(&mut charged, "status.used", texts(&used));
        apply::update(kind, &mut charged, Some(stored), &charger(context.now), &[]);
        verdict.changes.push(Change::Put(kind.clone(), charged));
    }
    Ok(())
}

/// Who charges: not whoever creates what is charged for, but the server.
fn charger(now: MicroTime) -> apply::Manager {
    apply::Manager {
        name: "kube-apiserver".to_owned(),
        operation: apply::Operation::Update,
        api_version: "v1".to_owned(),
        subresource: "status".to_owned(),
        now: now.time().to_string(),
    }
}

/// Can the request raise usage, by what is asked for?
fn may_charge(request: &Request<'_>, counted: Counted) -> bool {
    match (request.operation, request.subresource) {
        (Operation::Create, None) => true,
        (Operation::Update, None) => counted != Counted::Objects,
        (Operation::Update, Some(Subresource::Resize)) => counted == Counted::Pods,
        (Operation::Update, Some(Subresource::Status)) => counted == Counted::Claims,
        _ => false,
    }
}

/// Can it, by what changes? A pod's update matters only where it moves to another scope, a claim's status only where
/// the volume grows or gets other attributes.
fn raises_usage(
    request: &Request<'_>,
    evaluator: &Evaluator,
    new: &Read,
    old: Option<&Read>,
    now: MicroTime,
) -> bool {
    match (new, old, request.subresource) {
        (Read::Pod(new), Some(Read::Pod(old)), None) => {
            new.body.charge.has_deadline != old.body.charge.has_deadline
        }
        (Read::Claim(new), Some(Read::Claim(old)), Some(_)) => {
            let usage = |claim| evaluator.usage(&Item::Claim(claim), now);
            usage(new) != usage(old) || !new.attributes_classes().eq(old.attributes_classes())
        }
        _ => true,
    }
}

/// One request for a share of the namespace's quotas.
struct Claim<'a> {
    request: &'a Request<'a>,
    evaluator: &'a Evaluator,
    classes: &'a DeviceClasses,
    new: Item<'a>,
    old: Option<Item<'a>>,
    now: MicroTime,
}

/// A quota that the object counts towards, as it is stored and as it is read.
type Pertinent<'a> = (&'a Value, &'a ResourceQuota);

impl Claim<'_> {
    /// The quotas that the object counts towards. Refuses what does not say what it needs, and everything as long as
    /// nobody has counted.
    fn pertinent<'q>(
        &self,
        object: &Value,
        quotas: &'q [(&'q Value, ResourceQuota)],
    ) -> Result<Vec<Pertinent<'q>>, Status> {
        let mut pertinent = Vec::new();
        for (stored, quota) in quotas {
            let hard = quota.status.hard.iter().flat_map(Amounts::keys);
            let tracked = self.evaluator.tracked(hard, self.classes);
            if tracked.is_empty() || !quota::matches(quota, &self.new) {
                continue;
            }
            let name = &quota.metadata.name;
            if self.evaluator.counted() == Counted::Pods
                && let Some(missing) =
                    quota::missing_requests(&resources::of_spec(object), &tracked)
            {
                let why = format!("failed quota: {name}: {missing}");
                return Err(self.request.forbidden(&why));
            }
            let used = quota.status.used.as_ref();
            let is_counted =
                |resource: &&Istr| used.is_some_and(|used| used.contains_key(*resource));
            if !tracked.iter().all(is_counted) {
                let resources: Vec<&str> = tracked.iter().map(|name| name.as_str()).collect();
                let resources = resources.join(",");
                let why = format!("status unknown for quota: {name}, resources: {resources}");
                return Err(self.request.forbidden(&why));
            }
            pertinent.push((*stored, quota));
        }
        Ok(pertinent)
    }

    fn usage(&self) -> Amounts {
        self.evaluator.usage(&self.new, self.now)
    }

    /// What is used more than before; nothing for what was not there before.
    fn growth(&self) -> Option<Amounts> {
        let before = self.evaluator.usage(self.old.as_ref()?, self.now);
        Some(amounts::growth(&self.usage(), &before))
    }

    /// What did not count towards a quota before counts in full.
    fn was_counted(&self, quota: &ResourceQuota) -> bool {
        let old = self.old.as_ref();
        old.is_some_and(|old| quota::matches(quota, old))
    }

    fn refuse_negative(&self) -> Result<(), Status> {
        let usage = self.usage();
        let negative: Vec<&str> = usage
            .iter()
            .filter(|(_, amount)| amount.sign() < 0)
            .map(|(name, _)| name.as_str())
            .collect();
        if negative.is_empty() {
            return Ok(());
        }
        let negative = negative.join(",");
        let why = format!("quota usage is negative for resource(s): {negative}");
        Err(self.request.forbidden(&why))
    }

    /// Refuses what may be used with a quota alone, where it is used at all.
    fn refuse_uncovered(
        &self,
        limited: &LimitedResources,
        pertinent: &[Pertinent<'_>],
        quotas: &[(&Value, ResourceQuota)],
    ) -> Result<(), Status> {
        let (usage, growth) = (self.usage(), self.growth());
        let grows = growth.as_ref().unwrap_or(&usage);
        let is_used = |amounts: &Amounts| amounts.values().any(|amount| amount.sign() != 0);
        let raises = |quota: &ResourceQuota| match self.was_counted(quota) {
            true => is_used(grows),
            false => is_used(&usage),
        };
        let is_concerned = match pertinent {
            [] => is_used(grows),
            pertinent => pertinent.iter().any(|(_, quota)| raises(quota)),
        };
        if !is_concerned {
            return Ok(());
        }
        let hard = pertinent.iter().map(|(_, quota)| &quota.status.hard);
        let hard = hard.flat_map(|hard| hard.iter().flat_map(Amounts::keys));
        let tracked: BTreeSet<Istr> = self
            .evaluator
            .tracked(hard, self.classes)
            .into_iter()
            .cloned()
            .collect();
        let quotas: Vec<&ResourceQuota> = quotas.iter().map(|(_, quota)| quota).collect();
        limited.check(self.request, &self.new, &usage, &tracked, &quotas)
    }

    /// The quotas that change, each with what is used of it then.
    fn fit<'q>(&self, quotas: &[Pertinent<'q>]) -> Result<Vec<(&'q Value, Amounts)>, Status> {
        let (whole, growth) = (self.usage(), self.growth());
        let mut changed = Vec::new();
        for (stored, quota) in quotas {
            let delta = growth.as_ref().filter(|_| self.was_counted(quota));
            let delta = delta.unwrap_or(&whole);
            let empty = Amounts::new();
            let hard = quota.status.hard.as_ref().unwrap_or(&empty);
            let mut requested = delta.clone();
            requested.retain(|name, amount| hard.contains_key(name) && amount.sign() > 0);
            if requested.is_empty() {
                continue;
            }
            let used = quota.status.used.as_ref().unwrap_or(&empty);
            let mut total = used.clone();
            amounts::add(&mut total, &requested);
            // UPSTREAM: what a controller reports has happened already and is only counted.
            if self.request.subresource != Some(Subresource::Status) {
                self.refuse_excess(quota, &requested, &total)?;
            }
            changed.push((*stored, total));
        }
        Ok(changed)
    }

    fn refuse_excess(
        &self,
        quota: &ResourceQuota,
        requested: &Amounts,
        total: &Amounts,
    ) -> Result<(), Status> {
        let hard = |name: &Istr| quota.status.hard.as_ref().and_then(|hard| hard.get(name));
        let exceeds = |name: &Istr| hard(name).is_some_and(|hard| total[name] > *hard);
        let exceeded: Vec<&Istr> = requested.keys().filter(|name| exceeds(name)).collect();
        if exceeded.is_empty() {
            return Ok(());
        }
        let show = |amounts: Option<&Amounts>| {
            let amounts = amounts.into_iter().flatten();
            amounts::show(amounts.filter(|(name, _)| exceeded.contains(name)))
        };
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.metadata.name,
            show(Some(requested)),
            show(quota.status.used.as_ref()),
            show(quota.status.hard.as_ref()),
        );
        Err(self.request.forbidden(&why))
    }
}

/// Writes into every quota what it limits and how much of that is used.
pub(crate) fn recount(registry: &Registry, transaction: &mut Transaction<'_>, now: MicroTime) {
    let quotas = built_in("", ResourceQuota::TYPE.kind.as_ref());
    for stored in transaction.list(quotas, "") {
        let mut value = stored.value(quotas);
        let Ok(quota) = ResourceQuota::deserialize(&value) else {
            continue;
        };
        let hard = &quota.spec.hard;
        let mut used = Amounts::new();
        for kind in registry.iter().filter(|kind| kind.namespaced) {
            let evaluator = Evaluator::of(&kind.group, &kind.plural);
            let objects = Objects::new(&*transaction, stored.namespace(), &evaluator);
            let tracked = evaluator.tracked(hard.keys(), objects.classes());
            if tracked.is_empty() {
                continue;
            }
            for name in tracked {
                used.entry(name.clone()).or_default();
            }
            for object in transaction.list(kind, &format!("{}/", stored.namespace())) {
                let object = objects.read(&object.value(kind));
                let item = object.item(objects.classes());
                if quota::matches(&quota, &item) {
                    amounts::add(&mut used, &evaluator.usage(&item, now));
                }
            }
        }
        used.retain(|name, _| hard.contains_key(name));
        let before = at(&value, "status").clone();
        set(&mut value, "status.hard", texts(hard));
        set(&mut value, "status.used", texts(&used));
        if *at(&value, "status") != before {
            transaction.put(quotas, &stored.key, &value, None);
        }
    }
}

fn texts(amounts: &Amounts) -> Map<String, Value> {
    let texts = amounts.iter();
    texts
        .map(|(resource, amount)| (resource.to_string(), amount.to_string().into()))
        .collect()
}
