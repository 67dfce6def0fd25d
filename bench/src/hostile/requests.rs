//! Requests that cost the server far more than their sender.

use anyhow::Result;
use real_tests::Api;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Prepares the server and says what to send.
    pub(super) requests: fn(&Api) -> Result<Vec<Request>>,
}

pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) times: usize,
}

pub(super) const ATTACKS: [Attack; 8] = [
    Attack {
        name: "protobuf-in-protobuf",
        requests: |_| Ok(vec![post(REVIEWS, PROTOBUF, nested_revisions(2_000))]),
    },
    Attack {
        name: "yaml-aliases",
        requests: |_| Ok(vec![post(CONFIG_MAPS, "application/yaml", aliases())]),
    },
    Attack {
        name: "deep-managed-fields",
        requests: |_| Ok(vec![post(CONFIG_MAPS, JSON, deep_fields(50_000))]),
    },
    Attack {
        name: "finalizers",
        requests: finalizers,
    },
    Attack {
        name: "watch-log",
        requests: watch_log,
    },
    Attack {
        name: "json-patch-copies",
        requests: copies,
    },
    Attack {
        name: "patterns",
        requests: |_| Ok(vec![post(DEFINITIONS, JSON, patterns())]),
    },
    Attack {
        name: "patterns-within-the-bound",
        requests: |_| {
            Ok((0..20)
                .map(|n| post(DEFINITIONS, JSON, one_pattern(n)))
                .collect())
        },
    },
];

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn post(path: &str, content_type: &'static str, body: Vec<u8>) -> Request {
    Request {
        method: "POST",
        path: path.to_owned(),
        content_type,
        body,
        times: 1,
    }
}

fn patch(path: String, content_type: &'static str, body: &Value) -> Request {
    Request {
        method: "PATCH",
        path,
        content_type,
        body: body.to_string().into_bytes(),
        times: 1,
    }
}

/// A field of a protobuf message that holds bytes.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = body.len();
    while length > 0x7f {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(body);
    out
}

/// ControllerRevisions whose data is another one: each level begins the whole format anew.
fn nested_revisions(levels: usize) -> Vec<u8> {
    let kind = [field(1, b"apps/v1"), field(2, b"ControllerRevision")].concat();
    let envelope =
        |message: &[u8]| [b"k8s\0".to_vec(), field(1, &kind), field(2, message)].concat();
    let mut body = envelope(b"");
    for _ in 1..levels {
        body = envelope(&field(2, &field(1, &body)));
    }
    body
}

/// 80 KB that stand for 400 MB.
fn aliases() -> Vec<u8> {
    let text = "x".repeat(80_000);
    let aliases = "*a, ".repeat(5_000);
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: aliased}}\na: &a {text}\nb: [{aliases}]\n")
        .into_bytes()
}

fn deep_fields(levels: usize) -> Vec<u8> {
    let fields = "{\"f:a\":".repeat(levels - 1) + "{}" + &"}".repeat(levels - 1);
    format!(
        "{{\"metadata\":{{\"name\":\"deep\",\"managedFields\":[{{\"manager\":\"m\",\"operation\":\"Update\",\
         \"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{fields}}}]}}}}"
    )
    .into_bytes()
}

/// Lists that are merged and ordered element by element.
fn finalizers(api: &Api) -> Result<Vec<Request>> {
    let all: Vec<String> = (0..20_000).map(|n| format!("example.com/f{n}")).collect();
    let reversed: Vec<&String> = all.iter().rev().collect();
    let object = json!({"metadata": {"name": "held", "finalizers": all}});
    api.create(CONFIG_MAPS, &object)?;
    let path = format!("{CONFIG_MAPS}/held");
    let ordered =
        json!({"metadata": {"finalizers": reversed, "$setElementOrder/finalizers": reversed}});
    let deleted = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": reversed}});
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": reversed}});
    Ok(vec![
        patch(
            path.clone(),
            "application/strategic-merge-patch+json",
            &ordered,
        ),
        patch(
            format!("{path}?fieldManager=enemy&force=true"),
            "application/apply-patch+yaml",
            &applied,
        ),
        patch(path, "application/strategic-merge-patch+json", &deleted),
    ])
}

/// A large object that changes all the time: watches could ask for each of its states.
fn watch_log(api: &Api) -> Result<Vec<Request>> {
    let object = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(900_000)}});
    api.create(CONFIG_MAPS, &object)?;
    let path = format!("{CONFIG_MAPS}/large");
    let mut requests: Vec<Request> = (0..600)
        .map(|number| {
            let label = json!({"metadata": {"labels": {"round": number.to_string()}}});
            patch(path.clone(), "application/merge-patch+json", &label)
        })
        .collect();
    requests.push(Request {
        method: "DELETE",
        path,
        content_type: JSON,
        body: Vec::new(),
        times: 1,
    });
    Ok(requests)
}

/// 40 KB of operations that copy 500 MB.
fn copies(api: &Api) -> Result<Vec<Request>> {
    let object = json!({"metadata": {"name": "copied"}, "data": {"a": "x".repeat(900_000)}});
    api.create(CONFIG_MAPS, &object)?;
    let copies: Value = (0..560)
        .map(|number| json!({"op": "copy", "from": "/data/a", "path": format!("/data/b{number}")}))
        .collect();
    let path = format!("{CONFIG_MAPS}/copied");
    Ok(vec![patch(path, "application/json-patch+json", &copies)])
}

/// A hundred patterns of a few letters that would compile to a megabyte each.
fn patterns() -> Vec<u8> {
    let properties = (0..100).map(|number| {
        let pattern = format!(r"(\w{{1,{}}}){{40}}", number + 30);
        (
            format!("p{number}"),
            json!({"type": "string", "pattern": pattern}),
        )
    });
    definition("widgets", Value::Object(properties.collect()))
}

/// As much as one definition may have, in definition after definition.
fn one_pattern(number: usize) -> Vec<u8> {
    let pattern = json!({"type": "string", "pattern": format!(r"(\w{{1,{}}}){{10}}", number + 2)});
    definition(&format!("widgets{number}"), json!({"p": pattern}))
}

fn definition(plural: &str, properties: Value) -> Vec<u8> {
    let schema = json!({"type": "object", "properties": properties});
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.to_uppercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
    .to_string()
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_small_for_their_sender() {
        for body in [nested_revisions(2_000), aliases(), patterns()] {
            assert!(body.len() < 110_000, "{}", body.len());
        }
        assert!(deep_fields(50_000).len() < 500_000);
    }

    #[test]
    fn lengths_of_protobuf_fields_have_seven_bits_a_byte() {
        assert_eq!(field(1, b"ab"), [0x0a, 2, b'a', b'b']);
        assert_eq!(field(2, &[0; 300])[..3], [0x12, 0xac, 0x02]);
    }
}
