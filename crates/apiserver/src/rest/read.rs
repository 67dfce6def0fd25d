//! Get, and how stored objects are shown: whole, as metadata only, or as table rows.

use super::create::retype;
use super::negotiate::{self, Shape};
use super::{Context, response};
use crate::defaults::workloads::TEMPLATE_GENERATION;
use crate::kinds::Kind;
use crate::status::Status;
use crate::storage::Stored;
use crate::{Body, convert};
use bytes::{Buf, Bytes};
use http::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

impl Context {
    pub(super) async fn get(&mut self) -> Result<Response<Body>, Status> {
        let object = self.find()?;
        self.wait_durable(object.revision).await?;
        self.check_minimum_revision()?;
        let object = self.requested(object).await?;
        self.show(200, &object)
    }

    /// The object that the path names, or 404.
    pub(crate) fn find(&self) -> Result<std::sync::Arc<Stored>, Status> {
        let key = self.object_key()?;
        self.current(&key)
            .ok_or_else(|| Status::not_found(self.subject()))
    }

    /// What is stored under a key, at the version asked for if that had to be waited for.
    pub(crate) fn current(&self, key: &str) -> Option<std::sync::Arc<Stored>> {
        match &self.converted {
            Some(converted) => converted.clone(),
            None => self.shared.store.get(&self.stored_kind, key),
        }
    }

    fn check_minimum_revision(&self) -> Result<(), Status> {
        let current = self.shared.store.visible_revision();
        match super::list::revision(self.info.query.get("resourceVersion"))? {
            Some(wanted) if wanted > current => {
                Err(Status::resource_version_too_large(wanted, current))
            }
            _ => Ok(()),
        }
    }

    /// An object as the answer to a request.
    pub(crate) fn show(&self, code: u16, object: &Stored) -> Result<Response<Body>, Status> {
        match negotiate::shape(&self.headers)? {
            Shape::Object => self.encoded(code, whole(&self.kind, object)),
            Shape::Metadata => {
                let metadata = self.metadata_of(object);
                self.encoded(code, metadata)
            }
            Shape::Table => {
                self.check_include()?;
                let mut table = self.table(std::iter::once(object), true);
                // What was never stored has no revision.
                if object.revision > 0 {
                    table["metadata"] = json!({"resourceVersion": object.revision.to_string()});
                }
                self.encoded(code, table.to_string().into_bytes())
            }
        }
    }

    /// A JSON document as the client wants it: as it is, or as YAML.
    pub(crate) fn encoded(&self, code: u16, json: Vec<u8>) -> Result<Response<Body>, Status> {
        if !negotiate::wants_yaml(&self.headers) {
            return Ok(response::json(code, json));
        }
        let value: Value =
            serde_json::from_slice(&json).map_err(|why| Status::internal(why.to_string()))?;
        let text = api::yaml::to_string(&value);
        Ok(response::typed(code, "application/yaml", text))
    }

