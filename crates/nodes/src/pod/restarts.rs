//! What comes of a container that has ended: its own rules and policy say so, or else the pod's policy.
//!
//! UPSTREAM: `pkg/api/v1/pod/util.go`, `ContainerShouldRestart`.

use api::meta::or_default;
use serde::Deserialize;

use super::{Container, PodSpec, RestartPolicy};

/// What its end means for a container, or for all containers of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterExit {
    StaysDown,
    Restarts,
    /// Init containers, too.
    RestartsAll,
}

/// One of a container's `restartPolicyRules`: the first whose exit codes match counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    action: RuleAction,
    #[serde(deserialize_with = "or_default")]
    exit_codes: ExitCodes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
enum RuleAction {
    Restart,
    RestartAllContainers,
    #[default]
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
struct ExitCodes {
    operator: Operator,
    #[serde(deserialize_with = "or_default")]
    values: Box<[i32]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
enum Operator {
    In,
    NotIn,
    /// Matches nothing.
    #[default]
    #[serde(other)]
    Unknown,
}

impl RestartRule {
    fn matches(&self, exit_code: i32) -> bool {
        let is_listed = self.exit_codes.values.contains(&exit_code);
        match self.exit_codes.operator {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Unknown => false,
        }
    }
}

impl Container {
    /// The container's own policy, or else the pod's.
    pub fn policy(&self, of_pod: RestartPolicy) -> RestartPolicy {
        self.restart_policy.unwrap_or(of_pod)
    }

    pub fn after_exit(&self, of_pod: RestartPolicy, exit_code: i32) -> AfterExit {
        let mut rules = self.restart_rules.iter();
        let matching = rules.find(|rule| rule.matches(exit_code));
        match matching.map(|rule| rule.action) {
            Some(RuleAction::Restart) => return AfterExit::Restarts,
            Some(RuleAction::RestartAllContainers) => return AfterExit::RestartsAll,
            Some(RuleAction::Unknown) | None => {}
        }
        let restarts = match self.policy(of_pod) {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit_code != 0,
            RestartPolicy::Never => false,
        };
        match restarts {
            true => AfterExit::Restarts,
            false => AfterExit::StaysDown,
        }
    }
}

impl PodSpec {
    /// May the end of one container restart all of them?
    pub fn could_restart_all(&self) -> bool {
        let mut rules = self.all_containers().flat_map(|one| &one.restart_rules);
        rules.any(|rule| rule.action == RuleAction::RestartAllContainers)
    }
}
