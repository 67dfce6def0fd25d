//! Volumes that Kubernetes once attached itself, and what the CSI drivers that have taken over call them.

use serde::Deserialize;

use crate::intern::Istr;
use crate::labels::LabelSet;
use crate::protobuf::{Malformed, Message, Value};

/// A kind of volume that is built in, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTree {
    AwsElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GcePersistentDisk,
    PortworxVolume,
    VsphereVolume,
    Fc,
    Iscsi,
    FlexVolume,
}

/// What was built into Kubernetes once, and the drivers that have taken over, all of them by 1.33.
const TAKEN_OVER: [(InTree, &str, &str); 7] = [
    (
        InTree::AwsElasticBlockStore,
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
    ),
    (
        InTree::AzureDisk,
        "kubernetes.io/azure-disk",
        "disk.csi.azure.com",
    ),
    (
        InTree::AzureFile,
        "kubernetes.io/azure-file",
        "file.csi.azure.com",
    ),
    (
        InTree::Cinder,
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
    ),
    (
        InTree::GcePersistentDisk,
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
    ),
    (
        InTree::PortworxVolume,
        "kubernetes.io/portworx-volume",
        "pxd.portworx.com",
    ),
    (
        InTree::VsphereVolume,
        "kubernetes.io/vsphere-volume",
        "csi.vsphere.vmware.com",
    ),
];

/// The driver that does the work of a provisioner that was built in.
pub fn migrated_to(provisioner: &str) -> Option<&'static str> {
    let found = TAKEN_OVER.iter().find(|(_, name, _)| *name == provisioner);
    found.map(|(_, _, driver)| *driver)
}

impl InTree {
    /// The name of what was built in, and of the driver that has taken over; none where nobody has.
    pub fn taken_over(self) -> Option<(&'static str, &'static str)> {
        let found = TAKEN_OVER.iter().find(|(kind, _, _)| *kind == self);
        found.map(|(_, name, driver)| (*name, *driver))
    }
}

/// What names a volume of any of these kinds: each has some of the fields.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct InTreeSource {
    #[serde(rename = "volumeID")]
    volume_id: Istr,
    pd_name: Istr,
    #[serde(rename = "diskURI")]
    disk_uri: Istr,
    kind: Option<Istr>,
    secret_name: Istr,
    secret_namespace: Option<Istr>,
    share_name: Istr,
    volume_path: Istr,
    read_only: bool,
    target_portal: Istr,
    iqn: Istr,
    lun: Option<i32>,
    #[serde(rename = "targetWWNs", deserialize_with = "crate::meta::or_default")]
    target_wwns: Vec<Istr>,
    #[serde(deserialize_with = "crate::meta::or_default")]
    wwids: Vec<Istr>,
    driver: Istr,
}

/// What a name depends on besides the source.
pub(super) struct Around<'a> {
    /// The PersistentVolume's name, or that of the volume within its pod.
    pub name: &'a str,
    /// Where its claim is, or its pod.
    pub namespace: &'a str,
    pub labels: Option<&'a LabelSet>,
    pub resource_group: &'a str,
    pub is_inline: bool,
}

impl InTreeSource {
    /// What lists of attached volumes call it; none where it makes no sense.
    pub(super) fn unique_name(&self, kind: InTree, around: &Around<'_>) -> Option<Istr> {
        let name = match kind.taken_over() {
            Some((_, driver)) => {
                let handle = self.handle(kind, around)?;
                format!("{CSI_PREFIX}{driver}^{handle}")
            }
            None => self.built_in_name(kind)?,
        };
        Some(Istr::new(&name))
    }

    fn built_in_name(&self, kind: InTree) -> Option<String> {
        // Go prints a list of texts like this.
        let list = |names: &[Istr]| {
            let names: Vec<&str> = names.iter().map(Istr::as_str).collect();
            format!("[{}]", names.join(" "))
        };
        Some(match (kind, self.lun) {
            (InTree::Fc, Some(lun)) if !self.target_wwns.is_empty() => {
                format!("kubernetes.io/fc/{}:{lun}", list(&self.target_wwns))
            }
            (InTree::Fc, _) if !self.wwids.is_empty() => {
                format!("kubernetes.io/fc/{}", list(&self.wwids))
            }
            (InTree::Iscsi, lun) => {
                let (portal, iqn, lun) = (&self.target_portal, &self.iqn, lun.unwrap_or(0));
                format!("kubernetes.io/iscsi/{portal}:{iqn}:{lun}")
            }
            (InTree::FlexVolume, _) => format!("flexvolume:{}", self.driver),
            _ => return None,
        })
    }

