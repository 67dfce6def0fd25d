//! The state that a preview starts from: objects of a cluster, or plain manifests, or nothing.

use std::collections::BTreeSet;

use api::ResourceType;
use client::{Client, ListOptions, Patch};
use controllers::discovery::Discovery;
use explain::{Cause, Facts, Source};
use nodes::stages::Stages;
use serde_json::{Value, json};

use crate::facts::text;
use crate::kinds::Kind;
use crate::manifest::Manifest;
use crate::retain::last_applied;
use crate::run::{Applied, FIELD_MANAGER};
use crate::world::World;
use crate::{PreviewError, Setup};

/// Puts in what has a life already: objects that a server has given a uid. Gives what could not be put in.
pub(crate) fn restore(world: &World, setup: &Setup) -> Vec<String> {
    let mut objects: Vec<Value> = setup
        .state
        .iter()
        .filter(|manifest| has_life(&manifest.object))
        .map(|manifest| manifest.object.clone())
        .collect();
    let facts = Facts::new(setup.begin, Source::Simulation, Value::Null);
    for object in &mut objects {
        take_over_fields(object);
        match explain::kind_of(object) {
            "Pod" => keep_problem(&facts, object),
            "Node" => keep_unreachable(object),
            _ => {}
        }
    }
    world.restore(objects)
}

/// Objects of the present state that were written by hand.
pub(crate) fn manifests_without_life(setup: &Setup) -> Vec<Manifest> {
    let mut plain = setup.state.clone();
    plain.retain(|manifest| !has_life(&manifest.object));
    plain
}

fn has_life(object: &Value) -> bool {
    object
        .pointer("/metadata/uid")
        .is_some_and(Value::is_string)
}

/// What `kubectl apply` has written is ours now, so that what a manifest no longer has is removed, as it would
/// be with kubectl.
fn take_over_fields(object: &mut Value) {
    let Some(entries) = object["metadata"]["managedFields"].as_array_mut() else {
        return;
    };
    let written_by = |entry: &Value, manager: &str, operation: &str| {
        entry["manager"] == manager
            && entry["operation"] == operation
            && entry["subresource"].is_null()
    };
    let applied = entries
        .iter()
        .position(|entry| written_by(entry, "kubectl", "Apply"));
    let client_side = || {
        let mut entries = entries.iter();
        entries.position(|entry| written_by(entry, "kubectl-client-side-apply", "Update"))
    };
    if let Some(entry) = applied
        .or_else(client_side)
        .and_then(|at| entries.get_mut(at))
    {
        entry["manager"] = Value::from(FIELD_MANAGER);
        entry["operation"] = Value::from("Apply");
    }
}

/// What `kubectl apply` was given last is ours now, where nothing but its annotation tells of it: `kubectl get` leaves
/// managed fields out. They are what a server would note of that apply. If it would refuse it today, nothing is ours.
pub(crate) async fn take_over_last_applied(
    client: &Client,
    resource: &ResourceType,
    live: &Value,
) -> Option<()> {
    let last = last_applied(live)?;
    let (namespace, name) = (
        text(live, "/metadata/namespace"),
        text(live, "/metadata/name"),
    );
    let apply = Patch::Apply {
        body: last.to_string().into(),
        field_manager: FIELD_MANAGER.into(),
        force: true,
    };
    let tried = client
        .patch_dry_run(resource, namespace, name, &apply)
        .await
        .ok()?;
    let mut tried: Value = serde_json::from_slice(&tried).ok()?;
    let entries = tried["metadata"]["managedFields"].as_array_mut()?;
    let at = entries.iter().position(is_ours)?;
    let mut managed = match &live["metadata"]["managedFields"] {
        Value::Array(held) => held.clone(),
        _ => Vec::new(),
    };
    managed.push(entries.swap_remove(at));
    let patch = json!({"metadata": {"managedFields": managed}});
    let patch = Patch::Merge(patch.to_string().into());
    let patched = client.patch(resource, namespace, name, None, &patch).await;
    patched.ok().map(drop)
}

/// Is anything ours already?
pub(crate) fn is_taken_over(live: &Value) -> bool {
    let entries = live["metadata"]["managedFields"].as_array();
    entries.is_some_and(|entries| entries.iter().any(is_ours))
}

fn is_ours(entry: &Value) -> bool {
    entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply"
}

/// A pod with a problem keeps it: the simulated kubelet would start it without any.
fn keep_problem(facts: &Facts, pod: &mut Value) {
    let Some(problem) = explain::problem(facts, pod, 0) else {
        return;
    };
    let (key, value) = match problem.cause {
        Cause::Image { .. } => ("steersman.dev/image-pull-failure", "true"),
        Cause::Crash { .. } => ("steersman.dev/crash-after", "1s"),
        Cause::Probe { .. } | Cause::Gate => ("steersman.dev/never-ready", "true"),
        _ => return,
    };
    annotate(pod, key, value);
}

