//! What happens in a run, as data: who does what, and when.
//!
//! A scenario is drawn from a seed ([`Scenario::from_seed`]) or picked by name ([`library`]). It is a
//! list of steps and nothing in it depends on how the run goes, so a step can be left out to see whether
//! the others still break something, and the same steps can be run without any trouble to see how it
//! should have ended.

mod chores;
mod generate;
mod jobs;
pub mod library;
pub mod paces;
mod workloads;

use std::fmt;
use std::time::Duration;

use api::ResourceType;
use client::Propagation;
use serde_json::Value;

use crate::faults::Faults;

pub(crate) use jobs::CERTAIN;
pub(crate) use workloads::{GOOD_VERSION, version_patch};

/// Enough for any run with a handful of pods.
const CHANGES_MAX: u64 = 6000;

/// A pod that replaces another is made, bound, started and told of, the other one stopped and told of, and those who own
/// them write down what they see: 14 changes were counted.
const CHANGES_A_POD_MAX: u64 = 30;

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
    pub faults: Faults,
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
    User(Wish),
    Trouble(Trouble),
}

/// What a user does.
#[derive(Clone, Debug)]
pub enum Wish {
    Create(Target, Value),
    /// A secret that belongs to this object, and to somebody who does not exist.
    CreateSecretOf(Target, Value),
    /// A strategic merge patch, and what it means in words.
    Change(Target, Value, String),
    Delete(Target, Propagation),
    DeletePod(Target, usize),
    /// Through the eviction subresource.
    EvictPod(Target, usize),
    /// Gives a pod other labels, so that its owner has to let it go.
    StrayPod(Target, usize),
    /// Takes the owner references away: a pod that its owner has to take back.
    DisownPod(Target, usize),
    /// Adds a second owner that does not exist and controls nothing.
    AddGhostOwner(Target, usize),
    CreatePod(Target, Value),
    CreateNamespace(&'static str),
    DeleteNamespace(&'static str),
    LabelNode(usize, &'static str),
    TaintNode(usize, bool),
    /// Says in a Job's status that it is complete.
    FinishJob(Target),
}

/// What goes wrong on a schedule. What goes wrong by chance is in [`Faults`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    CrashManager {
        manager: usize,
        down: Duration,
    },
    /// The last `lost` changes are gone when the API server is back.
    RestartServer {
        lost: u64,
        down: Duration,
    },
    SilenceNode(usize),
    WakeNode(usize),
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

/// A workload object, or anything else that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub resource: ResourceType,
    pub namespace: &'static str,
    pub name: String,
}

impl Scenario {
    /// The same wishes in a world without trouble.
    pub fn calm(&self) -> Scenario {
        let mut calm = self.clone();
        calm.faults = Faults::default();
        calm.managers = 1;
        calm.skew = Duration::ZERO;
        calm.crash_after_write = None;
        calm.steps
            .retain(|step| matches!(step.action, Action::User(_)));
        calm
    }

    /// Does anything go wrong in it?
    pub fn is_calm(&self) -> bool {
        let wishes = |step: &Step| matches!(step.action, Action::User(_));
        self.faults == Faults::default()
            && self.crash_after_write.is_none()
            && self.managers == 1
            && self.steps.iter().all(wishes)
    }

    /// Does anything go wrong between a manager and the API server?
    pub(crate) fn comes_between_managers(&self) -> bool {
        let comes_between = |step: &Step| {
            matches!(
                step.action,
                Action::Trouble(
                    Trouble::Freeze { .. }
                        | Trouble::Delay { .. }
                        | Trouble::CutWatches
                        | Trouble::ExpireWatches
                        | Trouble::Isolate { .. }
                )
            )
        };
        self.faults != Faults::default() || self.steps.iter().any(comes_between)
    }

    pub(crate) fn restarts_server(&self) -> bool {
        let restarts =
            |step: &Step| matches!(step.action, Action::Trouble(Trouble::RestartServer { .. }));
        self.steps.iter().any(restarts)
    }

    /// May a wish be lost that was granted? Then nobody can say how it should end.
    pub(crate) fn loses_wishes(&self) -> bool {
        let loses = |step: &Step| matches!(step.action, Action::Trouble(Trouble::RestartServer { lost, .. }) if lost > 0);
        self.steps.iter().any(loses)
    }

