//! The certificates by which pods trust the API server, as a ClusterTrustBundle. A small controller, behind the gate
//! `ClusterTrustBundle`.
//!
//! **Converges**: there is one ClusterTrustBundle of the signer `kubernetes.io/kube-apiserver-serving`. It holds the root
//! certificates, and their hash is in its name, so that a new root is a new object.
//!
//! **Triggers**: changes of bundles of that signer; time, a minute after a write.
//!
//! **Writes**: creates, updates and deletes bundles of that signer.
//!
//! **Mirrors** `pkg/controller/certificates/clustertrustbundlepublisher`. Which version the server has (`v1beta1` rather
//! than `v1alpha1`) is asked when the controller begins to run.
//!
//! **Deliberate differences**: a server that has neither is asked again, where upstream does not start the controller;
//! deletions carry the uid.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::decision::Line;
use api::kinds::{AlphaClusterTrustBundle, ClusterTrustBundle, TrustBundle};
use api::{ObjectId, Resource};
use client::{Client, DeleteOptions};
use runtime::controller::Tick;
use runtime::rate_limit::Backoff;
use runtime::{
    Context, Controller, Error, Loop, Metrics, Next, Reconcile, Report, Runnable, Store,
};
use serde_json::json;
use tokio::time::Instant;

use crate::Descriptor;
use crate::discovery::{Discovery, discover};
use crate::sync_metrics::SyncMetrics;

pub use invariants::{TrustBundleOracle, converged, safe};
pub use plan::{Plan, Step, bundle_name, plan};

pub const DESCRIPTOR: Descriptor = Descriptor {
    // Which version is cached is known when it runs.
    caches: &[],
    decides_about: &[ClusterTrustBundle::TYPE],
    queues: &["ca_cert_publisher_cluster_trust_bundles"],
    metrics: &["clustertrustbundle_publisher_"],
    build: Some(|ctx| {
        let root_ca = ctx.environment.root_ca.as_deref()?;
        Some(controller(ctx, SIGNER, root_ca))
    }),
    oracle: Some(|| Box::<TrustBundleOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "",
        "kube-apiserver-serving-clustertrustbundle-publisher",
    )
    .gated(&["ClusterTrustBundle"])
};

pub const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

/// When a server is asked again that has no such bundles, or did not say.
const DISCOVERY_RETRY: Duration = Duration::from_secs(30);

/// A bundle that a server restored from a backup lacks, and that no cache had seen, is no change to be enqueued by.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// `root_ca` is the text of `--root-ca-file`.
pub fn controller(context: &Context, signer: &'static str, root_ca: &str) -> Runnable {
    let queue = "ca_cert_publisher_cluster_trust_bundles";
    let built = Loop::on::<Tick>(context, Backoff::DEFAULT).queue(queue);
    let publishing = Publishing {
        context: context.clone(),
        signer,
        root_ca: root_ca.into(),
        measured: measured(&context.metrics),
    };
    let version = Arc::new(OnceLock::new());
    let asking = Loop::once(context).reconciler(Asking {
        client: context.client.clone(),
        version: version.clone(),
    });
    let publisher = Runnable::new(context.controller, move |stop| match version.get() {
        Some(Version::Alpha) => publishing.on::<AlphaClusterTrustBundle>(built).run(stop),
        _ => publishing.on::<ClusterTrustBundle>(built).run(stop),
    });
    publisher.prepared_by(asking)
}

fn measured(metrics: &Metrics) -> SyncMetrics {
    SyncMetrics::new(
        metrics,
        [
            "clustertrustbundle_publisher_sync_total",
            "Syncs of cluster trust bundles, by the code of the answer",
        ],
        [
            "clustertrustbundle_publisher_sync_duration_seconds",
            "Duration of syncs of cluster trust bundles, by the code of the answer",
        ],
    )
}

enum Version {
    Beta,
    Alpha,
}

/// Asks for the newest version that the server has.
struct Asking {
    client: Client,
    version: Arc<OnceLock<Version>>,
}

