//! Tokens that were made for every service account once, and that nobody uses. A small controller.
//!
//! **Converges**: an auto-generated token secret that has not been used for
//! `--legacy-service-account-token-clean-up-period` and that no pod mounts is marked invalid, and
//! deleted when as much time has passed again.
//!
//! **Triggers**: time alone, once a day.
//!
//! **Writes**: the label `kubernetes.io/legacy-token-invalid-since` on secrets, then their deletion with
//! the revision as precondition.
//!
//! **Mirrors** `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`.
//!
//! **Deliberate differences**: which secrets pods mount is not worth a place in the cache of all pods.
//! When there is a candidate, which is rare, the pods of its namespace are listed once.

mod actions;
mod invariants;
mod mounted;
mod plan;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{ConfigMap, Pod, Secret, ServiceAccount};
use api::{Istr, ObjectId, Resource, Time};
use bytes::Bytes;
use client::{Client, DeleteOptions, ListOptions, Patch};
use runtime::controller::Tick;
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{LegacyTokenOracle, converged, safe};
pub use mounted::mounted_secrets;
pub use plan::{Candidate, Limits, Step, candidate, next_step};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<ServiceAccount>(), View::of::<Secret>()],
    decides_about: &[Secret::TYPE],
    queues: &["legacy_service_account_token_cleaner"],
    build: Some(|ctx| {
        let period = ctx.config.legacy_sa_token_cleaner.clean_up_period.to_std();
        Some(controller(ctx, ctx.environment.metadata.clone(), period).into())
    }),
    oracle: Some(|| Box::<LegacyTokenOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "legacy-serviceaccount-token-cleaner-controller",
        "legacy-service-account-token-cleaner",
        "legacy-service-account-token-cleaner",
    )
};

/// Upstream's number; the labels count days.
const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

const DAY: Duration = PERIOD;

/// Since when API servers note the use of tokens: nothing can be said about times before.
const TRACKING_NAMESPACE: &str = "kube-system";
const TRACKING_NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";

pub struct LegacyTokenCleaner {
    context: Context,
    /// May list pods, as the caches do.
    reading: Client,
    accounts: Arc<Store<ServiceAccount>>,
    secrets: Arc<Store<Secret>>,
    clean_up_period: Duration,
}

/// `reading` is the client of the caches: the controller's own identity may not list pods.
pub fn controller(
    context: &Context,
    reading: Client,
    clean_up_period: Duration,
) -> Controller<Tick> {
    Loop::every(context, PERIOD, Duration::ZERO)
        .queue("legacy_service_account_token_cleaner")
        .reads::<ServiceAccount>()
        .reads::<Secret>()
        .reconciler(LegacyTokenCleaner {
            context: context.clone(),
            reading,
            accounts: context.informers.store::<ServiceAccount>(),
            secrets: context.informers.store::<Secret>(),
            clean_up_period,
        })
}

impl Reconcile<Tick> for LegacyTokenCleaner {
    async fn reconcile(&self, _: &Tick, report: &Report<'_>) -> Result<Next, Error> {
        if let Err(reason) = self.clean(report).await {
            tracing::warn!(reason, "cannot look for unused tokens today");
        }
        Ok(Next::AwaitChange)
    }
}

impl LegacyTokenCleaner {
    async fn clean(&self, report: &Report<'_>) -> Result<(), String> {
        let now = self.context.clock.now();
        let tracked_since = self.tracked_since().await?;
        if now < tracked_since.micro().plus(self.clean_up_period) {
            return Ok(());
        }
        let limits = Limits::new(now, self.clean_up_period);
        let mut mounted: BTreeMap<Istr, BTreeSet<String>> = BTreeMap::new();
        for secret in self.secrets.list() {
            let Some(candidate) = candidate(&secret, &self.accounts, &limits) else {
                continue;
            };
            let namespace = &secret.metadata.namespace;
            if !mounted.contains_key(namespace) {
                let names = self.mounted(namespace).await?;
                mounted.insert(namespace.clone(), names);
            }
            if mounted[namespace].contains(&*secret.metadata.name) {
                continue;
            }
            let step = next_step(&candidate, &limits);
            self.apply(&secret, step, report).await;
        }
        Ok(())
    }

    /// The first day of which all uses are known.
    async fn tracked_since(&self) -> Result<Time, String> {
        let client = &self.context.client;
        let found = client
            .get(&ConfigMap::TYPE, TRACKING_NAMESPACE, TRACKING_NAME)
            .await
            .map_err(|error| error.to_string())?;
        let map: serde_json::Value =
            serde_json::from_slice(&found).map_err(|error| error.to_string())?;
        let since = map["data"]["since"]
            .as_str()
            .ok_or("configMap does not have since label")?;
        let day = plan::parse_day(since)
            .ok_or_else(|| format!("error parsing trackedSince time: {since:?} is no date"))?;
        Ok(day.micro().plus(DAY).time())
    }

    /// The names of all secrets that pods of a namespace use.
    async fn mounted(&self, namespace: &str) -> Result<BTreeSet<String>, String> {
        let options = ListOptions {
            limit: Some(500),
            ..ListOptions::default()
        };
        let mut names = BTreeSet::new();
        let take = |pod: Bytes| {
            let pod = serde_json::from_slice(&pod);
            let pod = pod.map_err(|error| Error::Retry(error.to_string()))?;
            mounted_secrets(&pod, &mut names);
            Ok::<(), Error>(())
        };
        self.reading
            .list_all(&Pod::TYPE, namespace, options, take)
            .await
            .map_err(|error| error.to_string())?;
        Ok(names)
    }

    async fn apply(&self, secret: &Secret, step: Step, report: &Report<'_>) {
        let (client, meta) = (&self.context.client, &secret.metadata);
        report.decide(ObjectId::of(secret), [Line::from(&step)]);
        let result = match &step {
            Step::Wait => Ok(()),
            Step::MarkInvalid { today } => {
                let patch = json!({
                    "kind": "Secret", "apiVersion": "v1",
                    "metadata": {
                        "name": meta.name, "namespace": meta.namespace, "uid": meta.uid,
                        "labels": {plan::INVALID_SINCE: today},
                    },
                });
                let patch = Patch::Merge(patch.to_string().into());
                client
                    .patch(&Secret::TYPE, &meta.namespace, &meta.name, None, &patch)
                    .await
                    .map(drop)
            }
            Step::Delete => {
                let options = DeleteOptions {
                    resource_version: Some(meta.resource_version),
                    ..DeleteOptions::default()
                };
                client
                    .delete(&Secret::TYPE, &meta.namespace, &meta.name, &options)
                    .await
                    .map(drop)
            }
        };
        match result {
            Err(error) if !error.is_conflict() && !error.is_not_found() => {
                let secret = meta.key();
                let step = Line::from(&step);
                tracing::warn!(%secret, %step, %error, "cannot clean up a token, will try again");
            }
            _ => {}
        }
    }
}
