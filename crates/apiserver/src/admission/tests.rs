mod addresses;
mod event_limits;
mod placement;
mod pod_security;
mod priority;
mod quota;

use serde_json::{Value, json};

use super::store::Store;
use super::*;
use crate::fields::{at, list, text};
use crate::kinds::Registry;

struct Case {
    objects: Vec<Value>,
    networks: Networks,
    settings: crate::Settings,
}

/// A cluster with the namespace `ns` and its default service account.
fn cluster(objects: impl IntoIterator<Item = Value>) -> Case {
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}, "status": {"phase": "Active"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "default"}}),
    ];
    all.extend(objects);
    Case {
        objects: all,
        networks: Networks::default(),
        settings: crate::Settings::default(),
    }
}

impl Case {
    fn run(
        &self,
        object: &Value,
        old: Option<&Value>,
        subresource: Option<Subresource>,
    ) -> Result<(Value, Verdict), String> {
        let previews = crate::kinds::Extra {
            previews: true,
            ..crate::kinds::Extra::default()
        };
        let registry = Registry::serving(previews, &crate::kinds::ServedVersions::default());
        let kind = registry
            .kind(text(object, "apiVersion"), text(object, "kind"))
            .unwrap();
        let operation = if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        };
        let (namespace, name) = (
            text(object, "metadata.namespace"),
            text(object, "metadata.name"),
        );
        let request = Request {
            operation,
            kind,
            namespace,
            name,
            subresource,
            asked: kind,
            object_type: None,
            is_admitted: false,
            dry_run: false,
            options: &Value::Null,
        };
        let mut objects = self.objects.clone();
        let ranges = self.networks.service_cidrs.iter().map(ToString::to_string);
        objects.push(service_cidr("kubernetes", ranges.collect(), "True"));
        let store = Store::of(&objects);
        let context = Context {
            cluster: &store,
            user: &Identity {
                user: "jane".to_owned(),
                ..Identity::default()
            },
            random: &api::Rng::from_seed(7),
            networks: &self.networks,
            settings: &self.settings,
            now: api::MicroTime::default(),
        };
        let mut object = object.clone();
        crate::defaults::apply(kind, &mut object);
        mutate(&context, &request, &mut object, old).map_err(|status| status.message)?;
        allocate(&context, &request, &mut object, old).map_err(|status| status.message)?;
        let mut verdict = Verdict::default();
        let reviewed = review(&context, &request, &object, old, &mut verdict);
        reviewed.map_err(|status| status.message)?;
        charge(&context, &request, &object, old, &mut verdict).map_err(|status| status.message)?;
        Ok((object, verdict))
    }

    fn create(&self, object: Value) -> Result<(Value, Verdict), String> {
        self.run(&object, None, None)
    }

    #[track_caller]
    fn refuses(&self, object: Value, message: &str) {
        assert_eq!(self.create(object).unwrap_err(), message);
    }
}

fn service_cidr(name: &str, ranges: Vec<String>, ready: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name},
        "spec": {"cidrs": ranges}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn service(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "ns", "name": "s"}, "spec": spec})
}

#[test]
fn nothing_is_created_in_a_missing_or_dying_namespace() {
    let mut case = cluster([]);
    let mut elsewhere = pod(json!({}));
    elsewhere["metadata"]["namespace"] = json!("gone");
    case.refuses(elsewhere, "namespaces \"gone\" not found");
    case.objects[0]["status"]["phase"] = json!("Terminating");
    case.refuses(
        pod(json!({})),
        "pods \"p\" is forbidden: unable to create new content in namespace ns because it is being terminated",
    );
    let update = pod(json!({}));
    assert!(case.run(&update, Some(&update), None).is_ok());
}

#[test]
fn pods_run_as_a_service_account_that_exists() {
    let case = cluster([
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "quiet"},
        "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "pull"}]}),
    ]);
    case.refuses(
        pod(json!({"serviceAccountName": "nobody"})),
        "pods \"p\" is forbidden: error looking up service account ns/nobody: serviceaccount \"nobody\" not found",
    );
    let (admitted, _) = case.create(pod(json!({}))).unwrap();
    assert_eq!(text(&admitted, "spec.serviceAccount"), "default");
    assert!(text(&list(&admitted, "spec.volumes")[0], "name").starts_with("kube-api-access-"));
    let (admitted, _) = case
        .create(pod(json!({"serviceAccountName": "quiet"})))
        .unwrap();
    assert_eq!(list(&admitted, "spec.volumes").len(), 0);
    assert_eq!(
        at(&admitted, "spec.imagePullSecrets"),
        &json!([{"name": "pull"}])
    );
}

