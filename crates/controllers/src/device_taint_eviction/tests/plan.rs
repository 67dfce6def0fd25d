//! Whether and when a pod has to go.

use std::sync::Arc;

use api::kinds::{DeviceTaintRule, Pod, ResourceClaim, ResourceSlice};
use api::{Resource, Time};
use expect_test::{Expect, expect};
use runtime::Store;
use serde_json::{Value, json};

use super::super::invariants::{Devices, due};
use super::super::plan::{BY_POOL, Known, TaintSource, pod_eviction};
use super::super::rule_status::{Counts, condition};

/// When all taints of these tests were added, if they do not say.
const ADDED: i64 = 946_684_800;

fn at(second: i64) -> String {
    serde_json::to_value(Time::from_unix(ADDED + second))
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

fn decode<K: Resource>(object: &Value) -> Arc<K> {
    Arc::new(K::decode(object.to_string().as_bytes()).unwrap())
}

/// `effect` or `effect:key=value+seconds`.
fn taint(text: &str) -> Value {
    let (text, second) = text.split_once('+').unwrap_or((text, "0"));
    let (effect, rest) = text.split_once(':').unwrap_or((text, "k=v"));
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    json!({"key": key, "value": value, "effect": effect, "timeAdded": at(second.parse().unwrap())})
}

/// `gpu-0 gpu-1!NoExecute,NoSchedule:other`: devices and their taints.
fn slice(name: &str, generation: i64, devices: &str) -> Arc<ResourceSlice> {
    let devices: Vec<Value> = devices
        .split_whitespace()
        .map(|device| {
            let (name, taints) = device.split_once('!').unwrap_or((device, ""));
            let taints = taints.split(',').filter(|taint| !taint.is_empty());
            json!({"name": name, "taints": taints.map(taint).collect::<Vec<_>>()})
        })
        .collect();
    decode(&json!({
        "metadata": {"name": name},
        "spec": {
            "driver": "d", "pool": {"name": "p", "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
        },
    }))
}

fn rule(name: &str, effect: &str, selector: Value) -> Arc<DeviceTaintRule> {
    decode(&json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 3},
        "spec": {"deviceSelector": selector, "taint": taint(effect)},
    }))
}

/// `gpu-0 gpu-1`: the devices; the tolerations are those of the first.
fn claim(name: &str, devices: &str, tolerations: Value, users: Value) -> Value {
    let results: Vec<Value> = devices
        .split_whitespace()
        .enumerate()
        .map(|(number, device)| {
            let tolerations = if number == 0 {
                tolerations.clone()
            } else {
                json!([])
            };
            json!({"driver": "d", "pool": "p", "device": device, "tolerations": tolerations})
        })
        .collect();
    json!({
        "metadata": {"name": name, "namespace": "ns"},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users},
    })
}

fn by_pod() -> Value {
    json!([{"resource": "pods", "name": "pod", "uid": "1"}])
}

fn pod(claims: Value) -> Value {
    json!({
        "metadata": {"name": "pod", "namespace": "ns", "uid": "1"},
        "spec": {"nodeName": "n", "resourceClaims": claims},
    })
}

fn named(name: &str) -> Value {
    json!([{"name": "gpu", "resourceClaimName": name}])
}

#[derive(Default)]
struct Case {
    claims: Store<ResourceClaim>,
    slices: Store<ResourceSlice>,
    rules: Vec<Arc<DeviceTaintRule>>,
    has_groups: bool,
}

impl Case {
    fn new(
        claims: &[Value],
        slices: &[Arc<ResourceSlice>],
        rules: &[Arc<DeviceTaintRule>],
    ) -> Case {
        let case = Case {
            rules: rules.to_vec(),
            ..Case::default()
        };
        case.slices.add_index(&BY_POOL);
        for it in claims {
            case.claims.put(decode::<ResourceClaim>(it));
        }
        for slice in slices {
            case.slices.put(slice.clone());
        }
        case
    }

