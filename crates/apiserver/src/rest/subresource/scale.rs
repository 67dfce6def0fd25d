//! The scale subresource: replicas of anything that has them, as `autoscaling/v1` Scale.

use crate::admission;
use crate::apply::{self, Operation};
use crate::kinds::{Kind, Subresource};
use crate::rest::admitted::ADMITTED_ATTEMPTS;
use crate::rest::applying::{APPLY_PATCH, undeclared, untyped};
use crate::rest::body::content_type;
use crate::rest::metadata::{metadata_mut, text};
use crate::rest::prepared::{Proposed, Written};
use crate::rest::update::MODIFIED;
use crate::rest::{Context, response};
use crate::semantics::Part;
use crate::status::{Cause, Status};
use crate::storage::Stored;
use crate::webhooks::Hooks;
use crate::{Body, schema, semantics};
use http::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const SCALE_VERSION: &str = "autoscaling/v1";

impl Context {
    pub(super) async fn get_scale(&mut self) -> Result<Response<Body>, Status> {
        let object = self.find()?;
        self.wait_durable(object.revision).await?;
        let object = self.requested(object).await?;
        Ok(response::value(200, &scale_of(&self.kind, &object)?))
    }

    pub(super) async fn update_scale(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.write_options()?;
        let mut scale = self.decode_part(SCALE_VERSION, "Scale")?;
        self.require_name(&scale)?;
        self.match_name(&mut scale)?;
        self.match_namespace(&mut scale)?;
        self.write_scale(dry_run, |_, old| {
            let live = old.live.clone();
            Ok((scale.clone(), live))
        })
        .await
    }

    pub(super) async fn patch_scale(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.patch_options()?;
        if content_type(&self.headers) == APPLY_PATCH {
            return self.apply_scale(dry_run).await;
        }
        let changes = self.parse_patch().map(|patch| patch.value);
        self.write_scale(dry_run, |context, old| {
            let mut scale = old.scale.clone();
            context.change(&mut scale, changes.clone()?)?;
            Ok((scale, old.live.clone()))
        })
        .await
    }

    /// Applies to the object what the Scale says of its replicas. UPSTREAM: the fields of a Scale are kept as
    /// those of the object that it is a view of.
    async fn apply_scale(&mut self, dry_run: bool) -> Result<Response<Body>, Status> {
        let mut config = self.configuration(SCALE_VERSION, "Scale")?.value;
        let ty = schema::type_for("autoscaling", "v1", "Scale");
        if let Some(ty) = ty {
            let decoded = schema::decode(ty, config.clone())
                .map_err(|error| untyped(&config, &error.to_string()))?;
            if let Some(unknown) = decoded.unknown.first() {
                return Err(untyped(&config, &undeclared(unknown)));
            }
        }
        self.match_name(&mut config)?;
        self.match_namespace(&mut config)?;
        self.applying = true;
        self.write_scale(dry_run, |context, old| {
            let mut wanted = json!({});
            if let Some(replicas) = config["spec"].get("replicas") {
                set_replicas(&context.kind, &mut wanted, replicas.clone());
            }
            let manager = context.manager(Operation::Apply);
            let force = context.info.query.flag("force");
            let live = Some(&old.live);
            let merged = apply::apply(&context.kind, live, &wanted, &manager, force, &[], None)?;
            let mut scale = config.clone();
            scale["spec"]["replicas"] = at(&merged, replicas_path(&context.kind)).clone();
            Ok((scale, merged))
        })
        .await
    }

    /// Writes a Scale, and the object that goes with it: `change` makes both from what is there.
    async fn write_scale(
        &mut self,
        dry_run: bool,
        change: impl Fn(&Context, &Scaled) -> Result<(Value, Value), Status>,
    ) -> Result<Response<Body>, Status> {
        let ((_, object), revision) = match self.webhooks(&[crate::admission::Operation::Update]) {
            Some(hooks) => Box::pin(self.write_scale_admitted(&hooks, dry_run, change)).await?,
            None if self.conversion().is_some() => {
                let write = self.write_admitted(None, dry_run, |context| {
                    context.change_scale(&change, dry_run)
                });
                Box::pin(write).await?
            }
            None => {
                self.write_at_once(dry_run, |context| context.change_scale(&change, dry_run))?
            }
        };
        self.wait_durable(revision).await?;
        Ok(response::value(200, &scale_of(&self.kind, &object)?))
    }

