//! Get, and how stored objects are shown: whole, as metadata only, or as table rows.

use super::negotiate::{self, Shape};
use super::{Context, response};
use crate::kinds::Kind;
use crate::status::Status;
use crate::storage::{Stored, type_prefix};
use crate::{Body, convert};
use http::Response;
use serde_json::{Map, Value, json};

impl Context {
    pub(super) async fn get(&mut self) -> Result<Response<Body>, Status> {
        let object = self.find()?;
        self.settle(object.revision).await?;
        self.check_minimum_revision()?;
        self.show(200, &object)
    }

    /// The object that the path names, or 404.
    pub(crate) fn find(&self) -> Result<std::sync::Arc<Stored>, Status> {
        let key = self.key(&self.info.name);
        self.shared
            .store
            .get(&self.stored_kind, &key)
            .ok_or_else(|| Status::not_found(self.subject()))
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
            Shape::Object => Ok(response::json(code, whole(&self.kind, object))),
            Shape::Metadata => Ok(response::value(code, &metadata_only(&self.shown(object)))),
            Shape::Table => {
                let mut table = self.table(std::iter::once(object), true);
                table["metadata"] = json!({"resourceVersion": object.revision.to_string()});
                Ok(response::value(code, &table))
            }
        }
    }

    /// An object as a value at the version asked for.
    pub(crate) fn shown(&self, object: &Stored) -> Value {
        let mut value = object.value(&self.kind);
        convert::from_storage(&self.kind, &mut value);
        value
    }

    /// A `meta/v1` Table of the objects. `includeObject` says how much of each object comes along.
    pub(crate) fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Stored>,
        header: bool,
    ) -> Value {
        let include = self.info.query.get("includeObject");
        let now = self.shared.now();
        let rows: Vec<Value> = objects
            .map(|object| {
                let value = self.shown(object);
                let cells = crate::semantics::cells(&self.kind, &value, &now);
                let mut row = json!({"cells": cells});
                match include {
                    "None" => {}
                    "Object" => row["object"] = value,
                    _ => row["object"] = metadata_only(&value),
                }
                row
            })
            .collect();
        let columns = if header {
            crate::semantics::columns(&self.kind)
        } else {
            Value::Null
        };
        let mut table =
            json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "rows": rows});
        table["columnDefinitions"] = if columns.is_null() {
            json!([])
        } else {
            columns
        };
        table
    }
}

/// The object's JSON at the version asked for.
pub(crate) fn whole(kind: &Kind, object: &Stored) -> Vec<u8> {
    if convert::differs(kind) {
        let mut value = object.value(kind);
        convert::from_storage(kind, &mut value);
        return value.to_string().into_bytes();
    }
    let mut out = type_prefix(kind).into_bytes();
    out.extend_from_slice(object.body().get(1..).unwrap_or_default());
    out
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn metadata_only(value: &Value) -> Value {
    let metadata = value
        .get("metadata")
        .cloned()
        .unwrap_or_else(|| Value::Object(Map::new()));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