    fn known(&self) -> Known<'_> {
        Known {
            claims: &self.claims,
            slices: &self.slices,
            rules: self.rules.clone(),
            has_groups: self.has_groups,
        }
    }

    /// Seconds after the taints were added, and why; what the oracle says must be the same, save for groups.
    fn check(&self, pod: &Value, expected: Expect) {
        let pod = decode::<Pod>(pod);
        let eviction = pod_eviction(&pod, &self.known());
        if !self.has_groups {
            let devices = Devices {
                claims: self.claims.list(),
                slices: self.slices.list(),
                rules: self.rules.clone(),
            };
            assert_eq!(due(&pod, &devices), eviction.as_ref().map(|it| it.at));
        }
        let text = eviction.map_or("stays".to_owned(), |eviction| {
            let sources: Vec<String> = eviction
                .because
                .iter()
                .map(|source| match source {
                    TaintSource::Rule { name, .. } => format!("rule {name}"),
                    TaintSource::Slice { device, number, .. } => format!("{device}#{number}"),
                })
                .collect();
            format!(
                "goes at {}: {}",
                eviction.at.time().unix() - ADDED,
                sources.join(", ")
            )
        });
        expected.assert_eq(&text);
    }
}

fn for_ever() -> Value {
    json!([{"operator": "Exists", "effect": "NoExecute"}])
}

fn exists(key: &str, seconds: i64) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

fn tolerating(tolerations: Value, devices: &str) -> Case {
    Case::new(
        &[claim("c", "gpu-0", tolerations, by_pod())],
        &[slice("s", 1, devices)],
        &[],
    )
}

// Upstream: TestController (untainted-claim, evict-pod-resourceclaim, ignore-none-effect, ignore-unknown-effect,
// cancel-eviction-reduce-taint, no-evict-no-taint, no-evict-other-device, cancel-eviction-remove-slice).
#[test]
fn only_no_execute_drives_away() {
    let check =
        |devices: &str, expected| tolerating(json!([]), devices).check(&pod(named("c")), expected);
    check("gpu-0", expect!["stays"]);
    check("gpu-0!NoExecute", expect!["goes at 0: gpu-0#0"]);
    check("gpu-0!None,NoExecute", expect!["goes at 0: gpu-0#1"]);
    check("gpu-0!None", expect!["stays"]);
    check("gpu-0!NoSchedule", expect!["stays"]);
    check("gpu-0!unknown-effect", expect!["stays"]);
    check("gpu-1!NoExecute", expect!["stays"]);
    Case::new(&[claim("c", "gpu-0", json!([]), by_pod())], &[], &[])
        .check(&pod(named("c")), expect!["stays"]);
}

// Upstream: TestController (evict-pod-later, evict-pod-later-many, evict-pod-toleration-mismatch,
// no-evict-pod-toleration-forever, no-evict-pod-toleration-forever-many, evict-pod-partial-toleration,
// evict-pod-many-taints, eviction-change-taint).
#[test]
fn the_toleration_that_ends_first_counts() {
    let check = |tolerations: Value, devices: &str, expected| {
        tolerating(tolerations, devices).check(&pod(named("c")), expected);
    };
    let equal = |value: &str| {
        json!([{
            "key": "k", "operator": "Equal", "value": value, "effect": "NoExecute", "tolerationSeconds": 60,
        }])
    };
    check(
        equal("v"),
        "gpu-0!NoExecute",
        expect!["goes at 60: gpu-0#0"],
    );
    check(
        equal("v"),
        "gpu-0!NoExecute:k=w",
        expect!["goes at 0: gpu-0#0"],
    );
    check(
        json!([exists("l", 60)]),
        "gpu-0!NoExecute",
        expect!["goes at 0: gpu-0#0"],
    );
    let many = json!([exists("other", 20), exists("", 60), exists("", 30)]);
    check(many, "gpu-0!NoExecute", expect!["goes at 30: gpu-0#0"]);
    check(for_ever(), "gpu-0!NoExecute", expect!["stays"]);
    let mixed = json!([exists("", 60), {"operator": "Exists", "effect": "NoExecute"}]);
    check(mixed, "gpu-0!NoExecute", expect!["stays"]);
    check(
        json!([exists("", -5)]),
        "gpu-0!NoExecute",
        expect!["goes at 0: gpu-0#0"],
    );
    // UPSTREAM: one for all effects is for the scheduler alone.
    let any_effect = json!([{"operator": "Exists"}]);
    let pod = pod(named("c"));
    let case = tolerating(any_effect, "gpu-0!NoExecute");
    assert!(pod_eviction(&decode::<Pod>(&pod), &case.known()).is_some());
    let partial = json!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]);
    tolerating(partial, "gpu-0!NoExecute:a,NoExecute:b").check(&pod, expect!["goes at 0: gpu-0#1"]);
    let both = json!([exists("a", 60), exists("b", 30)]);
    tolerating(both, "gpu-0!NoExecute:a,NoExecute:b")
        .check(&pod, expect!["goes at 30: gpu-0#0, gpu-0#1"]);
}

