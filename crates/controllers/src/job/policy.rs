//! The two policies of a job: what a failed pod means, and when an indexed job has succeeded early.

use std::fmt;

use api::Istr;
use api::kinds::{Exit, OnExitCodes, Pod, PodCondition, PodFailurePolicy, SuccessPolicy};

use super::indexes::Indexes;

/// What a rule of the pod failure policy does about a failed pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    FailJob,
    FailIndex,
    Ignore,
    Count,
}

/// The rule that a failed pod met.
#[derive(Debug, PartialEq)]
pub struct Met<'a> {
    pub action: Action,
    pod: &'a Pod,
    rule: usize,
    by: By<'a>,
}

#[derive(Debug, PartialEq)]
enum By<'a> {
    Exit(&'a Exit),
    Condition(&'a Istr),
}

impl Action {
    fn parse(word: &str) -> Option<Action> {
        [
            Action::FailJob,
            Action::FailIndex,
            Action::Ignore,
            Action::Count,
        ]
        .into_iter()
        .find(|action| action.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Action::FailJob => "FailJob",
            Action::FailIndex => "FailIndex",
            Action::Ignore => "Ignore",
            Action::Count => "Count",
        }
    }
}

/// The first rule that a failed pod meets. A rule with an action that we do not know is passed over.
pub fn failure_rule<'a>(policy: Option<&PodFailurePolicy>, pod: &'a Pod) -> Option<Met<'a>> {
    let rules = policy?.rules.iter().enumerate();
    rules.into_iter().find_map(|(number, rule)| {
        let by = match &rule.on_exit_codes {
            Some(codes) => By::Exit(failed_container(pod, codes)?),
            None => {
                let wanted = |held: &&PodCondition| {
                    let mut patterns = rule.on_pod_conditions.iter();
                    patterns.any(|one| one.type_ == held.type_ && one.status == held.status)
                };
                By::Condition(&pod.conditions().iter().find(wanted)?.type_)
            }
        };
        Some(Met {
            action: Action::parse(&rule.action)?,
            pod,
            rule: number,
            by,
        })
    })
}

/// Does the failure of this pod count against the limits?
pub fn counts(policy: Option<&PodFailurePolicy>, pod: &Pod) -> bool {
    failure_rule(policy, pod).is_none_or(|met| met.action != Action::Ignore)
}

fn failed_container<'a>(pod: &'a Pod, codes: &OnExitCodes) -> Option<&'a Exit> {
    pod.ended()?.failures.iter().find(|exit| {
        let named = codes
            .container_name
            .as_ref()
            .is_none_or(|name| *name == exit.container);
        let listed = codes.values.contains(&exit.code);
        let matches = match &*codes.operator {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        named && matches
    })
}

/// Why the job fails, as its condition says it.
impl fmt::Display for Met<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.pod.metadata;
        let (namespace, name) = (&meta.namespace, &meta.name);
        match self.by {
            By::Exit(exit) => write!(
                f,
                "Container {} for pod {namespace}/{name} failed with exit code {}",
                exit.container, exit.code
            )?,
            By::Condition(type_) => write!(f, "Pod {namespace}/{name} has condition {type_}")?,
        }
        let (action, rule) = (self.action.as_str(), self.rule);
        write!(f, " matching {action} rule at index {rule}")
    }
}

/// The first rule of the success policy that is met.
pub fn success_rule(
    policy: Option<&SuccessPolicy>,
    count: u32,
    succeeded: &Indexes,
) -> Option<usize> {
    if succeeded.is_empty() {
        return None;
    }
    policy?.rules.iter().position(|rule| {
        let enough = |reached: u32| {
            rule.succeeded_count
                .is_some_and(|wanted| i64::from(reached) >= i64::from(wanted))
        };
        match &rule.succeeded_indexes {
            None => enough(succeeded.len()),
            Some(text) => {
                let wanted = Indexes::parse(text, count);
                let reached = wanted.overlap(succeeded);
                !wanted.is_empty() && (reached == wanted.len() || enough(reached))
            }
        }
    })
}
