//! Conversion webhooks: who turns the objects of a definition from one version into another.
//!
//! Mirrors upstream's `apiextensions-apiserver/pkg/apiserver/conversion`. Objects are stored at the storage version of
//! their definition, with its name (`apiVersion`) in the stored body; whoever reads, lists, watches or changes them at
//! another version waits for the webhook. What it answered is kept for a while, by revision: a list that is asked for
//! again asks nobody.

use super::schema::{Ready, Schema};
use crate::kinds::Kind;
use crate::rest::Context;
use crate::rest::metadata::new_uid;
use crate::semantics;
use crate::server::Shared;
use crate::status::Status;
use crate::storage::Stored;
use crate::webhooks::{CallFailure, ClientConfig, post};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// UPSTREAM: how long a conversion may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// So many converted objects are kept for each definition; all are forgotten when it is full.
const KEPT: usize = 1024;

/// So many objects are sent at once.
const BATCH: usize = 500;

/// The conversion webhook of one definition.
#[derive(Debug)]
pub struct Conversion {
    client: ClientConfig,
    review_versions: Vec<String>,
    /// At which version objects are stored: `example.com/v1`.
    pub(crate) storage: String,
    /// Of all versions (`example.com/v1`), whether or not they are served.
    schemas: Vec<(String, Arc<Schema>)>,
    kept: Kept,
}

/// Converted objects by revision and version.
#[derive(Default)]
struct Kept(Mutex<BTreeMap<(u64, String), Arc<Stored>>>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} objects", self.0.lock().len())
    }
}

