//! `steersman node` and `steersman pod`: faults by hand.
//!
//! All of it goes through the API server, by annotations that the simulated kubelets obey: it works from any
//! terminal, on a cluster that is detached, and could be done with kubectl as well.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::decision::{agree, counted};
use api::{Resource, ResourceType};
use bytes::Bytes;
use clap::{Args, Subcommand};
use client::{Client, ListOptions, Patch};
use nodes::behaviour::{NODE_GONE, NODE_SILENT, POD_CRASH_AT};
use nodes::node::Node;
use nodes::pod::{ContainerState, Pod};
use serde_json::{Value, json};

use crate::connect;

#[derive(Args)]
pub(crate) struct NodeArguments {
    #[command(subcommand)]
    action: NodeAction,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Subcommand)]
enum NodeAction {
    /// Stop the kubelet of a node: it posts no status and renews no lease, and nothing happens to its pods
    Stop {
        /// The node, such as node-1
        #[arg(value_parser = parse_name)]
        name: String,
    },
    /// Bring a node back that was stopped or drained
    Start {
        /// The node, such as node-1
        #[arg(value_parser = parse_name)]
        name: String,
    },
    /// Move all pods off a node, as far as disruption budgets allow, and let none come back
    Drain {
        /// The node, such as node-1
        #[arg(value_parser = parse_name)]
        name: String,
        /// How many seconds to wait for the pods to leave
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        timeout: u64,
    },
}

#[derive(Args)]
pub(crate) struct PodArguments {
    #[command(subcommand)]
    action: PodAction,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Subcommand)]
enum PodAction {
    /// Kill the containers of a pod, once; its restart policy says what becomes of it
    Fail {
        /// The pod
        #[arg(value_parser = parse_name)]
        name: String,
        /// The namespace of the pod [default: the context's]
        #[arg(long, short)]
        namespace: Option<String>,
    },
}

#[derive(Args)]
struct Cluster {
    /// The cluster's kubeconfig [default: $KUBECONFIG, or else the cluster that is up; of several, the current context's]
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// The cluster that was started with this --name
    #[arg(
        long,
        value_name = "NAME",
        global = true,
        conflicts_with = "kubeconfig"
    )]
    cluster: Option<String>,
}

/// How often a drain looks again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A name that no object can have would only be refused once it is part of a request.
fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.contains('/') {
        return Err(
            "an object's name has no /; write the name alone, and the namespace of a pod behind -n"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

pub(crate) fn node(arguments: &NodeArguments) -> Result<()> {
    on_cluster(&arguments.cluster, async |client, _| {
        match &arguments.action {
            NodeAction::Stop { name } => say(&stop(&client, name).await?),
            NodeAction::Start { name } => say(&start(&client, name).await?),
            NodeAction::Drain { name, timeout } => {
                say(&cordon(&client, name).await?)?;
                let patience = Duration::from_secs(*timeout);
                evict_all(&client, name, patience, |line| drop(say(line))).await
            }
        }
    })
}

pub(crate) fn pod(arguments: &PodArguments) -> Result<()> {
    let PodAction::Fail { name, namespace } = &arguments.action;
    on_cluster(&arguments.cluster, async |client, current| {
        let namespace = namespace.as_deref().unwrap_or(&current);
        say(&fail(&client, namespace, name).await?)
    })
}

fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(())
}

/// Acts on a cluster, and in the namespace of its context.
fn on_cluster(
    cluster: &Cluster,
    act: impl AsyncFnOnce(Client, String) -> Result<()>,
) -> Result<()> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(async {
        let (kubeconfig, name) = (cluster.kubeconfig.as_deref(), cluster.cluster.as_deref());
        let (client, namespace) = connect::find(kubeconfig, name)?;
        act(client, namespace).await
    })
}

pub(crate) async fn stop(client: &Client, name: &str) -> Result<String> {
    simulated_node(client, name).await?;
    let annotations = json!({"metadata": {"annotations": {NODE_SILENT: "true"}}});
    patch(client, &Node::TYPE, "", name, &annotations).await?;
    Ok(format!(
        "the kubelet of node/{name} posts no status any more; `steersman node start {name}` brings it back"
    ))
}

pub(crate) async fn start(client: &Client, name: &str) -> Result<String> {
    simulated_node(client, name).await?;
    let annotations = json!({NODE_SILENT: null, NODE_GONE: null});
    let change = json!({
        "metadata": {"annotations": annotations},
        "spec": {"unschedulable": null},
    });
    patch(client, &Node::TYPE, "", name, &change).await?;
    Ok(format!("node/{name} is back and takes pods"))
}

/// The first half of a drain.
pub(crate) async fn cordon(client: &Client, name: &str) -> Result<String> {
    simulated_node(client, name).await?;
    let cordon = json!({"spec": {"unschedulable": true}});
    patch(client, &Node::TYPE, "", name, &cordon).await?;
    Ok(format!("node/{name} takes no more pods"))
}

