//! Plans for small clusters that are written down in a few words.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// A cluster in the making.
#[derive(Default)]
struct Bed {
    cache: Cache,
    claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
}

impl Volumes for Bed {
    fn claim(&self, _: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(name).cloned()
    }
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.get(name).cloned()
    }
    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get(name).cloned()
    }
}

impl Objects for Bed {
    fn devices(&self) -> Option<&dyn Devices> {
        None
    }
}

fn read<K: Resource>(json: Value) -> Arc<K> {
    Arc::new(K::decode(json.to_string().as_bytes()).unwrap())
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn pod(name: &str, more: Value) -> Arc<Pod> {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i"}]},
    });
    merge(&mut object, more);
    read(object)
}

/// A pod that asks for this much cpu, at this priority.
fn asking(name: &str, cpu: &str, priority: i32) -> Arc<Pod> {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    pod(
        name,
        json!({"spec": {"priority": priority, "containers": [container]}}),
    )
}

impl Bed {
    /// Nodes with 4 cpus each; `node-2` is in zone b, the others in zone a.
    fn new(nodes: usize) -> Bed {
        let mut bed = Bed::default();
        for index in 0..nodes {
            bed.node(index, json!({}));
        }
        bed
    }

    fn node(&mut self, index: usize, more: Value) {
        let name = format!("node-{index}");
        let zone = if index == 2 { "b" } else { "a" };
        let mut object = json!({
            "metadata": {"name": name, "labels": {"zone": zone, "kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        });
        merge(&mut object, more);
        self.cache.set_node(read(object));
    }

    fn place(&mut self, pod: Arc<Pod>, node: &str) {
        self.cache.place(pod, &Istr::from(node), false);
    }

    fn plan(&self, pod: &Pod) -> Plan {
        plan::plan(&self.cache, self, pod, 0).0
    }

    fn check(&self, pod: &Pod, expected: Expect) {
        let text = match self.plan(pod) {
            Plan::Bind { node, claims, .. } if claims.is_empty() => format!("bind {node}"),
            Plan::Bind { node, claims, .. } => format!("bind {node} after {claims:?}"),
            Plan::Hold => "hold".to_owned(),
            Plan::Wait {
                message,
                preemption: None,
                ..
            } => message,
            Plan::Wait {
                message,
                preemption: Some(preemption),
                ..
            } => {
                let victims: Vec<&str> = preemption
                    .victims
                    .iter()
                    .map(|pod| &*pod.metadata.name)
                    .collect();
                format!("{message}\npreempt {victims:?} on {}", preemption.node)
            }
        };
        expected.assert_eq(&text);
    }

    /// Schedules all pods one after the other; says how many went where.
    fn fill(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for pod in pods {
            let target = match self.plan(&pod) {
                Plan::Bind { node, .. } => {
                    self.place(pod, &node);
                    node.to_string()
                }
                Plan::Wait { .. } | Plan::Hold => "nowhere".to_owned(),
            };
            *counts.entry(target).or_insert(0) += 1;
        }
        counts
    }
}

fn counted(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

#[test]
fn no_nodes() {
    Bed::default().check(
        &pod("p", json!({})),
        expect!["no nodes available to schedule pods"],
    );
}

#[test]
fn reasons_are_counted_in_upstreams_words() {
    let mut bed = Bed::new(3);
    bed.node(
        0,
        json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
    );
    bed.node(1, json!({"spec": {"unschedulable": true}}));
    bed.check(&asking("p", "5", 0), expect!["0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
    let tolerant = pod(
        "p",
        json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
    );
    bed.check(&tolerant, expect!["bind node-0"]);
    let everything = json!({"name": "c", "resources": {"requests": {"cpu": "9", "memory": "9Gi", "example.com/gpu": "1"}}});
    bed.check(&pod("p", json!({"spec": {"containers": [everything]}})), expect!["0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
}

#[test]
fn full_nodes() {
    let mut bed = Bed::new(1);
    for index in 0..10 {
        bed.place(pod(&format!("p{index}"), json!({})), "node-0");
    }
    bed.check(&pod("one-more", json!({})), expect!["0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."]);
}

#[test]
fn node_selector_and_affinity() {
    let bed = Bed::new(3);
    bed.check(
        &pod("p", json!({"spec": {"nodeSelector": {"zone": "b"}}})),
        expect!["bind node-2"],
    );
    bed.check(&pod("p", json!({"spec": {"nodeSelector": {"zone": "c"}}})), expect!["0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
    let not_a =
        json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]);
    let required = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": not_a}}});
    bed.check(
        &pod("p", json!({"spec": {"affinity": required}})),
        expect!["bind node-2"],
    );
    let by_name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]);
    let daemon = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": by_name}}});
    bed.check(
        &pod("p", json!({"spec": {"affinity": daemon}})),
        expect!["bind node-1"],
    );
    let preferred = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 50, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}},
    ]}});
    bed.check(
        &pod("p", json!({"spec": {"affinity": preferred}})),
        expect!["bind node-2"],
    );
}

#[test]
fn a_pod_that_names_its_nodes_looks_at_no_others() {
    let mut bed = Bed::new(3);
    bed.node(0, json!({"spec": {"unschedulable": true}}));
    let naming = |names: Value, cpu: &str| {
        let field = json!({"key": "metadata.name", "operator": "In", "values": names});
        let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        pod(
            "p",
            json!({"spec": {"affinity": affinity, "containers": [container]}}),
        )
    };
    bed.check(&naming(json!(["node-2"]), "1"), expect!["bind node-2"]);
    bed.check(&naming(json!(["node-2"]), "100"), expect!["0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
    bed.check(&naming(json!(["node-9"]), "1"), expect!["0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
}

#[test]
fn pods_of_one_owner_spread_evenly() {
    let owned = |index: usize| {
        let owner = json!({"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true});
        pod(
            &format!("p{index}"),
            json!({"metadata": {"ownerReferences": [owner]}}),
        )
    };
    let counts = Bed::new(3).fill((0..9).map(owned));
    assert_eq!(
        counts,
        counted(&[("node-0", 3), ("node-1", 3), ("node-2", 3)])
    );
}

#[test]
fn the_emptier_node_wins_and_ties_go_by_name() {
    let mut bed = Bed::new(2);
    bed.check(&asking("p", "1", 0), expect!["bind node-0"]);
    bed.place(asking("other", "2", 0), "node-0");
    bed.check(&asking("p", "1", 0), expect!["bind node-1"]);
}

#[test]
fn soft_taints_are_avoided_where_possible() {
    let mut bed = Bed::new(2);
    bed.node(
        0,
        json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}),
    );
    bed.check(&pod("p", json!({})), expect!["bind node-1"]);
}

#[test]
fn host_ports_are_taken_once_per_node() {
    let wanting = |name: &str| {
        let container = json!({"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]});
        pod(name, json!({"spec": {"containers": [container]}}))
    };
    let mut bed = Bed::new(2);
    let counts = bed.fill(["a", "b"].map(wanting));
    assert_eq!(counts, counted(&[("node-0", 1), ("node-1", 1)]));
    bed.check(&wanting("c"), expect!["0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."]);
}

fn affine(kind: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key});
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

#[test]
fn anti_affinity_keeps_pods_apart_in_both_directions() {
    let mut bed = Bed::new(3);
    let apart = |name: &str| pod(name, affine("podAntiAffinity", "kubernetes.io/hostname"));
    let counts = bed.fill(["a", "b", "c"].map(apart));
    assert_eq!(
        counts,
        counted(&[("node-0", 1), ("node-1", 1), ("node-2", 1)])
    );
    bed.check(&apart("d"), expect!["0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."]);
    // One that has no rules of its own is kept away by the rules of the others.
    bed.check(&pod("plain", json!({})), expect!["0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."]);
    bed.check(
        &pod("other", json!({"metadata": {"labels": {"app": "db"}}})),
        expect!["bind node-0"],
    );
}

#[test]
fn affinity_follows_its_kind_and_the_first_may_go_anywhere() {
    let near = |name: &str| pod(name, affine("podAffinity", "zone"));
    let mut bed = Bed::new(3);
    bed.check(&near("first"), expect!["bind node-0"]);
    bed.place(near("first"), "node-2");
    bed.check(&near("second"), expect!["bind node-2"]);
    let stranger = json!({"metadata": {"labels": {"app": "db"}}});
    let mut lonely = affine("podAffinity", "zone");
    merge(&mut lonely, stranger);
    Bed::new(2).check(&pod("lonely", lonely), expect!["0/2 nodes are available: 2 node(s) didn't match pod affinity rules. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
}

#[test]
fn spread_constraints_limit_the_skew() {
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    let spread = |index: usize| {
        pod(
            &format!("p{index}"),
            json!({"spec": {"topologySpreadConstraints": [constraint]}}),
        )
    };
    let mut bed = Bed::new(3);
    let counts = bed.fill((0..6).map(spread));
    assert_eq!(counts["node-2"], 3, "half of them in zone b: {counts:?}");
    bed.node(2, json!({"spec": {"unschedulable": true}}));
    bed.place(spread(6), "node-0");
    bed.check(&spread(7), expect!["0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints. no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."]);
}

#[test]
fn preemption_takes_the_cheapest_victims() {
    let mut bed = Bed::new(2);
    bed.place(asking("important", "4", 100), "node-0");
    bed.place(asking("small", "1", 5), "node-1");
    bed.place(asking("large", "3", 1), "node-1");
    bed.check(
        &asking("p", "2", 50),
        expect![[r#"
        0/2 nodes are available: 2 Insufficient cpu.
        preempt ["large"] on node-1"#]],
    );
    bed.check(
        &asking("p", "4", 50),
        expect![[r#"
        0/2 nodes are available: 2 Insufficient cpu.
        preempt ["small", "large"] on node-1"#]],
    );
    bed.check(&asking("equal", "2", 1), expect!["0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."]);
    let mut never = (*asking("polite", "2", 50)).clone();
    let mut spec = (*never.spec).clone();
    spec.never_preempts = true;
    never.spec = Arc::new(spec);
    bed.check(&never, expect!["0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."]);
    bed.check(&asking("too-large", "9", 50), expect!["0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
}

#[test]
fn a_nominated_pod_keeps_its_place() {
    let mut bed = Bed::new(1);
    bed.cache.nominate(asking("vip", "3", 50), "node-0");
    bed.check(&asking("other", "2", 0), expect!["0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."]);
    bed.check(&asking("more-important", "2", 100), expect!["bind node-0"]);
    bed.check(&asking("vip", "3", 50), expect!["bind node-0"]);
}

#[test]
fn large_clusters_are_searched_in_turns() {
    let mut bed = Bed::new(0);
    for index in 0..1000 {
        bed.node(index, json!({}));
    }
    let (first, start) = plan::plan(&bed.cache, &bed, &pod("p", json!({})), 0);
    assert_eq!(start, 420, "42 % of 1,000 nodes that would do are enough");
    let (second, _) = plan::plan(&bed.cache, &bed, &pod("p", json!({})), start);
    assert_ne!(first, second);
}

#[test]
fn forgets_what_leaves() {
    let mut bed = Bed::new(1);
    let tenant = asking("tenant", "3", 0);
    bed.place(tenant.clone(), "node-0");
    bed.place(tenant.clone(), "node-0");
    assert!(matches!(bed.plan(&asking("p", "2", 0)), Plan::Wait { .. }));
    bed.cache.remove(&tenant.key());
    assert!(matches!(bed.plan(&asking("p", "4", 0)), Plan::Bind { .. }));
    let state = bed.cache.node("node-0").unwrap();
    assert_eq!(
        (
            state.requested.milli_cpu,
            state.scored_milli_cpu,
            state.pods.len()
        ),
        (0, 0, 0)
    );
}

#[test]
fn other_schedulers_pods_and_gated_ones_are_not_ours() {
    assert!(wants_node(&pod("p", json!({}))));
    for more in [
        json!({"spec": {"schedulerName": "other"}}),
        json!({"spec": {"nodeName": "node-9"}}),
        json!({"spec": {"schedulingGates": [{"name": "wait"}]}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    ] {
        assert!(!wants_node(&pod("p", more.clone())), "{more}");
    }
}
