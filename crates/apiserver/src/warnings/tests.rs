use serde_json::Value;

use super::*;
use crate::kinds::Registry;
use crate::{defaults, schema, strategy};

/// Objects that kube-apiserver 1.36 took, with the warnings it gave.
#[test]
fn warnings_are_those_of_upstream() {
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/warnings.json")).unwrap();
    let registry = Registry::default();
    let mut found = Vec::new();
    for case in &corpus {
        let sent = &case["sent"];
        let kind = registry
            .kind(text(sent, "apiVersion"), text(sent, "kind"))
            .unwrap();
        let ty = schema::type_for(&kind.group, &kind.version, &kind.kind).unwrap();
        let mut object = schema::decode(ty, sent.clone()).unwrap().object;
        defaults::apply(kind, &mut object);
        strategy::prepare_create(kind, &mut object, "2026-01-01T00:00:00Z");
        let theirs: Vec<_> = case["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        // We do not look into certificates.
        if of(kind, &object, None) != theirs
            && !theirs.iter().any(|warning| warning.starts_with("tls: "))
        {
            found.push(format!(
                "{}: ours {:?}, theirs {theirs:?}",
                kind.kind,
                of(kind, &object, None)
            ));
        }
    }
    assert!(corpus.len() > 60);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn an_update_that_leaves_the_template_alone_is_not_told_again() {
    let deployment = serde_json::json!({"metadata": {"name": "a.b"},
        "spec": {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "x"}}}}});
    let kind = crate::kinds::find("apps", "Deployment").unwrap();
    assert_eq!(of(kind, &deployment, None).len(), 2);
    assert_eq!(of(kind, &deployment, Some(&deployment)), [""; 0]);
}

#[test]
fn only_fractions_of_bytes_are_warned_of() {
    let claim = |storage: &str| {
        let claim = serde_json::json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        let kind = crate::kinds::find("", "PersistentVolumeClaim").unwrap();
        of(kind, &claim, None)
    };
    for whole in ["1Gi", "5Pi", "8Ei", "1e99"] {
        assert_eq!(claim(whole), [""; 0], "{whole}");
    }
    assert_eq!(
        claim("1500m"),
        [
            "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"
        ]
    );
}

/// Upstream: `TestGetWarningsForIP`.
#[test]
fn addresses_should_be_spelled_as_upstream_prints_them() {
    let endpoints = |labels: Value| {
        let ready = serde_json::json!([{"ip": "1.2.3.4"}, {"ip": "2001:DB8::1"}]);
        let not_ready =
            serde_json::json!([{"ip": "::ffff:1.2.3.4"}, {"ip": "010.1.1.1"}, {"ip": "a"}]);
        serde_json::json!({"metadata": {"labels": labels},
            "subsets": [{"addresses": ready, "notReadyAddresses": not_ready}]})
    };
    let kind = crate::kinds::find("", "Endpoints").unwrap();
    let deprecated = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    let spelled = [
        deprecated,
        "subsets[0].addresses[1].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
        "subsets[0].notReadyAddresses[0].ip: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\"",
        "subsets[0].notReadyAddresses[1].ip: non-standard IP address \"010.1.1.1\" is invalid: use \"10.1.1.1\"",
    ];
    assert_eq!(of(kind, &endpoints(Value::Null), None), spelled);
    let managed = serde_json::json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(of(kind, &endpoints(managed), None), [deprecated]);
}
