use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::fields::{set, text};
use crate::kinds::Registry;
use crate::{defaults, schema, strategy};

mod addresses;
mod long_lists;

fn prepared(sent: &Value) -> (std::sync::Arc<Kind>, Value) {
    let registry = Registry::default();
    let kind = registry
        .kind(text(sent, "apiVersion"), text(sent, "kind"))
        .unwrap()
        .clone();
    let ty = schema::type_for(&kind.group, &kind.version, &kind.kind).unwrap();
    let mut object = schema::decode(ty, sent.clone()).unwrap().object;
    if kind.namespaced {
        set(&mut object, "metadata.namespace", "default");
    }
    set(&mut object, "metadata.uid", "the-uid");
    defaults::apply(&kind, &mut object);
    strategy::prepare_create(&kind, &mut object, "2026-01-01T00:00:00Z");
    (kind, object)
}

/// Comparable causes: where upstream shows one of its Go structs, only what is said about it.
fn comparable(causes: impl Iterator<Item = (String, String, String)>) -> BTreeSet<String> {
    let show = |(field, reason, message): (String, String, String)| {
        let heads = [
            "Invalid value: {",
            "Unsupported value: {",
            "Duplicate value: {",
            "Invalid value: [{",
        ];
        let said = match heads.iter().any(|head| message.starts_with(head)) {
            true => message
                .rsplit_once("}: ")
                .or_else(|| message.rsplit_once("}]: "))
                .map_or(String::new(), |(_, said)| said.to_owned()),
            false => message,
        };
        format!("{field} {reason} {said}")
    };
    causes.map(show).collect()
}

/// Where we differ on purpose.
fn is_known_difference(cause: &str) -> bool {
    // A cluster that forbids privileged containers altogether has to be asked for: nobody runs one.
    cause.ends_with("Forbidden: disallowed by cluster policy")
        // Ports are found to be taken when they are allocated, in admission.
        || cause.ends_with("provided port is already allocated")
}

/// Some 450 objects, most of them wrong in one way, with the causes that kube-apiserver 1.36 gave.
#[test]
fn causes_are_those_of_upstream() {
    let mut corpus: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/invalid.json")).unwrap();
    let more: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/invalid_more.json")).unwrap();
    corpus.extend(more);
    let mut found = Vec::new();
    for case in &corpus {
        let (kind, object) = prepared(&case["sent"]);
        let ours = create(&kind, &object, Gates::default())
            .into_iter()
            .map(|cause| (cause.field, cause.reason, cause.message));
        let ours = comparable(ours);
        let theirs = case["causes"].as_array().unwrap().iter();
        let theirs = comparable(theirs.map(|cause| {
            let part = |name: &str| cause[name].as_str().unwrap().to_owned();
            (part("field"), part("reason"), part("message"))
        }));
        for missing in theirs
            .difference(&ours)
            .filter(|cause| !is_known_difference(cause))
        {
            found.push(format!("{} lacks   {missing}", kind.kind));
        }
        for extra in ours.difference(&theirs) {
            found.push(format!("{} invents {extra}", kind.kind));
        }
    }
    assert!(corpus.len() > 500);
    assert!(
        found.is_empty(),
        "{} differences\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn valid_objects_are_valid() {
    for name in [include_str!("../../testdata/created.json")] {
        let corpus: Vec<Value> = serde_json::from_str(name).unwrap();
        for case in corpus {
            let (kind, object) = prepared(&case["sent"]);
            let causes: Vec<_> = create(&kind, &object, Gates::default())
                .into_iter()
                .map(|cause| format!("{} {}", cause.field, cause.message))
                .collect();
            assert_eq!(causes, [""; 0], "{} {object}", kind.kind);
            assert_eq!(
                update(&kind, &object, &object, Gates::default()),
                [],
                "{} updated to itself",
                kind.kind
            );
        }
    }
}

#[test]
fn ephemeral_containers_can_be_added_and_not_taken_back() {
    let (kind, old) = prepared(
        &serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    let container = |name: &str, more: Value| {
        let mut container = serde_json::json!({"name": name, "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"});
        container
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap_or_default());
        container
    };
    let with = |containers: Vec<Value>| {
        let mut pod = old.clone();
        set(&mut pod, "spec.ephemeralContainers", containers);
        pod
    };
    let said = |new: &Value, old: &Value| -> Vec<String> {
        status_update(&kind, new, old, 0)
            .into_iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    };
    let debugged = with(vec![container("d", Value::Null)]);
    assert_eq!(said(&debugged, &old), [""; 0]);
    assert_eq!(
        said(&old, &debugged),
        [
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed"
        ]
    );
    let clash = with(vec![container(
        "c",
        serde_json::json!({"ports": [{"containerPort": 1, "protocol": "TCP"}]}),
    )]);
    assert_eq!(
        said(&clash, &old),
        [
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
        ]
    );
}

/// What a claim template makes is there to be mounted.
#[test]
fn containers_mount_what_claim_templates_make() {
    let set = |mounted: &str| {
        serde_json::json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {
                "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [{
                        "name": "c", "image": "db",
                        "volumeMounts": [{"name": mounted, "mountPath": "/d"}],
                    }]},
                },
                "volumeClaimTemplates": [{
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }],
            },
        })
    };
    let fields = |mounted: &str| -> Vec<String> {
        let (kind, object) = prepared(&set(mounted));
        create(&kind, &object, Gates::default())
            .into_iter()
            .map(|cause| cause.field)
            .collect()
    };
    assert!(fields("data").is_empty());
    assert_eq!(
        fields("other"),
        ["spec.template.spec.containers[0].volumeMounts[0].name"]
    );
}

