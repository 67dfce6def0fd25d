//! Of what kind a body is, and what is said of one that is in the wrong place.

use super::go_json;
use crate::schema::{self, Type};
use crate::status::Status;
use serde_json::Value;

/// UPSTREAM: where its registry of types is made, which its messages name.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// What kind and version of a body are read into.
const TYPE_META: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// A body without a kind that could be read. UPSTREAM: both are looked for before anything else is read.
pub(crate) fn unreadable(value: &Value) -> Option<String> {
    let Value::Object(members) = value else {
        return Some(parse_error(&go_json::mismatch(value, TYPE_META)));
    };
    for name in ["apiVersion", "kind"] {
        let Some(member) = members.get(name) else {
            continue;
        };
        if !matches!(member, Value::Null | Value::String(_)) {
            let found = schema::json_type(member);
            return Some(parse_error(&format!(
                "json: cannot unmarshal {found} into Go struct field .{name} of type string"
            )));
        }
    }
    let version = value["apiVersion"].as_str().unwrap_or_default();
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

pub(crate) fn parse_error(why: &str) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

/// Fills in a missing apiVersion and kind, and refuses others than expected.
pub(crate) fn match_type(value: &mut Value, api_version: &str, kind: &str) -> Result<(), Status> {
    let Some(fault) = type_fault(value, api_version, kind) else {
        return Ok(());
    };
    let given_version = value["apiVersion"].as_str().unwrap_or_default();
    Err(Status::bad_request(match fault {
        Fault::Version => wrong_version(given_version, api_version),
        Fault::Kind(why) => {
            let given_kind = value["kind"].as_str().unwrap_or_default();
            let version = given_version.rsplit('/').next().unwrap_or_default();
            format!("{given_kind} in version \"{version}\" cannot be handled as a {kind}: {why}")
        }
    }))
}

/// The same for an object that a patch has made, whose refusal shows the object.
pub(crate) fn match_patched_type(
    value: &mut Value,
    api_version: &str,
    kind: &str,
) -> Result<(), String> {
    match type_fault(value, api_version, kind) {
        None => Ok(()),
        Some(Fault::Kind(why)) => Err(why),
        Some(Fault::Version) => {
            let given = value["apiVersion"].as_str().unwrap_or_default();
            Err(wrong_version(given, api_version))
        }
    }
}

fn wrong_version(given: &str, expected: &str) -> String {
    format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    )
}

enum Fault {
    /// It is of another version of its kind.
    Version,
    /// It is something else.
    Kind(String),
}

fn type_fault(value: &mut Value, api_version: &str, kind: &str) -> Option<Fault> {
    for (name, expected) in [("apiVersion", api_version), ("kind", kind)] {
        if value[name].as_str().unwrap_or_default().is_empty() {
            value[name] = Value::from(expected);
        }
    }
    let given_version = value["apiVersion"].as_str().unwrap_or_default();
    let given_kind = value["kind"].as_str().unwrap_or_default();
    if (given_version, given_kind) == (api_version, kind) {
        return None;
    }
    let ((group, _), (given_group, version)) = (split(api_version), split(given_version));
    if given_kind == kind
        && is_same_type(group, given_group, kind)
        && is_former(version, given_version)
    {
        return Some(Fault::Version);
    }
    let Some(ty) = registered(group, given_version, given_kind) else {
        return Some(Fault::Kind(unregistered(given_version, given_kind)));
    };
    if let Err(why) = schema::decode(ty, value.clone()) {
        return Some(Fault::Kind(why.to_string()));
    }
    Some(Fault::Kind(format!(
        "converting ({version}.{given_kind}) to ({}.{kind}): unknown conversion",
        package(group, kind)
    )))
}

pub(crate) fn unregistered(api_version: &str, kind: &str) -> String {
    format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{SCHEME}\"")
}

/// Group and version.
fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Whether objects of a kind are one type upstream, whichever of these groups they come in.
fn is_same_type(group: &str, other: &str, kind: &str) -> bool {
    let has_two_groups = |group: &str| match kind {
        "Event" => matches!(group, "" | "events.k8s.io"),
        "Scale" => matches!(group, "autoscaling" | "apps" | "extensions"),
        _ => false,
    };
    group == other || has_two_groups(group) && has_two_groups(other)
}

/// Whether it is a version that upstream still reads, though most of them are served no more.
fn is_former(version: &str, api_version: &str) -> bool {
    version.contains("alpha")
        || version.contains("beta")
        || matches!(
            api_version,
            "v1" | "events.k8s.io/v1" | "autoscaling/v1" | "autoscaling/v2"
        )
}

/// The type of a kind, if upstream's registry for objects of `group` has it: those of extensions have registries of their own.
fn registered(group: &str, api_version: &str, kind: &str) -> Option<&'static Type> {
    let apart = |group: &str| matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
    let (given, version) = split(api_version);
    let is_known = given == group || !apart(group) && !apart(given);
    is_known
        .then(|| schema::type_for(given, version, kind))
        .flatten()
}

/// The Go package of a kind's internal type.
fn package<'a>(group: &'a str, kind: &str) -> &'a str {
    match group {
        "" => "core",
        "events.k8s.io" if kind == "Event" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(body: Value, api_version: &str, kind: &str, expected: &str) {
        let mut body = body;
        let said = match match_type(&mut body, api_version, kind) {
            Ok(()) => format!("{} {}", body["apiVersion"], body["kind"]).replace('"', ""),
            Err(status) => status.message,
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn a_body_in_the_wrong_place_is_refused_in_upstreams_words() {
        check(json!({}), "v1", "ConfigMap", "v1 ConfigMap");
        check(
            json!({"kind": null}),
            "apps/v1",
            "Deployment",
            "apps/v1 Deployment",
        );
        check(
            json!({"kind": "Secret", "apiVersion": "v1"}),
            "v1",
            "ConfigMap",
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): \
             unknown conversion",
        );
        check(
            json!({"kind": "Deployment", "apiVersion": "apps/v1", "spec": 3}),
            "v1",
            "ConfigMap",
            "Deployment in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go \
             struct field Deployment.spec of type v1.DeploymentSpec",
        );
        check(
            json!({"kind": "ConfigMap", "apiVersion": "apps/v1"}),
            "v1",
            "ConfigMap",
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for \
             version \"apps/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        );
        for (given, expected, kind) in [
            (
                "autoscaling/v1",
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
            ),
            ("apps/v1beta1", "apps/v1", "Deployment"),
            ("v1", "events.k8s.io/v1", "Event"),
        ] {
            check(
                json!({"kind": kind, "apiVersion": given}),
                expected,
                kind,
                &wrong_version(given, expected),
            );
        }
    }

    #[test]
    fn a_kind_that_is_no_text_is_no_kind() {
        let unread = |body: Value| unreadable(&body).unwrap_or_default();
        assert_eq!(unread(json!({"kind": null, "apiVersion": "apps/v1"})), "");
        assert_eq!(
            unread(json!({"kind": 1})),
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of \
             type string"
        );
        assert!(
            unread(json!([])).contains("cannot unmarshal array into Go value of type struct {")
        );
        assert_eq!(
            unread(json!({"apiVersion": "a/b/c"})),
            "unexpected GroupVersion string: a/b/c"
        );
    }
}