    async fn write_scale_admitted(
        &mut self,
        hooks: &Hooks,
        dry_run: bool,
        change: impl Fn(&Context, &Scaled) -> Result<(Value, Value), Status>,
    ) -> Result<Written, Status> {
        let shared = self.shared.clone();
        let warnings = self.warnings.len();
        let subject = self.attributes(hooks, crate::admission::Operation::Update, dry_run);
        let subject = subject.shown_as(SCALE_VERSION, "Scale");
        let part = scale_part(dry_run);
        for _ in 0..ADMITTED_ATTEMPTS {
            self.read_current().await?;
            let old = self.scaled()?;
            let before = old.scale.clone();
            let (mut scale, value) = self.changed(&old, &change, part)?;
            self.call_mutating(&subject, &mut scale, Some(&before), |_, _| Ok(()))
                .await?;
            let proposed = self.propose_scale(old, value, &scale, dry_run)?;
            let prepared = self.admit_by_webhooks(None, proposed, dry_run).await?;
            self.validate_part(part, &scale, Some(&before))?;
            self.call_validating(&subject, Some(&scale), Some(&before))
                .await?;
            let is_stored = !dry_run && prepared.is_written();
            let (stored, revision) = shared
                .store
                .write(|transaction| self.swap(transaction, prepared, dry_run))?;
            if let Some((code, stored)) = stored {
                let shown = match is_stored {
                    true => self.requested(stored).await?,
                    false => stored,
                };
                return Ok(((code, shown), revision));
            }
            self.warnings.truncate(warnings);
        }
        Err(Status::conflict(self.subject(), MODIFIED))
    }

    /// The same where only policies are asked.
    fn change_scale(
        &mut self,
        change: impl Fn(&Context, &Scaled) -> Result<(Value, Value), Status>,
        dry_run: bool,
    ) -> Result<Proposed, Status> {
        let part = scale_part(dry_run);
        let old = self.scaled()?;
        let (scale, value) = self.changed(&old, change, part)?;
        self.validate_part(part, &scale, Some(&old.scale))?;
        self.propose_scale(old, value, &scale, dry_run)
    }

    /// UPSTREAM: admission sees the Scale, and not the object that it is a view of.
    fn changed(
        &mut self,
        old: &Scaled,
        change: impl Fn(&Context, &Scaled) -> Result<(Value, Value), Status>,
        part: Part,
    ) -> Result<(Value, Value), Status> {
        // A write that lost a race comes here again.
        self.subresource = Some(Subresource::Scale);
        let (mut scale, value) = change(self, old)?;
        self.mutate_part(part, &mut scale, Some(&old.scale))?;
        Ok((scale, value))
    }

    /// The object that the path names, and its Scale.
    fn scaled(&self) -> Result<Scaled, Status> {
        let stored = self.find()?;
        Ok(Scaled {
            scale: scale_of(&self.kind, &stored)?,
            live: stored.working(&self.stored_kind),
            stored,
        })
    }

    /// An object with the replicas of a Scale, under the Scale's preconditions.
    fn propose_scale(
        &mut self,
        old: Scaled,
        mut value: Value,
        scale: &Value,
        dry_run: bool,
    ) -> Result<Proposed, Status> {
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
        let metadata = metadata_mut(&mut value);
        for member in ["resourceVersion", "uid"] {
            metadata.insert(member.into(), json!(text(scale, member)));
        }
        semantics::default(&self.stored_kind, &mut value);
        self.subresource = None;
        let change = self.propose_change(old.stored, old.live, value, None, dry_run)?;
        Ok(Proposed::Change(Box::new(change)))
    }
}

/// An object that can be scaled.
struct Scaled {
    stored: Arc<Stored>,
    live: Value,
    scale: Value,
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

fn scale_part(dry_run: bool) -> Part {
    Part {
        operation: admission::Operation::Update,
        object_type: (SCALE_VERSION, "Scale"),
        dry_run,
    }
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
