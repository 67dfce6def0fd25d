//! Makes what two runs left behind comparable: what must differ between them is named alike or left out.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::audit::Entry;

/// Fields that differ between any two runs, wherever they occur.
const VOLATILE: &[&str] = &[
    "uid",
    "resourceVersion",
    // The labels of a job's pods that carry its uid.
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "selfLink",
    // The certificate by which whoever created a request was known.
    "authentication.kubernetes.io/credential-id",
];

/// Times differ between any two runs; that there is one does not.
const TIMES: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastPhaseTransitionTime",
    "lastProbeTime",
    "lastHeartbeatTime",
    "timeAdded",
    "lastTimestamp",
    "firstTimestamp",
    "eventTime",
    "startTime",
    "completionTime",
    "lastSuccessfulTime",
    "finishedAt",
    "startedAt",
    "endpoints.kubernetes.io/last-change-trigger-time",
];

/// What a manager writes the current day into: two runs may have midnight between them.
const MARKED_SINCE: &str = "/metadata/labels/kubernetes.io~1legacy-token-invalid-since";

/// What the volumes begin with that admission adds to every pod.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// How many letters the server appends to a name prefix.
const GENERATED_SUFFIX: usize = 5;

/// What events begin with that stand for several.
pub(crate) const COMBINED: &str = "(combined from similar events): ";

/// UPSTREAM: whether a new ReplicaSet is ever written as the reason of progress, or only its first
/// update, depends on which of two status writes of one sync meets a conflict. Both count as this.
pub(crate) const PROGRESS: &str = "progress";

pub(crate) fn is_progress(reason: &str) -> bool {
    matches!(reason, "NewReplicaSetCreated" | "ReplicaSetUpdated")
}

/// The names that one run made up, and what they stand for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Longest first, so that a name is replaced before a part of it is.
    replacements: Vec<(String, String)>,
}

impl Names {
    /// Learns from the manager's own creations: a pod named by the server becomes `<its prefix>*`. The names that the
    /// manager makes itself must be the same.
    pub(crate) fn learn(namespace: &str, writes: &[Entry]) -> Names {
        let mut names = BTreeMap::from([(namespace.to_owned(), "<ns>".to_owned())]);
        for entry in writes.iter().filter(|entry| entry.verb == "create") {
            if let Some(name) = refused_pod(entry) {
                let prefix = &name[..name.len() - GENERATED_SUFFIX];
                names.insert(name.to_owned(), format!("{prefix}*"));
            }
            let Some(object) = entry
                .response_object
                .as_ref()
                .filter(|_| entry.code() == 201)
            else {
                continue;
            };
            let metadata = &object["metadata"];
            if let Some((name, prefix)) = generated_name(metadata) {
                names.insert(name.to_owned(), format!("{prefix}*"));
            }
        }
        let mut replacements: Vec<(String, String)> = names.into_iter().collect();
        replacements.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Names { replacements }
    }

    pub(crate) fn text(&self, text: &str) -> String {
        let replace =
            |text: String, (name, stands_for): &(String, String)| text.replace(name, stands_for);
        let text = self.replacements.iter().fold(text.to_owned(), replace);
        without_uids(&text)
    }

    /// An object without what differs between any two runs.
    pub(crate) fn object(&self, value: &Value) -> Value {
        match value {
            // Who plays the user is called so by our own API server.
            Value::String(text) if text == "kubernetes-admin" => "admin".into(),
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => {
                // Admission mounts a token under a name of its own into every pod.
                let kept = items.iter().filter(|item| !is_token_volume(item));
                kept.map(|item| self.object(item)).collect()
            }
            Value::Object(fields) => {
                let kept = fields
                    .iter()
                    .filter(|(key, _)| !VOLATILE.contains(&key.as_str()));
                let field = |(key, value): (&String, &Value)| {
                    if TIMES.contains(&key.as_str()) {
                        let given = if value.is_null() {
                            Value::Null
                        } else {
                            "set".into()
                        };
                        return (key.clone(), given);
                    }
                    if key == "managedFields" {
                        return (key.clone(), self.written_fields(value));
                    }
                    let mut value = self.object(value);
                    // UPSTREAM: a StatefulSet's claims become volumes in the order of a Go map.
                    if let (true, Value::Array(volumes)) = (key == "volumes", &mut value) {
                        volumes.sort_by_key(|volume| volume["name"].to_string());
                    }
                    (key.clone(), value)
                };
                let mut fields = kept.map(field).collect::<Map<_, _>>();
                if fields
                    .get("reason")
                    .and_then(Value::as_str)
                    .is_some_and(is_progress)
                {
                    fields.insert("reason".to_owned(), PROGRESS.into());
                    fields.remove("message");
                }
                Value::Object(fields)
            }
            other => other.clone(),
        }
    }

    /// Which fields the controller manager has written, by operation and subresource: what the bodies of all its
    /// requests came to, whether they were updates or patches.
    fn written_fields(&self, managed: &Value) -> Value {
        let entries = managed.as_array().into_iter().flatten();
        let own = entries.filter(|entry| entry["manager"] == crate::manager::FIELD_MANAGER);
        let field = |entry: &Value| {
            let text = |field: &str| entry[field].as_str().unwrap_or("").to_owned();
            let by = format!("{} {}", text("operation"), text("subresource"));
            (by.trim_end().to_owned(), self.paths(&entry["fieldsV1"]))
        };
        Value::Object(own.map(field).collect())
    }