    /// What the driver calls the volume.
    fn handle(&self, kind: InTree, around: &Around<'_>) -> Option<String> {
        let handle = match kind {
            InTree::AwsElasticBlockStore => aws_handle(&self.volume_id)?,
            InTree::AzureDisk => {
                let kind = self.kind.as_deref().unwrap_or("Managed");
                let is_managed = kind.eq_ignore_ascii_case("managed");
                is_managed.then(|| self.disk_uri.to_string())?
            }
            InTree::AzureFile => self.azure_file_handle(around)?,
            InTree::GcePersistentDisk => gce_handle(&self.pd_name, around)?,
            InTree::VsphereVolume => self.volume_path.to_string(),
            _ => self.volume_id.to_string(),
        };
        Some(handle)
    }

    fn azure_file_handle(&self, around: &Around<'_>) -> Option<String> {
        let secret = &*self.secret_name;
        let account = secret.strip_prefix("azure-storage-account-");
        let account = account.and_then(|account| account.strip_suffix("-secret"));
        let account = account.filter(|name| !name.is_empty()).unwrap_or(secret);
        let namespace = match &self.secret_namespace {
            Some(namespace) if !around.is_inline => namespace,
            _ => around.namespace,
        };
        let group = around.resource_group;
        (!namespace.is_empty()).then(|| {
            let (share, name) = (&self.share_name, around.name);
            format!("{group}#{account}#{share}#{name}#{namespace}")
        })
    }

    /// May several nodes have a volume that stands in a pod itself?
    pub(super) fn is_shared_inline(&self, kind: InTree) -> bool {
        match kind {
            InTree::AzureFile | InTree::Fc | InTree::Iscsi | InTree::FlexVolume => true,
            InTree::GcePersistentDisk | InTree::PortworxVolume => self.read_only,
            _ => false,
        }
    }

    /// Reads it from a protobuf message: the numbers of fields differ by kind.
    pub(super) fn from_message(kind: InTree, value: Value<'_>) -> Result<InTreeSource, Malformed> {
        let Fields(fields) = value.message()?;
        let mut source = InTreeSource::default();
        for (field, value) in fields {
            source.take(kind, field, value)?;
        }
        Ok(source)
    }

    fn take(&mut self, kind: InTree, field: u32, value: Value<'_>) -> Result<(), Malformed> {
        let text = || value.text().map(Istr::new);
        match (kind, field) {
            (InTree::GcePersistentDisk, 1) => self.pd_name = text()?,
            (InTree::GcePersistentDisk, 4)
            | (InTree::AwsElasticBlockStore, 4)
            | (InTree::Cinder | InTree::PortworxVolume | InTree::AzureFile, 3) => {
                self.read_only = value.flag()?;
            }
            (InTree::AwsElasticBlockStore | InTree::Cinder | InTree::PortworxVolume, 1) => {
                self.volume_id = text()?;
            }
            (InTree::AzureFile, 1) => self.secret_name = text()?,
            (InTree::AzureFile, 2) => self.share_name = text()?,
            (InTree::AzureDisk, 2) => self.disk_uri = text()?,
            (InTree::AzureDisk, 6) => self.kind = Some(text()?),
            (InTree::VsphereVolume, 1) => self.volume_path = text()?,
            (InTree::Iscsi, 1) => self.target_portal = text()?,
            (InTree::Iscsi, 2) => self.iqn = text()?,
            (InTree::Iscsi, 3) | (InTree::Fc, 2) => self.lun = i32::try_from(value.number()?).ok(),
            (InTree::Fc, 1) => self.target_wwns.push(text()?),
            (InTree::Fc, 5) => self.wwids.push(text()?),
            (InTree::FlexVolume, 1) => self.driver = text()?,
            _ => {}
        }
        Ok(())
    }
}

/// How the unique names of CSI volumes begin; driver and handle follow, with a `^` between.
pub const CSI_PREFIX: &str = "kubernetes.io/csi/";

/// The id within `aws://zone/id`, or the id itself.
fn aws_handle(id: &str) -> Option<String> {
    let Some(rest) = id.strip_prefix("aws://") else {
        return Some(id.to_owned());
    };
    let (_, path) = rest.split_once('/')?;
    let found = path.trim_matches('/');
    (found.starts_with("vol-") && !found.contains('/')).then(|| found.to_owned())
}

