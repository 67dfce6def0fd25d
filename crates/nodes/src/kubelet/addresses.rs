//! Pod addresses: one pool per node, cut from the node's pod CIDR.
//!
//! Addresses are handed out in turn, as the usual plugin does, so that one is not used again right after its
//! pod is gone. What is in use is learned from the pods themselves.

use std::collections::{BTreeMap, BTreeSet};

use api::{Cidr, Istr, Key};

#[derive(Default)]
pub(super) struct Addresses {
    pools: BTreeMap<Istr, Pool>,
    held: BTreeMap<Key, (Istr, u128)>,
}

#[derive(Default)]
struct Pool {
    used: BTreeSet<u128>,
    last: u128,
}

impl Addresses {
    /// The pod's address: the one it has, or a free one. Empty when the node has no CIDR or none is left.
    pub(super) fn of(&mut self, pod: &Key, node: &str, cidr: &str) -> String {
        let Some(cidr) = Cidr::parse(cidr) else {
            return String::new();
        };
        let node = Istr::from(node);
        if let Some((held_on, offset)) = self.held.get(pod)
            && *held_on == node
        {
            return cidr.nth(*offset).to_string();
        }
        let pool = self.pools.entry(node.clone()).or_default();
        let Some(offset) = pool.take(&cidr) else {
            return String::new();
        };
        self.held.insert(pod.clone(), (node, offset));
        cidr.nth(offset).to_string()
    }

    /// A pod was seen with this address.
    pub(super) fn learn(&mut self, pod: &Key, node: &str, cidr: &str, address: &str) {
        let offset = Cidr::parse(cidr).and_then(|cidr| cidr.index_of(&address.parse().ok()?));
        let (Some(offset), false) = (offset, self.held.contains_key(pod)) else {
            return;
        };
        let node = Istr::from(node);
        self.pools
            .entry(node.clone())
            .or_default()
            .used
            .insert(offset);
        self.held.insert(pod.clone(), (node, offset));
    }

    pub(super) fn release(&mut self, pod: &Key) {
        if let Some((node, offset)) = self.held.remove(pod)
            && let Some(pool) = self.pools.get_mut(&node)
        {
            pool.used.remove(&offset);
        }
    }
}

impl Pool {
    fn take(&mut self, cidr: &Cidr) -> Option<u128> {
        // The first address names the network, the second is the node's own, the last is for broadcasts.
        let (first, last) = (2, cidr.size().saturating_sub(2));
        let after = self.last.saturating_add(1).max(first);
        let free = (after..=last)
            .chain(first..after.min(last + 1))
            .find(|offset| !self.used.contains(offset))?;
        self.used.insert(free);
        self.last = free;
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    #[test]
    fn gives_each_pod_one_address_and_none_twice() {
        let mut addresses = Addresses::default();
        let cidr = "10.0.1.0/29";
        let mut of = |name: &str| addresses.of(&key(name), "n1", cidr);
        assert_eq!(
            (of("a"), of("b"), of("a")),
            ("10.0.1.2".into(), "10.0.1.3".into(), "10.0.1.2".into())
        );
        let rest = [of("c"), of("d"), of("e"), of("full")];
        assert_eq!(rest, ["10.0.1.4", "10.0.1.5", "10.0.1.6", ""]);
        addresses.release(&key("b"));
        assert_eq!(addresses.of(&key("f"), "n1", cidr), "10.0.1.3");
    }

    #[test]
    fn an_address_is_not_reused_at_once() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.of(&key("a"), "n1", "10.0.1.0/24"), "10.0.1.2");
        addresses.release(&key("a"));
        assert_eq!(addresses.of(&key("b"), "n1", "10.0.1.0/24"), "10.0.1.3");
    }

    #[test]
    fn learns_what_is_in_use() {
        let mut addresses = Addresses::default();
        addresses.learn(&key("old"), "n1", "10.0.1.0/24", "10.0.1.2");
        assert_eq!(addresses.of(&key("new"), "n1", "10.0.1.0/24"), "10.0.1.3");
        assert_eq!(addresses.of(&key("old"), "n1", "10.0.1.0/24"), "10.0.1.2");
    }

    #[test]
    fn a_node_without_a_range_gives_none() {
        assert_eq!(Addresses::default().of(&key("a"), "n", ""), "");
    }
}
