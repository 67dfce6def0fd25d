//! Signatures on what nodes read before they trust anybody. A small controller, off unless it is asked for.
//!
//! **Converges**: the ConfigMap `cluster-info` in `kube-public` has, for each bootstrap token that may sign, one entry
//! `jws-kubeconfig-<id>` with a signature of its `kubeconfig` (a JWS whose content is left out, HS256), and no other.
//!
//! **Triggers**: changes of that ConfigMap and of bootstrap tokens; time, when a token expires.
//!
//! **Writes**: updates that ConfigMap.
//!
//! **Mirrors** `pkg/controller/bootstrap/bootstrapsigner.go` and `k8s.io/cluster-bootstrap/token/jws`.
//!
//! **Deliberate differences**: the signature of a token that expires goes at that moment, and not when something else
//! happens; an update that fails is tried again.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::decision::Line;
use api::kinds::{CLUSTER_INFO_CONFIG_MAP, CLUSTER_INFO_NAMESPACE, ConfigMap, Secret};
use api::{Istr, Key, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::{Value, json};

use crate::Descriptor;
use crate::bootstrap_token::{NAMESPACE, is_token};
use crate::oracle::View;

pub use invariants::{SignerOracle, converged, safe};
use plan::plan;

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<ConfigMap>(), View::of::<Secret>()],
    decides_about: &[ConfigMap::TYPE],
    queues: &["bootstrap_signer_queue"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<SignerOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "bootstrap-signer-controller",
        "bootstrapsigner",
        "bootstrap-signer",
    )
    .off()
};

pub fn controller(context: &Context) -> Controller {
    let enqueue = || Key::new(CLUSTER_INFO_NAMESPACE, CLUSTER_INFO_CONFIG_MAP);
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("bootstrap_signer_queue")
        .watches::<ConfigMap>(move |change, queue| {
            if change.object().key() == enqueue() {
                queue.add(enqueue());
            }
        })
        .watches::<Secret>(move |change, queue| {
            if is_token(change.object()) {
                queue.add(enqueue());
            }
        })
        .reconciler(BootstrapSigner {
            context: context.clone(),
            config_maps: context.informers.store::<ConfigMap>(),
            secrets: context.informers.store::<Secret>(),
        })
}

pub struct BootstrapSigner {
    context: Context,
    config_maps: Arc<Store<ConfigMap>>,
    secrets: Arc<Store<Secret>>,
}

impl Reconcile for BootstrapSigner {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(held) = self.config_maps.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let mut tokens = self.secrets.in_namespace(NAMESPACE);
        tokens.retain(|secret| is_token(secret));
        tokens.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        let now = self.context.clock.now();
        let plan = plan(&held, &tokens, now);
        report.decide(ObjectId::of(&*held), plan.reasons.iter().map(Line::from));
        if let Some(data) = &plan.data {
            self.update(&held, data).await?;
        }
        Ok(match plan.next {
            Some(at) => Next::After(at.since(now)),
            None => Next::AwaitChange,
        })
    }
}

impl BootstrapSigner {
    /// The role allows no patch, so the whole map goes back with our entries set right.
    async fn update(&self, held: &ConfigMap, data: &BTreeMap<String, Istr>) -> Result<(), Error> {
        let mut body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": held.metadata, "data": data,
        });
        if !held.binary_data.is_empty() {
            body["binaryData"] = json!(held.binary_data);
        }
        if let Some(immutable) = held.immutable {
            body["immutable"] = Value::Bool(immutable);
        }
        let (client, meta) = (&self.context.client, &held.metadata);
        let body = body.to_string();
        let written = client
            .replace(&ConfigMap::TYPE, &meta.namespace, &meta.name, None, body)
            .await;
        match written {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}
