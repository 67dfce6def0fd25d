//! What the claims of a pod, or of a pod group, still need. Pure.

use std::fmt;
use std::sync::Arc;

use api::decision::{Line, reasons};
use api::kinds::{
    ClaimConsumer, ClaimSource, GeneratedClaim, POD_CLAIM_NAME, Pod, PodClaim, PodGroup,
    RESERVED_FOR_MAX, ResourceClaim, ResourceClaimTemplate, SCHEDULING_GROUP,
};
use api::syntax::go_quote;
use api::{Gate, Gates, Istr, Meta};
use runtime::triggers::by_controller;
use runtime::{IndexValue, Store};

/// Who names claims.
#[derive(Clone, Copy)]
pub enum Requester<'a> {
    Pod {
        pod: &'a Pod,
        /// The group that it is scheduled with, where groups may have claims.
        group: Option<&'a PodGroup>,
    },
    Group(&'a PodGroup),
}

/// What the caches say, and what is allowed.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub claims: &'a Store<ResourceClaim>,
    pub templates: &'a Store<ResourceClaimTemplate>,
    pub gates: Gates,
}

/// What is to be done about one of the claims.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Create {
        claim: Istr,
        template: Arc<ResourceClaimTemplate>,
        admin_access: bool,
    },
    /// The claim is there, and the status does not say so.
    Record {
        claim: Istr,
        generated: Istr,
    },
    /// The pod was bound before its claim was reserved for it.
    Reserve {
        claim: Arc<ResourceClaim>,
        consumer: ClaimConsumer,
    },
    /// The claim cannot be created. What follows it is not looked at.
    Refuse {
        claim: Istr,
        problem: Problem,
    },
    Wait(Wait),
}

/// Why a claim cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    UnknownSource { requester: String, claim: Istr },
    NoTemplate { template: Istr },
    AdminAccessOff,
    PrioritizedListOff,
}

/// What somebody else has to do first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    NoClaim { name: Istr },
    NoGroup { group: Istr },
    GroupHasNoClaim { claim: Istr, group: Istr },
    TooManyConsumers { name: Istr },
}

/// One step for each claim that needs one, up to the first that cannot be created.
pub fn plan(requester: Requester<'_>, known: Known<'_>) -> Vec<Step> {
    if requester.meta().is_terminating() || requester.is_over() {
        return Vec::new();
    }
    if let Some(group) = requester.missing_group(known.gates) {
        return vec![Step::Wait(Wait::NoGroup { group })];
    }
    let mut steps = Vec::new();
    for claim in requester.claims() {
        let step = plan_claim(requester, claim, known);
        let is_refused = matches!(step, Some(Step::Refuse { .. }));
        steps.extend(step);
        if is_refused {
            return steps;
        }
    }
    let is_settled = |step: &Step| matches!(step, Step::Wait(_));
    if let Requester::Pod { pod, group } = requester
        && !pod.node_name.is_empty()
        && steps.iter().all(is_settled)
    {
        plan_reservations(pod, group, known, &mut steps);
    }
    steps
}

fn plan_claim(requester: Requester<'_>, claim: &PodClaim, known: Known<'_>) -> Option<Step> {
    let namespace = &requester.meta().namespace;
    let find = |name: &str| known.claims.find(namespace, name);
    let name = claim.name.clone();
    let (template, generated) = match &claim.source {
        ClaimSource::Named(named) if find(named).is_some() => return None,
        ClaimSource::Named(named) => {
            return Some(Step::Wait(Wait::NoClaim {
                name: named.clone(),
            }));
        }
        ClaimSource::Unknown => {
            let problem = Problem::UnknownSource {
                requester: requester.to_string(),
                claim: name.clone(),
            };
            return Some(Step::Refuse {
                claim: name,
                problem,
            });
        }
        ClaimSource::Template {
            template,
            generated,
        } => (template, generated),
    };
    match generated {
        GeneratedClaim::NotNeeded => return None,
        GeneratedClaim::Named(named) => {
            if find(named).is_some_and(|held| requester.owns(&held, known.gates)) {
                return None;
            }
            // Somebody deleted it, or took it away: there will be another.
        }
        GeneratedClaim::NotYet => {}
    }
    let owner = requester.owner_of(claim);
    if let Some(held) = created_for(known.claims, owner, &name) {
        let generated = Istr::new(&held.metadata.name);
        return Some(Step::Record {
            claim: name,
            generated,
        });
    }
    if owner.uid != requester.meta().uid {
        let group = Istr::new(&owner.name);
        return Some(Step::Wait(Wait::GroupHasNoClaim { claim: name, group }));
    }
    Some(plan_creation(name, namespace, template, known))
}

