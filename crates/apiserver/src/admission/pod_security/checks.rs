//! The rules of the two standards, at each version of Kubernetes that changed them. Each answers a reason and, in
//! parentheses, who must change what.

mod baseline;
mod restricted;

use serde_json::Value;

use super::policy::Level;
use crate::fields::{at, list, text};

type Check = fn(&Pod<'_>) -> Option<String>;

/// What keeps a pod from being harmless to its node: a check, the minor version that brought it, and the one in which
/// a stricter one took its place at the restricted level.
// UPSTREAM: in the order of the checks' ids.
const BASELINE: [(Check, i64, Option<i64>); 12] = [
    (|pod| pod.app_armor(), 0, None),
    (|pod| pod.baseline_capabilities(), 0, Some(22)),
    (|pod| pod.host_namespaces(), 0, None),
    (|pod| pod.host_paths(), 0, Some(0)),
    (|pod| pod.host_ports(), 0, None),
    (|pod| pod.hosts_of_probes(), 34, None),
    (|pod| pod.privileged(), 0, None),
    (|pod| pod.baseline_proc_mount(), 0, Some(35)),
    (|pod| pod.selinux(), 0, None),
    (|pod| pod.baseline_seccomp(), 0, Some(19)),
    (|pod| pod.sysctls(), 0, None),
    (|pod| pod.windows_host_process(), 0, None),
];

/// What keeps a pod from following hardening practice, and since which minor version.
const RESTRICTED: [(Check, i64); 7] = [
    (|pod| pod.privilege_escalation(), 8),
    (|pod| pod.restricted_capabilities(), 22),
    (|pod| pod.restricted_proc_mount(), 35),
    (|pod| pod.volumes(), 0),
    (|pod| pod.run_as_non_root(), 0),
    (|pod| pod.run_as_user(), 23),
    (|pod| pod.restricted_seccomp(), 19),
];

/// What of a standard, as the minor version of Kubernetes defined it, a pod violates.
pub(super) fn violations(level: Level, minor: i64, metadata: &Value, spec: &Value) -> Vec<String> {
    let pod = Pod {
        metadata,
        spec,
        minor,
    };
    let is_restricted = level == Level::Restricted;
    let is_replaced = |by: &Option<i64>| is_restricted && by.is_some_and(|by| by <= minor);
    let baseline = BASELINE
        .iter()
        .filter(|(_, since, replaced)| *since <= minor && !is_replaced(replaced));
    let restricted = RESTRICTED
        .iter()
        .filter(|(_, since)| is_restricted && *since <= minor);
    let checks = baseline
        .map(|(check, ..)| check)
        .chain(restricted.map(|(check, _)| check));
    match level {
        Level::Privileged => Vec::new(),
        Level::Baseline | Level::Restricted => checks.filter_map(|check| check(&pod)).collect(),
    }
}

struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    /// The minor version whose standard it is checked against.
    minor: i64,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |path| list(spec, path))
    }

    /// The names of the containers for which something is so.
    fn named(&self, bad: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| bad(container))
            .map(|container| text(container, "name"))
            .collect()
    }

    /// In a user namespace, root is nobody outside: so the standards see it since 1.35.
    fn is_relaxed(&self) -> bool {
        self.minor >= 35 && at(self.spec, "hostUsers") == &Value::Bool(false)
    }

    /// On Windows there is nothing to restrict: so the standards see it since 1.25.
    fn is_on_windows(&self) -> bool {
        self.minor >= 25 && text(self.spec, "os.name") == "windows"
    }
}

/// `container "a"` or `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", names.len()),
        quoted(names.iter().copied())
    )
}

fn plural(noun: &str, count: usize) -> String {
    if count == 1 {
        noun.to_owned()
    } else {
        format!("{noun}s")
    }
}

fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    items
        .into_iter()
        .map(|item| format!("\"{item}\""))
        .collect::<Vec<_>>()
        .join(", ")
}