    /// `includeObject` is one of few.
    pub(crate) fn check_include(&self) -> Result<(), Status> {
        let include = self.info.query.get("includeObject");
        if matches!(include, "" | "None" | "Metadata" | "Object") {
            return Ok(());
        }
        let quoted = api::syntax::go_quote(include);
        Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {quoted}: must be 'Metadata', \
             'Object', 'None', or empty"
        )))
    }

    /// An object as a value at the version asked for.
    pub(crate) fn shown(&self, object: &Stored) -> Value {
        self.at_version(object.value(&self.kind))
    }

    /// A stored object at the version asked for.
    pub(crate) fn at_version(&self, mut value: Value) -> Value {
        if convert::differs(&self.kind) {
            retype(&self.kind, &mut value);
            convert::from_storage(&self.kind, &mut value);
        }
        value
    }

    /// `PartialObjectMetadata` of an object: as it is stored, if nothing in it depends on versions.
    pub(crate) fn metadata_of(&self, object: &Stored) -> Vec<u8> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: &'a RawValue,
        }
        let body = object.body();
        let stored = serde_json::from_slice::<Object<'_>>(&body);
        let plain = stored.ok().map(|stored| stored.metadata.get());
        match plain
            .filter(|text| !convert::differs(&self.kind) && !text.contains(TEMPLATE_GENERATION))
        {
            Some(metadata) => {
                let version = self.meta_version();
                let head = format!(
                    r#"{{"apiVersion":"{version}","kind":"PartialObjectMetadata","metadata":"#
                );
                let mut out = Vec::with_capacity(head.len() + metadata.len() + 1);
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(metadata.as_bytes());
                out.push(b'}');
                out
            }
            None => self
                .metadata_only(&self.shown(object))
                .to_string()
                .into_bytes(),
        }
    }

    pub(crate) fn meta_version(&self) -> &'static str {
        negotiate::meta_version(&self.headers)
    }

    /// `PartialObjectMetadata` of an object.
    pub(crate) fn metadata_only(&self, value: &Value) -> Value {
        let metadata = plain_metadata(value);
        json!({"kind": "PartialObjectMetadata", "apiVersion": self.meta_version(), "metadata": metadata})
    }

    /// A Table of the objects. `includeObject` says how much of each object comes along.
    pub(crate) fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Stored>,
        header: bool,
    ) -> Value {
        let include = self.info.query.get("includeObject");
        let now = self.shared.now();
        // One after the other: a row is far smaller than its object.
        let values = objects.map(|object| self.shown(object));
        let values: Box<dyn Iterator<Item = Value> + '_> =
            match self.kind.is(FLOW_CONTROL, "FlowSchema") {
                true => {
                    let mut values: Vec<Value> = values.collect();
                    // UPSTREAM: the only table that is sorted, by what decides which of them applies.
                    values.sort_by_key(|value| value["spec"]["matchingPrecedence"].as_i64());
                    Box::new(values.into_iter())
                }
                false => Box::new(values),
            };
        let rows: Vec<Value> = values
            .map(|value| {
                let cells = crate::semantics::cells(&self.kind, &value, &now);
                let mut row = json!({"cells": cells});
                match include {
                    "None" => row["object"] = Value::Null,
                    "Object" => row["object"] = value,
                    _ => row["object"] = self.metadata_only(&value),
                }
                row
            })
            .collect();
        let columns = if header {
            crate::semantics::columns(&self.kind)
        } else {
            Value::Null
        };
        let mut table = json!({"kind": "Table", "apiVersion": self.meta_version(), "metadata": {}, "rows": rows});
        table["columnDefinitions"] = columns;
        table
    }
}

/// The object's JSON at the version asked for.
pub(crate) fn whole(kind: &Kind, object: &Stored) -> Vec<u8> {
    if let Some((start, rest)) = as_stored(kind, object) {
        return [start, &rest].concat();
    }
    let mut value = object.value(kind);
    convert::from_storage(kind, &mut value);
    value.to_string().into_bytes()
}

/// The same in two parts that need no printing, unless it looks different at the version asked for.
pub(crate) fn as_stored<'a>(kind: &'a Kind, object: &Stored) -> Option<(&'a [u8], Bytes)> {
    if convert::differs(kind) || object.is_outdated(kind) {
        return None;
    }
    let mut body = object.body();
    body.advance(crate::storage::behind_version(&body));
    Some((kind.type_prefix().as_bytes(), body))
}

fn plain_metadata(value: &Value) -> Value {
    let mut metadata = value
        .get("metadata")
        .cloned()
        .unwrap_or_else(|| Value::Object(Map::new()));
    // UPSTREAM: metadata is read from the internal version, where this is a field and no annotation.
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
        && annotations.remove(TEMPLATE_GENERATION).is_some()
        && annotations.is_empty()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("annotations");
    }
    metadata
}