fn plan_creation(claim: Istr, namespace: &str, template: &Istr, known: Known<'_>) -> Step {
    let Some(found) = known.templates.find(namespace, template) else {
        let template = template.clone();
        let problem = Problem::NoTemplate { template };
        return Step::Refuse { claim, problem };
    };
    let spec = found.claim_spec();
    let admin_access = spec.has_admin_access();
    let problem = if admin_access && !known.gates.enabled(Gate::DRAAdminAccess) {
        Problem::AdminAccessOff
    } else if spec.has_prioritized_list() && !known.gates.enabled(Gate::DRAPrioritizedList) {
        Problem::PrioritizedListOff
    } else {
        return Step::Create {
            claim,
            template: found,
            admin_access,
        };
    };
    Step::Refuse { claim, problem }
}

/// The claim that was created for this entry, if the status was not written since.
fn created_for(
    claims: &Store<ResourceClaim>,
    owner: &Meta,
    entry: &str,
) -> Option<Arc<ResourceClaim>> {
    let owned = claims.by(&by_controller(), &IndexValue::Uid(owner.uid.clone()));
    let mut owned = owned.into_iter();
    owned.find(|claim| claim.metadata.annotation(POD_CLAIM_NAME) == Some(entry))
}

/// A pod that was bound by somebody else than the scheduler: its claims are not reserved for it.
fn plan_reservations(pod: &Pod, group: Option<&PodGroup>, known: Known<'_>, steps: &mut Vec<Step>) {
    let requester = Requester::Pod { pod, group };
    for entry in pod.claims() {
        let Some(name) = entry.claim_name() else {
            continue;
        };
        let Some(claim) = known.claims.find(&pod.metadata.namespace, name) else {
            // UPSTREAM: a bound pod that lacks a claim cannot run, and nothing more is reserved for it.
            return;
        };
        if claim.status.allocation.is_none() || is_reserved_for(&claim, pod, known.gates) {
            continue;
        }
        if claim.status.reserved_for.len() >= RESERVED_FOR_MAX {
            let name = name.clone();
            steps.push(Step::Wait(Wait::TooManyConsumers { name }));
            continue;
        }
        let consumer = consumer(requester, entry);
        steps.push(Step::Reserve { claim, consumer });
    }
}

fn is_reserved_for(claim: &ResourceClaim, pod: &Pod, gates: Gates) -> bool {
    claim.status.reserved_for.iter().any(|consumer| {
        // Pods do not know the uid of their group.
        let is_its_group = gates.enabled(Gate::DRAWorkloadResourceClaims)
            && is_group(consumer)
            && pod.pod_group().is_some_and(|group| *group == consumer.name);
        consumer.uid == pod.metadata.uid || is_its_group
    })
}

pub(super) fn is_group(consumer: &ClaimConsumer) -> bool {
    consumer.api_group == SCHEDULING_GROUP && consumer.resource == "podgroups"
}

pub(super) fn is_pod(consumer: &ClaimConsumer) -> bool {
    consumer.api_group.is_empty() && consumer.resource == "pods"
}

fn consumer(requester: Requester<'_>, entry: &PodClaim) -> ClaimConsumer {
    let owner = requester.owner_of(entry);
    let is_group = owner.uid != requester.meta().uid;
    let (api_group, resource) = match is_group {
        true => (SCHEDULING_GROUP, "podgroups"),
        false => ("", "pods"),
    };
    ClaimConsumer {
        api_group: api_group.into(),
        resource: resource.into(),
        name: Istr::new(&owner.name),
        uid: owner.uid.clone(),
    }
}

