//! Why the API server does not create what a workload asks for, by what is in its namespace. What the server says is shown,
//! and nothing is concluded from its words.

use std::fmt;

use api::amounts::{self, Amounts};
use api::kinds::{PersistentVolumeClaim, Pod, ResourceQuota};
use api::pod_resources::PodResources;
use api::quota::{self, Counted, DeviceClasses, Evaluator, Item};
use api::{Istr, MicroTime};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::facts::{Facts, kind_of};
use crate::json::{condition, list, text};

/// What keeps objects from being created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoServiceAccount(String),
    Quota(QuotaRefusal),
    /// The namespace enforces one of the pod security standards.
    PodSecurity,
}

/// Why a quota admits no more of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRefusal {
    pub quota: String,
    /// `requested: pods=1, used: pods=2, limited: pods=2`, or what has to be specified.
    pub why: String,
    /// Containers do not say what they need.
    pub is_unspecified: bool,
}

/// `exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2`
impl fmt::Display for QuotaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuotaRefusal { quota, why, .. } = self;
        match self.is_unspecified {
            true => write!(f, "failed quota: {quota}: {why}"),
            false => write!(f, "exceeded quota: {quota}, {why}"),
        }
    }
}

/// Was anything refused lately that somebody wanted to create for these?
pub fn has_refusals(facts: &Facts) -> bool {
    let mut objects = std::iter::once(&facts.object).chain(&facts.related);
    let is_failure = |held: &Value| text(held, "/status") == "True";
    let failed = |event: &Value| text(event, "/reason") == "FailedCreate";
    objects.any(|object| condition(object, "ReplicaFailure").is_some_and(is_failure))
        || facts.events.iter().any(failed)
}

/// What refuses to create the pods of a workload, by what is there now.
pub(crate) fn of(facts: &Facts, owner: &Value) -> Option<Refusal> {
    let account = match text(owner, "/spec/template/spec/serviceAccountName") {
        "" => "default",
        name => name,
    };
    if facts.is_absent("ServiceAccount", account) {
        return Some(Refusal::NoServiceAccount(account.to_owned()));
    }
    let now = facts.now.micro();
    let mut quotas = facts.of_kind("ResourceQuota");
    if let Some(refusal) = quotas.find_map(|quota| refused_by(quota, owner, now)) {
        return Some(Refusal::Quota(refusal));
    }
    let mut namespaces = facts.of_kind("Namespace");
    let enforced = "/metadata/labels/pod-security.kubernetes.io~1enforce";
    let is_strict = |namespace: &Value| !matches!(text(namespace, enforced), "" | "privileged");
    namespaces.any(is_strict).then_some(Refusal::PodSecurity)
}

/// Why a quota does not admit what an owner creates next, if it does not.
pub fn refused_by(quota: &Value, owner: &Value, now: MicroTime) -> Option<QuotaRefusal> {
    let quota = ResourceQuota::deserialize(quota).ok()?;
    let mut created = created_by(owner).into_iter();
    created.find_map(|created| created.refused_by(&quota, now))
}

/// The resources of a quota that what an owner creates uses up: `pods=5`; none where it is not the quota's concern.
pub fn limited_by(quota: &Value, owner: &Value) -> Option<String> {
    let quota = ResourceQuota::deserialize(quota).ok()?;
    let created = created_by(owner);
    let mut limits = created.iter().filter_map(|created| created.limits(&quota));
    limits.next().map(|limits| amounts::show(&limits))
}

/// An object that somebody wants to create.
struct Created {
    evaluator: Evaluator,
    object: Object,
}

enum Object {
    Pod(Box<Pod>, PodResources),
    Claim(Box<PersistentVolumeClaim>),
    Other,
}

fn created_by(owner: &Value) -> Vec<Created> {
    let other = |group, plural| {
        vec![Created {
            evaluator: Evaluator::of(group, plural),
            object: Object::Other,
        }]
    };
    match kind_of(owner) {
        "Deployment" => other("apps", "replicasets"),
        "CronJob" => other("batch", "jobs"),
        _ => {
            let claims = list(owner, "/spec/volumeClaimTemplates").iter();
            let claims = claims.filter_map(Created::claim);
            claims.chain(Created::pod(owner)).collect()
        }
    }
}

impl Created {
    fn pod(owner: &Value) -> Option<Created> {
        let template = &owner["spec"]["template"];
        let part = |name: &str| template.get(name).cloned().unwrap_or_else(|| json!({}));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": part("metadata"), "spec": part("spec"),
        });
        let resources = PodResources::deserialize(&pod).unwrap_or_default();
        let pod = Pod::deserialize(&pod).ok()?;
        Some(Created {
            evaluator: Evaluator::of("", "pods"),
            object: Object::Pod(Box::new(pod), resources),
        })
    }

    fn claim(template: &Value) -> Option<Created> {
        let claim = PersistentVolumeClaim::deserialize(template).ok()?;
        Some(Created {
            evaluator: Evaluator::of("", "persistentvolumeclaims"),
            object: Object::Claim(Box::new(claim)),
        })
    }

    fn item(&self) -> Item<'_> {
        match &self.object {
            Object::Pod(pod, _) => Item::Pod(pod),
            Object::Claim(claim) => Item::Claim(claim),
            Object::Other => Item::Other,
        }
    }

    /// What the quota enforces of what the object uses; none where the quota does not count it.
    fn limits(&self, quota: &ResourceQuota) -> Option<Amounts> {
        let hard = quota.status.hard.as_ref()?;
        let tracked = self.tracked(hard);
        let is_counted = !tracked.is_empty() && quota::matches(quota, &self.item());
        let of = |name: &Istr| (name.clone(), hard[name].clone());
        is_counted.then(|| tracked.into_iter().map(of).collect())
    }

    fn tracked<'a>(&self, hard: &'a Amounts) -> Vec<&'a Istr> {
        self.evaluator
            .tracked(hard.keys(), &DeviceClasses::default())
    }

    fn refused_by(&self, quota: &ResourceQuota, now: MicroTime) -> Option<QuotaRefusal> {
        let limits = self.limits(quota)?;
        let refusal = |why, is_unspecified| QuotaRefusal {
            quota: quota.metadata.name.to_string(),
            why,
            is_unspecified,
        };
        if let Object::Pod(_, resources) = &self.object
            && self.evaluator.counted() == Counted::Pods
            && let Some(missing) = quota::missing_requests(resources, &self.tracked(&limits))
        {
            return Some(refusal(missing, true));
        }
        let none = Amounts::new();
        let used = quota.status.used.as_ref().unwrap_or(&none);
        let requested = self.evaluator.usage(&self.item(), now);
        let mut total = used.clone();
        amounts::add(&mut total, &requested);
        let exceeds = |name: &Istr| limits.get(name).is_some_and(|most| total[name] > *most);
        let exceeded: Vec<&Istr> = requested.keys().filter(|name| exceeds(name)).collect();
        let show =
            |all: &Amounts| amounts::show(all.iter().filter(|(name, _)| exceeded.contains(name)));
        let why = || {
            format!(
                "requested: {}, used: {}, limited: {}",
                show(&requested),
                show(used),
                show(&limits)
            )
        };
        (!exceeded.is_empty()).then(|| refusal(why(), false))
    }
}
