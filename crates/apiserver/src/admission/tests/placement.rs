//! Plugins that are off unless they are asked for. Rows of upstream's tables, in words of our own.

use super::*;

fn with(plugin: &str, annotations: Value) -> Case {
    let mut case = cluster([]);
    case.settings.plugins = Plugins::chosen(&[plugin.to_owned()], &[]).unwrap();
    case.objects[0]["metadata"]["annotations"] = annotations;
    case
}

fn tolerations(case: &Case, spec: Value) -> Result<Vec<Value>, String> {
    let (made, _) = case.create(pod(spec))?;
    let all = list(&made, "spec.tolerations").iter();
    // Those that every pod gets say nothing here.
    let seconds = |toleration: &&Value| toleration["tolerationSeconds"] != 300;
    Ok(all.filter(seconds).cloned().collect())
}

/// UPSTREAM: antiaffinity's TestInterPodAffinityAdmission.
#[test]
fn pods_may_be_kept_apart_by_force_on_a_node_at_a_time() {
    let case = with("LimitPodHardAntiAffinityTopology", json!({}));
    let apart = |keys: &[&str], kind: &str| {
        let terms: Vec<Value> = keys
            .iter()
            .map(|key| json!({"topologyKey": key, "labelSelector": {}}))
            .collect();
        pod(json!({"affinity": {"podAntiAffinity": {kind: terms}}}))
    };
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    assert!(case.create(pod(json!({}))).is_ok());
    assert!(
        case.create(apart(&["kubernetes.io/hostname"], required))
            .is_ok()
    );
    case.refuses(
        apart(&["kubernetes.io/hostname", "topology.kubernetes.io/zone"], required),
        "pods \"p\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed",
    );
    assert!(
        cluster([]).create(apart(&["zone"], required)).is_ok(),
        "it is off"
    );
}

/// UPSTREAM: extendedresourcetoleration's TestAdmit.
#[test]
fn who_asks_for_an_extended_resource_tolerates_its_nodes() {
    let case = with("ExtendedResourceToleration", json!({}));
    let asking = |requests: Value| json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]});
    let tolerated = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let check = |spec: Value, expected: &[&str]| {
        let expected: Vec<Value> = expected.iter().map(|key| tolerated(key)).collect();
        assert_eq!(tolerations(&case, spec).unwrap(), expected);
    };
    check(json!({}), &[]);
    check(asking(json!({"cpu": "1", "kubernetes.io/thing": "1"})), &[]);
    check(
        asking(json!({"example.com/gpu": "1", "example.com/fpga": "2"})),
        &["example.com/fpga", "example.com/gpu"],
    );
    let mut already = asking(json!({"example.com/gpu": "1"}));
    already["tolerations"] = json!([tolerated("example.com/gpu")]);
    check(already, &["example.com/gpu"]);
}

/// UPSTREAM: podnodeselector's TestPodAdmission.
#[test]
fn pods_get_the_node_selector_of_their_namespace() {
    let case = |selector: &str| {
        with(
            "PodNodeSelector",
            json!({"scheduler.alpha.kubernetes.io/node-selector": selector}),
        )
    };
    let selected = |case: &Case, given: Value| {
        let made = case.create(pod(json!({"nodeSelector": given})));
        made.map(|(pod, _)| at(&pod, "spec.nodeSelector").clone())
    };
    let infra = case("infra=false, zone = a");
    assert_eq!(
        selected(&infra, json!({})),
        Ok(json!({"infra": "false", "zone": "a"}))
    );
    assert_eq!(
        selected(&infra, json!({"zone": "a", "disk": "fast"})),
        Ok(json!({"disk": "fast", "infra": "false", "zone": "a"}))
    );
    assert_eq!(
        selected(&infra, json!({"zone": "b"})).unwrap_err(),
        "pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector"
    );
    assert_eq!(selected(&case(""), json!({})), Ok(Value::Null));
    assert_eq!(
        selected(&case("a=b=c"), json!({})).unwrap_err(),
        "invalid selector: [a b c]"
    );
}