impl<'a> Requester<'a> {
    pub fn meta(&self) -> &'a Meta {
        match self {
            Requester::Pod { pod, .. } => &pod.metadata,
            Requester::Group(group) => &group.metadata,
        }
    }

    pub fn claims(&self) -> &'a [PodClaim] {
        match self {
            Requester::Pod { pod, .. } => pod.claims(),
            Requester::Group(group) => &group.claims,
        }
    }

    /// Will it never run again? Then it needs nothing.
    fn is_over(&self) -> bool {
        matches!(self, Requester::Pod { pod, .. } if pod.is_finished())
    }

    /// What upstream calls an entry of its claims in events.
    pub fn entry_kind(&self) -> &'static str {
        match self {
            Requester::Pod { .. } => "PodResourceClaim",
            Requester::Group(_) => "PodGroupResourceClaim",
        }
    }

    /// The group that the pod names and nobody has created yet.
    fn missing_group(&self, gates: Gates) -> Option<Istr> {
        match self {
            Requester::Pod { pod, group: None }
                if gates.enabled(Gate::DRAWorkloadResourceClaims) =>
            {
                pod.pod_group().cloned()
            }
            _ => None,
        }
    }

    /// Whose claim an entry is: a pod shares those that its group names in the same words.
    fn owner_of(&self, entry: &PodClaim) -> &'a Meta {
        let is_same = |shared: &PodClaim| {
            shared.name == entry.name
                && match (&shared.source, &entry.source) {
                    (ClaimSource::Named(one), ClaimSource::Named(two)) => one == two,
                    _ => shared.template().is_some() && shared.template() == entry.template(),
                }
        };
        match self {
            Requester::Pod {
                group: Some(group), ..
            } if group.claims.iter().any(is_same) => &group.metadata,
            _ => self.meta(),
        }
    }

    /// Was the claim created for it, or for the group that it is scheduled with?
    fn owns(&self, claim: &ResourceClaim, gates: Gates) -> bool {
        let meta = self.meta();
        if claim.metadata.is_controlled_by(&meta.uid) {
            return true;
        }
        let Requester::Pod { pod, .. } = self else {
            return false;
        };
        let Some((group, owner)) = pod.pod_group().zip(claim.metadata.controller()) else {
            return false;
        };
        // The version of the group's API may change.
        gates.enabled(Gate::DRAWorkloadResourceClaims)
            && owner.kind == "PodGroup"
            && owner.group() == SCHEDULING_GROUP
            && owner.name == *group
    }
}

/// As upstream's errors name it.
impl fmt::Display for Requester<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Meta {
            namespace, name, ..
        } = self.meta();
        match self {
            Requester::Pod { .. } => write!(f, "pod \"{namespace}/{name}\""),
            Requester::Group(_) => write!(f, "PodGroup {namespace}/{name}"),
        }
    }
}

/// What users read in the event.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::UnknownSource { requester, claim } => write!(
                f,
                "checking for claim before creating it: {requester}, spec.resourceClaim {}: none of the supported \
                 fields are set",
                go_quote(claim)
            ),
            Problem::NoTemplate { template } => {
                let name = go_quote(template);
                write!(
                    f,
                    "resource claim template {name}: resourceclaimtemplate.resource.k8s.io {name} not found"
                )
            }
            Problem::AdminAccessOff => {
                f.write_str("admin access is requested, but the feature is disabled")
            }
            Problem::PrioritizedListOff => f.write_str(
                "template includes a prioritized list of subrequests, but the feature is disabled",
            ),
        }
    }
}

impl Step {
    pub fn line(&self) -> Line {
        match self {
            Step::Create {
                claim, template, ..
            } => {
                let what = format!("creates a claim for {claim}");
                let template = &template.metadata.name;
                Line::acts("CreatesClaim", what).because(format!("template {template} asks for it"))
            }
            Step::Record { claim, generated } => {
                let what = format!("records claim {generated} for {claim}");
                Line::acts("RecordsClaim", what).because("it was created for it")
            }
            Step::Reserve { claim, consumer } => {
                let what = format!("reserves claim {}", claim.metadata.name);
                let name = &consumer.name;
                Line::acts("ReservesClaim", what)
                    .because(format!("{name} is bound to a node and uses its devices"))
            }
            Step::Refuse { claim, problem } => {
                let what = format!("claim {claim} cannot be created");
                let line = Line::waits(reasons::CLAIM_REFUSED, what).because(problem.to_string());
                line.hint(match problem {
                    Problem::NoTemplate { template } => {
                        format!("create ResourceClaimTemplate {template}")
                    }
                    _ => String::new(),
                })
            }
            Step::Wait(wait) => wait.line(),
        }
    }
}

impl Wait {
    fn line(&self) -> Line {
        match self {
            Wait::NoClaim { name } => {
                Line::waits(reasons::NO_CLAIM, format!("waits for ResourceClaim {name}"))
                    .because("users create the claims that pods name")
                    .hint(format!("create ResourceClaim {name}"))
            }
            Wait::NoGroup { group } => {
                Line::waits("NoPodGroup", format!("waits for PodGroup {group}"))
                    .because("it may name the same claims")
            }
            Wait::GroupHasNoClaim { claim, group } => {
                let what = format!("waits for the claim {claim} of PodGroup {group}");
                Line::waits("PodGroupHasNoClaim", what).because("the group shares it")
            }
            Wait::TooManyConsumers { name } => {
                let what = format!("claim {name} is not reserved");
                Line::waits(reasons::TOO_MANY_CONSUMERS, what)
                    .because(format!("it has {RESERVED_FOR_MAX} consumers already"))
                    .hint("let other pods that use it end, or use another claim")
            }
        }
    }
}
