//! A simulated device driver: publishes the devices that `--node-config` gives to nodes, and a class for them.
//!
//! One ResourceSlice for each node and driver, which is a pool of its own and owned by the Node, so that it goes with it;
//! one DeviceClass for each driver, of its name. What is there already stays as it is: users may have changed it.

use std::collections::{BTreeMap, BTreeSet};

use api::{Istr, Quantity, Resource, Taint};
use client::{Client, Error};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::NodeConfig;
use crate::devices::{DeviceClass, ResourceSlice};
use crate::node::Node;

/// The API server takes no more devices in one slice.
pub(crate) const DEVICES_MAX: usize = 128;

/// Devices of a node that are alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeviceConfig {
    pub driver: Istr,
    /// The first part of their names, before their numbers.
    pub name: Istr,
    pub count: usize,
    pub attributes: BTreeMap<Istr, AttributeConfig>,
    pub capacity: BTreeMap<Istr, Quantity>,
    pub taints: Vec<Taint>,
}

impl Default for DeviceConfig {
    fn default() -> DeviceConfig {
        DeviceConfig {
            driver: Istr::from("gpu.steersman.dev"),
            name: Istr::from("gpu"),
            count: 1,
            attributes: BTreeMap::new(),
            capacity: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

/// An attribute as people write it: `8`, `true`, `a100`, or `{version: 1.2.3}`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum AttributeConfig {
    Bool(bool),
    Int(i64),
    Version { version: Istr },
    String(Istr),
}

impl AttributeConfig {
    fn value(&self) -> Value {
        match self {
            AttributeConfig::Bool(flag) => json!({"bool": flag}),
            AttributeConfig::Int(number) => json!({"int": number}),
            AttributeConfig::String(text) => json!({"string": text}),
            AttributeConfig::Version { version } => json!({"version": version}),
        }
    }
}

/// The slices of a node, one for each driver.
pub(crate) fn slices(node: &NodeConfig, uid: &str) -> Vec<Value> {
    let mut drivers: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for group in &node.devices {
        let held = drivers.entry(&group.driver).or_default();
        for _ in 0..group.count {
            let same = held.iter().filter(|device| device["group"] == *group.name);
            let number = same.count();
            held.push(device(group, number));
        }
    }
    let slices = drivers.into_iter().map(|(driver, mut devices)| {
        for device in &mut devices {
            device.as_object_mut().and_then(|fields| fields.remove("group"));
        }
        json!({
            "apiVersion": ResourceSlice::TYPE.api_version(), "kind": ResourceSlice::TYPE.kind,
            "metadata": {
                "name": format!("{}-{driver}", node.name),
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid, "controller": true,
                }],
            },
            "spec": {
                "driver": driver, "nodeName": node.name,
                "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        })
    });
    slices.collect()
}

/// With the name of its group, by which the next one is numbered.
fn device(group: &DeviceConfig, number: usize) -> Value {
    let attributes = group.attributes.iter();
    let attributes: BTreeMap<&str, Value> = attributes
        .map(|(name, attribute)| (&**name, attribute.value()))
        .collect();
    let capacity = group.capacity.iter();
    let capacity: BTreeMap<&str, Value> = capacity
        .map(|(name, amount)| (&**name, json!({"value": amount.to_string()})))
        .collect();
    let mut device = json!({"group": group.name, "name": format!("{}-{number}", group.name)});
    if !attributes.is_empty() {
        device["attributes"] = json!(attributes);
    }
    if !capacity.is_empty() {
        device["capacity"] = json!(capacity);
    }
    if !group.taints.is_empty() {
        device["taints"] = json!(group.taints);
    }
    device
}

fn class(driver: &str) -> Value {
    json!({
        "apiVersion": DeviceClass::TYPE.api_version(), "kind": DeviceClass::TYPE.kind,
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{driver}'")}}]},
    })
}

/// Publishes the devices of all nodes, and the classes for them.
pub(crate) async fn publish(client: &Client, nodes: &[NodeConfig]) -> Result<(), Error> {
    let mut drivers: BTreeSet<&str> = BTreeSet::new();
    for node in nodes.iter().filter(|node| !node.devices.is_empty()) {
        drivers.extend(node.devices.iter().map(|group| &*group.driver));
        let registered = match client.get_metadata(&Node::TYPE, "", &node.name).await {
            Ok(answer) => answer,
            // It was left out, or is gone by now.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        let registered: Value = serde_json::from_slice(&registered).unwrap_or_default();
        let uid = registered["metadata"]["uid"].as_str().unwrap_or_default();
        for slice in slices(node, uid) {
            create(client, &ResourceSlice::TYPE, &slice).await?;
        }
    }
    for driver in drivers {
        create(client, &DeviceClass::TYPE, &class(driver)).await?;
    }
    Ok(())
}

async fn create(client: &Client, kind: &api::ResourceType, object: &Value) -> Result<(), Error> {
    match client.create(kind, "", object.to_string()).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}
