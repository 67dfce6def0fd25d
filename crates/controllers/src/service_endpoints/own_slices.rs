//! The slices that one controller keeps: read no older than its own writes, and written.

use std::sync::Arc;

use api::kinds::{EndpointSlice, Metadata};
use api::{Key, Resource};
use client::{Client, DeleteOptions};
use prometheus::IntCounterVec;
use runtime::{Change, Context, Error, Store};

use super::WriteTracker;
use super::slices::{by_service, concerned_by_slice, is_managed_by, of_service};
use crate::workload::Consistency;

pub struct OwnSlices {
    client: Client,
    /// Who writes them, as their label says.
    controller: &'static str,
    store: Arc<Store<EndpointSlice>>,
    consistency: Consistency,
    tracker: WriteTracker,
    /// Counts writes by operation.
    changes: IntCounterVec,
}

impl OwnSlices {
    pub fn new(context: &Context, controller: &'static str, changes: IntCounterVec) -> Arc<Self> {
        let informer = context.informers.of::<EndpointSlice>();
        informer.add_index(&by_service());
        Arc::new(OwnSlices {
            client: context.client.clone(),
            controller,
            store: informer.store().clone(),
            consistency: Consistency::always().of::<EndpointSlice>(context),
            tracker: WriteTracker::default(),
            changes,
        })
    }

    /// The services whose slices have to be looked at after this change, which was not its own.
    pub fn concerned(&self, change: &Change<'_, EndpointSlice>) -> Vec<Key> {
        concerned_by_slice(self.controller, &self.tracker, change)
    }

    /// Those of a service by name, if the cache is as new as our own writes.
    pub fn of(&self, service: &Key) -> Result<Vec<Arc<EndpointSlice>>, Error> {
        self.consistency.check(service)?;
        let mut slices = self.store.by(&by_service(), &of_service(service));
        slices.retain(|slice| {
            is_managed_by(slice, self.controller) && !slice.metadata.is_terminating()
        });
        slices.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        let is_deleted = |slice: &Arc<EndpointSlice>| self.tracker.is_deleted(&slice.metadata);
        if slices.iter().any(is_deleted) {
            return Err(Error::Stale {
                resource: EndpointSlice::TYPE.plural.to_string(),
            });
        }
        Ok(slices)
    }

    /// The service is gone.
    pub fn forget(&self, service: &Key) {
        self.consistency.forget(service);
    }

    pub async fn create(&self, service: &Key, body: String) -> Result<(), client::Error> {
        let answer = self
            .client
            .create_metadata_only(&EndpointSlice::TYPE, &service.namespace, body)
            .await?;
        self.written(service, &answer, "create");
        Ok(())
    }

    /// The role allows no patch, so all of it goes back, on top of what was read.
    pub async fn update(
        &self,
        service: &Key,
        slice: &EndpointSlice,
        body: String,
    ) -> Result<(), client::Error> {
        let meta = &slice.metadata;
        let answer = self
            .client
            .replace_metadata_only(&EndpointSlice::TYPE, &meta.namespace, &meta.name, body)
            .await?;
        self.written(service, &answer, "update");
        Ok(())
    }

    pub async fn delete(&self, slice: &EndpointSlice) -> Result<(), client::Error> {
        let meta = &slice.metadata;
        let options = DeleteOptions::exactly(&meta.uid);
        self.tracker.deleting(&meta.uid);
        let deleted = self
            .client
            .delete(&EndpointSlice::TYPE, &meta.namespace, &meta.name, &options)
            .await;
        match deleted {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                self.tracker.not_deleted(&meta.uid);
                Err(error)
            }
            Ok(_) => {
                self.changes.with_label_values(&["delete"]).inc();
                Ok(())
            }
        }
    }

    fn written(&self, service: &Key, answer: &[u8], operation: &str) {
        self.changes.with_label_values(&[operation]).inc();
        if let Ok(Metadata { metadata }) = Metadata::decode(answer) {
            let revision = metadata.resource_version;
            self.tracker.written(metadata.uid, revision);
            self.consistency.note::<EndpointSlice>(service, revision);
        }
    }
}