fn gce_handle(disk: &str, around: &Around<'_>) -> Option<String> {
    if around.is_inline {
        return Some(format!(
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{disk}"
        ));
    }
    let label = |key: &str| around.labels.and_then(|labels| labels.get(key));
    let zones = label("failure-domain.beta.kubernetes.io/zone").filter(|zone| !zone.is_empty());
    let zones = zones.or(label("topology.kubernetes.io/zone")).unwrap_or("");
    let zones: Vec<&str> = zones.split("__").collect();
    let (level, place) = match zones[..] {
        [""] => ("zones", "UNSPECIFIED".to_owned()),
        [zone] => ("zones", zone.to_owned()),
        _ => ("regions", region_of(&zones)?),
    };
    Some(format!("projects/UNSPECIFIED/{level}/{place}/disks/{disk}"))
}

/// The one region of these zones; `europe-west1-b` is in `europe-west1`.
fn region_of(zones: &[&str]) -> Option<String> {
    let region = |zone: &&str| {
        let parts: Vec<&str> = zone.split('-').collect();
        (parts.len() == 3).then(|| parts[..2].join("-"))
    };
    let first = region(zones.first()?)?;
    let is_same = zones
        .iter()
        .all(|zone| region(zone).as_ref() == Some(&first));
    is_same.then_some(first)
}

/// All fields of a message, unread.
#[derive(Default)]
struct Fields<'a>(Vec<(u32, Value<'a>)>);

impl<'a> Message<'a> for Fields<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.0.push((field, value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn name(kind: InTree, source: Json, labels: &[(&str, &str)]) -> String {
        let source: InTreeSource = serde_json::from_value(source).unwrap();
        let labels = LabelSet::from_iter(labels.iter().copied());
        let around = Around {
            name: "pv",
            namespace: "shop",
            labels: Some(&labels),
            resource_group: "",
            is_inline: false,
        };
        let name = source.unique_name(kind, &around);
        name.map_or_else(|| "-".to_owned(), |name| name.to_string())
    }

    /// Upstream: TestTranslateInTreePVToCSI and its likes, TestGetVolumeName of FC and iSCSI.
    #[test]
    fn volumes_have_the_names_that_their_drivers_give_them() {
        let ebs = |id: &str| name(InTree::AwsElasticBlockStore, json!({"volumeID": id}), &[]);
        assert_eq!(ebs("vol-1"), "kubernetes.io/csi/ebs.csi.aws.com^vol-1");
        assert_eq!(
            ebs("aws://eu-1a/vol-1"),
            "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
        );
        assert_eq!(
            ebs("aws:///vol-1"),
            "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
        );
        assert_eq!(ebs("aws://eu-1a/disk-1"), "-");
        let gce = |zones: &str| {
            name(
                InTree::GcePersistentDisk,
                json!({"pdName": "d"}),
                &[("topology.kubernetes.io/zone", zones)],
            )
        };
        let disk = |place: &str| {
            format!("kubernetes.io/csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/{place}/disks/d")
        };
        assert_eq!(gce("europe-west1-b"), disk("zones/europe-west1-b"));
        assert_eq!(
            gce("europe-west1-b__europe-west1-c"),
            disk("regions/europe-west1")
        );
        assert_eq!(gce("europe-west1-b__us-west1-c"), "-");
        assert_eq!(gce(""), disk("zones/UNSPECIFIED"));
        let azure = |kind: Json| {
            name(
                InTree::AzureDisk,
                json!({"diskURI": "/d", "kind": kind}),
                &[],
            )
        };
        assert_eq!(
            azure(json!("managed")),
            "kubernetes.io/csi/disk.csi.azure.com^/d"
        );
        assert_eq!(azure(json!("Dedicated")), "-");
        assert_eq!(
            name(
                InTree::AzureFile,
                json!({"secretName": "azure-storage-account-acc-secret", "shareName": "s"}),
                &[]
            ),
            "kubernetes.io/csi/file.csi.azure.com^#acc#s#pv#shop"
        );
        assert_eq!(
            name(InTree::Fc, json!({"targetWWNs": ["a", "b"], "lun": 2}), &[]),
            "kubernetes.io/fc/[a b]:2"
        );
        assert_eq!(
            name(InTree::Fc, json!({"wwids": ["w"]}), &[]),
            "kubernetes.io/fc/[w]"
        );
        assert_eq!(name(InTree::Fc, json!({}), &[]), "-");
        assert_eq!(
            name(
                InTree::Iscsi,
                json!({"targetPortal": "10.0.0.1:3260", "iqn": "iqn.x", "lun": 1}),
                &[]
            ),
            "kubernetes.io/iscsi/10.0.0.1:3260:iqn.x:1"
        );
    }
}
