use std::collections::BTreeMap;

use super::*;

const LABEL: &str = "pod-security.kubernetes.io/";

/// A cluster whose PodSecurity was told this, with these labels on the namespace `ns`.
fn told(more: Value, labels: &str, objects: Vec<Value>) -> Case {
    let mut configuration = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration"});
    configuration
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let told = BTreeMap::from([("PodSecurity".to_owned(), configuration)]);
    let mut case = cluster(objects);
    case.settings.plugin_settings =
        PluginSettings::new(Plugins::default(), &told, |_| unreachable!()).unwrap();
    case.objects[0] = namespace(labels);
    case
}

fn namespace(labels: &str) -> Value {
    let labels = labels.split_whitespace().map(|label| {
        let (key, value) = label.split_once('=').unwrap();
        (format!("{LABEL}{key}"), Value::from(value))
    });
    let labels: serde_json::Map<String, Value> = labels.collect();
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels},
        "status": {"phase": "Active"}})
}

fn running(name: &str, controller: Option<&str>, spec: Value) -> Value {
    let mut pod = pod(spec);
    pod["metadata"]["name"] = json!(name);
    if let Some(uid) = controller {
        pod["metadata"]["ownerReferences"] = json!([{"uid": uid, "controller": true}]);
    }
    pod
}

/// UPSTREAM: TestValidateNamespace.
#[test]
fn labels_of_a_namespace_are_checked_and_told_of() {
    let exempt = json!({"exemptions": {"namespaces": ["ns"]}});
    let create = |more: Value, labels: &str| {
        let case = told(more, "", Vec::new());
        let created = case.create(namespace(labels));
        created.map(|(_, verdict)| verdict.warnings)
    };
    let plain = || json!({});
    for labels in [
        "enforce=privileged enforce-version=v1.0",
        "enforce=baseline",
        "enforce=restricted",
    ] {
        assert_eq!(create(plain(), labels), Ok(vec![]), "{labels}");
    }
    let ignored = |policy: &str| {
        Ok(vec![format!(
            "namespace \"ns\" is exempt from Pod Security, and the policy ({policy}) will be ignored"
        )])
    };
    assert_eq!(
        create(exempt.clone(), "enforce=restricted"),
        ignored("enforce=restricted:latest")
    );
    let level = "Namespace \"ns\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"unknown\": \
                 must be one of privileged, baseline, restricted";
    let version = "Namespace \"ns\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \
                   \"unknown\": must be \"latest\" or \"v1.x\"";
    assert_eq!(create(plain(), "enforce=unknown"), Err(level.to_owned()));
    let versions = "enforce=privileged enforce-version=unknown";
    assert_eq!(create(plain(), versions), Err(version.to_owned()));

    let pods = || {
        vec![
            running("b", None, json!({"hostNetwork": true})),
            running(
                "a",
                None,
                json!({"hostNetwork": true, "runtimeClassName": "one"}),
            ),
            running(
                "c",
                None,
                json!({"hostNetwork": true, "runtimeClassName": "two"}),
            ),
            running("d", None, json!({"hostPID": true})),
        ]
    };
    let update = |more: Value, old: &str, new: &str| {
        let case = told(more, old, pods());
        let updated = case.run(&namespace(new), Some(&namespace(old)), None);
        updated.map(|(_, verdict)| verdict.warnings)
    };
    for (old, new) in [
        (
            "enforce=baseline enforce-version=v1.0",
            "enforce=baseline enforce-version=v1.0",
        ),
        ("enforce=unknown", "enforce=unknown"),
        (
            "enforce=restricted enforce-version=v1.0",
            "enforce=baseline enforce-version=v1.0",
        ),
        ("enforce=restricted", "enforce=baseline"),
        ("enforce=restricted", "enforce=privileged"),
        ("enforce=restricted enforce-version=v1.0", ""),
    ] {
        assert_eq!(update(plain(), old, new), Ok(vec![]), "{old} {new}");
    }
    assert_eq!(
        update(
            exempt,
            "",
            "enforce=restricted enforce-version=v1.0 audit=restricted warn=baseline"
        ),
        ignored("enforce=restricted:v1.0, audit=restricted:latest, warn=baseline:latest")
    );
    let restricted = "enforce=restricted enforce-version=v1.0";
    assert_eq!(
        update(plain(), restricted, "enforce=unknown"),
        Err(level.to_owned())
    );
    assert_eq!(
        update(plain(), restricted, versions),
        Err(version.to_owned())
    );
    assert_eq!(
        update(plain(), "", "enforce=baseline").unwrap(),
        [
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 3 other pods): host namespaces"
        ]
    );
    let class = json!({"exemptions": {"runtimeClasses": ["one"]}});
    assert_eq!(
        update(class, "", "enforce=baseline").unwrap()[1],
        "b (and 2 other pods): host namespaces"
    );
    let defaults = json!({"defaults": {"enforce": "restricted"}});
    let implicit = update(defaults, "enforce=baseline enforce-version=v1.0", "");
    assert_eq!(
        implicit.unwrap()[0],
        "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"restricted:latest\""
    );
}

