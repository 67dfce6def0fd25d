//! The present state of a cluster: read, never written.

use anyhow::{Result, bail};
use api::Time;
use serde_json::Value;
use simulator::preview::Manifest;

use crate::connect::{Connection, ConnectionArguments};
use crate::why::{cannot_list, read_discovery};

/// What a rollout may depend on. Secrets and ConfigMaps are none of it, and nobody wants them copied.
const KINDS: [&str; 21] = [
    "customresourcedefinitions",
    "namespaces",
    "nodes",
    "priorityclasses",
    "storageclasses",
    "persistentvolumes",
    "runtimeclasses",
    "serviceaccounts",
    "resourcequotas",
    "limitranges",
    "persistentvolumeclaims",
    "poddisruptionbudgets",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "replicationcontrollers",
    "controllerrevisions",
    "jobs",
    "services",
    "pods",
];

/// What was read.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) objects: Vec<Manifest>,
    /// What could not be read.
    pub(crate) missing: Vec<String>,
    /// The cluster's time, where it was a cluster that was read.
    pub(crate) now: Option<Time>,
}

pub(crate) fn read(arguments: &ConnectionArguments) -> Result<State> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(read_all(&Connection::open(arguments)?))
}

async fn read_all(connection: &Connection) -> Result<State> {
    let discovery = read_discovery(connection).await?;
    let now = connection.now().await;
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let Some(resource) = discovery.named(kind) else {
            continue;
        };
        match connection.list(resource, "", None).await {
            Ok(objects) => found.extend(objects),
            Err(error) => missing.push(cannot_list(resource, &error)),
        }
    }
    if found.is_empty() {
        bail!(
            "nothing of the cluster at {} may be read: {}",
            connection.server,
            missing.join(", ")
        );
    }
    let manifest = |object: Value| Manifest {
        file: connection.server.clone(),
        line: 0,
        object,
    };
    Ok(State {
        objects: found.into_iter().map(manifest).collect(),
        missing,
        now: Some(now),
    })
}
