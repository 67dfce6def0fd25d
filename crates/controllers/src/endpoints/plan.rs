//! What the Endpoints object of a service should say: pure.

use std::sync::Arc;

use api::kinds::{
    ENDPOINT_CONTROLLER, ENDPOINTS_MANAGED_BY, Endpoints, HEADLESS, LAST_CHANGE_TRIGGER_TIME, Pod,
    Service, Subset, digest_of,
};
use api::{LabelSet, Time};

use super::subsets::{count, subsets, truncate};

/// Says that there are more addresses than are stored.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";

pub struct Snapshot {
    pub service: Arc<Service>,
    /// The pods that its selector matches.
    pub pods: Vec<Arc<Pod>>,
    pub endpoints: Option<Arc<Endpoints>>,
    /// When what changes the endpoints happened.
    pub triggered_at: Option<Time>,
}

pub struct Plan<'a> {
    pub subsets: Vec<Subset<'a>>,
    /// How many addresses there would be if all could be stored.
    pub addresses: usize,
    pub is_truncated: bool,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Create,
    Update,
}

pub fn plan(snapshot: &Snapshot) -> Plan<'_> {
    let mut subsets = subsets(&snapshot.service, &snapshot.pods);
    let addresses = count(&subsets);
    let is_truncated = truncate(&mut subsets);
    let action = match &snapshot.endpoints {
        None => Action::Create,
        Some(held) if is_right(held, &snapshot.service, &subsets, is_truncated) => Action::Nothing,
        Some(_) => Action::Update,
    };
    Plan {
        subsets,
        addresses,
        is_truncated,
        action,
    }
}

/// Does it say this already?
fn is_right(
    held: &Endpoints,
    service: &Service,
    subsets: &[Subset<'_>],
    is_truncated: bool,
) -> bool {
    let annotated = held.metadata.annotation(OVER_CAPACITY);
    held.digest == digest_of(subsets)
        && annotated == is_truncated.then_some(TRUNCATED)
        && has_labels(&held.metadata.labels, &service.metadata.labels)
}

/// UPSTREAM: the label of headless services does not count, in neither of them.
fn has_labels(held: &LabelSet, wanted: &LabelSet) -> bool {
    let is_own = |key: &str| key != HEADLESS && key != ENDPOINTS_MANAGED_BY;
    held.get(ENDPOINTS_MANAGED_BY) == Some(ENDPOINT_CONTROLLER)
        && held.filtered(is_own) == wanted.filtered(is_own)
}

/// The labels of the service, and ours.
pub fn labels(service: &Service) -> LabelSet {
    let labels = &service.metadata.labels;
    let labels = match service.is_headless() {
        true => labels.with(HEADLESS, ""),
        false => labels.filtered(|key| key != HEADLESS),
    };
    labels.with(ENDPOINTS_MANAGED_BY, ENDPOINT_CONTROLLER)
}

/// The annotations that are there, with ours.
pub fn annotations(snapshot: &Snapshot, is_truncated: bool) -> LabelSet {
    let held = snapshot.endpoints.as_ref();
    let held = held.map_or_else(LabelSet::default, |held| held.metadata.annotations.clone());
    let ours = [LAST_CHANGE_TRIGGER_TIME, OVER_CAPACITY];
    let mut annotations = held.filtered(|key| !ours.contains(&key));
    if let Some(at) = snapshot.triggered_at {
        annotations = annotations.with(LAST_CHANGE_TRIGGER_TIME, &at.to_string());
    }
    if is_truncated {
        annotations = annotations.with(OVER_CAPACITY, TRUNCATED);
    }
    annotations
}
