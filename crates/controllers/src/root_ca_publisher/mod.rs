//! The cluster's root certificates in every namespace, so that pods can trust the API server. A small controller.
//!
//! **Converges**: every namespace has the ConfigMap `kube-root-ca.crt` with exactly the certificates of
//! `--root-ca-file`, and a description.
//!
//! **Triggers**: namespaces that come or change; that ConfigMap when it changes or goes.
//!
//! **Writes**: creates and updates that ConfigMap.
//!
//! **Mirrors** `pkg/controller/certificates/rootcacertpublisher`.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::decision::Line;
use api::kinds::{ConfigMap, Namespace, ROOT_CA_CONFIG_MAP};
use api::{Istr, Key, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Descriptor;
use crate::oracle::View;
use crate::sync_metrics::SyncMetrics;

pub use invariants::{RootCaOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Namespace>(), View::of::<ConfigMap>()],
    decides_about: &[Namespace::TYPE],
    queues: &["root_ca_cert_publisher"],
    metrics: &["root_ca_cert_publisher_"],
    build: Some(|ctx| {
        let root_ca = ctx.environment.root_ca.as_deref()?;
        Some(controller(ctx, root_ca, 1).into())
    }),
    oracle: Some(|| Box::<RootCaOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "root-ca-certificate-publisher-controller",
        "root-ca-cert-publisher",
        "root-ca-cert-publisher",
    )
};

const DESCRIPTION_KEY: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
const DATA_KEY: &str = "ca.crt";

/// `root_ca` is the text of `--root-ca-file`.
pub fn controller(context: &Context, root_ca: &str, workers: usize) -> Controller {
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("root_ca_cert_publisher")
        .watches::<Namespace>(|change, queue| match change {
            Change::Added(namespace) => queue.add(namespace.key()),
            Change::Updated { new, .. } if new.status.phase == "Active" => queue.add(new.key()),
            Change::Updated { .. } | Change::Deleted(_) => {}
        })
        .watches::<ConfigMap>(|change, queue| {
            let meta = &change.object().metadata;
            let changed = !matches!(change, Change::Added(_));
            if changed && *meta.name == *ROOT_CA_CONFIG_MAP {
                queue.add(Key::new("", &meta.namespace));
            }
        })
        .workers(workers)
        .reconciler(RootCaPublisher {
            measured: SyncMetrics::new(
                &context.metrics,
                [
                    "root_ca_cert_publisher_sync_total",
                    "Namespaces that were looked at, by the code of the answer",
                ],
                [
                    "root_ca_cert_publisher_sync_duration_seconds",
                    "Duration of syncs of a namespace, by the code of the answer",
                ],
            ),
            context: context.clone(),
            namespaces: context.informers.store::<Namespace>(),
            config_maps: context.informers.store::<ConfigMap>(),
            data: BTreeMap::from([(DATA_KEY.to_owned(), Istr::new(root_ca))]),
        })
}

pub struct RootCaPublisher {
    context: Context,
    namespaces: Arc<Store<Namespace>>,
    config_maps: Arc<Store<ConfigMap>>,
    data: BTreeMap<String, Istr>,
    measured: SyncMetrics,
}

fn is_good(map: &ConfigMap, data: &BTreeMap<String, Istr>) -> bool {
    let described = map.metadata.annotation(DESCRIPTION_KEY);
    map.data == *data && described.is_some_and(|text| !text.is_empty())
}

impl Reconcile for RootCaPublisher {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let start = Instant::now();
        let result = self.sync(key, report).await;
        self.measured.on_sync(start, result.as_ref().err());
        result?;
        Ok(Next::AwaitChange)
    }
}

impl RootCaPublisher {
    async fn sync(&self, key: &Key, report: &Report<'_>) -> Result<(), client::Error> {
        let namespace = &key.name;
        // A namespace that is not in the cache has no uid to decide about it by.
        let decide = |line: Line| {
            if let Some(held) = self.namespaces.get(key) {
                report.decide(ObjectId::of(&*held), [line]);
            }
        };
        let Some(held) = self.config_maps.find(namespace, ROOT_CA_CONFIG_MAP) else {
            let what = format!("creates ConfigMap {ROOT_CA_CONFIG_MAP}");
            let line = Line::acts("CreatesRootCa", what).because("the namespace has none");
            decide(line);
            return self.create(namespace).await;
        };
        if is_good(&held, &self.data) {
            return Ok(());
        }
        let what = format!("restores ConfigMap {ROOT_CA_CONFIG_MAP}");
        let line = Line::acts("RestoresRootCa", what);
        decide(line.because("it was changed, or the root changed"));
        self.update(&held).await
    }

    async fn create(&self, namespace: &str) -> Result<(), client::Error> {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": ROOT_CA_CONFIG_MAP,
                "annotations": {DESCRIPTION_KEY: DESCRIPTION},
            },
            "data": self.data,
        });
        let client = &self.context.client;
        let created = client
            .create(&ConfigMap::TYPE, namespace, body.to_string())
            .await;
        match created {
            // The namespace is gone or going: nobody will miss it.
            Err(error) if error.is_not_found() || error.is_namespace_terminating() => Ok(()),
            other => other.map(drop),
        }
    }

    /// The role allows no patch and no get, so the whole map goes back with our part set right.
    async fn update(&self, held: &ConfigMap) -> Result<(), client::Error> {
        let mut metadata = held.metadata.clone();
        metadata.annotations = metadata.annotations.with(DESCRIPTION_KEY, DESCRIPTION);
        let mut body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self.data,
        });
        if !held.binary_data.is_empty() {
            body["binaryData"] = json!(held.binary_data);
        }
        if let Some(immutable) = held.immutable {
            body["immutable"] = Value::Bool(immutable);
        }
        let (client, namespace) = (&self.context.client, &held.metadata.namespace);
        let body = body.to_string();
        client
            .replace(&ConfigMap::TYPE, namespace, ROOT_CA_CONFIG_MAP, None, body)
            .await
            .map(drop)
    }
}
