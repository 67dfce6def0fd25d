//! Plans for small clusters that are written down in a few words.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// A cluster in the making.
#[derive(Default)]
struct TestCluster {
    cache: Cache,
    claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
}

impl Volumes for TestCluster {
    fn claim(&self, _: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(name).cloned()
    }
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.get(name).cloned()
    }
    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get(name).cloned()
    }
    fn of_class(&self, name: &str) -> Vec<Arc<PersistentVolume>> {
        let volumes = self.volumes.values();
        let found = volumes.filter(|volume| *volume.spec.storage_class_name == *name);
        found.cloned().collect()
    }
}

impl Objects for TestCluster {
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

impl TestCluster {
    /// Nodes with 4 cpus each; `node-2` is in zone b, the others in zone a.
    fn new(nodes: usize) -> TestCluster {
        let mut cluster = TestCluster::default();
        for index in 0..nodes {
            cluster.node(index, json!({}));
        }
        cluster
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
            Plan::Bind { node, volumes, .. } => {
                let kept = volumes.bindings.iter().map(|binding| {
                    let (volume, claim) = (&binding.volume.metadata, &binding.claim.metadata);
                    format!(", keep {} for {}", volume.name, claim.name)
                });
                let made = volumes.provisions.iter();
                let made = made.map(|claim| format!(", provision {}", claim.name));
                format!("bind {node}{}", kept.chain(made).collect::<String>())
            }
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
    TestCluster::default().check(
        &pod("p", json!({})),
        expect!["no nodes available to schedule pods"],
    );
}

#[test]
fn reasons_are_counted_in_upstreams_words() {
    let mut cluster = TestCluster::new(3);
    cluster.node(
        0,
        json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
    );
    cluster.node(1, json!({"spec": {"unschedulable": true}}));
    cluster.check(&asking("p", "5", 0), expect!["0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
    let tolerant = pod(
        "p",
        json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
    );
    cluster.check(&tolerant, expect!["bind node-0"]);
    let everything = json!({"name": "c", "resources": {"requests": {"cpu": "9", "memory": "9Gi", "example.com/gpu": "1"}}});
    cluster.check(&pod("p", json!({"spec": {"containers": [everything]}})), expect!["0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
}

#[test]
fn full_nodes() {
    let mut cluster = TestCluster::new(1);
    for index in 0..10 {
        cluster.place(pod(&format!("p{index}"), json!({})), "node-0");
    }
    cluster.check(&pod("one-more", json!({})), expect!["0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."]);
}

#[test]
fn node_selector_and_affinity() {
    let cluster = TestCluster::new(3);
    cluster.check(
        &pod("p", json!({"spec": {"nodeSelector": {"zone": "b"}}})),
        expect!["bind node-2"],
    );
    cluster.check(&pod("p", json!({"spec": {"nodeSelector": {"zone": "c"}}})), expect!["0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
    let not_a =
        json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]);
    let required = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": not_a}}});
    cluster.check(
        &pod("p", json!({"spec": {"affinity": required}})),
        expect!["bind node-2"],
    );
    let by_name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]);
    let daemon = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": by_name}}});
    cluster.check(
        &pod("p", json!({"spec": {"affinity": daemon}})),
        expect!["bind node-1"],
    );
    let preferred = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 50, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}},
    ]}});
    cluster.check(
        &pod("p", json!({"spec": {"affinity": preferred}})),
        expect!["bind node-2"],
    );
}

#[test]
fn a_pod_that_names_its_nodes_looks_at_no_others() {
    let mut cluster = TestCluster::new(3);
    cluster.node(0, json!({"spec": {"unschedulable": true}}));
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
    cluster.check(&naming(json!(["node-2"]), "1"), expect!["bind node-2"]);
    cluster.check(&naming(json!(["node-2"]), "100"), expect!["0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
    cluster.check(&naming(json!(["node-9"]), "1"), expect!["0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."]);
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
    let counts = TestCluster::new(3).fill((0..9).map(owned));
    assert_eq!(
        counts,
        counted(&[("node-0", 3), ("node-1", 3), ("node-2", 3)])
    );
}

#[test]
fn the_emptier_node_wins_and_ties_go_by_name() {
    let mut cluster = TestCluster::new(2);
    cluster.check(&asking("p", "1", 0), expect!["bind node-0"]);
    cluster.place(asking("other", "2", 0), "node-0");
    cluster.check(&asking("p", "1", 0), expect!["bind node-1"]);
}

#[test]
fn soft_taints_are_avoided_where_possible() {
    let mut cluster = TestCluster::new(2);
    cluster.node(
        0,
        json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}),
    );
    cluster.check(&pod("p", json!({})), expect!["bind node-1"]);
}

