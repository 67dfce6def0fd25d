//! Pod addresses: one pool per node, cut from the node's pod CIDR.
//!
//! Addresses are handed out in turn, as the usual plugin does, so that one is not used again right after its
//! pod is gone. What is in use is learned from the pods themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::{Istr, Key};

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
            return cidr.address(*offset);
        }
        let pool = self.pools.entry(node.clone()).or_default();
        let Some(offset) = pool.take(&cidr) else {
            return String::new();
        };
        self.held.insert(pod.clone(), (node, offset));
        cidr.address(offset)
    }

    /// A pod was seen with this address.
    pub(super) fn learn(&mut self, pod: &Key, node: &str, cidr: &str, address: &str) {
        let offset = Cidr::parse(cidr).and_then(|cidr| cidr.offset(address));
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

/// A range of addresses.
#[derive(Clone, Debug)]
pub(crate) struct Cidr {
    base: u128,
    /// Bits of the address that are free.
    host_bits: u32,
    is_v4: bool,
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Option<Cidr> {
        let (address, prefix) = text.split_once('/')?;
        let (base, is_v4) = number(address.parse().ok()?);
        let width: u32 = if is_v4 { 32 } else { 128 };
        let prefix: u32 = prefix.parse().ok()?;
        let host_bits = width.checked_sub(prefix)?;
        let mask = 1_u128
            .checked_shl(host_bits)
            .map_or(u128::MAX, |size| size - 1);
        Some(Cidr {
            base: base & !mask,
            host_bits,
            is_v4,
        })
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.is_v4
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.offset(&address.to_string()).is_some()
    }

    /// All addresses but the first, which names the network, and the last.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let offsets = 1..self.size().saturating_sub(1);
        offsets.map(|offset| self.ip(offset))
    }

    pub(crate) fn last(&self) -> String {
        self.address(self.size().saturating_sub(1))
    }

    fn size(&self) -> u128 {
        1_u128.checked_shl(self.host_bits).unwrap_or(u128::MAX)
    }

    pub(crate) fn address(&self, offset: u128) -> String {
        self.ip(offset).to_string()
    }

    fn ip(&self, offset: u128) -> IpAddr {
        let number = self.base.saturating_add(offset);
        match self.is_v4 {
            true => Ipv4Addr::from(number as u32).into(),
            false => Ipv6Addr::from(number).into(),
        }
    }

    fn offset(&self, address: &str) -> Option<u128> {
        let (number, is_v4) = number(address.parse().ok()?);
        let offset = number.checked_sub(self.base)?;
        (is_v4 == self.is_v4 && offset < self.size()).then_some(offset)
    }

    /// The `index`th part of this range that leaves `host_bits` free, if there is one.
    pub(crate) fn part(&self, index: usize, host_bits: u32) -> Option<String> {
        let parts = self.host_bits.checked_sub(host_bits)?;
        let fits = 1_u128
            .checked_shl(parts)
            .is_none_or(|count| (index as u128) < count);
        let width = if self.is_v4 { 32 } else { 128 };
        fits.then(|| {
            format!(
                "{}/{}",
                self.address((index as u128) << host_bits),
                width - host_bits
            )
        })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.is_v4 { 32 } else { 128 };
        write!(f, "{}/{}", self.ip(0), width - self.host_bits)
    }
}

fn number(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), true),
        IpAddr::V6(address) => (u128::from(address), false),
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
    fn ranges() {
        assert_eq!(
            Cidr::parse("10.64.0.0/10").unwrap().part(3, 9).unwrap(),
            "10.64.6.0/23"
        );
        assert!(Cidr::parse("10.64.0.0/24").unwrap().part(1, 8).is_none());
        assert_eq!(
            Cidr::parse("fd00::/64").unwrap().part(1, 8).unwrap(),
            "fd00::100/120"
        );
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "x/8"] {
            assert!(Cidr::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(Addresses::default().of(&key("a"), "n", ""), "");
    }
}