    /// May caches lag behind for seconds?
    pub(crate) fn views_may_lag(&self) -> bool {
        let faults = &self.faults;
        let lags = |step: &Step| {
            matches!(step.action, Action::Trouble(ref trouble) if !matches!(
                trouble,
                Trouble::SilenceNode(_) | Trouble::WakeNode(_) | Trouble::LoseNode(_) | Trouble::ReturnNodes
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
            if let Action::User(Wish::Create(_, object) | Wish::Change(_, object, _)) = &step.action
            {
                most = most.max(object["spec"]["replicas"].as_u64().unwrap_or(0));
            }
            most
        });
        CHANGES_MAX.max(replaced.sum::<u64>() * CHANGES_A_POD_MAX)
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
        let Action::Trouble(trouble) = self else {
            return None;
        };
        Some(match trouble {
            Trouble::CrashManager { .. } => "manager crashed",
            Trouble::RestartServer { lost: 0, .. } => "API server restarted",
            Trouble::RestartServer { .. } => "API server restarted, tail lost",
            Trouble::SilenceNode(_) => "node silent",
            Trouble::LoseNode(_) => "node gone",
            Trouble::WakeNode(_) | Trouble::ReturnNodes => return None,
            Trouble::Freeze { .. } => "watches of a kind frozen",
            Trouble::Delay { .. } => "events of a kind delayed",
            Trouble::CutWatches => "all watches cut",
            Trouble::ExpireWatches => "all watches expired (410)",
            Trouble::Isolate { .. } => "manager isolated",
        })
    }
}

impl Wish {
    /// The object that it is about, where it names one.
    pub(crate) fn target(&self) -> Option<&Target> {
        match self {
            Wish::Create(target, _)
            | Wish::CreateSecretOf(target, _)
            | Wish::Change(target, ..)
            | Wish::Delete(target, _)
            | Wish::FinishJob(target) => Some(target),
            _ => None,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} nodes, {} manager(s)",
            self.name, self.nodes, self.managers
        )?;
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

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.resource.kind, self.namespace, self.name)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::User(wish) => write!(f, "user: {wish}"),
            Action::Trouble(trouble) => write!(f, "trouble: {trouble}"),
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wish::Create(target, object) => {
                write!(f, "creates {target}: {}", object["spec"])
            }
            Wish::CreateSecretOf(owner, _) => write!(
                f,
                "creates a secret that belongs to {owner} and to one that does not exist"
            ),
            Wish::Change(target, _, what) => write!(f, "{what}: {target}"),
            Wish::Delete(target, policy) => write!(f, "deletes {target} ({policy:?})"),
            Wish::DeletePod(target, nth) => write!(f, "deletes pod {nth} of {target}"),
            Wish::EvictPod(target, nth) => write!(f, "evicts pod {nth} of {target}"),
            Wish::StrayPod(target, nth) => write!(f, "relabels pod {nth} of {target}"),
            Wish::DisownPod(target, nth) => write!(f, "takes the owner from pod {nth} of {target}"),
            Wish::AddGhostOwner(target, nth) => {
                write!(
                    f,
                    "adds an owner that does not exist to pod {nth} of {target}"
                )
            }
            Wish::CreatePod(target, _) => write!(f, "creates a pod that matches {target}"),
            Wish::CreateNamespace(name) => write!(f, "creates namespace {name}"),
            Wish::DeleteNamespace(name) => write!(f, "deletes namespace {name}"),
            Wish::LabelNode(node, pool) => write!(f, "labels node-{node} pool={pool}"),
            Wish::TaintNode(node, true) => write!(f, "taints node-{node}"),
            Wish::FinishJob(target) => write!(f, "finishes {target}"),
            Wish::TaintNode(node, false) => write!(f, "takes the taint from node-{node}"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = |duration: &Duration| format!("{:.1}s", duration.as_secs_f64());
        match self {
            Trouble::CrashManager { manager, down } => {
                write!(
                    f,
                    "manager {manager} crashes and is down for {}",
                    secs(down)
                )
            }
            Trouble::RestartServer { lost, down } => write!(
                f,
                "the API server is down for {}, the last {lost} changes are lost",
                secs(down)
            ),
            Trouble::SilenceNode(node) => write!(f, "node-{node} is silent"),
            Trouble::WakeNode(node) => write!(f, "node-{node} speaks again"),
            Trouble::LoseNode(node) => write!(f, "node-{node} is gone"),
            Trouble::ReturnNodes => write!(f, "all nodes are back"),
            Trouble::Freeze { plural, lasts } => {
                write!(f, "watches of {plural} stand still for {}", secs(lasts))
            }
            Trouble::Delay { plural, by, lasts } => write!(
                f,
                "events of {plural} come {} late for {}",
                secs(by),
                secs(lasts)
            ),
            Trouble::CutWatches => write!(f, "all watches are cut"),
            Trouble::ExpireWatches => write!(f, "all watches are told 410"),
            Trouble::Isolate { manager, lasts } => {
                write!(f, "manager {manager} is isolated for {}", secs(lasts))
            }
        }
    }
}
