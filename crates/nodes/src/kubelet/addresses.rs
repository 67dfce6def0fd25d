//! Pod addresses: one pool for each node and family, cut from the node's pod CIDRs.
//!
//! A pod gets an address of each range of its node. They are handed out in turn, as the usual plugin does, so that one is
//! not used again right after its pod is gone. What is in use is learned from the pods themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::kinds::PodIps;
use api::{Cidr, Istr, Key};

#[derive(Default)]
pub(super) struct Addresses {
    /// By node, and whether they are of IPv4.
    pools: BTreeMap<(Istr, bool), Pool>,
    held: BTreeMap<Key, (Istr, PodIps)>,
}

#[derive(Default)]
struct Pool {
    used: BTreeSet<IpAddr>,
    last: u128,
}

impl Addresses {
    /// The pod's addresses: those it has, or free ones. None when the node has no range, or nothing is left of one.
    pub(super) fn of(&mut self, pod: &Key, node: &Istr, ranges: &[Istr]) -> PodIps {
        let ranges: Vec<Cidr> = ranges
            .iter()
            .filter_map(|range| Cidr::parse(range))
            .collect();
        if let Some((held_on, ips)) = self.held.get(pod)
            && held_on == node
            && ips
                .iter()
                .map(|ip| ranges.iter().position(|range| range.contains(&ip)))
                .eq((0..ranges.len()).map(Some))
        {
            return ips.clone();
        }
        self.release(pod);
        let mut taken = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let pool = self.pools.entry((node.clone(), range.is_ipv4()));
            taken.extend(pool.or_default().take(range));
        }
        let is_complete = taken.len() == ranges.len();
        self.learn(pod, node, &taken.into_iter().collect());
        if !is_complete {
            self.release(pod);
            return PodIps::None;
        }
        self.held
            .get(pod)
            .map_or(PodIps::None, |(_, ips)| ips.clone())
    }

    /// A pod was seen with these addresses.
    pub(super) fn learn(&mut self, pod: &Key, node: &Istr, ips: &PodIps) {
        if ips.is_empty() || self.held.contains_key(pod) {
            return;
        }
        for ip in ips.iter() {
            let pool = self.pools.entry((node.clone(), ip.is_ipv4()));
            pool.or_default().used.insert(ip);
        }
        self.held.insert(pod.clone(), (node.clone(), ips.clone()));
    }

    pub(super) fn release(&mut self, pod: &Key) {
        let Some((node, ips)) = self.held.remove(pod) else {
            return;
        };
        for ip in ips.iter() {
            if let Some(pool) = self.pools.get_mut(&(node.clone(), ip.is_ipv4())) {
                pool.used.remove(&ip);
            }
        }
    }
}

impl Pool {
    fn take(&mut self, range: &Cidr) -> Option<IpAddr> {
        // The first address names the network, the second is the node's own, the last is for broadcasts.
        let (first, last) = (2, range.size().saturating_sub(2));
        let after = self.last.saturating_add(1).max(first);
        let (offset, free) = (after..=last)
            .chain(first..after.min(last + 1))
            .map(|offset| (offset, range.nth(offset)))
            .find(|(_, ip)| !self.used.contains(ip))?;
        self.used.insert(free);
        self.last = offset;
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: &str = "10.0.1.0/24";

    /// `take a b`, `free a`, `seen c 10.0.1.2` of pods on one node: the addresses that are taken.
    #[track_caller]
    fn check(ranges: &[&str], course: &str, expected: &[&str]) {
        let ranges: Vec<Istr> = ranges.iter().map(|range| Istr::from(*range)).collect();
        let node = Istr::from("n1");
        let key = |name: &str| Key::new("ns", name);
        let mut addresses = Addresses::default();
        let mut taken = Vec::new();
        for step in course.split(", ") {
            let words: Vec<&str> = step.split(' ').collect();
            match words.as_slice() {
                ["take", pods @ ..] => taken.extend(pods.iter().map(|pod| {
                    let ips = addresses.of(&key(pod), &node, &ranges);
                    let ips: Vec<String> = ips.iter().map(|ip| ip.to_string()).collect();
                    ips.join("+")
                })),
                ["free", pod] => addresses.release(&key(pod)),
                ["seen", pod, ips @ ..] => {
                    let ips = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
                    addresses.learn(&key(pod), &node, &ips);
                }
                other => panic!("no step: {other:?}"),
            }
        }
        assert_eq!(taken, expected);
    }

    #[test]
    fn gives_each_pod_one_address_and_none_twice() {
        check(
            &["10.0.1.0/29"],
            "take a b a, take c d e full, free b, take f",
            &[
                "10.0.1.2", "10.0.1.3", "10.0.1.2", "10.0.1.4", "10.0.1.5", "10.0.1.6", "",
                "10.0.1.3",
            ],
        );
    }

    #[test]
    fn an_address_is_not_reused_at_once() {
        check(
            &[RANGE],
            "take a, free a, take b",
            &["10.0.1.2", "10.0.1.3"],
        );
    }

    #[test]
    fn learns_what_is_in_use() {
        check(
            &[RANGE],
            "seen old 10.0.1.2, take new old",
            &["10.0.1.3", "10.0.1.2"],
        );
    }

    #[test]
    fn a_node_without_a_range_gives_none() {
        check(&[], "take a", &[""]);
    }

    #[test]
    fn a_pod_has_an_address_of_each_range_or_none() {
        check(
            &[RANGE, "fd00:1::/64"],
            "seen old 10.0.1.2 fd00:1::2, take a b a, free a, take c",
            &[
                "10.0.1.3+fd00:1::3",
                "10.0.1.4+fd00:1::4",
                "10.0.1.3+fd00:1::3",
                "10.0.1.5+fd00:1::5",
            ],
        );
        check(
            &[RANGE, "fd00:1::/126"],
            "take a full, free a, take b",
            &["10.0.1.2+fd00:1::2", "", "10.0.1.4+fd00:1::2"],
        );
    }

    #[test]
    fn an_address_of_a_range_that_the_node_has_no_longer_is_not_kept() {
        let (mut addresses, pod, node) =
            (Addresses::default(), Key::new("ns", "a"), Istr::from("n1"));
        let mut of = |range: &str| {
            let ips = addresses.of(&pod, &node, &[Istr::from(range)]);
            ips.iter().next().map(|ip| ip.to_string())
        };
        assert_eq!(of(RANGE).as_deref(), Some("10.0.1.2"));
        assert_eq!(of("10.0.2.0/24").as_deref(), Some("10.0.2.3"));
    }
}
