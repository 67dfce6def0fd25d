//! Tokens in secrets, for those who still ask for them. A small controller.
//!
//! **Converges**: every secret of type `kubernetes.io/service-account-token` whose service account
//! exists holds a signed token, the namespace and the root certificates; one whose account is gone is
//! gone; no account lists a token secret that is gone.
//!
//! **Triggers**: changes of such secrets; service accounts that go.
//!
//! **Writes**: updates and deletes those secrets, updates service accounts.
//!
//! **Mirrors** `pkg/controller/serviceaccount/tokens_controller.go`. Upstream has one queue for accounts
//! and one for secrets; here an account that goes enqueues its secrets, and all work is about a secret.

mod actions;
mod invariants;
mod plan;
mod sign;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::json::Node;
use api::kinds::{Secret, ServiceAccount};
use api::{Key, Meta, ObjectId, Resource, ResourceType, Uid};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use client::DeleteOptions;
use parking_lot::Mutex;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Queue, Reconcile, Report, Store};

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{TokenOracle, converged, safe};
pub use plan::{Missing, Owner, missing, owner};
pub use sign::{SignError, Signer};

pub const DESCRIPTOR: Descriptor = Descriptor {
    // The others' credentials may depend on it.
    first: true,
    caches: &[View::of::<ServiceAccount>(), View::of::<Secret>()],
    decides_about: &[Secret::TYPE],
    queues: &["serviceaccount_tokens_secret"],
    build: Some(|ctx| {
        let signer = Signer::from_pem(ctx.environment.service_account_key.as_deref()?).ok()?;
        let root_ca = ctx.environment.root_ca.as_deref().map(str::as_bytes);
        let workers = ctx.workers(ctx.config.sa_controller.concurrent_token_syncs);
        Some(controller(ctx, signer, root_ca, workers).into())
    }),
    oracle: Some(|| Box::<TokenOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "serviceaccount-token-controller",
        "serviceaccount-token",
        "tokens-controller",
    )
};

/// Upstream gives up on a key after so many failures.
const RETRIES: u32 = 10;

/// Conflicts while a reference is removed: how often, and how long to wait. Upstream's numbers.
const REFERENCE_ATTEMPTS: u32 = 10;
const REFERENCE_WAIT: Duration = Duration::from_millis(100);

/// When a token is looked at again whose account the cache does not know: a cache that lags has caught up.
const OVERLOOKED_RETRY: Duration = Duration::from_secs(60);

/// Accounts that we saw go. A miss costs a request, nothing else.
const GONE_MAX: usize = 500;

pub struct TokenController {
    context: Context,
    accounts: Arc<Store<ServiceAccount>>,
    secrets: Arc<Store<Secret>>,
    signer: Signer,
    /// In base64, as secrets hold it; empty for none.
    root_ca: String,
    seen: Arc<Mutex<Seen>>,
}

/// What the stores cannot tell any more.
#[derive(Default)]
struct Seen {
    /// Whose tokens the deleted secrets were.
    secrets_gone: BTreeMap<Key, Owner>,
    /// The uids of deleted accounts, oldest first.
    accounts_gone: std::collections::VecDeque<Uid>,
}

/// `root_ca` is the text of `--root-ca-file`; without one tokens come without certificates.
pub fn controller(
    context: &Context,
    signer: Signer,
    root_ca: Option<&[u8]>,
    workers: usize,
) -> Controller {
    let secrets = context.informers.store::<Secret>();
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let (of_secrets, of_accounts, tokens) = (seen.clone(), seen.clone(), secrets.clone());
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("serviceaccount_tokens_secret")
        .watches::<Secret>(move |change, queue| {
            let secret = change.object();
            let Some(owner) = owner(secret) else {
                return;
            };
            if matches!(change, Change::Deleted(_)) {
                of_secrets.lock().secrets_gone.insert(secret.key(), owner);
            }
            queue.add(secret.key());
        })
        .watches::<ServiceAccount>(move |change, queue| {
            if let Change::Deleted(account) = change {
                let account = &account.metadata;
                of_accounts.lock().account_gone(account.uid.clone());
                enqueue_tokens(&tokens, account, queue);
            }
        })
        .workers(workers)
        .retries(RETRIES)
        .reconciler(TokenController {
            context: context.clone(),
            accounts: context.informers.store::<ServiceAccount>(),
            secrets,
            signer,
            root_ca: root_ca.map_or_else(String::new, |text| BASE64_STANDARD.encode(text)),
            seen,
        })
}

fn enqueue_tokens(secrets: &Store<Secret>, account: &Meta, queue: &Queue) {
    for secret in secrets.in_namespace(&account.namespace) {
        if owner(&secret).is_some_and(|owner| owner.means(account)) {
            queue.add(secret.key());
        }
    }
}

impl Seen {
    fn account_gone(&mut self, uid: Uid) {
        self.accounts_gone.push_back(uid);
        if self.accounts_gone.len() > GONE_MAX {
            self.accounts_gone.pop_front();
        }
    }
}

impl Reconcile for TokenController {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.sync(key, report).await?;
        Ok(match self.is_overlooked(key) {
            true => Next::After(OVERLOOKED_RETRY),
            false => Next::AwaitChange,
        })
    }
}

impl TokenController {
    async fn sync(&self, key: &Key, report: &Report<'_>) -> Result<(), Error> {
        let Some(secret) = self.secrets.get(key) else {
            let gone = self.seen.lock().secrets_gone.remove(key);
            return match gone {
                Some(owner) => self.remove_reference(key, &owner).await,
                None => Ok(()),
            };
        };
        let Some(owner) = owner(&secret) else {
            return Ok(());
        };
        match self.account(&key.namespace, &owner).await? {
            None => {
                let line = Line::acts("DeletesToken", "deletes it");
                let line = line.because("its service account does not exist");
                report.decide(ObjectId::of(&*secret), [line]);
                self.delete(&secret.metadata).await
            }
            Some(account) if missing(&secret, &self.root_ca).any() => {
                self.fill(&secret, &account, report).await
            }
            Some(_) => Ok(()),
        }
    }

