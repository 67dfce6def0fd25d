//! Namespaces that are being deleted: their content is deleted, and their finalizer removed. A small controller.
//!
//! **Converges**: a terminating namespace has no content of any kind, no `kubernetes` finalizer in its
//! spec, and is gone; until then its conditions say what is left and who holds it.
//!
//! **Triggers**: a namespace that is being deleted, two seconds after we first hear of it (all API
//! servers have to hear of the deletion first); time, by the grace periods of the pods that are left.
//!
//! **Writes**: `deletecollection` (or single deletes) of every resource with something in it, the
//! namespace's status, and its `finalize` subresource.
//!
//! **Mirrors** `pkg/controller/namespace`.
//!
//! **Deliberate differences**: a resource is listed before it is deleted, so the many kinds of which
//! the namespace has none cost one request and not two; kinds are worked on side by side, pods still
//! first (OrderedNamespaceDeletion); it begins after two seconds and not after five.

mod conditions;
mod content;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Namespace, NamespaceStatus};
use api::{Istr, Key, MicroTime, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::status::{put_status, revision};
use conditions::Findings;

pub use conditions::update_conditions;
pub use invariants::{NamespaceOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Namespace>()],
    decides_about: &[Namespace::TYPE],
    queues: &["namespace"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.namespace_controller.concurrent_syncs);
        Some(controller(ctx, workers).into())
    }),
    oracle: Some(|| Box::<NamespaceOracle>::default()),
    ..Descriptor::named("namespace-controller", "namespace", "namespace-controller")
        .faster(20.0, 100)
};

/// Every namespace is born with this finalizer, and this controller removes it.
const FINALIZER: &str = "kubernetes";

/// All API servers have to hear of the deletion before the content is counted: one that has not would still let
/// somebody create an object, and nobody would ever delete that. They hear by a watch, as we did; upstream gives
/// them five seconds.
const GRACE: Duration = Duration::from_secs(2);

/// A namespace is tried again at least every minute.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(60),
    bucket: Some((10.0, 100.0)),
};

pub fn controller(context: &Context, workers: usize) -> Controller {
    Loop::on::<Key>(context, BACKOFF)
        .queue("namespace")
        .watches::<Namespace>(|change, queue| {
            if let Change::Added(namespace) | Change::Updated { new: namespace, .. } = change
                && namespace.metadata.is_terminating()
            {
                queue.add_after(namespace.key(), GRACE);
            }
        })
        .workers(workers)
        .reconciler(NamespaceController {
            context: context.clone(),
            namespaces: context.informers.store::<Namespace>(),
        })
}

pub struct NamespaceController {
    context: Context,
    namespaces: Arc<Store<Namespace>>,
}

impl Reconcile for NamespaceController {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        if self.namespaces.get(key).is_none() {
            return Ok(Next::AwaitChange);
        }
        // Several parties write a namespace while it goes: only its latest state is worth anything.
        let Some(mut namespace) = self.get(&key.name).await? else {
            return Ok(Next::AwaitChange);
        };
        if !namespace.metadata.is_terminating() {
            return Ok(Next::AwaitChange);
        }
        if namespace.status.phase != "Terminating" {
            match self.mark_terminating(namespace).await? {
                Some(marked) => namespace = marked,
                None => return Ok(Next::AwaitChange),
            }
        }
        if namespace.spec.finalizers.is_empty() {
            return Ok(Next::AwaitChange);
        }
        let now = self.context.clock.now();
        let findings = self.empty(&namespace, now).await;
        report.decide(ObjectId::of(&namespace), findings.lines());
        self.write_conditions(&mut namespace, &findings, now).await;
        if let Some(failure) = findings.failure() {
            return Err(Error::Retry(failure));
        }
        if findings.estimate_seconds > 0 {
            let wait = findings.estimate_seconds.unsigned_abs() / 2 + 1;
            return Ok(Next::After(Duration::from_secs(wait)));
        }
        self.finalize(namespace).await?;
        Ok(Next::AwaitChange)
    }
}

impl NamespaceController {
    async fn get(&self, name: &str) -> Result<Option<Namespace>, Error> {
        match self.context.client.get_as::<Namespace>("", name).await {
            Ok(namespace) => Ok(Some(namespace)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same namespace as it is now, after somebody else has written it.
    async fn get_again(&self, namespace: &Namespace) -> Result<Option<Namespace>, Error> {
        let found = self.get(&namespace.metadata.name).await?;
        if let Some(found) = &found
            && found.metadata.uid != namespace.metadata.uid
        {
            return Err(Error::Retry(
                "namespace uid has changed across retries".into(),
            ));
        }
        Ok(found)
    }

    async fn mark_terminating(&self, namespace: Namespace) -> Result<Option<Namespace>, Error> {
        let mut namespace = namespace;
        loop {
            if !namespace.metadata.is_terminating() {
                return Ok(None);
            }
            if namespace.status.phase == "Terminating" {
                return Ok(Some(namespace));
            }
            namespace.status.phase = Istr::new("Terminating");
            match self
                .put_status(&namespace.metadata, &namespace.status)
                .await
            {
                Ok(revision) => {
                    namespace.metadata.resource_version = revision;
                    return Ok(Some(namespace));
                }
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if error.is_conflict() => match self.get_again(&namespace).await? {
                    Some(again) => namespace = again,
                    None => return Ok(None),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A failure to say what is going on must not keep the namespace from going.
    async fn write_conditions(
        &self,
        namespace: &mut Namespace,
        findings: &Findings,
        now: MicroTime,
    ) {
        if !update_conditions(&mut namespace.status.conditions, findings, now.time()) {
            return;
        }
        match self
            .put_status(&namespace.metadata, &namespace.status)
            .await
        {
            Ok(revision) => namespace.metadata.resource_version = revision,
            Err(error) => {
                let name = &*namespace.metadata.name;
                tracing::warn!(namespace = name, %error, "cannot update the conditions");
            }
        }
    }

    async fn put_status(
        &self,
        meta: &api::Meta,
        status: &NamespaceStatus,
    ) -> Result<u64, client::Error> {
        put_status::<Namespace>(&self.context.client, meta, status).await
    }

    /// Removes our finalizer from the spec; the server then removes the namespace.
    async fn finalize(&self, namespace: Namespace) -> Result<(), Error> {
        let mut namespace = namespace;
        loop {
            let mut rest: Vec<Istr> = namespace.spec.finalizers.clone();
            rest.retain(|finalizer| *finalizer != FINALIZER);
            rest.sort();
            rest.dedup();
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": namespace.metadata, "spec": {"finalizers": rest},
            });
            let (client, name) = (&self.context.client, &namespace.metadata.name);
            let answer = client
                .replace(
                    &Namespace::TYPE,
                    "",
                    name,
                    Some("finalize"),
                    body.to_string(),
                )
                .await;
            match answer {
                Ok(answer) => {
                    tracing::debug!(
                        namespace = &**name,
                        revision = revision(&answer),
                        "finalized"
                    );
                    return Ok(());
                }
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.is_conflict() => match self.get_again(&namespace).await? {
                    Some(again) => namespace = again,
                    None => return Ok(()),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}
