//! Which part of a volume a mount shows: `subPath`, or `subPathExpr` with variables in it.
//!
//! UPSTREAM: `makeMounts` and `ExpandContainerVolumeMounts`, in their words.

use std::collections::{BTreeMap, BTreeSet};

use api::Istr;
use client::Client;
use runtime::Error;
use serde_json::Value;

use super::environment::{self, Data, expand_with, list, text};
use super::{container_of, read};
use crate::pod::{Container, ContainerState, ContainerStatus, Pod};
use crate::script::normal;

/// The part of the volume as an absolute path, or why there is no such part.
pub(super) fn of_mount(mount: &Value, environment: &Data) -> Result<String, String> {
    let said = match text(&mount["subPathExpr"]) {
        "" => text(&mount["subPath"]).to_owned(),
        expression => expanded(expression, environment)?,
    };
    if said.starts_with('/') {
        return Err(format!(
            "error SubPath `{said}` must not be an absolute path"
        ));
    }
    if said.split('/').any(|part| part == "..") {
        return Err(format!(
            "unable to provision SubPath `{said}`: must not contain '..'"
        ));
    }
    Ok(normal(&said))
}

/// UPSTREAM: a variable that is empty counts as one that is not there.
fn expanded(expression: &str, environment: &Data) -> Result<String, String> {
    let mut missing = BTreeSet::new();
    let expanded = expand_with(expression, |name| {
        let value = environment.get(name).filter(|value| !value.is_empty());
        if value.is_none() {
            missing.insert(name.to_owned());
        }
        value.cloned()
    });
    match missing.is_empty() {
        true => Ok(expanded),
        false => {
            let missing: Vec<String> = missing.into_iter().collect();
            Err(format!("missing value for {}", missing.join(", ")))
        }
    }
}

/// Why containers that are to be created cannot be, by name: their variables have to be asked for.
pub(crate) async fn errors(client: &Client, pod: &Pod) -> Result<BTreeMap<Istr, String>, Error> {
    let waiting: Vec<&Container> = pod
        .spec
        .all_containers()
        .chain(&pod.spec.ephemeral_containers)
        .filter(|container| container.has_path_expressions && is_to_be_created(pod, container))
        .collect();
    let mut errors = BTreeMap::new();
    if waiting.is_empty() || pod.is_finished() || pod.metadata.is_terminating() {
        return Ok(errors);
    }
    let object = read(client, pod).await?;
    for container in waiting {
        let spec = container_of(&object, &container.name);
        let environment = environment::variables(client, &object, &spec).await;
        let mut mounts = list(&spec, "volumeMounts");
        if let Some(error) = mounts.find_map(|mount| of_mount(mount, &environment).err()) {
            errors.insert(container.name.clone(), error);
        }
    }
    Ok(errors)
}

/// A run that goes on has its mounts.
fn is_to_be_created(pod: &Pod, container: &Container) -> bool {
    let is_running =
        |status: &ContainerStatus| matches!(status.state, ContainerState::Running { .. });
    let mut statuses = pod.status.all_containers();
    !statuses.any(|status| status.name == container.name && is_running(status))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_volumes_are_named_in_upstreams_words() {
        let environment = [
            ("POD", "web-0"),
            ("UP", "../x"),
            ("ROOT", "/x"),
            ("NONE", ""),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Data::from(environment);
        let part = |mount: Value| match of_mount(&mount, &environment) {
            Ok(part) => part,
            Err(error) => error,
        };
        let expression = |text: &str| part(json!({"subPathExpr": text}));
        assert_eq!(part(json!({})), "/");
        assert_eq!(part(json!({"subPath": "a/b/$(POD)"})), "/a/b/$(POD)");
        assert_eq!(expression("logs/$(POD)"), "/logs/web-0");
        assert_eq!(expression("$$(POD)"), "/$(POD)");
        assert_eq!(
            expression("$(Z)/$(POD)/$(NONE)/$(A)"),
            "missing value for A, NONE, Z"
        );
        assert_eq!(
            expression("$(ROOT)"),
            "error SubPath `/x` must not be an absolute path"
        );
        assert_eq!(
            expression("a/$(UP)"),
            "unable to provision SubPath `a/../x`: must not contain '..'"
        );
    }
}
