//! What is charged, and what is refused. Upstream: plugin/pkg/admission/resourcequota, and the `Handles` of evaluators.

use serde_json::{Value, json};

use super::*;

fn quota(spec: Value, hard: Value, used: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "ns", "name": "q"}, "spec": spec,
        "status": {"hard": hard, "used": used}})
}

#[test]
fn quota_is_charged_and_enforced() {
    let hard = json!({"pods": "2", "requests.cpu": "1", "count/deployments.apps": "0"});
    let case = cluster([quota(
        json!({}),
        hard,
        json!({"pods": "1", "requests.cpu": "500m", "count/deployments.apps": "0"}),
    )]);
    case.refuses(
        pod(json!({})),
        "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c",
    );
    let asking = |cpu: &str| {
        pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
    };
    let (_, verdict) = case.create(asking("300m")).unwrap();
    let [Change::Put(_, updated)] = verdict.changes.as_slice() else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        at(updated, "status.used"),
        &json!({"pods": "2", "requests.cpu": "800m", "count/deployments.apps": "0"})
    );
    case.refuses(
        asking("600m"),
        "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=500m, limited: requests.cpu=1",
    );
    case.refuses(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "d"}, "spec": {}}),
        "deployments.apps \"d\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=0, limited: count/deployments.apps=0",
    );
}

#[test]
fn what_is_charged_is_noted_as_written_by_the_server() {
    let mut charged = quota(json!({}), json!({"pods": "2"}), json!({"pods": "1"}));
    charged["metadata"]["managedFields"] = json!([{
        "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "subresource": "status",
        "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
        "fieldsV1": {"f:status": {"f:hard": {".": {}, "f:pods": {}}, "f:used": {".": {}, "f:pods": {}}}},
    }]);
    let (_, verdict) = cluster([charged]).create(pod(json!({}))).unwrap();
    let [Change::Put(_, updated)] = verdict.changes.as_slice() else {
        panic!("{verdict:?}")
    };
    let managers = updated["metadata"]["managedFields"].as_array().unwrap();
    let written = |entry: &Value| (entry["manager"].clone(), entry["fieldsV1"].clone());
    let mut written: Vec<_> = managers.iter().map(written).collect();
    written.sort_by_key(|(manager, _)| manager.to_string());
    let used = r#"{"f:status":{"f:used":{"f:pods":{}}}}"#;
    let hard = r#"{"f:status":{"f:hard":{".":{},"f:pods":{}},"f:used":{}}}"#;
    let expected = [("kube-apiserver", used), ("kube-controller-manager", hard)];
    assert_eq!(
        written,
        expected.map(|(by, fields)| (json!(by), json!(fields)))
    );
}

#[test]
fn quota_scopes_choose_pods() {
    let full = |spec: Value| cluster([quota(spec, json!({"pods": "1"}), json!({"pods": "1"}))]);
    let best_effort = full(json!({"scopes": ["BestEffort"]}));
    assert!(best_effort.create(pod(json!({}))).is_err());
    let burstable =
        pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}));
    assert!(best_effort.create(burstable).is_ok());
    let terminating = full(json!({"scopes": ["Terminating"]}));
    assert!(terminating.create(pod(json!({}))).is_ok());
    assert!(
        terminating
            .create(pod(json!({"activeDeadlineSeconds": 5})))
            .is_err()
    );
}

/// What a request leaves used, or why it is refused.
fn used(case: &Case, new: &Value, old: Option<&Value>, subresource: Option<Subresource>) -> String {
    match case.run(new, old, subresource) {
        Err(refused) => refused,
        Ok((_, verdict)) => {
            let quotas = verdict.changes.iter().filter_map(|change| match change {
                Change::Put(kind, value) if &*kind.kind == "ResourceQuota" => Some(value),
                _ => None,
            });
            let used = quotas.map(|quota| at(quota, "status.used").to_string());
            used.collect::<Vec<_>>().join(" ")
        }
    }
}

fn limiting(hard: Value, now: Value) -> Case {
    cluster([quota(json!({}), hard, now)])
}

