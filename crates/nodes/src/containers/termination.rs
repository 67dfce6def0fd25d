//! What a container that has ended leaves as its termination message.
//!
//! UPSTREAM: `getTerminationMessage` and `normalizeStatus`: what it wrote to its file, or else the end of its log.

use api::Istr;
use client::Client;
use runtime::Error;
use serde_json::Value;

use super::log::{Run, Source};
use super::{container_of, environment, read};
use crate::behaviour::Behaviour;
use crate::pod::{Container, ContainerState, ContainerStatus, Pod, PodStatus, Terminated};
use crate::script::Script;

/// UPSTREAM: of a file the last 4096 bytes, of a log the last 80 lines and 2048 bytes.
const FILE_BYTES_MAX: usize = 4096;
const LOG_BYTES_MAX: usize = 2048;
const LOG_LINES_MAX: usize = 80;

/// UPSTREAM: what the containers of a pod share.
const POD_BYTES_MAX: usize = 12 * 1024;

/// Adds the messages of those containers that have ended since the pod's status was written.
pub(crate) async fn add_messages(
    client: &Client,
    pod: &Pod,
    behaviour: &Behaviour,
    status: &mut PodStatus,
) -> Result<(), Error> {
    let (spec, held) = (&pod.spec, &pod.status);
    let lists = [
        (
            &spec.init_containers,
            &held.init_containers,
            &mut status.init_containers,
        ),
        (&spec.containers, &held.containers, &mut status.containers),
        (
            &spec.ephemeral_containers,
            &held.ephemeral_containers,
            &mut status.ephemeral_containers,
        ),
    ];
    let count: usize = lists.iter().map(|(containers, ..)| containers.len()).sum();
    let most = POD_BYTES_MAX / count.max(1);
    let mut object = None;
    for (containers, held, statuses) in lists {
        for (container, status) in containers.iter().zip(statuses) {
            let held = held.iter().find(|one| one.name == status.name);
            let held = held.filter(|held| held.restart_count == status.restart_count);
            for end in ends(status) {
                if is_known(end, held) || !may_leave_message(container, end) {
                    continue;
                }
                let object = match object.take() {
                    Some(read) => object.insert(read),
                    None => object.insert(read(client, pod).await?),
                };
                let message = message(client, object, container, behaviour, end).await;
                end.message = Istr::from(first_bytes(message, most));
            }
        }
    }
    Ok(())
}

fn ends(status: &mut ContainerStatus) -> impl Iterator<Item = &mut Terminated> {
    let now = match &mut status.state {
        ContainerState::Terminated(end) => Some(end),
        _ => None,
    };
    now.into_iter().chain(&mut status.last)
}

/// Was this end written before, with its message if there was one?
fn is_known(end: &Terminated, held: Option<&ContainerStatus>) -> bool {
    let is_held = |held: &ContainerStatus| {
        let now = matches!(&held.state, ContainerState::Terminated(held) if held == end);
        now || held.last.as_ref() == Some(end)
    };
    !end.message.is_empty() || held.is_some_and(is_held)
}

fn may_leave_message(container: &Container, end: &Terminated) -> bool {
    let writes = || Script::parse(&container.command).is_ok_and(|script| script.writes_files());
    container.termination.falls_back && end.exit_code != 0 || writes()
}

async fn message(
    client: &Client,
    pod: &Value,
    container: &Container,
    behaviour: &Behaviour,
    end: &Terminated,
) -> String {
    let spec = container_of(pod, &container.name);
    let Some(run) = Run::ended(end).filter(|_| spec.is_object()) else {
        return String::new();
    };
    let around = environment::surroundings(client, pod, &spec).await;
    let source = Source::new(&spec, around, behaviour, run);
    let path = &container.termination.path;
    let written = match path.is_empty() {
        true => String::new(),
        false => source.written(path),
    };
    if written.is_empty() && container.termination.falls_back && end.exit_code != 0 {
        return last_bytes(&source.tail(LOG_LINES_MAX), LOG_BYTES_MAX);
    }
    last_bytes(&written, FILE_BYTES_MAX)
}

/// UPSTREAM: cut between bytes; half a character is shown as one that is unknown.
fn last_bytes(text: &str, most: usize) -> String {
    let bytes = text.as_bytes();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(most)..]).into_owned()
}

fn first_bytes(text: String, most: usize) -> String {
    match text.len() <= most {
        true => text,
        false => String::from_utf8_lossy(&text.as_bytes()[..most]).into_owned(),
    }
}
