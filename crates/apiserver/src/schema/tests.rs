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

#[test]
fn unknown_fields_are_named_by_path() {
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"any": "thing"}, "nam": "x"},
        "spec": {"containers": [{"name": "a", "imagePullPolcy": "Always"}]}, "sepc": {}});
    let ty = type_for("", "v1", "Pod").unwrap();
    assert_eq!(
        unknown_fields(ty, &pod),
        ["metadata.nam", "sepc", "spec.containers[0].imagePullPolcy"]
    );
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
