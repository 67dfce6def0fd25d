//! Whose slices are, and how they are labelled.

use api::LabelSet;
use api::kinds::{EndpointSlice, HEADLESS, MANAGED_BY, SERVICE_NAME, Service};

/// Who writes slices from pods, as their label says.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// Labels that a service's own do not replace.
const RESERVED: [&str; 3] = [SERVICE_NAME, MANAGED_BY, HEADLESS];

/// Was the slice made for this service, and not for a namesake that is gone?
pub fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice.metadata.owners.iter().any(|owner| {
        owner.uid == service.metadata.uid && owner.kind == "Service" && owner.api_version == "v1"
    })
}

/// The labels of the service's slices: its own, and the reserved ones.
pub fn slice_labels(service: &Service) -> LabelSet {
    let meta = &service.metadata;
    let mut labels = own_labels(&meta.labels);
    if service.is_headless() {
        labels = labels.with(HEADLESS, "");
    }
    labels
        .with(SERVICE_NAME, &meta.name)
        .with(MANAGED_BY, CONTROLLER)
}

/// Are the labels of the slice other than the service's? Reserved ones do not count.
pub fn is_relabeled(slice: &EndpointSlice, service: &Service) -> bool {
    own_labels(&slice.metadata.labels) != own_labels(&service.metadata.labels)
}

fn own_labels(labels: &LabelSet) -> LabelSet {
    match labels.iter().any(|(key, _)| RESERVED.contains(&key)) {
        true => labels.filtered(|key| !RESERVED.contains(&key)),
        false => labels.clone(),
    }
}
