//! Pods made from templates, and their deletion, with the events that users know.

use api::json::Node;
use api::kinds::Pod;
use api::{Key, OwnerRef, Resource, Template};
use bytes::Bytes;
use client::{Client, DeleteOptions, Error};
use futures_util::future::join_all;
use runtime::events::{EventType, ObjectRef, Recorder};
use runtime::{Expectations, slow_start};
use serde::Deserialize;

use super::Consistency;

/// Creates and deletes pods on behalf of an owner.
#[derive(Clone)]
pub struct PodControl {
    client: Client,
    recorder: Recorder,
}

/// What the API server made of a pod that we asked for.
#[derive(Debug)]
pub struct Created {
    pub name: String,
    pub resource_version: u64,
}

impl PodControl {
    pub fn new(client: Client, recorder: Recorder) -> PodControl {
        PodControl { client, recorder }
    }

    pub async fn create(
        &self,
        owner: &ObjectRef,
        namespace: &str,
        body: Bytes,
    ) -> Result<Created, Error> {
        match self
            .client
            .create_metadata_only(&Pod::TYPE, namespace, body)
            .await
        {
            Ok(answer) => {
                let created = Created::read(&answer);
                let message = format!("Created pod: {}", created.name);
                self.recorder
                    .event(owner, EventType::Normal, "SuccessfulCreate", message);
                Ok(created)
            }
            Err(error) => {
                // A namespace that is going away refuses everything: no news to anyone.
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating: {error}");
                    self.recorder
                        .event(owner, EventType::Warning, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }

    /// Creates so many pods by slow start, and expects to see those that were created. `body` gives the nth.
    pub async fn create_all(
        &self,
        owner: &ObjectRef,
        key: &Key,
        expected: (&Expectations, &Consistency),
        count: usize,
        body: impl Fn(usize) -> Bytes,
    ) -> Creations {
        let (expectations, consistency) = expected;
        let attempts = slow_start(count, |at| self.create(owner, &key.namespace, body(at))).await;
        let mut done = Creations::default();
        let mut unseen = attempts.skipped;
        for attempt in attempts.tried {
            match attempt {
                Ok(created) => {
                    done.created += 1;
                    consistency.note::<Pod>(key, created.resource_version);
                }
                Err(error) => {
                    unseen += 1;
                    match error.is_namespace_terminating() {
                        true => done.namespace_ends = Some(error),
                        false => done.failures.push(error),
                    }
                }
            }
        }
        expectations.creations_observed(key, unseen);
        done
    }

    /// Deletes these pods, and expects to see no more of those that could not be deleted.
    pub async fn delete_all<'a>(
        &self,
        owner: &ObjectRef,
        key: &Key,
        expectations: &Expectations,
        pods: impl Iterator<Item = &'a Pod> + Clone,
    ) -> Deletions {
        let results = join_all(pods.clone().map(|pod| self.delete(owner, pod))).await;
        let mut done = Deletions::default();
        for (pod, result) in pods.zip(results) {
            let Err(error) = result else {
                done.deleted += 1;
                continue;
            };
            expectations.deletion_observed(key, &pod.key());
            if !error.is_not_found() {
                done.failures.push(error);
            }
        }
        done
    }

    /// Deletes this very pod, not another one of the same name.
    pub async fn delete(&self, owner: &ObjectRef, pod: &Pod) -> Result<(), Error> {
        let meta = &pod.metadata;
        let options = DeleteOptions::exactly(&meta.uid);
        match self
            .client
            .delete(&Pod::TYPE, &meta.namespace, &meta.name, &options)
            .await
        {
            Ok(_) => {
                let message = format!("Deleted pod: {}", meta.name);
                self.recorder
                    .event(owner, EventType::Normal, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) => {
                if !error.is_not_found() {
                    let message = format!("Error deleting: {error}");
                    self.recorder
                        .event(owner, EventType::Warning, "FailedDelete", message);
                }
                Err(error)
            }
        }
    }
}

/// What creating pods came to.
#[derive(Default)]
pub struct Creations {
    pub created: usize,
    /// All were reported as events.
    pub failures: Vec<Error>,
    /// Refused because the namespace is going away, which is no news to anyone.
    pub namespace_ends: Option<Error>,
}

/// What deleting pods came to. One that was gone already is neither.
#[derive(Default)]
pub struct Deletions {
    pub deleted: usize,
    /// All were reported as events.
    pub failures: Vec<Error>,
}

impl Created {
    fn read(answer: &[u8]) -> Created {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Answer {
            metadata: api::Meta,
        }
        let answer: Answer = serde_json::from_slice(answer).unwrap_or_default();
        Created {
            name: answer.metadata.name.to_string(),
            resource_version: answer.metadata.resource_version,
        }
    }
}

/// How a new pod is called.
pub enum PodName<'a> {
    /// The API server appends five random characters.
    Generate(&'a str),
    Exactly(&'a str),
}

/// The pod that `template` asks for, owned by `owner`. The template's spec goes in untouched.
pub fn pod_body(template: &Template, name: PodName<'_>, owner: &OwnerRef) -> Node {
    let mut source = template.node();
    let mut metadata = Node::object();
    match name {
        PodName::Generate(base) => metadata.set(&["generateName"], Node::text(base)),
        PodName::Exactly(name) => metadata.set(&["name"], Node::text(name)),
    }
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = source
            .remove(&["metadata", field])
            .filter(|value| !value.is_null())
        {
            metadata.set(&[field], value);
        }
    }
    metadata.set(&["ownerReferences"], Node::Array(vec![Node::of(owner)]));
    let mut pod = Node::object();
    pod.set(&["apiVersion"], Node::text("v1"));
    pod.set(&["kind"], Node::text("Pod"));
    pod.set(&["metadata"], metadata);
    pod.set(
        &["spec"],
        source.remove(&["spec"]).unwrap_or_else(Node::object),
    );
    pod
}

/// The base for generated pod names: `name-`, unless that could not be the start of a pod name.
pub fn pod_name_base(owner: &str) -> String {
    let base = format!("{owner}-");
    // UPSTREAM: the dash is dropped when the name with it is not a valid prefix.
    let valid = owner.len() < 253
        && !owner.is_empty()
        && owner.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
        });
    if valid { base } else { owner.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_passes_through() {
        let template = Template::parse(
            r#"{"metadata":{"creationTimestamp":null,"labels":{"app":"web"},"annotations":{"a":"b"}},"spec":{"z":1.0,"containers":[{"name":"c"}]}}"#,
        )
        .unwrap();
        let owner = OwnerRef {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: "u".into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        assert_eq!(
            pod_body(&template, PodName::Generate("web-"), &owner).to_string(),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"app":"web"},"annotations":{"a":"b"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u","controller":true,"blockOwnerDeletion":true}]},"spec":{"z":1.0,"containers":[{"name":"c"}]}}"#
        );
    }
}
