//! Devices for all claims of a pod on one node, or none: a search with steps back, in upstream's order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::taints::{TaintEffect, tolerates};

use super::Devices;
use super::pools::{NodeDevice, NodePool, PoolState, of_node};
use crate::devices::{AllocationMode, Attribute, Choice, Constraint, DeviceClass, DeviceId};
use crate::devices::{Request, ResourceClaim, Selector};
use crate::node::Node;

/// UPSTREAM: a claim has at most so many devices.
const RESULTS_MAX: usize = 32;

/// A device that a request gets.
pub(super) struct Picked {
    pub(super) request: usize,
    pub(super) choice: usize,
    pub(super) device: NodeDevice,
}

/// The devices of one claim.
pub(super) struct Picks {
    pub(super) devices: Vec<Picked>,
    /// For each request which of its choices it was.
    pub(super) choices: Vec<usize>,
}

/// Why the search ends.
enum Stop {
    /// Something is wrong with a claim or a class.
    Error(String),
    /// Another choice may ask for fewer devices.
    TooMany,
}

/// One choice of one request, and what is known of it before the search begins.
struct DeviceRequest<'a> {
    choice: &'a Choice,
    class: Arc<DeviceClass>,
    count: usize,
    /// All devices that there are, where all are asked for.
    all: Vec<NodeDevice>,
}

struct Search<'a> {
    claims: &'a [Arc<ResourceClaim>],
    pools: Vec<NodePool>,
    devices: &'a dyn Devices,
    in_use: &'a BTreeSet<DeviceId>,
    /// By claim, request and choice.
    device_requests: Vec<Vec<Vec<DeviceRequest<'a>>>>,
    /// Which claims of this search have taken a device.
    taken: BTreeMap<DeviceId, BTreeSet<usize>>,
    picks: Vec<Picks>,
}

/// Where the search stands: the next device of a choice.
#[derive(Clone, Copy)]
struct At {
    claim: usize,
    request: usize,
    choice: usize,
    device: usize,
}

/// None where the node has not all that is asked for. The error is worded as upstream's.
pub(super) fn allocate(
    devices: &dyn Devices,
    in_use: &BTreeSet<DeviceId>,
    claims: &[Arc<ResourceClaim>],
    node: &Node,
) -> Result<Option<Vec<Picks>>, String> {
    let mut search = Search {
        pools: of_node(&devices.slices(), node),
        claims,
        devices,
        in_use,
        device_requests: Vec::new(),
        taken: BTreeMap::new(),
        picks: Vec::new(),
    };
    for claim in claims {
        let device_requests = search.device_requests(claim)?;
        search.device_requests.push(device_requests);
        search.picks.push(Picks {
            devices: Vec::new(),
            choices: vec![0; claim.spec.devices.requests.len()],
        });
    }
    match search.request(0, 0) {
        Ok(true) => Ok(Some(search.picks)),
        Ok(false) | Err(Stop::TooMany) => {
            let invalid = |pool: &NodePool| pool.state == PoolState::Invalid;
            match search.pools.iter().any(invalid) {
                true => Err("invalid resource pools were encountered".to_owned()),
                false => Ok(None),
            }
        }
        Err(Stop::Error(error)) => Err(error),
    }
}

