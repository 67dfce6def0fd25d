//! Nodes that are down get the taint that drives their pods away, one after the other.

use std::sync::Arc;

use api::ObjectId;
use api::kinds::Node;
use client::Error;
use runtime::{Next, Report};

use super::waiting::Allowed;
use super::{Lifecycle, taints};

impl Lifecycle {
    /// Taints the nodes of a zone that wait, as fast as its eviction rate limit allows.
    pub(super) async fn taint_next(&self, zone: &str, report: &Report<'_>) -> Next {
        loop {
            let now = self.steady.now();
            let allowed = match self.memory().zones.get_mut(zone) {
                Some(zone) => zone.waiting.next(now),
                None => Allowed::Nobody,
            };
            match allowed {
                Allowed::Nobody => return Next::AwaitChange,
                Allowed::After(wait) => return Next::After(wait),
                Allowed::Node(node) => self.taint(zone, node, report).await,
            }
        }
    }

    async fn taint(&self, zone: &str, node: Arc<Node>, report: &Report<'_>) {
        let Some(node) = self.newest(node) else {
            return;
        };
        let done = self.evict(zone, node.clone(), report).await;
        if let Err(error) = done {
            let name = &*node.metadata.name;
            tracing::warn!(node = name, %error, "cannot taint a node that is down, it waits again");
            if let Some(zone) = self.memory().zones.get_mut(zone) {
                zone.waiting.put_back(node);
            }
        }
    }

    /// Gives the node the taint for what its Ready condition says; none if it is ready after all.
    async fn evict(&self, zone: &str, node: Arc<Node>, report: &Report<'_>) -> Result<(), Error> {
        let Some(change) = node
            .ready()
            .and_then(|ready| taints::eviction(&ready.status))
        else {
            return Ok(());
        };
        let line = change.line("the eviction rate limit of its zone allows it now");
        report.decide(ObjectId::of(&*node), [line]);
        match self.retaint(node, &change).await {
            Ok(_) => self.metrics.on_eviction(zone),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The node as the cache has it, or as it came where the cache is behind; none if it is gone.
    fn newest(&self, node: Arc<Node>) -> Option<Arc<Node>> {
        let cached = self.nodes.find("", &node.metadata.name)?;
        let is_older = cached.metadata.resource_version < node.metadata.resource_version;
        Some(if is_older { node } else { cached })
    }
}
