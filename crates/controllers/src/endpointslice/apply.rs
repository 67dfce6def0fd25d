//! Writes what was planned; decides nothing.

use api::kinds::{AddressType, EndpointSlice, LAST_CHANGE_TRIGGER_TIME, Service};
use api::{LabelSet, Meta, Resource};
use runtime::Error;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::EndpointSlices;
use super::desired::{Wanted, endpoint};
use super::packing::Draft;
use super::plan::{FamilyPlan, Plan};
use super::snapshot::Snapshot;
use crate::service_endpoints::slices::{name_prefix, written_list};

/// What did not work, in upstream's words, and what the client said.
pub struct Failure {
    pub message: String,
    pub source: Option<client::Error>,
}

impl Failure {
    fn new(what: &str, service: &Service, error: client::Error) -> Failure {
        Failure {
            message: format!("{what} for Service {}: {error}", service.key()),
            source: Some(error),
        }
    }

    /// All of them in one line, each once.
    pub fn message(failures: &[Failure]) -> String {
        let mut messages: Vec<&str> = Vec::new();
        for failure in failures {
            if !messages.contains(&&*failure.message) {
                messages.push(&failure.message);
            }
        }
        match messages.as_slice() {
            [only] => (*only).to_owned(),
            _ => format!("[{}]", messages.join(", ")),
        }
    }

    pub fn into_error(failures: Vec<Failure>) -> Error {
        let message = Failure::message(&failures);
        let mut sources = failures.into_iter().filter_map(|failure| failure.source);
        match sources.next() {
            Some(error) => Error::Client(error),
            None => Error::Retry(message),
        }
    }
}

impl EndpointSlices {
    /// Writes one family after the other; what fails in one does not hold up the next.
    pub(super) async fn apply(&self, snapshot: &Snapshot, plan: &Plan<'_>) -> Vec<Failure> {
        let service = &snapshot.service;
        let mut failures = Vec::new();
        for family in &plan.families {
            failures.extend(family.desired.without_node.iter().map(|pod| Failure {
                message: format!(
                    "skipping Pod {} for Service {}: Node {} Not Found",
                    pod.metadata.name,
                    service.key(),
                    pod.node_name
                ),
                source: None,
            }));
            match self.apply_family(snapshot, family, &plan.labels).await {
                Ok(changed) => self.metrics.changed(service, plan.closeness, changed),
                Err(failure) => failures.push(failure),
            }
            self.emit(service, family.event.as_ref());
        }
        for number in &plan.other_families {
            if let Err(error) = self.slices.delete(&snapshot.slices[*number]).await {
                let name = &snapshot.slices[*number].metadata.name;
                failures.push(Failure::new(
                    &format!("error deleting {name} EndpointSlice"),
                    service,
                    error,
                ));
            }
        }
        failures
    }

    /// How many slices were written.
    async fn apply_family(
        &self,
        snapshot: &Snapshot,
        plan: &FamilyPlan<'_>,
        labels: &LabelSet,
    ) -> Result<usize, Failure> {
        let service = &snapshot.service;
        for draft in &plan.create {
            let body = body(snapshot, plan, draft, labels);
            match self.slices.create(&service.key(), body).await {
                // Creates will go on failing until all is gone.
                Err(error) if error.is_namespace_terminating() => return Ok(0),
                Err(error) => {
                    return Err(Failure::new(
                        "failed to create EndpointSlice",
                        service,
                        error,
                    ));
                }
                Ok(()) => {}
            }
        }
        for draft in &plan.update {
            let Some(slice) = draft.slice.map(|number| &snapshot.slices[number]) else {
                continue;
            };
            let body = body(snapshot, plan, draft, labels);
            if let Err(error) = self.slices.update(&service.key(), slice, body).await {
                let what = format!("failed to update {} EndpointSlice", slice.metadata.name);
                return Err(Failure::new(&what, service, error));
            }
        }
        for number in &plan.delete {
            let slice = &snapshot.slices[*number];
            if let Err(error) = self.slices.delete(slice).await {
                let what = format!("failed to delete {} EndpointSlice", slice.metadata.name);
                return Err(Failure::new(&what, service, error));
            }
        }
        Ok(plan.create.len() + plan.update.len() + plan.delete.len())
    }
}

/// A slice as it is written.
fn body(snapshot: &Snapshot, plan: &FamilyPlan<'_>, draft: &Draft, labels: &LabelSet) -> String {
    let held = draft.slice.map(|number| &*snapshot.slices[number]);
    let metadata = match held {
        Some(slice) if !draft.replaces => json!(kept_metadata(snapshot, &slice.metadata, labels)),
        held => new_metadata(snapshot, held, labels),
    };
    let written = Written {
        api_version: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata,
        address_type: plan.family.as_str(),
        endpoints: written_list(&draft.members).map(|_| Endpoints {
            snapshot,
            family: plan.family,
            wanted: &plan.desired.endpoints,
            draft,
        }),
        ports: written_list(&draft.ports),
    };
    serde_json::to_string(&written).unwrap_or_default()
}

fn kept_metadata(snapshot: &Snapshot, held: &Meta, labels: &LabelSet) -> Meta {
    let mut meta = held.clone();
    meta.labels = labels.clone();
    meta.annotations = match snapshot.triggered_at {
        Some(at) => meta
            .annotations
            .with(LAST_CHANGE_TRIGGER_TIME, &at.to_string()),
        None => meta
            .annotations
            .filtered(|key| key != LAST_CHANGE_TRIGGER_TIME),
    };
    meta
}

/// Of a new slice, or of one that takes the place of another.
fn new_metadata(snapshot: &Snapshot, held: Option<&EndpointSlice>, labels: &LabelSet) -> Value {
    let meta = &snapshot.service.metadata;
    let mut metadata = json!({
        "generateName": name_prefix(&meta.name), "namespace": meta.namespace, "labels": labels,
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Service", "name": meta.name, "uid": meta.uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    if let Some(at) = snapshot.triggered_at {
        metadata["annotations"] = json!({LAST_CHANGE_TRIGGER_TIME: at});
    }
    if let Some(held) = held {
        metadata["name"] = json!(held.metadata.name);
        metadata["resourceVersion"] = json!(held.metadata.resource_version.to_string());
    }
    metadata
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Value,
    address_type: &'static str,
    endpoints: Option<Endpoints<'a>>,
    ports: Option<&'a [api::kinds::EndpointPort]>,
}

/// The endpoints of a draft, made one after the other as they are written.
struct Endpoints<'a> {
    snapshot: &'a Snapshot,
    family: AddressType,
    wanted: &'a [Wanted<'a>],
    draft: &'a Draft,
}

impl Serialize for Endpoints<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Draft { members, hints, .. } = self.draft;
        let mut list = serializer.serialize_seq(Some(members.len()))?;
        for (member, hints) in members.iter().zip(hints) {
            let pod = self.wanted[*member as usize].pod;
            let mut endpoint = endpoint(self.snapshot, pod, self.family);
            endpoint.hints = hints.clone();
            list.serialize_element(&endpoint)?;
        }
        list.end()
    }
}
