//! PodSecurity: what a namespace's labels, or a file, say about how privileged its pods may be.
//! Mirrors `k8s.io/pod-security-admission`.

mod checks;
mod policy;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Context, Operation, Request, Verdict, built_in};
use crate::fields::{at, entry, list, text};
use crate::kinds::Subresource;
use crate::status::{Cause, Status, summary};
pub(crate) use policy::{Level, PodSecurity, Version};
use policy::{PREFIX, Policy, Standard};

/// UPSTREAM: how many pods are looked at when a namespace's level is raised.
const PODS_MAX: usize = 3000;

/// Refuses a pod that may do more than its namespace enforces, and warns about what it asks to be warned of.
pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    if request.is("", "Namespace") && request.subresource.is_none() {
        return check_namespace(context, object, old, verdict);
    }
    let Some((metadata, spec)) = pod_in(request, object) else {
        return Ok(());
    };
    if !is_concerned(request) {
        return Ok(());
    }
    let told = &context.settings.plugin_settings.pod_security;
    let exempt = match &told.exemptions {
        exempt if exempt.has_namespace(request.namespace) => Some("namespace"),
        exempt if exempt.has_user(&context.user.user) => Some("user"),
        _ => None,
    };
    if let Some(why) = exempt {
        annotate(verdict, "exempt", why);
        return Ok(());
    }
    let namespaces = built_in("", "Namespace");
    let Some(namespace) = context.cluster.get(namespaces, "", request.namespace) else {
        return Ok(());
    };
    let (policy, causes) = Policy::of(&namespace, &told.defaults);
    if request.is("", "Pod") {
        if causes.is_empty() && policy.is_privileged() {
            annotate(verdict, "enforce-policy", "privileged:latest");
            return Ok(());
        }
        if !old.is_none_or(|old| has_other_containers(object, old)) {
            return Ok(());
        }
    }
    if told
        .exemptions
        .has_runtime_class(text(spec, "runtimeClassName"))
    {
        annotate(verdict, "exempt", "runtimeClass");
        return Ok(());
    }
    if !causes.is_empty() {
        let why = format!("Failed to parse policy: {}", summary(&causes));
        annotate(verdict, "error", &why);
    }
    evaluate(request, &policy, metadata, spec, verdict)
}

fn evaluate(
    request: &Request<'_>,
    policy: &Policy,
    metadata: &Value,
    spec: &Value,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let found = |standard: &Standard| {
        let violations = standard.violations(metadata, spec);
        (!violations.is_empty()).then(|| violations.join(", "))
    };
    let mut refused = None;
    if request.is("", "Pod") {
        annotate(verdict, "enforce-policy", &policy.enforce.to_string());
        refused = found(&policy.enforce).map(|why| {
            let why = format!("violates PodSecurity \"{}\": {why}", policy.enforce);
            request.forbidden(&why)
        });
    }
    if let Some(why) = found(&policy.audit) {
        let why = format!("would violate PodSecurity \"{}\": {why}", policy.audit);
        annotate(verdict, "audit-violations", &why);
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    if let Some(why) = found(&policy.warn) {
        let why = format!("would violate PodSecurity \"{}\": {why}", policy.warn);
        verdict.warnings.push(why);
    }
    Ok(())
}

fn annotate(verdict: &mut Verdict, key: &str, value: &str) {
    let key = format!("{PREFIX}{key}");
    verdict.annotations.insert(key, value.to_owned());
}

/// The pod that a request is about: its own, or that of a template.
fn pod_in<'a>(request: &Request<'_>, object: &'a Value) -> Option<(&'a Value, &'a Value)> {
    if request.is("", "Pod") {
        return Some((at(object, "metadata"), at(object, "spec")));
    }
    let path = request.kind.pod_template()?;
    let template = at(object, path);
    template
        .is_object()
        .then(|| (at(template, "metadata"), at(template, "spec")))
}

/// Whether a request may say what runs in a pod.
fn is_concerned(request: &Request<'_>) -> bool {
    match (request.operation, request.subresource) {
        (Operation::Create | Operation::Update, None) => true,
        (Operation::Update, Some(Subresource::EphemeralContainers)) => request.is("", "Pod"),
        _ => false,
    }
}