/// Upstream: `TestValidateCertificateSigningRequestCreate`, and what `x509.CheckSignature` refuses.
#[test]
fn a_certificate_request_is_signed_with_the_key_that_it_is_about() {
    use base64::prelude::*;
    let fault = |pem: &str| {
        let sent = serde_json::json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "x"},
            "spec": {
                "request": BASE64_STANDARD.encode(pem),
                "signerName": "example.com/s", "usages": ["client auth"],
            },
        });
        let (kind, object) = prepared(&sent);
        let causes = create(&kind, &object, Gates::default()).into_iter();
        let said: Vec<String> = causes.map(|cause| cause.message).collect();
        said.join("; ")
    };
    let block = |der: &[u8]| {
        let text = BASE64_STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
    };
    let params = rcgen::CertificateParams::new(["jane.example".to_owned()]).unwrap();
    let made = params.serialize_request(&rcgen::KeyPair::generate().unwrap());
    let der = made.unwrap().der().to_vec();
    assert_eq!(fault(&block(&der)), "");
    let with_header = block(&der).replacen("-----\n", "-----\nFoo: bar\n\n", 1);
    assert_eq!(fault(&with_header), "", "nobody looks at headers");
    let mut tampered = der.clone();
    let at = der.windows(4).position(|four| four == b"jane").unwrap();
    tampered[at] = b'd';
    let said = fault(&block(&tampered));
    assert!(said.ends_with("ECDSA verification failure"), "{said}");
}

#[test]
fn a_certificate_request_without_a_text_is_shown_as_it_was_sent() {
    let said = |request: Value| {
        let sent = serde_json::json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "x"},
            "spec": {"request": request, "signerName": "example.com/s", "usages": ["client auth"]},
        });
        let (kind, object) = prepared(&sent);
        create(&kind, &object, Gates::default())[0].message.clone()
    };
    let fault = "PEM block type must be CERTIFICATE REQUEST";
    assert_eq!(said(Value::Null), format!("Invalid value: null: {fault}"));
    assert_eq!(said("".into()), format!("Invalid value: \"\": {fault}"));
}

fn autoscaler(patch: &Value) -> (std::sync::Arc<Kind>, Value) {
    let cpu = serde_json::json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let mut spec = serde_json::json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": cpu}],
    });
    for (field, value) in patch.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    prepared(&serde_json::json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}, "spec": spec,
    }))
}

fn said(causes: Vec<Cause>) -> String {
    let lines = causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message));
    lines.collect::<Vec<String>>().join("\n")
}

