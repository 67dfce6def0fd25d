//! Kinds of objects, and how one is decoded from the wire.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

use crate::json_path;
use crate::key::Key;
use crate::meta::{Meta, WireMeta};
use crate::protobuf::{self, Malformed, Message, Value};

/// Where a kind lives in the API. A constant for the kinds we know, made at run time for others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceType {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub namespaced: bool,
}

impl ResourceType {
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> ResourceType {
        ResourceType::new(group, version, plural, kind, true)
    }

    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> ResourceType {
        ResourceType::new(group, version, plural, kind, false)
    }

    const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> ResourceType {
        ResourceType {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced,
        }
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> Cow<'static, str> {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            Cow::Owned(format!("{}/{}", self.group, self.version))
        }
    }

    /// The path of a collection (empty name) or of one object.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        if !name.is_empty() {
            path.push('/');
            path.push_str(name);
        }
        path
    }
}

/// `deployments.apps`, as upstream writes a group and resource.
impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A view of one kind.
///
/// `PartialEq` decides whether an update wakes anyone: two views are equal when a controller could
/// not tell them apart (so it ignores `resourceVersion`).
pub trait Resource: PartialEq + Send + Sync + Sized + 'static {
    const TYPE: ResourceType;

    fn meta(&self) -> &Meta;

    /// Whether this view is asked for in protobuf where the server speaks it.
    const PROTOBUF: bool = false;

    /// From the JSON that the API server sent.
    fn decode(json: &[u8]) -> Result<Self, DecodeError>;

    /// From the protobuf message that the API server sent, for views that ask for it.
    fn decode_protobuf(_message: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError {
            kind: Self::TYPE.kind.to_string(),
            object: String::from("(not read)"),
            path: String::from("."),
            problem: String::from("this kind was asked for in JSON and came in protobuf"),
        })
    }

    fn key(&self) -> Key {
        self.meta().key()
    }
}

/// An object that is not what its kind says. It names the object and the place.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot decode {kind} {object}: {path}: {problem}")]
pub struct DecodeError {
    pub kind: String,
    pub object: String,
    pub path: String,
    pub problem: String,
}

/// Decodes JSON into any view; a failure names the object and the place.
pub fn decode_json<'a, T: Deserialize<'a>>(
    resource: &ResourceType,
    json: &'a [u8],
) -> Result<T, DecodeError> {
    // Checked as a whole it costs a tenth of what checking each string does.
    let text = std::str::from_utf8(json).map_err(|error| not_text(resource, &error))?;
    serde_json::from_str(text).map_err(|error| explain(resource, json, &error))
}

fn not_text(resource: &ResourceType, error: &std::str::Utf8Error) -> DecodeError {
    DecodeError {
        kind: resource.kind.to_string(),
        object: String::from("(not read)"),
        path: String::from("."),
        problem: format!("this is not UTF-8: {error}"),
    }
}

/// Not generic, and reads the text again instead of decoding it again: whatever is instantiated for each kind is
/// code that every process carries.
fn explain(resource: &ResourceType, json: &[u8], error: &serde_json::Error) -> DecodeError {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Named {
        metadata: Name,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Name {
        name: String,
        namespace: String,
    }

    let name = serde_json::from_slice::<Named>(json)
        .unwrap_or_default()
        .metadata;
    DecodeError {
        kind: resource.kind.to_string(),
        object: object_name(&name.namespace, &name.name),
        path: json_path::of_error(json, error),
        problem: error.to_string(),
    }
}

/// Decodes protobuf into the wire form of a view; on failure reads once more to find the object's name.
pub(crate) fn decode_protobuf<'a, M: Message<'a>>(
    resource: &ResourceType,
    message: &'a [u8],
) -> Result<M, DecodeError> {
    protobuf::read(message).map_err(|malformed| {
        let Named(meta) = protobuf::read(message).unwrap_or_default();
        DecodeError {
            kind: resource.kind.to_string(),
            object: object_name(&meta.namespace, &meta.name),
            path: malformed.path(),
            problem: malformed.problem.to_owned(),
        }
    })
}

/// The metadata of any object, as far as it can be read.
#[derive(Default)]
struct Named(Meta);

impl<'a> Message<'a> for Named {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.0 = value.message::<WireMeta>()?.into();
        }
        Ok(())
    }
}

fn object_name(namespace: &str, name: &str) -> String {
    match (namespace, name) {
        (_, "") => String::from("(no name)"),
        ("", name) => String::from(name),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let nodes = ResourceType::cluster("", "v1", "nodes", "Node");
        let error = decode_json::<serde_json::Value>(&nodes, b"{\"a\":\"\xff\"}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot decode Node (not read): .: this is not UTF-8: invalid utf-8 sequence of 1 bytes from index 6"
        );
    }

    #[test]
    fn paths() {
        let deployments = ResourceType::namespaced("apps", "v1", "deployments", "Deployment");
        let nodes = ResourceType::cluster("", "v1", "nodes", "Node");
        assert_eq!(deployments.path("", ""), "/apis/apps/v1/deployments");
        assert_eq!(
            deployments.path("a", "b"),
            "/apis/apps/v1/namespaces/a/deployments/b"
        );
        assert_eq!(nodes.path("", "n1"), "/api/v1/nodes/n1");
        assert_eq!(deployments.to_string(), "deployments.apps");
        assert_eq!(deployments.api_version(), "apps/v1");
    }
}
