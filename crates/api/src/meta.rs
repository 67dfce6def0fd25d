//! Object metadata as controllers read it, and owner references.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize};

use crate::intern::{Istr, Pool};
use crate::key::Key;
use crate::labels::LabelSet;
use crate::protobuf::{Malformed, Message, Value};
use crate::time::{MicroTime, Time};
use crate::uid::Uid;

/// Everything in `metadata` but `managedFields` and `selfLink`.
///
/// Equality ignores the resource version: see [`crate::Resource`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<Istr>,
    #[serde(skip_serializing_if = "empty")]
    pub namespace: Istr,
    pub uid: Uid,
    #[serde(with = "revision")]
    pub resource_version: u64,
    #[serde(skip_serializing_if = "zero")]
    pub generation: i64,
    #[serde(
        rename = "creationTimestamp",
        deserialize_with = "or_default",
        skip_serializing_if = "epoch"
    )]
    pub created_at: Time,
    #[serde(rename = "deletionTimestamp", skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "LabelSet::is_empty")]
    pub labels: LabelSet,
    #[serde(skip_serializing_if = "LabelSet::is_empty")]
    pub annotations: LabelSet,
    #[serde(
        rename = "ownerReferences",
        deserialize_with = "shared_owners",
        skip_serializing_if = "<[_]>::is_empty"
    )]
    pub owners: Arc<[OwnerRef]>,
    #[serde(
        deserialize_with = "shared_names",
        skip_serializing_if = "<[_]>::is_empty"
    )]
    pub finalizers: Arc<[Istr]>,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    pub api_version: Istr,
    pub kind: Istr,
    pub name: Istr,
    pub uid: Uid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl Meta {
    pub fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The one owner that manages this object, if any.
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owners
            .iter()
            .find(|owner| owner.controller == Some(true))
    }

    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.controller().is_some_and(|owner| owner.uid == *uid)
    }

    pub fn is_terminating(&self) -> bool {
        self.deleted_at.is_some()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|held| held == name)
    }

    pub fn age(&self, now: MicroTime) -> std::time::Duration {
        now.since(self.created_at)
    }
}

impl Default for Meta {
    fn default() -> Meta {
        // Whatever is decoded begins with it, and finding its empty texts and lists takes a while.
        static EMPTY: LazyLock<Meta> = LazyLock::new(Meta::empty);
        EMPTY.clone()
    }
}

impl Meta {
    fn empty() -> Meta {
        Meta {
            name: Arc::from(""),
            generate_name: None,
            namespace: Istr::default(),
            uid: Uid::default(),
            resource_version: 0,
            generation: 0,
            created_at: Time::default(),
            deleted_at: None,
            deletion_grace_period_seconds: None,
            labels: LabelSet::default(),
            annotations: LabelSet::default(),
            owners: intern_owners(Vec::new()),
            finalizers: intern_names(Vec::new()),
        }
    }
}

impl PartialEq for Meta {
    fn eq(&self, other: &Meta) -> bool {
        self.uid == other.uid
            && self.name == other.name
            && self.namespace == other.namespace
            && self.generation == other.generation
            && self.deleted_at == other.deleted_at
            && self.deletion_grace_period_seconds == other.deletion_grace_period_seconds
            && self.labels == other.labels
            && self.annotations == other.annotations
            && self.owners == other.owners
            && self.finalizers == other.finalizers
    }
}

impl OwnerRef {
    /// The group of `apiVersion`; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }
}

static OWNERS: Pool<[OwnerRef]> = Pool::new();
static NAMES: Pool<[Istr]> = Pool::new();

pub fn intern_owners(owners: Vec<OwnerRef>) -> Arc<[OwnerRef]> {
    OWNERS.intern_with(&owners, || Arc::from(owners.as_slice()))
}

pub fn intern_names(names: Vec<Istr>) -> Arc<[Istr]> {
    NAMES.intern_with(&names, || Arc::from(names.as_slice()))
}

fn shared_owners<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[OwnerRef]>, D::Error> {
    Ok(intern_owners(or_default(deserializer)?))
}

fn shared_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[Istr]>, D::Error> {
    Ok(intern_names(or_default(deserializer)?))
}

/// JSON null where Go leaves a value out.
pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `ObjectMeta` in protobuf. Lists are interned when all of them have been read.
#[derive(Default)]
pub struct WireMeta {
    meta: Meta,
    labels: Vec<(Istr, Istr)>,
    annotations: Vec<(Istr, Istr)>,
    owners: Vec<OwnerRef>,
    finalizers: Vec<Istr>,
}