// Upstream: TestController (tainted-claim-through-rule, evict-pod-rule, multiple-claims-same-rule,
// multiple-claims-different-rules-order-1, evict-pod-many-taints).
#[test]
fn rules_taint_what_they_select() {
    let claims = [claim("c", "gpu-0 gpu-1", json!([]), by_pod())];
    let check = |rules: &[Arc<DeviceTaintRule>], expected| {
        Case::new(&claims, &[], rules).check(&pod(named("c")), expected);
    };
    check(
        &[rule("r", "NoExecute", json!({"driver": "d"}))],
        expect!["goes at 0: rule r"],
    );
    check(
        &[rule("r", "NoExecute", json!({"driver": "e"}))],
        expect!["stays"],
    );
    check(
        &[rule("r", "NoExecute", json!({"pool": "q"}))],
        expect!["stays"],
    );
    check(&[rule("r", "NoExecute", Value::Null)], expect!["stays"]);
    check(
        &[
            rule("later", "NoExecute:k=v+40", json!({"device": "gpu-1"})),
            rule("now", "NoExecute", json!({"device": "gpu-0"})),
        ],
        expect!["goes at 0: rule later, rule now"],
    );
    let tainted = slice("s", 1, "gpu-0!NoExecute");
    Case::new(&claims, &[tainted], &[rule("r", "NoExecute", json!({}))])
        .check(&pod(named("c")), expect!["goes at 0: rule r, gpu-0#0"]);
}

// Upstream: TestController (cancel-eviction-remove-taint-in-new-slice), TestEviction (delete).
#[test]
fn only_the_latest_generation_of_a_pool_counts() {
    let claims = [claim("c", "gpu-0", json!([]), by_pod())];
    let tainted = slice("old", 1, "gpu-0!NoExecute");
    let check = |slices: &[Arc<ResourceSlice>], expected| {
        Case::new(&claims, slices, &[]).check(&pod(named("c")), expected);
    };
    check(
        &[tainted.clone(), slice("new", 2, "gpu-0")],
        expect!["stays"],
    );
    check(
        &[tainted.clone(), slice("same", 1, "gpu-1")],
        expect!["goes at 0: gpu-0#0"],
    );
    check(&[tainted, slice("new", 2, "gpu-1")], expect!["stays"]);
}

// Upstream: TestController (no-evict-pod-not-scheduled, no-evict-wrong-pod, no-evict-pod-resourceclaimtemplate-no-status,
// no-evict-pod-resourceclaimtemplate-no-claim, evict-pod-resourceclaimtemplate, no-evict-wrong-resourceclaim,
// no-evict-resourceclaim-deallocated, no-evict-resourceclaim-deleted).
#[test]
fn a_pod_goes_for_claims_that_it_may_use() {
    let slices = [slice("s", 1, "gpu-0!NoExecute")];
    let mut held = claim("c", "gpu-0", json!([]), by_pod());
    let case = Case::new(&[held.clone()], &slices, &[]);
    let mut unbound = pod(named("c"));
    unbound["spec"]["nodeName"] = json!("");
    case.check(&unbound, expect!["stays"]);
    case.check(&pod(named("other")), expect!["stays"]);
    let mut namesake = pod(named("c"));
    namesake["metadata"]["uid"] = json!("2");
    case.check(&namesake, expect!["stays"]);

    let from_template = |statuses: Value| {
        let mut pod = pod(json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]));
        pod["status"] = json!({"resourceClaimStatuses": statuses});
        pod
    };
    let told = from_template(json!([{"name": "gpu", "resourceClaimName": "c"}]));
    case.check(&from_template(json!([])), expect!["stays"]);
    case.check(&from_template(json!([{"name": "gpu"}])), expect!["stays"]);
    let owned = |uid: &str| {
        let mut claim = held.clone();
        claim["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": uid, "controller": true}]);
        Case::new(&[claim], &slices, &[])
    };
    owned("1").check(&told, expect!["goes at 0: gpu-0#0"]);
    let wrong = pod_eviction(&decode::<Pod>(&told), &owned("other").known());
    assert_eq!(wrong, None, "the claim was created for another pod");
    held["status"]["allocation"] = Value::Null;
    Case::new(&[held], &slices, &[]).check(&pod(named("c")), expect!["stays"]);
}

