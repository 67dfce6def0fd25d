//! What a request is answered, and when it goes. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{
    ResourceClaim, ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec, ResourceSlice,
};
use api::{Istr, MicroTime, Time};
use serde_json::{Value, json};

/// UPSTREAM: a request that was answered stays for an hour, one that was not for a day.
const ANSWERED_TTL: Duration = Duration::from_secs(3600);
const PENDING_TTL: Duration = Duration::from_secs(24 * 3600);

/// UPSTREAM: so many pools are told where the request does not say.
const LIMIT_DEFAULT: i32 = 100;

/// UPSTREAM: the API server takes no longer text.
const ERROR_MAX_BYTES: usize = 256;

/// The pools that a request asks for, in their order; all are counted, some told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub pools: Vec<Pool>,
    pub count: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub driver: Istr,
    pub name: Istr,
    /// If all its slices name the same.
    pub node: Option<Istr>,
    pub generation: i64,
    pub slices: i64,
    pub slices_expected: i64,
    pub devices: i64,
    pub allocated: i64,
}

/// Counts slices of the latest generation of each pool, and what claims have of them.
pub fn plan(
    spec: &ResourcePoolStatusRequestSpec,
    slices: &[Arc<ResourceSlice>],
    claims: &[Arc<ResourceClaim>],
) -> Answer {
    let wanted = spec.pool_name.as_ref().filter(|name| !name.is_empty());
    let asked = |slice: &&Arc<ResourceSlice>| {
        slice.spec.driver == spec.driver && wanted.is_none_or(|name| *name == slice.spec.pool.name)
    };
    let mut pools: BTreeMap<&Istr, Vec<&ResourceSlice>> = BTreeMap::new();
    for slice in slices.iter().filter(asked) {
        pools.entry(&slice.spec.pool.name).or_default().push(slice);
    }
    let allocated = |pool: &Istr| {
        let results = claims
            .iter()
            .filter_map(|claim| claim.status.allocation.as_ref());
        let results = results.flat_map(|allocation| allocation.devices.results.iter());
        let of_pool = results.filter(|it| it.driver == spec.driver && it.pool == *pool);
        number(of_pool.count())
    };
    let count = pools.len();
    let limit = spec.limit.unwrap_or(LIMIT_DEFAULT);
    let told = pools.into_iter().take(usize::try_from(limit).unwrap_or(0));
    Answer {
        pools: told
            .map(|(name, slices)| Pool::of(name, &slices, allocated(name)))
            .collect(),
        count,
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Pool {
    fn of(name: &Istr, slices: &[&ResourceSlice], allocated: i64) -> Pool {
        let generation = slices.iter().map(|slice| slice.spec.pool.generation);
        let generation = generation.max().unwrap_or_default();
        let latest: Vec<&&ResourceSlice> = slices
            .iter()
            .filter(|slice| slice.spec.pool.generation == generation)
            .collect();
        let first = latest.first().map(|slice| &slice.spec);
        let node = first.map(|spec| &spec.node_name).cloned();
        let is_one = latest
            .iter()
            .all(|slice| Some(&slice.spec.node_name) == node.as_ref());
        Pool {
            driver: first.map(|spec| spec.driver.clone()).unwrap_or_default(),
            name: name.clone(),
            node: node.filter(|node| is_one && !node.is_empty()),
            generation,
            slices: number(latest.len()),
            slices_expected: first.map_or(0, |spec| spec.pool.resource_slice_count),
            devices: latest
                .iter()
                .map(|slice| number(slice.spec.devices.len()))
                .sum(),
            allocated,
        }
    }

    /// What is wrong with it, if its driver has not published all of it.
    pub fn error(&self) -> Option<String> {
        if self.slices >= self.slices_expected {
            return None;
        }
        let mut error = format!(
            "pool {}/{} is incomplete: observed {}/{} slices at generation {}",
            self.driver, self.name, self.slices, self.slices_expected, self.generation
        );
        error.truncate(error.floor_char_boundary(ERROR_MAX_BYTES));
        Some(error)
    }

    fn status(&self) -> Value {
        let mut status = json!({
            "driver": self.driver, "poolName": self.name, "generation": self.generation,
        });
        if let Some(node) = &self.node {
            status["nodeName"] = json!(node);
        }
        match self.error() {
            Some(error) => status["validationError"] = error.into(),
            None => {
                status["resourceSliceCount"] = self.slices.into();
                status["totalDevices"] = self.devices.into();
                status["allocatedDevices"] = self.allocated.into();
                status["availableDevices"] = (self.devices - self.allocated).max(0).into();
                // UPSTREAM: taints and health do not count yet.
                status["unavailableDevices"] = 0.into();
            }
        }
        status
    }
}

impl Answer {
    /// Why there is no answer yet.
    pub fn incomplete(&self) -> Option<String> {
        self.pools.iter().find_map(Pool::error)
    }

    pub fn message(&self) -> String {
        // UPSTREAM: the noun does not agree with the number.
        format!("Calculated status for {} pools", self.pools.len())
    }

    pub fn status(&self, now: Time) -> Value {
        let pools: Vec<Value> = self.pools.iter().map(Pool::status).collect();
        let mut status = json!({
            "poolCount": self.count,
            "conditions": [{
                "type": "Complete", "status": "True", "lastTransitionTime": now,
                "reason": "CalculationComplete", "message": self.message(),
            }],
        });
        if !pools.is_empty() {
            status["pools"] = pools.into();
        }
        status
    }
}

/// Has the request been there for too long?
pub fn is_expired(request: &ResourcePoolStatusRequest, now: MicroTime) -> bool {
    let created = request.metadata.created_at;
    let (since, ttl) = match &request.status {
        None => (Some(created), PENDING_TTL),
        Some(status) => {
            let mut conditions = status.conditions.iter();
            let done = conditions.find(|it| matches!(&*it.type_, "Complete" | "Failed"));
            match done {
                Some(done) => (done.last_transition_time, ANSWERED_TTL),
                None => (Some(created), ANSWERED_TTL),
            }
        }
    };
    let since = since.filter(|since| since.unix() != 0);
    since.is_some_and(|since| now.since(since.micro()) > ttl)
}
