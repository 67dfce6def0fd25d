//! Pods, and the part of a pod that templates share.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::{Value, json};

use super::addresses::ip_address;
use super::place::{Errors, Place};
use super::{container_states, containers, metadata, pod_os, resources, scheduling, volumes};
use crate::fields::{by_name, text};

/// The largest user or group id.
const ID_MAX: i64 = i32::MAX as i64;

/// Validates a whole Pod.
pub(super) fn create(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    pod_spec(errors, &spec);
    app_armor(errors, root);
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.forbidden(&ephemeral, "cannot be set on create");
    }
    let gates = spec.field("schedulingGates");
    let node = spec.field("nodeName");
    if !gates.is_empty() && !node.text().is_empty() {
        errors.forbidden(
            &node,
            "cannot be set until all schedulingGates have been cleared",
        );
    }
}

/// The annotations in which profiles were named before there was a field.
fn app_armor(errors: &mut Errors, root: &Place<'_>) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let metadata = root.field("metadata");
    let annotations = metadata.field("annotations");
    for (key, profile) in annotations.entries() {
        let text = profile.text();
        let known = matches!(text, "" | "runtime/default" | "unconfined")
            || text
                .strip_prefix("localhost/")
                .is_some_and(|name| !name.is_empty());
        if key.starts_with(PREFIX) && !known {
            errors.invalid(
                &profile,
                &format!("invalid AppArmor profile name: {text:?}"),
            );
        }
    }
}

/// Validates a template: labels, annotations and the pod it describes.
pub(super) fn template(errors: &mut Errors, template: &Place<'_>) {
    // UPSTREAM: the paths leave out `metadata`.
    let labels = template
        .field("metadata")
        .value
        .get("labels")
        .cloned()
        .unwrap_or_default();
    metadata::labels(errors, &template.field("labels").showing(&labels));
    let annotations = template
        .field("metadata")
        .value
        .get("annotations")
        .cloned()
        .unwrap_or_default();
    metadata::annotations(errors, &template.field("annotations").showing(&annotations));
    let spec = template.field("spec");
    pod_spec(errors, &spec);
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.forbidden(
            &ephemeral,
            "ephemeral containers not allowed in pod template",
        );
    }
}

fn pod_spec(errors: &mut Errors, spec: &Place<'_>) {
    let volume_names = volumes::volumes(errors, &spec.field("volumes"));
    containers::containers(errors, spec, &volume_names);
    errors.one_of(
        &spec.field("restartPolicy"),
        &["Always", "OnFailure", "Never"],
    );
    dns(errors, spec);
    let node_selector = spec.field("nodeSelector");
    metadata::labels(errors, &node_selector);
    let topology = spec.field("topologySpreadConstraints");
    scheduling::spread_constraints(errors, &topology);
    let affinity = spec.field("affinity");
    scheduling::affinity(errors, &affinity);
    let tolerations = spec.field("tolerations");
    scheduling::tolerations(errors, &tolerations);
    errors.within(&spec.field("activeDeadlineSeconds"), 1, i64::from(i32::MAX));
    names(errors, spec);
    let context = spec.field("securityContext");
    security_context(errors, &context);
    let aliases = spec.field("hostAliases");
    for alias in aliases.items() {
        errors.syntax(&alias.field("ip"), ip_address);
        let hostnames = alias.field("hostnames");
        for hostname in hostnames.items() {
            errors.syntax(&hostname, syntax::validate_dns1123_subdomain);
        }
    }
    gates(errors, spec);
    let os = spec.field("os");
    if os.is_set() {
        let name = os.field("name");
        match name.text() {
            "" => errors.required(&name, ""),
            "linux" | "windows" => {}
            _ => errors.not_supported(&os.showing(name.value), &["linux", "windows"]),
        }
    }
    errors.one_of_if_set(
        &spec.field("preemptionPolicy"),
        &["PreemptLowerPriority", "Never"],
    );
    let overhead = spec.field("overhead");
    resources::list(errors, &overhead, resources::Use::Container);
    let resources_place = spec.field("resources");
    resources::requirements(errors, &resources_place, resources::Use::Pod);
    claims(errors, spec);
    pod_os::check(errors, spec);
    let shared = spec.field("shareProcessNamespace");
    if shared.flag() && spec.field("hostPID").flag() {
        // UPSTREAM: the path is that of an older version.
        let context = spec.field("securityContext");
        let place = context.field("shareProcessNamespace");
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&place.showing(shared.value), why);
    }
}

