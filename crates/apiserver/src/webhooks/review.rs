//! `AdmissionReview`: what a webhook is asked, and what it may answer.

use super::Attributes;
use super::configuration::WebhookSpec;
use super::matching::Invocation;
use crate::rest::Context;
use crate::rest::metadata::new_uid;
use crate::rest::type_meta;
use crate::schema;
use crate::status::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A question, and what tells its answer from others.
pub(super) struct Question {
    uid: String,
    version: &'static str,
    pub(super) review: Value,
}

/// What a webhook answered, once it is known to be an answer. Its audit annotations have nowhere to go: this server
/// writes no audit log.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) patch: Vec<u8>,
    /// What the patch is said to be. UPSTREAM: that is looked at once it has been read.
    pub(super) patch_type: String,
    pub(super) result: Option<Value>,
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: BTreeMap<String, String>,
}

/// The fields of an answer and their types in Go.
const RESPONSE: [(&str, &str); 7] = [
    ("uid", "types.UID"),
    ("allowed", "bool"),
    ("status", "v1.Status"),
    ("patch", "[]uint8"),
    ("patchType", "v1.PatchType"),
    ("auditAnnotations", "map[string]string"),
    ("warnings", "[]string"),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    allowed: bool,
    patch: Option<String>,
    patch_type: Option<String>,
    status: Option<Value>,
    warnings: Option<Vec<String>>,
    #[serde(default)]
    audit_annotations: Option<BTreeMap<String, String>>,
}

impl Question {
    /// None if the webhook understands no version of reviews that we do.
    pub(super) fn new(
        context: &Context,
        spec: &WebhookSpec,
        invocation: &Invocation,
        attributes: &Attributes,
        object: Value,
        old: Value,
    ) -> Option<Question> {
        let mut versions = spec.admission_review_versions.iter();
        let version = versions.find_map(|version| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        })?;
        let uid = new_uid(&context.shared);
        let (info, kind) = (&context.info, &invocation.kind);
        let shown = |own: &crate::kinds::Kind| match attributes.shown_as {
            Some((api_version, kind)) => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                json!({"group": group, "version": version, "kind": kind})
            }
            None => json!({"group": own.group, "version": own.version, "kind": own.kind}),
        };
        let resource = |own: &crate::kinds::Kind| json!({"group": own.group, "version": own.version, "resource": own.plural});
        let mut request = json!({
            "uid": uid,
            "kind": shown(kind),
            "resource": resource(kind),
            "requestKind": shown(&context.kind),
            "requestResource": resource(&context.kind),
            "operation": attributes.operation.name(),
            "userInfo": crate::rest::user_info(&context.identity),
            "object": object,
            "oldObject": old,
            "dryRun": attributes.dry_run,
            "options": attributes.options,
        });
        for (member, value) in [
            ("subResource", &info.subresource),
            ("requestSubResource", &info.subresource),
            ("name", &attributes.name),
            ("namespace", &attributes.namespace),
        ] {
            if !value.is_empty() {
                request[member] = json!(value);
            }
        }
        let api_version = format!("admission.k8s.io/{version}");
        Some(Question {
            uid,
            version,
            review: json!({"kind": "AdmissionReview", "apiVersion": api_version, "request": request}),
        })
    }

    /// What keeps an answer from being read as a review of the version that was sent.
    pub(super) fn unreadable(&self, review: &Value) -> Option<String> {
        let given = |member: &str| review[member].as_str().unwrap_or_default();
        let (kind, api_version) = (given("kind"), given("apiVersion"));
        let is_review = matches!(kind, "" | "AdmissionReview");
        match api_version.strip_prefix("admission.k8s.io/") {
            _ if api_version.is_empty() && is_review => {}
            Some(version) if is_review && version == self.version => {}
            Some(version @ ("v1" | "v1beta1")) if is_review => {
                return Some(format!(
                    "converting ({version}.AdmissionReview) to ({}.AdmissionReview): unknown conversion",
                    self.version
                ));
            }
            _ => return Some(type_meta::unregistered(api_version, kind)),
        }
        let response = review["response"].as_object()?;
        for (name, ty) in RESPONSE {
            let found = response.get(name).unwrap_or(&Value::Null);
            let fits = match ty {
                _ if found.is_null() => true,
                "bool" => found.is_boolean(),
                "v1.Status" | "map[string]string" => found.is_object(),
                "[]string" => found.is_array(),
                _ => found.is_string(),
            };
            if !fits {
                return Some(format!(
                    "json: cannot unmarshal {} into Go struct field AdmissionResponse.response.{name} of type {ty}",
                    schema::json_type(found)
                ));
            }
        }
        decode(response.get("patch")?.as_str()?).err()
    }

    /// Reads an answer. UPSTREAM: what is checked depends on the version, for `v1beta1` was not checked at all.
    pub(super) fn answer(&self, review: &Value, is_mutating: bool) -> Result<Answer, String> {
        let given = |member: &str| review[member].as_str().unwrap_or_default();
        let is_v1 = self.version == "v1";
        let response = match &review["response"] {
            Value::Null => return Err("webhook response was absent".to_owned()),
            response => Response::deserialize(response).map_err(|why| format!("json: {why}"))?,
        };
        if is_v1 && response.uid != self.uid {
            return Err(format!(
                "expected response.uid=\"{}\", got {}",
                self.uid,
                api::syntax::go_quote(&response.uid)
            ));
        }
        if is_v1
            && (given("apiVersion"), given("kind")) != ("admission.k8s.io/v1", "AdmissionReview")
        {
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {}, Kind={}",
                match given("apiVersion") {
                    "" => "/",
                    version => version,
                },
                given("kind")
            ));
        }
        let encoded = response.patch.as_deref().unwrap_or_default();
        let patch_type = response.patch_type.as_deref();
        if is_v1 {
            check_patch(encoded, patch_type, is_mutating)?;
        }
        let patch = match is_mutating {
            true => decode(encoded)?,
            false => Vec::new(),
        };
        Ok(Answer {
            allowed: response.allowed,
            patch,
            patch_type: match is_v1 {
                true => response.patch_type.unwrap_or_default(),
                false => "JSONPatch".to_owned(),
            },
            result: response.status,
            warnings: response.warnings.unwrap_or_default(),
            audit_annotations: response.audit_annotations.unwrap_or_default(),
        })
    }
}

