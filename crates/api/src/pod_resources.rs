//! How much a pod asks for: the sums that defaulting, limit ranges, quota and the QoS class need.
//! Mirrors `k8s.io/component-helpers/resource`.

use serde::Deserialize;

use crate::amounts::{self, Amounts, add, raise};
use crate::intern::Istr;
use crate::meta::or_default;
use crate::protobuf::{Malformed, Message, Value};
use crate::quantity::Quantity;

/// What a pod says of its containers and of itself, and what its kubelet has given it.
#[derive(Clone, Debug, Default)]
pub struct PodResources {
    pub containers: Vec<ContainerResources>,
    pub init_containers: Vec<ContainerResources>,
    pub overhead: Amounts,
    /// What the pod asks for as a whole.
    pub whole: Option<Resources>,
    /// Its kubelet will never grant the resize that was asked for.
    pub resize_infeasible: bool,
}

#[derive(Clone, Debug, Default)]
pub struct ContainerResources {
    pub name: Istr,
    /// An init container that keeps running.
    pub is_sidecar: bool,
    pub wanted: Resources,
    /// What the kubelet says that the container has.
    pub actual: Option<Resources>,
    pub allocated: Amounts,
}

/// `resources` of a container, or of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    #[serde(deserialize_with = "amounts::lenient")]
    pub requests: Amounts,
    #[serde(deserialize_with = "amounts::lenient")]
    pub limits: Amounts,
}

impl PodResources {
    /// What the pod as a whole requests: its containers, or what the pod itself says, plus overhead.
    pub fn requests(&self) -> Amounts {
        let mut total = self.container_requests();
        total.extend(self.pod_level(|whole| &whole.requests));
        add(&mut total, &self.overhead);
        total
    }

    /// The same, whatever has been granted of it; none of a pod that leaves it to its containers.
    pub fn pod_level_requests(self) -> Option<Amounts> {
        let mut named = self.whole.iter().flat_map(|whole| whole.requests.keys());
        let is_set = named.any(|name| is_pod_level(name));
        is_set.then(|| self.without_status().requests())
    }

    /// What the pod as a whole is limited to.
    pub fn limits(&self) -> Amounts {
        let mut limits = self.container_limits();
        limits.extend(self.pod_level(|whole| &whole.limits));
        // UPSTREAM: overhead counts only towards resources that have a limit at all.
        for (name, amount) in &self.overhead {
            if let Some(limit) = limits.get_mut(name).filter(|limit| !limit.is_zero()) {
                *limit += amount;
            }
        }
        limits
    }

    /// The requests of all containers, with init containers counted for the moment when most are running.
    pub fn container_requests(&self) -> Amounts {
        self.aggregate(|container| {
            let actual = container.actual.as_ref();
            self.effective(&container.wanted.requests, actual.map(|it| &it.requests))
                .map(|mut total| {
                    raise(&mut total, &container.allocated);
                    total
                })
                .unwrap_or_else(|| container.wanted.requests.clone())
        })
    }

    pub fn container_limits(&self) -> Amounts {
        self.aggregate(|container| {
            let actual = container.actual.as_ref();
            self.effective(&container.wanted.limits, actual.map(|it| &it.limits))
                .unwrap_or_else(|| container.wanted.limits.clone())
        })
    }

    /// Does the pod ask for something as a whole? Then its containers need not.
    pub fn has_pod_level(&self) -> bool {
        let whole = self.whole.iter();
        let mut names = whole.flat_map(|whole| whole.requests.keys().chain(whole.limits.keys()));
        names.any(|name| is_pod_level(name))
    }

