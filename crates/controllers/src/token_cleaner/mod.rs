//! Bootstrap tokens that have expired. A small controller, off unless it is asked for.
//!
//! **Converges**: no bootstrap token whose `expiration` is past, or cannot be read, is there.
//!
//! **Triggers**: changes of bootstrap tokens; time, when one expires.
//!
//! **Writes**: deletes those secrets, with their uid as precondition.
//!
//! **Mirrors** `pkg/controller/bootstrap/tokencleaner.go`.
//!
//! **Deliberate differences**: a deletion that fails is tried again; upstream waits for the token to change.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::Line;
use api::kinds::Secret;
use api::{Key, ObjectId, Resource};
use client::DeleteOptions;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};

use crate::Descriptor;
use crate::bootstrap_token::{Expiration, is_token};
use crate::oracle::View;

pub use invariants::{TokenCleanerOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Secret>()],
    decides_about: &[Secret::TYPE],
    queues: &["token_cleaner"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<TokenCleanerOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named("token-cleaner-controller", "tokencleaner", "token-cleaner").off()
};

pub fn controller(context: &Context) -> Controller {
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("token_cleaner")
        .watches::<Secret>(|change, queue| {
            if !matches!(change, Change::Deleted(_)) && is_token(change.object()) {
                queue.add(change.object().key());
            }
        })
        .reconciler(TokenCleaner {
            context: context.clone(),
            secrets: context.informers.store::<Secret>(),
        })
}

pub struct TokenCleaner {
    context: Context,
    secrets: Arc<Store<Secret>>,
}

impl Reconcile for TokenCleaner {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let secret = self.secrets.get(key).filter(|secret| is_token(secret));
        let Some(secret) = secret else {
            return Ok(Next::AwaitChange);
        };
        let now = self.context.clock.now();
        let expiration = Expiration::of(&secret);
        let why = match expiration {
            Expiration::Never => return Ok(Next::AwaitChange),
            Expiration::At(at) if !expiration.is_past(now) => {
                let line = Line::waits("Expires", "is deleted").because("the token expires");
                report.decide(ObjectId::of(&*secret), [line.until(at.time())]);
                return Ok(Next::After(at.since(now)));
            }
            Expiration::At(_) => "the token has expired",
            Expiration::Unreadable => "its expiration is no time",
        };
        let line = Line::acts("Deletes", "deletes it").because(why);
        report.decide(ObjectId::of(&*secret), [line]);
        self.delete(&secret).await
    }
}

impl TokenCleaner {
    async fn delete(&self, secret: &Secret) -> Result<Next, Error> {
        let meta = &secret.metadata;
        let options = DeleteOptions::exactly(&meta.uid);
        let client = &self.context.client;
        let deleted = client
            .delete(&Secret::TYPE, &meta.namespace, &meta.name, &options)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Next::AwaitChange),
        }
    }
}