// Upstream: TestController (evict-pod-resourceclaim-podgroup, no-evict-pod-in-podgroup-without-claim).
#[test]
fn pods_of_a_group_go_for_the_claims_of_the_group() {
    let group = json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "5"}]);
    let slices = [slice("s", 1, "gpu-0!NoExecute")];
    let mut case = Case::new(&[claim("c", "gpu-0", json!([]), group)], &slices, &[]);
    case.has_groups = true;
    let mut member = pod(named("c"));
    member["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    case.check(&member, expect!["goes at 0: gpu-0#0"]);
    case.check(&pod(named("c")), expect!["stays"]);
    member["spec"]["resourceClaims"] = json!([]);
    case.check(&member, expect!["stays"]);
    case.has_groups = false;
    case.check(&pod(named("c")), expect!["stays"]);
}

fn says(rule: &Arc<DeviceTaintRule>, case: &Case, pods: &[Value], evicted: u64, expected: Expect) {
    let store = Store::new();
    for it in pods {
        store.put(decode::<Pod>(it));
    }
    let counts = Counts {
        evicted,
        ..Counts::of(rule, &store, &case.known())
    };
    let said = condition(rule, counts, Time::from_unix(ADDED));
    assert_eq!(said.observed_generation, 3);
    expected.assert_eq(&format!("{} {} {}", said.status, said.reason, said.message));
}

// Upstream: TestController (rule-status, evict-pod-rule, evict-many-pods-many-namespaces, evict-many-pods-same-namespace,
// none-pod-rule, none-many-pods-many-namespaces, none-many-pods-same-namespace, none-podgroup-rule).
#[test]
fn rules_say_how_far_they_are() {
    let mut other = claim(
        "c",
        "gpu-1 gpu-2",
        json!([]),
        json!([{"resource": "pods", "name": "pod", "uid": "2"}]),
    );
    other["metadata"]["namespace"] = json!("elsewhere");
    let claims = [claim("c", "gpu-0", json!([]), by_pod()), other];
    let mut there = pod(named("c"));
    there["metadata"]["namespace"] = json!("elsewhere");
    there["metadata"]["uid"] = json!("2");
    let pods = [pod(named("c")), there];
    let evicting = rule("r", "NoExecute", json!({"driver": "d"}));
    let slices = [
        slice("s", 1, "gpu-0 gpu-1 gpu-2!NoExecute"),
        slice("old", 0, "gpu-3"),
    ];
    let case = Case::new(&claims, &slices, std::slice::from_ref(&evicting));
    says(&evicting, &case, &[], 0, expect!["False NotStarted "]);
    says(
        &evicting,
        &case,
        &pods[..1],
        0,
        expect!["True PodsPendingEviction 1 pod needs to be evicted in 1 namespace."],
    );
    says(
        &evicting,
        &case,
        &pods,
        1,
        expect![
            "True PodsPendingEviction 2 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller."
        ],
    );
    says(
        &evicting,
        &case,
        &[],
        2,
        expect!["False Completed 2 pods evicted since starting the controller."],
    );
    let case = Case::new(&claims, &slices, &[]);
    let idle = rule("r", "None", json!({"driver": "d"}));
    says(
        &idle,
        &case,
        &pods[..1],
        0,
        expect![
            "False NoEffect 3 published devices selected. 3 allocated devices selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        ],
    );
    says(
        &rule("r", "None", json!({"device": "gpu-0"})),
        &case,
        &pods,
        0,
        expect![
            "False NoEffect 1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        ],
    );
    says(
        &rule("r", "NoSchedule", json!({})),
        &case,
        &pods,
        0,
        expect!["False OtherEffect Eviction only happens for the NoExecute effect."],
    );
}