impl<'a> Search<'a> {
    fn device_requests(
        &self,
        claim: &'a ResourceClaim,
    ) -> Result<Vec<Vec<DeviceRequest<'a>>>, String> {
        let requests = claim.spec.devices.requests.iter();
        let device_requests: Result<Vec<Vec<DeviceRequest<'a>>>, String> = requests
            .map(|request| {
                let choices = request.choices().iter();
                choices
                    .map(|choice| self.device_request(claim, request, choice))
                    .collect()
            })
            .collect();
        let device_requests = device_requests?;
        let least: usize = device_requests
            .iter()
            .map(|choices| {
                choices
                    .iter()
                    .map(|device_request| device_request.count)
                    .min()
                    .unwrap_or(0)
            })
            .sum();
        if least > RESULTS_MAX {
            return Err(format!(
                "claim {}: number of requested devices {least} exceeds the claim limit of {RESULTS_MAX}",
                claim.metadata.key()
            ));
        }
        Ok(device_requests)
    }

    fn device_request(
        &self,
        claim: &ResourceClaim,
        request: &Request,
        choice: &'a Choice,
    ) -> Result<DeviceRequest<'a>, String> {
        let (key, class) = (claim.metadata.key(), &choice.device_class_name);
        let name = match choice.name.is_empty() {
            true => &request.name,
            false => &choice.name,
        };
        let Some(class) = self.devices.class(class) else {
            return Err(format!(
                "claim {key}, request {name}: could not retrieve device class {class}"
            ));
        };
        let mut device_request = DeviceRequest {
            choice,
            class,
            count: choice.count,
            all: Vec::new(),
        };
        match choice.allocation_mode {
            AllocationMode::ExactCount => {}
            AllocationMode::Unknown => {
                return Err(format!(
                    "claim {key}, request {name}: unsupported count mode"
                ));
            }
            AllocationMode::All => {
                for pool in &self.pools {
                    let problem = match pool.state {
                        PoolState::Usable => None,
                        PoolState::Incomplete => Some("being updated"),
                        PoolState::Invalid => Some("invalid"),
                    };
                    if let Some(problem) = problem {
                        return Err(format!(
                            "claim {key}, request {name}: asks for all devices, but resource pool {}/{} is currently {problem}",
                            pool.driver, pool.name
                        ));
                    }
                    for device in &pool.devices {
                        if self.selects(claim, &device_request, device)? {
                            device_request.all.push(device.clone());
                        }
                    }
                }
                device_request.count = device_request.all.len();
            }
        }
        Ok(device_request)
    }

    /// Do the class and the request mean this device?
    fn selects(
        &self,
        claim: &ResourceClaim,
        device_request: &DeviceRequest<'_>,
        device: &NodeDevice,
    ) -> Result<bool, String> {
        let shape = device.device();
        if !shape.binding_conditions.is_empty() || !shape.consumes_counters.is_empty() {
            // Nobody here would make it ready, or divide it.
            return Ok(false);
        }
        let all_match = |selectors: &[Selector], whose: &dyn Fn() -> String| {
            for (number, selector) in selectors.iter().enumerate() {
                let expression = &selector.cel.expression;
                let holds = self.devices.selectors();
                let holds = holds.matches(expression, &device.id.driver, shape);
                match holds {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) => return Err(format!("{}: selector #{number}: {error}", whose())),
                }
            }
            Ok(true)
        };
        let class = &device_request.class;
        Ok(all_match(&class.spec.selectors, &|| {
            format!("class {}", class.metadata.name)
        })? && all_match(&device_request.choice.selectors, &|| {
            format!("claim {}", claim.metadata.key())
        })?)
    }

    /// The requests from this one on.
    fn request(&mut self, claim: usize, request: usize) -> Result<bool, Stop> {
        let Some(device_requests) = self.device_requests.get(claim) else {
            return Ok(true);
        };
        let Some(choices) = device_requests.get(request) else {
            return match self.request(claim + 1, 0) {
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        };
        let count = choices.len();
        let mut exceeded = true;
        for choice in 0..count {
            self.picks[claim].choices[request] = choice;
            let at = At {
                claim,
                request,
                choice,
                device: 0,
            };
            match self.next(at) {
                Err(Stop::TooMany) => {}
                Ok(false) => exceeded = false,
                done => return done,
            }
        }
        match exceeded && count > 0 {
            true => Err(Stop::TooMany),
            false => Ok(false),
        }
    }

    /// The devices of a choice from this one on, and all that comes after it.
    fn next(&mut self, at: At) -> Result<bool, Stop> {
        let device_request = &self.device_requests[at.claim][at.request][at.choice];
        let wants_all = device_request.choice.allocation_mode == AllocationMode::All;
        if wants_all && device_request.all.is_empty() {
            return Ok(false);
        }
        if at.device >= device_request.count {
            return self.request(at.claim, at.request + 1);
        }
        let after = self.picks[at.claim].devices.len() + device_request.count - at.device;
        if after > RESULTS_MAX {
            return Err(Stop::TooMany);
        }
        if wants_all {
            let device = device_request.all[at.device].clone();
            return self.try_device(at, device, true);
        }
        for pool in 0..self.pools.len() {
            if self.pools[pool].state != PoolState::Usable {
                continue;
            }
            for index in 0..self.pools[pool].devices.len() {
                let device = self.pools[pool].devices[index].clone();
                let (claim, device_request) = self.at(at);
                if !self.is_free(at, &device)
                    || !self
                        .selects(claim, device_request, &device)
                        .map_err(Stop::Error)?
                {
                    continue;
                }
                if self.try_device(at, device, false)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn at(&self, at: At) -> (&'a ResourceClaim, &DeviceRequest<'a>) {
        let device_request = &self.device_requests[at.claim][at.request][at.choice];
        (&self.claims[at.claim], device_request)
    }

    /// Admins take what others have, and nothing twice.
    fn is_free(&self, at: At, device: &NodeDevice) -> bool {
        let taken = self.taken.get(&device.id);
        match self.at(at).1.choice.admin_access {
            true => taken.is_none_or(|claims| !claims.contains(&at.claim)),
            false => !self.in_use.contains(&device.id) && taken.is_none_or(BTreeSet::is_empty),
        }
    }

    /// Takes the device and goes on; gives it back where that leads nowhere.
    fn try_device(&mut self, at: At, device: NodeDevice, must: bool) -> Result<bool, Stop> {
        let (claim, device_request) = self.at(at);
        if !self.is_free(at, &device) || is_repelled(device_request.choice, &device) {
            return Ok(false);
        }
        if !self.keeps_constraints(at, &device) {
            if !must {
                return Ok(false);
            }
            let request = &claim.spec.devices.requests[at.request].name;
            return Err(Stop::Error(format!(
                "claim {}, request {request}: cannot add device {} because a claim constraint would not be satisfied",
                claim.metadata.key(),
                device.id
            )));
        }
        let id = device.id.clone();
        self.taken.entry(id.clone()).or_default().insert(at.claim);
        self.picks[at.claim].devices.push(Picked {
            request: at.request,
            choice: at.choice,
            device,
        });
        let next = At {
            device: at.device + 1,
            ..at
        };
        let done = self.next(next);
        if !matches!(done, Ok(true)) {
            self.picks[at.claim].devices.pop();
            if let Some(claims) = self.taken.get_mut(&id) {
                claims.remove(&at.claim);
            }
        }
        done
    }

    /// Has the device the values that those have which were picked before?
    fn keeps_constraints(&self, at: At, device: &NodeDevice) -> bool {
        let (claim, _) = self.at(at);
        claim.spec.devices.constraints.iter().all(|constraint| {
            let Some(name) = &constraint.match_attribute else {
                // Newer than we are: nobody knows whether it holds.
                return false;
            };
            if !concerns(constraint, claim, at.request, at.choice) {
                return true;
            }
            let Some(value) = attribute(device, name) else {
                return false;
            };
            let mut picked = self.picks[at.claim].devices.iter();
            let first = picked.find(|held| concerns(constraint, claim, held.request, held.choice));
            first.is_none_or(|held| attribute(&held.device, name) == Some(value))
        })
    }
}

fn concerns(constraint: &Constraint, claim: &ResourceClaim, request: usize, choice: usize) -> bool {
    let request = &claim.spec.devices.requests[request];
    let full = request_name(request, choice);
    constraint.requests.is_empty()
        || constraint.requests.contains(&request.name)
        || constraint.requests.iter().any(|named| **named == *full)
}

/// `request`, or `request/choice` where there is something to choose.
pub(super) fn request_name(request: &Request, choice: usize) -> String {
    match &request.exactly {
        Some(_) => request.name.to_string(),
        None => format!("{}/{}", request.name, request.first_available[choice].name),
    }
}

/// By its full name, or without the domain where that is the driver's.
fn attribute<'a>(device: &'a NodeDevice, name: &str) -> Option<&'a Attribute> {
    let attributes = &device.device().attributes;
    attributes.get(name).or_else(|| {
        let (domain, id) = name.split_once('/')?;
        attributes.get(id).filter(|_| *domain == *device.id.driver)
    })
}

fn is_repelled(choice: &Choice, device: &NodeDevice) -> bool {
    let repels =
        |effect: &TaintEffect| matches!(effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
    device.device().taints.iter().any(|taint| {
        let mut tolerations = choice.tolerations.iter();
        repels(&taint.effect) && !tolerations.any(|held| tolerates(held, taint, false))
    })
}
