use serde_json::{Value, json};

use super::*;
use crate::kinds::find;

const NOW: &str = "2026-01-02T03:04:05Z";

#[test]
fn a_status_write_changes_nothing_else() {
    let kind = find("apps", "Deployment").unwrap();
    let old = json!({"metadata": {"name": "d", "generation": 3, "labels": {"a": "b"}}, "spec": {"replicas": 1, "template": {}}, "status": {}});
    let mut new = json!({"metadata": {"name": "d", "generation": 9, "labels": {"x": "y"}, "annotations": {"k": "v"}},
        "spec": {"replicas": 7}, "status": {"replicas": 2}});
    prepare_status_update(kind, &mut new, &old, NOW);
    assert_eq!(new["spec"]["replicas"], 1);
    assert_eq!(new["status"]["replicas"], 2);
    assert_eq!(
        new["metadata"],
        json!({"name": "d", "generation": 3, "labels": {"a": "b"}, "annotations": {"k": "v"}})
    );
}

#[test]
fn only_ephemeral_containers_change_through_their_subresource() {
    let kind = find("", "Pod").unwrap();
    let old = json!({"metadata": {"name": "p", "generation": 1}, "spec": {"containers": [{"name": "c", "image": "a"}]}});
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("b");
    new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "x"}]);
    let mut old_defaulted = old.clone();
    crate::defaults::apply(kind, &mut old_defaulted);
    prepare_ephemeral_containers_update(kind, &mut new, &old_defaulted);
    assert_eq!(new["spec"]["containers"][0]["image"], "a");
    assert_eq!(
        (
            &new["spec"]["ephemeralContainers"][0]["name"],
            &new["metadata"]["generation"]
        ),
        (&json!("e"), &json!(2))
    );
}

#[test]
fn a_resize_changes_resources_only() {
    let kind = find("", "Pod").unwrap();
    let mut old = json!({"metadata": {"name": "p", "generation": 1}, "spec": {"containers": [{"name": "c", "image": "a"}]}});
    crate::defaults::apply(kind, &mut old);
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("b");
    new["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    prepare_resize_update(kind, &mut new, &old);
    let container = &new["spec"]["containers"][0];
    assert_eq!(
        (
            &container["image"],
            &container["resources"]["requests"]["cpu"]
        ),
        (&json!("a"), &json!("1"))
    );
    assert_eq!(new["metadata"]["generation"], 2);
}

#[test]
fn an_approval_changes_conditions_only_and_dates_them() {
    let kind = find("certificates.k8s.io", "CertificateSigningRequest").unwrap();
    let old = json!({"metadata": {"name": "r"}, "spec": {"request": "x"}, "status": {"certificate": "y"}});
    let mut new = json!({"metadata": {"name": "r"}, "spec": {"request": "z"}, "status": {"certificate": "forged",
        "conditions": [{"type": "Approved", "status": "True"}]}});
    prepare_approval_update(kind, &mut new, &old, NOW);
    assert_eq!(
        (&new["spec"]["request"], &new["status"]["certificate"]),
        (&json!("x"), &json!("y"))
    );
    let condition = &new["status"]["conditions"][0];
    assert_eq!(
        (
            &condition["lastUpdateTime"],
            &condition["lastTransitionTime"]
        ),
        (&json!(NOW), &json!(NOW))
    );
}

#[test]
fn a_signer_cannot_take_an_approval_back() {
    let kind = find("certificates.k8s.io", "CertificateSigningRequest").unwrap();
    let approved = json!({"type": "Approved", "status": "True", "reason": "a", "lastUpdateTime": NOW, "lastTransitionTime": NOW});
    let old = json!({"metadata": {"name": "r"}, "spec": {}, "status": {"conditions": [approved]}});
    let mut new = old.clone();
    new["status"]["conditions"][0]["reason"] = json!("b");
    prepare_status_update(kind, &mut new, &old, NOW);
    assert_eq!(new["status"]["conditions"][0], approved);
}

#[test]
fn pod_addresses_agree() {
    let kind = find("", "Pod").unwrap();
    let old = json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"phase": "Pending", "qosClass": "BestEffort"}});
    for (status, ip, ips) in [
        (
            json!({"podIP": "1.1.1.1"}),
            "1.1.1.1",
            json!([{"ip": "1.1.1.1"}]),
        ),
        (
            json!({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}),
            "1.1.1.1",
            json!([{"ip": "1.1.1.1"}, {"ip": "::1"}]),
        ),
        (
            json!({"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}]}),
            "2.2.2.2",
            json!([{"ip": "2.2.2.2"}]),
        ),
    ] {
        let mut new = old.clone();
        new["status"] = status;
        prepare_status_update(kind, &mut new, &old, NOW);
        assert_eq!(
            (&new["status"]["podIP"], &new["status"]["podIPs"]),
            (&json!(ip), &ips)
        );
        assert_eq!(new["status"]["qosClass"], "BestEffort");
    }
}

/// `containers / init containers -> requests, class`, with `s` for sidecars.
#[test]
fn init_containers_count_for_the_moment_when_most_are_running() {
    let container = |cpu: &str, policy: Value| json!({"name": "c", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    let check = |main: &[&str], init: &[(&str, bool)], expected: &str| {
        let main: Vec<_> = main.iter().map(|cpu| container(cpu, Value::Null)).collect();
        let init: Vec<_> = init
            .iter()
            .map(|(cpu, sidecar)| {
                container(
                    cpu,
                    if *sidecar {
                        json!("Always")
                    } else {
                        Value::Null
                    },
                )
            })
            .collect();
        let pod = json!({"spec": {"containers": main, "initContainers": init}});
        assert_eq!(
            crate::resources::pod_requests(&pod)["cpu"].to_string(),
            expected
        );
    };
    check(&["1", "2"], &[], "3");
    check(&["1"], &[("5", false)], "5");
    check(&["1"], &[("2", true)], "3");
    check(&["1"], &[("2", true), ("3", false)], "5");
    check(&["1"], &[("3", false), ("2", true)], "3");
}

#[test]
fn the_quality_of_service_follows_from_requests_and_limits() {
    let class = |resources: Value| {
        crate::resources::qos_class(
            &json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}),
        )
    };
    let both = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(class(json!({})), "BestEffort");
    assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
    assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(
        class(json!({"requests": both, "limits": both})),
        "Guaranteed"
    );
    assert_eq!(
        class(json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": both})),
        "Burstable"
    );
    assert_eq!(
        class(json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}})),
        "BestEffort"
    );
}