#[test]
fn one_pod_of_each_controller_is_looked_at_first() {
    let mut pods = Vec::new();
    for index in 0..3000 {
        let name = format!("a{index:04}");
        pods.push(running(&name, Some("set"), json!({"hostNetwork": true})));
    }
    pods.push(running(
        "z",
        None,
        json!({"hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    ));
    let case = told(json!({}), "", pods);
    let updated = case.run(&namespace("enforce=baseline"), Some(&namespace("")), None);
    assert_eq!(
        updated.unwrap().1.warnings,
        [
            "new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods",
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a0000 (and 2998 other pods): host namespaces",
            "z: host namespaces, hostPath volumes"
        ]
    );
}

/// UPSTREAM: TestValidatePodAndController.
#[test]
fn defaults_hold_where_labels_say_nothing_and_not_for_whom_is_exempt() {
    let privileged = || pod(json!({"hostPID": true}));
    let deployment = || {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "d"},
            "spec": {"template": {"spec": {"hostPID": true, "containers": [{"name": "c"}]}}}})
    };
    let defaults = json!({"enforce": "baseline", "audit": "baseline", "warn": "baseline"});
    let create = |exempt: Value, labels: &str, object: Value| {
        let more = json!({"defaults": defaults, "exemptions": exempt});
        let created = told(more, labels, Vec::new()).create(object);
        created.map(|(_, verdict)| (verdict.warnings.clone(), annotations(&verdict)))
    };
    let forbidden = "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    let would = "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    let none = || json!({});
    assert_eq!(create(none(), "", privileged()), Err(forbidden.to_owned()));
    assert_eq!(
        create(none(), "", deployment()),
        Ok((vec![would.to_owned()], format!("audit-violations={would}")))
    );
    let exempt = |why: &str| Ok((vec![], format!("exempt={why}")));
    for (exemption, why) in [
        (json!({"namespaces": ["ns"]}), "namespace"),
        (json!({"usernames": ["jane"]}), "user"),
    ] {
        for object in [privileged(), deployment()] {
            assert_eq!(create(exemption.clone(), "", object), exempt(why));
        }
    }
    let classes = json!({"runtimeClasses": ["sandboxed"]});
    let mut sandboxed = deployment();
    sandboxed["spec"]["template"]["spec"]["runtimeClassName"] = json!("sandboxed");
    assert_eq!(
        create(classes.clone(), "", sandboxed),
        exempt("runtimeClass")
    );
    assert_eq!(create(classes, "", privileged()), Err(forbidden.to_owned()));
    let labels = "enforce=privileged audit=privileged warn=privileged";
    assert_eq!(
        create(none(), labels, privileged()),
        Ok((vec![], "enforce-policy=privileged:latest".to_owned()))
    );
    assert_eq!(
        create(none(), "enforce=privileged", privileged()),
        Ok((
            vec![would.to_owned()],
            format!("audit-violations={would}, enforce-policy=privileged:latest")
        ))
    );
    // Nobody but a namespace that was there before has such a label.
    let unknown = "enforce=unknown audit=privileged warn=privileged";
    let (_, annotations) = create(none(), unknown, deployment()).unwrap();
    assert_eq!(
        annotations,
        "error=Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"unknown\": must be \
         one of privileged, baseline, restricted"
    );
    let refused = create(none(), unknown, privileged()).unwrap_err();
    assert!(
        refused
            .starts_with("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": "),
        "{refused}"
    );
}

fn annotations(verdict: &Verdict) -> String {
    let annotations = verdict.annotations.iter();
    let shown = annotations.filter_map(|(key, value)| {
        let key = key.strip_prefix(LABEL)?;
        Some(format!("{key}={value}"))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// What runs already is looked at again only if its containers change.
#[test]
fn an_update_that_changes_no_container_passes() {
    let case = told(json!({}), "enforce=baseline", Vec::new());
    let created = cluster([]).create(pod(json!({"hostPID": true})));
    let (old, _) = created.unwrap();
    let mut tolerant = old.clone();
    tolerant["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    assert!(case.run(&tolerant, Some(&old), None).is_ok());
    let mut other = old.clone();
    other["spec"]["containers"][0]["image"] = json!("other");
    assert!(case.run(&other, Some(&old), None).is_err());
}

/// Pods sent to kube-apiserver 1.36 in namespaces whose label pins a version of the standards, with what it said: at each
/// version that changed it, and the one before.
#[test]
fn pods_are_held_against_the_version_that_a_label_pins() {
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../../../testdata/pod_security_versions.json")).unwrap();
    assert!(corpus.len() > 100);
    for sent in &corpus {
        let (level, version) = (text(sent, "level"), text(sent, "version"));
        let labels = format!("enforce={level} enforce-version={version} warn=privileged");
        let mut pod = pod(sent["spec"].clone());
        pod["metadata"]["annotations"] = sent["annotations"].clone();
        let said = told(json!({}), &labels, Vec::new()).create(pod).err();
        let said = said.unwrap_or_default().replace("pods \"p\"", "pods \"x\"");
        assert_eq!(said, sent["message"], "{sent}");
    }
}

/// What the file says of the whole cluster is pinned like a label, and so are warnings and what is said of running pods.
#[test]
fn warnings_and_defaults_have_versions_of_their_own() {
    let parameters = || {
        pod(json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}}))
    };
    let create = |defaults: Value, labels: &str| {
        let created = told(json!({"defaults": defaults}), labels, Vec::new()).create(parameters());
        created.map(|(_, verdict)| (verdict.warnings.clone(), annotations(&verdict)))
    };
    let none = || json!({});
    let pinned = json!({"enforce": "baseline", "enforce-version": "v1.31"});
    let why = "\"baseline:v1.31\": forbidden sysctls (net.ipv4.tcp_rmem)";
    assert_eq!(
        create(pinned, ""),
        Err(format!(
            "pods \"p\" is forbidden: violates PodSecurity {why}"
        ))
    );
    let newer = json!({"enforce": "baseline", "enforce-version": "v1.32"});
    let passed = "enforce-policy=baseline:v1.32".to_owned();
    assert_eq!(create(newer, ""), Ok((vec![], passed)));
    let would = format!("would violate PodSecurity {why}");
    assert_eq!(
        create(none(), "warn=baseline warn-version=v1.31"),
        Ok((
            vec![would.clone()],
            "enforce-policy=privileged:latest".to_owned()
        ))
    );
    assert_eq!(
        create(none(), "audit=baseline audit-version=v1.31"),
        Ok((
            vec![],
            format!("audit-violations={would}, enforce-policy=privileged:latest")
        ))
    );
    let raise = |labels: &str| {
        let case = told(none(), "", vec![parameters()]);
        let updated = case.run(&namespace(labels), Some(&namespace("")), None);
        updated.unwrap().1.warnings
    };
    assert_eq!(raise("enforce=baseline enforce-version=v1.32"), [""; 0]);
    assert_eq!(
        raise("enforce=baseline enforce-version=v1.31"),
        [
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:v1.31\"",
            "p: forbidden sysctls"
        ]
    );
}
