//! The scale subresource: replicas of anything that has them, as `autoscaling/v1` Scale.

use crate::admission;
use crate::apply::{self, Operation};
use crate::kinds::Kind;
use crate::rest::applying::{APPLY_PATCH, undeclared, untyped};
use crate::rest::body::{content_type, parse, settle_type};
use crate::rest::metadata::{metadata_mut, text};
use crate::rest::{Context, response};
use crate::status::{Cause, Status};
use crate::storage::{Stored, Transaction};
use crate::{Body, schema, semantics};
use http::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const SCALE_VERSION: &str = "autoscaling/v1";

impl Context {
    pub(super) async fn get_scale(&mut self) -> Result<Response<Body>, Status> {
        let object = self.find()?;
        self.settle(object.revision).await?;
        Ok(response::value(200, &scale_of(&self.kind, &object)?))
    }

    pub(super) async fn update_scale(&mut self) -> Result<Response<Body>, Status> {
        let mut scale = parse(&self.headers, &self.body, "Scale")?;
        settle_type(&mut scale, SCALE_VERSION, "Scale")?;
        self.settle_name(&mut scale)?;
        self.settle_namespace(&mut scale)?;
        self.write_scale(move |_, _| Ok(scale)).await
    }

    pub(super) async fn patch_scale(&mut self) -> Result<Response<Body>, Status> {
        if content_type(&self.headers) == APPLY_PATCH {
            return self.apply_scale().await;
        }
        let changes = crate::rest::body::parse_patch(&self.body)?.value;
        self.write_scale(move |context, mut scale| {
            context.change(&mut scale, changes)?;
            Ok(scale)
        })
        .await
    }

    /// Applies to the object what the Scale says of its replicas. UPSTREAM: the fields of a Scale are kept as
    /// those of the object that it is a view of.
    async fn apply_scale(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.info.query.dry_run("PatchOptions")?;
        let mut config = self.configuration(SCALE_VERSION, "Scale")?.value;
        let ty = schema::type_for("autoscaling", "v1", "Scale");
        if let Some(ty) = ty {
            let decoded = schema::decode(ty, config.clone())
                .map_err(|error| untyped(&config, &error.to_string()))?;
            if let Some(unknown) = decoded.unknown.first() {
                return Err(untyped(&config, &undeclared(unknown)));
            }
        }
        self.settle_name(&mut config)?;
        self.settle_namespace(&mut config)?;
        let shared = self.shared.clone();
        let (object, revision) = shared
            .store
            .write(|transaction| self.apply_scale_in(transaction, &config, dry_run))?;
        self.settle(revision).await?;
        Ok(response::value(200, &scale_of(&self.kind, &object)?))
    }

    fn apply_scale_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        config: &Value,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Status> {
        let key = self.key(&self.info.name);
        let old = transaction
            .get(&self.stored_kind, &key)
            .ok_or_else(|| Status::not_found(self.subject()))?;
        let mut wanted = json!({});
        if let Some(replicas) = config["spec"].get("replicas") {
            set_replicas(&self.kind, &mut wanted, replicas.clone());
        }
        let live = old.working(&self.stored_kind);
        let manager = self.manager(Operation::Apply);
        let force = self.info.query.flag("force");
        let merged = apply::apply(&self.kind, Some(&live), &wanted, &manager, force, &[])?;
        let before = scale_of(&self.kind, &old)?;
        let mut scale = config.clone();
        scale["spec"]["replicas"] = at(&merged, replicas_path(&self.kind)).clone();
        self.admit_scale(&mut scale, &before, dry_run)?;
        self.applying = true;
        self.replace_replicas(transaction, (old, live), merged, &scale, dry_run)
    }

    async fn write_scale(
        &mut self,
        change: impl FnOnce(&Context, Value) -> Result<Value, Status>,
    ) -> Result<Response<Body>, Status> {
        let dry_run = self.info.query.dry_run("UpdateOptions")?;
        let shared = self.shared.clone();
        let (object, revision) = shared
            .store
            .write(|transaction| self.scale_in(transaction, change, dry_run))?;
        self.settle(revision).await?;
        Ok(response::value(200, &scale_of(&self.kind, &object)?))
    }

    fn scale_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        change: impl FnOnce(&Context, Value) -> Result<Value, Status>,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Status> {
        let key = self.key(&self.info.name);
        let old = transaction
            .get(&self.stored_kind, &key)
            .ok_or_else(|| Status::not_found(self.subject()))?;
        let before = scale_of(&self.kind, &old)?;
        let mut scale = change(self, before.clone())?;
        self.admit_scale(&mut scale, &before, dry_run)?;
        let live = old.working(&self.stored_kind);
        let value = live.clone();
        self.replace_replicas(transaction, (old, live), value, &scale, dry_run)
    }

