//! Discovery, reviews and the version print their members in the order of upstream's structs, which scripts grep for.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Members in their order; no two of these types disagree about it. Others come after them, by name.
const ORDER: [&str; 62] = [
    // Of everything that has a type.
    "metadata",
    "spec",
    "status",
    // apidiscovery.k8s.io and metav1.APIResource
    "resource",
    "subresource",
    "name",
    "singularName",
    "namespaced",
    "groupVersion",
    "group",
    "version",
    "kind",
    "responseKind",
    "scope",
    "singularResource",
    "verbs",
    "shortNames",
    "categories",
    "storageVersionHash",
    "subresources",
    "resources",
    "freshness",
    "versions",
    "preferredVersion",
    "serverAddressByClientCIDRs",
    "clientCIDR",
    "serverAddress",
    "items",
    // Reviews.
    "allowed",
    "denied",
    "reason",
    "authenticated",
    "resourceAttributes",
    "nonResourceAttributes",
    "path",
    "user",
    "groups",
    "extra",
    "token",
    "userInfo",
    "username",
    "uid",
    "audiences",
    "error",
    "resourceRules",
    "nonResourceRules",
    "incomplete",
    "evaluationError",
    "creationTimestamp",
    // The version.
    "major",
    "minor",
    "emulationMajor",
    "emulationMinor",
    "minCompatibilityMajor",
    "minCompatibilityMinor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
];

/// A rule of RBAC has an order of its own.
const RULE: [&str; 5] = [
    "verbs",
    "apiGroups",
    "resources",
    "resourceNames",
    "nonResourceURLs",
];

/// What a request for access names, likewise.
const ATTRIBUTES: [&str; 10] = [
    "namespace",
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "name",
    "fieldSelector",
    "labelSelector",
    "path",
];

/// Who is asked for: `user`, `groups`, `extra`, `uid`; and who somebody is: `username`, `uid`, `groups`, `extra`.
const SOMEBODY: [&str; 4] = ["username", "uid", "groups", "extra"];

pub(crate) fn print(value: &Value) -> String {
    let whole = Ordered {
        value,
        is_root: true,
        order: &ORDER,
    };
    // A map with names for keys can always be printed.
    serde_json::to_string(&whole).unwrap_or_default()
}

struct Ordered<'a> {
    value: &'a Value,
    is_root: bool,
    order: &'static [&'static str],
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inner = |value, order| Ordered {
            value,
            is_root: false,
            order,
        };
        match self.value {
            Value::Object(members) => {
                let mut names: Vec<&String> = members.keys().collect();
                let order = match members.contains_key("username") {
                    true => &SOMEBODY[..],
                    false => self.order,
                };
                // UPSTREAM: what a document is comes first.
                let place = |name: &str| match name {
                    "kind" if self.is_root => 0,
                    "apiVersion" if self.is_root => 1,
                    name => {
                        2 + order
                            .iter()
                            .position(|known| *known == name)
                            .unwrap_or(order.len())
                    }
                };
                names.sort_by_key(|name| place(name));
                let mut map = serializer.serialize_map(Some(names.len()))?;
                for name in names {
                    let order: &'static [&'static str] = match name.as_str() {
                        "resourceRules" | "nonResourceRules" => &RULE,
                        "resourceAttributes" | "nonResourceAttributes" => &ATTRIBUTES,
                        _ => order,
                    };
                    map.serialize_entry(name, &inner(&members[name], order))?;
                }
                map.end()
            }
            Value::Array(items) => {
                serializer.collect_seq(items.iter().map(|item| inner(item, self.order)))
            }
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: Value, expected: &str) {
        assert_eq!(print(&value), expected);
    }

    // Issue 21, point 20: the orders of metav1, apidiscovery, authorization and authentication.
    #[test]
    fn members_come_in_the_order_of_upstreams_structs() {
        check(
            json!({"apiVersion": "v1", "groupVersion": "apps/v1", "kind": "APIResourceList", "resources": [
                {"categories": ["all"], "kind": "Scale", "name": "deployments/scale", "namespaced": true,
                 "singularName": "", "verbs": ["get"], "group": "autoscaling", "version": "v1", "shortNames": ["d"]}]}),
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"],"shortNames":["d"],"categories":["all"]}]}"#,
        );
        check(
            json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
                "status": {"reason": "r", "allowed": true},
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "a"}}}),
            r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":"a","verb":"get","resource":"pods"}},"status":{"allowed":true,"reason":"r"}}"#,
        );
        check(
            json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": {"user":
                {"extra": {}, "groups": ["g"], "uid": "u", "username": "n"}, "authenticated": true, "audiences": ["a"]}}),
            r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"n","uid":"u","groups":["g"],"extra":{}},"audiences":["a"]}}"#,
        );
        check(
            json!({"status": {"resourceRules": [{"resources": ["p"], "verbs": ["get"], "apiGroups": [""]}], "incomplete": false}}),
            r#"{"status":{"resourceRules":[{"verbs":["get"],"apiGroups":[""],"resources":["p"]}],"incomplete":false}}"#,
        );
    }
}