/// Upstream: `TestValidateHorizontalPodAutoscaler`, rows that the corpus does not have.
#[test]
fn autoscalers_are_refused_in_upstreams_words() {
    use serde_json::json;
    let refused = |patch: Value| {
        let (kind, object) = autoscaler(&patch);
        said(create(&kind, &object, Gates::default()))
    };
    let target = |version: &str, kind: &str| json!({"scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "d"}});
    assert_eq!(refused(json!({})), "");
    assert_eq!(refused(target("v1", "ReplicationController")), "");
    let version = "spec.scaleTargetRef.apiVersion: Invalid value";
    assert_eq!(
        refused(target("v1", "Deployment")),
        format!("{version}: \"v1\": apiVersion must specify API group")
    );
    for kind in ["Deployment", "ReplicationController"] {
        assert_eq!(
            refused(target("a/b/c", kind)),
            format!("{version}: \"a/b/c\": unexpected GroupVersion string: a/b/c")
        );
    }
    assert_eq!(
        refused(json!({"maxReplicas": -1})),
        "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1\n\
         spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`"
    );
    let metric = |metric: Value| refused(json!({"metrics": [metric]}));
    let described = json!({"apiVersion": "v1", "kind": "Service", "name": "s"});
    assert_eq!(
        metric(
            json!({"type": "Object", "object": {"describedObject": described, "metric": {"name": "m"}, "target": {"type": "Value"}}})
        ),
        "spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue"
    );
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let external = json!({"metric": {"name": "m", "selector": selector}, "target": {"type": "Value", "value": "1"}});
    assert_eq!(
        metric(json!({"type": "External", "external": external})),
        "",
        "nobody looks at the selector"
    );
    let container = |container: &str, resource: &str| {
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        metric(
            json!({"type": "ContainerResource", "containerResource": {"name": resource, "container": container, "target": target}}),
        )
    };
    assert_eq!(container("c", "cpu"), "");
    assert_eq!(
        container("c", "foo"),
        "spec.metrics[0].containerResource.name: Invalid value: \"foo\": must be a standard resource type or fully qualified\n\
         spec.metrics[0].containerResource.name: Invalid value: \"foo\": must be a standard resource for containers"
    );
    assert!(container("C", "cpu").starts_with(
        "spec.metrics[0].containerResource.container: Invalid value: \"C\": a lowercase RFC 1123 label"
    ));
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    assert_eq!(
        metric(json!({"type": "Resource", "resource": cpu, "external": {}})),
        "spec.metrics[0].external.metric.name: Required value: must specify a metric name\n\
         spec.metrics[0].external.target.type: Required value: must specify a metric target type\n\
         spec.metrics[0].external.target.type: Invalid value: \"\": must be either Utilization, Value, or AverageValue\n\
         spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target\n\
         spec.metrics[0].external: Forbidden: must populate the given metric source only"
    );
    let up = |field: &str, value: Value| {
        let policies = json!([{"type": "Pods", "value": 1, "periodSeconds": 1}]);
        refused(json!({"behavior": {"scaleUp": {"policies": policies, (field): value}}}))
    };
    assert_eq!(
        up("stabilizationWindowSeconds", json!(-1)),
        "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"
    );
    assert_eq!(
        up("tolerance", json!("-1")),
        "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0"
    );
}

#[test]
fn autoscalers_scale_to_zero_with_the_gate_and_a_metric_that_no_pod_has() {
    use api::Gate;
    use serde_json::json;
    let target = json!({"type": "Value", "value": "1"});
    let external =
        json!({"type": "External", "external": {"metric": {"name": "m"}, "target": target}});
    let on = Gates::default().with(Gate::HPAScaleToZero, true);
    let found = |least: i64, metrics: Value, gates: Gates| {
        let (kind, object) = autoscaler(&json!({"minReplicas": least, "metrics": metrics}));
        let (_, one) = autoscaler(&json!({"minReplicas": 1}));
        let causes = said(create(&kind, &object, gates));
        assert_eq!(causes, said(update(&kind, &object, &one, gates)));
        causes
    };
    assert_eq!(found(0, json!([external]), on), "");
    assert_eq!(
        found(0, json!([]), on),
        "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"
    );
    assert_eq!(
        found(-1, json!([external]), on),
        "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"
    );
    assert_eq!(
        found(0, json!([external]), Gates::default()),
        "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"
    );
}

#[test]
fn what_an_autoscaler_has_already_it_may_keep() {
    use serde_json::json;
    let target = json!({"apiVersion": "v1", "kind": "Deployment", "name": "d"});
    let external = json!({"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}});
    let metrics = json!([{"type": "External", "external": external}]);
    let (kind, old) =
        autoscaler(&json!({"scaleTargetRef": target, "minReplicas": 0, "metrics": metrics}));
    assert!(!create(&kind, &old, Gates::default()).is_empty());
    assert_eq!(said(update(&kind, &old, &old, Gates::default())), "");
    let mut worse = old.clone();
    worse["spec"]["minReplicas"] = json!(-1);
    assert_eq!(
        said(update(&kind, &worse, &old, Gates::default())),
        "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"
    );
    let mut counted = old.clone();
    counted["status"] = json!({"currentReplicas": -1, "desiredReplicas": 2});
    assert_eq!(
        said(status_update(&kind, &counted, &old, 0)),
        "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0"
    );
}

fn quota(spec: Value) -> String {
    let quota = serde_json::json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec,
    });
    let (kind, object) = prepared(&quota);
    said(create(&kind, &object, Gates::default()))
}

#[test]
fn counts_are_whole_however_large_they_are() {
    use serde_json::json;
    for amount in ["0", "1k", "5Pi", "8Ei", "1e99", "1e999"] {
        assert_eq!(quota(json!({"hard": {"pods": amount}})), "", "{amount}");
    }
    for amount in ["1m", "1.5", "9223372036854775.5"] {
        let found = quota(json!({"hard": {"pods": amount}}));
        assert!(found.ends_with("must be an integer"), "{amount}: {found}");
    }
}

/// Upstream: `TestValidateResourceQuota`, rows that the corpus does not have.
#[test]
fn a_quota_counts_what_its_scopes_can_tell_apart() {
    use serde_json::json;
    let scoped = |scope: &str, resource: &str| {
        let by_name = quota(json!({"hard": {resource: "1"}, "scopes": [scope]}));
        let expression = json!({"scopeName": scope, "operator": "Exists"});
        let selector = json!({"matchExpressions": [expression]});
        let by_selector = quota(json!({"hard": {resource: "1"}, "scopeSelector": selector}));
        (by_name, by_selector)
    };
    let pods = ["pods", "cpu", "memory", "limits.cpu", "requests.memory"];
    let other = [
        "services",
        "secrets",
        "requests.storage",
        "ephemeral-storage",
        "hugepages-2Mi",
    ];
    let claims = ["persistentvolumeclaims", "requests.storage"];
    // What the quota system does not know itself is nobody's.
    let foreign = ["count/deployments.apps", "example.com/gpu"];
    let check = |scope: &str, resource: &str, is_valid: bool| {
        let (by_name, by_selector) = scoped(scope, resource);
        let why = "unsupported scope applied to resource";
        let shown = format!("spec.scopes: Invalid value: [\"{scope}\"]: {why}");
        assert_eq!(
            by_name,
            if is_valid { "" } else { shown.as_str() },
            "{scope} {resource}"
        );
        assert_eq!(by_selector.is_empty(), is_valid, "{scope} {resource}");
        let at = "spec.scopeSelector.matchExpressions: Invalid value: {";
        assert!(is_valid || by_selector.starts_with(at) && by_selector.ends_with(why));
    };
    for scope in [
        "Terminating",
        "NotTerminating",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
    ] {
        pods.iter()
            .chain(&foreign)
            .for_each(|resource| check(scope, resource, true));
        other
            .iter()
            .for_each(|resource| check(scope, resource, false));
    }
    check("BestEffort", "pods", true);
    check("BestEffort", "cpu", false);
    check("BestEffort", "count/deployments.apps", true);
    for resource in claims.iter().chain(&foreign) {
        check("VolumeAttributesClass", resource, true);
    }
    check("VolumeAttributesClass", "pods", false);
}

#[test]
fn scopes_of_a_quota_that_have_no_values_are_asked_to_exist() {
    use serde_json::json;
    let found = |scope: &str, operator: &str| {
        let values = if operator == "In" {
            json!(["a"])
        } else {
            json!([])
        };
        let expression = json!({"scopeName": scope, "operator": operator, "values": values});
        quota(
            json!({"hard": {"example.com/gpu": "1"}, "scopeSelector": {"matchExpressions": [expression]}}),
        )
    };
    let bare = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "CrossNamespacePodAffinity",
    ];
    for scope in bare {
        assert_eq!(found(scope, "Exists"), "");
        for operator in ["In", "DoesNotExist"] {
            assert_eq!(
                found(scope, operator),
                format!(
                    "spec.scopeSelector.matchExpressions.operator: Invalid value: \"{operator}\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
                )
            );
        }
    }
    assert_eq!(found("PriorityClass", "In"), "");
    assert_eq!(
        found("Foo", "Exists"),
        "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"Foo\": unsupported scope"
    );
}

#[test]
fn huge_pages_come_whole_however_many_there_are() {
    use serde_json::json;
    let found = |amount: &str| {
        let amounts = json!({"cpu": "1", "hugepages-2Mi": amount});
        let container = json!({
            "name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
            "resources": {"limits": amounts, "requests": amounts},
        });
        let (kind, object) = prepared(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]},
        }));
        said(create(&kind, &object, Gates::default()))
    };
    for whole in ["2Mi", "1Gi", "5Ei"] {
        assert_eq!(found(whole), "", "{whole}");
    }
    assert!(found("3Mi").ends_with("3Mi is not positive integer multiple of hugepages-2Mi"));
}

