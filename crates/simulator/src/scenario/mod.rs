//! What happens in a run, as data: who does what, and when.
//!
//! A scenario is drawn from a seed ([`Scenario::from_seed`]) or picked by name ([`library`]). It is a
//! list of steps and nothing in it depends on how the run goes, so a step can be left out to see whether
//! the others still break something, and the same steps can be run without any fault to see how it
//! should have ended.

mod generate;
pub mod library;
pub mod paces;
mod workloads;

use std::fmt;
use std::time::Duration;

pub use controllers::oracle::{Labelled, Target, UserAction};

use crate::faults::FaultRates;

use controllers::oracle::workloads::version_patch;
pub(crate) use workloads::all_workloads;

/// Enough for any run with a handful of pods.
const CHANGES_MAX: u64 = 6000;

/// A pod that replaces another is made, bound, started and told of, the other one stopped and told of, and those who own
/// them write down what they see: 14 changes were counted.
const CHANGES_A_POD_MAX: u64 = 30;

/// What an autoscaler cannot read it says each time, and that it can again: two statuses, an event and what it scales.
const CHANGES_A_PERIOD_MAX: u64 = 4;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    /// Decides everything that is not a step: names, latencies, which request is lost.
    pub seed: u64,
    pub nodes: usize,
    /// With two of them they contend for the lease.
    pub managers: usize,
    /// How far the second manager's clock is ahead.
    pub skew: Duration,
    pub faults: FaultRates,
    /// Pods have addresses of both families, and services may.
    pub is_dual_stack: bool,
    /// The first manager dies right after this write of managers.
    pub crash_after_write: Option<u64>,
    pub steps: Vec<Step>,
}

/// Something that happens at some time after the beginning.
#[derive(Clone, Debug)]
pub struct Step {
    pub at: Duration,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    User(UserAction),
    Fault(Fault),
}

/// What goes wrong on a schedule. What goes wrong by chance is in [`FaultRates`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    CrashManager {
        manager: usize,
        down: Duration,
    },
    /// The last `lost` changes are gone when the API server is back.
    RestartServer {
        lost: u64,
        down: Duration,
    },
    StopKubelet(usize),
    StartKubelet(usize),
    LoseNode(usize),
    ReturnNodes,
    /// Watches of one kind stand still.
    Freeze {
        plural: &'static str,
        lasts: Duration,
    },
    /// Events of one kind come late.
    Delay {
        plural: &'static str,
        by: Duration,
        lasts: Duration,
    },
    /// Every watch ends at once.
    CutWatches,
    /// Every watch is told that its revision is gone.
    ExpireWatches,
    /// One manager cannot reach the API server at all.
    Isolate {
        manager: usize,
        lasts: Duration,
    },
}

impl Scenario {
    /// The same actions in a world without faults.
    pub fn calm(&self) -> Scenario {
        let mut calm = self.clone();
        calm.faults = FaultRates::default();
        calm.managers = 1;
        calm.skew = Duration::ZERO;
        calm.crash_after_write = None;
        calm.steps
            .retain(|step| matches!(step.action, Action::User(_)));
        calm
    }

    /// Does anything go wrong in it?
    pub fn is_calm(&self) -> bool {
        let actions = |step: &Step| matches!(step.action, Action::User(_));
        self.faults == FaultRates::default()
            && self.crash_after_write.is_none()
            && self.managers == 1
            && self.steps.iter().all(actions)
    }

    /// Does anything go wrong between a manager and the API server?
    pub(crate) fn comes_between_managers(&self) -> bool {
        let comes_between = |step: &Step| {
            matches!(
                step.action,
                Action::Fault(
                    Fault::Freeze { .. }
                        | Fault::Delay { .. }
                        | Fault::CutWatches
                        | Fault::ExpireWatches
                        | Fault::Isolate { .. }
                )
            )
        };
        self.faults != FaultRates::default() || self.steps.iter().any(comes_between)
    }

    pub(crate) fn restarts_server(&self) -> bool {
        let restarts =
            |step: &Step| matches!(step.action, Action::Fault(Fault::RestartServer { .. }));
        self.steps.iter().any(restarts)
    }

    /// May a action be lost that was granted? Then nobody can say how it should end.
    pub(crate) fn loses_actions(&self) -> bool {
        let loses = |step: &Step| matches!(step.action, Action::Fault(Fault::RestartServer { lost, .. }) if lost > 0);
        self.steps.iter().any(loses)
    }