// Upstream: TestPodEvaluatorHandles.
#[test]
fn pods_are_charged_when_they_are_created_resized_or_change_their_scope() {
    let asking = |cpu: &str, deadline: Option<i64>| {
        let mut pod =
            pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}));
        pod["metadata"]["resourceVersion"] = json!("5");
        pod["spec"]["activeDeadlineSeconds"] = json!(deadline);
        pod
    };
    let case = limiting(
        json!({"requests.cpu": "2", "pods": "9"}),
        json!({"requests.cpu": "1", "pods": "1"}),
    );
    let (small, large) = (asking("1", None), asking("1500m", None));
    assert_eq!(
        used(&case, &large, Some(&small), None),
        "",
        "an update changes nothing"
    );
    assert_eq!(
        used(&case, &large, Some(&small), Some(Subresource::Resize)),
        r#"{"pods":"1","requests.cpu":"1500m"}"#
    );
    assert_eq!(
        used(&case, &small, Some(&large), Some(Subresource::Resize)),
        "",
        "less is free"
    );
    assert_eq!(
        used(
            &case,
            &asking("3", None),
            Some(&small),
            Some(Subresource::Resize)
        ),
        "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=1, limited: requests.cpu=2"
    );
    let ends = cluster([quota(
        json!({"scopes": ["Terminating"]}),
        json!({"pods": "1"}),
        json!({"pods": "0"}),
    )]);
    let ending = asking("1", Some(9));
    assert_eq!(used(&ends, &ending, Some(&small), None), r#"{"pods":"1"}"#);
    assert_eq!(
        used(&ends, &small, Some(&ending), None),
        "",
        "the controller gives it back"
    );
}

// Upstream: TestPersistentVolumeClaimEvaluatorHandles, TestAdmitHandlesPVCUpdates.
#[test]
fn claims_are_charged_when_they_grow_also_by_what_is_reported() {
    let claim = |size: &str, allocated: Value| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "c"},
            "spec": {"storageClassName": "grows", "resources": {"requests": {"storage": size}}},
            "status": {"phase": "Bound", "allocatedResources": allocated}})
    };
    let mut case = limiting(
        json!({"requests.storage": "3Gi"}),
        json!({"requests.storage": "1Gi"}),
    );
    case.objects.push(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "grows"}, "allowVolumeExpansion": true}),
    );
    let small = claim("1Gi", Value::Null);
    assert_eq!(
        used(&case, &claim("2Gi", Value::Null), Some(&small), None),
        r#"{"requests.storage":"2Gi"}"#
    );
    assert_eq!(
        used(&case, &claim("5Gi", Value::Null), Some(&small), None),
        "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: requests.storage=4Gi, used: requests.storage=1Gi, limited: requests.storage=3Gi"
    );
    // What was reported has happened: it counts, however much it is.
    let reported = claim("1Gi", json!({"storage": "9Gi"}));
    assert_eq!(
        used(&case, &reported, Some(&small), Some(Subresource::Status)),
        r#"{"requests.storage":"9Gi"}"#
    );
    assert_eq!(
        used(&case, &small, Some(&small), Some(Subresource::Status)),
        ""
    );
}

// Upstream: TestServiceEvaluatorHandles, TestObjectCountEvaluatorHandles.
#[test]
fn services_are_charged_when_their_type_changes_and_plain_objects_when_they_are_created() {
    let case = limiting(
        json!({"services.nodeports": "1", "configmaps": "1"}),
        json!({"services.nodeports": "0", "configmaps": "1"}),
    );
    let service = |kind: &str| service(json!({"type": kind, "ports": [{"port": 80}]}));
    let (inner, outer) = (service("ClusterIP"), service("NodePort"));
    let (inner, _) = case.create(inner).unwrap();
    let mut outer = outer;
    outer["spec"]["clusterIP"] = inner["spec"]["clusterIP"].clone();
    assert_eq!(
        used(&case, &outer, Some(&inner), None),
        r#"{"configmaps":"1","services.nodeports":"1"}"#
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "m"}});
    assert_eq!(used(&case, &map, Some(&map), None), "");
    assert_eq!(
        used(&case, &map, None, None),
        "configmaps \"m\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
    );
}

// Upstream: TestResourceClaimEvaluatorHandles.
#[test]
fn claims_for_devices_are_charged_when_they_are_created_or_changed() {
    let claim = |count: i64| {
        let exactly =
            json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"namespace": "ns", "name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
    };
    let case = limiting(
        json!({"gpu.deviceclass.resource.k8s.io/devices": "5"}),
        json!({"gpu.deviceclass.resource.k8s.io/devices": "2"}),
    );
    let (two, four) = (claim(2), claim(4));
    assert_eq!(
        used(&case, &two, None, None),
        r#"{"gpu.deviceclass.resource.k8s.io/devices":"4"}"#
    );
    assert_eq!(
        used(&case, &four, Some(&two), None),
        r#"{"gpu.deviceclass.resource.k8s.io/devices":"4"}"#
    );
    assert_eq!(used(&case, &two, Some(&four), None), "", "less is free");
    assert_eq!(
        used(&case, &four, Some(&two), Some(Subresource::Status)),
        "",
        "what was allocated was charged before"
    );
    assert_eq!(
        used(&case, &claim(6), Some(&two), None),
        "resourceclaims.resource.k8s.io \"c\" is forbidden: exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=4, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: gpu.deviceclass.resource.k8s.io/devices=5"
    );
}

