//! Why a budget allows what it allows: typed, and what becomes of it in decisions and events.

use std::sync::Arc;

use api::Time;
use api::decision::{Line, agree, counted};
use api::kinds::{Pod, PodDisruptionBudget, PodDisruptionBudgetStatus};
use api::selector::LabelSelector;
use runtime::events::EventType;

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    NoPods,
    Unmanaged {
        pods: Vec<Arc<str>>,
    },
    /// The API server allowed its eviction, and nobody has deleted it yet.
    AwaitsDeletion {
        pod: Arc<str>,
        until: Time,
    },
    NotDeleted {
        pod: Arc<Pod>,
    },
    Allows {
        allowed: i32,
        healthy: i32,
        desired: i32,
    },
    Refuses {
        healthy: i32,
        desired: i32,
        expected: i32,
    },
    Failed {
        why: String,
        is_selector: bool,
    },
}

/// An event about the budget, or about a pod.
pub(super) struct Event {
    pub(super) pod: Option<Arc<Pod>>,
    pub(super) event_type: EventType,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Reason {
    pub(super) fn counted(status: &PodDisruptionBudgetStatus) -> Reason {
        let (healthy, desired) = (status.current_healthy, status.desired_healthy);
        match status.disruptions_allowed {
            allowed @ 1.. => Reason::Allows {
                allowed,
                healthy,
                desired,
            },
            _ => Reason::Refuses {
                healthy,
                desired,
                expected: status.expected_pods,
            },
        }
    }

    pub(super) fn event(&self, budget: &PodDisruptionBudget) -> Option<Event> {
        let about_budget = |event_type, reason, message| {
            Some(Event {
                pod: None,
                event_type,
                reason,
                message,
            })
        };
        match self {
            Reason::NoPods => about_budget(
                EventType::Normal,
                "NoPods",
                "No matching pods found".to_owned(),
            ),
            Reason::Unmanaged { .. } => about_budget(
                EventType::Warning,
                "UnmanagedPods",
                format!(
                    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
                    LabelSelector::in_go(budget.spec.selector.as_ref())
                ),
            ),
            Reason::NotDeleted { pod } => {
                // UPSTREAM: the namespace stands where the name should.
                let namespace = &budget.metadata.namespace;
                Some(Event {
                    pod: Some(pod.clone()),
                    event_type: EventType::Warning,
                    reason: "NotDeleted",
                    message: format!(
                        "Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                    ),
                })
            }
            Reason::Failed {
                why,
                is_selector: true,
            } => about_budget(
                EventType::Warning,
                "NoPods",
                format!("Failed to get pods: {why}"),
            ),
            Reason::Failed { why, .. } => about_budget(
                EventType::Warning,
                "CalculateExpectedPodCountFailed",
                format!("Failed to calculate the number of expected pods: {why}"),
            ),
            Reason::AwaitsDeletion { .. } | Reason::Allows { .. } | Reason::Refuses { .. } => None,
        }
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::NoPods => Line::states("NoPods", "no pod is under this budget"),
            Reason::Unmanaged { pods } => {
                let count = pods.len();
                let pods = counted(count, "pod");
                let are = agree(count, "is", "are");
                let what =
                    format!("{pods} that {are} not managed by a controller {are} not expected");
                Line::states("UnmanagedPods", what)
                    .hint("set minAvailable to a whole number to count them")
            }
            Reason::AwaitsDeletion { pod, until } => {
                Line::waits("AwaitsDeletion", format!("counts pod {pod} again"))
                    .because("its eviction was allowed, and it is not deleted yet")
                    .until(*until)
            }
            Reason::NotDeleted { pod } => {
                let name = &pod.metadata.name;
                Line::acts("NotDeleted", format!("counts pod {name} again"))
                    .because("its eviction was allowed two minutes ago, and it was not deleted")
            }
            Reason::Allows {
                allowed,
                healthy,
                desired,
            } => Line::states(
                "Allows",
                format!("allows {} now", counted(*allowed, "eviction")),
            )
            .because(format!("{}, {desired} must be", are_healthy(*healthy))),
            Reason::Refuses { expected: ..=0, .. } => {
                Line::waits("Refuses", "allows no evictions").because("no pods are expected")
            }
            Reason::Refuses {
                healthy, desired, ..
            } => Line::waits("Refuses", "allows no evictions")
                .because(format!("{}, {desired} must be", are_healthy(*healthy))),
            Reason::Failed { why, .. } => {
                Line::waits("SyncFailed", "allows no evictions").because(why.clone())
            }
        }
    }
}

/// `1 pod is healthy`
fn are_healthy(count: i32) -> String {
    let are = agree(count, "is", "are");
    format!("{} {are} healthy", counted(count, "pod"))
}
