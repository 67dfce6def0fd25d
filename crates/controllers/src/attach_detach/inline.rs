//! Volumes that stand in pods, of kinds that CSI drivers have taken over: what the driver is told. Pure.

use api::kinds::CSI_PREFIX;
use serde_json::{Map, Value, json};

use super::names::csi_parts;

/// The spec of a PersistentVolume that says the same as this volume of a pod, whose unique name is known.
pub fn spec_of(volume: &Value, unique_name: &str, namespace: &str) -> Option<Value> {
    debug_assert!(unique_name.starts_with(CSI_PREFIX));
    let (driver, handle) = csi_parts(unique_name)?;
    let mut csi = Map::new();
    csi.insert("driver".into(), json!(driver));
    csi.insert("volumeHandle".into(), json!(handle));
    let mut attributes = Map::new();
    let mut mode = "ReadWriteOnce";
    let field = |source: &Value, name: &str| source[name].as_str().unwrap_or("").to_owned();
    let is_read_only = |source: &Value| source["readOnly"].as_bool().unwrap_or(false);
    let take_over = |csi: &mut Map<String, Value>, source: &Value| {
        if is_read_only(source) {
            csi.insert("readOnly".into(), json!(true));
        }
        if !field(source, "fsType").is_empty() {
            csi.insert("fsType".into(), source["fsType"].clone());
        }
    };
    let partition = |source: &Value| source["partition"].as_i64().unwrap_or(0);
    let source = |name: &str| Some(&volume[name]).filter(|source| source.is_object());
    let mut volume_mode = None;
    if let Some(ebs) = source("awsElasticBlockStore") {
        take_over(&mut csi, ebs);
        attributes.insert("partition".into(), json!(partition(ebs).to_string()));
    } else if let Some(disk) = source("azureDisk") {
        take_over(&mut csi, disk);
        attributes.insert("kind".into(), json!("Managed"));
        if !field(disk, "cachingMode").is_empty() {
            attributes.insert("cachingmode".into(), disk["cachingMode"].clone());
        }
        if disk["fsType"].is_string() {
            attributes.insert("fstype".into(), disk["fsType"].clone());
        }
    } else if let Some(file) = source("azureFile") {
        mode = "ReadWriteMany";
        take_over(&mut csi, file);
        attributes.insert("sharename".into(), json!(field(file, "shareName")));
        let secret = json!({"name": field(file, "secretName"), "namespace": namespace});
        csi.insert("nodeStageSecretRef".into(), secret);
    } else if let Some(cinder) = source("cinder") {
        take_over(&mut csi, cinder);
    } else if let Some(disk) = source("gcePersistentDisk") {
        take_over(&mut csi, disk);
        let number = match partition(disk) {
            0 => String::new(),
            number => number.to_string(),
        };
        attributes.insert("partition".into(), json!(number));
        mode = read_mode(is_read_only(disk));
        volume_mode = Some("Filesystem");
    } else if let Some(portworx) = source("portworxVolume") {
        mode = read_mode(is_read_only(portworx));
        if !field(portworx, "fsType").is_empty() {
            csi.insert("fsType".into(), portworx["fsType"].clone());
        }
    } else if let Some(vsphere) = source("vsphereVolume") {
        take_over(&mut csi, vsphere);
        if !field(vsphere, "storagePolicyName").is_empty() {
            let policy = vsphere["storagePolicyName"].clone();
            attributes.insert("storagepolicyname".into(), policy);
        }
    } else {
        return None;
    }
    if !attributes.is_empty() {
        csi.insert("volumeAttributes".into(), Value::Object(attributes));
    }
    let mut spec = json!({"accessModes": [mode], "csi": csi});
    if let Some(mode) = volume_mode {
        spec["volumeMode"] = json!(mode);
    }
    Some(spec)
}

fn read_mode(is_read_only: bool) -> &'static str {
    match is_read_only {
        true => "ReadOnlyMany",
        false => "ReadWriteOnce",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(volume: Value, unique_name: &str, expected: Expect) {
        let spec = spec_of(&volume, unique_name, "shop");
        let text = spec.map_or_else(|| "-".to_owned(), |spec| spec.to_string());
        expected.assert_eq(&text);
    }

    /// Upstream: TestTranslateInTreeInlineVolumeToCSI of each kind.
    #[test]
    fn a_volume_in_a_pod_is_told_as_a_persistent_volume() {
        check(
            json!({"awsElasticBlockStore": {"volumeID": "vol-1", "partition": 1, "readOnly": true}}),
            "kubernetes.io/csi/ebs.csi.aws.com^vol-1",
            expect![[
                r#"{"accessModes":["ReadWriteOnce"],"csi":{"driver":"ebs.csi.aws.com","readOnly":true,"volumeAttributes":{"partition":"1"},"volumeHandle":"vol-1"}}"#
            ]],
        );
        check(
            json!({"gcePersistentDisk": {"pdName": "d", "readOnly": true}}),
            "kubernetes.io/csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            expect![[
                r#"{"accessModes":["ReadOnlyMany"],"csi":{"driver":"pd.csi.storage.gke.io","readOnly":true,"volumeAttributes":{"partition":""},"volumeHandle":"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"},"volumeMode":"Filesystem"}"#
            ]],
        );
        check(
            json!({"azureFile": {"secretName": "s", "shareName": "sh"}}),
            "kubernetes.io/csi/file.csi.azure.com^#s#sh#v#shop",
            expect![[
                r##"{"accessModes":["ReadWriteMany"],"csi":{"driver":"file.csi.azure.com","nodeStageSecretRef":{"name":"s","namespace":"shop"},"volumeAttributes":{"sharename":"sh"},"volumeHandle":"#s#sh#v#shop"}}"##
            ]],
        );
        check(
            json!({"azureDisk": {"diskURI": "/d", "fsType": "ext4", "cachingMode": "None"}}),
            "kubernetes.io/csi/disk.csi.azure.com^/d",
            expect![[
                r#"{"accessModes":["ReadWriteOnce"],"csi":{"driver":"disk.csi.azure.com","fsType":"ext4","volumeAttributes":{"cachingmode":"None","fstype":"ext4","kind":"Managed"},"volumeHandle":"/d"}}"#
            ]],
        );
        check(
            json!({"emptyDir": {}}),
            "kubernetes.io/csi/d^h",
            expect!["-"],
        );
    }
}