/// A node that is not ready stays so.
fn keep_unreachable(node: &mut Value) {
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    if conditions.is_some_and(|list| !list.iter().any(ready)) {
        annotate(node, nodes::behaviour::NODE_SILENT, "true");
    }
}

fn annotate(object: &mut Value, key: &str, value: &str) {
    if object["metadata"]["annotations"].is_null() {
        object["metadata"]["annotations"] = Value::Object(serde_json::Map::new());
    }
    object["metadata"]["annotations"][key] = Value::from(value);
}

/// The nodes: those asked for, or those of the state, or as many as are usual.
pub(crate) fn nodes(setup: &Setup) -> Result<nodes::Config, PreviewError> {
    let restored = || {
        let nodes = setup.state.iter().map(|manifest| &manifest.object);
        nodes.filter(|object| object["kind"] == "Node").count()
    };
    let mut config = setup.node_config.clone().unwrap_or_default();
    let is_given = setup.node_config.is_some() && !config.nodes.is_empty();
    if !is_given {
        config.nodes = match setup.nodes {
            Some(count) => nodes::Config::with_nodes(count).nodes,
            None if restored() > 0 => Vec::new(),
            None => nodes::Config::default().nodes,
        };
    }
    if restored() == 0 {
        // Where pods run there must be nodes, even if nobody could tell us about them.
        name_hosts(&mut config, hosts(setup), is_given);
    }
    // What a file says is more than what is assumed of all pods.
    config.stages = stages(setup)?.followed_by(setup.stages.clone());
    // They are not copied from the cluster.
    config.waits_for_sources = false;
    config.allocates_devices = false;
    Ok(config)
}

/// Sees to it that there are nodes of these names; those that a file has named keep theirs.
fn name_hosts(config: &mut nodes::Config, mut names: BTreeSet<String>, keeps_names: bool) {
    let mut nameless = 0;
    if keeps_names {
        nameless = config.nodes.len();
        for node in &config.nodes {
            names.remove(&node.name);
        }
    }
    let wanted = nameless + names.len();
    if wanted > config.nodes.len() {
        let mut more = nodes::Config::with_nodes(wanted).nodes;
        config.nodes.extend(more.drain(config.nodes.len()..));
    }
    for (node, name) in config.nodes.iter_mut().skip(nameless).zip(names) {
        node.name = name;
    }
}

fn hosts(setup: &Setup) -> BTreeSet<String> {
    let pods = setup.state.iter().filter(|one| has_life(&one.object));
    pods.map(|manifest| manifest.text("/spec/nodeName").to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// The assumptions about pods, as the simulated kubelets understand them.
fn stages(setup: &Setup) -> Result<Stages, PreviewError> {
    let seconds = setup.ready_after.as_secs_f64();
    let mut text =
        format!("stages:\n- name: ready-after\n  delay: {{duration: {seconds}s}}\n  next: Ready\n");
    for (index, image) in setup.fail_images.iter().enumerate() {
        let patterns = [image.clone(), format!("*/{image}")];
        let patterns: Vec<String> = patterns
            .iter()
            .map(|one| Value::from(one.as_str()).to_string())
            .collect();
        text.push_str(&format!(
            "- name: fail-image-{index}\n  selector: {{images: [{}]}}\n  next: ImagePullFailure\n",
            patterns.join(", ")
        ));
    }
    Stages::parse(&text, "assumptions").map_err(|error| PreviewError::Assumption(error.to_string()))
}

/// All workloads that nobody owns, to see whether they are final.
pub(crate) async fn workloads(client: &Client, discovery: &Discovery) -> Vec<Applied> {
    let mut found = Vec::new();
    for kind in Kind::all().filter(|kind| !kind.is_endless()) {
        for object in list(client, discovery, &kind.resource).await {
            if object.pointer("/metadata/ownerReferences/0").is_none() {
                found.push(Applied::of(&object));
            }
        }
    }
    found
}

/// All objects of a kind, with their kind.
pub(crate) async fn list(
    client: &Client,
    discovery: &Discovery,
    kind: &ResourceType,
) -> Vec<Value> {
    let served = discovery.preferred_version(&kind.group, &kind.plural);
    let Some(resource) = served.map(|served| &served.resource) else {
        return Vec::new();
    };
    let Ok(page) = client.list(resource, "", &ListOptions::default()).await else {
        return Vec::new();
    };
    let typed = |item: &bytes::Bytes| {
        let mut object: Value = serde_json::from_slice(item).unwrap_or_default();
        object["kind"] = Value::from(&*resource.kind);
        object["apiVersion"] = Value::from(&*resource.api_version());
        object
    };
    page.items.iter().map(typed).collect()
}
