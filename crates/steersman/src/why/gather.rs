//! Reads what an explanation rests on. Nothing is written.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use api::kinds::{
    DeviceClass, EndpointSlice, Node, PersistentVolumeClaim, Pod, PodDisruptionBudget,
    ResourceClaim, ResourceQuota, VolumeAttributesClass, WORKLOADS, WorkloadKind,
};
use api::{Resource, ResourceType};
use controllers::discovery::Discovery;
use explain::{Facts, Kind, Need, Source};
use serde_json::Value;

use super::keep;
use crate::connect::Connection;

pub(crate) struct Gatherer<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) discovery: &'a Discovery,
    pub(crate) namespace: &'a str,
    /// Somebody may plan on what is gathered, where no manager says what it has decided: then every pod counts.
    pub(crate) for_plans: bool,
}

impl Gatherer<'_> {
    /// The object and what has to do with it. What may not be read is named and left out.
    pub(crate) async fn facts(&self, resource: &ResourceType, name: &str) -> Result<Facts> {
        let object = match self.connection.get(resource, self.namespace, name).await {
            Ok(object) => object,
            Err(error) => bail!("{}", self.cannot_read(resource, name, &error)),
        };
        let now = self.connection.now().await;
        // The source is known later.
        let source = Source::Objects(String::new());
        let mut facts = Facts::new(now, source, object);
        let needs = Kind::of(&facts.object).map_or(&[][..], |kind| kind.needs);
        for need in needs {
            self.satisfy(need, &mut facts).await;
        }
        self.nodes_of_unready_pods(&mut facts).await;
        if resource.namespaced {
            self.events(&mut facts).await;
        }
        if explain::has_unschedulable_pods(&facts) {
            self.add(&Node::TYPE, None, &mut facts).await;
        }
        self.references(&mut facts).await;
        if needs.iter().any(|need| matches!(need, Need::Refused)) {
            self.refused(&mut facts).await;
        } else if explain::has_refusals(&facts) {
            self.refusals(&mut facts).await;
        }
        Ok(facts)
    }

    /// What pods refer to that cannot start: whether it is there, and its keys.
    async fn references(&self, facts: &mut Facts) {
        let references = explain::missing_references(facts);
        for reference in references.into_iter().take(REFERENCES_MAX) {
            let plural = match reference.kind {
                "Secret" => "secrets",
                _ => "configmaps",
            };
            self.look_up(plural, &reference.name, facts).await;
        }
    }

    /// Reads an object that may be missing.
    async fn look_up(&self, plural: &str, name: &str, facts: &mut Facts) {
        let Some(resource) = self.discovery.named(plural) else {
            return;
        };
        match self.connection.get(resource, self.namespace, name).await {
            Ok(found) => facts.related.push(keep::without_values(found)),
            Err(error) if error.is_not_found() => {
                let kind = resource.kind.to_string();
                facts.absent.insert((kind, name.to_owned()));
            }
            Err(error) => {
                let why = self.cannot_read(resource, name, &error);
                facts.could_not_read(&resource.kind, why);
            }
        }
    }

    /// What may keep the API server from creating pods: quotas, the service account, the namespace's policy.
    async fn refusals(&self, facts: &mut Facts) {
        self.add(&ResourceQuota::TYPE, None, facts).await;
        let all = std::iter::once(&facts.object).chain(&facts.related);
        let owners = all.filter(|object| is_workload(object));
        let accounts: BTreeSet<String> = owners
            .map(|owner| text(owner, "/spec/template/spec/serviceAccountName").to_owned())
            .collect();
        for account in accounts.into_iter().take(ACCOUNTS_MAX) {
            let name = if account.is_empty() {
                "default"
            } else {
                &account
            };
            self.look_up("serviceaccounts", name, facts).await;
        }
        if let Some(resource) = self.discovery.named("namespaces") {
            match self.connection.get(resource, "", self.namespace).await {
                Ok(namespace) => facts.related.push(namespace),
                Err(error) => {
                    let why = self.cannot_read(resource, self.namespace, &error);
                    facts.could_not_read(&resource.kind, why);
                }
            }
        }
    }

    /// Who was lately refused what it wanted to create, by the events of the namespace.
    async fn refused(&self, facts: &mut Facts) {
        let refused = facts.events.iter();
        let refused = refused.filter(|event| event["reason"] == "FailedCreate");
        let owners: BTreeSet<(String, String, String)> = refused
            .map(|event| {
                let of = |field: &str| text(&event["involvedObject"], field).to_owned();
                (of("/apiVersion"), of("/kind"), of("/name"))
            })
            .collect();
        for (version, kind, name) in owners.into_iter().take(OWNERS_MAX) {
            let Some(resource) = self.discovery.find(&version, &kind) else {
                continue;
            };
            match self.connection.get(resource, self.namespace, &name).await {
                Ok(owner) => facts.related.push(owner),
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let why = self.cannot_read(resource, &name, &error);
                    facts.could_not_read(&resource.kind, why);
                }
            }
        }
    }

    fn cannot_read(&self, resource: &ResourceType, name: &str, error: &client::Error) -> String {
        let kind = resource.kind.to_lowercase();
        let place = match resource.namespaced {
            true => format!(" in namespace {}", self.namespace),
            false => String::new(),
        };
        if error.is_not_found() {
            let hint = match resource.namespaced {
                true => "; use -n to choose another namespace",
                false => "",
            };
            return format!("there is no {kind}/{name}{place}{hint}");
        }
        format!(
            "cannot read {kind}/{name}{place}: {}",
            client::describe(error)
        )
    }

    /// Reads what an explanation of the object needs.
    async fn satisfy(&self, need: &Need, facts: &mut Facts) {
        match need {
            Need::All(kind) => self.add(kind, None, facts).await,
            Need::Controlled(kind) => self.controlled(kind, facts).await,
            Need::Selected(kind) => {
                if let Some(selector) = selector_of_some(&facts.object) {
                    self.add(kind, Some(&selector), facts).await;
                }
            }
            Need::Pods => {
                self.pods(self.needs_pods_at_work(&facts.object), facts)
                    .await
            }
            Need::AllPods => self.pods(true, facts).await,
            Need::Budgets => self.budgets(facts).await,
            Need::Owner => self.owner(facts).await,
            Need::AroundPod => self.around_pod(facts).await,
            Need::AroundNode => self.around_node(facts).await,
            Need::UnderBudget => self.under_budget(facts).await,
            Need::AttributesClass => {
                if !text(&facts.object, "/spec/volumeAttributesClassName").is_empty() {
                    self.add(&VolumeAttributesClass::TYPE, None, facts).await;
                }
            }
            Need::ClaimOfVolume => self.claim_of(facts).await,
            Need::BehindService => self.behind_service(None, facts).await,
            Need::BehindIngress => self.behind_ingress(facts).await,
            Need::ScaleTarget => self.scaled(facts).await,
            Need::Content => {
                let name = text(&facts.object, "/metadata/name").to_owned();
                self.content(&name, facts).await;
            }
            // By the events, which come last.
            Need::Refused => {}
        }
    }

    async fn controlled(&self, kind: &ResourceType, facts: &mut Facts) {
        self.add(kind, None, facts).await;
        let uid = facts.object["metadata"]["uid"].clone();
        let is_of_kind = |object: &Value| explain::kind_of(object) == kind.kind;
        let related = &mut facts.related;
        related.retain(|one| !is_of_kind(one) || is_controlled_by(one, &uid));
    }

    /// The pods that a workload selects. Those at work are kept where they count for something.
    async fn pods(&self, with_those_at_work: bool, facts: &mut Facts) {
        let Some(selector) = selector_of_some(&facts.object) else {
            return;
        };
        let keep = match with_those_at_work {
            true => keep::pod_of_workload,
            false => keep::pod_that_may_be_why,
        };
        self.add_kept(&Pod::TYPE, Some(&selector), keep, facts)
            .await;
    }

    /// Pods that have just become ready have to stay so for a while.
    fn needs_pods_at_work(&self, object: &Value) -> bool {
        let seconds = object.pointer("/spec/minReadySeconds");
        let is_patient = seconds.and_then(Value::as_i64).is_some_and(|some| some > 0);
        self.for_plans || is_patient
    }

    /// Who controls the object.
    async fn owner(&self, facts: &mut Facts) {
        let owners = facts.object["metadata"]["ownerReferences"].clone();
        for owner in owners.as_array().into_iter().flatten() {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            if owner["controller"] != true {
                continue;
            }
            let Some(resource) = self.discovery.find(text("apiVersion"), text("kind")) else {
                continue;
            };
            match self
                .connection
                .get(resource, self.namespace, text("name"))
                .await
            {
                Ok(found) => facts.related.push(found),
                Err(error) => facts
                    .missing
                    .push(self.cannot_read(resource, text("name"), &error)),
            }
        }
    }

    /// Who preempts a pod or is preempted by it is shown by the pods of the same node, and who has its volume by all.
    async fn around_pod(&self, facts: &mut Facts) {
        let is_nominated = !text(&facts.object, "/status/nominatedNodeName").is_empty();
        let conditions = facts.object["status"]["conditions"].as_array();
        let is_disrupted =
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "DisruptionTarget"));
        let claims = facts.object["spec"]["volumes"].as_array().into_iter();
        let has_claim = claims
            .flatten()
            .any(|one| one.get("persistentVolumeClaim").is_some());
        let is_starting = has_claim && facts.object["status"]["phase"] == "Pending";
        if is_nominated || is_disrupted || is_starting {
            self.add(&Pod::TYPE, None, facts).await;
        }
        self.add(&PersistentVolumeClaim::TYPE, None, facts).await;
        let claims = facts.object["spec"]["resourceClaims"].as_array();
        if claims.is_some_and(|claims| !claims.is_empty()) {
            self.add(&ResourceClaim::TYPE, None, facts).await;
            self.add(&DeviceClass::TYPE, None, facts).await;
        }
    }

    /// What an autoscaler scales.
    async fn scaled(&self, facts: &mut Facts) {
        let held = |field: &str| {
            let pointer = format!("/spec/scaleTargetRef/{field}");
            text(&facts.object, &pointer).to_owned()
        };
        let (version, kind, name) = (held("apiVersion"), held("kind"), held("name"));
        let Some(resource) = self.discovery.find(&version, &kind) else {
            return;
        };
        match self.connection.get(resource, self.namespace, &name).await {
            Ok(found) => facts.related.push(found),
            Err(error) => {
                let why = self.cannot_read(resource, &name, &error);
                facts.missing.push(why);
            }
        }
    }

    /// The claim that a volume is bound to, or kept for.
    async fn claim_of(&self, facts: &mut Facts) {
        let Some(resource) = self.discovery.named("persistentvolumeclaims") else {
            return;
        };
        let held = |field: &str| text(&facts.object, field).to_owned();
        let (namespace, name) = (
            held("/spec/claimRef/namespace"),
            held("/spec/claimRef/name"),
        );
        if name.is_empty() {
            return;
        }
        match self.connection.get(resource, &namespace, &name).await {
            Ok(claim) => facts.related.push(claim),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let why = self.cannot_read(resource, &name, &error);
                facts.could_not_read(&resource.kind, why);
            }
        }
    }

    /// Budgets, and the pods of those whose status nobody has written.
    async fn budgets(&self, facts: &mut Facts) {
        self.add(&PodDisruptionBudget::TYPE, None, facts).await;
        for selector in explain::budgets_to_count(facts) {
            let selector = selector.to_string();
            let selector = Some(selector.as_str()).filter(|text| !text.is_empty());
            self.add(&Pod::TYPE, selector, facts).await;
        }
    }

    /// The pods under a budget.
    async fn under_budget(&self, facts: &mut Facts) {
        let selector = explain::selector_of(&facts.object).map(|selector| selector.to_string());
        if let Some(selector) = selector {
            let selector = Some(selector.as_str()).filter(|text| !text.is_empty());
            self.add(&Pod::TYPE, selector, facts).await;
        }
    }

    /// The pods and slices of a Service: the one that is asked about, or one behind it. Where nobody is selected, the
    /// pods that are there and the owners that may make others, one of which may be what was meant.
    async fn behind_service(&self, service: Option<&Value>, facts: &mut Facts) {
        let service = service.unwrap_or(&facts.object).clone();
        let name = text(&service, "/metadata/name");
        let slices = format!("kubernetes.io/service-name={name}");
        self.add(&EndpointSlice::TYPE, Some(&slices), facts).await;
        let selector = explain::selector_of(&service);
        let Some(selector) = selector.map(|selector| selector.to_string()) else {
            return;
        };
        let known = facts.related.len();
        self.add(&Pod::TYPE, Some(&selector), facts).await;
        if facts.related.len() == known {
            self.add(&Pod::TYPE, None, facts).await;
            for workload in WORKLOADS.iter().filter(|one| one.rolls_out) {
                self.add(&workload.resource, None, facts).await;
            }
        }
    }

    /// The Services that an Ingress leads to, with what is behind them.
    async fn behind_ingress(&self, facts: &mut Facts) {
        let Some(resource) = self.discovery.named("services") else {
            return;
        };
        let names = explain::backends(&facts.object);
        for name in names.iter().take(BACKENDS_MAX) {
            match self.connection.get(resource, self.namespace, name).await {
                Ok(service) => {
                    self.behind_service(Some(&service), facts).await;
                    facts.related.push(service);
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let why = self.cannot_read(resource, name, &error);
                    facts.could_not_read(&resource.kind, why);
                }
            }
        }
        if names.len() > BACKENDS_MAX {
            let left = names.len() - BACKENDS_MAX;
            let why = format!("services: {left} more than the first {BACKENDS_MAX} behind it");
            facts.could_not_read(&resource.kind, why);
        }
    }

    /// When its kubelet posted status last, and what keeps its pods from being evicted once somebody drains it.
    async fn around_node(&self, facts: &mut Facts) {
        self.lease(text(&facts.object, "/metadata/name").to_owned(), facts)
            .await;
        if facts.object["spec"]["unschedulable"] == true {
            let everywhere = Gatherer {
                namespace: "",
                ..*self
            };
            for kind in [PodDisruptionBudget::TYPE, Pod::TYPE] {
                everywhere.add(&kind, None, facts).await;
            }
        }
    }

    /// The nodes of pods that are not ready: a kubelet that stopped posting status may be why.
    async fn nodes_of_unready_pods(&self, facts: &mut Facts) {
        let Some(resource) = self.discovery.named("nodes") else {
            return;
        };
        let names: BTreeSet<String> = explain::unknown_nodes_of_pods(facts)
            .map(str::to_owned)
            .collect();
        for name in names.into_iter().take(NODES_MAX) {
            match self.connection.get(resource, "", &name).await {
                Ok(node) => facts.related.push(node),
                Err(error) => {
                    let why = self.cannot_read(resource, &name, &error);
                    facts.could_not_read("Node", why);
                    break;
                }
            }
        }
        let unreachable: Vec<String> = explain::unreachable_nodes(facts)
            .map(str::to_owned)
            .collect();
        for name in unreachable.into_iter().take(NODES_MAX) {
            self.lease(name, facts).await;
        }
    }

    /// What a kubelet renews every few seconds; its status it reports only when that changes, or every few minutes.
    async fn lease(&self, node: String, facts: &mut Facts) {
        let Some(resource) = self.discovery.named("leases") else {
            return;
        };
        match self
            .connection
            .get(resource, "kube-node-lease", &node)
            .await
        {
            Ok(lease) => facts.related.push(lease),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let why = format!("lease of node/{node}: {}", client::describe(&error));
                facts.could_not_read("Lease", why);
            }
        }
    }

    /// Everything that is left in a namespace that is being deleted.
    async fn content(&self, namespace: &str, facts: &mut Facts) {
        if facts.object["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let kinds = self.discovery.preferred(&["list", "delete"]);
        for served in kinds.filter(|served| served.resource.namespaced) {
            // Events come and go with what they are about, and the same ones are served twice.
            if served.resource.kind == "Event" {
                continue;
            }
            match self
                .connection
                .list(&served.resource, namespace, None)
                .await
            {
                Ok(found) => facts.related.extend(found),
                Err(error) => facts.missing.push(cannot_list(&served.resource, &error)),
            }
        }
        facts.missing.extend(self.discovery.failure());
    }

    async fn events(&self, facts: &mut Facts) {
        let Some(resource) = self.discovery.named("events") else {
            return;
        };
        let wanted = keep::Events::about(facts);
        let listed = self
            .connection
            .list_kept(resource, self.namespace, None, |item| wanted.keep(item));
        match listed.await {
            Ok(found) => facts.events = found,
            Err(error) => {
                facts.could_not_read(&resource.kind, cannot_list(resource, &error));
            }
        }
    }

    async fn add(&self, kind: &ResourceType, selector: Option<&str>, facts: &mut Facts) {
        let keep = match explain::kind_of(&facts.object) {
            _ if *kind != Pod::TYPE => keep::object,
            "Service" | "Ingress" => keep::pod_behind_service,
            "PodDisruptionBudget" => keep::pod_of_workload,
            _ if is_workload(&facts.object) => keep::pod_of_workload,
            _ => keep::object,
        };
        self.add_kept(kind, selector, keep, facts).await;
    }

    async fn add_kept(
        &self,
        kind: &ResourceType,
        selector: Option<&str>,
        keep: fn(&[u8]) -> Option<Value>,
        facts: &mut Facts,
    ) {
        // The server may have it in another version than we know.
        let served = self.discovery.preferred_version(&kind.group, &kind.plural);
        let Some(resource) = served.map(|served| &served.resource) else {
            return;
        };
        let selector = selector.map(str::to_owned);
        match self
            .connection
            .list_kept(resource, self.namespace, selector, keep)
            .await
        {
            Ok(found) => {
                let known: BTreeSet<String> = uids(&facts.related).collect();
                let new = |object: &Value| {
                    !known.contains(text(object, "/metadata/uid"))
                        && object["metadata"]["uid"] != facts.object["metadata"]["uid"]
                };
                let found: Vec<Value> = found.into_iter().filter(new).collect();
                facts.related.extend(found);
            }
            Err(error) => {
                facts.could_not_read(&resource.kind, cannot_list(resource, &error));
            }
        }
    }
}

