//! What volumes and attachments are called, and the indexes that find them by it.

use std::fmt::Write;

use api::Istr;
use api::kinds::{CSI_PREFIX, PersistentVolume, Pod, VolumeAttachment};
use ring::digest::{SHA256, digest};
use runtime::{Index, IndexValue};

/// Driver and handle of a volume that a CSI driver attaches.
pub fn csi_parts(volume: &str) -> Option<(&str, &str)> {
    volume.strip_prefix(CSI_PREFIX)?.split_once('^')
}

/// Is this a volume that nobody has to attach, but that the lists of nodes name?
pub fn is_built_in(volume: &str) -> bool {
    volume.starts_with("kubernetes.io/fc/") || volume.starts_with("kubernetes.io/iscsi/")
}

/// A volume of an external program, which is never called.
pub fn flex_driver(volume: &str) -> Option<&str> {
    volume.strip_prefix("flexvolume:")
}

/// The plugin of a volume as metrics call it.
pub fn plugin_of(volume: &str) -> String {
    match csi_parts(volume) {
        Some((driver, _)) => format!("kubernetes.io/csi:{driver}"),
        None => {
            let parts: Vec<&str> = volume.splitn(3, '/').take(2).collect();
            parts.join("/")
        }
    }
}

/// The name of the one attachment of a volume to a node.
pub fn attachment_name(driver: &str, handle: &str, node: &str) -> String {
    let hash = digest(&SHA256, format!("{handle}{driver}{node}").as_bytes());
    let mut name = "csi-".to_owned();
    for byte in hash.as_ref() {
        // Writing to a text cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Volumes by what lists of attached volumes call them.
pub const BY_UNIQUE_NAME: Index<PersistentVolume> = Index {
    name: "unique-name",
    values: |volume, found| {
        if let Some(name) = volume.unique_name() {
            found(IndexValue::Text(name));
        }
    },
};

/// Pods by the volumes that stand in them.
pub const BY_INLINE_VOLUME: Index<Pod> = Index {
    name: "inline-volume",
    values: |pod, found| {
        for volume in pod.inline_volumes() {
            found(IndexValue::Text(volume.unique_name.clone()));
        }
    },
};

/// Pods with volumes that may have to be attached, by the nodes that they are on.
pub const BY_NODE: Index<Pod> = Index {
    name: "node-with-volumes",
    values: |pod, found| {
        let has_volumes = !pod.volumes().is_empty() || !pod.inline_volumes().is_empty();
        if has_volumes && !pod.node_name.is_empty() {
            found(IndexValue::Text(pod.node_name.clone()));
        }
    },
};

/// Attachments by the PersistentVolumes that they name.
pub const BY_VOLUME: Index<VolumeAttachment> = Index {
    name: "volume",
    values: |attachment, found| {
        if let Some(name) = &attachment.spec.source.persistent_volume_name {
            found(IndexValue::Text(name.clone()));
        }
    },
};

/// Attachments of volumes that stand in pods.
pub const BY_INLINE_SPEC: Index<VolumeAttachment> = Index {
    name: "inline-spec",
    values: |attachment, found| {
        if let Some(name) = inline_name(attachment) {
            found(IndexValue::Text(name));
        }
    },
};

pub const BY_ATTACHED_NODE: Index<VolumeAttachment> = Index {
    name: "node",
    values: |attachment, found| found(IndexValue::Text(attachment.spec.node_name.clone())),
};

pub fn inline_name(attachment: &VolumeAttachment) -> Option<Istr> {
    let spec = attachment.spec.source.inline_volume_spec.as_ref()?;
    Some(spec.csi.as_ref()?.unique_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_is_named_after_handle_driver_and_node() {
        // printf handledrivernode | sha256sum
        assert_eq!(
            attachment_name("driver", "handle", "node"),
            "csi-fdef298eb16db6fa42906ef1ff09a93a7f3028f8290cc9d71628ff91c237bfa7"
        );
    }

    #[test]
    fn names_tell_who_attaches() {
        let csi = "kubernetes.io/csi/d.example.com^a^b";
        assert_eq!(csi_parts(csi), Some(("d.example.com", "a^b")));
        assert_eq!(plugin_of(csi), "kubernetes.io/csi:d.example.com");
        let fc = "kubernetes.io/fc/[a b]:2";
        assert_eq!((csi_parts(fc), is_built_in(fc)), (None, true));
        assert_eq!(plugin_of(fc), "kubernetes.io/fc");
        assert_eq!(flex_driver("flexvolume:k8s/nfs"), Some("k8s/nfs"));
    }
}
