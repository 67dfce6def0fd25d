//! `fieldsV1` as it lies in an object: text, of which a write reads no more than it must.
//!
//! Most writes change nothing of what most managers own, and a pod's managed fields are a third of its JSON. So
//! while an object is worked on, its `fieldsV1` are strings that hold their own JSON (see [`Stored::working`]).
//! Only when a write touches what a manager owns are they read, and only then printed anew.
//!
//! [`Stored::working`]: crate::storage::Stored::working

use super::set::{FieldSet, Node};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

/// The fields of one manager: as text, as a set, or as both.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    text: Option<String>,
    set: OnceCell<FieldSet>,
}

impl Fields {
    /// From an object that is worked on, or from one that a client sent.
    pub(super) fn read(value: &Value) -> Fields {
        match value {
            Value::String(text) => Fields {
                text: Some(text.clone()),
                set: OnceCell::new(),
            },
            other => Fields::from(FieldSet::from_value(other)),
        }
    }

    pub(super) fn set(&self) -> &FieldSet {
        self.set
            .get_or_init(|| parse(self.text.as_deref().unwrap_or_default()))
    }

    /// Makes it another set, which has to be printed.
    pub(super) fn set_mut(&mut self) -> &mut FieldSet {
        self.set();
        self.text = None;
        self.set.get_mut().expect("it was just made")
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.text {
            // Not read for that: it is a printed set.
            Some(text) if self.set.get().is_none() => !text.starts_with("{\""),
            _ => self.set().is_empty(),
        }
    }

    /// Whether a path is both here and there.
    pub(super) fn overlap(&self, other: &FieldSet) -> bool {
        if other.is_empty() {
            return false;
        }
        match (self.set.get(), &self.text) {
            (None, Some(text)) => text_overlaps(text, other),
            _ => self.set().overlaps(other),
        }
    }

    /// As objects that are worked on carry it.
    pub(super) fn into_value(self) -> Value {
        let printed = |set: &FieldSet| {
            let mut out = Vec::with_capacity(1024);
            print(&mut out, set, false);
            String::from_utf8(out).expect("texts were put together")
        };
        Value::String(match self.text {
            Some(text) => text,
            None => printed(self.set()),
        })
    }
}

impl From<FieldSet> for Fields {
    fn from(set: FieldSet) -> Fields {
        Fields {
            text: None,
            set: OnceCell::from(set),
        }
    }
}

/// A member with children says so with ".", which sorts before all elements.
fn print(out: &mut Vec<u8>, set: &FieldSet, member: bool) {
    out.push(b'{');
    if member && !set.is_empty() {
        out.extend_from_slice(b"\".\":{}");
    }
    for (element, node) in set.children() {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, element).expect("a text prints into memory");
        out.push(b':');
        print(out, &node.below, node.member);
    }
    out.push(b'}');
}

/// What does not parse is nobody's: nothing but what was printed here comes along as text.
fn parse(text: &str) -> FieldSet {
    let mut parser = serde_json::Deserializer::from_str(text);
    Collect.deserialize(&mut parser).unwrap_or_default().below
}

fn text_overlaps(text: &str, other: &FieldSet) -> bool {
    let mut parser = serde_json::Deserializer::from_str(text);
    let met = Meet(other).deserialize(&mut parser);
    met.is_ok_and(|met| met.overlaps)
}

/// Reads a set.
struct Collect;

impl<'de> DeserializeSeed<'de> for Collect {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Collect {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a set of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut node = Node::default();
        while let Some(element) = members.next_key::<String>()? {
            let below = members.next_value_seed(Collect)?;
            match element.as_str() {
                "." => node.member = true,
                _ => node.below.put(element, below),
            }
        }
        node.member |= node.below.is_empty();
        Ok(node)
    }
}

/// Looks for what a text and a set have in common.
struct Meet<'a>(&'a FieldSet);

/// What was found in an element and below it.
struct Met {
    /// The path that ends here is in the text.
    member: bool,
    overlaps: bool,
}

impl<'de> DeserializeSeed<'de> for Meet<'_> {
    type Value = Met;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Met, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Meet<'_> {
    type Value = Met;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a set of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Met, A::Error> {
        let (mut said, mut children, mut overlaps) = (false, false, false);
        while let Some(element) = members.next_key::<Cow<'de, str>>()? {
            if element == "." {
                said = true;
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            children = true;
            match self.0.child(&element) {
                Some(theirs) if !overlaps => {
                    let met = members.next_value_seed(Meet(&theirs.below))?;
                    overlaps = met.overlaps || (met.member && theirs.member);
                }
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Met {
            member: said || !children,
            overlaps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(value: &Value) -> Fields {
        Fields::read(&Value::String(value.to_string()))
    }

    #[test]
    fn text_and_set_say_the_same() {
        let value = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:q\"\\ \n": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}},
        });
        assert_eq!(*text(&value).set(), FieldSet::from_value(&value));
        let printed = Fields::from(FieldSet::from_value(&value)).into_value();
        assert_eq!(printed, Value::String(value.to_string()));
        assert_eq!(text(&value).into_value(), printed);
    }

    #[test]
    fn texts_overlap_where_their_sets_do() {
        let sets = [
            json!({}),
            json!({"f:a": {}}),
            json!({"f:a": {".": {}, "f:b": {}}}),
            json!({"f:a": {"f:b": {}}}),
            json!({"f:a": {"f:b": {"f:c": {}}}}),
            json!({"f:z": {"f:b": {}}}),
        ];
        for left in &sets {
            for right in &sets {
                let (left_set, right_set) =
                    (FieldSet::from_value(left), FieldSet::from_value(right));
                let expected = !left_set.intersection(&right_set).is_empty();
                assert_eq!(left_set.overlaps(&right_set), expected, "{left} {right}");
                assert_eq!(text(left).overlap(&right_set), expected, "{left} {right}");
            }
        }
    }

    #[test]
    fn what_is_no_set_is_empty() {
        for nonsense in ["", "{", "[]", "{}", "\"x\""] {
            let fields = Fields::read(&Value::from(nonsense));
            assert!(fields.is_empty(), "{nonsense}");
            assert!(!fields.overlap(&FieldSet::from_value(&json!({"f:a": {}}))));
        }
        assert!(text(&json!({})).is_empty());
    }
}
