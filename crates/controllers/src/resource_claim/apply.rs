//! The writes. Nothing is decided here.

use api::kinds::{
    CLAIM_DELETE_PROTECTION, ClaimConsumer, ClaimSource, GeneratedClaim, Metadata, Pod, PodClaim,
    PodGroup, ResourceClaim,
};
use api::{Istr, Meta, Resource, ResourceType, Uid};
use client::{Client, DeleteOptions, Patch};
use runtime::Error;
use serde_json::{Value, json};

use super::plan::Requester;
use super::release::Release;
use crate::workload::status::revision;

/// UPSTREAM: the manager of the entries in a status.
const FIELD_MANAGER: &str = "ResourceClaimController";

/// What the API server said of a claim that it has created.
pub struct Created {
    pub name: Istr,
    pub revision: u64,
}

pub async fn create(client: &Client, namespace: &str, body: String) -> Result<Created, Error> {
    let kind = ResourceClaim::TYPE;
    let answer = client.create_metadata_only(&kind, namespace, body).await?;
    let Metadata { metadata } = read(&answer)?;
    Ok(Created {
        name: Istr::new(&metadata.name),
        revision: metadata.resource_version,
    })
}

/// The uid of the object with this name now.
pub async fn look_up(
    client: &Client,
    kind: &ResourceType,
    namespace: &str,
    name: &str,
) -> Result<Option<Uid>, Error> {
    match client.get_metadata(kind, namespace, name).await {
        Ok(answer) => Ok(Some(read(&answer)?.metadata.uid)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read(answer: &[u8]) -> Result<Metadata, Error> {
    Metadata::decode(answer).map_err(|error| Error::Retry(error.to_string()))
}

/// Writes which claims stand for which entries; gives the new revision. An apply says everything that it owns, so what
/// the status has already is said again.
pub async fn record(
    client: &Client,
    requester: Requester<'_>,
    new: &[(Istr, Istr)],
) -> Result<u64, Error> {
    let resource: ResourceType = match requester {
        Requester::Pod { .. } => Pod::TYPE,
        Requester::Group(_) => PodGroup::TYPE,
    };
    let meta = requester.meta();
    let statuses = requester.claims().iter();
    let statuses: Vec<Value> = statuses.filter_map(|entry| status(entry, new)).collect();
    let body = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "status": {"resourceClaimStatuses": statuses},
    });
    let patch = Patch::Apply {
        body: body.to_string().into(),
        field_manager: FIELD_MANAGER.to_owned(),
        force: true,
    };
    let (namespace, name) = (&meta.namespace, &meta.name);
    let answer = client
        .patch(&resource, namespace, name, Some("status"), &patch)
        .await?;
    Ok(revision(&answer))
}

fn status(entry: &PodClaim, new: &[(Istr, Istr)]) -> Option<Value> {
    let name = &entry.name;
    if let Some((_, claim)) = new.iter().find(|(named, _)| named == name) {
        return Some(json!({"name": name, "resourceClaimName": claim}));
    }
    match &entry.source {
        ClaimSource::Template { generated, .. } => match generated {
            GeneratedClaim::Named(claim) => Some(json!({"name": name, "resourceClaimName": claim})),
            GeneratedClaim::NotNeeded => Some(json!({"name": name})),
            GeneratedClaim::NotYet => None,
        },
        _ => None,
    }
}

/// Adds a consumer to a claim that is still as it was seen; gives the new revision.
pub async fn reserve(
    client: &Client,
    claim: &ResourceClaim,
    consumer: &ClaimConsumer,
) -> Result<u64, Error> {
    let status = json!({"reservedFor": [consumer]});
    patch(client, &claim.metadata, Some("status"), "status", status).await
}

/// Takes consumers, devices and the finalizer off a claim that is still as it was seen, and deletes it where nobody needs
/// it; gives the last revision that is known.
pub async fn release(
    client: &Client,
    claim: &ResourceClaim,
    release: &Release,
) -> Result<Option<u64>, Error> {
    let mut meta = claim.metadata.clone();
    let mut written = None;
    if !release.removed.is_empty() || release.deallocate {
        let removed = release.removed.iter();
        let removed: Vec<Value> = removed
            .map(|uid| json!({"$patch": "delete", "uid": uid}))
            .collect();
        let mut status = json!({});
        if !removed.is_empty() {
            status["reservedFor"] = removed.into();
        }
        if release.deallocate {
            status["allocation"] = Value::Null;
        }
        meta.resource_version = patch(client, &meta, Some("status"), "status", status).await?;
        written = Some(meta.resource_version);
    }
    if release.remove_finalizer {
        let off = json!({"$deleteFromPrimitiveList/finalizers": [CLAIM_DELETE_PROTECTION]});
        match patch(client, &meta, None, "metadata", off).await {
            Ok(revision) => written = Some(revision),
            // The last finalizer is off, and somebody was faster.
            Err(Error::Client(error)) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    if release.delete.is_some() {
        let options = DeleteOptions {
            uid: Some(meta.uid.clone()),
            ..DeleteOptions::default()
        };
        let (kind, namespace) = (ResourceClaim::TYPE, &meta.namespace);
        match client.delete(&kind, namespace, &meta.name, &options).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(written)
}

/// Changes one part of a claim, if nobody has written it since it had this revision.
async fn patch(
    client: &Client,
    meta: &Meta,
    subresource: Option<&str>,
    part: &str,
    change: Value,
) -> Result<u64, Error> {
    let mut body = json!({"metadata": {}});
    body[part] = change;
    body["metadata"]["resourceVersion"] = json!(meta.resource_version.to_string());
    let patch = Patch::Strategic(body.to_string().into());
    let (kind, namespace) = (ResourceClaim::TYPE, &meta.namespace);
    let answer = client
        .patch(&kind, namespace, &meta.name, subresource, &patch)
        .await?;
    Ok(revision(&answer))
}
