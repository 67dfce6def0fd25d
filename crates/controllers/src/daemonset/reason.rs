//! Why, in words that an operator would use.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::Time;
use api::decision::{Explain, Line};

use super::eligibility::Unfit;
use super::plan::{Creation, Deletion, NOTES_MAX, Plan};

#[derive(Clone, Debug, PartialEq)]
pub enum WhyCreate {
    Missing,
    /// Beside an old pod that is available.
    Surge {
        old: Arc<str>,
    },
    /// Beside an old pod that is not.
    Replaces {
        old: Arc<str>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum WhyDelete {
    Failed,
    Succeeded,
    Surplus {
        kept: Arc<str>,
    },
    Unfit(Unfit),
    NodeGone,
    /// A new pod does its work.
    Superseded {
        by: Arc<str>,
    },
    Outdated,
    OutdatedUnavailable,
    /// The template no longer wants its node.
    Displaced,
}

/// What a plan says beside what it does.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    Enough {
        nodes: usize,
    },
    Unavailable {
        unavailable: usize,
        /// When the next one will be, if only time has to pass.
        next_at: Option<Time>,
    },
    BeingDeleted,
    AwaitingConsistency,
    Unfit {
        node: Arc<str>,
        why: Unfit,
    },
    AwaitsBackoff {
        pod: Arc<str>,
        node: Arc<str>,
        wait: Duration,
    },
    OnDelete {
        outdated: usize,
    },
    UpdateAwaitsBudget {
        left: usize,
        unavailable: usize,
        most: usize,
    },
    UpdateAwaitsSurge {
        left: usize,
        surging: usize,
        most: usize,
    },
}

impl Explain for Plan {
    /// The first few of a kind explain the rest.
    fn explain(&self) -> Vec<Line> {
        let more = |what: &'static str, count: usize| {
            let more = count.saturating_sub(NOTES_MAX);
            (more > 0).then(|| Line::acts("More", format!("{what} {more} more")))
        };
        let creations = self.create.iter().take(NOTES_MAX).map(Line::from);
        let deletions = self.delete.iter().take(NOTES_MAX).map(Line::from);
        let notes = self.notes.iter().map(Line::from);
        creations
            .chain(more("creates", self.create.len()))
            .chain(deletions)
            .chain(more("deletes", self.delete.len()))
            .chain(notes)
            .collect()
    }
}

impl From<&Creation> for Line {
    fn from(creation: &Creation) -> Line {
        Line::acts("Creates", creation.to_string())
    }
}

impl From<&Deletion> for Line {
    fn from(deletion: &Deletion) -> Line {
        Line::acts("Deletes", deletion.to_string())
    }
}

impl From<&Note> for Line {
    fn from(note: &Note) -> Line {
        Line::states("Note", note.to_string())
    }
}

impl fmt::Display for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = &self.node;
        match &self.why {
            WhyCreate::Missing => write!(f, "creates a pod on {node}: it has none"),
            WhyCreate::Surge { old } => {
                write!(f, "creates a pod on {node} to take over from {old}")
            }
            WhyCreate::Replaces { old } => write!(
                f,
                "creates a pod on {node}: {old} is out of date and not available"
            ),
        }
    }
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pod, node) = (&self.pod.metadata.name, &self.node);
        write!(f, "deletes {pod} on {node}: ")?;
        match &self.why {
            WhyDelete::Failed => write!(f, "it has failed"),
            WhyDelete::Succeeded => write!(f, "it has ended, and daemons should not"),
            WhyDelete::Surplus { kept } => write!(f, "{kept} is there already"),
            WhyDelete::Unfit(why) => write!(f, "{why}"),
            WhyDelete::NodeGone => write!(f, "the node is gone and the pod was never bound"),
            WhyDelete::Superseded { by } => write!(f, "{by} has taken over"),
            WhyDelete::Outdated => write!(f, "it is out of date"),
            WhyDelete::OutdatedUnavailable => write!(f, "it is out of date and not available"),
            WhyDelete::Displaced => write!(f, "the template no longer wants that node"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Enough { nodes } => write!(f, "has a pod on each of {nodes} nodes"),
            Note::Unavailable {
                unavailable,
                next_at,
            } => {
                write!(f, "waits for {unavailable} of its pods to be available")?;
                match next_at {
                    Some(at) => write!(f, "; the next one is at {at} (minReadySeconds)"),
                    None => Ok(()),
                }
            }
            Note::BeingDeleted => write!(
                f,
                "is being deleted: its pods are left to the garbage collector"
            ),
            Note::AwaitingConsistency => write!(
                f,
                "waits until the pods it has just created or deleted show up in the cache"
            ),
            Note::Unfit { node, why } => write!(f, "has no pod on {node}: {why}"),
            Note::AwaitsBackoff { pod, node, wait } => write!(
                f,
                "deletes {pod}, which has failed on {node}, in {wait:?}: pods fail there repeatedly"
            ),
            Note::OnDelete { outdated } => write!(
                f,
                "leaves {outdated} pods of old revisions until somebody deletes them (OnDelete)"
            ),
            Note::UpdateAwaitsBudget {
                left,
                unavailable,
                most,
            } => write!(
                f,
                "updates {left} more pods when fewer than {most} nodes are without an available pod: {unavailable} are now"
            ),
            Note::UpdateAwaitsSurge {
                left,
                surging,
                most,
            } => write!(
                f,
                "updates {left} more pods when fewer than {most} new pods are getting ready beside old ones: {surging} are now"
            ),
        }
    }
}