// Upstream: TestServiceConstraintsFunc.
#[test]
fn services_need_not_say_what_pods_have_to() {
    let hard = json!({"services": "9", "services.loadbalancers": "9", "services.nodeports": "9", "requests.cpu": "9"});
    let none = json!({"services": "0", "services.loadbalancers": "0", "services.nodeports": "0", "requests.cpu": "0"});
    for (spec, ports, balancers) in [
        (json!({"type": "LoadBalancer"}), "0", "1"),
        (json!({"type": "ClusterIP"}), "0", "0"),
        (
            json!({"type": "NodePort", "ports": [{"port": 27443}]}),
            "1",
            "0",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 27443, "name": "a"}, {"port": 27444, "name": "b"}]}),
            "2",
            "0",
        ),
    ] {
        let case = limiting(hard.clone(), none.clone());
        let charged = used(&case, &service(spec.clone()), None, None);
        let expected = format!(
            r#"{{"requests.cpu":"0","services":"1","services.loadbalancers":"{balancers}","services.nodeports":"{ports}"}}"#
        );
        assert_eq!(charged, expected, "{spec}");
    }
}

#[test]
fn nothing_is_admitted_before_somebody_has_counted() {
    let mut case = limiting(
        json!({"pods": "9", "count/pods": "9"}),
        json!({"pods": "0"}),
    );
    case.refuses(
        pod(json!({})),
        "pods \"p\" is forbidden: status unknown for quota: q, resources: count/pods,pods",
    );
    // What has no status at all limits nothing yet.
    case.objects.pop();
    case.objects
        .push(json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "ns", "name": "q"}, "spec": {"hard": {"pods": "0"}}}));
    assert!(case.create(pod(json!({}))).is_ok());
}

// Upstream: TestAdmitRejectsNegativeUsage, TestAdmitWhenUnrelatedResourceExceedsQuota.
#[test]
fn negative_usage_is_refused_and_what_is_exceeded_already_holds_up_nothing_else() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "c"},
        "spec": {"resources": {"requests": {"storage": "-1Gi"}}}});
    limiting(json!({"requests.storage": "1Gi"}), json!({"requests.storage": "0"})).refuses(
        claim,
        "persistentvolumeclaims \"c\" is forbidden: quota usage is negative for resource(s): requests.storage",
    );
    let over = limiting(
        json!({"services": "3", "pods": "4"}),
        json!({"services": "10", "pods": "1"}),
    );
    assert_eq!(
        used(&over, &pod(json!({})), None, None),
        r#"{"pods":"2","services":"10"}"#
    );
}

#[test]
fn events_and_reviews_are_never_counted() {
    let case = limiting(json!({"count/events": "0"}), json!({"count/events": "0"}));
    let event =
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "ns", "name": "e"}});
    assert_eq!(used(&case, &event, None, None), "");
}

/// A cluster with these quotas, in which these resources are limited.
fn limited(resources: Value, quotas: Vec<Value>) -> Case {
    let mut case = cluster(quotas);
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration",
        "limitedResources": resources});
    let told = PluginConfigurations::from([("ResourceQuota".to_owned(), configuration)]);
    let settings = PluginSettings::new(Plugins::default(), &told, |_| unreachable!());
    case.settings.plugin_settings = settings.unwrap();
    case.objects.push(
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "cluster-services"}, "value": 7}),
    );
    case
}

fn asking(cpu: &str, class: &str) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    if !cpu.is_empty() {
        container["resources"] = json!({"requests": {"cpu": cpu}});
    }
    let mut spec = json!({"containers": [container]});
    if !class.is_empty() {
        spec["priorityClassName"] = json!(class);
    }
    pod(spec)
}

/// UPSTREAM: TestAdmitLimitedResourceNoQuota and its like.
#[test]
fn a_limited_resource_is_used_with_a_quota_alone() {
    let of = |part: &str| json!([{"resource": "pods", "matchContains": [part]}]);
    let covering = |name: &str| quota(json!({}), json!({name: "10"}), json!({name: "1"}));
    let check = |resources: Value, quotas: Vec<Value>, expected: &str| {
        let said = limited(resources, quotas).create(asking("3", ""));
        assert_eq!(said.err().unwrap_or_default(), expected);
    };
    let refused = "pods \"p\" is forbidden: insufficient quota to consume: cpu,requests.cpu";
    check(of("cpu"), vec![], refused);
    check(
        json!([{"resource": "services", "matchContains": ["services"]}]),
        vec![],
        "",
    );
    check(of("requests.cpu"), vec![covering("requests.cpu")], "");
    check(of("memory"), vec![], "");
    let mut other = covering("services");
    other["metadata"]["name"] = json!("other");
    let both = vec![covering("requests.cpu"), other.clone()];
    check(of("requests.cpu"), both, "");
    check(of("cpu"), vec![other], refused);
    let half = "pods \"p\" is forbidden: insufficient quota to consume: cpu";
    check(of("cpu"), vec![covering("requests.cpu")], half);
}

