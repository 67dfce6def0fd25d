//! What controllers read of VolumeAttachments, CSIDrivers and CSINodes.

use serde::Deserialize;

use super::persistent_volume::Csi;
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct VolumeAttachment {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: AttachmentSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: AttachmentStatus,
}

crate::view!(
    VolumeAttachment,
    ResourceType::cluster(
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment"
    )
);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    /// The driver that attaches.
    pub attacher: Istr,
    pub node_name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub source: AttachmentSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    pub persistent_volume_name: Option<Istr>,
    /// Of a volume that stands in a pod itself.
    pub inline_volume_spec: Option<InlineVolumeSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct InlineVolumeSpec {
    pub csi: Option<Csi>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentStatus {
    pub attached: bool,
    pub attach_error: Option<AttachmentError>,
    pub detach_error: Option<AttachmentError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct AttachmentError {
    #[serde(deserialize_with = "or_default")]
    pub message: Box<str>,
}

impl VolumeAttachment {
    pub fn is_attached(&self) -> bool {
        self.status.attached && !self.metadata.is_terminating()
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct CsiDriver {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: CsiDriverSpec,
}

crate::view!(
    CsiDriver,
    ResourceType::cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver")
);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct CsiDriverSpec {
    /// True unless the driver says otherwise.
    #[serde(rename = "attachRequired")]
    pub attach_required: Option<bool>,
    /// The driver can mount volumes with a label of SELinux.
    #[serde(rename = "seLinuxMount")]
    pub selinux_mount: Option<bool>,
}
