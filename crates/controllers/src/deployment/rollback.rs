//! Going back to an earlier template, as the annotation of the old `rollbackTo` field asks. Pure.

use api::json::Node;
use api::kinds::{ReplicaSet, RollbackTo};
use api::{LabelSet, ObjectId, Template};
use runtime::EventType;

use super::plan::{Step, Work};
use super::reason::Reason;
use super::{annotations, new_set};

/// How the Deployment itself changes: at least the request is taken back.
#[derive(Debug)]
pub struct RollBack {
    /// Template and annotations to go back to; nothing when it cannot be done.
    pub to: Option<(Template, LabelSet)>,
    pub event_type: EventType,
    pub event_reason: &'static str,
    pub message: String,
}

pub(super) fn plan(work: &mut Work<'_>, to: RollbackTo) {
    let roll_back = choose(work, to);
    if roll_back.to.is_none() {
        let message = roll_back.message.clone();
        work.reasons.push(Reason::CannotRollBack { message });
    }
    work.steps.push(Step::RollBack(roll_back));
}

fn choose(work: &mut Work<'_>, to: RollbackTo) -> RollBack {
    let revision = match to.revision {
        0 => annotations::last_revision(work.sets()),
        revision => revision,
    };
    if revision == 0 {
        return not_found("Unable to find last revision.");
    }
    let found: Option<ReplicaSet> = work
        .sets()
        .find(|set| annotations::revision(set) == Some(revision))
        .cloned();
    let Some(set) = found else {
        return not_found("Unable to find the revision to rollback to.");
    };
    let meta = &work.deployment.metadata;
    if set
        .spec
        .template
        .same_meaning(&work.deployment.spec.template)
    {
        return RollBack {
            to: None,
            event_type: EventType::Warning,
            event_reason: "DeploymentRollbackTemplateUnchanged",
            message: format!(
                "The rollback revision contains the same template as current deployment \"{}\"",
                meta.name
            ),
        };
    }
    work.reasons.push(Reason::RollsBack {
        set: ObjectId::of(&set),
        revision,
    });
    RollBack {
        to: Some((set.spec.template, set.metadata.annotations)),
        event_type: EventType::Normal,
        event_reason: "DeploymentRollback",
        message: format!(
            "Rolled back deployment \"{}\" to revision {revision}",
            meta.name
        ),
    }
}

fn not_found(message: &str) -> RollBack {
    RollBack {
        to: None,
        event_type: EventType::Warning,
        event_reason: "DeploymentRollbackRevisionNotFound",
        message: message.into(),
    }
}

impl RollBack {
    /// The Deployment as it is to be written, from what the server has now.
    pub(super) fn edit(&self, deployment: &mut Node, held: &LabelSet) {
        match &self.to {
            Some((template, annotations)) => {
                let annotations = annotations::after_rollback(held, annotations);
                deployment.set(&["metadata", "annotations"], Node::of(&annotations));
                deployment.set(&["spec", "template"], new_set::unlabelled(template));
            }
            None => {
                let path = ["metadata", "annotations", annotations::ROLLBACK_TO];
                deployment.remove(&path);
            }
        }
    }
}