#[test]
fn a_pod_with_a_node_is_told_where_that_is() {
    let labels =
        json!({"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r", "x": "y"});
    let case = cluster([
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}),
    ]);
    for (node, expected) in [
        (json!({}), Value::Null),
        (json!({"nodeName": "elsewhere"}), Value::Null),
        (
            json!({"nodeName": "n"}),
            json!({"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}),
        ),
    ] {
        let (admitted, _) = case.create(pod(node)).unwrap();
        assert_eq!(at(&admitted, "metadata.labels"), &expected);
    }
}

#[test]
fn limit_ranges_fill_in_and_refuse() {
    let case = cluster([
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"namespace": "ns", "name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "4"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}]}}),
    ]);
    let (admitted, _) = case.create(pod(json!({}))).unwrap();
    let container = &list(&admitted, "spec.containers")[0];
    assert_eq!(
        at(container, "resources"),
        &json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}})
    );
    assert_eq!(
        admitted["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    case.refuses(
        pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "3"}}}]})),
        "pods \"p\" is forbidden: [maximum cpu usage per Container is 2, but limit is 3, cpu max limit to request ratio per Container is 4, but provided ratio is 30.000000]",
    );
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "c"},
        "spec": {"resources": {"requests": {"storage": "1Mi"}}}});
    case.refuses(
        claim,
        "persistentvolumeclaims \"c\" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi",
    );
}

#[test]
fn claims_grow_only_when_their_class_lets_them() {
    let case = cluster([
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "grows"}, "allowVolumeExpansion": true}),
    ]);
    let claim = |class: &str, size: &str, phase: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "c"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}, "status": {"phase": phase}})
    };
    assert!(
        case.run(
            &claim("grows", "2Gi", "Bound"),
            Some(&claim("grows", "1Gi", "Bound")),
            None
        )
        .is_ok()
    );
    let refused = case.run(
        &claim("grows", "2Gi", "Pending"),
        Some(&claim("grows", "1Gi", "Pending")),
        None,
    );
    assert_eq!(
        refused.unwrap_err(),
        "persistentvolumeclaims \"c\" is forbidden: Only bound persistent volume claims can be expanded"
    );
    let refused = case.run(
        &claim("fixed", "2Gi", "Bound"),
        Some(&claim("fixed", "1Gi", "Bound")),
        None,
    );
    assert!(refused.unwrap_err().contains("must support resize"));
}

#[test]
fn defaults_come_from_the_newest_default_class() {
    let class = |name: &str, created: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": name, "creationTimestamp": created, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    };
    let case = cluster([
        class("old", "2026-01-01T00:00:00Z"),
        class("b", "2026-01-02T00:00:00Z"),
        class("a", "2026-01-02T00:00:00Z"),
    ]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "c"}, "spec": {}});
    let (admitted, _) = case.create(claim).unwrap();
    assert_eq!(text(&admitted, "spec.storageClassName"), "a");
    assert_eq!(
        at(&admitted, "metadata.finalizers"),
        &json!(["kubernetes.io/pvc-protection"])
    );
}

#[test]
fn signing_needs_permission_for_the_signer() {
    let case = cluster([]);
    let request = |signer: &str, certificate: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
            "spec": {"signerName": signer}, "status": {"certificate": certificate}})
    };
    let sign = |signer: &str| {
        case.run(
            &request(signer, "new"),
            Some(&request(signer, "")),
            Some(Subresource::Status),
        )
    };
    assert!(sign("allowed.io/x").is_ok());
    assert_eq!(
        sign("other.io/x").unwrap_err(),
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to sign requests with signerName \"other.io/x\""
    );
    let approve = case.run(
        &request("other.io/x", ""),
        Some(&request("other.io/x", "")),
        Some(Subresource::Approval),
    );
    assert!(
        approve
            .unwrap_err()
            .contains("user not permitted to approve")
    );
}

// Upstream: TestStatusStrategy of podcertificaterequest.
#[test]
fn a_request_of_a_pod_is_answered_by_who_may_sign_for_it() {
    let case = cluster([]);
    let request = |signer: &str, status: Value| {
        json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
            "metadata": {"namespace": "ns", "name": "r"}, "spec": {"signerName": signer}, "status": status})
    };
    let denied = json!({"conditions": [{"type": "Denied", "status": "True"}]});
    let answer = |signer: &str, status: &Value| {
        case.run(
            &request(signer, status.clone()),
            Some(&request(signer, json!({}))),
            Some(Subresource::Status),
        )
    };
    assert!(answer("allowed.io/x", &denied).is_ok());
    assert!(answer("other.io/x", &json!({})).is_ok());
    let refused = answer("other.io/x", &denied).unwrap_err();
    assert!(
        refused.ends_with("is not permitted to \"sign\" for signer \"other.io/x\""),
        "{refused}"
    );
}