/// Updates of pods that leave containers as they are need no second look.
fn has_other_containers(pod: &Value, old: &Value) -> bool {
    let lists = [
        "spec.containers",
        "spec.initContainers",
        "spec.ephemeralContainers",
    ];
    lists.iter().any(|path| at(pod, path) != at(old, path))
}

/// Labels must be understood, and raising the level says which pods would not pass any more.
fn check_namespace(
    context: &Context<'_>,
    namespace: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let told = &context.settings.plugin_settings.pod_security;
    let name = text(namespace, "metadata.name");
    let (policy, causes) = Policy::of(namespace, &told.defaults);
    let before = old.map(|old| Policy::of(old, &told.defaults));
    let is_new = |(_, before): &(Policy, Vec<Cause>)| *before != causes;
    if !causes.is_empty() && before.as_ref().is_none_or(is_new) {
        return Err(Status::invalid("", "Namespace", name, causes));
    }
    let is_exempt = told.exemptions.has_namespace(name);
    if let Some((before, _)) = before {
        let (new, old) = (&policy.enforce, &before.enforce);
        let is_relaxed = old.has_version_of(new) && new.level <= old.level;
        if new == old || new.level == Level::Privileged || is_relaxed {
            return Ok(());
        }
        if !is_exempt {
            warn_of_pods(context, name, &policy, verdict);
        }
    }
    if is_exempt {
        let ignored = ignored_warning(name, &policy, &told.defaults, namespace);
        verdict.warnings.extend(ignored);
    }
    Ok(())
}

/// What is said of labels that have no effect.
fn ignored_warning(
    name: &str,
    policy: &Policy,
    defaults: &Policy,
    namespace: &Value,
) -> Option<String> {
    if policy.is_privileged() || policy == defaults {
        return None;
    }
    let has = |key: &str| entry(namespace, "metadata.labels", &format!("{PREFIX}{key}")).is_some();
    let modes = [
        ("enforce", &policy.enforce),
        ("audit", &policy.audit),
        ("warn", &policy.warn),
    ];
    let said = modes.iter().filter(|(mode, standard)| {
        let is_labelled = has(mode) || has(&format!("{mode}-version"));
        is_labelled && standard.level != Level::Privileged
    });
    let said: Vec<String> = said
        .map(|(mode, standard)| format!("{mode}={standard}"))
        .collect();
    Some(format!(
        "namespace \"{name}\" is exempt from Pod Security, and the policy ({}) will be ignored",
        said.join(", ")
    ))
}

/// The pods that are not exempt, those of no controller and one of each controller before the others.
fn pods_to_check(context: &Context<'_>, namespace: &str) -> Vec<Arc<Value>> {
    let told = &context.settings.plugin_settings.pod_security;
    let mut pods = context.cluster.list(built_in("", "Pod"), namespace);
    pods.retain(|pod| {
        let class = text(pod, "spec.runtimeClassName");
        !told.exemptions.has_runtime_class(class)
    });
    let mut seen = BTreeSet::new();
    let (mut pods, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| {
        let mut owners = list(pod, "metadata.ownerReferences").iter();
        let controller = owners.find(|owner| owner["controller"] == true);
        controller.is_none_or(|owner| seen.insert(text(owner, "uid").to_owned()))
    });
    pods.extend(others);
    pods
}

/// Warns of pods that are there and would not pass any more.
fn warn_of_pods(context: &Context<'_>, namespace: &str, policy: &Policy, verdict: &mut Verdict) {
    let standard = &policy.enforce;
    let pods = pods_to_check(context, namespace);
    if pods.len() > PODS_MAX {
        verdict.warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {} existing pods",
            pods.len()
        ));
    }
    // By what is wrong with them: the first by name, and how many there are.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in pods.iter().take(PODS_MAX) {
        let violations = standard.violations(at(pod, "metadata"), at(pod, "spec"));
        let reasons: Vec<&str> = violations
            .iter()
            .map(|one| one.split(" (").next().unwrap_or_default())
            .collect();
        if reasons.is_empty() {
            continue;
        }
        let name = text(pod, "metadata.name");
        let (first, count) = found.entry(reasons.join(", ")).or_default();
        if *count == 0 || name < first.as_str() {
            *first = name.to_owned();
        }
        *count += 1;
    }
    if found.is_empty() {
        return;
    }
    verdict.warnings.push(format!(
        "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\""
    ));
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|(reasons, (first, count))| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            count => format!("{first} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort();
    verdict.warnings.extend(lines);
}
