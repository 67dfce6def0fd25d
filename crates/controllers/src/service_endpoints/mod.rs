//! What the controllers of endpoints have in common: which services select a pod, which port of
//! a pod a service means, since when endpoints have been due for a change, and what they have written themselves.

pub mod actions;
mod membership;
mod own_slices;
mod ports;
pub mod reckoning;
mod repack;
pub mod slices;
mod throttle;
mod trigger_time;
mod write_tracker;

#[cfg(test)]
mod tests;

pub use membership::Membership;
pub use own_slices::OwnSlices;
pub use ports::find_port;
pub use repack::repack;
pub use throttle::WriteThrottle;
pub use trigger_time::TriggerTimes;
pub use write_tracker::WriteTracker;

use std::borrow::Cow;

use api::decision::Line;
use api::kinds::{Pod, Service, TargetRef};

/// Is the pod one that a service could publish at all: it has an address, and has not finished?
pub fn has_endpoint(pod: &Pod) -> bool {
    !pod.is_finished() && !pod.status.ips.is_empty()
}

/// What an address of the pod points to.
pub fn target_ref(pod: &Pod) -> TargetRef<'_> {
    let meta = &pod.metadata;
    TargetRef {
        kind: Cow::Borrowed("Pod"),
        namespace: Cow::Borrowed(&meta.namespace),
        name: Cow::Borrowed(&meta.name),
        uid: Cow::Owned(meta.uid.to_string()),
        ..TargetRef::default()
    }
}

/// The name by which the pod is found under the service's own; empty if it has none.
pub fn hostname<'a>(pod: &'a Pod, service: &Service) -> &'a str {
    let meta = &service.metadata;
    let is_below = *pod.body.subdomain == *meta.name && pod.metadata.namespace == meta.namespace;
    match is_below {
        true => pod.hostname(),
        false => "",
    }
}

/// Names for a sentence: the first few, and how many more there are.
pub fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    /// Enough to see which ones are meant; a service may have thousands.
    const SHOWN: usize = 5;
    let more = names.len().saturating_sub(SHOWN);
    let mut text = names.take(SHOWN).collect::<Vec<&str>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// `1 slice`, `2 slices`
pub fn counted(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    }
}

/// Why a service has nothing to be published.
pub fn not_ours(service: &Service) -> Option<Line> {
    if service.is_external_name() {
        let line = Line::states("ExternalName", "publishes no endpoints");
        return Some(line.because("a service of type ExternalName is a name alone"));
    }
    service.spec.selector.is_empty().then(|| {
        Line::states("NoSelector", "publishes no endpoints")
            .because("the service has no selector")
            .hint("set spec.selector, or create EndpointSlices for it yourself")
    })
}
