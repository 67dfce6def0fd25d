//! What somebody in the same process may see and do that no client may: every change in the order in
//! which it happened, and a crash.
//!
//! The simulator judges each single write by the first, and tears the server down by the second.

use parking_lot::{Mutex, RwLock};
use std::borrow::Cow;
use std::sync::Arc;

use api::{Clock, Rng};
use bytes::Bytes;

use crate::auth::rbac::Rbac;
use crate::auth::tokens::Tokens;
use crate::rest::expiry::Expiry;
use crate::server::{ApiServer, Shared};
use crate::storage::{Change, Event, TableKey, split_key};

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Changed {
    pub revision: u64,
    /// "" for the core group.
    pub group: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub namespace: String,
    pub name: String,
    pub is_deleted: bool,
    /// The object without its kind and version; for a deletion its last state.
    pub body: Bytes,
}

impl ApiServer {
    /// The newest revision that anybody can see.
    pub fn revision(&self) -> u64 {
        self.shared.store.visible_revision()
    }

    /// Everything that changed after a revision, oldest first, as far as the log reaches back.
    pub fn changes_after(&self, revision: u64) -> Vec<Changed> {
        let events = self.shared.store.events_after(revision);
        events.iter().map(Changed::of).collect()
    }

    /// Every object there is, in no particular order.
    pub fn objects(&self) -> Vec<Changed> {
        let objects = self.shared.store.all_objects();
        let changed = objects.into_iter().map(|(table, object)| {
            let (namespace, name) = split_key(&object.key);
            Changed {
                revision: object.revision,
                group: table.0,
                plural: table.1,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                is_deleted: false,
                body: object.body(),
            }
        });
        changed.collect()
    }

    /// Another server on what this one holds, as after a crash and a restart: watches find an empty log and
    /// have to list again. The last `lost` changes did not survive; then revisions go on far beyond what
    /// anyone has seen, as operators restore etcd from a snapshot (`--bump-revision --mark-compacted`).
    ///
    /// For servers in memory. Both go their own ways from here on.
    pub fn reopened(&self, lost: u64, clock: Clock, rng: Rng) -> ApiServer {
        let shared = self.shared();
        let reopened = ApiServer {
            shared: Arc::new(Shared {
                store: shared.store.reopened(lost),
                registry: RwLock::new(shared.registry()),
                registering: Mutex::new(()),
                clock,
                rng,
                networks: shared.networks.clone(),
                static_tokens: shared.static_tokens.clone(),
                continue_key: shared.continue_key.clone(),
                tokens: Tokens::new(
                    None,
                    shared.tokens.issuer.clone(),
                    &shared.settings.service_account_tokens,
                ),
                rbac: Rbac::new(shared.settings.authorizers.clone()),
                impersonation: crate::auth::impersonate::LastModes::default(),
                metrics: crate::metrics::Metrics::default(),
                parsed: crate::parsed::Parsed::default(),
                policies: crate::policy::Cache::default(),
                shapes: crate::apply::Shapes::default(),
                expiry: Expiry::default(),
                track_fields: shared.track_fields,
                discovery: Arc::clone(&shared.discovery),
                openapi: crate::openapi::OpenApi::default(),
                mounts: crate::embed::Mounts::default(),
                advertise: shared.advertise,
                serves: shared.serves,
                settings: shared.settings.clone(),
                outbound: shared.outbound.clone(),
                webhooks: crate::webhooks::Webhooks::default(),
                aggregation: crate::aggregation::Aggregation::default(),
                components: shared.components,
            }),
        };
        reopened.shared.expiry.adopt(&reopened.shared);
        reopened
    }
}

impl Changed {
    fn of((table, event): &(TableKey, Arc<Event>)) -> Changed {
        let (namespace, name) = split_key(&event.object.key);
        Changed {
            revision: event.revision,
            group: table.0.clone(),
            plural: table.1.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_deleted: event.change == Change::Deleted,
            body: event.object.body(),
        }
    }
}
