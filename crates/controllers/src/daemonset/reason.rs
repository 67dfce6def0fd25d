//! Why, in words that an operator would use.

use std::borrow::Cow;
use std::sync::Arc;

use api::decision::{Explain, Line, agree, counted, reasons};
use api::kinds::Node;
use api::{Istr, Key, ObjectId, Time};

use super::eligibility::Unfit;
use super::plan::{Creation, Deletion, NOTES_MAX, Plan};
use crate::workload::lines;

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
        pod: ObjectId,
        node: Arc<str>,
        at: Time,
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
        let more = |code: &'static str, what: &str, count: usize| {
            let more = count.saturating_sub(NOTES_MAX);
            let pods = counted(more, "more pod");
            (more > 0).then(|| Line::acts(code, format!("{what} {pods}")))
        };
        let creations = self.create.iter().take(NOTES_MAX).map(Line::from);
        let deletions = self.delete.iter().take(NOTES_MAX).map(Line::from);
        let notes = self.notes.iter().map(Line::from);
        creations
            .chain(more("CreatesMore", "creates", self.create.len()))
            .chain(deletions)
            .chain(more("DeletesMore", "deletes", self.delete.len()))
            .chain(notes)
            .collect()
    }
}

impl From<&Creation> for Line {
    fn from(creation: &Creation) -> Line {
        let node = &creation.node;
        let (code, why) = match &creation.why {
            WhyCreate::Missing => (reasons::MISSING, Cow::from("the node has none")),
            WhyCreate::Surge { old } => {
                (reasons::SURGE, format!("it takes over from {old}").into())
            }
            WhyCreate::Replaces { old } => {
                let why = format!("{old} is outdated and not available");
                (reasons::REPLACES, why.into())
            }
        };
        Line::acts(code, format!("creates a pod on {node}"))
            .because(why)
            .about(node_id(node))
    }
}

impl From<&Deletion> for Line {
    fn from(deletion: &Deletion) -> Line {
        let (pod, node) = (&*deletion.pod, &deletion.node);
        let (code, why) = match &deletion.why {
            WhyDelete::Failed => ("Failed", Cow::from("it has failed")),
            WhyDelete::Succeeded => (
                "Succeeded",
                "it has succeeded, and daemon pods should keep running".into(),
            ),
            WhyDelete::Surplus { kept } => ("Surplus", format!("{kept} is there already").into()),
            WhyDelete::Unfit(why) => ("Unfit", why.to_string().into()),
            WhyDelete::NodeGone => (
                "NodeGone",
                "the node is gone, and the pod was never bound".into(),
            ),
            WhyDelete::Superseded { by } => ("Superseded", format!("{by} has taken over").into()),
            WhyDelete::Outdated => ("Outdated", "it is outdated".into()),
            WhyDelete::OutdatedUnavailable => (
                "OutdatedUnavailable",
                "it is outdated and not available".into(),
            ),
            WhyDelete::Displaced => (
                "Displaced",
                "the template does not select that node any more".into(),
            ),
        };
        Line::acts(code, format!("deletes {} on {node}", pod.metadata.name))
            .because(why)
            .about(ObjectId::of(pod))
    }
}

impl From<&Note> for Line {
    fn from(note: &Note) -> Line {
        match note {
            Note::Enough { nodes } => {
                let what = match nodes {
                    0 => Cow::from("has no eligible node"),
                    1 => "has a pod on its only node".into(),
                    nodes => format!("has a pod on each of {nodes} nodes").into(),
                };
                Line::states("Enough", what)
            }
            Note::Unavailable {
                unavailable,
                next_at,
            } => lines::unavailable(*unavailable, *next_at),
            Note::BeingDeleted => lines::being_deleted(),
            Note::AwaitingConsistency => lines::awaiting_consistency(),
            Note::Unfit { node, why } => Line::states("Unfit", format!("has no pod on {node}"))
                .because(why.to_string())
                .about(node_id(node)),
            Note::AwaitsBackoff { pod, node, at } => {
                Line::waits("AwaitsBackoff", format!("deletes {} on {node}", pod.name))
                    .because("it has failed, and pods keep failing there")
                    .until(*at)
                    .about(pod.clone())
            }
            Note::OnDelete { outdated } => lines::on_delete(*outdated),
            Note::UpdateAwaitsBudget {
                left,
                unavailable,
                most,
            } => {
                let have = agree(*unavailable, "has", "have");
                let nodes = counted(*unavailable, "node");
                let why = format!("{nodes} {have} no available pod, and maxUnavailable is {most}");
                update_awaits("UpdateAwaitsBudget", *left).because(why)
            }
            Note::UpdateAwaitsSurge {
                left,
                surging,
                most,
            } => {
                let are = agree(*surging, "is", "are");
                let pods = counted(*surging, "new pod");
                let why = format!("{pods} {are} starting beside old ones, and maxSurge is {most}");
                update_awaits("UpdateAwaitsSurge", *left).because(why)
            }
        }
    }
}

fn update_awaits(code: &'static str, left: usize) -> Line {
    let what = format!("waits to update {}", counted(left, "more pod"));
    Line::waits(code, what)
}

fn node_id(name: &Arc<str>) -> ObjectId {
    ObjectId::named::<Node>(&Key {
        namespace: Istr::default(),
        name: name.clone(),
    })
}
