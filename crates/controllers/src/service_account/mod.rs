//! A `default` service account in every namespace.
//!
//! **Converges**: every active namespace has each of the accounts to ensure.
//!
//! **Woken by**: any change of a namespace; a service account that goes.
//!
//! **Writes**: creates service accounts.
//!
//! **Mirrors** `pkg/controller/serviceaccount/serviceaccounts_controller.go`.

mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::kinds::{Namespace, ServiceAccount};
use api::{Istr, Key, Resource};
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::rate_limit::Backoff;
use runtime::triggers::watch_self;
use runtime::{Change, Error, Informers, Next, Queue, Reconcile, Store, mutation};
use serde_json::json;

use crate::Tools;
use crate::workload::claim::aggregate;

pub use invariants::{converged, safe};

/// The name in `--controllers`.
pub const NAME: &str = "serviceaccount-controller";

/// What every namespace gets.
pub const DEFAULT_ACCOUNTS: [&str; 1] = ["default"];

pub struct ServiceAccountController {
    tools: Tools,
    namespaces: Arc<Store<Namespace>>,
    accounts: Arc<Store<ServiceAccount>>,
    wanted: Vec<String>,
}

pub fn controller(
    informers: &Informers,
    tools: Tools,
    wanted: &[&str],
    workers: usize,
) -> Controller {
    let (namespaces, accounts) = (
        informers.of::<Namespace>(),
        informers.of::<ServiceAccount>(),
    );
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    watch_self(&namespaces, &queue, |_| {});
    let wakes = queue.clone();
    accounts.on_change(move |change| {
        if let Change::Deleted(account) = change
            && !mutation::on("forget-accounts")
        {
            wakes.add(Key::new("", &account.metadata.namespace));
        }
    });
    Controller {
        name: NAME,
        queue,
        workers,
        retries_max: None,
        waits_for: vec![accounts.synced(), namespaces.synced()],
        metrics: None,
        reconciler: Arc::new(ServiceAccountController {
            tools,
            namespaces: namespaces.store().clone(),
            accounts: accounts.store().clone(),
            wanted: wanted.iter().map(|name| (*name).to_owned()).collect(),
        }),
    }
}

/// The accounts that a namespace lacks; one that is going away gets none.
pub fn missing<'a>(
    namespace: &Namespace,
    accounts: &Store<ServiceAccount>,
    wanted: &'a [String],
) -> Vec<&'a str> {
    if namespace.status.phase != "Active" {
        return Vec::new();
    }
    let name = &namespace.metadata.name;
    wanted
        .iter()
        .map(String::as_str)
        .filter(|account| accounts.find(name, account).is_none())
        .collect()
}

impl Reconcile for ServiceAccountController {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl ServiceAccountController {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        let Some(namespace) = self.namespaces.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let missing = missing(&namespace, &self.accounts, &self.wanted);
        let lines = missing
            .iter()
            .map(|account| format!("creates service account {account}: the namespace has none"));
        let now = self.tools.clock.now();
        self.tools.decisions.record(NAME, key, now, lines);
        let mut failures = Vec::new();
        for account in missing {
            if let Err(error) = self.create(&namespace.metadata.name, account).await {
                failures.push(Error::from(error));
            }
        }
        aggregate(failures)?;
        Ok(Next::AwaitChange)
    }

    async fn create(&self, namespace: &str, name: &str) -> Result<(), client::Error> {
        let resource = ServiceAccount::TYPE;
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": Istr::new(name), "namespace": namespace},
        });
        let created = self
            .tools
            .client
            .create(&resource, namespace, account.to_string())
            .await;
        match created {
            Err(error) if !error.is_already_exists() && !error.is_namespace_terminating() => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}
