//! Which devices claims get, on clusters that are written down in a few words.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::Cache;
use super::super::plan::{Objects, Plan, plan};
use super::super::volumes::Volumes;
use super::*;
use crate::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};

#[derive(Default)]
struct Bed {
    cache: Cache,
    claims: BTreeMap<String, Arc<ResourceClaim>>,
    classes: BTreeMap<String, Arc<DeviceClass>>,
    slices: Vec<Arc<ResourceSlice>>,
    selectors: Selectors,
    allocating: BTreeSet<Uid>,
}

impl Devices for Bed {
    fn device_claim(&self, _: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        self.claims.get(name).cloned()
    }
    fn class(&self, name: &str) -> Option<Arc<DeviceClass>> {
        self.classes.get(name).cloned()
    }
    fn slices(&self) -> Vec<Arc<ResourceSlice>> {
        self.slices.clone()
    }
    fn in_use(&self) -> BTreeSet<DeviceId> {
        let claims = self.claims.values();
        claims.flat_map(|claim| claim.holds()).collect()
    }
    fn is_being_allocated(&self, claim: &Uid) -> bool {
        self.allocating.contains(claim)
    }
    fn selectors(&self) -> &Selectors {
        &self.selectors
    }
}

impl Volumes for Bed {
    fn claim(&self, _: &str, _: &str) -> Option<Arc<PersistentVolumeClaim>> {
        None
    }
    fn volume(&self, _: &str) -> Option<Arc<PersistentVolume>> {
        None
    }
    fn class(&self, _: &str) -> Option<Arc<StorageClass>> {
        None
    }
    fn of_class(&self, _: &str) -> Vec<Arc<PersistentVolume>> {
        Vec::new()
    }
}

impl Objects for Bed {
    fn devices(&self) -> Option<&dyn Devices> {
        Some(self)
    }
}

fn read<K: Resource>(json: Value) -> Arc<K> {
    Arc::new(K::decode(json.to_string().as_bytes()).unwrap())
}

/// Nodes `n0`, `n1`, …, each with the devices of its line: `a b:model=x,memory=40Gi,taint=broken`. The class `gpu` means
/// all of them.
fn bed(nodes: &[&str]) -> Bed {
    let mut bed = Bed::default();
    for (number, devices) in nodes.iter().enumerate() {
        let node = format!("n{number}");
        bed.cache.set_node(read(json!({
            "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        })));
        let devices: Vec<Value> = devices.split_whitespace().map(device).collect();
        if !devices.is_empty() {
            bed.slices.push(read(json!({
                "metadata": {"name": format!("{node}-slice")},
                "spec": {
                    "driver": "drv", "nodeName": node, "devices": devices,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                },
            })));
        }
    }
    bed.set_class(
        "gpu",
        json!({"selectors": [{"cel": {"expression": "device.driver == 'drv'"}}]}),
    );
    bed
}

fn device(text: &str) -> Value {
    let (name, facts) = text.split_once(':').unwrap_or((text, ""));
    let mut device = json!({"name": name});
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        match fact.split_once('=').unwrap() {
            ("memory", amount) => device["capacity"]["memory"] = json!({"value": amount}),
            ("taint", key) => device["taints"] = json!([{"key": key, "effect": "NoSchedule"}]),
            ("version", text) => device["attributes"]["version"] = json!({"version": text}),
            (name, text) => device["attributes"][name] = json!({"string": text}),
        }
    }
    device
}

fn exactly(count: usize, more: Value) -> Value {
    let mut choice =
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
    for (field, value) in more.as_object().unwrap() {
        choice[field] = value.clone();
    }
    choice
}

impl Bed {
    fn set_class(&mut self, name: &str, spec: Value) {
        let class = read(json!({"metadata": {"name": name}, "spec": spec}));
        self.classes.insert(name.to_owned(), class);
    }

    fn set_claim(&mut self, name: &str, devices: Value, status: Value) {
        let meta = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}")});
        let claim = read(json!({"metadata": meta, "spec": {"devices": devices}, "status": status}));
        self.claims.insert(name.to_owned(), claim);
    }

    /// The claim `c` with one request `r`.
    fn ask(&mut self, choice: Value) {
        let devices = json!({"requests": [{"name": "r", "exactly": choice}]});
        self.set_claim("c", devices, json!({}));
    }

    /// Somebody else has these devices of `n0`.
    fn take(&mut self, devices: &[&str]) {
        let results: Vec<Value> = devices
            .iter()
            .map(|device| json!({"request": "r", "driver": "drv", "pool": "n0", "device": device}))
            .collect();
        let status = json!({"allocation": {"devices": {"results": results}}});
        self.set_claim("taken", json!({}), status);
    }

    fn plan(&self, claims: &[&str]) -> Plan {
        let entries: Vec<Value> = claims
            .iter()
            .map(|claim| json!({"name": claim, "resourceClaimName": claim}))
            .collect();
        let pod = read::<Pod>(json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "uid-p"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries},
        }));
        plan(&self.cache, self, &pod, 0).0
    }

    fn check(&self, expected: Expect) {
        self.check_claims(&["c"], expected);
    }

    fn check_claims(&self, claims: &[&str], expected: Expect) {
        let told = match self.plan(claims) {
            Plan::Hold => "hold".to_owned(),
            Plan::Wait { message, .. } => message,
            Plan::Bind { node, devices, .. } => {
                let writes = devices.iter().map(|write| {
                    let name = &write.claim.metadata.name;
                    let Some(allocation) = &write.allocation else {
                        return format!("; {name}: reserve");
                    };
                    let results = allocation["devices"]["results"].as_array().unwrap();
                    let results: Vec<String> = results
                        .iter()
                        .map(|one| {
                            format!(
                                "{}={}",
                                one["request"].as_str().unwrap(),
                                one["device"].as_str().unwrap()
                            )
                        })
                        .collect();
                    format!("; {name}: {}", results.join(" "))
                });
                format!("{node}{}", writes.collect::<String>())
            }
        };
        expected.assert_eq(&told);
    }
}