fn names(errors: &mut Errors, spec: &Place<'_>) {
    for (name, check) in [
        (
            "serviceAccountName",
            syntax::validate_dns1123_subdomain as fn(&str) -> Vec<String>,
        ),
        ("nodeName", syntax::validate_dns1123_subdomain),
        ("hostname", syntax::validate_dns1123_label),
        ("subdomain", syntax::validate_dns1123_label),
        ("priorityClassName", syntax::validate_dns1123_subdomain),
        ("runtimeClassName", syntax::validate_dns1123_subdomain),
        ("schedulerName", syntax::validate_dns1123_subdomain),
    ] {
        let place = spec.field(name);
        if !place.text().is_empty() {
            errors.syntax(&place, check);
        }
    }
}

fn dns(errors: &mut Errors, spec: &Place<'_>) {
    let policy = spec.field("dnsPolicy");
    errors.one_of(
        &policy,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if policy.text() == "None" {
        if !config.is_set() {
            errors.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else if servers.is_empty() {
            errors.required(
                &servers,
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
        }
    }
    if servers.len() > 3 {
        errors.invalid(&servers, "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        errors.syntax(&server, ip_address);
    }
    searches(errors, &config.field("searches"));
    for option in config.field("options").items() {
        if option.field("name").text().is_empty() {
            errors.required(&option, "must not be empty");
        }
    }
}

/// UPSTREAM: what a resolver takes.
const SEARCH_PATHS_MAX: usize = 32;
const SEARCH_LETTERS_MAX: usize = 2048;

fn searches(errors: &mut Errors, searches: &Place<'_>) {
    if searches.len() > SEARCH_PATHS_MAX {
        let why = format!("must not have more than {SEARCH_PATHS_MAX} search paths");
        errors.invalid(searches, &why);
    }
    // With the blanks between them.
    let letters: usize = searches.items().map(|search| search.text().len() + 1).sum();
    if letters > SEARCH_LETTERS_MAX + 1 {
        let why = format!(
            "must not have more than {SEARCH_LETTERS_MAX} characters (including spaces) in the search list"
        );
        errors.invalid(searches, &why);
    }
    for search in searches.items() {
        // A domain may end in a dot, and one dot alone is the root.
        if search.text() != "." {
            let name = search.text().strip_suffix('.').unwrap_or(search.text());
            let name = Value::from(name);
            errors.syntax(
                &search.showing(&name),
                syntax::validate_dns1123_subdomain_with_underscore,
            );
        }
    }
}

fn gates(errors: &mut Errors, spec: &Place<'_>) {
    let readiness = spec.field("readinessGates");
    for gate in readiness.items() {
        errors.syntax(
            &gate.field("conditionType"),
            syntax::validate_qualified_name,
        );
    }
    let scheduling = spec.field("schedulingGates");
    let mut seen = BTreeSet::new();
    for gate in scheduling.items() {
        let name = Value::from(gate.field("name").text());
        let place = gate.showing(&name);
        errors.syntax(&place, syntax::validate_qualified_name);
        if !seen.insert(place.text().to_owned()) {
            errors.duplicate(&place);
        }
    }
}

fn claims(errors: &mut Errors, spec: &Place<'_>) {
    let claims = spec.field("resourceClaims");
    let mut seen = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.field("name");
        errors.name(&name, syntax::validate_dns1123_label);
        if !name.text().is_empty() && !seen.insert(name.text().to_owned()) {
            errors.duplicate(&name);
        }
        let given = ["resourceClaimName", "resourceClaimTemplateName"]
            .iter()
            .filter(|field| claim.field(field).is_set())
            .count();
        if given == 0 {
            errors.invalid(
                &claim,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            );
        } else if given == 2 {
            errors.invalid(&claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
        }
    }
}

fn security_context(errors: &mut Errors, context: &Place<'_>) {
    for name in ["runAsUser", "runAsGroup", "fsGroup"] {
        errors.within(&context.field(name), 0, ID_MAX);
    }
    let groups = context.field("supplementalGroups");
    for group in groups.items() {
        errors.within(&group, 0, ID_MAX);
    }
    errors.one_of_if_set(
        &context.field("fsGroupChangePolicy"),
        &["Always", "OnRootMismatch"],
    );
    errors.one_of_if_set(
        &context.field("supplementalGroupsPolicy"),
        &["Merge", "Strict"],
    );
    let profile = context.field("seccompProfile");
    seccomp(errors, &profile);
    let sysctls = context.field("sysctls");
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        if name.text().is_empty() {
            errors.required(&name, "");
        } else if !is_sysctl(name.text()) {
            errors.invalid(&name, r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let part = |part: &str| {
        let edge = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let bytes = part.as_bytes();
        let inner = bytes.iter().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        });
        inner && edge(bytes.first()) && edge(bytes.last())
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

pub(super) fn seccomp(errors: &mut Errors, profile: &Place<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "Localhost" if local.text().is_empty() => {
            errors.required(&local, "must be set when seccomp type is Localhost")
        }
        "Localhost" => {}
        "" => errors.required(&kind, "type is required when seccompProfile is set"),
        _ => {
            if local.is_set() {
                errors.invalid(&local, "can only be set when seccomp type is Localhost");
            }
            errors.one_of(&kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
}

/// What may change in a running pod: images, deadlines, tolerations, gates; everything else is fixed.
pub(super) fn update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let spec = root.field("spec");
    let before = &old["spec"];
    let mut frozen = before.clone();
    let deadline = spec.field("activeDeadlineSeconds");
    match (before["activeDeadlineSeconds"].as_i64(), deadline.integer()) {
        (Some(old), Some(new)) if new > old => {
            errors.invalid(&deadline, "must be less than or equal to previous value");
            return;
        }
        (Some(_), None) => errors.invalid(
            &deadline,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
    check_added(errors, &spec.field("tolerations"), &before["tolerations"]);
    check_gates(
        errors,
        &spec.field("schedulingGates"),
        &before["schedulingGates"],
    );
    // Put what may change into the old spec: then both must be the same.
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        crate::fields::copy(&mut frozen, spec.value, name);
    }
    for list in ["containers", "initContainers"] {
        let images: Vec<_> = spec.value[list]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| container["image"].clone())
            .collect();
        let containers = frozen.get_mut(list).and_then(Value::as_array_mut);
        if let Some(containers) = containers.filter(|containers| containers.len() == images.len()) {
            containers
                .iter_mut()
                .zip(images)
                .for_each(|(container, image)| container["image"] = image);
        }
    }
    let grace = (
        &before["terminationGracePeriodSeconds"],
        &spec.value["terminationGracePeriodSeconds"],
    );
    if grace.0.as_i64().is_some_and(|seconds| seconds < 0) && grace.1 == &json!(1) {
        crate::fields::copy(&mut frozen, spec.value, "terminationGracePeriodSeconds");
    }
    if !before["schedulingGates"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        // A pod that is not being scheduled yet may still narrow where it can go.
        for name in ["nodeSelector", "affinity"] {
            crate::fields::copy(&mut frozen, spec.value, name);
        }
    }
    for container in frozen["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(frozen["initContainers"].as_array().into_iter().flatten())
    {
        if container["image"].as_str().unwrap_or_default().is_empty() {
            errors.required(&spec.field("containers"), "image");
        }
    }
    if &frozen != spec.value {
        errors.forbidden(
            &spec,
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}

fn check_added(errors: &mut Errors, tolerations: &Place<'_>, old: &Value) {
    scheduling::tolerations(errors, tolerations);
    // By what may not change of each.
    let fixed = |toleration: &Value| {
        let seconds = match toleration["effect"] == "NoExecute" {
            true => &Value::Null,
            false => &toleration["tolerationSeconds"],
        };
        let parts = ["key", "operator", "value", "effect"].map(|name| &toleration[name]);
        json!([parts, seconds]).to_string()
    };
    let now: BTreeSet<String> = tolerations.items().map(|item| fixed(item.value)).collect();
    let mut before = old.as_array().into_iter().flatten();
    if !before.all(|old| now.contains(&fixed(old))) {
        errors.forbidden(
            tolerations,
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

fn check_gates(errors: &mut Errors, gates: &Place<'_>, old: &Value) {
    let old = old.as_array().into_iter().flatten();
    let old: BTreeSet<String> = old.map(Value::to_string).collect();
    for gate in gates.items() {
        if !old.contains(&gate.value.to_string()) {
            let name = gate.field("name");
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            errors.forbidden(&name, &detail);
        }
    }
}

/// A pod that has a node keeps it, and one that ended stays ended.
pub(super) fn status_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let status = root.field("status");
    let nominated = status.field("nominatedNodeName");
    if !nominated.text().is_empty() {
        errors.syntax(&nominated, syntax::validate_dns1123_subdomain);
    }
    let spec = root.field("spec");
    let node = spec.field("nodeName");
    let old_node = &old["spec"]["nodeName"];
    if node.value != old_node {
        errors.forbidden(&node, "may not be changed directly");
    }
    // Ephemeral containers and resizing come this way too: they alone change the spec.
    if spec.value != &old["spec"] {
        pod_spec(errors, &spec);
        resized(errors, &spec, &old["spec"]);
        kept_ephemeral_containers(
            errors,
            &spec.field("ephemeralContainers"),
            &old["spec"]["ephemeralContainers"],
        );
    }
    for condition in status.field("conditions").items() {
        // UPSTREAM: the only field that is spelled like this.
        let place = condition.field("Type");
        let kind = condition.field("type");
        errors.syntax(&place.showing(kind.value), syntax::validate_qualified_name);
    }
    container_states::update(errors, root.value, old);
    for name in ["podIPs", "hostIPs"] {
        let addresses = status.field(name);
        let texts: Vec<&str> = addresses
            .items()
            .map(|item| item.value["ip"].as_str().unwrap_or_default())
            .collect();
        for address in addresses.items() {
            let ip = address.field("ip");
            errors.syntax(&address.showing(ip.value), ip_address);
        }
        let families = |six: bool| {
            texts
                .iter()
                .filter(|text| text.contains(':') == six)
                .count()
        };
        if name == "podIPs" && (families(true) > 1 || families(false) > 1) {
            let shown: Value = texts.iter().map(|text| json!({"IP": text})).collect();
            let why = "may specify no more than one IP for each IP family";
            errors.invalid(&addresses.showing(&shown), why);
        }
    }
}

/// A resize keeps the quality of service, and takes nothing away altogether.
fn resized(errors: &mut Errors, spec: &Place<'_>, old: &Value) {
    let class = |spec: &Value| crate::resources::qos_class(&json!({"spec": spec}));
    let (before, after) = (class(old), class(spec.value));
    if before != after {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&spec.showing(&Value::from(before)), why);
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in spec.field(list).items().enumerate() {
            let before = &old[list][index]["resources"];
            let resources = container.field("resources");
            for (name, what) in [("limits", "limits"), ("requests", "requests")] {
                let place = resources.field(name);
                let had = before[name].as_object();
                let lost = had
                    .into_iter()
                    .flatten()
                    .any(|(key, _)| place.value.get(key).is_none());
                if lost {
                    errors.forbidden(&place, &format!("resource {what} cannot be removed"));
                }
            }
        }
    }
}

/// A container that was added for debugging stays as it was.
fn kept_ephemeral_containers(errors: &mut Errors, containers: &Place<'_>, old: &Value) {
    let now = containers.value.as_array().map(Vec::as_slice);
    let now = by_name(now.unwrap_or_default());
    for before in old.as_array().into_iter().flatten() {
        let name = text(before, "name");
        match now.get(name).copied() {
            None => errors.forbidden(
                containers,
                &format!("existing ephemeral containers {name:?} may not be removed"),
            ),
            Some(now) if now != before => errors.forbidden(
                containers,
                &format!("existing ephemeral containers {name:?} may not be changed"),
            ),
            Some(_) => {}
        }
    }
}
