//! Nodes of a zone that wait for the taint that drives their pods away, and how fast they get it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::MicroTime;
use api::kinds::Node;

/// The nodes of one zone that wait, first come first served.
#[derive(Debug)]
pub struct Waiting {
    nodes: VecDeque<Arc<Node>>,
    /// Every node that waits or was taken: it does not come a second time until it is forgotten.
    known: BTreeSet<Arc<str>>,
    limiter: Limiter,
}

/// Which node the eviction rate limit allows to be tainted.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowed {
    Node(Arc<Node>),
    /// None before this much time has passed.
    After(Duration),
    /// None until something changes.
    Nobody,
}

impl Waiting {
    pub fn new(rate: f32, now: MicroTime) -> Waiting {
        Waiting {
            nodes: VecDeque::new(),
            known: BTreeSet::new(),
            limiter: Limiter::new(rate, now),
        }
    }

    /// True if the node waits from now on and did not before.
    pub fn add(&mut self, node: Arc<Node>) -> bool {
        let name = &node.metadata.name;
        if let Some(held) = self
            .nodes
            .iter_mut()
            .find(|held| held.metadata.name == *name)
        {
            // What is known of it is as fresh as can be when it is taken.
            *held = node;
            return false;
        }
        let is_new = self.known.insert(name.clone());
        if is_new {
            self.nodes.push_back(node);
        }
        is_new
    }

    /// A node that was taken may wait again. One that still waits keeps its place.
    pub fn readmit(&mut self, name: &str) {
        if !self.waits(name) {
            self.known.remove(name);
        }
    }

    /// The node does not wait any more, and may come again. True if it was known.
    pub fn forget(&mut self, name: &str) -> bool {
        self.nodes.retain(|held| *held.metadata.name != *name);
        self.known.remove(name)
    }

    pub fn waits(&self, name: &str) -> bool {
        self.nodes.iter().any(|held| *held.metadata.name == *name)
    }

    /// Takes the next node off the queue, if the rate limit allows. A token is spent, whatever comes of it.
    pub fn next(&mut self, now: MicroTime) -> Allowed {
        if self.nodes.is_empty() {
            return Allowed::Nobody;
        }
        match self.limiter.take(now) {
            Ok(()) => self
                .nodes
                .pop_front()
                .map_or(Allowed::Nobody, Allowed::Node),
            Err(Some(wait)) => Allowed::After(wait),
            Err(None) => Allowed::Nobody,
        }
    }

    /// The taint could not be written: the node waits again, behind the others, unless it was forgotten meanwhile.
    pub fn put_back(&mut self, node: Arc<Node>) {
        let name = &node.metadata.name;
        if self.known.contains(name) && !self.waits(name) {
            self.nodes.push_back(node);
        }
    }

    /// Changes how many nodes a second are taken. A token that was spent stays spent.
    pub fn set_rate(&mut self, rate: f32, now: MicroTime) {
        self.limiter.set_rate(rate, now);
    }

    pub fn rate(&self) -> f32 {
        self.limiter.rate
    }
}

/// A token bucket that holds one token.
#[derive(Debug)]
struct Limiter {
    rate: f32,
    /// At most 1.
    tokens: f64,
    filled_at: MicroTime,
}

impl Limiter {
    fn new(rate: f32, now: MicroTime) -> Limiter {
        Limiter {
            rate,
            tokens: 1.0,
            filled_at: now,
        }
    }

    /// A token, or how long until there is one; with no rate there never is.
    fn take(&mut self, now: MicroTime) -> Result<(), Option<Duration>> {
        let passed = now.since(self.filled_at);
        self.tokens = (self.tokens + passed.as_secs_f64() * f64::from(self.rate)).min(1.0);
        self.filled_at = now;
        // A microsecond is the least that time can pass; what is lacking by less is rounding.
        let lacking = 1.0 - self.tokens;
        if lacking <= f64::from(self.rate) * 1e-6 {
            self.tokens = 0.0;
            return Ok(());
        }
        if self.rate <= 0.0 {
            return Err(None);
        }
        let wait = Duration::try_from_secs_f64(lacking / f64::from(self.rate)).ok();
        // Rounded up: a enqueue-up that comes too early finds nothing.
        Err(wait.map(|wait| wait + Duration::from_micros(1)))
    }

    fn set_rate(&mut self, rate: f32, now: MicroTime) {
        #[expect(clippy::float_cmp, reason = "both come from the same flags")]
        if self.rate == rate {
            return;
        }
        let is_spent = self.take(now).is_err();
        *self = Limiter::new(rate.max(0.0), now);
        // UPSTREAM: a limiter that allows nothing holds no token either.
        if is_spent || rate <= 0.0 {
            self.tokens = 0.0;
        }
    }
}
