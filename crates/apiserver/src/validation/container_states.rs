//! Which containers may come back once they have ended, by restart policies and rules.
//!
//! UPSTREAM: `ValidateContainerStateTransition` and those beside it, with the gates `ContainerRestartRules` and
//! `RestartAllContainersOnContainerExits`, and `ContainerShouldRestart` of `pkg/api/v1/pod/util.go`.

use serde_json::Value;

use super::place::{Errors, Place};
use crate::fields::{at, by_name, integer, list, text};

/// The statuses of containers, and where in the spec those containers are that may restart.
const LISTS: [(&str, &str); 2] = [
    ("containerStatuses", "spec.containers"),
    ("initContainerStatuses", "spec.initContainers"),
];

/// A container that has ended stays so, unless it may restart.
pub(super) fn update(errors: &mut Errors, new: &Value, old: &Value) {
    if !could_restart_all(old) {
        for (statuses, containers) in LISTS {
            let containers = by_name(list(old, containers));
            transitions(errors, new, old, statuses, |name, exit_code| {
                let container = containers.get(name);
                container.is_some_and(|container| restarts(container, old, exit_code))
            });
        }
    }
    transitions(errors, new, old, "ephemeralContainerStatuses", |_, _| false);
}

fn transitions(
    errors: &mut Errors,
    new: &Value,
    old: &Value,
    statuses: &str,
    may_restart: impl Fn(&str, i64) -> bool,
) {
    let root = Place::root(old);
    let status = root.field("status");
    let ended = |status: &Value| !at(status, "state.terminated").is_null();
    let now = by_name(list(at(new, "status"), statuses));
    // UPSTREAM: the place is that in the old list.
    for before in status.field(statuses).items() {
        let name = text(before.value, "name");
        let comes_back =
            ended(before.value) && now.get(name).copied().is_some_and(|now| !ended(now));
        let exit_code = integer(before.value, "state.terminated.exitCode").unwrap_or_default();
        if comes_back && !may_restart(name, exit_code) {
            let why = "may not be transitioned to non-terminated state";
            errors.forbidden(&before.field("state"), why);
        }
    }
}

/// May the end of one container restart all of them?
fn could_restart_all(pod: &Value) -> bool {
    let containers = LISTS.iter().flat_map(|(_, path)| list(pod, path));
    containers
        .flat_map(|container| list(container, "restartPolicyRules"))
        .any(|rule| text(rule, "action") == "RestartAllContainers")
}

fn restarts(container: &Value, pod: &Value, exit_code: i64) -> bool {
    let own = text(container, "restartPolicy");
    let mut rules = list(container, "restartPolicyRules").iter();
    let matching = rules.find(|rule| matches(rule, exit_code));
    if !own.is_empty() && matching.is_some_and(|rule| text(rule, "action") == "Restart") {
        return true;
    }
    let policy = match own {
        "" => text(pod, "spec.restartPolicy"),
        own => own,
    };
    match policy {
        "OnFailure" => exit_code != 0,
        policy => policy != "Never",
    }
}

fn matches(rule: &Value, exit_code: i64) -> bool {
    let is_listed = list(rule, "exitCodes.values").contains(&Value::from(exit_code));
    match text(rule, "exitCodes.operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(name: &str, policy: &str, action: &str, codes: &[i64]) -> Value {
        let mut container = json!({"name": name, "image": "i"});
        if !policy.is_empty() {
            container["restartPolicy"] = json!(policy);
        }
        if !action.is_empty() {
            let codes = json!({"operator": "In", "values": codes});
            container["restartPolicyRules"] = json!([{"action": action, "exitCodes": codes}]);
        }
        container
    }

    fn running() -> Value {
        json!({"running": {"startedAt": null}})
    }

    fn ended(exit_code: i64) -> Value {
        json!({"terminated": {"exitCode": exit_code, "startedAt": null, "finishedAt": null}})
    }

    /// What is said of the pod's container `c1` when it goes from one state to the other.
    fn said(lists: (&str, &str), spec: &Value, from: Value, to: Value) -> String {
        let pod = |state: Value| {
            let mut pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": {}});
            pod["status"][lists.0] = json!([{"name": "c1", "state": state}]);
            pod
        };
        let registry = crate::kinds::Registry::default();
        let kind = registry.kind("v1", "Pod").unwrap();
        let causes = crate::validation::status_update(kind, &pod(to), &pod(from), 0);
        causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    /// UPSTREAM: TestValidateContainerStateTransition, TestValidateInitContainerStateTransition.
    #[test]
    fn an_ended_container_comes_back_where_its_policies_let_it() {
        let plain = || container("c1", "", "", &[]);
        let in_42 = || container("c1", "Never", "Restart", &[42]);
        let all = |name| container(name, "Never", "RestartAllContainers", &[42]);
        let never = || container("c1", "Never", "", &[]);
        let always = || container("c1", "Always", "", &[]);
        let cases = [
            ("Never", vec![never()], running(), true),
            ("Always", vec![plain()], ended(0), true),
            ("OnFailure", vec![plain()], ended(1), true),
            ("OnFailure", vec![plain()], ended(0), false),
            ("Never", vec![plain()], ended(0), false),
            ("Never", vec![always()], ended(0), true),
            ("Always", vec![never()], ended(0), false),
            ("Never", vec![in_42()], ended(42), true),
            ("Never", vec![in_42()], ended(1), false),
            ("Never", vec![all("c1")], ended(1), true),
            ("Never", vec![never(), all("c2")], ended(1), true),
            // Nobody knows whether a container that the spec lacks may restart.
            ("Always", vec![], ended(0), false),
        ];
        for (statuses, containers) in [
            ("containerStatuses", "containers"),
            ("initContainerStatuses", "initContainers"),
        ] {
            for (policy, list, from, is_allowed) in &cases {
                let mut spec = json!({"restartPolicy": policy});
                spec[containers] = json!(list);
                let refused = format!(
                    "status.{statuses}[0].state: Forbidden: may not be transitioned to non-terminated state"
                );
                let expected = if *is_allowed { "" } else { &refused };
                let lists = (statuses, containers);
                for to in [running(), json!({"waiting": {}}), json!({})] {
                    assert_eq!(said(lists, &spec, from.clone(), to), expected, "{spec}");
                }
                assert_eq!(said(lists, &spec, from.clone(), ended(3)), "", "{spec}");
            }
        }
    }

    #[test]
    fn an_ephemeral_container_never_comes_back() {
        let lists = ("ephemeralContainerStatuses", "ephemeralContainers");
        let all = container("c2", "Never", "RestartAllContainers", &[42]);
        let spec = json!({"restartPolicy": "Always", "containers": [all],
            "ephemeralContainers": [container("c1", "", "", &[])]});
        assert_eq!(
            said(lists, &spec, ended(1), running()),
            "status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
        );
        assert_eq!(said(lists, &spec, running(), ended(1)), "");
    }
}
