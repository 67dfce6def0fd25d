//! The claim that is created from a template. Pure.

use api::json::Node;
use api::kinds::{POD_CLAIM_NAME, Pod, PodGroup, ResourceClaim, ResourceClaimTemplate};
use api::{Resource, ResourceType};
use serde_json::json;

use super::plan::Requester;

/// Leaves room for a hyphen and five random characters in a name of 63.
const BASE_LENGTH_MAX: usize = 57;

/// What the template says, in the hands of who asked for it.
pub fn claim_body(requester: Requester<'_>, entry: &str, template: &ResourceClaimTemplate) -> Node {
    let owner: ResourceType = match requester {
        Requester::Pod { .. } => Pod::TYPE,
        Requester::Group(_) => PodGroup::TYPE,
    };
    let meta = requester.meta();
    let owners = json!([{
        "apiVersion": owner.api_version(), "kind": owner.kind, "name": meta.name, "uid": meta.uid,
        "controller": true,
    }]);
    let given = template.spec.node();
    let mut body = Node::object();
    body.set(
        &["apiVersion"],
        Node::text(&ResourceClaim::TYPE.api_version()),
    );
    body.set(&["kind"], Node::text(&ResourceClaim::TYPE.kind));
    let base = name_base(&meta.name, entry);
    body.set(&["metadata", "generateName"], Node::text(&base));
    body.set(&["metadata", "ownerReferences"], Node::of(&owners));
    for path in [["metadata", "labels"], ["metadata", "annotations"]] {
        if let Some(given) = given.get(&path).filter(|given| !given.is_null()) {
            body.set(&path, given.clone());
        }
    }
    let annotation = ["metadata", "annotations", POD_CLAIM_NAME];
    body.set(&annotation, Node::text(entry));
    let spec = given.get(&["spec"]).cloned();
    body.set(&["spec"], spec.unwrap_or_else(Node::object));
    body
}

/// Both names are in it: where there is no room for all of them, each gets its share.
fn name_base(requester: &str, entry: &str) -> String {
    let whole = format!("{requester}-{entry}-");
    if whole.len() <= BASE_LENGTH_MAX {
        return whole;
    }
    let share = |name: &str| {
        // UPSTREAM: the API server adds no hyphen, so that the last character of the base touches the random ones.
        let end = name.len() * BASE_LENGTH_MAX / whole.len();
        name[..name.floor_char_boundary(end)].to_owned()
    };
    format!("{}-{}", share(requester), share(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_share_the_room() {
        assert_eq!(name_base("web", "gpu"), "web-gpu-");
        let (pod, claim) = ("p".repeat(63), "c".repeat(63));
        let base = name_base(&pod, &claim);
        assert_eq!(base, format!("{}-{}", "p".repeat(28), "c".repeat(28)));
        let base = name_base(&"p".repeat(253), "gpu");
        assert_eq!(base, format!("{}-", "p".repeat(55)));
        assert!(name_base(&"é".repeat(60), &"é".repeat(60)).len() <= BASE_LENGTH_MAX);
    }
}