#[test]
fn a_claim_gets_the_first_free_devices_of_a_node_that_has_enough() {
    let mut bed = bed(&["a b", "a b c"]);
    bed.ask(exactly(3, json!({})));
    bed.check(expect!["n1; c: r=a r=b r=c"]);
    bed.ask(exactly(4, json!({})));
    bed.check(expect!["0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
}

#[test]
fn what_others_have_is_not_given_away() {
    let mut bed = bed(&["a b"]);
    bed.take(&["a"]);
    bed.ask(exactly(1, json!({})));
    bed.check(expect!["n0; c: r=b"]);
    bed.ask(exactly(2, json!({})));
    bed.check(expect!["0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."]);
    // Who looks after devices gets them whoever has them.
    bed.ask(exactly(2, json!({"adminAccess": true})));
    bed.check(expect!["n0; c: r=a r=b"]);
}

#[test]
fn selectors_of_class_and_request_both_hold() {
    let mut bed =
        bed(&["a:model=x,memory=40Gi b:model=y,memory=80Gi c:model=y,memory=40Gi,version=1.2.0"]);
    let select = |expression: &str| {
        exactly(
            1,
            json!({"selectors": [{"cel": {"expression": expression}}]}),
        )
    };
    bed.ask(select("device.attributes['drv'].model == 'y'"));
    bed.check(expect!["n0; c: r=b"]);
    bed.ask(select(
        "device.capacity['drv'].memory.compareTo(quantity('80Gi')) >= 0",
    ));
    bed.check(expect!["n0; c: r=b"]);
    // A domain that a device has nothing of is empty, and no error.
    bed.ask(select(
        "!('speed' in device.attributes['other.example.com'])",
    ));
    bed.check(expect!["n0; c: r=a"]);
    bed.ask(select("'version' in device.attributes['drv'] && device.attributes['drv'].version.isGreaterThan(semver('1.1.9'))"));
    bed.check(expect!["n0; c: r=c"]);
    bed.ask(select("device.attributes['drv'].speed > 3"));
    bed.check(expect!["0/1 nodes are available: 1 claim default/c: selector #0: CEL runtime error: no such key: speed. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."]);
    bed.ask(select("device.driver =="));
    bed.check(expect![[r#"
        0/1 nodes are available: 1 claim default/c: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:17: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
         | device.driver ==
         | ................^. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."#]]);
    bed.set_class(
        "gpu",
        json!({"selectors": [{"cel": {"expression": "false"}}]}),
    );
    bed.ask(exactly(1, json!({})));
    bed.check(expect!["0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."]);
}

#[test]
fn all_means_all_that_are_selected_or_none() {
    let mut bed = bed(&["a b:model=y c"]);
    let all = json!({"allocationMode": "All", "count": 0});
    bed.ask(exactly(0, all.clone()));
    bed.check(expect!["n0; c: r=a r=b r=c"]);
    bed.take(&["c"]);
    bed.check(expect!["0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."]);
    let mut some = all;
    some["selectors"] = json!([{"cel": {"expression": "has(device.attributes['drv'].model)"}}]);
    bed.ask(exactly(0, some));
    bed.check(expect!["n0; c: r=b"]);
}

#[test]
fn the_first_choice_that_can_be_had_is_taken() {
    let mut bed = bed(&["a b"]);
    let choice = |name: &str, count| exactly(count, json!({"name": name}));
    let first = json!([choice("many", 3), choice("two", 2), choice("one", 1)]);
    let devices = json!({"requests": [{"name": "r", "firstAvailable": first}]});
    bed.set_claim("c", devices, json!({}));
    bed.check(expect!["n0; c: r/two=a r/two=b"]);
    bed.take(&["a"]);
    bed.check(expect!["n0; c: r/one=b"]);
}

#[test]
fn a_constraint_holds_for_all_devices_that_it_names() {
    let mut bed = bed(&["a:numa=0 b:numa=1 c:numa=1 d"]);
    let requests = json!([{"name": "r", "exactly": exactly(1, json!({}))}, {"name": "s", "exactly": exactly(1, json!({}))}]);
    bed.set_claim(
        "c",
        json!({"requests": requests, "constraints": [{"matchAttribute": "drv/numa"}]}),
        json!({}),
    );
    bed.check(expect!["n0; c: r=b s=c"]);
    bed.set_claim(
        "c",
        json!({"requests": requests, "constraints": [{"requests": ["s"], "matchAttribute": "drv/numa"}]}),
        json!({}),
    );
    bed.check(expect!["n0; c: r=a s=b"]);
    bed.take(&["b"]);
    bed.set_claim(
        "c",
        json!({"requests": requests, "constraints": [{"matchAttribute": "drv/numa"}]}),
        json!({}),
    );
    bed.check(expect!["0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."]);
}

#[test]
fn tainted_devices_are_for_those_who_tolerate_the_taint() {
    let mut bed = bed(&["a:taint=broken b"]);
    bed.ask(exactly(1, json!({})));
    bed.check(expect!["n0; c: r=b"]);
    bed.ask(exactly(2, json!({})));
    bed.check(expect!["0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."]);
    bed.ask(exactly(
        2,
        json!({"tolerations": [{"key": "broken", "operator": "Exists"}]}),
    ));
    bed.check(expect!["n0; c: r=a r=b"]);
}

#[test]
fn several_claims_of_a_pod_share_no_device() {
    let mut bed = bed(&["a b", "a b c"]);
    bed.ask(exactly(2, json!({})));
    let other = json!({"requests": [{"name": "r", "exactly": exactly(1, json!({}))}]});
    bed.set_claim("d", other, json!({}));
    bed.check_claims(&["c", "d"], expect!["n1; c: r=a r=b; d: r=c"]);
}

#[test]
fn a_claim_that_has_devices_is_used_where_they_are() {
    let mut bed = bed(&["", "a"]);
    let selector = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]});
    let results = json!([{"request": "r", "driver": "drv", "pool": "n1", "device": "a"}]);
    let allocation = json!({"devices": {"results": results}, "nodeSelector": selector});
    bed.set_claim("c", json!({}), json!({"allocation": allocation}));
    bed.check(expect!["n1; c: reserve"]);
    let reserved = json!([{"resource": "pods", "name": "p", "uid": "uid-p"}]);
    bed.set_claim(
        "c",
        json!({}),
        json!({"allocation": allocation, "reservedFor": reserved}),
    );
    bed.check(expect!["n1"]);
    let elsewhere = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]});
    let allocation = json!({"devices": {"results": results}, "nodeSelector": elsewhere});
    bed.set_claim("c", json!({}), json!({"allocation": allocation}));
    bed.check(expect!["0/2 nodes are available: 2 resourceclaim not available on the node. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
    let many: Vec<Value> = (0..256)
        .map(|n| json!({"resource": "pods", "name": format!("p{n}"), "uid": format!("u{n}")}))
        .collect();
    bed.set_claim(
        "c",
        json!({}),
        json!({"allocation": allocation, "reservedFor": many}),
    );
    bed.check(expect!["0/2 nodes are available: resourceclaim in use. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
}

#[test]
fn what_keeps_a_pod_from_every_node_is_said_once() {
    let mut bed = bed(&["a", "a"]);
    bed.check(expect!["hold"]);
    bed.ask(exactly(1, json!({"deviceClassName": "none"})));
    bed.check(expect!["0/2 nodes are available: request r: device class none does not exist. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
    bed.ask(exactly(1, json!({})));
    bed.allocating.insert("uid-c".into());
    bed.check(expect!["0/2 nodes are available: resource claim default/c is in the process of being allocated. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."]);
}

#[test]
fn a_pool_that_is_being_updated_gives_nothing() {
    let mut bed = bed(&["a b"]);
    let mut spec = json!({"driver": "drv", "nodeName": "n0", "devices": [device("z")]});
    spec["pool"] = json!({"name": "n0", "generation": 2, "resourceSliceCount": 2});
    bed.slices
        .push(read(json!({"metadata": {"name": "newer"}, "spec": spec})));
    bed.ask(exactly(1, json!({})));
    bed.check(expect!["0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."]);
}

#[test]
fn an_allocation_says_where_it_can_be_used_and_how() {
    let mut bed = bed(&["a"]);
    let opaque = json!({"opaque": {"driver": "drv", "parameters": {"mode": "shared"}}});
    bed.set_class("gpu", json!({"config": [opaque]}));
    let devices = json!({
        "requests": [{"name": "r", "exactly": exactly(1, json!({"tolerations": [{"operator": "Exists"}]}))}],
        "config": [{"requests": ["r"], "opaque": {"driver": "drv", "parameters": {"mode": "alone"}}}],
    });
    bed.set_claim("c", devices, json!({}));
    let Plan::Bind { devices, .. } = bed.plan(&["c"]) else {
        panic!("there is a device");
    };
    let allocation = serde_json::to_string_pretty(&devices[0].allocation).unwrap();
    expect![[r#"
        {
          "devices": {
            "config": [
              {
                "opaque": {
                  "driver": "drv",
                  "parameters": {
                    "mode": "shared"
                  }
                },
                "requests": [
                  "r"
                ],
                "source": "FromClass"
              },
              {
                "opaque": {
                  "driver": "drv",
                  "parameters": {
                    "mode": "alone"
                  }
                },
                "requests": [
                  "r"
                ],
                "source": "FromClaim"
              }
            ],
            "results": [
              {
                "device": "a",
                "driver": "drv",
                "pool": "n0",
                "request": "r",
                "tolerations": [
                  {
                    "operator": "Exists"
                  }
                ]
              }
            ]
          },
          "nodeSelector": {
            "nodeSelectorTerms": [
              {
                "matchFields": [
                  {
                    "key": "metadata.name",
                    "operator": "In",
                    "values": [
                      "n0"
                    ]
                  }
                ]
              }
            ]
          }
        }"#]]
    .assert_eq(&allocation);
    assert_eq!(devices[0].devices[0].to_string(), "drv/n0/a");
}