/// UPSTREAM: ctbattest's TestPluginValidate.
#[test]
fn a_signers_bundle_is_written_by_who_may_attest_for_it() {
    let case = cluster([]);
    let bundle = |signer: &str, anchors: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
            "metadata": {"name": "b"}, "spec": {"signerName": signer, "trustBundle": anchors}})
    };
    assert!(case.run(&bundle("", "x"), None, None).is_ok());
    assert!(case.run(&bundle("allowed.io/x", "x"), None, None).is_ok());
    let refused = "clustertrustbundles.certificates.k8s.io \"b\" is forbidden: user not permitted to attest for signerName \"other.io/x\"";
    let held = bundle("other.io/x", "x");
    assert_eq!(case.run(&held, None, None).unwrap_err(), refused);
    let changed = bundle("other.io/x", "y");
    assert_eq!(case.run(&changed, Some(&held), None).unwrap_err(), refused);
    // Garbage collection and storage migration change nothing that matters.
    let mut collected = held.clone();
    collected["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert!(case.run(&collected, Some(&held), None).is_ok());
    let labelled = json!({"apiVersion": held["apiVersion"], "kind": held["kind"],
        "metadata": {"name": "b", "labels": {"a": "b"}}, "spec": held["spec"]});
    assert!(case.run(&labelled, Some(&held), None).is_err());
}

/// Pods sent to kube-apiserver 1.36 in namespaces that enforce a level, with what it said.
#[test]
fn pod_security_says_what_upstream_says() {
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/pod_security.json")).unwrap();
    assert!(corpus.len() > 50);
    for sent in &corpus {
        let mut case = cluster([]);
        case.objects[0]["metadata"]["labels"] =
            json!({"pod-security.kubernetes.io/enforce": sent["level"]});
        let said = case
            .create(pod(sent["spec"].clone()))
            .err()
            .unwrap_or_default();
        assert_eq!(
            said.replace("pods \"p\"", "pods \"x\""),
            sent["message"],
            "{}",
            sent["spec"]
        );
    }
}

#[test]
fn templates_are_warned_about_and_not_refused() {
    let mut case = cluster([]);
    case.objects[0]["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "baseline"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "d"},
        "spec": {"template": {"spec": {"hostPID": true, "containers": [{"name": "c"}]}}}});
    let (_, verdict) = case.create(deployment).unwrap();
    assert_eq!(
        verdict.warnings,
        ["would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"]
    );
}

#[test]
fn raising_a_level_names_the_pods_it_would_refuse() {
    let mut running = pod(json!({"hostNetwork": true}));
    running["metadata"]["namespace"] = json!("ns");
    let case = cluster([running]);
    let old = case.objects[0].clone();
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let (_, verdict) = case.run(&new, Some(&old), None).unwrap();
    assert_eq!(
        verdict.warnings,
        [
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "p: host namespaces"
        ]
    );
    new["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "strict"});
    let refused = case.run(&new, Some(&old), None).unwrap_err();
    assert!(
        refused.contains("must be one of privileged, baseline, restricted"),
        "{refused}"
    );
}

// Upstream: plugin/pkg/admission/podgroup, TestPodGroupWorkloadExists.
#[test]
fn a_pod_group_names_a_template_that_is_there() {
    let workload = |deleted: Value| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "metadata": {"namespace": "ns", "name": "w", "deletionTimestamp": deleted},
            "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]},
        })
    };
    let group = |workload: &str, template: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"namespace": "ns", "name": "g"},
            "spec": {
                "podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}},
                "schedulingPolicy": {"basic": {}},
            },
        })
    };
    let case = cluster([workload(Value::Null)]);
    case.run(&group("w", "t"), None, None).unwrap();
    let refused = |case: &Case, group: Value| case.run(&group, None, None).unwrap_err();
    let forbidden = r#"podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: "#;
    assert_eq!(
        refused(&case, group("other", "t")),
        format!(r#"{forbidden}Workload "other" not found"#)
    );
    assert_eq!(
        refused(&case, group("w", "other")),
        format!(r#"{forbidden}PodGroupTemplate "other" not found in Workload "w""#)
    );
    let case = cluster([workload(json!("2024-01-01T00:00:00Z"))]);
    assert_eq!(
        refused(&case, group("w", "t")),
        format!(r#"{forbidden}Workload "w" is being deleted"#)
    );
}
