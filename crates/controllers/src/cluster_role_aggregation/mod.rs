//! Cluster roles that are the sum of others. A small controller.
//!
//! **Converges**: the rules of a role with an `aggregationRule` are those of the roles that its
//! selectors match, in order of selectors and names, each once.
//!
//! **Triggers**: any change of any cluster role.
//!
//! **Writes**: server-side apply of `rules`, forced, as `clusterrole-aggregation-controller`.
//!
//! **Mirrors** `pkg/controller/clusterroleaggregation`.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::Line;
use api::kinds::{ClusterRole, PolicyRule};
use api::{Key, ObjectId, Resource};
use client::Patch;
use runtime::rate_limit::Backoff;
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{ClusterRoleOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<ClusterRole>()],
    decides_about: &[ClusterRole::TYPE],
    queues: &["ClusterRoleAggregator"],
    // UPSTREAM: five workers, without a flag.
    build: Some(|ctx| Some(controller(ctx, 5).into())),
    oracle: Some(|| Box::<ClusterRoleOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation",
        "clusterrole-aggregation-controller",
    )
};

const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";

pub fn controller(context: &Context, workers: usize) -> Controller {
    let roles = context.informers.store::<ClusterRole>();
    let all = roles.clone();
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("ClusterRoleAggregator")
        .watches::<ClusterRole>(move |_, queue| {
            let roles = all.list();
            for role in roles.iter().filter(|role| role.aggregation_rule.is_some()) {
                queue.add(role.key());
            }
        })
        .workers(workers)
        .reconciler(Aggregation {
            context: context.clone(),
            roles,
        })
}

pub struct Aggregation {
    context: Context,
    roles: Arc<Store<ClusterRole>>,
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
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(role) = self.roles.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let rules = aggregate(&role, &self.roles.list())
            .map_err(|error| Error::Terminal(format!("a selector of {key} is invalid: {error}")))?;
        let Some(rules) = rules.filter(|rules| *rules != role.rules) else {
            return Ok(Next::AwaitChange);
        };
        let what = format!("gets {} rules instead of {}", rules.len(), role.rules.len());
        let line = Line::acts("SetsRules", what).because("the roles that it selects have changed");
        report.decide(ObjectId::of(&*role), [line]);
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
        let client = &self.context.client;
        client.patch(&resource, "", &key.name, None, &patch).await?;
        Ok(Next::AwaitChange)
    }
}
