//! Containers: names, images, ports, environment, probes, mounts.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place, config_key, port_name};
use super::{pod, resources};

/// Which list a container is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Main,
    Init,
    Ephemeral,
}

pub(super) fn containers(errors: &mut Errors, spec: &Place<'_>, volumes: &BTreeSet<String>) {
    let (main, init, ephemeral) = (
        spec.field("containers"),
        spec.field("initContainers"),
        spec.field("ephemeralContainers"),
    );
    if main.is_empty() {
        errors.required(&main, "");
    }
    let mut names = BTreeSet::new();
    for (list, role) in [
        (&main, Role::Main),
        (&init, Role::Init),
        (&ephemeral, Role::Ephemeral),
    ] {
        for container in list.items() {
            let name = container.field("name");
            container_fields(errors, &container, role, volumes, spec);
            if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
                errors.duplicate(&name);
            }
        }
    }
    host_port_conflicts(errors, &main);
}

fn container_fields(
    errors: &mut Errors,
    container: &Place<'_>,
    role: Role,
    volumes: &BTreeSet<String>,
    spec: &Place<'_>,
) {
    errors.name(&container.field("name"), syntax::validate_dns1123_label);
    let image = container.field("image");
    if image.text().trim().is_empty() {
        errors.required(&image, "");
    } else if image.text() != image.text().trim() {
        errors.invalid(&image, "must not have leading or trailing whitespace");
    }
    errors.one_of(
        &container.field("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    );
    errors.one_of(
        &container.field("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    let ports = container.field("ports");
    container_ports(errors, &ports, spec.field("hostNetwork").flag());
    let env = container.field("env");
    environment(errors, &env);
    let env_from = container.field("envFrom");
    environment_sources(errors, &env_from);
    let requirements = container.field("resources");
    resources::requirements(errors, &requirements, resources::Use::Container);
    let mounts = container.field("volumeMounts");
    volume_mounts(errors, &mounts, volumes);
    let context = container.field("securityContext");
    security_context(errors, &context);
    let sidecar = role == Role::Init && container.field("restartPolicy").text() == "Always";
    let grace = spec.field("terminationGracePeriodSeconds");
    let grace = grace.integer().unwrap_or_default();
    lifecycle_and_probes(errors, container, role, sidecar, grace);
    if role != Role::Ephemeral {
        restarts(errors, container, role);
    }
}

/// UPSTREAM: of one container, and of one rule.
const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

/// UPSTREAM: `validateContainerRestartPolicy`, with the gates of 1.36.
fn restarts(errors: &mut Errors, container: &Place<'_>, role: Role) {
    let policy = container.field("restartPolicy");
    let rules = container.field("restartPolicyRules");
    if policy.is_set() {
        errors.one_of(&policy, &["Always", "Never", "OnFailure"]);
    } else if !rules.is_empty() {
        errors.required(
            &policy,
            "must specify restartPolicy when restart rules are used",
        );
        // UPSTREAM: of an init container nothing more is said.
        if role == Role::Init {
            return;
        }
    }
    if rules.len() > RESTART_RULES_MAX {
        errors.too_many(&rules, RESTART_RULES_MAX);
    }
    for rule in rules.items() {
        errors.one_of(&rule.field("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.field("exitCodes");
        if !codes.is_set() {
            errors.required(&codes, "must be specified");
            continue;
        }
        errors.one_of(&codes.field("operator"), &["In", "NotIn"]);
        let values = codes.field("values");
        if values.len() > EXIT_CODES_MAX {
            errors.too_many(&values, EXIT_CODES_MAX);
        }
    }
}

fn lifecycle_and_probes(
    errors: &mut Errors,
    container: &Place<'_>,
    role: Role,
    sidecar: bool,
    grace: i64,
) {
    let lifecycle = container.field("lifecycle");
    if role == Role::Ephemeral {
        for name in ["ports", "resources"] {
            let place = container.field(name);
            if !place.is_empty() {
                errors.forbidden(&place, "cannot be set for an Ephemeral Container");
            }
        }
    }
    for name in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        let place = container.field(name);
        if !place.is_set() {
            continue;
        }
        match role {
            Role::Init if !sidecar => errors.forbidden(
                &place,
                "may not be set for init containers without restartPolicy=Always",
            ),
            Role::Ephemeral => errors.forbidden(&place, "cannot be set for an Ephemeral Container"),
            _ if name != "lifecycle" => probe(errors, &place, name),
            _ => {
                for hook in ["postStart", "preStop"] {
                    let hook = lifecycle.field(hook);
                    let sleep = hook.field("sleep");
                    let seconds = sleep.field("seconds");
                    if seconds
                        .integer()
                        .is_some_and(|seconds| seconds < 0 || seconds > grace)
                    {
                        let why = format!(
                            "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                        );
                        errors.invalid(&sleep.showing(seconds.value), &why);
                    }
                    if hook.is_set() {
                        handler(errors, &hook, &["exec", "httpGet", "tcpSocket", "sleep"]);
                    }
                }
            }
        }
    }
}

fn container_ports(errors: &mut Errors, ports: &Place<'_>, host_network: bool) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.text().is_empty() {
            let faults = port_name(name.text());
            let well_formed = faults.is_empty();
            errors.syntax(&name, port_name);
            if well_formed && !names.insert(name.text().to_owned()) {
                errors.duplicate(&name);
            }
        }
        let (number, host) = (port.field("containerPort"), port.field("hostPort"));
        match number.integer().unwrap_or_default() {
            0 => errors.required(&number, ""),
            _ => errors.port(&number),
        }
        if let Some(host_number) = host.integer().filter(|number| *number != 0) {
            errors.port(&host);
            if host_network
                && (1..=65535).contains(&host_number)
                && Some(host_number) != number.integer()
            {
                errors.invalid(
                    &host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_port_conflicts(errors: &mut Errors, containers: &Place<'_>) {
    let mut seen = BTreeSet::new();
    for container in containers.items() {
        let ports = container.field("ports");
        for port in ports.items() {
            let host = port.field("hostPort");
            let Some(number) = host.integer().filter(|number| *number != 0) else {
                continue;
            };
            let key = format!(
                "{}/{}/{number}",
                port.field("protocol").text(),
                port.field("hostIP").text()
            );
            if !seen.insert(key.clone()) {
                let shown = Value::from(key);
                errors.duplicate(&host.showing(&shown));
            }
        }
    }
}

fn environment(errors: &mut Errors, env: &Place<'_>) {
    for variable in env.items() {
        let (name, source) = (variable.field("name"), variable.field("valueFrom"));
        if name.text().is_empty() {
            errors.required(&name, "");
        } else if !name
            .text()
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
        {
            errors.invalid(&name, "a valid environment variable name must consist only of printable ASCII characters other than '='");
        }
        if source.is_set() {
            variable_source(errors, &variable, &source);
        }
    }
}

fn variable_source(errors: &mut Errors, variable: &Place<'_>, source: &Place<'_>) {
    let empty = Value::from("");
    let bare = source.showing(&empty);
    let kinds = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let given: Vec<_> = kinds
        .into_iter()
        .filter(|kind| source.field(kind).is_set())
        .collect();
    for kind in &given {
        let reference = source.field(kind);
        match *kind {
            "fieldRef" => field_reference(errors, &reference, &ENVIRONMENT_FIELDS),
            "resourceFieldRef" => resource_field(errors, &reference),
            "fileKeyRef" => {}
            _ => key_selector(errors, &reference),
        }
    }
    if given.is_empty() {
        errors.invalid(&bare, "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
    } else if !variable.field("value").text().is_empty() {
        errors.invalid(&bare, "may not be specified when `value` is not empty");
    } else if given.len() > 1 {
        errors.invalid(
            &bare,
            "may not have more than one field specified at a time",
        );
    }
}

fn key_selector(errors: &mut Errors, reference: &Place<'_>) {
    let name = reference.field("name");
    errors.syntax(&name, syntax::validate_dns1123_subdomain);
    errors.name(&reference.field("key"), config_key);
}

const ENVIRONMENT_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Field paths that the API knows at all, beyond those that a given use allows.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn field_reference(errors: &mut Errors, reference: &Place<'_>, allowed: &[&str]) {
    let (version, path) = (reference.field("apiVersion"), reference.field("fieldPath"));
    if version.text().is_empty() {
        errors.required(&version, "");
        return;
    }
    if path.text().is_empty() {
        errors.required(&path, "");
        return;
    }
    if let Some((base, key)) = path
        .text()
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        if !matches!(base, "metadata.annotations" | "metadata.labels") {
            errors.invalid(
                &path,
                &format!(
                    "error converting fieldPath: field label does not support subscript: {}",
                    path.text()
                ),
            );
        } else {
            for fault in syntax::validate_qualified_name(&key.to_lowercase()) {
                errors.invalid(&path, &fault);
            }
        }
        return;
    }
    if !KNOWN_FIELDS.contains(&path.text()) {
        errors.invalid(
            &path,
            &format!(
                "error converting fieldPath: field label not supported: {}",
                path.text()
            ),
        );
    } else if !allowed.contains(&path.text()) {
        errors.not_supported(&path, allowed);
    }
}

pub(super) fn resource_field(errors: &mut Errors, reference: &Place<'_>) {
    let resource = reference.field("resource");
    let allowed = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let huge = resource.text().starts_with("limits.hugepages-")
        || resource.text().starts_with("requests.hugepages-");
    if resource.text().is_empty() {
        errors.required(&resource, "");
    } else if !huge {
        errors.one_of(&resource, &allowed);
    }
}

fn environment_sources(errors: &mut Errors, sources: &Place<'_>) {
    for source in sources.items() {
        let given: Vec<_> = ["configMapRef", "secretRef"]
            .into_iter()
            .filter(|kind| source.field(kind).is_set())
            .collect();
        for kind in &given {
            let reference = source.field(kind);
            errors.name(&reference.field("name"), syntax::validate_dns1123_subdomain);
        }
        let empty = Value::from("");
        match given.len() {
            0 => errors.invalid(
                &sources.showing(&empty),
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => errors.invalid(
                &sources.showing(&empty),
                "may not have more than one field specified at a time",
            ),
        }
    }
}

fn volume_mounts(errors: &mut Errors, mounts: &Place<'_>, volumes: &BTreeSet<String>) {
    let mut paths = BTreeSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        if name.text().is_empty() {
            errors.required(&name, "");
        }
        if !volumes.contains(name.text()) {
            errors.not_found(&name);
        }
        if path.text().is_empty() {
            errors.required(&path, "");
        }
        if !paths.insert(path.text().to_owned()) {
            errors.invalid(&path, "must be unique");
        }
        // UPSTREAM: these paths have no index.
        let bare = mounts.showing(mount.value);
        for name in ["subPath", "subPathExpr"] {
            let sub = bare.field(name);
            local_path(errors, &sub);
        }
        errors.one_of_if_set(
            &bare.field("mountPropagation"),
            &["Bidirectional", "HostToContainer", "None"],
        );
    }
}

/// A relative path that stays where it is.
pub(super) fn local_path(errors: &mut Errors, path: &Place<'_>) {
    if path.text().starts_with('/') {
        errors.invalid(path, "must be a relative path");
    }
    no_back_steps(errors, path);
}

pub(super) fn no_back_steps(errors: &mut Errors, path: &Place<'_>) {
    if path.text().split('/').any(|part| part == "..") {
        errors.invalid(path, "must not contain '..'");
    }
}

fn security_context(errors: &mut Errors, context: &Place<'_>) {
    for name in ["runAsUser", "runAsGroup"] {
        errors.within(&context.field(name), 0, i64::from(i32::MAX));
    }
    errors.one_of_if_set(&context.field("procMount"), &["Default", "Unmasked"]);
    let escalation = context.field("allowPrivilegeEscalation");
    if escalation.value == &Value::Bool(false) {
        if context.field("privileged").flag() {
            errors.invalid(
                context,
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            );
        }
        let added = context.value["capabilities"]["add"].as_array();
        if added.is_some_and(|added| added.iter().any(|name| name == "CAP_SYS_ADMIN")) {
            errors.invalid(context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    let profile = context.field("seccompProfile");
    pod::seccomp(errors, &profile);
}

fn probe(errors: &mut Errors, probe: &Place<'_>, kind: &str) {
    handler(errors, probe, &["exec", "httpGet", "tcpSocket", "grpc"]);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errors.not_negative(&probe.field(name));
    }
    let (grace, success) = (
        probe.field("terminationGracePeriodSeconds"),
        probe.field("successThreshold"),
    );
    if kind == "readinessProbe" {
        if grace.is_set() {
            errors.invalid(&grace, "must not be set for readinessProbes");
        }
        return;
    }
    if grace.integer().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&grace, "must be greater than 0");
    }
    if success.integer().unwrap_or(1) != 1 {
        errors.invalid(&success, "must be 1");
    }
}

/// Exactly one way to act.
fn handler(errors: &mut Errors, place: &Place<'_>, kinds: &[&str]) {
    let mut given = 0;
    for kind in kinds {
        let action = place.field(kind);
        if !action.is_set() {
            continue;
        }
        given += 1;
        if given > 1 {
            errors.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        match *kind {
            "exec" => errors.need(&action.field("command")),
            "httpGet" => http_get(errors, &action),
            "tcpSocket" => errors.port_or_name(&action.field("port")),
            "grpc" => errors.port(&action.field("port")),
            // A sleep, which is compared with the grace of the pod where that is known.
            _ => {}
        }
    }
    if given == 0 {
        errors.required(place, "must specify a handler type");
    }
}

fn http_get(errors: &mut Errors, action: &Place<'_>) {
    errors.need(&action.field("path"));
    errors.port_or_name(&action.field("port"));
    errors.one_of(&action.field("scheme"), &["HTTP", "HTTPS"]);
    let headers = action.field("httpHeaders");
    for header in headers.items() {
        let name = header.field("name");
        if name.text().is_empty()
            || !name
                .text()
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            errors.invalid(
                &headers.showing(name.value),
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            );
        }
    }
}