    /// The tree of fields with the names in its keys made comparable.
    fn paths(&self, fields: &Value) -> Value {
        let fields = fields.as_object().into_iter().flatten();
        let kept = fields.filter(|(key, _)| !key.contains(TOKEN_VOLUME));
        kept.map(|(key, below)| (self.text(key), self.paths(below)))
            .collect::<Map<_, _>>()
            .into()
    }
}

/// A name that the server made up, and its prefix. Pods with ordinals have a prefix too, but their
/// name is their own.
fn generated_name(metadata: &Value) -> Option<(&str, &str)> {
    let (name, prefix) = (
        metadata["name"].as_str()?,
        metadata["generateName"].as_str()?,
    );
    (name.strip_prefix(prefix)?.len() == GENERATED_SUFFIX).then_some((name, prefix))
}

/// A message about a pod that was refused, with the prefix of its name alone: one that was refused after the writes were read is
/// known to nobody else.
pub(crate) fn without_refused_name(message: &str) -> String {
    let Some((before, rest)) = message.split_once("pods \"") else {
        return message.to_owned();
    };
    match rest.split_once("\" is forbidden") {
        Some((name, after)) if !name.ends_with('*') && name.is_ascii() => {
            let kept = name.len().saturating_sub(GENERATED_SUFFIX);
            let prefix = &name[..kept];
            format!("{before}pods \"{prefix}*\" is forbidden{after}")
        }
        _ => message.to_owned(),
    }
}

/// The name of a pod that was refused: the server had made it up already and quotes it in its answer,
/// unless it was refused so early that there is a prefix only.
fn refused_pod(entry: &Entry) -> Option<&str> {
    let message = &entry.response_status.as_ref()?.message;
    let name = message.strip_prefix("pods \"")?.split('"').next()?;
    let is_name = name.len() > GENERATED_SUFFIX && !name.ends_with('-');
    (entry.code() == 403 && is_name).then_some(name)
}

/// Replaces what every cluster makes anew: tokens and certificates. That they are there counts.
pub(crate) fn hide_content(kind: &str, object: &mut Value) {
    let is_root = object["metadata"]["name"] == "kube-root-ca.crt";
    let hides = kind == "secret" || kind == "configmap" && is_root;
    if let (true, Some(data)) = (hides, object["data"].as_object_mut()) {
        for value in data.values_mut() {
            *value = "set".into();
        }
    }
    if let (true, Some(held)) = (
        kind == "certificatesigningrequest",
        object.pointer_mut("/status/certificate"),
    ) {
        *held = describe_certificate(held.as_str().unwrap_or("")).into();
    }
    if let Some(day) = object.pointer_mut(MARKED_SINCE) {
        let is_day = day.as_str().is_some_and(|day| day.starts_with("20"));
        *day = if is_day { "a day" } else { "no day" }.into();
    }
}

/// A certificate without what each signature makes anew: key identifiers, serial number and the day.
fn describe_certificate(encoded: &str) -> String {
    let Ok(pem) = BASE64_STANDARD.decode(encoded) else {
        return "no base64".to_owned();
    };
    let Ok((_, block)) = x509_parser::pem::parse_x509_pem(&pem) else {
        return "no PEM".to_owned();
    };
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(&block.contents) else {
        return "no certificate".to_owned();
    };
    // The authority's key differs from cluster to cluster, and its identifier with it.
    const AUTHORITY_KEY: &str = "2.5.29.35";
    let validity = certificate.validity();
    let lasts = validity.not_after.timestamp() - validity.not_before.timestamp();
    let mut text = format!("{} for {lasts} s", certificate.subject());
    for extension in certificate.extensions() {
        let oid = extension.oid.to_string();
        let value = match oid.as_str() {
            AUTHORITY_KEY => "set".to_owned(),
            _ => format!("{:02x?}", extension.value),
        };
        let critical = if extension.critical { "!" } else { "" };
        text.push_str(&format!("; {oid}{critical} {value}"));
    }
    text
}

/// Sorts what comes in no order that anybody promises; docs/differences.md says why.
pub(crate) fn sort_unordered(kind: &str, object: &mut Value) {
    let list = match kind {
        // The conditions of a pod are its kubelet's; a patch may put another in front where an update puts it last.
        "pod" => object.pointer_mut("/status/conditions"),
        // Two loops of one controller give them, and either may come first.
        "node" => object.pointer_mut("/spec/taints"),
        _ => None,
    };
    if let Some(Value::Array(list)) = list {
        list.sort_by_key(|item| (item["type"].to_string(), item.to_string()));
    }
}

