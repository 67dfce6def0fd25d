//! Writing status.
//!
//! Upstream's roles let most controllers `update` a status but not `patch` it, so this is a PUT:
//! the metadata that we read, an empty spec (the server ignores it) and the new status. The resource
//! version in the metadata makes it a compare-and-set.

use api::{Meta, Resource};
use client::{Client, Error};
use serde::{Deserialize, Serialize};

/// Writes the status of an object that we read at `meta`'s revision; gives the new revision.
pub async fn put_status<K: Resource>(
    client: &Client,
    meta: &Meta,
    status: &impl Serialize,
) -> Result<u64, Error> {
    put_status_through::<K>("status", client, meta, status).await
}

/// As [`put_status`], through another subresource that writes a part of the status.
pub async fn put_status_through<K: Resource>(
    subresource: &str,
    client: &Client,
    meta: &Meta,
    status: &impl Serialize,
) -> Result<u64, Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a, S> {
        api_version: &'a str,
        kind: &'a str,
        metadata: &'a Meta,
        spec: Empty,
        status: &'a S,
    }
    #[derive(Serialize)]
    struct Empty {}

    let body = serde_json::to_vec(&Body {
        api_version: &K::TYPE.api_version(),
        kind: &K::TYPE.kind,
        metadata: meta,
        spec: Empty {},
        status,
    })
    .expect("views serialise");
    let answer = client
        .replace(
            &K::TYPE,
            &meta.namespace,
            &meta.name,
            Some(subresource),
            body,
        )
        .await?;
    Ok(revision(&answer))
}

/// As [`put_status`], and on a conflict once more on top of what the server has now. `status_on` says what to write on top
/// of an object: what is not known better stays as the object has it.
pub async fn put_status_with_retry<K: Resource, S: Serialize>(
    client: &Client,
    object: &K,
    status_on: impl Fn(&K) -> S,
) -> Result<u64, Error> {
    let meta = object.meta();
    match put_status::<K>(client, meta, &status_on(object)).await {
        Err(error) if error.is_conflict() => {
            let fresh: K = client.get_as(&meta.namespace, &meta.name).await?;
            if fresh.meta().uid != meta.uid {
                return Err(error);
            }
            put_status::<K>(client, fresh.meta(), &status_on(&fresh)).await
        }
        other => other,
    }
}

/// The resource version of an object that the server answered with.
pub fn revision(answer: &[u8]) -> u64 {
    // Not the whole of the metadata: this is done for every pod that is created.
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Answer<'a> {
        #[serde(borrow)]
        metadata: Revised<'a>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Revised<'a> {
        resource_version: &'a str,
    }
    let answer: Answer<'_> = serde_json::from_slice(answer).unwrap_or_default();
    answer.metadata.resource_version.parse().unwrap_or(0)
}
