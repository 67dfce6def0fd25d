use serde_json::json;

use super::*;

fn field(kind: (&str, &str, &str), path: &str) -> &'static Field {
    let mut ty = type_for(kind.0, kind.1, kind.2).expect("a built-in kind");
    let mut names = path.split('.').peekable();
    loop {
        let name = names.next().unwrap();
        let field = ty
            .field(name)
            .unwrap_or_else(|| panic!("{} has no {name}", ty.name));
        if names.peek().is_none() {
            return field;
        }
        let mut shape = &field.ty;
        ty = loop {
            match shape {
                Shape::Ref(next) => break next.get(),
                Shape::List(inner) | Shape::Map(inner) => shape = inner,
                other => panic!("{name} is {other:?}"),
            }
        };
    }
}

const POD: (&str, &str, &str) = ("", "v1", "Pod");

#[test]
fn merge_keys_and_list_types_differ_where_upstream_does() {
    let containers = field(POD, "spec.containers");
    assert_eq!(containers.patch_strategy, PatchStrategy::Merge);
    assert_eq!(containers.merge_key, Some("name"));
    assert!(containers.required);
    let ports = field(POD, "spec.containers.ports");
    assert_eq!(ports.merge_key, Some("containerPort"));
    assert_eq!(
        ports.list_type,
        ListType::Map(["containerPort", "protocol"].into())
    );
    assert_eq!(
        field(POD, "spec.containers.ports.protocol").default,
        Some(r#""TCP""#)
    );
    let conditions = field(("batch", "v1", "Job"), "status.conditions");
    assert_eq!(
        (conditions.patch_strategy, &conditions.list_type),
        (PatchStrategy::Merge, &ListType::Atomic)
    );
    assert_eq!(field(POD, "metadata.finalizers").list_type, ListType::Set);
    assert_eq!(
        field(POD, "spec.volumes").patch_strategy,
        PatchStrategy::MergeRetainKeys
    );
    assert_eq!(
        field(("apps", "v1", "Deployment"), "spec.strategy").patch_strategy,
        PatchStrategy::RetainKeys
    );
    assert_eq!(
        field(POD, "spec.nodeSelector").map_type,
        Some(MapType::Atomic)
    );
    assert!(
        type_named("io.k8s.api.core.v1.ObjectReference")
            .unwrap()
            .atomic
    );
}

#[test]
fn shapes_are_what_the_wire_carries() {
    assert!(matches!(
        field(POD, "metadata.creationTimestamp").ty,
        Shape::Time
    ));
    assert!(matches!(
        field(("coordination.k8s.io", "v1", "Lease"), "spec.renewTime").ty,
        Shape::MicroTime
    ));
    assert!(matches!(
        field(("apps", "v1", "ControllerRevision"), "data").ty,
        Shape::Raw
    ));
    assert!(
        matches!(&field(("", "v1", "Secret"), "data").ty, Shape::Map(inner) if matches!(**inner, Shape::Bytes))
    );
    assert!(matches!(field(POD, "spec.priority").ty, Shape::Integer));
    assert!(matches!(
        field(POD, "spec.activeDeadlineSeconds").ty,
        Shape::Long
    ));
    assert_eq!(field(POD, "spec").number, 2);
}

#[test]
fn embedded_members_are_protobuf_only() {
    let volume = type_named("io.k8s.api.core.v1.Volume").unwrap();
    assert_eq!(volume.field("emptyDir").unwrap().number, 0);
    let (number, source) = volume.inlined[0];
    assert_eq!(
        (number, source.name, source.embedded),
        (2, "api.core.v1.VolumeSource", true)
    );
    assert_ne!(source.field("emptyDir").unwrap().number, 0);
    assert!(types().all(|ty| !ty.embedded));
}

fn decoded(kind: (&str, &str, &str), object: serde_json::Value) -> Result<Decoded, String> {
    decode(type_for(kind.0, kind.1, kind.2).unwrap(), object).map_err(|error| error.to_string())
}

#[test]
fn unknown_fields_are_dropped_and_named_by_path() {
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"any": "thing"}, "nam": "x"},
        "spec": {"containers": [{"name": "a", "imagePullPolcy": "Always"}]}, "sepc": {}});
    let decoded = decoded(POD, pod).unwrap();
    assert_eq!(
        decoded.unknown,
        ["metadata.nam", "sepc", "spec.containers[0].imagePullPolcy"]
    );
    assert_eq!(
        decoded.object,
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"any": "thing"}},
            "spec": {"containers": [{"name": "a", "resources": {}}]}, "status": {}})
    );
}

