//! Revisions of StatefulSets and DaemonSets, and the patch that each of them holds.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::hash::fnv32;
use crate::json::{JsonError, Node};
use crate::meta::Meta;
use crate::names::safe_encode;
use crate::resource::ResourceType;
use crate::template::Template;

/// One revision of a StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ControllerRevision {
    #[serde(default)]
    pub metadata: Meta,
    #[serde(default)]
    pub data: RevisionData,
    #[serde(default)]
    pub revision: i64,
}

crate::view!(
    ControllerRevision,
    ResourceType::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision")
);

/// What a revision restores: a patch that replaces the pod template, as Go's encoder prints it.
///
/// Equal text means an equal revision, for us and for upstream's controller: a set survives a swap of
/// controller managers in either direction because both write and find the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RevisionData(Arc<str>);

/// Go reads numbers into floats before it prints them: whole numbers are exact up to here.
const EXACT_MAX: u64 = 1 << 53;

impl RevisionData {
    /// The patch that restores a template, see [`Template::revision`].
    pub(crate) fn restoring(mut template: Node) -> RevisionData {
        round_as_go_does(&mut template);
        template.set(&["$patch"], Node::text("replace"));
        let mut patch = Node::object();
        patch.set(&["spec", "template"], template);
        RevisionData(patch.to_go_canonical().into())
    }

    pub fn parse(text: &str) -> Result<RevisionData, JsonError> {
        Ok(RevisionData(Node::parse(text)?.to_go_canonical().into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The template that this restores; `None` when it restores something else.
    pub fn template(&self) -> Option<Template> {
        let mut patch = Node::parse(&self.0).ok()?;
        let mut template = patch.remove(&["spec", "template"])?;
        template.remove(&["$patch"]);
        Template::parse(&template.to_string()).ok()
    }

    /// Would restoring either give the same template? Wider than equality: what older servers wrote
    /// out as `null` and newer ones leave out is the same.
    pub fn same_meaning(&self, other: &RevisionData) -> bool {
        let meaning = |data: &RevisionData| {
            let node = Node::parse(&data.0).ok()?;
            Some(node.without_nulls().to_go_canonical())
        };
        self == other || meaning(self).is_some_and(|held| meaning(other) == Some(held))
    }

    /// The hash in the revision's name. A collision count makes it another one.
    pub fn hash(&self, collision_count: Option<i32>) -> String {
        let count = collision_count.map_or(String::new(), |count| count.to_string());
        safe_encode(&fnv32(&[self.0.as_bytes(), count.as_bytes()]).to_string())
    }
}

/// What a trip through Go's maps does to a template: large numbers lose their last digits.
///
/// Nulls stay as the API server sent them. Servers up to 1.33 write `"creationTimestamp":null` into
/// templates, and so does the controller manager of that version into its revisions.
fn round_as_go_does(node: &mut Node) {
    match node {
        Node::Object(fields) => fields
            .iter_mut()
            .for_each(|(_, value)| round_as_go_does(value)),
        Node::Array(items) => items.iter_mut().for_each(round_as_go_does),
        Node::Literal(text) => {
            if let Ok(number) = text.parse::<i64>()
                && number.unsigned_abs() > EXACT_MAX
            {
                *text = (number as f64).to_string().into();
            }
        }
        Node::Text(_) => {}
    }
}

impl<'de> Deserialize<'de> for RevisionData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RevisionData, D::Error> {
        let raw: Option<Box<RawValue>> = Option::deserialize(deserializer)?;
        raw.map_or(Ok(RevisionData::default()), |raw| {
            RevisionData::parse(raw.get()).map_err(serde::de::Error::custom)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(template: &str) -> RevisionData {
        Template::parse(template).unwrap().revision().clone()
    }

    #[test]
    fn reads_as_go_prints() {
        let data = data(
            r#"{"spec":{"z":"<&>","uid":9007199254740993,"n":1},"metadata":{"labels":{"b":"1","a":"2"}}}"#,
        );
        assert_eq!(
            data.as_str(),
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"2","b":"1"}},"spec":{"n":1,"uid":9007199254740992,"z":"\u003c\u0026\u003e"}}}}"#
        );
        let restored = data.template().unwrap();
        assert_eq!(restored.labels().get("a"), Some("2"));
        assert_eq!(*restored.revision(), data);
    }

    #[test]
    fn nulls_mean_nothing() {
        let old = RevisionData::parse(
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null},"spec":{"a":1}}}}"#,
        )
        .unwrap();
        let new = data(r#"{"metadata":{},"spec":{"a":1}}"#);
        assert_eq!(
            old,
            data(r#"{"metadata":{"creationTimestamp":null},"spec":{"a":1}}"#),
            "as a server of that time sends it"
        );
        assert_ne!(old, new);
        assert!(old.same_meaning(&new));
        assert!(!old.same_meaning(&data(r#"{"metadata":{},"spec":{"a":2}}"#)));
    }

    #[test]
    fn restores_nothing_from_foreign_data() {
        assert_eq!(RevisionData::default().template(), None);
        let foreign = RevisionData::parse(r#"{"kind":"Other"}"#).unwrap();
        assert_eq!(foreign.template(), None);
    }
}