/// UPSTREAM: podtolerationrestriction's TestPodAdmission.
#[test]
fn a_namespace_says_what_its_pods_tolerate_and_may() {
    let plugin = "PodTolerationRestriction";
    let default = "scheduler.alpha.kubernetes.io/defaultTolerations";
    let allowed = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
    let toleration = |value: &str| json!({"key": "k", "operator": "Equal", "value": value, "effect": "NoSchedule"});
    let text = |values: &[&str]| {
        let all: Vec<Value> = values.iter().map(|value| toleration(value)).collect();
        Value::from(Value::Array(all).to_string())
    };
    let given = |value: &str| json!({"tolerations": [toleration(value)]});
    let both = with(plugin, json!({default: text(&["a"])}));
    assert_eq!(tolerations(&both, json!({})), Ok(vec![toleration("a")]));
    assert_eq!(
        tolerations(&both, given("b")),
        Ok(vec![toleration("b"), toleration("a")])
    );
    assert_eq!(tolerations(&both, given("a")), Ok(vec![toleration("a")]));
    // A wider one stands for both.
    let any = json!({"operator": "Exists"});
    assert_eq!(
        tolerations(&both, json!({"tolerations": [any]})),
        Ok(vec![any])
    );

    let pods = |allow: &str| {
        let mut all: Vec<Value> = serde_json::from_str(text(&[allow]).as_str().unwrap()).unwrap();
        // Those that DefaultTolerationSeconds adds need leave as well.
        all.extend(
            ["not-ready", "unreachable"].map(
                |key| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists"}),
            ),
        );
        with(plugin, json!({allowed: Value::Array(all).to_string()}))
    };
    assert!(tolerations(&pods("a"), given("a")).is_ok());
    assert_eq!(
        tolerations(&pods("a"), given("b")).unwrap_err(),
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"
    );
    // Whoever asks for memory is not driven away where it is short.
    let asking = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}]});
    assert_eq!(
        tolerations(&with(plugin, json!({})), asking),
        Ok(vec![
            json!({"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"})
        ])
    );
}

/// UPSTREAM: gc's TestGCAdmission and TestBlockOwnerDeletionAdmission. The user of these tests may do nothing.
#[test]
fn owners_are_set_by_who_could_delete_and_block_them() {
    let case = with("OwnerReferencesPermissionEnforcement", json!({}));
    let owned = |owners: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "ns", "name": "m", "ownerReferences": owners}})
    };
    let owner = |blocks: bool| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "blockOwnerDeletion": blocks});
    let none = owned(json!([]));
    assert!(
        case.run(&none, Some(&none), None).is_ok(),
        "nothing changes"
    );
    assert!(
        case.create(owned(json!([owner(false)]))).is_ok(),
        "who makes it could have left it"
    );
    let refused = case
        .run(&owned(json!([owner(false)])), Some(&none), None)
        .unwrap_err();
    let words =
        "configmaps \"m\" is forbidden: cannot set an ownerRef on a resource you can't delete: ";
    assert!(refused.starts_with(words), "{refused}");
    let refused = case.create(owned(json!([owner(true)]))).unwrap_err();
    let words = "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: ";
    assert!(refused.starts_with(words), "{refused}");
    let stranger = json!({"apiVersion": "example.com/v1", "kind": "Odd", "name": "r", "uid": "u", "blockOwnerDeletion": true});
    let refused = case.create(owned(json!([stranger]))).unwrap_err();
    assert!(
        refused.contains("cannot find RESTMapping for APIVersion example.com/v1 Kind Odd"),
        "{refused}"
    );
}

/// A cluster whose plugin was told this by a file, and whose namespace has these annotations.
fn told(plugin: &str, told: Value, annotations: Value) -> Case {
    let mut case = with(plugin, annotations);
    let told = PluginConfigurations::from([(plugin.to_owned(), told)]);
    let load = |_: &str| unreachable!();
    case.settings.plugin_settings =
        PluginSettings::new(case.settings.plugins, &told, load).unwrap();
    case
}

