//! ResourceQuota: what a namespace may hold. Usage that is granted is written with the object, so two
//! requests cannot both take the last of something; the quota controller gives back what is deleted.

use std::collections::{BTreeMap, BTreeSet};

use api::quantity::{Format, Quantity};
use serde_json::Value;

use super::{Change, Context, Operation, Request, Verdict, built_in};
use crate::fields::{at, entry, integer, list, set, text};
use crate::kinds::{Kind, Registry, Subresource};
use crate::resources::{self, Amounts, add, amounts};
use crate::status::Status;
use crate::storage::Transaction;
use crate::strategy::services::{is_load_balancer, needs_node_port, node_ports};

/// The old names for counts of core kinds, from before `count/...` existed.
const LEGACY_COUNTS: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// Refuses what would exceed a quota of the namespace, and counts up those that it fits into.
pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    if request.namespace.is_empty() || !is_charged(request) {
        return Ok(());
    }
    let quotas = context
        .cluster
        .list(built_in("", "ResourceQuota"), request.namespace);
    for quota in quotas {
        if !matches_scopes(&quota, request.kind, object) {
            continue;
        }
        let hard = amounts(&quota, "status.hard");
        let tracked: BTreeSet<&String> = hard
            .keys()
            .filter(|name| is_tracked(request.kind, name))
            .collect();
        if tracked.is_empty() {
            continue;
        }
        let name = text(&quota, "metadata.name").to_owned();
        if request.is("", "Pod")
            && let Some(missing) = missing_requests(object, &tracked)
        {
            return Err(request.forbidden(&format!("failed quota: {name}: must specify {missing}")));
        }
        let used = amounts(&quota, "status.used");
        if tracked.iter().any(|resource| !used.contains_key(*resource)) {
            let names: Vec<_> = tracked.iter().map(|name| name.as_str()).collect();
            return Err(request.forbidden(&format!(
                "status unknown for quota: {name}, resources: {}",
                names.join(",")
            )));
        }
        let mut delta = usage(request.kind, object);
        if let Some(old) = old.filter(|old| matches_scopes(&quota, request.kind, old)) {
            subtract(&mut delta, &usage(request.kind, old));
        }
        delta.retain(|resource, amount| hard.contains_key(resource) && amount.sign() > 0);
        if delta.is_empty() {
            continue;
        }
        let mut total = used.clone();
        add(&mut total, &delta);
        let exceeded: BTreeSet<_> = delta
            .keys()
            .filter(|resource| total[*resource] > hard[*resource])
            .cloned()
            .collect();
        if !exceeded.is_empty() {
            let show = |amounts: &Amounts| {
                let kept = amounts
                    .iter()
                    .filter(|(resource, _)| exceeded.contains(*resource));
                kept.map(|(resource, amount)| format!("{resource}={amount}"))
                    .collect::<Vec<_>>()
                    .join(",")
            };
            let (requested, used, limited) = (show(&delta), show(&used), show(&hard));
            let why = format!(
                "exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
            );
            return Err(request.forbidden(&why));
        }
        let total: serde_json::Map<_, _> = total
            .into_iter()
            .map(|(resource, amount)| (resource, amount.to_string().into()))
            .collect();
        let mut quota = Value::clone(&quota);
        set(&mut quota, "status.used", total);
        verdict
            .changes
            .push(Change::Put(built_in("", "ResourceQuota").clone(), quota));
    }
    Ok(())
}

/// Writes into every quota what it limits and how much of that is used.
pub(crate) fn recount(registry: &Registry, transaction: &mut Transaction<'_>) {
    let quotas = built_in("", "ResourceQuota");
    for stored in transaction.list(quotas, "") {
        let mut quota = stored.value(quotas);
        let hard = amounts(&quota, "spec.hard");
        let mut used: Amounts = hard
            .keys()
            .map(|name| (name.clone(), Quantity::new(0, Format::DecimalSi)))
            .collect();
        let charged = registry.iter().filter(|kind| {
            kind.namespaced && hard.keys().any(|resource| is_tracked(kind, resource))
        });
        for kind in charged {
            for object in transaction.list(kind, &format!("{}/", stored.namespace())) {
                let object = object.value(kind);
                if matches_scopes(&quota, kind, &object) {
                    add(&mut used, &usage(kind, &object));
                }
            }
        }
        used.retain(|name, _| hard.contains_key(name));
        let before = at(&quota, "status").clone();
        for (path, amounts) in [("status.hard", hard), ("status.used", used)] {
            let texts: serde_json::Map<_, _> = amounts
                .into_iter()
                .map(|(resource, amount)| (resource, amount.to_string().into()))
                .collect();
            set(&mut quota, path, texts);
        }
        if *at(&quota, "status") != before {
            transaction.put(quotas, &stored.key, &quota, None);
        }
    }
}

/// Which requests can raise usage.
fn is_charged(request: &Request<'_>) -> bool {
    let grows_on_update = request.is("", "Service") || request.is("", "PersistentVolumeClaim");
    match (request.operation, request.subresource) {
        (Operation::Create, None) => !matches!(&*request.kind.kind, "Event"),
        (Operation::Update, None) => grows_on_update,
        (Operation::Update, Some(Subresource::Resize)) => request.is("", "Pod"),
        _ => false,
    }
}

