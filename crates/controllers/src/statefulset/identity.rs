//! Who a pod of a StatefulSet is: its name, its ordinal, its claims. Pure.

use std::ops::Range;

use api::kinds::{Pod, StatefulSet};

/// Holds the pod's own name: what a Service for one single pod selects.
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Holds the pod's ordinal.
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Holds the name of the revision that the pod was made from.
pub(super) const REVISION: &str = "controller-revision-hash";

/// The set's name and the ordinal in a pod's name; no ordinal when the number is too large for one.
fn parent_and_ordinal(pod: &str) -> Option<(&str, Option<i32>)> {
    let (parent, digits) = pod.rsplit_once('-')?;
    let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| (parent, digits.parse().ok()))
}

pub(super) fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    parent_and_ordinal(&pod.metadata.name).is_some_and(|(parent, _)| *parent == *set.metadata.name)
}

/// The place that the pod has in its set.
///
/// None for a pod whose name has the right form but is not the one we would give: `web-01` must not
/// take the place of `web-1`.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let (parent, digits) = pod.metadata.name.rsplit_once('-')?;
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    let ours = *parent == *set.metadata.name && canonical;
    ours.then(|| digits.parse().ok()).flatten()
}

/// All ordinals that the set wants a pod for.
pub(super) fn ordinals(set: &StatefulSet) -> Range<i32> {
    let start = set.spec.ordinals.start;
    start..start.saturating_add(set.replicas().max(0))
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.metadata.name)
}

/// The names of the set's claim templates, which are the names of the volumes too.
pub(super) fn claim_templates(set: &StatefulSet) -> impl Iterator<Item = String> {
    set.spec.volume_claim_templates.iter().map(|template| {
        let name = template
            .get(&["metadata", "name"])
            .and_then(|name| name.as_str());
        name.unwrap_or_default().into_owned()
    })
}

pub(super) fn claim_name(set: &StatefulSet, template: &str, ordinal: i32) -> String {
    format!("{template}-{}-{ordinal}", set.metadata.name)
}

/// Does the pod carry the label that makes it reachable by name?
pub(super) fn identity_matches(pod: &Pod) -> bool {
    pod.metadata.labels.get(POD_NAME) == Some(&*pod.metadata.name)
}

/// Does each claim template have its volume in the pod?
pub(super) fn storage_matches(set: &StatefulSet, pod: &Pod, ordinal: i32) -> bool {
    claim_templates(set).all(|template| {
        let claim = claim_name(set, &template, ordinal);
        pod.volumes()
            .iter()
            .any(|volume| *volume.name == *template && *volume.claim_name == *claim)
    })
}

pub(super) fn revision(pod: &Pod) -> &str {
    pod.metadata.labels.get(REVISION).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Upstream: TestGetParentNameAndOrdinal, TestIsMemberOf.
    #[test]
    fn names_tell_parent_and_ordinal() {
        for (name, expected) in [
            ("web-0", Some(("web", Some(0)))),
            ("web-12", Some(("web", Some(12)))),
            ("my-web-3", Some(("my-web", Some(3)))),
            ("web-007", Some(("web", Some(7)))),
            ("web-99999999999", Some(("web", None))),
            ("web-x", None),
            ("web-", None),
            ("web", None),
            ("web--1", Some(("web-", Some(1)))),
            ("web-1x", None),
        ] {
            assert_eq!(parent_and_ordinal(name), expected, "{name}");
        }
    }
}
