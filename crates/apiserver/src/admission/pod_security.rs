//! PodSecurity: what a namespace's labels say about how privileged its pods may be.
//! Mirrors `k8s.io/pod-security-admission`, always at its latest version of the standards.

mod checks;

use std::sync::Arc;

use serde_json::Value;

use super::{Context, Operation, Request, Verdict, built_in};
use crate::fields::{at, entry, text};
use crate::kinds::Subresource;
use crate::status::{Cause, Status};

const PREFIX: &str = "pod-security.kubernetes.io/";
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// How many pods are named when a namespace's level is raised: enough to know where to look.
const NAMED_MAX: usize = 5;

/// How much pods may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Level {
        match text {
            "baseline" => Level::Baseline,
            "restricted" => Level::Restricted,
            _ => Level::Privileged,
        }
    }

    fn violations(self, metadata: &Value, spec: &Value) -> Vec<String> {
        match self {
            Level::Privileged => Vec::new(),
            Level::Baseline => checks::baseline(metadata, spec),
            Level::Restricted => checks::restricted(metadata, spec),
        }
    }
}

/// Refuses a pod that may do more than its namespace enforces, and warns about what it asks to be warned of.
pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    if request.is("", "Namespace") && request.subresource.is_none() {
        return check_namespace(context, request, object, old, verdict);
    }
    let Some((metadata, spec)) = pod_in(request, object) else {
        return Ok(());
    };
    if !is_significant(request, object, old) {
        return Ok(());
    }
    let Some(namespace) = context
        .cluster
        .get(built_in("", "Namespace"), "", request.namespace)
    else {
        return Ok(());
    };
    let label = |name: &str| entry(&namespace, "metadata.labels", name);
    let level = |mode: &str| label(&format!("{PREFIX}{mode}")).unwrap_or("privileged");
    let shown = |mode: &str| {
        let version = label(&format!("{PREFIX}{mode}-version")).unwrap_or("latest");
        format!("{}:{version}", level(mode))
    };
    let enforced = Level::parse(level("enforce"));
    let mut refused = Vec::new();
    let mut annotate = |key: &str, value: String| {
        verdict.annotations.insert(format!("{PREFIX}{key}"), value);
    };
    if request.is("", "Pod") {
        annotate("enforce-policy", shown("enforce"));
        refused = enforced.violations(metadata, spec);
        if !refused.is_empty() {
            return Err(request.forbidden(&format!(
                "violates PodSecurity \"{}\": {}",
                shown("enforce"),
                refused.join(", ")
            )));
        }
    }
    let audited = Level::parse(level("audit")).violations(metadata, spec);
    if !audited.is_empty() {
        let (shown, why) = (shown("audit"), audited.join(", "));
        let violation = format!("would violate PodSecurity \"{shown}\": {why}");
        annotate("audit-violations", violation);
    }
    let found = Level::parse(level("warn")).violations(metadata, spec);
    if !found.is_empty() && found != refused {
        verdict.warnings.push(format!(
            "would violate PodSecurity \"{}\": {}",
            shown("warn"),
            found.join(", ")
        ));
    }
    Ok(())
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

/// Updates that leave containers as they are need no second look.
fn is_significant(request: &Request<'_>, object: &Value, old: Option<&Value>) -> bool {
    match (request.operation, request.subresource, old) {
        (Operation::Create, None, _) => true,
        (Operation::Update, Some(Subresource::EphemeralContainers), _) => true,
        (Operation::Update, None, Some(old)) if request.is("", "Pod") => [
            "spec.containers",
            "spec.initContainers",
            "spec.ephemeralContainers",
        ]
        .iter()
        .any(|path| at(object, path) != at(old, path)),
        (Operation::Update, None, _) => true,
        _ => false,
    }
}

/// Labels must be understood, and raising the level says which pods would not pass any more.
fn check_namespace(
    context: &Context<'_>,
    request: &Request<'_>,
    namespace: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let mut causes = Vec::new();
    for mode in ["enforce", "audit", "warn"] {
        let key = format!("{PREFIX}{mode}");
        if let Some(value) =
            entry(namespace, "metadata.labels", &key).filter(|value| !LEVELS.contains(value))
        {
            let message = format!(
                "Invalid value: {value:?}: must be one of privileged, baseline, restricted"
            );
            causes.push(Cause::new(
                format!("metadata.labels[{key}]"),
                "FieldValueInvalid",
                message,
            ));
        }
    }
    if !causes.is_empty() {
        return Err(Status::invalid("", "Namespace", request.name, causes));
    }
    let enforced = |namespace: &Value| {
        Level::parse(
            entry(namespace, "metadata.labels", &format!("{PREFIX}enforce")).unwrap_or_default(),
        )
    };
    let Some(old) = old.filter(|old| enforced(namespace) > enforced(old)) else {
        return Ok(());
    };
    debug_assert!(old.is_object());
    let level = enforced(namespace);
    let pods = context.cluster.list(built_in("", "Pod"), request.name);
    let violating = |pod: &Arc<Value>| {
        let found = level.violations(at(pod, "metadata"), at(pod, "spec"));
        let reasons: Vec<_> = found
            .iter()
            .map(|reason| reason.split(" (").next().unwrap_or_default())
            .collect();
        (!reasons.is_empty())
            .then(|| format!("{}: {}", text(pod, "metadata.name"), reasons.join(", ")))
    };
    let found: Vec<_> = pods.iter().filter_map(violating).collect();
    if !found.is_empty() {
        let shown = LEVELS[level as usize];
        let name = request.name;
        verdict.warnings.push(format!("existing pods in namespace \"{name}\" violate the new PodSecurity enforce level \"{shown}:latest\""));
        verdict.warnings.extend(found.into_iter().take(NAMED_MAX));
    }
    Ok(())
}
