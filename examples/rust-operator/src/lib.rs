//! Copies each ConfigMap that is labelled for it: the smallest operator that owns something.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};

/// Marks the ConfigMaps that are copied.
pub const LABEL: &str = "example.com/copy";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the original cannot be an owner: it has no name or uid")]
    NoOwner,
    #[error("cannot write the copy")]
    Write(#[source] Box<kube::Error>),
}

/// Runs until its stream of changes ends.
pub async fn run(client: Client) {
    let originals = Api::<ConfigMap>::all(client.clone());
    let copies = Api::<ConfigMap>::all(client.clone());
    let labelled = watcher::Config::default().labels(LABEL);
    Controller::new(originals, labelled)
        .owns(copies, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(original: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    if original.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let owner = original.controller_owner_ref(&()).ok_or(Error::NoOwner)?;
    let namespace = original.namespace().unwrap_or_default();
    let name = format!("{}-copy", original.name_any());
    let copy = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: original.data.clone(),
        ..ConfigMap::default()
    };
    let maps = Api::<ConfigMap>::namespaced((*client).clone(), &namespace);
    let apply = PatchParams::apply("rust-operator").force();
    let written = maps.patch(&name, &apply, &Patch::Apply(&copy)).await;
    written.map_err(|error| Error::Write(Box::new(error)))?;
    Ok(Action::await_change())
}