#[test]
fn restart_rules_are_checked_in_upstreams_words() {
    use serde_json::json;
    let found = |list: &str, more: serde_json::Value| {
        let mut container = json!({"name": "c", "image": "i"});
        container
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let main = json!([{"name": "main", "image": "i"}]);
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": main}});
        pod["spec"][list] = json!([container]);
        let (kind, object) = prepared(&pod);
        said(create(&kind, &object, Gates::default()))
    };
    let rule = |action: &str, operator: &str, count: usize| {
        let values: Vec<usize> = (0..count).collect();
        json!({"action": action, "exitCodes": {"operator": operator, "values": values}})
    };
    let good = rule("RestartAllContainers", "NotIn", 255);
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}[0]");
        for policy in ["Always", "OnFailure", "Never"] {
            let more = json!({"restartPolicy": policy, "restartPolicyRules": [good]});
            assert_eq!(found(list, more), "", "{policy}");
        }
        assert_eq!(
            found(list, json!({"restartPolicyRules": [good]})),
            format!(
                "{path}.restartPolicy: Required value: must specify restartPolicy when restart rules are used"
            )
        );
        let with = |rules: Vec<serde_json::Value>| {
            found(
                list,
                json!({"restartPolicy": "Never", "restartPolicyRules": rules}),
            )
        };
        assert_eq!(
            with(vec![rule("Stop", "In", 1)]),
            format!(
                "{path}.restartPolicyRules[0].action: Unsupported value: \"Stop\": supported values: \"Restart\", \"RestartAllContainers\""
            )
        );
        assert_eq!(
            with(vec![good.clone(), rule("Restart", "Exists", 1)]),
            format!(
                "{path}.restartPolicyRules[1].exitCodes.operator: Unsupported value: \"Exists\": supported values: \"In\", \"NotIn\""
            )
        );
        assert_eq!(
            with(vec![json!({"action": "Restart"})]),
            format!("{path}.restartPolicyRules[0].exitCodes: Required value: must be specified")
        );
        assert_eq!(
            with(vec![rule("Restart", "In", 256)]),
            format!(
                "{path}.restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"
            )
        );
        assert_eq!(
            with(vec![good.clone(); 21]),
            format!("{path}.restartPolicyRules: Too many: 21: must have at most 20 items")
        );
    }
}
