//! The ReplicaSet that runs the Deployment's template: how to find it, and how to make it.

use api::json::Node;
use api::kinds::{Deployment, ReplicaSet, ReplicaSetSpec};
use api::meta::intern_owners;
use api::names::cut;
use api::template::POD_TEMPLATE_HASH;
use api::{LabelSelector, LabelSet, Meta, Resource, Template};

use super::annotations;
use super::limits::most_replicas;
use crate::workload::claim::controller_reference;

/// A name of a DNS subdomain is at most this long.
const NAME_MAX: usize = 253;

/// Which of the sets (oldest first) has the template of the Deployment? The oldest one that has.
pub(super) fn find(deployment: &Deployment, sets: &[ReplicaSet]) -> Option<usize> {
    sets.iter()
        .position(|set| set.spec.template.same_meaning(&deployment.spec.template))
}

/// A new set for the Deployment's template, as it is to be created.
pub(super) fn build(
    deployment: &Deployment,
    collision_count: Option<i32>,
    revision: i64,
    replicas: i32,
) -> ReplicaSet {
    let meta = &deployment.metadata;
    let template = &deployment.spec.template;
    let hash = template.short_hash(collision_count);
    let mut selector: LabelSelector = deployment.spec.selector.clone();
    selector.match_labels = selector.match_labels.with(POD_TEMPLATE_HASH, &hash);
    let annotations = annotations::of_new_set(deployment, &LabelSet::default(), revision);
    let annotations = annotations::with_sizes(
        &annotations,
        deployment.replicas(),
        most_replicas(deployment),
    );
    ReplicaSet {
        metadata: Meta {
            name: name(&meta.name, &hash).into(),
            namespace: meta.namespace.clone(),
            labels: template.labels().with(POD_TEMPLATE_HASH, &hash),
            annotations,
            owners: intern_owners(vec![controller_reference(deployment)]),
            ..Meta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            selector,
            template: labelled(template, &hash),
        },
        ..ReplicaSet::default()
    }
}

/// What is posted for a set that [`build`] made.
pub(super) fn body(set: &ReplicaSet) -> Node {
    let (meta, spec) = (&set.metadata, &set.spec);
    let mut body = Node::object();
    body.set(&["apiVersion"], Node::text(&ReplicaSet::TYPE.api_version()));
    body.set(&["kind"], Node::text(&ReplicaSet::TYPE.kind));
    body.set(&["metadata", "name"], Node::text(&meta.name));
    body.set(&["metadata", "namespace"], Node::text(&meta.namespace));
    body.set(&["metadata", "labels"], Node::of(&meta.labels));
    body.set(&["metadata", "annotations"], Node::of(&meta.annotations));
    body.set(&["metadata", "ownerReferences"], Node::of(&meta.owners));
    body.set(&["spec", "replicas"], Node::number(set.replicas().into()));
    if spec.min_ready_seconds != 0 {
        let seconds = Node::number(spec.min_ready_seconds.into());
        body.set(&["spec", "minReadySeconds"], seconds);
    }
    body.set(&["spec", "selector"], Node::of(&spec.selector));
    body.set(&["spec", "template"], spec.template.node());
    body
}

/// `<deployment>-<hash>`, the first part shortened where the whole would be too long.
pub(super) fn name(deployment: &str, hash: &str) -> String {
    match NAME_MAX.saturating_sub(1 + hash.len()) {
        // UPSTREAM: a hash that leaves no room shortens nothing; the API server refuses the name.
        0 => format!("{deployment}-{hash}"),
        room => format!("{}-{hash}", cut(deployment, room)),
    }
}

/// The template with the label that tells its pods from those of other templates.
fn labelled(template: &Template, hash: &str) -> Template {
    let mut node = template.node();
    node.set(&["metadata", "labels", POD_TEMPLATE_HASH], Node::text(hash));
    Template::parse(&node.to_string()).expect("a template with one more label is a template")
}

/// The template of a set without that label: what a rollback gives back to the Deployment.
pub(super) fn unlabelled(template: &Template) -> Node {
    let mut node = template.node();
    node.remove(&["metadata", "labels", POD_TEMPLATE_HASH]);
    node
}
