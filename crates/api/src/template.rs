//! Pod templates: raw JSON that we keep once, compare by meaning and never rewrite.

use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::collections::KeyedState;
use crate::go_dump;
use crate::hash::Fnv32a;
use crate::intern::Pool;
use crate::json::{JsonError, Node};
use crate::kinds::RevisionData;
use crate::labels::LabelSet;
use crate::names::safe_encode;

/// The label that tells the ReplicaSets of a Deployment, and their pods, apart.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod template as the API server sent it, shared by all who carry the same text.
#[derive(Clone)]
pub struct Template(Arc<Body>);

struct Body {
    raw: Box<str>,
    labels: LabelSet,
    annotations: LabelSet,
    finalizers: Box<[Box<str>]>,
    /// Of the canonical form without the template hash label.
    meaning: Meaning,
    /// Only sets that keep revisions ask for it, and those in every reconcile.
    revision: OnceLock<RevisionData>,
}

/// Stands for a canonical form: two hashes that have nothing in common, 128 bits in all, so that
/// templates are compared without being read again on every reconcile.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Meaning(u64, u64);

impl Meaning {
    fn of(canonical: &str) -> Meaning {
        let mut sip = DefaultHasher::new();
        canonical.hash(&mut sip);
        Meaning(KeyedState.hash_one(canonical), sip.finish())
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

static TEMPLATES: Pool<Body> = Pool::new();

impl Template {
    pub fn parse(raw: &str) -> Result<Template, JsonError> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Light {
            #[serde(deserialize_with = "crate::meta::or_default")]
            metadata: LightMeta,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct LightMeta {
            labels: LabelSet,
            annotations: LabelSet,
            #[serde(deserialize_with = "crate::meta::or_default")]
            finalizers: Vec<Box<str>>,
        }

        let meaning = Meaning::of(&canonical(Node::parse(raw)?));
        let light: Light = serde_json::from_str(raw).map_err(|_| JsonError {
            at: 0,
            problem: "template metadata must hold string maps",
        })?;
        Ok(Template(TEMPLATES.intern(Body {
            raw: raw.into(),
            labels: light.metadata.labels,
            annotations: light.metadata.annotations,
            finalizers: light.metadata.finalizers.into(),
            meaning,
            revision: OnceLock::new(),
        })))
    }

    /// The text as it came.
    pub fn raw(&self) -> &str {
        &self.0.raw
    }

    pub fn node(&self) -> Node {
        Node::parse(&self.0.raw).expect("checked when it was made")
    }

    pub fn labels(&self) -> &LabelSet {
        &self.0.labels
    }

    pub fn annotations(&self) -> &LabelSet {
        &self.0.annotations
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.0.finalizers.iter().map(|name| &**name)
    }

    /// What a revision of this template holds.
    pub fn revision(&self) -> &RevisionData {
        self.0
            .revision
            .get_or_init(|| RevisionData::restoring(self.node()))
    }

    /// Do both ask for the same pods? The template hash label, key order and nulls do not count.
    ///
    /// Both sides went through the same API server, which has defaulted and normalised them: what
    /// upstream calls semantically equal has the same canonical text.
    pub fn same_meaning(&self, other: &Template) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.meaning == other.0.meaning
    }

    /// The short, stable name that upstream gives the template: FNV-32a of a dump of its Go struct, then made safe for
    /// names. What has no such dump is hashed as canonical JSON.
    pub fn short_hash(&self, collision_count: Option<i32>) -> String {
        let node = self.node();
        let text = go_dump::pod_template(&node).unwrap_or_else(|| canonical(node));
        let mut hash = Fnv32a::new();
        hash.write(text.as_bytes());
        if let Some(count) = collision_count {
            // UPSTREAM: the number is written into a buffer that is twice its size.
            hash.write(&i64::from(count.cast_unsigned()).to_le_bytes());
        }
        safe_encode(&hash.finish().to_string())
    }
}

fn canonical(mut template: Node) -> String {
    template.remove(&["metadata", "labels", POD_TEMPLATE_HASH]);
    if matches!(template.get(&["metadata", "labels"]), Some(Node::Object(labels)) if labels.is_empty())
    {
        template.remove(&["metadata", "labels"]);
    }
    template.without_nulls().to_go_canonical()
}

impl Default for Template {
    fn default() -> Template {
        Template::parse("{}").expect("an empty object is a template")
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw())
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.raw().into()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Template, D::Error> {
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        Template::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    #[test]
    fn passes_through_untouched() {
        let text = r#"{"spec":{"new":1.50,"containers":[]},"metadata":{"labels":{"a":"b"}}}"#;
        assert_eq!(serde_json::to_string(&template(text)).unwrap(), text);
        assert_eq!(template(text).labels().get("a"), Some("b"));
    }

    #[test]
    fn equality_ignores_the_hash_label_order_and_nulls() {
        let plain = template(
            r#"{"metadata":{"labels":{"app":"x"}},"spec":{"hostname":"a","subdomain":"b"}}"#,
        );
        let hashed = template(
            r#"{"metadata":{"creationTimestamp":null,"labels":{"pod-template-hash":"9","app":"x"}},"spec":{"subdomain":"b","hostname":"a"}}"#,
        );
        let other = template(
            r#"{"metadata":{"labels":{"app":"x"}},"spec":{"hostname":"a","subdomain":"c"}}"#,
        );
        assert!(plain.same_meaning(&hashed));
        assert!(!plain.same_meaning(&other));
        assert_ne!(plain.short_hash(None), plain.short_hash(Some(1)));
        assert_ne!(plain.short_hash(None), other.short_hash(None));
    }

    #[test]
    fn refuses_labels_that_are_no_strings() {
        assert!(Template::parse(r#"{"metadata":{"labels":{"a":1}}}"#).is_err());
        assert!(Template::parse("{").is_err());
    }
}