impl From<WireMeta> for Meta {
    fn from(wire: WireMeta) -> Meta {
        let mut meta = wire.meta;
        if !wire.labels.is_empty() {
            meta.labels = LabelSet::from_pairs(wire.labels);
        }
        if !wire.annotations.is_empty() {
            meta.annotations = LabelSet::from_pairs(wire.annotations);
        }
        if !wire.owners.is_empty() {
            meta.owners = intern_owners(wire.owners);
        }
        if !wire.finalizers.is_empty() {
            meta.finalizers = intern_names(wire.finalizers);
        }
        meta
    }
}

impl<'a> Message<'a> for WireMeta {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        let meta = &mut self.meta;
        match field {
            1 => meta.name = Arc::from(value.text()?),
            2 => {
                meta.generate_name =
                    Some(value.text()?.into()).filter(|name: &Istr| !name.is_empty())
            }
            3 => meta.namespace = value.text()?.into(),
            5 => meta.uid = Uid::parse(value.text()?),
            6 => {
                meta.resource_version = revision::parse(value.text()?)
                    .ok_or_else(|| Malformed::new("not a decimal resourceVersion"))?
            }
            7 => meta.generation = value.number()?,
            8 => meta.created_at = value.message::<WireTime>()?.0,
            9 => meta.deleted_at = Some(value.message::<WireTime>()?.0),
            10 => meta.deletion_grace_period_seconds = Some(value.number()?),
            11 => self.labels.push(value.message::<Pair>()?.into()),
            12 => self.annotations.push(value.message::<Pair>()?.into()),
            13 => self.owners.push(value.message()?),
            14 => self.finalizers.push(value.text()?.into()),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for OwnerRef {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.kind = value.text()?.into(),
            3 => self.name = value.text()?.into(),
            4 => self.uid = Uid::parse(value.text()?),
            5 => self.api_version = value.text()?.into(),
            6 => self.controller = Some(value.flag()?),
            7 => self.block_owner_deletion = Some(value.flag()?),
            _ => {}
        }
        Ok(())
    }
}

/// `Time`: seconds since 1970; what is below a second is dropped.
#[derive(Default)]
pub(crate) struct WireTime(pub Time);

impl<'a> Message<'a> for WireTime {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.0 = Time::from_unix(value.number()?);
        }
        Ok(())
    }
}

/// An entry of a map of texts.
#[derive(Default)]
struct Pair<'a>(&'a str, &'a str);

impl<'a> Message<'a> for Pair<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.0 = value.text()?,
            2 => self.1 = value.text()?,
            _ => {}
        }
        Ok(())
    }
}

impl From<Pair<'_>> for (Istr, Istr) {
    fn from(pair: Pair<'_>) -> (Istr, Istr) {
        (pair.0.into(), pair.1.into())
    }
}

fn empty(text: &Istr) -> bool {
    text.is_empty()
}

fn zero(number: &i64) -> bool {
    *number == 0
}

fn epoch(time: &Time) -> bool {
    *time == Time::default()
}

/// `resourceVersion` is a decimal number in a string; it is comparable within a resource.
mod revision {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        revision: &u64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(revision)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| {
            serde::de::Error::invalid_value(
                serde::de::Unexpected::Str(&text),
                &"a decimal resourceVersion",
            )
        })
    }

    /// Objects that were never stored have none.
    pub(super) fn parse(text: &str) -> Option<u64> {
        if text.is_empty() {
            return Some(0);
        }
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"name":"web-1","generateName":"web-","namespace":"shop","uid":"6f0e7d3a-9f0b-4d53-8f3e-0123456789ab","resourceVersion":"42","generation":2,"creationTimestamp":"2024-01-01T00:00:00Z","labels":{"app":"web"},"annotations":{"a":"b"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u","controller":true,"blockOwnerDeletion":true}],"finalizers":["x/y"]}"#;

    #[test]
    fn round_trips() {
        let meta: Meta = serde_json::from_str(POD).unwrap();
        let back: serde_json::Value = serde_json::to_value(&meta).unwrap();
        assert_eq!(
            back,
            serde_json::from_str::<serde_json::Value>(POD).unwrap()
        );
        assert_eq!(meta.controller().unwrap().group(), "apps");
        assert!(meta.is_controlled_by(&Uid::from("u")));
        assert_eq!(meta.key().to_string(), "shop/web-1");
    }

    #[test]
    fn nulls_are_absent() {
        let meta: Meta = serde_json::from_str(
            r#"{"name":"x","creationTimestamp":null,"labels":null,"ownerReferences":null}"#,
        )
        .unwrap();
        assert!(meta.owners.is_empty() && meta.labels.is_empty());
    }

    #[test]
    fn equality_ignores_the_revision_alone() {
        let one: Meta = serde_json::from_str(POD).unwrap();
        let mut two = one.clone();
        two.resource_version += 1;
        assert_eq!(one, two);
        two.labels = two.labels.with("app", "db");
        assert_ne!(one, two);
    }
}
