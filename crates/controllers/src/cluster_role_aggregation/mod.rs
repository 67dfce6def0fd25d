//! Cluster roles that are the sum of others.
//!
//! **Converges**: the rules of a role with an `aggregationRule` are those of the roles that its
//! selectors match, in order of selectors and names, each once.
//!
//! **Woken by**: any change of any cluster role.
//!
//! **Writes**: server-side apply of `rules`, forced, as `clusterrole-aggregation-controller`.
//!
//! **Mirrors** `pkg/controller/clusterroleaggregation`.

mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::kinds::{ClusterRole, PolicyRule};
use api::{Key, Resource};
use client::Patch;
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::rate_limit::Backoff;
use runtime::{Error, Informers, Next, Queue, Reconcile, Store, mutation};
use serde_json::json;

use crate::Tools;

pub use invariants::{converged, safe};

/// The name in `--controllers`.
pub const NAME: &str = "clusterrole-aggregation-controller";

const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";

pub struct Aggregation {
    tools: Tools,
    roles: Arc<Store<ClusterRole>>,
}

pub fn controller(informers: &Informers, tools: Tools, workers: usize) -> Controller {
    let informer = informers.of::<ClusterRole>();
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let (wakes, roles) = (queue.clone(), informer.store().clone());
    informer.on_change(move |_| {
        let aggregated = roles.list();
        for role in aggregated
            .iter()
            .filter(|role| role.aggregation_rule.is_some())
        {
            wakes.add(role.key());
        }
    });
    Controller {
        name: NAME,
        queue,
        workers,
        retries_max: None,
        waits_for: vec![informer.synced()],
        metrics: None,
        reconciler: Arc::new(Aggregation {
            tools,
            roles: informer.store().clone(),
        }),
    }
}

/// The rules that a role should have; `None` if it is not the sum of others. Pure.
pub fn aggregate(
    role: &ClusterRole,
    roles: &[Arc<ClusterRole>],
) -> Result<Option<Vec<PolicyRule>>, api::selector::SelectorError> {
    let Some(rule) = &role.aggregation_rule else {
        return Ok(None);
    };
    let mut by_name: Vec<&Arc<ClusterRole>> = roles.iter().collect();
    by_name.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in &rule.cluster_role_selectors {
        let selector = selector.compile()?;
        for other in &by_name {
            if other.metadata.name == role.metadata.name
                || !selector.matches(&other.metadata.labels)
            {
                continue;
            }
            for rule in &other.rules {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Ok(Some(rules))
}

impl Reconcile for Aggregation {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl Aggregation {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        let Some(role) = self.roles.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let rules = aggregate(&role, &self.roles.list())
            .map_err(|error| Error::Terminal(format!("a selector of {key} is invalid: {error}")))?;
        let has_all = |rules: &[PolicyRule]| rules.iter().all(|rule| role.rules.contains(rule));
        let enough = |rules: &[PolicyRule]| match mutation::on("roles-only-grow") {
            true => has_all(rules),
            false => *rules == *role.rules,
        };
        let Some(rules) = rules.filter(|rules| !enough(rules)) else {
            return Ok(Next::AwaitChange);
        };
        let line = format!(
            "has {} rules and gets {}: the roles that it selects have changed",
            role.rules.len(),
            rules.len()
        );
        let now = self.tools.clock.now();
        self.tools
            .decisions
            .record(NAME, key, now, [line].into_iter());
        let resource = ClusterRole::TYPE;
        let mut body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"name": key.name},
        });
        if !rules.is_empty() {
            body["rules"] = json!(rules);
        }
        let patch = Patch::Apply {
            body: body.to_string().into(),
            field_manager: FIELD_MANAGER.into(),
            force: true,
        };
        let client = &self.tools.client;
        client.patch(&resource, "", &key.name, None, &patch).await?;
        Ok(Next::AwaitChange)
    }
}