#[test]
fn empty_values_are_printed_as_upstream_prints_them() {
    let role = ("rbac.authorization.k8s.io", "v1", "ClusterRole");
    assert_eq!(
        decoded(role, json!({"rules": null})).unwrap().object,
        json!({"metadata": {}, "rules": null})
    );
    let pod = json!({"metadata": {"name": "", "generation": 0, "creationTimestamp": null, "deletionGracePeriodSeconds": 0},
        "spec": {"containers": [], "securityContext": {}, "nodeSelector": {}, "hostNetwork": false}});
    assert_eq!(
        decoded(POD, pod).unwrap().object,
        json!({"metadata": {"deletionGracePeriodSeconds": 0}, "spec": {"containers": null, "securityContext": {}}, "status": {}})
    );
}

#[test]
fn quantities_times_and_bytes_get_their_canonical_form() {
    let pod = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05.678+01:00"},
        "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}]}});
    let pod = decoded(POD, pod).unwrap().object;
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-01-02T02:04:05Z");
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["limits"],
        json!({"cpu": "500m", "memory": "1Gi"})
    );
    let lease = decoded(
        ("coordination.k8s.io", "v1", "Lease"),
        json!({"spec": {"renewTime": "2026-01-02T04:04:05.000000+01:00"}}),
    );
    assert_eq!(
        lease.unwrap().object["spec"]["renewTime"],
        "2026-01-02T03:04:05.000000Z"
    );
    let secret = decoded(("", "v1", "Secret"), json!({"data": {"a": "aGk=\n"}}));
    assert_eq!(secret.unwrap().object["data"]["a"], "aGk=");
}

#[test]
fn times_that_no_calendar_has_are_refused() {
    for date in ["2026-00-10", "2026-10-00", "2026-13-10", "2026-02-30"] {
        for (kind, body) in [
            (
                POD,
                json!({"metadata": {"deletionTimestamp": format!("{date}T00:00:00Z")}}),
            ),
            (
                ("coordination.k8s.io", "v1", "Lease"),
                json!({"spec": {"renewTime": format!("{date}T00:00:00.000000Z")}}),
            ),
        ] {
            assert!(decoded(kind, body).is_err(), "{date}");
        }
    }
}

/// The messages are those of kube-apiserver 1.36 for the same bodies.
#[test]
fn values_of_the_wrong_type_are_refused() {
    let deployment = ("apps", "v1", "Deployment");
    let check =
        |kind, object, message: &str| assert_eq!(decoded(kind, object).unwrap_err(), message);
    check(
        deployment,
        json!({"spec": {"replicas": "a"}}),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        deployment,
        json!({"spec": {"replicas": 2.5}}),
        "json: cannot unmarshal number 2.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check(
        deployment,
        json!({"spec": {"template": {"spec": {"containers": [{"name": 3}]}}}}),
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
    );
    check(
        deployment,
        json!({"spec": []}),
        "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
    );
    check(
        ("", "v1", "ConfigMap"),
        json!({"metadata": {"labels": {"a": 1}}}),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    );
    check(
        ("", "v1", "Secret"),
        json!({"data": {"a": "%%"}}),
        "illegal base64 data at input byte 0",
    );
    check(
        ("", "v1", "Secret"),
        json!({"metadata": {"creationTimestamp": "yesterday"}}),
        "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
    );
}

/// The messages are those of upstream's decoder: what is no string is read as an int32.
#[test]
fn numbers_beside_strings_are_int32() {
    let budget = |value| {
        let kind = ("policy", "v1", "PodDisruptionBudget");
        decoded(kind, json!({"spec": {"minAvailable": value}}))
    };
    for value in [
        json!(0),
        json!(-1),
        json!(2_147_483_647),
        json!("1.5"),
        json!("99999999999"),
    ] {
        assert_eq!(
            budget(value.clone()).unwrap().object["spec"]["minAvailable"],
            value
        );
    }
    for (value, found) in [
        (json!(1.5), "number 1.5"),
        (json!(2_147_483_648_i64), "number 2147483648"),
        (json!(99_999_999_999_i64), "number 99999999999"),
        (json!(true), "bool"),
        (json!({}), "object"),
    ] {
        let place = "PodDisruptionBudgetSpec.spec.minAvailable";
        assert_eq!(
            budget(value).unwrap_err(),
            format!("json: cannot unmarshal {found} into Go struct field {place} of type int32")
        );
    }
    let surge = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1.5}}}});
    assert!(decoded(("apps", "v1", "Deployment"), surge).is_err());
    let probe = json!({"name": "c", "livenessProbe": {"tcpSocket": {"port": 99_999_999_999_i64}}});
    assert!(decoded(POD, json!({"spec": {"containers": [probe]}})).is_err());
    let port = json!({"port": 80, "targetPort": 80.5});
    assert!(decoded(("", "v1", "Service"), json!({"spec": {"ports": [port]}})).is_err());
}

#[test]
fn every_kind_says_what_it_is() {
    assert!(types().count() > 500);
    for ty in types().filter(|ty| ty.gvk.is_some()) {
        assert!(
            ty.field("kind").is_some() && ty.field("apiVersion").is_some(),
            "{}",
            ty.name
        );
        assert_eq!(
            type_named(&ty.full_name()).map(|found| found.name),
            Some(ty.name)
        );
    }
}