fn check_patch(patch: &str, patch_type: Option<&str>, is_mutating: bool) -> Result<(), String> {
    let why = match (is_mutating, patch.is_empty(), patch_type) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

fn decode(patch: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(patch).map_err(|why| match why {
        base64::DecodeError::InvalidByte(place, _) => {
            format!("illegal base64 data at input byte {place}")
        }
        _ => "illegal base64 data at input byte 0".to_owned(),
    })
}

/// The refusal of a webhook: what it said, and never a success.
pub(super) fn denied(name: &str, result: Option<&Value>) -> Status {
    let by = format!("admission webhook \"{name}\" denied the request");
    let empty = Value::Null;
    let result = result.unwrap_or(&empty);
    let text = |member: &str| result[member].as_str().unwrap_or_default();
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = result["code"].as_u64().filter(|code| *code >= 400);
    // What no answer can carry is a refusal all the same.
    let code = code
        .and_then(|code| u16::try_from(code).ok())
        .unwrap_or(400);
    let mut status = Map::new();
    status.insert("kind".into(), json!("Status"));
    status.insert("apiVersion".into(), json!("v1"));
    let metadata = result
        .get("metadata")
        .filter(|metadata| metadata.is_object());
    let metadata = metadata.cloned().unwrap_or_else(|| json!({}));
    status.insert("metadata".into(), metadata);
    let outcome = match text("status") {
        "" | "Success" => "Failure",
        other => other,
    };
    status.insert("status".into(), json!(outcome));
    status.insert("message".into(), json!(message));
    if !text("reason").is_empty() {
        status.insert("reason".into(), json!(text("reason")));
    }
    if result["details"].is_object() {
        status.insert("details".into(), result["details"].clone());
    }
    status.insert("code".into(), json!(code));
    Status::foreign(code, message, Value::Object(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &'static str, is_mutating: bool, response: Value, expected: &str) {
        let question = Question {
            uid: "u".to_owned(),
            version,
            review: Value::Null,
        };
        let review = json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "response": response});
        let answer = question.answer(&review, is_mutating);
        let shown = match answer {
            Ok(answer) => format!(
                "{} {}",
                answer.allowed,
                String::from_utf8_lossy(&answer.patch)
            ),
            Err(why) => why,
        };
        assert_eq!(shown, expected, "{review}");
    }

    // TestVerifyAdmissionResponse
    #[test]
    fn answers_are_checked_as_their_version_asks() {
        let patch = json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        check("v1", true, patch.clone(), "true []");
        check(
            "v1",
            false,
            patch.clone(),
            "validating webhook may not return response.patch",
        );
        check("v1", true, Value::Null, "webhook response was absent");
        check(
            "v1",
            true,
            json!({"uid": "x"}),
            "expected response.uid=\"u\", got \"x\"",
        );
        check(
            "v1",
            true,
            json!({"uid": "u", "patch": "W10="}),
            "webhook returned response.patch but not response.patchType",
        );
        check(
            "v1",
            true,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            "webhook returned response.patchType but not response.patch",
        );
        check(
            "v1",
            true,
            json!({"uid": "u", "patch": "W10=", "patchType": ""}),
            "webhook returned invalid response.patchType of \"\"",
        );
        check(
            "v1",
            false,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            "validating webhook may not return response.patchType",
        );
        check(
            "v1beta1",
            true,
            json!({"allowed": true, "patch": "W10="}),
            "true []",
        );
        check("v1beta1", false, patch, "true ");
    }

    // TestToStatusErr
    #[test]
    fn a_refusal_is_never_a_success() {
        let message = |result: Value| denied("w", Some(&result)).message;
        let by = "admission webhook \"w\" denied the request";
        assert_eq!(
            denied("w", None).message,
            format!("{by} without explanation")
        );
        assert_eq!(message(json!({"reason": "Nope"})), format!("{by}: Nope"));
        assert_eq!(
            message(json!({"message": "m", "reason": "r"})),
            format!("{by}: m")
        );
        let status = denied("w", Some(&json!({"code": 200, "status": "Success"})));
        assert_eq!(status.code, 400);
        assert_eq!(status.to_value()["status"], "Failure");
        assert_eq!(denied("w", Some(&json!({"code": 403}))).code, 403);
    }
}