#[test]
fn host_ports_are_taken_once_per_node() {
    let wanting = |name: &str| {
        let container = json!({"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]});
        pod(name, json!({"spec": {"containers": [container]}}))
    };
    let mut cluster = TestCluster::new(2);
    let counts = cluster.fill(["a", "b"].map(wanting));
    assert_eq!(counts, counted(&[("node-0", 1), ("node-1", 1)]));
    cluster.check(&wanting("c"), expect!["0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."]);
}

fn affine(kind: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key});
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

#[test]
fn anti_affinity_keeps_pods_apart_in_both_directions() {
    let mut cluster = TestCluster::new(3);
    let apart = |name: &str| pod(name, affine("podAntiAffinity", "kubernetes.io/hostname"));
    let counts = cluster.fill(["a", "b", "c"].map(apart));
    assert_eq!(
        counts,
        counted(&[("node-0", 1), ("node-1", 1), ("node-2", 1)])
    );
    cluster.check(&apart("d"), expect!["0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."]);
    // One that has no rules of its own is kept away by the rules of the others.
    cluster.check(&pod("plain", json!({})), expect!["0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."]);
    cluster.check(
        &pod("other", json!({"metadata": {"labels": {"app": "db"}}})),
        expect!["bind node-0"],
    );
}

#[test]
fn affinity_follows_its_kind_and_the_first_may_go_anywhere() {
    let near = |name: &str| pod(name, affine("podAffinity", "zone"));
    let mut cluster = TestCluster::new(3);
    cluster.check(&near("first"), expect!["bind node-0"]);
    cluster.place(near("first"), "node-2");
    cluster.check(&near("second"), expect!["bind node-2"]);
    let stranger = json!({"metadata": {"labels": {"app": "db"}}});
    let mut lonely = affine("podAffinity", "zone");
    merge(&mut lonely, stranger);
    TestCluster::new(2).check(&pod("lonely", lonely), expect!["0/2 nodes are available: 2 node(s) didn't match pod affinity rules. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
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
    let mut cluster = TestCluster::new(3);
    let counts = cluster.fill((0..6).map(spread));
    assert_eq!(counts["node-2"], 3, "half of them in zone b: {counts:?}");
    cluster.node(2, json!({"spec": {"unschedulable": true}}));
    cluster.place(spread(6), "node-0");
    cluster.check(&spread(7), expect!["0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints. no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."]);
}

#[test]
fn preemption_takes_the_cheapest_victims() {
    let mut cluster = TestCluster::new(2);
    cluster.place(asking("important", "4", 100), "node-0");
    cluster.place(asking("small", "1", 5), "node-1");
    cluster.place(asking("large", "3", 1), "node-1");
    cluster.check(
        &asking("p", "2", 50),
        expect![[r#"
        0/2 nodes are available: 2 Insufficient cpu.
        preempt ["large"] on node-1"#]],
    );
    cluster.check(
        &asking("p", "4", 50),
        expect![[r#"
        0/2 nodes are available: 2 Insufficient cpu.
        preempt ["small", "large"] on node-1"#]],
    );
    cluster.check(&asking("equal", "2", 1), expect!["0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."]);
    let mut never = (*asking("polite", "2", 50)).clone();
    let mut spec = (*never.spec).clone();
    spec.never_preempts = true;
    never.spec = Arc::new(spec);
    cluster.check(&never, expect!["0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."]);
    cluster.check(&asking("too-large", "9", 50), expect!["0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
}

#[test]
fn a_nominated_pod_keeps_its_place() {
    let mut cluster = TestCluster::new(1);
    cluster.cache.nominate(asking("vip", "3", 50), "node-0");
    cluster.check(&asking("other", "2", 0), expect!["0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."]);
    cluster.check(&asking("more-important", "2", 100), expect!["bind node-0"]);
    cluster.check(&asking("vip", "3", 50), expect!["bind node-0"]);
}

#[test]
fn large_clusters_are_searched_in_turns() {
    let mut cluster = TestCluster::new(0);
    for index in 0..1000 {
        cluster.node(index, json!({}));
    }
    let (first, start) = plan::plan(&cluster.cache, &cluster, &pod("p", json!({})), 0);
    assert_eq!(start, 420, "42 % of 1,000 nodes that would do are enough");
    let (second, _) = plan::plan(&cluster.cache, &cluster, &pod("p", json!({})), start);
    assert_ne!(first, second);
}

#[test]
fn forgets_what_leaves() {
    let mut cluster = TestCluster::new(1);
    let tenant = asking("tenant", "3", 0);
    cluster.place(tenant.clone(), "node-0");
    cluster.place(tenant.clone(), "node-0");
    assert!(matches!(
        cluster.plan(&asking("p", "2", 0)),
        Plan::Wait { .. }
    ));
    cluster.cache.remove(&tenant.key());
    assert!(matches!(
        cluster.plan(&asking("p", "4", 0)),
        Plan::Bind { .. }
    ));
    let state = cluster.cache.node("node-0").unwrap();
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

/// What a local volume is: in one place, and made by hand.
fn local(name: &str, size: &str, node: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    })
}

impl TestCluster {
    fn add_class(&mut self, name: &str, provisioner: &str) {
        let class = json!({
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        self.classes.insert(name.to_owned(), read(class));
    }

    fn add_volume(&mut self, volume: Value) {
        let name = volume["metadata"]["name"].as_str().unwrap().to_owned();
        self.volumes.insert(name, read(volume));
    }

    /// A claim of the class `local`.
    fn add_claim(&mut self, name: &str, size: &str, more: Value) {
        let mut claim = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "spec": {
                "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
            },
            "status": {"phase": "Pending"},
        });
        merge(&mut claim, more);
        self.claims.insert(name.to_owned(), read(claim));
    }
}

fn mounting(claims: &[&str]) -> Arc<Pod> {
    let volume = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    pod("db", json!({"spec": {"volumes": volumes}}))
}

const NO_VOLUMES: &str = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";

fn says_no_volumes(cluster: &TestCluster) -> bool {
    let plan = cluster.plan(&mounting(&["data"]));
    matches!(plan, Plan::Wait { message, .. } if message == NO_VOLUMES)
}

#[test]
fn a_pod_goes_where_a_free_volume_for_its_claim_is() {
    let mut cluster = TestCluster::new(3);
    cluster.add_class("local", "kubernetes.io/no-provisioner");
    cluster.add_claim("data", "5Gi", json!({}));
    assert!(says_no_volumes(&cluster));
    cluster.add_volume(local("elsewhere", "5Gi", "node-9"));
    cluster.add_volume(local("small", "1Gi", "node-0"));
    assert!(says_no_volumes(&cluster));
    cluster.add_volume(local("large", "100Gi", "node-1"));
    cluster.add_volume(local("right", "6Gi", "node-1"));
    cluster.check(
        &mounting(&["data"]),
        expect!["bind node-1, keep right for data"],
    );
    let taken = json!({"spec": {"claimRef": {"namespace": "x", "name": "y", "uid": "z"}}});
    let mut right = local("right", "6Gi", "node-1");
    merge(&mut right, taken);
    cluster.add_volume(right);
    cluster.check(
        &mounting(&["data"]),
        expect!["bind node-1, keep large for data"],
    );
}

/// Upstream: TestFindPodVolumesWithoutProvisioning.
#[test]
fn a_free_volume_has_to_suit_its_claim() {
    for (of_claim, of_volume) in [
        (
            json!({"selector": {"matchLabels": {"disk": "ssd"}}}),
            json!({}),
        ),
        (json!({"volumeMode": "Block"}), json!({})),
        (json!({}), json!({"storageClassName": "other"})),
        (json!({}), json!({"accessModes": ["ReadOnlyMany"]})),
        (json!({}), json!({"volumeAttributesClassName": "gold"})),
    ] {
        let mut cluster = TestCluster::new(3);
        cluster.add_class("local", "kubernetes.io/no-provisioner");
        cluster.add_claim("data", "5Gi", json!({"spec": of_claim}));
        let mut volume = local("v", "5Gi", "node-1");
        merge(&mut volume, json!({"spec": of_volume}));
        cluster.add_volume(volume);
        assert!(says_no_volumes(&cluster), "{of_claim} {of_volume}");
    }
}

#[test]
fn two_claims_of_a_pod_get_two_volumes_of_one_node() {
    let mut cluster = TestCluster::new(3);
    cluster.add_class("local", "kubernetes.io/no-provisioner");
    cluster.add_claim("data", "5Gi", json!({}));
    cluster.add_claim("log", "1Gi", json!({}));
    cluster.add_volume(local("a", "6Gi", "node-0"));
    cluster.add_volume(local("b", "6Gi", "node-1"));
    cluster.add_volume(local("c", "2Gi", "node-1"));
    cluster.check(
        &mounting(&["data", "log"]),
        expect!["bind node-1, keep c for log, keep b for data"],
    );
}

#[test]
fn a_volume_that_is_kept_for_a_claim_decides_where_its_pod_goes() {
    let mut cluster = TestCluster::new(3);
    cluster.add_class("local", "kubernetes.io/no-provisioner");
    cluster.add_claim("data", "5Gi", json!({}));
    cluster.add_volume(local("free", "5Gi", "node-0"));
    let mut kept = local("kept", "50Gi", "node-2");
    let reference = json!({"spec": {"claimRef": {"namespace": "shop", "name": "data"}}});
    merge(&mut kept, reference);
    cluster.add_volume(kept);
    cluster.check(
        &mounting(&["data"]),
        expect!["bind node-2, keep kept for data"],
    );
}

#[test]
fn where_there_is_no_free_volume_a_provisioner_makes_one() {
    let mut cluster = TestCluster::new(3);
    cluster.add_class("local", "example.com/disk");
    cluster.add_claim("data", "5Gi", json!({}));
    cluster.check(&mounting(&["data"]), expect!["bind node-0, provision data"]);
    let selected = json!({"metadata": {"annotations": {volumes::SELECTED_NODE: "node-2"}}});
    cluster.add_claim("data", "5Gi", selected);
    cluster.add_volume(local("free", "5Gi", "node-0"));
    cluster.check(&mounting(&["data"]), expect!["bind node-2, provision data"]);
}