/// UPSTREAM: TestAdmitLimitedScopeWithCoverQuota.
#[test]
fn a_limited_scope_is_used_with_a_quota_of_that_scope_alone() {
    let exists = |name: &str| json!({"scopeName": name, "operator": "Exists"});
    let services =
        || json!({"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services"]});
    let of = |scope: Value| json!({"resource": "pods", "matchScopes": [scope]});
    let covering = |scopes: Value| {
        let spec = json!({"scopeSelector": {"matchExpressions": scopes}});
        vec![quota(spec, json!({"pods": "10"}), json!({"pods": "1"}))]
    };
    let check = |resources: Value,
                 quotas: Vec<Value>,
                 (cpu, class): (&str, &str),
                 missing: &str| {
        let said = limited(resources, quotas).create(asking(cpu, class));
        let expected = match missing {
            "" => String::new(),
            missing if missing.starts_with('{') => {
                format!("insufficient quota to match these scopes: [{missing}]")
            }
            missing => format!("pods \"p\" is forbidden: insufficient quota to consume: {missing}"),
        };
        assert_eq!(said.err().unwrap_or_default(), expected);
    };
    let class = "cluster-services";
    let any = || json!([of(exists("PriorityClass"))]);
    check(
        any(),
        covering(json!([exists("PriorityClass")])),
        ("3", class),
        "",
    );
    let also = json!([{"resource": "pods", "matchContains": ["requests.cpu"], "matchScopes": [exists("PriorityClass")]}]);
    check(
        also,
        covering(json!([exists("PriorityClass")])),
        ("3", class),
        "requests.cpu",
    );
    check(any(), vec![], ("3", class), "{PriorityClass Exists []}");
    check(any(), vec![], ("3", ""), "");
    let best = || json!([of(exists("BestEffort"))]);
    check(best(), vec![], ("", ""), "{BestEffort Exists []}");
    check(
        best(),
        covering(json!([exists("BestEffort")])),
        ("", ""),
        "",
    );
    let two = || json!([of(exists("BestEffort")), of(services())]);
    check(two(), vec![], ("3", ""), "");
    check(two(), vec![], ("", ""), "{BestEffort Exists []}");
    let in_services = "{PriorityClass In [cluster-services]}";
    check(two(), vec![], ("3", class), in_services);
    let all = format!("{{BestEffort Exists []}} {in_services}");
    check(two(), vec![], ("", class), &all);
    check(
        two(),
        covering(json!([exists("BestEffort")])),
        ("", class),
        in_services,
    );
    check(
        two(),
        covering(json!([services()])),
        ("", class),
        "{BestEffort Exists []}",
    );
    check(
        two(),
        covering(json!([exists("BestEffort"), services()])),
        ("", class),
        "",
    );
    check(
        json!([of(services())]),
        covering(json!([exists("PriorityClass")])),
        ("3", class),
        "",
    );
}

#[test]
fn what_is_wrong_with_limited_resources_is_said() {
    let refused = |kind: &str, version: &str, resources: Value| {
        let told = json!({"kind": kind, "apiVersion": version, "limitedResources": resources});
        let told = PluginConfigurations::from([("ResourceQuota".to_owned(), told)]);
        let settings = PluginSettings::new(Plugins::default(), &told, |_| unreachable!());
        let why = settings.err().unwrap_or_default().concat();
        why.replace("couldn't init admission plugin \"ResourceQuota\": ", "")
    };
    let (kind, v1) = ("ResourceQuotaConfiguration", "apiserver.config.k8s.io/v1");
    let good = json!([{"resource": "pods"}]);
    assert_eq!(refused(kind, v1, good.clone()), "");
    let older = "resourcequota.admission.k8s.io/v1beta1";
    assert_eq!(refused("Configuration", older, good.clone()), "");
    assert_eq!(
        refused(kind, older, good),
        "no kind \"ResourceQuotaConfiguration\" is registered for version \"resourcequota.admission.k8s.io/v1beta1\"; it must be \
         ResourceQuotaConfiguration of apiserver.config.k8s.io/v1"
    );
    assert_eq!(
        refused(kind, v1, json!([{"apiGroup": "apps"}])),
        "limitedResources[0].resource: Required value"
    );
    assert_eq!(
        refused(kind, v1, json!([{"resources": "pods"}])),
        "strict decoding error: unknown field \"limitedResources[0].resources\""
    );
}