/// More nodes than this need not be named to know what is wrong.
const NODES_MAX: usize = 8;

/// More claims than this need not be asked about to know what pods wait for.
const CLAIMS_MAX: usize = 8;

/// More ConfigMaps and Secrets than this need not be looked for to know what a pod misses.
const REFERENCES_MAX: usize = 16;

/// The sets of one workload have one account, or two while it changes.
const ACCOUNTS_MAX: usize = 4;

/// More owners than this need not be named to know that a quota is too small.
const OWNERS_MAX: usize = 16;

/// More Services than this behind one Ingress are not read.
const BACKENDS_MAX: usize = 16;

fn is_workload(object: &Value) -> bool {
    WorkloadKind::of(explain::group_of(object), text(object, "/kind")).is_some()
}

/// Whom a workload selects; an empty selector selects nobody.
fn selector_of_some(object: &Value) -> Option<String> {
    let selector = explain::selector_of(object)?.to_string();
    (!selector.is_empty()).then_some(selector)
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn is_controlled_by(object: &Value, uid: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["uid"] == *uid)
}

fn uids(objects: &[Value]) -> impl Iterator<Item = String> {
    let uids = objects.iter().map(|object| text(object, "/metadata/uid"));
    uids.map(str::to_owned)
}

/// `pods: you may not list them`
pub(crate) fn cannot_list(resource: &ResourceType, error: &client::Error) -> String {
    let plural = &resource.plural;
    match error.is_forbidden() {
        true => format!("{plural}: you may not list them"),
        false => format!("{plural}: {}", client::describe(error)),
    }
}

