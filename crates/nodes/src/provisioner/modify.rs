//! Claims whose attributes class has changed: what an external resizer does about them.

use api::{Quantity, Resource};
use bytes::Bytes;
use client::Patch;
use runtime::{Error, EventType, ObjectRef};
use serde_json::{Value, json};

use super::{Provisioner, tolerate_gone};
use crate::storage::{PersistentVolume, PersistentVolumeClaim};

impl Provisioner {
    /// The volume gets the attributes, and the claim says so. A class that is not there is waited for.
    pub(super) async fn modify(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        target: &str,
    ) -> Result<(), Error> {
        let state = match self.attributes.find("", target) {
            Some(_) => "InProgress",
            None => "Pending",
        };
        let told = claim.status.modify_volume_status.as_ref();
        let is_told = told.is_some_and(|held| {
            held.target_volume_attributes_class_name == *target && held.status == state
        });
        if !is_told {
            let status = json!({"modifyVolumeStatus": {
                "targetVolumeAttributesClassName": target, "status": state,
            }});
            self.put_claim_status(claim, status).await?;
        }
        if state == "Pending" {
            return Ok(());
        }
        let body = json!({
            "metadata": {"uid": volume.metadata.uid}, "spec": {"volumeAttributesClassName": target},
        });
        let patch = Patch::Merge(Bytes::from(body.to_string()));
        let (kind, name) = (&PersistentVolume::TYPE, &volume.metadata.name);
        let modified = self.client.patch(kind, "", name, None, &patch).await;
        tolerate_gone(modified.map(|_| ()))?;
        let status = json!({
            "currentVolumeAttributesClassName": target, "modifyVolumeStatus": null,
        });
        self.put_claim_status(claim, status).await?;
        let message =
            format!("external resizer modified volume {name} with vac {target} successfully");
        self.recorder.event(
            &ObjectRef::of(claim),
            EventType::Normal,
            "VolumeModifySuccessful",
            message,
        );
        Ok(())
    }

    /// The volume first: a claim never has more than its volume.
    pub(super) async fn grow(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        size: &Quantity,
    ) -> Result<(), Error> {
        let capacity = json!({"storage": size});
        let uid = &volume.metadata.uid;
        let patch = json!({"metadata": {"uid": uid}, "spec": {"capacity": capacity}});
        let patch = Patch::Merge(Bytes::from(patch.to_string()));
        let (kind, name) = (&PersistentVolume::TYPE, &volume.metadata.name);
        let grown = self.client.patch(kind, "", name, None, &patch).await;
        tolerate_gone(grown.map(|_| ()))?;
        self.put_claim_status(claim, json!({"capacity": capacity}))
            .await
    }

    async fn put_claim_status(
        &self,
        claim: &PersistentVolumeClaim,
        status: Value,
    ) -> Result<(), Error> {
        let meta = &claim.metadata;
        let patch = json!({"metadata": {"uid": meta.uid}, "status": status});
        let patch = Patch::Merge(Bytes::from(patch.to_string()));
        let (kind, namespace) = (&PersistentVolumeClaim::TYPE, &meta.namespace);
        let told = self
            .client
            .patch(kind, namespace, &meta.name, Some("status"), &patch)
            .await;
        tolerate_gone(told.map(|_| ()))
    }
}