impl Conversion {
    /// From a definition, if its strategy is `Webhook`.
    pub(crate) fn of(definition: &Value, schemas: &[Arc<Schema>]) -> Option<Arc<Conversion>> {
        let conversion = &definition["spec"]["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array();
        let versions = versions.into_iter().flatten().filter_map(Value::as_str);
        let all = definition["spec"]["versions"].as_array();
        let all = || all.into_iter().flatten();
        let stored = all().find(|version| version["storage"] == true)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = text(&definition["spec"]["group"]);
        let named = |version: &Value| format!("{group}/{}", text(&version["name"]));
        Some(Arc::new(Conversion {
            client: ClientConfig::read(&webhook["clientConfig"]).unwrap_or_default(),
            review_versions: versions.map(str::to_owned).collect(),
            storage: named(stored),
            schemas: all().map(named).zip(schemas.iter().cloned()).collect(),
            kept: Kept::default(),
        }))
    }

    /// That of a version, if there is such a version.
    pub(crate) fn schema(&self, version: &str) -> Option<Arc<Ready>> {
        let found = self.schemas.iter().find(|(name, _)| name == version);
        found.map(|(_, schema)| schema.ready())
    }

    /// Converts objects, each of which may be at another version, to one. What is there already is left alone.
    pub(crate) async fn convert(
        &self,
        shared: &Shared,
        mut objects: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>, String> {
        let places: Vec<usize> = (0..objects.len())
            .filter(|place| objects[*place]["apiVersion"] != to)
            .collect();
        for places in places.chunks(BATCH) {
            let sent: Vec<Value> = places.iter().map(|place| objects[*place].clone()).collect();
            let answered = self.ask(shared, &sent, to).await?;
            for (place, (sent, converted)) in places.iter().zip(sent.iter().zip(answered)) {
                objects[*place] = accept(sent, converted, to)?;
            }
        }
        Ok(objects)
    }

    async fn ask(&self, shared: &Shared, sent: &[Value], to: &str) -> Result<Vec<Value>, String> {
        let of = sent.first().map(described).unwrap_or_default();
        let mut versions = self.review_versions.iter();
        let version = versions.find(|version| matches!(version.as_str(), "v1" | "v1beta1"));
        let version =
            version.ok_or_else(|| "no supported conversion review versions".to_owned())?;
        let failed = |why: String| format!("conversion webhook for {of} failed: {why}");
        let uid = new_uid(shared);
        let api_version = format!("apiextensions.k8s.io/{version}");
        let review = json!({
            "kind": "ConversionReview", "apiVersion": api_version,
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": sent},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        });
        let answer = match post(shared, &self.client, &review, TIMEOUT).await {
            Ok(answer) => answer,
            Err(
                CallFailure::NoClient(why)
                | CallFailure::Refused(_, why)
                | CallFailure::Failed(why),
            ) => return Err(failed(why)),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if version == "v1" {
            let given = (text(&answer["apiVersion"]), text(&answer["kind"]));
            if (given.0.as_str(), given.1.as_str()) != (api_version.as_str(), "ConversionReview") {
                return Err(failed(format!(
                    "expected webhook response of {api_version}, Kind=ConversionReview, got {}, Kind={}",
                    given.0, given.1
                )));
            }
        }
        let response = &answer["response"];
        if !response.is_object() {
            return Err(failed("no response provided".to_owned()));
        }
        if version == "v1" && response["uid"] != uid {
            let given = api::syntax::go_quote(&text(&response["uid"]));
            return Err(failed(format!(
                "expected response.uid=\"{uid}\", got {given}"
            )));
        }
        let result = &response["result"];
        if result["status"] != "Success" {
            return Err(failed(match text(&result["message"]) {
                message if !message.is_empty() => message,
                _ => format!(
                    "response.result.status was '{}', not 'Success'",
                    text(&result["status"])
                ),
            }));
        }
        let converted = response["convertedObjects"].as_array().cloned();
        let converted = converted.unwrap_or_default();
        if converted.len() != sent.len() {
            return Err(format!(
                "conversion webhook for {of} returned {} objects, expected {}",
                converted.len(),
                sent.len()
            ));
        }
        Ok(converted)
    }
}

/// `example.com/v1, Kind=Crontab`
fn described(object: &Value) -> String {
    let text = |member: &str| object[member].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

/// What a webhook made of an object, if it is that object. UPSTREAM: of its metadata only labels and annotations may
/// change; what else it says of it is not looked at.
fn accept(sent: &Value, mut converted: Value, to: &str) -> Result<Value, String> {
    let of = described(sent);
    let invalid =
        |why: String| format!("conversion webhook for {of} returned invalid object: {why}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let at_first = |why: String| {
        format!("conversion webhook for {of} returned invalid object at index 0: {why}")
    };
    if converted["apiVersion"] != to {
        let got = text(&converted["apiVersion"]);
        return Err(at_first(format!(
            "invalid groupVersion (expected {to}, received {got})"
        )));
    }
    if converted["kind"] != sent["kind"] {
        return Err(at_first(format!(
            "invalid kind (expected {}, received {})",
            text(&sent["kind"]),
            text(&converted["kind"])
        )));
    }
    for (member, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (&sent["metadata"][member], &converted["metadata"][member]);
        if text(before) != text(after) {
            return Err(invalid(format!(
                "must have the same {name}: {} != {}",
                text(before),
                text(after)
            )));
        }
    }
    let bad_metadata =
        |why: &str| format!("conversion webhook for {of} returned invalid metadata: {why}");
    let Some(object) = converted.as_object_mut() else {
        return Err(invalid("it is no object".to_owned()));
    };
    let given = match object.remove("metadata") {
        None => return Err(bad_metadata("missing metadata in converted object")),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(bad_metadata("invalid metadata in converted object")),
    };
    let mut metadata = sent["metadata"].as_object().cloned().unwrap_or_default();
    for member in ["labels", "annotations"] {
        metadata.remove(member);
        match given.get(member) {
            None | Some(Value::Null) => {}
            Some(Value::Object(texts)) if texts.values().all(Value::is_string) => {
                if !texts.is_empty() {
                    metadata.insert(member.to_owned(), Value::Object(texts.clone()));
                }
            }
            Some(_) => {
                return Err(bad_metadata(&format!(
                    "invalid metadata.{member} in converted object"
                )));
            }
        }
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    Ok(converted)
}

impl Context {
    /// Who converts the objects of this kind, if somebody has to.
    pub(crate) fn conversion(&self) -> Option<Arc<Conversion>> {
        self.kind.custom()?.conversion.clone()
    }

    /// A stored object at the version asked for.
    pub(crate) async fn requested(&self, object: Arc<Stored>) -> Result<Arc<Stored>, Status> {
        match self.conversion() {
            None => Ok(object),
            Some(_) => {
                let mut objects = self.requested_all(vec![object]).await?;
                let object = objects.pop();
                object.ok_or_else(|| Status::internal("a converted object is missing"))
            }
        }
    }

    /// Stored objects at the version asked for.
    pub(crate) async fn requested_all(
        &self,
        objects: Vec<Arc<Stored>>,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        match self.conversion() {
            None => Ok(objects),
            Some(conversion) => {
                let converted = conversion.requested(&self.shared, &self.kind, objects);
                Box::pin(converted).await
            }
        }
    }

    /// An object at the version asked for, at the version in which it is stored.
    pub(crate) async fn stored_form(
        &self,
        conversion: &Conversion,
        value: Value,
    ) -> Result<Value, Status> {
        let value = with_fields(value);
        let converted = conversion.convert(&self.shared, vec![value], &conversion.storage);
        let mut converted = converted.await.map_err(Status::unexpected)?;
        Ok(converted.pop().unwrap_or_default())
    }
}

impl Conversion {
    async fn requested(
        &self,
        shared: &Shared,
        kind: &Arc<Kind>,
        mut objects: Vec<Arc<Stored>>,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        let to = kind.api_version();
        let key = |object: &Stored| (object.revision, to.to_owned());
        let mut missing = Vec::new();
        for (place, object) in objects.iter_mut().enumerate() {
            let kept = self.kept.0.lock().get(&key(object)).cloned();
            match kept {
                // A deletion that only a dry run saw has the revision of what is there.
                Some(kept) if kept.key == object.key => *object = kept,
                _ => missing.push(place),
            }
        }
        let values = missing.iter().map(|place| {
            let mut value = objects[*place].value(kind);
            if objects[*place].version().is_none() {
                // Stored before the webhook was configured.
                value["apiVersion"] = json!(self.storage);
            }
            value
        });
        let converted = self.convert(shared, values.collect(), to);
        let converted = converted.await.map_err(Status::unexpected)?;
        for (place, value) in missing.into_iter().zip(converted) {
            let (mut value, _) = semantics::decode(kind, value)?;
            semantics::default(kind, &mut value);
            let object = &mut objects[place];
            *object = Arc::new(object.rewritten(kind, &value));
            let mut kept = self.kept.0.lock();
            if kept.len() >= KEPT {
                kept.clear();
            }
            kept.insert(key(object), object.clone());
        }
        Ok(objects)
    }
}

/// Managed fields as objects: nobody else knows them as text.
fn with_fields(mut value: Value) -> Value {
    let entries = crate::fields::list_mut(&mut value, "metadata.managedFields");
    for entry in entries.into_iter().flatten() {
        if let Some(Value::String(text)) = entry.get("fieldsV1") {
            entry["fieldsV1"] = serde_json::from_str(text).unwrap_or_default();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Value), expected: &str) {
        let sent = json!({"apiVersion": "e.io/v1", "kind": "C", "metadata": {"name": "a", "uid": "u", "generation": 2}});
        let mut converted = sent.clone();
        converted["apiVersion"] = json!("e.io/v2");
        change(&mut converted);
        let shown = match accept(&sent, converted, "e.io/v2") {
            Ok(value) => value["metadata"].to_string(),
            Err(why) => why.replace(
                "conversion webhook for e.io/v1, Kind=C returned invalid ",
                "",
            ),
        };
        assert_eq!(shown, expected);
    }

    // TestRestoreObjectMeta, TestValidateConvertedObject
    #[test]
    fn of_metadata_only_labels_and_annotations_may_change() {
        let as_it_was = r#"{"generation":2,"name":"a","uid":"u"}"#;
        check(|_| {}, as_it_was);
        check(|c| c["metadata"]["generation"] = json!(7), as_it_was);
        check(|c| c["metadata"]["finalizers"] = json!(["x"]), as_it_was);
        check(
            |c| c["metadata"]["labels"] = json!({"a": "b"}),
            r#"{"generation":2,"labels":{"a":"b"},"name":"a","uid":"u"}"#,
        );
        check(
            |c| c["metadata"]["labels"] = json!({"a": 1}),
            "metadata: invalid metadata.labels in converted object",
        );
        check(
            |c| c["metadata"]["name"] = json!("b"),
            "object: must have the same name: a != b",
        );
        check(
            |c| c["metadata"]["uid"] = json!("v"),
            "object: must have the same UID: u != v",
        );
        check(
            |c| c["apiVersion"] = json!("e.io/v3"),
            "object at index 0: invalid groupVersion (expected e.io/v2, received e.io/v3)",
        );
        check(
            |c| c["kind"] = json!("D"),
            "object at index 0: invalid kind (expected C, received D)",
        );
    }
}
