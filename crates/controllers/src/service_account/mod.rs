//! A `default` service account in every namespace. A small controller.
//!
//! **Converges**: every active namespace has each of the accounts to ensure.
//!
//! **Triggers**: any change of a namespace; a service account that goes.
//!
//! **Writes**: creates service accounts.
//!
//! **Mirrors** `pkg/controller/serviceaccount/serviceaccounts_controller.go`.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::Line;
use api::kinds::{Namespace, ServiceAccount};
use api::{Istr, Key, ObjectId, Resource};
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::claim::aggregate;

pub use invariants::{ServiceAccountOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Namespace>(), View::of::<ServiceAccount>()],
    decides_about: &[Namespace::TYPE],
    queues: &["serviceaccount"],
    build: Some(|ctx| Some(controller(ctx, &DEFAULT_ACCOUNTS, 1).into())),
    oracle: Some(|| Box::<ServiceAccountOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "serviceaccount-controller",
        "serviceaccount",
        "service-account-controller",
    )
};

/// What every namespace gets.
pub const DEFAULT_ACCOUNTS: [&str; 1] = ["default"];

pub fn controller(context: &Context, wanted: &[&str], workers: usize) -> Controller {
    Loop::of::<Namespace>(context)
        .queue("serviceaccount")
        .watches::<ServiceAccount>(|change, queue| {
            if let Change::Deleted(account) = change {
                queue.add(Key::new("", &account.metadata.namespace));
            }
        })
        .workers(workers)
        .reconciler(ServiceAccountController {
            context: context.clone(),
            namespaces: context.informers.store::<Namespace>(),
            accounts: context.informers.store::<ServiceAccount>(),
            wanted: wanted.iter().map(|name| (*name).to_owned()).collect(),
        })
}

pub struct ServiceAccountController {
    context: Context,
    namespaces: Arc<Store<Namespace>>,
    accounts: Arc<Store<ServiceAccount>>,
    wanted: Vec<String>,
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
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(namespace) = self.namespaces.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let missing = missing(&namespace, &self.accounts, &self.wanted);
        let creates = |account: &&str| {
            let what = format!("creates service account {account}");
            Line::acts("CreatesAccount", what).because("the namespace has none")
        };
        report.decide(ObjectId::of(&*namespace), missing.iter().map(creates));
        let mut failures = Vec::new();
        for account in missing {
            if let Err(error) = self.create(&namespace.metadata.name, account).await {
                failures.push(Error::from(error));
            }
        }
        aggregate(failures)?;
        Ok(Next::AwaitChange)
    }
}

impl ServiceAccountController {
    async fn create(&self, namespace: &str, name: &str) -> Result<(), client::Error> {
        let resource = ServiceAccount::TYPE;
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": Istr::new(name), "namespace": namespace},
        });
        let created = self
            .context
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