/// UPSTREAM: podnodeselector's TestPodAdmission, for what holds for the whole cluster.
#[test]
fn nodes_are_selected_for_the_whole_cluster_and_selectors_allowed_by_namespace() {
    let check = |default: &str, own: Option<&str>, allowed: &str, asked: Value, expected: Value| {
        let selectors = json!({"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": default, "ns": allowed}});
        let annotations = match own {
            Some(own) => json!({"scheduler.alpha.kubernetes.io/node-selector": own}),
            None => json!({}),
        };
        let case = told("PodNodeSelector", selectors, annotations);
        let created = case.create(pod(json!({"nodeSelector": asked})));
        let found = match created {
            Ok((made, _)) => at(&made, "spec.nodeSelector").clone(),
            Err(why) => json!(why.split_once("node label selector ").unwrap().1),
        };
        assert_eq!(found, expected);
    };
    let none = || json!({});
    let conflict = || json!("conflicts with its namespace node label selector");
    let forbidden = || json!("labels conflict with its namespace whitelist");
    check("", None, "", none(), Value::Null);
    check("infra = false", None, "", none(), json!({"infra": "false"}));
    check(
        "",
        Some(" infra = false "),
        "",
        none(),
        json!({"infra": "false"}),
    );
    check(
        "infra = false",
        Some("infra=true"),
        "",
        none(),
        json!({"infra": "true"}),
    );
    check("infra = false", Some(""), "", none(), Value::Null);
    let test = json!({"env": "test"});
    let both = json!({"infra": "true", "env": "test"});
    check("infra = false", Some("infra=true"), "", test, both);
    let asked = json!({"infra": "false"});
    check("env = test", Some("infra=true"), "", asked, conflict());
    let blue = || json!({"env": "dev", "color": "blue"});
    let own = Some("infra=false, env = dev");
    let all = json!({"infra": "false", "env": "dev", "color": "blue"});
    check(
        "env=dev",
        own,
        "env=dev, infra=false, color=blue",
        blue(),
        all,
    );
    check(
        "env=dev",
        own,
        "env=dev, infra=true, color=blue",
        blue(),
        forbidden(),
    );
    check("env=dev", None, "env=prd", none(), forbidden());
    check(
        "env=dev",
        Some("infra=false, env = test"),
        "",
        blue(),
        conflict(),
    );
}

/// UPSTREAM: podtolerationrestriction's TestPodAdmission, for what holds for the whole cluster.
#[test]
fn tolerations_of_the_whole_cluster_count_where_a_namespace_has_none() {
    let toleration = |value: &str| json!({"key": "testKey", "operator": "Equal", "value": value, "effect": "NoSchedule"});
    let (one, two) = (toleration("testValue"), toleration("testValue1"));
    let configured = |default: Value, allowed: Value| {
        json!({"apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration",
            "default": default, "whitelist": allowed})
    };
    let create = |configuration: Value, annotations: Value, asked: Value| {
        let case = told("PodTolerationRestriction", configuration, annotations);
        tolerations(&case, json!({"tolerations": asked}))
    };
    let all = || json!([one]);
    let none = || json!([]);
    let free = || configured(all(), none());
    assert_eq!(create(free(), json!({}), none()), Ok(vec![one.clone()]));
    assert_eq!(
        create(free(), json!({}), json!([two])),
        Ok(vec![two.clone(), one.clone()])
    );
    let default = |text: &str| json!({"scheduler.alpha.kubernetes.io/defaultTolerations": text});
    assert_eq!(create(free(), default(""), none()), Ok(vec![]));
    assert_eq!(create(free(), default("[]"), none()), Ok(vec![]));
    let own = default(&json!([two]).to_string());
    assert_eq!(create(free(), own, none()), Ok(vec![two.clone()]));
    let strict = || configured(none(), json!([two]));
    assert_eq!(
        create(strict(), json!({}), all()),
        Err("pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist".to_owned())
    );
    let allowed = json!({"scheduler.alpha.kubernetes.io/tolerationsWhitelist": ""});
    assert_eq!(create(strict(), allowed, all()), Ok(vec![one.clone()]));
}
