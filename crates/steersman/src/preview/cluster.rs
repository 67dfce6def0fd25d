//! The present state of a cluster: read, never written.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use api::{ResourceType, Time};
use controllers::discovery::Discovery;
use preview::Manifest;
use serde_json::Value;

use crate::connect::{Connection, ConnectionArguments};
use crate::why::{cannot_list, read_discovery};

/// What admission, the scheduler and volumes go by, beside the kinds that a preview follows. Secrets and ConfigMaps are
/// none of it, and nobody wants them copied.
const AROUND: [&str; 13] = [
    "customresourcedefinitions",
    "namespaces",
    "nodes",
    "priorityclasses",
    "storageclasses",
    "volumeattributesclasses",
    "persistentvolumes",
    "runtimeclasses",
    "serviceaccounts",
    "resourcequotas",
    "limitranges",
    "poddisruptionbudgets",
    "services",
];

/// What was read.
#[derive(Default)]
pub(crate) struct State {
    /// In words; empty for nothing.
    pub(crate) from: String,
    pub(crate) objects: Vec<Manifest>,
    /// What could not be read.
    pub(crate) missing: Vec<String>,
    /// The namespace of the context.
    pub(crate) namespace: Option<String>,
    /// The cluster's time, where it was a cluster that was read.
    pub(crate) now: Option<Time>,
}

/// Reads all that may be read; where that is not everything, what there is in the namespaces of the manifests.
pub(crate) fn read(
    arguments: &ConnectionArguments,
    namespace: Option<&str>,
    manifests: &[Manifest],
    has_metrics: bool,
) -> Result<State> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connection = Connection::open(arguments)?;
    let own = namespace.unwrap_or(&connection.namespace);
    let namespaces = manifests
        .iter()
        .map(|manifest| namespace_of(manifest).unwrap_or(own));
    // Whoever applies nothing means their own namespace.
    let namespaces = namespaces.chain([own]).collect();
    let objects = manifests.iter().map(|manifest| &manifest.object);
    let followed = preview::kinds_of_state(objects, has_metrics);
    tokio.block_on(read_all(&connection, &namespaces, &followed))
}

/// The namespace that an object names.
pub(crate) fn namespace_of(manifest: &Manifest) -> Option<&str> {
    let named = manifest.object.pointer("/metadata/namespace")?.as_str()?;
    Some(named).filter(|named| !named.is_empty())
}

async fn read_all(
    connection: &Connection,
    namespaces: &BTreeSet<&str>,
    followed: &[ResourceType],
) -> Result<State> {
    let discovery = read_discovery(connection).await?;
    let now = connection.now().await;
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let mut nothing_read = true;
    for resource in kinds(&discovery, followed) {
        let answers = match connection.list(resource, "", None).await {
            Err(error) if error.is_forbidden() => {
                in_each(connection, resource, namespaces, error).await
            }
            answer => vec![answer],
        };
        for answer in answers {
            match answer {
                Ok(objects) => {
                    nothing_read = false;
                    found.extend(objects);
                }
                Err(error) => missing.push(cannot_list(resource, &error)),
            }
        }
    }
    missing.dedup();
    if nothing_read {
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
        from: format!("the cluster at {}", connection.server),
        objects: found.into_iter().map(manifest).collect(),
        missing,
        namespace: Some(connection.namespace.clone()),
        now: Some(now),
    })
}

/// What is served of the kinds that are read, each once: the scheduler and controllers go by some of the same.
fn kinds<'a>(discovery: &'a Discovery, followed: &[ResourceType]) -> Vec<&'a ResourceType> {
    let mut found: Vec<&ResourceType> = Vec::new();
    let around = AROUND.iter().filter_map(|kind| discovery.named(kind));
    let followed = followed.iter().filter_map(|kind| {
        let served = discovery.preferred_version(&kind.group, &kind.plural);
        served.map(|served| &served.resource)
    });
    for resource in around.chain(followed) {
        if !found.contains(&resource) {
            found.push(resource);
        }
    }
    found
}

/// Who may not list everything may well list what is in some namespaces, and look at these themselves.
async fn in_each(
    connection: &Connection,
    resource: &ResourceType,
    namespaces: &BTreeSet<&str>,
    forbidden: client::Error,
) -> Vec<Result<Vec<Value>, client::Error>> {
    let mut answers = Vec::new();
    for namespace in namespaces {
        if resource.namespaced {
            answers.push(connection.list(resource, namespace, None).await);
        } else if &*resource.kind == "Namespace" {
            let answer = connection.get(resource, "", namespace).await;
            answers.push(answer.map(|object| vec![object]));
        }
    }
    if answers.is_empty() {
        answers.push(Err(forbidden));
    }
    answers
}
