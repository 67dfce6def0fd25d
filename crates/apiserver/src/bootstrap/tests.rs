use super::*;
use crate::fields::{at, list, text};

fn boot(rbac: bool) -> Vec<(Arc<Kind>, Value)> {
    let networks = Networks::default();
    let advertise = Some(("127.0.0.1".parse().unwrap(), 7443));
    boot_objects(&Options {
        networks: &networks,
        advertise,
        now: "2026-01-02T03:04:05Z",
        rbac,
        previews: Previews::default(),
    })
}

fn find<'a>(objects: &'a [(Arc<Kind>, Value)], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|(of, object)| of.kind == kind && text(object, "metadata.name") == name);
    &found.unwrap_or_else(|| panic!("no {kind} {name}")).1
}

#[test]
fn the_cluster_starts_with_what_clients_expect() {
    let objects = boot(false);
    assert_eq!(
        objects
            .iter()
            .filter(|(kind, _)| kind.kind == "Namespace")
            .count(),
        4
    );
    assert_eq!(
        at(find(&objects, "Namespace", "kube-system"), "status.phase"),
        "Active"
    );
    let service = find(&objects, "Service", "kubernetes");
    assert_eq!(at(service, "spec.clusterIP"), "10.0.0.1");
    assert_eq!(
        at(
            find(&objects, "IPAddress", "10.0.0.1"),
            "spec.parentRef.name"
        ),
        "kubernetes"
    );
    assert_eq!(
        text(
            &list(
                find(&objects, "ServiceCIDR", "kubernetes"),
                "status.conditions"
            )[0],
            "status"
        ),
        "True"
    );
    assert_eq!(
        at(
            find(&objects, "PriorityClass", "system-node-critical"),
            "value"
        ),
        2_000_001_000
    );
    assert_eq!(
        text(
            find(&objects, "EndpointSlice", "kubernetes"),
            "metadata.namespace"
        ),
        "default"
    );
    let tracking = find(
        &objects,
        "ConfigMap",
        "kube-apiserver-legacy-service-account-token-tracking",
    );
    assert_eq!(at(tracking, "data.since"), "2026-01-02");
}

#[test]
fn every_component_finds_its_role() {
    let objects = boot(true);
    let count = |kind: &str| objects.iter().filter(|(of, _)| of.kind == kind).count();
    assert_eq!(
        (
            count("ClusterRole"),
            count("ClusterRoleBinding"),
            count("Role"),
            count("RoleBinding")
        ),
        (69, 50, 7, 7)
    );
    let admin = find(&objects, "ClusterRole", "cluster-admin");
    assert_eq!(
        at(admin, "rules"),
        &json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}])
    );
    let view = find(&objects, "ClusterRole", "view");
    assert!(at(view, "aggregationRule").is_object() && at(view, "rules").is_null());
    let binding = find(
        &objects,
        "ClusterRoleBinding",
        "system:controller:job-controller",
    );
    assert_eq!(
        at(binding, "subjects"),
        &json!([{"kind": "ServiceAccount", "namespace": "kube-system", "name": "job-controller"}])
    );
    for (kind, object) in &objects {
        let rules = list(object, "rules")
            .iter()
            .all(|rule| !list(rule, "verbs").is_empty());
        assert!(rules, "{} {}", kind.kind, text(object, "metadata.name"));
    }
}

#[test]
fn what_says_where_the_server_is_follows_it_to_another_port() {
    let booted = |port: u16| {
        let networks = Networks::default();
        let options = Options {
            networks: &networks,
            advertise: Some(("127.0.0.1".parse().unwrap(), port)),
            now: "2024-01-01T00:00:00Z",
            rbac: false,
            previews: Previews::default(),
        };
        boot_objects(&options)
    };
    let (before, after) = (booted(6443), booted(7443));
    let mut moved = Vec::new();
    for ((kind, mut held), (_, booted)) in before.into_iter().zip(after) {
        if follow_address(&kind, &mut held, &booted) {
            assert_eq!(held, booted);
            moved.push(kind.kind.to_string());
        }
        assert!(!follow_address(&kind, &mut held, &booted), "once is enough");
    }
    moved.sort();
    assert_eq!(moved, ["EndpointSlice", "Endpoints", "Service"]);
}

#[test]
fn roles_about_previews_come_with_them() {
    let about = |previews: Previews, resource: &str| {
        let roles = rbac_objects(previews);
        let says = |role: &&Value| role["rules"].to_string().contains(resource);
        let mut names: Vec<String> = roles
            .iter()
            .filter(says)
            .map(|role| text(role, "metadata.name").to_owned())
            .collect();
        names.sort();
        (names, roles.len())
    };
    let check = |previews: Previews, resource: &str, count: usize, expected: &[&str]| {
        let (none, few) = about(Previews::default(), resource);
        let (with, more) = about(previews, resource);
        assert!(none.is_empty());
        assert_eq!(more - few, count, "roles and bindings");
        assert_eq!(with, expected);
    };
    let trust_bundles = Previews {
        trust_bundles: true,
        ..Previews::default()
    };
    check(
        trust_bundles,
        "clustertrustbundles",
        4,
        &[
            "system:cluster-trust-bundle-discovery",
            "system:controller:kube-apiserver-serving-clustertrustbundle-publisher",
            "system:node",
        ],
    );
    let pod_certificates = Previews {
        pod_certificates: true,
        ..Previews::default()
    };
    check(
        pod_certificates,
        "podcertificaterequests",
        2,
        &[
            "system:controller:podcertificaterequestcleaner",
            "system:node",
        ],
    );
}