/// Whether a quota's resource is one that objects of this kind use up.
fn is_tracked(kind: &Kind, resource: &str) -> bool {
    if resource.strip_prefix("count/") == Some(&kind.qualified_plural()) {
        return true;
    }
    if !kind.group.is_empty() {
        return false;
    }
    match &*kind.kind {
        "Pod" => {
            let plain = resource
                .trim_start_matches("requests.")
                .trim_start_matches("limits.");
            let compute = matches!(plain, "cpu" | "memory" | "ephemeral-storage")
                || plain.starts_with("hugepages-");
            let extended = resource.starts_with("requests.")
                && plain.contains('/')
                && !plain.contains(".storageclass.");
            resource == "pods" || compute || extended
        }
        "Service" => matches!(
            resource,
            "services" | "services.nodeports" | "services.loadbalancers"
        ),
        "PersistentVolumeClaim" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
                || resource.contains(".storageclass.storage.k8s.io/")
        }
        _ => LEGACY_COUNTS.contains(&resource) && resource == kind.plural,
    }
}

fn usage(kind: &Kind, object: &Value) -> Amounts {
    let mut total = Amounts::new();
    let mut count = |name: String, number: usize| {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        total.insert(name, Quantity::new(number, Format::DecimalSi));
    };
    count(format!("count/{}", kind.qualified_plural()), 1);
    if !kind.group.is_empty() {
        return total;
    }
    match &*kind.kind {
        "Pod" if resources::is_terminal(object) => {}
        "Pod" => {
            count("pods".to_owned(), 1);
            add(
                &mut total,
                &compute(
                    &resources::pod_requests(object),
                    &resources::pod_limits(object),
                ),
            );
        }
        "Service" => {
            count("services".to_owned(), 1);
            let ports = if needs_node_port(object) {
                list(object, "spec.ports")
                    .len()
                    .max(node_ports(object).len())
            } else {
                0
            };
            count("services.nodeports".to_owned(), ports);
            count(
                "services.loadbalancers".to_owned(),
                usize::from(is_load_balancer(object)),
            );
        }
        "PersistentVolumeClaim" => {
            count("persistentvolumeclaims".to_owned(), 1);
            let beta = entry(
                object,
                "metadata.annotations",
                "volume.beta.kubernetes.io/storage-class",
            );
            let class = beta
                .unwrap_or_else(|| text(object, "spec.storageClassName"))
                .to_owned();
            let prefix = format!("{class}.storageclass.storage.k8s.io/");
            if !class.is_empty() {
                count(format!("{prefix}persistentvolumeclaims"), 1);
            }
            if let Some(size) = resources::quantity(at(object, "spec.resources.requests.storage")) {
                total.insert("requests.storage".to_owned(), size.clone());
                if !class.is_empty() {
                    total.insert(format!("{prefix}requests.storage"), size);
                }
            }
        }
        _ => count(kind.plural.to_string(), 1),
    }
    total
}

/// What requests and limits count as in a quota.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut total = Amounts::new();
    for (name, amount) in requests {
        let basic = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with("hugepages-");
        if basic {
            total.insert(name.clone(), amount.clone());
        }
        if basic || name.contains('/') {
            total.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            total.insert(format!("limits.{name}"), amount.clone());
        }
    }
    total
}

/// UPSTREAM: where cpu or memory is limited, every container must say what it needs.
fn missing_requests(pod: &Value, tracked: &BTreeSet<&String>) -> Option<String> {
    const REQUIRED: [&str; 6] = [
        "cpu",
        "memory",
        "requests.cpu",
        "requests.memory",
        "limits.cpu",
        "limits.memory",
    ];
    let pod_level =
        amounts(pod, "spec.resources.requests").len() + amounts(pod, "spec.resources.limits").len();
    if pod_level > 0 {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in list(pod, "spec.containers")
        .iter()
        .chain(list(pod, "spec.initContainers"))
    {
        let given = compute(
            &amounts(container, "resources.requests"),
            &amounts(container, "resources.limits"),
        );
        for name in tracked
            .iter()
            .filter(|name| REQUIRED.contains(&name.as_str()) && !given.contains_key(**name))
        {
            missing
                .entry(name)
                .or_default()
                .insert(text(container, "name"));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let describe = |(name, containers): (&&str, &BTreeSet<&str>)| {
        format!(
            "{name} for: {}",
            containers.iter().copied().collect::<Vec<_>>().join(",")
        )
    };
    Some(missing.iter().map(describe).collect::<Vec<_>>().join("; "))
}

fn subtract(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if let Some(current) = total.get_mut(name) {
            *current -= amount;
        }
    }
}

fn matches_scopes(quota: &Value, kind: &Kind, object: &Value) -> bool {
    let scopes = list(quota, "spec.scopes").iter().filter_map(Value::as_str);
    let selectors = list(quota, "spec.scopeSelector.matchExpressions");
    if !kind.is("", "Pod") {
        return list(quota, "spec.scopes").is_empty() && selectors.is_empty();
    }
    scopes
        .into_iter()
        .all(|scope| matches_scope(scope, "Exists", &[], object))
        && selectors.iter().all(|selector| {
            matches_scope(
                text(selector, "scopeName"),
                text(selector, "operator"),
                list(selector, "values"),
                object,
            )
        })
}

fn matches_scope(scope: &str, operator: &str, values: &[Value], pod: &Value) -> bool {
    let has_deadline =
        integer(pod, "spec.activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "BestEffort" => resources::qos_class(pod) == "BestEffort",
        "NotBestEffort" => resources::qos_class(pod) != "BestEffort",
        "PriorityClass" => {
            let class = text(pod, "spec.priorityClassName");
            let listed = values.iter().any(|value| value == class);
            match operator {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(pod),
        _ => false,
    }
}

fn crosses_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !list(term, "namespaces").is_empty() || at(term, "namespaceSelector").is_object()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let list_of = |name: &str| list(pod, &format!("spec.affinity.{kind}.{name}"));
        list_of("requiredDuringSchedulingIgnoredDuringExecution")
            .iter()
            .any(crosses)
            || list_of("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|term| crosses(at(term, "podAffinityTerm")))
    })
}