/// The second half of a drain: evicts what is on a node until nothing is left.
pub(crate) async fn evict_all(
    client: &Client,
    name: &str,
    patience: Duration,
    mut say: impl FnMut(&str),
) -> Result<()> {
    let deadline = tokio::time::Instant::now() + patience;
    let mut told: Vec<String> = Vec::new();
    loop {
        let left = to_evict(client, name).await?;
        if left.is_empty() {
            say(&format!(
                "node/{name} is drained; `steersman node start {name}` lets pods in again"
            ));
            return Ok(());
        }
        let mut refusal = None;
        for pod in left.iter().filter(|pod| !pod.metadata.is_terminating()) {
            let name = &pod.metadata.name;
            let (line, why) = match evict(client, pod).await? {
                None => (format!("pod/{name} is evicted"), None),
                Some(why) => (format!("pod/{name} waits: {why}"), Some(why)),
            };
            refusal = why.or(refusal);
            if !told.contains(&line) {
                say(&line);
                told.push(line);
            }
        }
        if tokio::time::Instant::now() >= deadline {
            let why = refusal.unwrap_or_else(|| "stopping takes long".to_owned());
            bail!("{}", still_there(left.len(), name, &why));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// `1 pod is still on node n: why`
fn still_there(count: usize, node: &str, why: &str) -> String {
    let verb = agree(count, "is", "are");
    format!(
        "{} {verb} still on node {node}: {why}",
        counted(count, "pod")
    )
}

/// Pods that a drain has to move: not those that a DaemonSet would put back at once, nor those that have ended.
async fn to_evict(client: &Client, node: &str) -> Result<Vec<Pod>> {
    let options = ListOptions {
        field_selector: Some(format!("spec.nodeName={node}")),
        ..ListOptions::default()
    };
    let page = client.list(&Pod::TYPE, "", &options).await?;
    let pods: Result<Vec<Pod>, _> = page.items.iter().map(|item| Pod::decode(item)).collect();
    let mut pods = pods?;
    pods.retain(|pod| {
        let owner = pod.metadata.controller().map(|owner| owner.kind.as_str());
        owner != Some("DaemonSet") && !pod.is_finished()
    });
    Ok(pods)
}

/// Evicts a pod; why not, where a disruption budget is in the way.
async fn evict(client: &Client, pod: &Pod) -> Result<Option<String>> {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    });
    let pods = Pod::TYPE;
    let asked = client.create_subresource(&pods, namespace, name, "eviction", eviction.to_string());
    // A client waits as long as the server says; here the next look is the next attempt.
    match tokio::time::timeout(Duration::from_secs(2), asked).await {
        Err(_) => Ok(Some("a disruption budget allows no eviction".to_owned())),
        Ok(Err(error)) if error.is_too_many_requests() => Ok(Some(which_budget(&error))),
        Ok(Err(error)) if error.is_not_found() => Ok(None),
        // Two budgets over one pod are a failure of the server, without a reason.
        Ok(Err(client::Error::Status(status))) if status.code == 500 => Ok(Some(status.message)),
        Ok(answer) => Ok(answer.map(|_| None)?),
    }
}

/// The budget that refused, and why it did: the message alone says neither.
fn which_budget(error: &client::Error) -> String {
    let causes = error.status().map(|status| &status.causes);
    match causes.and_then(|causes| causes.first()) {
        Some(cause) => cause.message.to_string(),
        None => client::describe(error),
    }
}

pub(crate) async fn fail(client: &Client, namespace: &str, name: &str) -> Result<String> {
    let pod: Pod = client.get_as(namespace, name).await.map_err(|error| {
        let pod = format!("pod {name} in namespace {namespace}");
        explain(error, &pod, "use -n to choose another namespace")
    })?;
    if !pod.is_assigned() {
        bail!("pod {name} has no node yet: nothing of it runs");
    }
    simulated_node(client, &pod.node_name).await?;
    let is_running = |state: &ContainerState| matches!(state, ContainerState::Running { .. });
    if !pod
        .status
        .containers
        .iter()
        .any(|one| is_running(&one.state))
    {
        bail!("no container of pod {name} runs: there is nothing to kill");
    }
    let change = json!({"metadata": {"annotations": {POD_CRASH_AT: "now"}}});
    patch(client, &Pod::TYPE, namespace, name, &change).await?;
    Ok(format!("pod/{name}: its containers are killed"))
}

/// The node, if it is one of ours: a real kubelet would not care for what we write.
async fn simulated_node(client: &Client, name: &str) -> Result<()> {
    let body = client.get(&Node::TYPE, "", name).await.map_err(|error| {
        let node = format!("node {name}");
        explain(error, &node, "`kubectl get nodes` lists those that are")
    })?;
    let node: Value = serde_json::from_slice(&body)?;
    let runtime = node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str();
    if !runtime.is_some_and(|runtime| runtime.starts_with("simulated://")) {
        bail!("node {name} is not simulated: this is not a cluster of `steersman up`");
    }
    Ok(())
}

async fn patch(
    client: &Client,
    kind: &ResourceType,
    namespace: &str,
    name: &str,
    change: &Value,
) -> Result<()> {
    let patch = Patch::Merge(Bytes::from(change.to_string()));
    let patched = client.patch(kind, namespace, name, None, &patch).await;
    patched.with_context(|| format!("cannot change {name}"))?;
    Ok(())
}

fn explain(error: client::Error, what: &str, hint: &str) -> anyhow::Error {
    if error.is_not_found() {
        anyhow::anyhow!("there is no {what}; {hint}")
    } else {
        anyhow::anyhow!("cannot read {what}: {}", client::describe(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!(still_there(1, "n", "why"), "1 pod is still on node n: why");
        assert_eq!(
            still_there(2, "n", "why"),
            "2 pods are still on node n: why"
        );
    }

    #[test]
    fn names_that_no_object_has_are_refused() {
        assert_eq!(parse_name("web-1").as_deref(), Ok("web-1"));
        assert!(parse_name("").is_err());
        let told = parse_name("kube-system/web").unwrap_err();
        assert!(told.contains("behind -n"), "{told}");
    }

    /// `why` knows a node that was stopped here by the same annotation.
    #[test]
    fn why_knows_a_stopped_node() {
        assert_eq!(::explain::NODE_STOPPED, NODE_SILENT);
    }
}