    /// Does the cache not know the account of a token that is there? If the account goes before the cache has
    /// seen it, nobody will tell us.
    fn is_overlooked(&self, key: &Key) -> bool {
        let secret = self.secrets.get(key);
        let owner = secret.and_then(|secret| owner(&secret));
        owner.is_some_and(|owner| self.accounts.find(&key.namespace, &owner.name).is_none())
    }

    /// The account of a secret, from the cache or, where that does not know it, from the server.
    async fn account(&self, namespace: &str, owner: &Owner) -> Result<Option<Meta>, Error> {
        if let Some(found) = self.accounts.find(namespace, &owner.name)
            && owner.means(&found.metadata)
        {
            return Ok(Some(found.metadata.clone()));
        }
        if let Some(uid) = &owner.uid
            && self.seen.lock().accounts_gone.contains(uid)
        {
            return Ok(None);
        }
        let client = &self.context.client;
        match client
            .get_as::<ServiceAccount>(namespace, &owner.name)
            .await
        {
            Ok(found) => Ok(Some(found.metadata).filter(|found| owner.means(found))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete(&self, meta: &Meta) -> Result<(), Error> {
        let options = DeleteOptions::exactly(&meta.uid);
        let client = &self.context.client;
        let deleted = client
            .delete(&Secret::TYPE, &meta.namespace, &meta.name, &options)
            .await;
        match deleted {
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Writes what a secret lacks into the secret as it is now.
    async fn fill(
        &self,
        cached: &Secret,
        account: &Meta,
        report: &Report<'_>,
    ) -> Result<(), Error> {
        let meta = &cached.metadata;
        let Some((live, mut body)) = self.get_raw::<Secret>(meta).await? else {
            return Ok(());
        };
        if live.metadata.resource_version != meta.resource_version {
            return Err(Error::Stale {
                resource: "secrets".into(),
            });
        }
        let missing = missing(&live, &self.root_ca);
        if !missing.any() {
            return Ok(());
        }
        if missing.ca {
            body.set(&["data", "ca.crt"], Node::text(&self.root_ca));
        }
        if missing.namespace {
            let namespace = BASE64_STANDARD.encode(&*meta.namespace);
            body.set(&["data", "namespace"], Node::text(&namespace));
        }
        if missing.token {
            let uid = account.uid.to_string();
            let signed = self
                .signer
                .legacy_token(&meta.namespace, &account.name, &uid, &meta.name);
            let token = signed.map_err(|error| Error::Terminal(error.to_string()))?;
            body.set(
                &["data", "token"],
                Node::text(&BASE64_STANDARD.encode(token)),
            );
        }
        let uid = account.uid.to_string();
        body.set(
            &["metadata", "annotations", plan::NAME_KEY],
            Node::text(&account.name),
        );
        body.set(
            &["metadata", "annotations", plan::UID_KEY],
            Node::text(&uid),
        );
        let line = Line::acts("FillsToken", missing.to_string());
        report.decide(ObjectId::of(cached), [line]);
        // After a conflict upstream waits for the change behind it; we do not rely on there being one.
        match self.put(&Secret::TYPE, meta, body).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other?),
        }
    }

    /// An account must not list a secret that is gone.
    async fn remove_reference(&self, secret: &Key, owner: &Owner) -> Result<(), Error> {
        let cached = self.accounts.find(&secret.namespace, &owner.name);
        let Some(cached) = cached.filter(|cached| owner.means(&cached.metadata)) else {
            return Ok(());
        };
        let mut attempts = 0;
        loop {
            let Some((live, mut body)) = self.get_raw::<ServiceAccount>(&cached.metadata).await?
            else {
                return Ok(());
            };
            let listed = live.secrets.iter().any(|held| *held.name == *secret.name);
            if !owner.means(&live.metadata) || !listed {
                return Ok(());
            }
            if let Node::Array(items) = body.entry(&["secrets"]) {
                items.retain(|item| {
                    let name = item.get(&["name"]).and_then(Node::as_str);
                    name.is_none_or(|name| *name != *secret.name)
                });
            }
            attempts += 1;
            match self.put(&ServiceAccount::TYPE, &live.metadata, body).await {
                Err(error) if error.is_conflict() && attempts < REFERENCE_ATTEMPTS => {
                    tokio::time::sleep(REFERENCE_WAIT).await;
                }
                Err(error) if error.is_not_found() => return Ok(()),
                other => return Ok(other?),
            }
        }
    }

    /// The object as it is now, as a view and whole; `None` when it is gone.
    async fn get_raw<K: Resource>(&self, meta: &Meta) -> Result<Option<(K, Node)>, Error> {
        let client = &self.context.client;
        let body = match client.get(&K::TYPE, &meta.namespace, &meta.name).await {
            Ok(body) => body,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let view = K::decode(&body).map_err(|error| Error::Terminal(error.to_string()))?;
        let text =
            std::str::from_utf8(&body).map_err(|error| Error::Terminal(error.to_string()))?;
        let node = Node::parse(text).map_err(|error| Error::Terminal(error.to_string()))?;
        Ok(Some((view, node)))
    }

    async fn put(
        &self,
        resource: &ResourceType,
        meta: &Meta,
        body: Node,
    ) -> Result<(), client::Error> {
        let client = &self.context.client;
        client
            .replace(
                resource,
                &meta.namespace,
                &meta.name,
                None,
                body.to_string(),
            )
            .await
            .map(drop)
    }
}