    /// UPSTREAM: policies see the Scale, and not the object that it is a view of.
    fn admit_scale(
        &mut self,
        scale: &mut Value,
        before: &Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let of = (SCALE_VERSION, "Scale");
        let update = admission::Operation::Update;
        self.admit_part(update, of, scale, Some(before), dry_run)
    }

    /// Writes an object with the replicas of a Scale, under the Scale's preconditions.
    fn replace_replicas(
        &mut self,
        transaction: &mut Transaction<'_>,
        old: (Arc<Stored>, Value),
        mut value: Value,
        scale: &Value,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Status> {
        let replicas = match &scale["spec"]["replicas"] {
            Value::Null => 0,
            value => value.as_i64().ok_or_else(|| {
                Status::bad_request("spec.replicas of a Scale must be an integer")
            })?,
        };
        if !(0..=i64::from(i32::MAX)).contains(&replicas) {
            let message = format!("Invalid value: {replicas}: must be greater than or equal to 0");
            let cause = Cause::new("spec.replicas", "FieldValueInvalid", message);
            return Err(Status::invalid(
                "autoscaling",
                "Scale",
                &self.info.name,
                vec![cause],
            ));
        }
        set_replicas(&self.kind, &mut value, json!(replicas));
        let wanted = (
            text(scale, "resourceVersion").to_owned(),
            text(scale, "uid").to_owned(),
        );
        let metadata = metadata_mut(&mut value);
        metadata.insert("resourceVersion".into(), json!(wanted.0));
        metadata.insert("uid".into(), json!(wanted.1));
        semantics::default(&self.stored_kind, &mut value);
        self.subresource = None;
        self.replace_in(transaction, old, value, dry_run)
    }
}

fn scale_of(kind: &Kind, object: &Stored) -> Result<Value, Status> {
    let value = object.value(kind);
    let (replicas, current, selector) =
        match kind.custom().and_then(|version| version.scale.as_ref()) {
            Some(paths) => {
                let selector = paths
                    .label_selector
                    .as_ref()
                    .map(|path| at(&value, path).as_str().unwrap_or("").to_owned());
                (
                    at(&value, &paths.spec_replicas).clone(),
                    at(&value, &paths.status_replicas).clone(),
                    selector,
                )
            }
            None => (
                value["spec"]["replicas"].clone(),
                value["status"]["replicas"].clone(),
                Some(selector_text(&value["spec"]["selector"])),
            ),
        };
    let mut metadata = Map::new();
    for member in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(found) = value["metadata"].get(member) {
            metadata.insert(member.to_owned(), found.clone());
        }
    }
    let mut spec = Map::new();
    if replicas.as_i64().is_some_and(|replicas| replicas != 0) {
        spec.insert("replicas".into(), replicas);
    }
    let mut status = json!({"replicas": current.as_i64().unwrap_or(0)});
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = json!(selector);
    }
    Ok(
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}),
    )
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.trim_start_matches('.')
        .split('.')
        .fold(value, |value, member| &value[member])
}

fn replicas_path(kind: &Kind) -> &str {
    kind.custom()
        .and_then(|version| version.scale.as_ref())
        .map_or(".spec.replicas", |paths| &paths.spec_replicas)
}

fn set_replicas(kind: &Kind, value: &mut Value, replicas: Value) {
    let mut place = value;
    for member in replicas_path(kind).trim_start_matches('.').split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[member];
    }
    *place = replicas;
}

/// A selector as text: a plain map (ReplicationController) or the JSON form with expressions.
fn selector_text(selector: &Value) -> String {
    let Some(map) = selector.as_object() else {
        return String::new();
    };
    let has_form = map.contains_key("matchLabels") || map.contains_key("matchExpressions");
    let labels = if has_form {
        selector["matchLabels"].as_object()
    } else {
        Some(map)
    };
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        parts.push((
            key.clone(),
            format!("{key}={}", value.as_str().unwrap_or_default()),
        ));
    }
    for expression in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let list = values.join(",");
        let text = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({list})"),
            "NotIn" => format!("{key} notin ({list})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => continue,
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort();
    parts
        .into_iter()
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_print_like_upstreams() {
        let selector = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"}]});
        assert_eq!(selector_text(&selector), "a in (x,y),b=1,!c");
        assert_eq!(selector_text(&json!({"app": "web"})), "app=web");
    }
}
