//! Which revision of the template pods should have. Pure but for [`Revisions::resolve`], which may
//! have to write one.

use std::sync::Arc;

use api::kinds::{ControllerRevision, StatefulSet};
use api::{Gate, Gates};

use super::reason::Reason;
use crate::workload::claim::controller_reference;
use crate::workload::history::{self, History, NewRevision};

/// The revisions that matter.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// What pods have that the update has not reached, or must not reach.
    pub current: Arc<ControllerRevision>,
    /// What the template says now.
    pub update: Arc<ControllerRevision>,
    pub collision_count: i32,
    /// All that there were, oldest first.
    pub history: Vec<Arc<ControllerRevision>>,
    /// What the template is to the history, if that has changed.
    pub news: Option<Reason>,
}

/// Where the update revision comes from.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The template has not changed since this one.
    Newest(Arc<ControllerRevision>),
    /// The template is that of an older revision again.
    Return {
        to: Arc<ControllerRevision>,
        number: i64,
    },
    Create(NewRevision),
}

/// Finds the template among the sorted revisions.
pub fn choose(set: &StatefulSet, sorted: &[Arc<ControllerRevision>], gates: Gates) -> Choice {
    let data = set.spec.template.revision();
    let newest = sorted.last();
    if let Some(equal) = history::newest_equal(sorted, data) {
        return match newest {
            Some(newest) if newest.data == *data => Choice::Newest(newest.clone()),
            _ => Choice::Return {
                to: equal.clone(),
                number: history::next_number(sorted),
            },
        };
    }
    if let Some(newest) = newest
        && gates.enabled(Gate::StatefulSetSemanticRevisionComparison)
        && newest.data.same_meaning(data)
    {
        return Choice::Newest(newest.clone());
    }
    Choice::Create(NewRevision {
        labels: set.spec.template.labels().clone(),
        annotations: set.metadata.annotations.clone(),
        owner: controller_reference(set),
        data: data.clone(),
        number: history::next_number(sorted),
    })
}

impl Revisions {
    /// Carries the choice out.
    pub async fn resolve(
        set: &StatefulSet,
        sorted: Vec<Arc<ControllerRevision>>,
        choice: Choice,
        history: &History,
    ) -> Result<Revisions, client::Error> {
        let news = choice.news();
        let mut collision_count = set.status.collision_count.unwrap_or(0);
        let update = match choice {
            Choice::Newest(newest) => newest,
            Choice::Return { to, number } => history.renumber(&to, number).await?,
            Choice::Create(new) => {
                history
                    .create(&set.metadata, &new, &mut collision_count)
                    .await?
            }
        };
        let current = sorted
            .iter()
            .find(|held| set.status.current_revision == *held.metadata.name)
            .unwrap_or(&update)
            .clone();
        Ok(Revisions {
            current,
            update,
            collision_count,
            history: sorted,
            news,
        })
    }

    /// Was a revision written?
    pub fn is_news(&self) -> bool {
        self.news.is_some()
    }
}

impl Choice {
    pub(super) fn news(&self) -> Option<Reason> {
        match self {
            Choice::Newest(_) => None,
            Choice::Return { to, number } => Some(Reason::OldTemplate {
                revision: to.metadata.name.clone(),
                number: *number,
            }),
            Choice::Create(new) => Some(Reason::NewTemplate { number: new.number }),
        }
    }
}
