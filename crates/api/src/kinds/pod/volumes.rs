//! The volumes of a pod, as they stand on the wire.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{InlineVolume, Volume};
use crate::intern::Istr;
use crate::kinds::in_tree::{Around, InTree, InTreeSource};
use crate::protobuf::{Malformed, Message, Value};

/// Names are not interned before it is clear that the volume is kept: admission gives every pod one
/// with a random name.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireVolume<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    persistent_volume_claim: Option<Claim<'a>>,
    ephemeral: Option<IgnoredAny>,
    aws_elastic_block_store: Option<Box<InTreeSource>>,
    azure_disk: Option<Box<InTreeSource>>,
    azure_file: Option<Box<InTreeSource>>,
    cinder: Option<Box<InTreeSource>>,
    gce_persistent_disk: Option<Box<InTreeSource>>,
    portworx_volume: Option<Box<InTreeSource>>,
    vsphere_volume: Option<Box<InTreeSource>>,
    fc: Option<Box<InTreeSource>>,
    iscsi: Option<Box<InTreeSource>>,
    flex_volume: Option<Box<InTreeSource>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Claim<'a> {
    #[serde(borrow)]
    claim_name: Cow<'a, str>,
}

impl WireVolume<'_> {
    /// `None` where it stands for no claim.
    pub(super) fn view(&self, pod: &str) -> Option<Volume> {
        let claim = self.persistent_volume_claim.as_ref();
        let is_ephemeral = claim.is_none() && self.ephemeral.is_some();
        let claim_name = match claim {
            Some(claim) => Istr::new(&claim.claim_name),
            None if is_ephemeral => Istr::new(&format!("{pod}-{}", self.name)),
            None => return None,
        };
        Some(Volume {
            name: Istr::new(&self.name),
            claim_name,
            is_ephemeral,
        })
    }

    /// `None` where it is of no kind that has to be attached, or makes no sense.
    pub(super) fn inline(&self, namespace: &str) -> Option<InlineVolume> {
        let kinds = [
            (InTree::AwsElasticBlockStore, &self.aws_elastic_block_store),
            (InTree::AzureDisk, &self.azure_disk),
            (InTree::AzureFile, &self.azure_file),
            (InTree::Cinder, &self.cinder),
            (InTree::GcePersistentDisk, &self.gce_persistent_disk),
            (InTree::PortworxVolume, &self.portworx_volume),
            (InTree::VsphereVolume, &self.vsphere_volume),
            (InTree::Fc, &self.fc),
            (InTree::Iscsi, &self.iscsi),
            (InTree::FlexVolume, &self.flex_volume),
        ];
        let (kind, source) = kinds.into_iter().find(|(_, source)| source.is_some())?;
        let source = source.as_ref()?;
        let namespace = match namespace {
            "" => "default",
            namespace => namespace,
        };
        let around = Around {
            name: &self.name,
            namespace,
            labels: None,
            resource_group: "",
            is_inline: true,
        };
        Some(InlineVolume {
            name: Istr::new(&self.name),
            unique_name: source.unique_name(kind, &around)?,
            is_shared: source.is_shared_inline(kind),
        })
    }

    fn take_source(&mut self, field: u32, value: Value<'_>) -> Result<(), Malformed> {
        let (kind, place) = match field {
            3 => (InTree::GcePersistentDisk, &mut self.gce_persistent_disk),
            4 => (
                InTree::AwsElasticBlockStore,
                &mut self.aws_elastic_block_store,
            ),
            8 => (InTree::Iscsi, &mut self.iscsi),
            12 => (InTree::FlexVolume, &mut self.flex_volume),
            13 => (InTree::Cinder, &mut self.cinder),
            17 => (InTree::Fc, &mut self.fc),
            18 => (InTree::AzureFile, &mut self.azure_file),
            20 => (InTree::VsphereVolume, &mut self.vsphere_volume),
            22 => (InTree::AzureDisk, &mut self.azure_disk),
            24 => (InTree::PortworxVolume, &mut self.portworx_volume),
            _ => return Ok(()),
        };
        *place = Some(Box::new(InTreeSource::from_message(kind, value)?));
        Ok(())
    }
}

impl<'a> Message<'a> for WireVolume<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = value.text()?.into(),
            2 => {
                let Source(fields) = value.message()?;
                for (field, value) in fields {
                    match field {
                        10 => self.persistent_volume_claim = Some(value.message()?),
                        29 => self.ephemeral = Some(IgnoredAny),
                        field => self.take_source(field, value)?,
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Where a volume comes from, which JSON has in the volume itself.
#[derive(Default)]
struct Source<'a>(Vec<(u32, Value<'a>)>);

impl<'a> Message<'a> for Source<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.0.push((field, value));
        Ok(())
    }
}

impl<'a> Message<'a> for Claim<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.claim_name = value.text()?.into();
        }
        Ok(())
    }
}
