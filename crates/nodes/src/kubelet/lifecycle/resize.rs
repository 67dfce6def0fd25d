//! In-place resize: from what a container has to what its spec asks for now.
//!
//! UPSTREAM: `pkg/kubelet/allocation`. What fits is allocated and in progress, then done; what does not is deferred until
//! there is room. A status that says what the container has is all that is remembered.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, Condition, ConditionStatus};

use super::Course;
use super::containers::{Role, field_path};
use super::probes::TERMINATED;
use crate::pod::{Container, ContainerState, ContainerStatus};

pub(super) const PENDING: &str = "PodResizePending";
pub(super) const IN_PROGRESS: &str = "PodResizeInProgress";

/// How often room is looked for.
const RETRY: Duration = Duration::from_secs(30);

impl Course<'_> {
    pub(super) fn resize(&mut self) {
        let pod = self.pod;
        let init = pod.spec.init_containers.iter();
        let init = init.zip(&pod.status.init_containers);
        let main = pod.spec.containers.iter().zip(&pod.status.containers);
        let is_wanted = init.chain(main).any(|(one, status)| differs(one, status));
        let generation = pod.metadata.generation;
        let is_begun = conditions::find(&self.status.conditions, IN_PROGRESS)
            .is_some_and(|held| held.observed_generation == generation);
        if !is_wanted {
            conditions::remove(&mut self.status.conditions, PENDING);
            conditions::remove(&mut self.status.conditions, IN_PROGRESS);
        } else if is_begun {
            self.finish_resize();
        } else if let Some(why) = (self.facts.lacks_room)() {
            self.defer_resize(&why);
        } else {
            self.begin_resize();
        }
    }

    fn begin_resize(&mut self) {
        conditions::remove(&mut self.status.conditions, PENDING);
        self.set_resize(IN_PROGRESS, "", "");
        for_each_wanted(self, |container, status| {
            status.allocated = Some(container.resources.requests_alone());
        });
        let message = self.resize_message("Pod resize started", None);
        self.tell(false, "ResizeStarted", message, String::new());
    }

    fn finish_resize(&mut self) {
        let mut restarted = Vec::new();
        let now = self.now;
        for_each_wanted(self, |container, status| {
            let held = status.resources.take().unwrap_or_default();
            let mut names = container.restarts_on_resize.iter();
            let restarts = names.any(|name| held.differ_in(&container.resources, name));
            status.resources = Some(Arc::clone(&container.resources));
            if let ContainerState::Running { started_at } = status.state
                && restarts
            {
                restarted.push(container.clone());
                status.end(started_at, now, TERMINATED);
            }
        });
        for container in restarted {
            let role = match container.is_sidecar {
                true => Role::Sidecar,
                false => Role::Main,
            };
            let message = format!("Container {} resize requires restart", container.name);
            self.tell(false, "Killing", message, field_path(&container, role));
        }
        conditions::remove(&mut self.status.conditions, IN_PROGRESS);
        let message = self.resize_message("Pod resize completed", None);
        self.tell(false, "ResizeCompleted", message, String::new());
    }

    fn defer_resize(&mut self, why: &str) {
        let before = conditions::find(&self.status.conditions, PENDING).cloned();
        self.set_resize(PENDING, "Deferred", why);
        let is_told = before.is_some_and(|held| {
            *held.message == *why && held.observed_generation == self.pod.metadata.generation
        });
        if !is_told {
            let message = self.resize_message("Pod resize Deferred", Some(why));
            self.tell(true, "ResizeDeferred", message, String::new());
        }
        self.wake_at(self.facts.now.plus(RETRY));
    }

    fn set_resize(&mut self, kind: &str, reason: &str, message: &str) {
        let status = ConditionStatus::True;
        let mut new = Condition::new(kind, status, reason, message.to_owned(), self.now);
        new.observed_generation = self.pod.metadata.generation;
        conditions::update_in_place(&mut self.status.conditions, new);
    }

    /// UPSTREAM: what is asked for, as JSON behind the words.
    fn resize_message(&self, words: &str, error: Option<&str>) -> String {
        let spec = &self.pod.spec;
        let list = |containers: &[Container]| -> Vec<serde_json::Value> {
            let all = containers.iter();
            all.map(|one| serde_json::json!({"name": one.name, "resources": &*one.resources}))
                .collect()
        };
        let mut summary = serde_json::Map::new();
        if !spec.init_containers.is_empty() {
            summary.insert("initContainers".into(), list(&spec.init_containers).into());
        }
        summary.insert("containers".into(), list(&spec.containers).into());
        summary.insert("generation".into(), self.pod.metadata.generation.into());
        if let Some(error) = error {
            summary.insert("error".into(), error.into());
        }
        format!("{words}: {}", serde_json::Value::Object(summary))
    }
}

/// Has a container that runs anything else than it asks for?
fn differs(container: &Container, status: &ContainerStatus) -> bool {
    let runs = matches!(status.state, ContainerState::Running { .. });
    runs && status
        .resources
        .as_ref()
        .is_some_and(|held| *held != container.resources)
}

fn for_each_wanted(
    course: &mut Course<'_>,
    mut change: impl FnMut(&Container, &mut ContainerStatus),
) {
    let spec = &course.pod.spec;
    let status = &mut course.status;
    let init = spec.init_containers.iter().zip(&mut status.init_containers);
    let main = spec.containers.iter().zip(&mut status.containers);
    for (container, status) in init.chain(main) {
        if differs(container, status) {
            change(container, status);
        }
    }
}