/// What of endpoints differs between any two runs: names that the server made up, generations, because writes may be
/// fewer, and order.
pub(crate) fn level_endpoints(kind: &str, object: &mut Value) {
    if !matches!(kind, "endpointslice" | "endpoints") {
        return;
    }
    if kind == "endpointslice" {
        let service = &object["metadata"]["labels"]["kubernetes.io/service-name"];
        object["metadata"]["name"] = format!("{}-*", service.as_str().unwrap_or("")).into();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("generation");
        }
    }
    // UPSTREAM: endpoints come in the order of a Go map, ports and subsets in that of a hash, addresses in that of uids.
    let subsets = object.get_mut("subsets").and_then(Value::as_array_mut);
    for subset in subsets.into_iter().flatten() {
        for list in ["addresses", "notReadyAddresses", "ports"] {
            sort_by_text(subset.get_mut(list));
        }
    }
    for list in ["endpoints", "ports", "subsets"] {
        sort_by_text(object.get_mut(list));
    }
}

fn sort_by_text(list: Option<&mut Value>) {
    if let Some(Value::Array(list)) = list {
        list.sort_by_key(Value::to_string);
    }
}

/// A text with `<uid>` for every uid in it.
fn without_uids(text: &str) -> String {
    /// 32 hexadecimal digits and four dashes.
    const LENGTH: usize = 36;
    let is_uid = |part: &str| {
        let dashes = [8, 13, 18, 23];
        part.len() == LENGTH
            && part.bytes().enumerate().all(|(at, byte)| match byte {
                b'-' => dashes.contains(&at),
                byte => byte.is_ascii_hexdigit() && !dashes.contains(&at),
            })
    };
    let mut shown = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match rest.get(..LENGTH).is_some_and(is_uid) {
            true => {
                shown.push_str("<uid>");
                LENGTH
            }
            false => {
                shown.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    shown
}

fn is_token_volume(item: &Value) -> bool {
    item["name"]
        .as_str()
        .is_some_and(|name| name.starts_with(TOKEN_VOLUME))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn created(resource: &str, object: &Value) -> Entry {
        serde_json::from_value(json!({
            "stage": "ResponseComplete", "verb": "create", "requestURI": "/", "user": {"username": "m"},
            "objectRef": {"resource": resource, "namespace": "n"}, "responseStatus": {"code": 201},
            "responseObject": object, "requestReceivedTimestamp": "",
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_that_nobody_knows_is_called_by_its_prefix() {
        let check = |message: &str, expected: &str| {
            assert_eq!(without_refused_name(message), expected);
        };
        let late = "Error creating: pods \"work-d4jd8\" is forbidden: exceeded quota: two";
        let known = "Error creating: pods \"work-*\" is forbidden: exceeded quota: two";
        check(late, known);
        check(known, known);
        check("Created pod: work-d4jd8", "Created pod: work-d4jd8");
    }

    #[test]
    fn generated_names_become_their_prefix() {
        let mut refused = created("pods", &Value::Null);
        refused.response_status = serde_json::from_value(
            json!({"code": 403, "message": "pods \"web-5f6c7d8b9-zzzzz\" is forbidden"}),
        )
        .unwrap();
        let pod = json!({"metadata": {"name": "web-79d4b9c4c6-x2x4z", "generateName": "web-79d4b9c4c6-"}});
        let names = Names::learn("scenario-3", &[created("pods", &pod), refused]);
        assert_eq!(
            names.text("Created pod: web-79d4b9c4c6-x2x4z for web-5f6c7d8b9 in scenario-3"),
            "Created pod: web-79d4b9c4c6-* for web-5f6c7d8b9 in <ns>"
        );
        assert_eq!(names.text("web-5f6c7d8b9-zzzzz"), "web-5f6c7d8b9-*");
    }

    #[test]
    fn uids_in_texts_are_all_the_same() {
        let text =
            "ownerRef [v1/X, uid: 3f9d9c3a-0000-4000-8000-00000000000a] is not – 3f9d9c3a-00";
        let shown = "ownerRef [v1/X, uid: <uid>] is not – 3f9d9c3a-00";
        assert_eq!(without_uids(text), shown);
    }

    #[test]
    fn only_lists_without_a_promised_order_are_sorted() {
        let sorted = |kind: &str, mut object: Value| {
            sort_unordered(kind, &mut object);
            object
        };
        let conditions = |types: [&str; 2]| {
            let conditions = types.map(|kind| json!({"type": kind}));
            json!({"status": {"conditions": conditions}})
        };
        let (given, ordered) = (conditions(["b", "a"]), conditions(["a", "b"]));
        assert_eq!(sorted("pod", given.clone()), ordered);
        assert_eq!(sorted("deployment", given.clone()), given);
        let taints = |effects: [&str; 2]| {
            let taints = effects.map(|effect| json!({"effect": effect}));
            json!({"spec": {"taints": taints}})
        };
        assert_eq!(sorted("node", taints(["b", "a"])), taints(["a", "b"]));
    }

    #[test]
    fn what_differs_between_any_two_runs_is_left_out() {
        let object = json!({"metadata": {"uid": "1", "name": "a"}, "spec": {"volumes": [{"name": "kube-api-access-x"}]}});
        let normal = Names::default().object(&object);
        assert_eq!(
            normal,
            json!({"metadata": {"name": "a"}, "spec": {"volumes": []}})
        );
    }
}