    /// `Guaranteed`, `Burstable` or `BestEffort`, from what the pod asks for.
    pub fn qos_class(&self) -> &'static str {
        if let Some(whole) = &self.whole {
            let (requests, limits) = (compute(&whole.requests), compute(&whole.limits));
            return class_of(&requests, &limits, limits.iter().all(Option::is_some));
        }
        let (mut requests, mut limits, mut all_limited) = ([None, None], [None, None], true);
        for container in self.containers.iter().chain(&self.init_containers) {
            let own = compute(&container.wanted.limits);
            all_limited &= own.iter().all(Option::is_some);
            let wanted = compute(&container.wanted.requests);
            for (total, more) in [(&mut limits, own), (&mut requests, wanted)] {
                for (total, more) in total.iter_mut().zip(more) {
                    match (total.as_mut(), more) {
                        (Some(total), Some(more)) => *total += &more,
                        (None, more) => *total = more,
                        (Some(_), None) => {}
                    }
                }
            }
        }
        class_of(&requests, &limits, all_limited)
    }

    /// What is asked for, whatever has been granted of it.
    #[must_use]
    pub fn without_status(mut self) -> PodResources {
        for container in self.containers.iter_mut().chain(&mut self.init_containers) {
            container.actual = None;
        }
        self
    }

    /// While a resize is under way the larger counts, unless it can never come.
    fn effective(&self, wanted: &Amounts, actual: Option<&Amounts>) -> Option<Amounts> {
        let mut total = actual?.clone();
        if !self.resize_infeasible {
            raise(&mut total, wanted);
        }
        Some(total)
    }

    fn pod_level(&self, of: impl Fn(&Resources) -> &Amounts) -> Amounts {
        let whole = self.whole.iter();
        let amounts = whole.flat_map(|whole| of(whole).clone());
        amounts.filter(|(name, _)| is_pod_level(name)).collect()
    }

    fn aggregate(&self, of: impl Fn(&ContainerResources) -> Amounts) -> Amounts {
        let mut total = Amounts::new();
        for container in &self.containers {
            add(&mut total, &of(container));
        }
        // Sidecars keep running; each other init container runs beside the sidecars started before it.
        let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
        for container in &self.init_containers {
            let own = match container.is_sidecar {
                true => of(container),
                false => of(&ContainerResources {
                    actual: None,
                    ..container.clone()
                }),
            };
            let mut running = sidecars.clone();
            add(&mut running, &own);
            if container.is_sidecar {
                add(&mut total, &own);
                sidecars = running.clone();
            }
            raise(&mut peak, &running);
        }
        raise(&mut total, &peak);
        total
    }
}

/// The resources that a pod may ask for as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// CPU and memory, the resources that the class depends on, where they are more than nothing.
type Compute = [Option<Quantity>; 2];

fn compute(amounts: &Amounts) -> Compute {
    ["cpu", "memory"].map(|name| {
        let amount = amounts.get(name);
        amount.filter(|amount| amount.sign() > 0).cloned()
    })
}

fn class_of(requests: &Compute, limits: &Compute, all_limited: bool) -> &'static str {
    if requests.iter().chain(limits).all(Option::is_none) {
        return "BestEffort";
    }
    if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Reads the whole pod, whatever else is in it.
impl<'de> Deserialize<'de> for PodResources {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<PodResources, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let statuses = wire.status.container_statuses.into_iter();
        let statuses = statuses.chain(wire.status.init_container_statuses);
        let mut resources = PodResources {
            containers: wire.spec.containers.into_iter().map(of_wire).collect(),
            init_containers: wire.spec.init_containers.into_iter().map(of_wire).collect(),
            overhead: wire.spec.overhead,
            whole: wire.spec.resources,
            resize_infeasible: is_infeasible(wire.status.conditions.iter().map(|condition| {
                let WireCondition { type_, reason } = condition;
                (&**type_, &**reason)
            })),
        };
        resources.report(statuses.map(|status| (status.name, status.resources, status.allocated)));
        Ok(resources)
    }
}

impl PodResources {
    /// Takes in what the kubelet says of each container.
    pub(crate) fn report(
        &mut self,
        statuses: impl Iterator<Item = (Istr, Option<Resources>, Amounts)>,
    ) {
        for (name, actual, allocated) in statuses.filter(|(_, actual, _)| actual.is_some()) {
            let mut all = self.containers.iter_mut().chain(&mut self.init_containers);
            if let Some(container) = all.find(|container| container.name == name) {
                (container.actual, container.allocated) = (actual, allocated);
            }
        }
    }
}

/// Does the condition about a pending resize say that it will never be granted?
pub(crate) fn is_infeasible<'a>(mut conditions: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let pending = conditions.find(|(type_, _)| *type_ == "PodResizePending");
    pending.is_some_and(|(_, reason)| reason == "Infeasible")
}

fn of_wire(wire: WireContainer) -> ContainerResources {
    ContainerResources {
        name: wire.name,
        is_sidecar: wire.restart_policy == "Always",
        wanted: wire.resources,
        ..ContainerResources::default()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    #[serde(deserialize_with = "or_default")]
    spec: WireSpec,
    #[serde(deserialize_with = "or_default")]
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    #[serde(deserialize_with = "or_default")]
    containers: Vec<WireContainer>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<WireContainer>,
    #[serde(deserialize_with = "amounts::lenient")]
    overhead: Amounts,
    resources: Option<Resources>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireContainer {
    name: Istr,
    restart_policy: Istr,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<WireCondition>,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<WireContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<WireContainerStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireCondition {
    #[serde(rename = "type")]
    type_: Istr,
    reason: Istr,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireContainerStatus {
    name: Istr,
    resources: Option<Resources>,
    #[serde(rename = "allocatedResources", deserialize_with = "amounts::lenient")]
    allocated: Amounts,
}

impl<'a> Message<'a> for Resources {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        let amounts = match field {
            1 => &mut self.limits,
            2 => &mut self.requests,
            _ => return Ok(()),
        };
        value.message::<amounts::Entry<'_>>()?.put_into(amounts);
        Ok(())
    }
}
