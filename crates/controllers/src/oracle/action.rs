//! What a user does, as data.

use std::fmt;

use api::{Resource, ResourceType};
use client::Propagation;
use serde_json::{Value, json};

/// One thing that a user does.
#[derive(Clone, Debug)]
pub enum UserAction {
    Create(Target, Value),
    /// A secret that belongs to this object, and to somebody who does not exist.
    CreateSecretOf(Target, Value),
    /// A strategic merge patch, and what it means in words.
    Change(Target, Value, String),
    /// The same of a subresource.
    ChangePart(Target, &'static str, Value, String),
    Delete(Target, Propagation),
    /// The same as [`UserAction::Change`] of each object that carries the label: those whose names nobody knows before.
    ChangeEach(Labelled, Value, String),
    DeleteEach(Labelled),
    DeletePod(Target, usize),
    /// Through the eviction subresource.
    EvictPod(Target, usize),
    /// Gives a pod other labels, so that its owner has to release it.
    StrayPod(Target, usize),
    /// Removes the owner references: a pod that its owner has to adopt again.
    DisownPod(Target, usize),
    /// Adds a second owner that does not exist and controls nothing.
    AddGhostOwner(Target, usize),
    CreatePod(Target, Value),
    CreateNamespace(&'static str),
    DeleteNamespace(&'static str),
    LabelNode(usize, &'static str),
    /// With this effect, or no longer.
    TaintNode(usize, Option<&'static str>),
    /// Keeps new pods away from a node and evicts those that are there, as `kubectl drain` does.
    DrainNode(usize),
    /// Deletes the Node, although its kubelet runs.
    DeleteNode(usize),
    /// Says in a Job's status that it is complete.
    FinishJob(Target),
}

/// A workload object, or anything else that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub resource: ResourceType,
    pub namespace: &'static str,
    pub name: String,
}

/// The objects of a kind that carry a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    pub resource: ResourceType,
    pub namespace: &'static str,
    /// As selectors are written, `key=value`.
    pub label: String,
}

impl Labelled {
    pub fn of<K: Resource>(namespace: &'static str, key: &str, value: &str) -> Labelled {
        Labelled {
            resource: K::TYPE,
            namespace,
            label: format!("{key}={value}"),
        }
    }
}

impl Target {
    pub fn of<K: Resource>(namespace: &'static str, name: &str) -> Target {
        Target {
            resource: K::TYPE,
            namespace,
            name: name.to_owned(),
        }
    }

    /// An object of this name, with what `fields` say.
    pub fn object(&self, mut fields: Value) -> Value {
        fields["apiVersion"] = json!(self.resource.api_version());
        fields["kind"] = json!(self.resource.kind);
        fields["metadata"]["name"] = json!(self.name);
        if !self.namespace.is_empty() {
            fields["metadata"]["namespace"] = json!(self.namespace);
        }
        fields
    }
}

impl UserAction {
    /// The key of what [`UserAction::TaintNode`] puts on a node.
    pub const TAINT: &str = "example.com/broken";

    /// Does it drive pods off their nodes?
    pub fn evicts(&self) -> bool {
        matches!(
            self,
            UserAction::TaintNode(_, Some("NoExecute"))
                | UserAction::DrainNode(_)
                | UserAction::DeleteNode(_)
        )
    }

    /// Creates an object with these fields beside its name. The namespace is empty for kinds that have none.
    pub fn create<K: Resource>(namespace: &'static str, name: &str, fields: Value) -> UserAction {
        let target = Target::of::<K>(namespace, name);
        let object = target.object(fields);
        UserAction::Create(target, object)
    }

    /// `what` is the patch in words, as in "forges".
    pub fn change<K: Resource>(
        namespace: &'static str,
        name: &str,
        patch: Value,
        what: &str,
    ) -> UserAction {
        UserAction::Change(Target::of::<K>(namespace, name), patch, what.to_owned())
    }

    /// The same through a subresource.
    pub fn change_part<K: Resource>(
        namespace: &'static str,
        name: &str,
        subresource: &'static str,
        patch: Value,
        what: &str,
    ) -> UserAction {
        let target = Target::of::<K>(namespace, name);
        UserAction::ChangePart(target, subresource, patch, what.to_owned())
    }

    pub fn delete<K: Resource>(namespace: &'static str, name: &str) -> UserAction {
        UserAction::Delete(Target::of::<K>(namespace, name), Propagation::Background)
    }

    /// The object that it is about, where it names one.
    pub fn target(&self) -> Option<&Target> {
        match self {
            UserAction::Create(target, _)
            | UserAction::CreateSecretOf(target, _)
            | UserAction::Change(target, ..)
            | UserAction::ChangePart(target, ..)
            | UserAction::Delete(target, _)
            | UserAction::FinishJob(target) => Some(target),
            _ => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.resource.kind, self.namespace, self.name)
    }
}

impl fmt::Display for Labelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "each {} in {} with {}",
            self.resource.kind, self.namespace, self.label
        )
    }
}

impl fmt::Display for UserAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserAction::Create(target, object) => {
                write!(f, "creates {target}: {}", object["spec"])
            }
            UserAction::CreateSecretOf(owner, _) => write!(
                f,
                "creates a secret that belongs to {owner} and to one that does not exist"
            ),
            UserAction::Change(target, _, what) | UserAction::ChangePart(target, _, _, what) => {
                write!(f, "{what}: {target}")
            }
            UserAction::Delete(target, policy) => write!(f, "deletes {target} ({policy:?})"),
            UserAction::ChangeEach(objects, _, what) => write!(f, "{what}: {objects}"),
            UserAction::DeleteEach(objects) => write!(f, "deletes {objects}"),
            UserAction::DeletePod(target, nth) => write!(f, "deletes pod {nth} of {target}"),
            UserAction::EvictPod(target, nth) => write!(f, "evicts pod {nth} of {target}"),
            UserAction::StrayPod(target, nth) => write!(f, "relabels pod {nth} of {target}"),
            UserAction::DisownPod(target, nth) => {
                write!(f, "removes the owner from pod {nth} of {target}")
            }
            UserAction::AddGhostOwner(target, nth) => write!(
                f,
                "adds an owner that does not exist to pod {nth} of {target}"
            ),
            UserAction::CreatePod(target, _) => write!(f, "creates a pod that matches {target}"),
            UserAction::CreateNamespace(name) => write!(f, "creates namespace {name}"),
            UserAction::DeleteNamespace(name) => write!(f, "deletes namespace {name}"),
            UserAction::LabelNode(node, pool) => write!(f, "labels node-{node} pool={pool}"),
            UserAction::TaintNode(node, Some(effect)) => {
                write!(f, "taints node-{node} with {effect}")
            }
            UserAction::TaintNode(node, None) => write!(f, "removes the taint from node-{node}"),
            UserAction::DrainNode(node) => write!(f, "drains node-{node}"),
            UserAction::DeleteNode(node) => write!(f, "deletes node-{node}"),
            UserAction::FinishJob(target) => write!(f, "finishes {target}"),
        }
    }
}