impl Reconcile<Tick> for Asking {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        let has = |found: &Discovery, version: &str| {
            let api_version = format!("certificates.k8s.io/{version}");
            found.find(&api_version, "ClusterTrustBundle").is_some()
        };
        let version = match discover(&self.client).await {
            Ok(found) if has(&found, "v1beta1") => Version::Beta,
            Ok(found) if has(&found, "v1alpha1") => Version::Alpha,
            Ok(_) => {
                tracing::info!(
                    "no known scheme version was found for clustertrustbundles, will look again"
                );
                return Ok(Next::After(DISCOVERY_RETRY));
            }
            Err(error) => {
                tracing::warn!(%error, "discovery failed for ClusterTrustBundle");
                return Ok(Next::After(DISCOVERY_RETRY));
            }
        };
        self.version.get_or_init(|| version);
        Ok(Next::AwaitChange)
    }
}

/// What the controller has before it knows the version.
struct Publishing {
    context: Context,
    signer: &'static str,
    root_ca: Arc<str>,
    measured: SyncMetrics,
}

impl Publishing {
    fn on<B: TrustBundle>(self, built: Loop<(), Tick>) -> Controller<Tick> {
        let signer = self.signer;
        let bundles = self.context.informers.store::<B>();
        // Also where there is none that could enqueue it.
        built.handle().add(Tick);
        built
            .watches::<B>(move |change, queue| {
                if *change.object().spec().signer_name == *signer {
                    queue.add(Tick);
                }
            })
            .reconciler(Publisher {
                publishing: self,
                bundles,
            })
    }
}

struct Publisher<B> {
    publishing: Publishing,
    bundles: Arc<Store<B>>,
}

impl<B: TrustBundle> Reconcile<Tick> for Publisher<B> {
    async fn reconcile(&self, _: &Tick, report: &Report<'_>) -> Result<Next, Error> {
        let start = Instant::now();
        let result = self.sync(report).await;
        let measured = &self.publishing.measured;
        measured.on_sync(start, result.as_ref().err());
        match result? {
            true => Ok(Next::After(LOOK_AGAIN)),
            false => Ok(Next::AwaitChange),
        }
    }
}

impl<B: TrustBundle> Publisher<B> {
    /// Returns whether anything had to be done.
    async fn sync(&self, report: &Report<'_>) -> Result<bool, client::Error> {
        let publishing = &self.publishing;
        let mut bundles = self.bundles.list();
        bundles.retain(|bundle| *bundle.spec().signer_name == *publishing.signer);
        let plan = plan(publishing.signer, &bundles, &publishing.root_ca);
        let mut outcome = Ok(());
        for step in &plan.steps {
            let done = self.apply(&plan.name, step, report).await;
            // What is right comes first; what is too many is deleted as far as that is possible.
            match (done, step) {
                (Err(error), Step::Delete(_)) => outcome = Err(error),
                (done, _) => done?,
            }
        }
        outcome.map(|()| !plan.steps.is_empty())
    }

    async fn apply(
        &self,
        name: &str,
        step: &Step<B>,
        report: &Report<'_>,
    ) -> Result<(), client::Error> {
        let decide = |bundle: &B| report.decide(ObjectId::of(bundle), [Line::from(step)]);
        let client = &self.publishing.context.client;
        let body = |metadata: serde_json::Value| {
            let body = json!({
                "apiVersion": B::TYPE.api_version(), "kind": B::TYPE.kind, "metadata": metadata,
                "spec": {
                    "signerName": self.publishing.signer, "trustBundle": &*self.publishing.root_ca,
                },
            });
            body.to_string()
        };
        match step {
            Step::Create => {
                let body = body(json!({"name": name}));
                let answer = client.create(&B::TYPE, "", body).await?;
                // Before, there was no object to decide about.
                if let Ok(created) = B::decode(&answer) {
                    decide(&created);
                }
                Ok(())
            }
            Step::Update(held) => {
                decide(held);
                let body = body(json!(held.meta()));
                client
                    .replace(&B::TYPE, "", name, None, body)
                    .await
                    .map(drop)
            }
            Step::Delete(surplus) => {
                decide(surplus);
                let meta = surplus.meta();
                let options = DeleteOptions::exactly(&meta.uid);
                match client.delete(&B::TYPE, "", &meta.name, &options).await {
                    Err(error) if !error.is_not_found() => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }
}
