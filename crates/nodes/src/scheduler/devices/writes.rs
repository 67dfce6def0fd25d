//! What is written to claims before a pod is bound: the finalizer, the devices, and the pod that may use them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Resource;
use api::kinds::CLAIM_DELETE_PROTECTION;
use api::node_affinity::{NodeSelector, NodeSelectorTerm};
use bytes::Bytes;
use client::{Client, Error, Patch};
use serde_json::{Value, json};

use super::allocate::{Picks, request_name};
use super::{Devices, consumer};
use crate::devices::{DeviceId, ResourceClaim};
use crate::pod::Pod;

/// One claim that a pod needs.
#[derive(Debug, PartialEq)]
pub(in super::super) struct ClaimWrite {
    pub(super) claim: Arc<ResourceClaim>,
    /// What `status.allocation` is to be; none where it is there.
    pub(super) allocation: Option<Value>,
    pub(super) devices: Vec<DeviceId>,
}

impl ClaimWrite {
    pub(super) fn reserving(claim: &Arc<ResourceClaim>) -> ClaimWrite {
        ClaimWrite {
            claim: claim.clone(),
            allocation: None,
            devices: Vec::new(),
        }
    }

    pub(super) fn allocating(
        devices: &dyn Devices,
        claim: &Arc<ResourceClaim>,
        picks: &Picks,
    ) -> ClaimWrite {
        let requests = &claim.spec.devices.requests;
        let results: Vec<Value> = picks
            .devices
            .iter()
            .map(|picked| {
                let (request, id) = (&requests[picked.request], &picked.device.id);
                let choice = &request.choices()[picked.choice];
                let mut result = json!({
                    "request": request_name(request, picked.choice),
                    "driver": id.driver, "pool": id.pool, "device": id.device,
                });
                if choice.admin_access {
                    result["adminAccess"] = json!(true);
                }
                if !choice.tolerations.is_empty() {
                    result["tolerations"] = json!(choice.tolerations);
                }
                result
            })
            .collect();
        let mut allocation = json!({"devices": {"results": results}});
        let config = config(devices, claim, picks);
        if !config.is_empty() {
            allocation["devices"]["config"] = json!(config);
        }
        if let Some(selector) = node_selector(picks) {
            allocation["nodeSelector"] = selector;
        }
        let exclusive = picks.devices.iter().filter(|picked| {
            let request = &requests[picked.request];
            !request.choices()[picked.choice].admin_access
        });
        ClaimWrite {
            claim: claim.clone(),
            devices: exclusive.map(|picked| picked.device.id.clone()).collect(),
            allocation: Some(allocation),
        }
    }

    /// Writes it on top of the claim as it was seen: who comes too late gets a conflict.
    pub(in super::super) async fn apply(
        &self,
        client: &Client,
        pod: &Pod,
        now: api::Time,
    ) -> Result<(), Error> {
        let meta = &self.claim.metadata;
        let mut revision = meta.resource_version;
        if self.allocation.is_some() && !meta.has_finalizer(CLAIM_DELETE_PROTECTION) {
            let mut finalizers: Vec<&str> = meta.finalizers.iter().map(|held| &**held).collect();
            finalizers.push(CLAIM_DELETE_PROTECTION);
            let body = json!({"metadata": {
                "uid": meta.uid, "resourceVersion": revision.to_string(), "finalizers": finalizers,
            }});
            let answer = patch(client, &self.claim, None, &body).await?;
            let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
            let answered = answer["metadata"]["resourceVersion"].as_str();
            revision = answered
                .and_then(|text| text.parse().ok())
                .unwrap_or(revision);
        }
        let reserved = self
            .claim
            .status
            .reserved_for
            .iter()
            .map(|held| json!(held));
        let reserved: Vec<Value> = reserved.chain([consumer(pod)]).collect();
        let mut status = json!({"reservedFor": reserved});
        if let Some(allocation) = &self.allocation {
            status["allocation"] = allocation.clone();
            status["allocation"]["allocationTimestamp"] = json!(now);
        }
        let body = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": revision.to_string()},
            "status": status,
        });
        patch(client, &self.claim, Some("status"), &body).await?;
        Ok(())
    }

    pub(in super::super) fn uid(&self) -> &api::Uid {
        &self.claim.metadata.uid
    }
}

async fn patch(
    client: &Client,
    claim: &ResourceClaim,
    subresource: Option<&str>,
    body: &Value,
) -> Result<Bytes, Error> {
    let patch = Patch::Merge(body.to_string().into());
    let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
    let kind = &ResourceClaim::TYPE;
    client
        .patch(kind, namespace, name, subresource, &patch)
        .await
}

/// Parameters for drivers: those of the classes, each class once, then those of the claim.
fn config(devices: &dyn Devices, claim: &ResourceClaim, picks: &Picks) -> Vec<Value> {
    let wanted = &claim.spec.devices;
    let mut config: Vec<Value> = Vec::new();
    let mut of_class: BTreeMap<&str, std::ops::Range<usize>> = BTreeMap::new();
    for (request, choice) in wanted.requests.iter().zip(&picks.choices) {
        let name = json!(request_name(request, *choice));
        let class = &*request.choices()[*choice].device_class_name;
        if let Some(known) = of_class.get(class) {
            for entry in &mut config[known.clone()] {
                entry["requests"]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|list| list.push(name.clone()));
            }
            continue;
        }
        let start = config.len();
        let found = devices.class(class);
        for parameters in found.iter().flat_map(|class| &class.spec.config) {
            config.push(sourced(parameters, "FromClass", json!([name])));
        }
        of_class.insert(class, start..config.len());
    }
    for parameters in &wanted.config {
        let named = parameters["requests"].as_array();
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            config.push(sourced(parameters, "FromClaim", Value::Null));
            continue;
        };
        for (request, choice) in wanted.requests.iter().zip(&picks.choices) {
            let full = request_name(request, *choice);
            let is_meant = |name: &Value| *name == *request.name || *name == *full;
            if named.iter().any(is_meant) {
                config.push(sourced(parameters, "FromClaim", json!(named)));
            }
        }
    }
    config
}

fn sourced(parameters: &Value, source: &str, requests: Value) -> Value {
    let mut entry = parameters.clone();
    entry["source"] = json!(source);
    match (requests, entry.as_object_mut()) {
        (Value::Null, Some(entry)) => {
            entry.remove("requests");
        }
        (requests, Some(entry)) => {
            entry.insert("requests".to_owned(), requests);
        }
        (_, None) => {}
    }
    entry
}

/// Where the devices can be used: on the one node that a device is bound to, or wherever all selectors hold.
fn node_selector(picks: &Picks) -> Option<Value> {
    let mut term = NodeSelectorTerm::default();
    let (mut fields, mut expressions) = (Vec::new(), Vec::new());
    for picked in &picks.devices {
        let place = picked.device.place();
        if let Some(name) = &place.node_name {
            return Some(json!({"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [name]},
            ]}]}));
        }
        let terms = place.node_selector.iter();
        for given in terms.flat_map(|selector| selector.node_selector_terms.iter()) {
            for (from, into) in [
                (&given.match_fields, &mut fields),
                (&given.match_expressions, &mut expressions),
            ] {
                for requirement in from.iter() {
                    if !into.contains(requirement) {
                        into.push(requirement.clone());
                    }
                }
            }
        }
    }
    if fields.is_empty() && expressions.is_empty() {
        return None;
    }
    term.match_fields = fields.into();
    term.match_expressions = expressions.into();
    let node_selector_terms = [term].into();
    Some(json!(NodeSelector {
        node_selector_terms
    }))
}
