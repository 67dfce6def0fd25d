//! Coordinated election: the API server picks the leader among those who have put themselves forward.
//!
//! Every candidate publishes a LeaseCandidate that says which version it is ([`Candidacy`]), and renews it
//! when it is asked whether it is still there. The API server writes the holder into the lease; a candidate
//! takes nothing, it only renews what it was given. A lease that names a preferred holder has come to the end
//! of its term: its holder steps down and lets it run out.

use std::time::Duration;

use api::{Clock, MicroTime, ResourceType};
use client::{Client, Error, WatchEvent, WatchOptions};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::{Attempt, LeaderElector};
use crate::Stop;

/// What a candidate says about itself. Spawn [`Candidacy::run`].
pub struct Candidacy {
    pub client: Client,
    pub clock: Clock,
    pub namespace: String,
    /// The identity that it contends with; also the name of its LeaseCandidate.
    pub identity: String,
    /// The lease that it is a candidate for.
    pub lease: String,
    /// `1.36.0`.
    pub binary_version: String,
    pub emulation_version: String,
}

/// UPSTREAM: a candidate without a ping renews its LeaseCandidate after this long.
const RENEW_AFTER: Duration = Duration::from_secs(5 * 60);

/// How soon a candidate tries again that could not publish itself.
const RETRY: Duration = Duration::from_secs(5);

static CANDIDATES: ResourceType = ResourceType::namespaced(
    "coordination.k8s.io",
    "v1beta1",
    "leasecandidates",
    "LeaseCandidate",
);

impl Candidacy {
    /// Stays a candidate until the signal comes.
    pub async fn run(self, stop: Stop) {
        while !stop.is_stopped() {
            let wait = async {
                match self.publish().await {
                    Ok(revision) => {
                        let asked = tokio::time::timeout(RENEW_AFTER, self.asked(revision));
                        // Asked or not, it is time to renew.
                        let _ = asked.await;
                    }
                    Err(error) => {
                        tracing::warn!(
                            candidate = self.identity,
                            "cannot become a candidate for the lease; does the API server serve {CANDIDATES}? {}",
                            client::describe(&error)
                        );
                        tokio::time::sleep(RETRY).await;
                    }
                }
            };
            if stop.or(wait).await.is_none() {
                return;
            }
        }
    }

    /// Creates the LeaseCandidate, or renews it; gives its revision.
    async fn publish(&self) -> Result<String, Error> {
        let now = self.clock.now();
        let held = self
            .client
            .get(&CANDIDATES, &self.namespace, &self.identity)
            .await;
        let answer = match held {
            Ok(_) => {
                let renewal = json!({"spec": {"renewTime": now}}).to_string();
                let patch = client::Patch::Merge(renewal.into());
                self.client
                    .patch(&CANDIDATES, &self.namespace, &self.identity, None, &patch)
                    .await?
            }
            Err(error) if error.is_not_found() => {
                let candidate = json!({
                    "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
                    "metadata": {"name": self.identity, "namespace": self.namespace},
                    "spec": {
                        "leaseName": self.lease,
                        "binaryVersion": self.binary_version,
                        "emulationVersion": self.emulation_version,
                        "strategy": "OldestEmulationVersion",
                        "renewTime": now,
                    },
                });
                self.client
                    .create(&CANDIDATES, &self.namespace, candidate.to_string())
                    .await?
            }
            Err(error) => return Err(error),
        };
        let written: View = serde_json::from_slice(&answer).unwrap_or_default();
        Ok(written.metadata.resource_version)
    }

    /// Waits until the API server asks whether we are still there, or the watch ends.
    async fn asked(&self, revision: String) {
        let options = WatchOptions {
            field_selector: Some(format!("metadata.name={}", self.identity)),
            resource_version: Some(revision),
            ..WatchOptions::default()
        };
        let watch = self.client.watch(&CANDIDATES, &self.namespace, &options);
        let Ok(mut events) = watch.await else {
            tokio::time::sleep(RETRY).await;
            return;
        };
        let opened = Instant::now();
        while let Some(Ok(event)) = events.next().await {
            match event {
                WatchEvent::Modified(object) if View::is_asked(&object) => return,
                // Somebody removed us: we are back at once.
                WatchEvent::Deleted(_) => return,
                _ => {}
            }
        }
        if opened.elapsed() < RETRY {
            // A server that ends every watch at once is not asked in circles.
            tokio::time::sleep(RETRY).await;
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct View {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    ping_time: Option<MicroTime>,
    renew_time: Option<MicroTime>,
}

impl View {
    fn is_asked(object: &[u8]) -> bool {
        let view: View = serde_json::from_slice(object).unwrap_or_default();
        view.spec
            .ping_time
            .is_some_and(|asked| view.spec.renew_time.is_none_or(|answered| asked > answered))
    }
}

impl LeaderElector {
    /// Renews the lease if the API server has given it to us.
    pub(super) async fn attempt_coordinated(&mut self) -> Attempt {
        let since = Instant::now();
        let now = self.clock.now();
        let current = match self.lock.get().await {
            Ok(current) => current,
            Err(error) => return self.failed("read", &error),
        };
        self.observe(&current);
        if current.holder != self.config.identity {
            self.may_hold = false;
            return Attempt::HeldByOther;
        }
        if !self.is_valid() {
            return Attempt::Failed;
        }
        if let Some(preferred) = &current.preferred {
            tracing::info!(lease = %self.lock, preferred, "the term has come to its end");
            self.may_hold = false;
            return Attempt::HeldByOther;
        }
        let mut wanted = self.wanted(now);
        wanted.acquired = current.acquired.or(wanted.acquired);
        wanted.transitions = current.transitions;
        wanted.strategy = current.strategy;
        if let Some(metrics) = &self.metrics {
            metrics.on_slow_path();
        }
        self.may_hold = true;
        match self.lock.update(&wanted).await {
            Ok(()) => self.held(wanted, since),
            Err(error) => self.failed("write", &error),
        }
    }
}
