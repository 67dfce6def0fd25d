//! What a pod asks of its node.

use std::collections::BTreeMap;

use api::{Istr, Quantity};

/// Amounts of resources: cpu in thousandths, all else in units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Extended resources and huge pages, sorted by name.
    others: Vec<(Istr, i64)>,
}

/// What a pod counts for when nodes are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// What must be free on a node.
    pub total: Amounts,
    /// The same with an assumed size for containers that ask for nothing, so that they spread too.
    pub scored_milli_cpu: i64,
    pub scored_memory: i64,
}

/// UPSTREAM: what a container without a request is assumed to use when nodes are scored.
const ASSUMED_MILLI_CPU: i64 = 100;
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

pub(super) type WireAmounts = BTreeMap<Istr, Quantity>;

impl Amounts {
    pub(crate) fn from_quantities(quantities: &BTreeMap<Istr, Quantity>) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in quantities {
            match name.as_str() {
                "cpu" => amounts.milli_cpu = quantity.milli_value(),
                "memory" => amounts.memory = quantity.value(),
                "ephemeral-storage" => amounts.ephemeral_storage = quantity.value(),
                // Counted by the pods on the node, not by their requests.
                "pods" => {}
                _ => amounts.others.push((name.clone(), quantity.value())),
            }
        }
        amounts.others.sort();
        amounts
    }

    pub fn other(&self, name: &str) -> i64 {
        match self
            .others
            .binary_search_by(|(held, _)| held.as_str().cmp(name))
        {
            Ok(found) => self.others[found].1,
            Err(_) => 0,
        }
    }

    pub fn others(&self) -> &[(Istr, i64)] {
        &self.others
    }

    pub fn add(&mut self, more: &Amounts) {
        self.combine(more, i64::saturating_add);
    }

    pub fn subtract(&mut self, less: &Amounts) {
        self.combine(less, i64::saturating_sub);
    }

    /// The larger amount of each resource.
    pub fn at_least(&mut self, other: &Amounts) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Amounts, how: fn(i64, i64) -> i64) {
        self.milli_cpu = how(self.milli_cpu, other.milli_cpu);
        self.memory = how(self.memory, other.memory);
        self.ephemeral_storage = how(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.others {
            match self.others.binary_search_by(|(held, _)| held.cmp(name)) {
                Ok(found) => self.others[found].1 = how(self.others[found].1, *amount),
                Err(place) => self.others.insert(place, (name.clone(), how(0, *amount))),
            }
        }
    }
}

/// One container's request, and whether it keeps running beside what comes after it.
pub(super) struct ContainerRequest {
    pub(super) amounts: Amounts,
    pub(super) is_sidecar: bool,
}

impl Requests {
    /// The largest the pod ever is: all containers and sidecars together, or one init container beside the
    /// sidecars that were started before it.
    pub(super) fn new(
        init: &[ContainerRequest],
        containers: &[ContainerRequest],
        overhead: &Amounts,
    ) -> Requests {
        let mut requests = Requests::default();
        let running = containers
            .iter()
            .chain(init.iter().filter(|asks| asks.is_sidecar));
        for asks in running {
            requests.total.add(&asks.amounts);
            let or = |asked: i64, assumed| if asked == 0 { assumed } else { asked };
            requests.scored_milli_cpu += or(asks.amounts.milli_cpu, ASSUMED_MILLI_CPU);
            requests.scored_memory += or(asks.amounts.memory, ASSUMED_MEMORY);
        }
        let mut sidecars = Amounts::default();
        for asks in init {
            if asks.is_sidecar {
                sidecars.add(&asks.amounts);
            } else {
                let mut peak = sidecars.clone();
                peak.add(&asks.amounts);
                requests.total.at_least(&peak);
            }
        }
        requests.scored_milli_cpu = requests.scored_milli_cpu.max(requests.total.milli_cpu);
        requests.scored_memory = requests.scored_memory.max(requests.total.memory);
        requests.total.add(overhead);
        requests.scored_milli_cpu += overhead.milli_cpu;
        requests.scored_memory += overhead.memory;
        requests
    }
}