/// The objects of the facts that controllers decide about: the one asked about, its sets or owner, and the claims that
/// its pods wait for.
pub(crate) fn decided_about(facts: &Facts) -> impl Iterator<Item = &Value> {
    let pods = std::iter::once(&facts.object).chain(&facts.related);
    let volumes = pods.flat_map(|pod| pod["spec"]["volumes"].as_array().into_iter().flatten());
    let used: BTreeSet<&str> = volumes
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .collect();
    let claims = facts.related.iter().filter(move |object| {
        explain::kind_of(object) == "PersistentVolumeClaim"
            && object["status"]["phase"] != "Bound"
            && used.contains(text(object, "/metadata/name"))
    });
    let sets = facts.related.iter().filter(|object| is_workload(object));
    std::iter::once(&facts.object)
        .chain(sets)
        .chain(claims.take(CLAIMS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_binder_is_asked_about_claims_that_pods_wait_for() {
        let claim = |name: &str, phase: &str| {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": name}, "status": {"phase": phase}})
        };
        let volume = |name: &str| json!({"persistentVolumeClaim": {"claimName": name}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"},
            "spec": {"volumes": [volume("a"), volume("b")]}});
        let now = api::Time::from_unix(1_000_000_000);
        let mut facts = Facts::new(now, Source::Simulation, pod);
        facts.related = vec![
            claim("a", "Pending"),
            claim("b", "Bound"),
            claim("c", "Pending"),
        ];
        let asked = decided_about(&facts).map(|one| text(one, "/metadata/name"));
        assert_eq!(asked.collect::<Vec<_>>(), ["db", "a"]);
    }
}