    /// May caches lag behind for seconds?
    pub(crate) fn views_may_lag(&self) -> bool {
        let faults = &self.faults;
        let lags = |step: &Step| {
            matches!(step.action, Action::Fault(ref fault) if !matches!(
                fault,
                Fault::StopKubelet(_) | Fault::StartKubelet(_) | Fault::LoseNode(_) | Fault::ReturnNodes
            ))
        };
        // A manager that starts with a slow listing has a cache for some kinds and none for others.
        let by_chance = [
            faults.slow,
            faults.slow_list,
            faults.watch_cut,
            faults.watch_frozen,
            faults.watch_expired,
            faults.lost_after,
            faults.lost_before,
        ];
        by_chance.iter().any(|one_in| *one_in > 0) || self.steps.iter().any(lags)
    }

    /// More changes than the run has a reason for: a few hundred are usual, and where workloads are large, each step may
    /// replace all pods of one.
    pub(crate) fn changes_max(&self) -> u64 {
        let mut most = 0;
        let replaced = self.steps.iter().map(|step| {
            if let Action::User(UserAction::Create(_, object) | UserAction::Change(_, object, _)) =
                &step.action
            {
                most = most.max(object["spec"]["replicas"].as_u64().unwrap_or(0));
            }
            most
        });
        let most = CHANGES_MAX.max(replaced.sum::<u64>() * CHANGES_A_POD_MAX);
        most + self.periods_of_autoscalers() * CHANGES_A_PERIOD_MAX
    }

    /// How often an autoscaler looks at its metrics in the run, if there is one.
    fn periods_of_autoscalers(&self) -> u64 {
        let creates = |step: &Step| match &step.action {
            Action::User(UserAction::Create(target, _)) => {
                target.resource.kind == "HorizontalPodAutoscaler"
            }
            _ => false,
        };
        match (self.steps.iter().any(creates), self.steps.last()) {
            (true, Some(last)) => last.at.as_secs() / 15,
            _ => 0,
        }
    }

    /// The scenario with just these of its steps.
    pub fn only(&self, kept: &[usize]) -> Scenario {
        let mut smaller = self.clone();
        smaller.steps = kept
            .iter()
            .filter_map(|index| self.steps.get(*index).cloned())
            .collect();
        smaller
    }
}

impl Action {
    /// The class that the summary counts it under; none for what a user does.
    pub(crate) fn class(&self) -> Option<&'static str> {
        let Action::Fault(fault) = self else {
            return None;
        };
        Some(match fault {
            Fault::CrashManager { .. } => "manager crashed",
            Fault::RestartServer { lost: 0, .. } => "API server restarted",
            Fault::RestartServer { .. } => "API server restarted, tail lost",
            Fault::StopKubelet(_) => "kubelet stopped",
            Fault::LoseNode(_) => "node gone",
            Fault::StartKubelet(_) | Fault::ReturnNodes => return None,
            Fault::Freeze { .. } => "watches of a kind frozen",
            Fault::Delay { .. } => "events of a kind delayed",
            Fault::CutWatches => "all watches cut",
            Fault::ExpireWatches => "all watches expired (410)",
            Fault::Isolate { .. } => "manager isolated",
        })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} nodes, {} manager(s)",
            self.name, self.nodes, self.managers
        )?;
        if self.is_dual_stack {
            write!(f, ", dual-stack")?;
        }
        if !self.skew.is_zero() {
            write!(f, ", the second one's clock {}s ahead", self.skew.as_secs())?;
        }
        writeln!(f)?;
        let faults = self.faults.to_string();
        if !faults.is_empty() {
            writeln!(f, "  by chance: {faults}")?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            let at = step.at.as_secs_f64();
            writeln!(f, "  {index:>3}  {at:>7.1}s  {}", step.action)?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::User(action) => write!(f, "user: {action}"),
            Action::Fault(fault) => write!(f, "fault: {fault}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = |duration: &Duration| format!("{:.1}s", duration.as_secs_f64());
        match self {
            Fault::CrashManager { manager, down } => {
                write!(
                    f,
                    "manager {manager} crashes and is down for {}",
                    secs(down)
                )
            }
            Fault::RestartServer { lost, down } => write!(
                f,
                "the API server is down for {}, the last {lost} changes are lost",
                secs(down)
            ),
            Fault::StopKubelet(node) => {
                write!(f, "the kubelet of node-{node} stops posting status")
            }
            Fault::StartKubelet(node) => write!(f, "the kubelet of node-{node} posts status again"),
            Fault::LoseNode(node) => write!(f, "node-{node} is gone"),
            Fault::ReturnNodes => write!(f, "all nodes are back"),
            Fault::Freeze { plural, lasts } => {
                write!(f, "watches of {plural} stand still for {}", secs(lasts))
            }
            Fault::Delay { plural, by, lasts } => write!(
                f,
                "events of {plural} come {} late for {}",
                secs(by),
                secs(lasts)
            ),
            Fault::CutWatches => write!(f, "all watches are cut"),
            Fault::ExpireWatches => write!(f, "all watches are told 410"),
            Fault::Isolate { manager, lasts } => {
                write!(f, "manager {manager} is isolated for {}", secs(lasts))
            }
        }
    }
}
