//! Emptying a namespace, resource by resource.

use std::collections::BTreeMap;

use api::kinds::{Metadata, Namespace};
use api::{Gate, Meta, MicroTime, Resource, ResourceType, Time};
use bytes::Bytes;
use client::{DeleteOptions, ListOptions, Propagation};
use futures_util::{StreamExt, stream};
use serde::Deserialize;

use super::NamespaceController;
use super::conditions::Findings;
use crate::discovery::{Served, discover};

/// Resources that are worked on at the same time; flow control has the last word.
const AT_ONCE: usize = 10;

/// What a finalizer may take to be dealt with. Upstream's guess.
const FINALIZER_ESTIMATE_SECONDS: i64 = 15;

/// Small enough for any server, large enough that a namespace of a thousand objects takes two pages.
const PAGE: u32 = 500;

/// What is left of one resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub count: usize,
    pub finalizers: BTreeMap<String, usize>,
    pub estimate_seconds: i64,
    pub failure: Option<String>,
}

impl NamespaceController {
    /// Deletes all there is; says what is left.
    pub(super) async fn empty(&self, namespace: &Namespace, now: MicroTime) -> Findings {
        let mut findings = Findings::default();
        let mut resources: Vec<Served> = Vec::new();
        match discover(&self.context.client).await {
            Ok(found) => {
                findings.discovery_failure = found.failure().map(|failure| {
                    let groups = found.failed.len();
                    format!("Discovery failed for some groups, {groups} failing: {failure}")
                });
                let deletable = found.preferred(&["delete"]);
                let namespaced = deletable.filter(|served| served.resource.namespaced);
                resources.extend(namespaced.cloned());
            }
            Err(error) => findings.discovery_failure = Some(client::describe(&error)),
        }
        if self.context.gates.enabled(Gate::OrderedNamespaceDeletion)
            && let Some(at) = resources.iter().position(is_pods)
        {
            let pods = resources.remove(at);
            let left = self.empty_resource(&pods, namespace, now).await;
            findings.add(&pods.resource, left);
            if !findings.remaining.is_empty() {
                findings.pods_first = true;
                return findings;
            }
        }
        let results: Vec<(Served, Left)> = stream::iter(resources)
            .map(|served| async move {
                let left = self.empty_resource(&served, namespace, now).await;
                (served, left)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        for (served, left) in results {
            findings.add(&served.resource, left);
        }
        findings
    }

    async fn empty_resource(&self, served: &Served, namespace: &Namespace, now: MicroTime) -> Left {
        let name = &namespace.metadata.name;
        let deleted_at = namespace.metadata.deleted_at.unwrap_or_default();
        let mut estimate = 0;
        let result = self
            .try_to_empty(served, name, deleted_at, now, &mut estimate)
            .await;
        match result {
            Ok(objects) => what_is_left(&served.resource, name, &objects, estimate),
            Err(error) => Left {
                estimate_seconds: estimate,
                failure: Some(error.to_string()),
                ..Left::default()
            },
        }
    }

    /// The objects that are still there after deleting all.
    async fn try_to_empty(
        &self,
        served: &Served,
        namespace: &str,
        deleted_at: Time,
        now: MicroTime,
        estimate: &mut i64,
    ) -> Result<Vec<Meta>, client::Error> {
        let Some(objects) = self.list(served, namespace).await? else {
            self.delete_collection(served, namespace).await?;
            return Ok(Vec::new());
        };
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        if is_pods(served) {
            *estimate = grace_estimate(&objects, deleted_at, now);
        }
        if !self.delete_collection(served, namespace).await? {
            for object in &objects {
                self.delete_one(served, namespace, &metadata(object).name)
                    .await?;
            }
        }
        let left = self.list(served, namespace).await?.unwrap_or_default();
        Ok(left.iter().map(|object| metadata(object)).collect())
    }

    /// All objects of a resource, pods whole and others their metadata; `None` where listing is not
    /// possible.
    async fn list(
        &self,
        served: &Served,
        namespace: &str,
    ) -> Result<Option<Vec<Bytes>>, client::Error> {
        if !served.can("list") {
            return Ok(None);
        }
        let options = ListOptions {
            limit: Some(PAGE),
            metadata_only: !is_pods(served),
            ..ListOptions::default()
        };
        let mut objects = Vec::new();
        let take = |object| {
            objects.push(object);
            Ok(())
        };
        let client = &self.context.client;
        let listed = client.list_all(&served.resource, namespace, options, take);
        match listed.await {
            Ok(()) => Ok(Some(objects)),
            Err(error) if is_unsupported(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// False where the resource has to be deleted one by one.
    async fn delete_collection(
        &self,
        served: &Served,
        namespace: &str,
    ) -> Result<bool, client::Error> {
        if !served.can("deletecollection") {
            return Ok(false);
        }
        let client = &self.context.client;
        let deleted = client
            .delete_collection(
                &served.resource,
                namespace,
                &ListOptions::default(),
                &background(),
            )
            .await;
        match deleted {
            Ok(()) => Ok(true),
            Err(error) if is_unsupported(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn delete_one(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
    ) -> Result<(), client::Error> {
        let client = &self.context.client;
        let deleted = client
            .delete(&served.resource, namespace, name, &background())
            .await;
        match deleted {
            Err(error) if !is_unsupported(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Findings {
    fn add(&mut self, resource: &ResourceType, left: Left) {
        self.estimate_seconds = self.estimate_seconds.max(left.estimate_seconds);
        self.content_failures.extend(left.failure);
        if left.count > 0 {
            let name = format!("{}.{}", resource.plural, resource.group);
            self.remaining.insert(name, left.count);
        }
        for (finalizer, count) in left.finalizers {
            *self.finalizers.entry(finalizer).or_insert(0) += count;
        }
    }
}

/// What to make of objects that outlive their deletion: those with a grace period or a finalizer need
/// time, others should not be there.
pub(super) fn what_is_left(
    resource: &ResourceType,
    namespace: &str,
    objects: &[Meta],
    estimate: i64,
) -> Left {
    if objects.is_empty() {
        return Left::default();
    }
    let mut left = Left {
        count: objects.len(),
        estimate_seconds: estimate,
        ..Left::default()
    };
    for finalizer in objects.iter().flat_map(|meta| meta.finalizers.iter()) {
        *left.finalizers.entry(finalizer.to_string()).or_insert(0) += 1;
    }
    if estimate == 0 {
        if left.finalizers.is_empty() {
            let (group, version, plural) = (&resource.group, &resource.version, &resource.plural);
            left.failure = Some(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
            ));
        } else {
            left.estimate_seconds = FINALIZER_ESTIMATE_SECONDS;
        }
    }
    left
}

/// The longest grace period of the pods that still run, as long as it can still be the reason.
pub(super) fn grace_estimate(pods: &[Bytes], deleted_at: Time, now: MicroTime) -> i64 {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Pod {
        spec: Spec,
        status: Status,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        termination_grace_period_seconds: Option<i64>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Status {
        phase: String,
    }
    let longest = pods
        .iter()
        .filter_map(|json| serde_json::from_slice::<Pod>(json).ok())
        .filter(|pod| pod.status.phase != "Succeeded" && pod.status.phase != "Failed")
        .filter_map(|pod| pod.spec.termination_grace_period_seconds)
        .max()
        .unwrap_or(0)
        .max(0);
    let passed = now.since(deleted_at).as_secs();
    if passed >= longest.unsigned_abs() {
        0
    } else {
        longest
    }
}

fn metadata(json: &[u8]) -> Meta {
    Metadata::decode(json)
        .map(|object| object.metadata)
        .unwrap_or_default()
}

fn is_pods(served: &Served) -> bool {
    let resource = &served.resource;
    resource.group.is_empty() && resource.version == "v1" && resource.plural == "pods"
}

fn is_unsupported(error: &client::Error) -> bool {
    // UPSTREAM: some resources are discovered but answer with a plain 404.
    error.is_method_not_supported() || error.is_not_found()
}

fn background() -> DeleteOptions {
    DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    }
}
