//! Parts of a network. Upstream: pkg/controller/nodeipam/ipam/cidrset.

use api::Cidr;

use crate::node_ipam::{CidrSet, CidrSetError};

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn set(cluster: &str, prefix: u8) -> CidrSet {
    CidrSet::new(cidr(cluster), prefix).unwrap()
}

/// The next part in words.
fn next(set: &mut CidrSet) -> String {
    match set.allocate_next() {
        Ok(allocation) => allocation.cidr.to_string(),
        Err(error) => format!("{error:?}"),
    }
}

// Upstream: TestCIDRSetFullyAllocated.
#[test]
fn one_part_is_given_out_once_until_it_is_released() {
    for (cluster, prefix, part) in [
        ("127.123.234.0/28", 28, "127.123.234.0/28"),
        ("127.123.234.0/30", 30, "127.123.234.0/30"),
        ("beef:1234::/30", 30, "beef:1234::/30"),
    ] {
        let mut set = set(cluster, prefix);
        assert_eq!(next(&mut set), part);
        assert_eq!(next(&mut set), "NoneRemaining");
        assert_eq!(set.release(&cidr(part)), Ok(1));
        assert_eq!(next(&mut set), part);
    }
}

// Upstream: TestIndexToCIDRBlock.
#[test]
fn parts_follow_each_other() {
    let nth = |cluster: &str, prefix: u8, index: u64| {
        let mut set = set(cluster, prefix);
        for _ in 0..index {
            set.allocate_next().unwrap();
        }
        next(&mut set)
    };
    assert_eq!(nth("127.123.3.0/16", 24, 0), "127.123.0.0/24");
    assert_eq!(nth("127.123.0.0/16", 24, 15), "127.123.15.0/24");
    assert_eq!(nth("192.168.5.219/28", 32, 5), "192.168.5.213/32");
    assert_eq!(nth("2001:db8:1234:3::/48", 64, 0), "2001:db8:1234::/64");
    assert_eq!(
        nth("2001:db8:1234::/48", 64, 0x3333),
        "2001:db8:1234:3333::/64"
    );
    assert_eq!(nth("2001:db8::/32", 42, 0x0f), "2001:db8:3c0::/42");
    assert_eq!(nth("2001:db8::/32", 33, 1), "2001:db8:8000::/33");
    assert_eq!(nth("2001:db8::/60", 68, 31), "2001:db8:0:1:f000::/68");
    assert_eq!(nth("2001:db8::/112", 128, 7), "2001:db8::7/128");
    // Below, across and above the middle of an address.
    assert_eq!(nth("fd4d:85a3:1::/50", 63, 5140), "fd4d:85a3:1:2828::/63");
    assert_eq!(nth("fd4d::/32", 48, 5140), "fd4d:0:1414::/48");
    assert_eq!(
        nth("fd4d:0:1234:ff00::/56", 72, 5140),
        "fd4d:0:1234:ff14:1400::/72"
    );
    assert_eq!(
        nth("fd4d:0:1234:0:1234::/80", 96, 20),
        "fd4d:0:1234:0:1234:14::/96"
    );
}

// Upstream: TestCIDRSet_RandomishAllocation, TestCIDRSet_AllocationOccupied.
#[test]
fn what_is_released_comes_last_and_what_is_occupied_is_passed_over() {
    for (cluster, prefix) in [("127.123.234.0/16", 24), ("beef:1234::/16", 24)] {
        let mut set = set(cluster, prefix);
        let all: Vec<Cidr> = (0..256)
            .map(|_| set.allocate_next().unwrap().cidr)
            .collect();
        assert_eq!(set.allocate_next(), Err(CidrSetError::NoneRemaining));
        // In another order, all of them come once more.
        for part in all.iter().rev() {
            assert_eq!(set.release(part), Ok(1));
        }
        let mut again: Vec<Cidr> = (0..256)
            .map(|_| set.allocate_next().unwrap().cidr)
            .collect();
        again.sort();
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(again, sorted);
        for part in &all {
            set.release(part).unwrap();
        }
        for part in &all[..128] {
            assert_eq!(set.occupy(part), Ok(1));
        }
        let rest: Vec<Cidr> = (0..128)
            .map(|_| set.allocate_next().unwrap().cidr)
            .collect();
        assert!(rest.iter().all(|part| all[128..].contains(part)));
    }
}

// Upstream: TestDoubleOccupyRelease.
#[test]
fn to_occupy_or_release_twice_counts_once() {
    let mut set = set("10.42.0.0/16", 24);
    let part = cidr("10.42.5.0/24");
    assert_eq!((set.occupy(&part), set.occupy(&part)), (Ok(1), Ok(0)));
    // Of four one is taken already.
    assert_eq!(set.occupy(&cidr("10.42.9.0/24")), Ok(1));
    assert_eq!(set.occupy(&cidr("10.42.8.0/22")), Ok(3));
    let other = cidr("10.42.9.0/24");
    assert_eq!((set.release(&other), set.release(&other)), (Ok(1), Ok(0)));
    assert_eq!(set.release(&cidr("10.42.4.0/22")), Ok(1));
    let free = (0..).take_while(|_| set.allocate_next().is_ok()).count();
    assert_eq!(free, 256 - 3);
}

// Upstream: TestGetBitforCIDR, TestOccupy.
#[test]
fn a_network_takes_the_parts_that_lie_in_it() {
    // The first and the last part that are taken.
    let taken = |cluster: &str, prefix: u8, network: &str| {
        let mut fresh = set(cluster, prefix);
        let all: Vec<Cidr> = (0..fresh.max())
            .map(|_| fresh.allocate_next().unwrap().cidr)
            .collect();
        let mut set = set(cluster, prefix);
        if set.occupy(&cidr(network)).is_err() {
            return "out of range".to_owned();
        }
        let mut free = std::collections::BTreeSet::new();
        while let Ok(part) = set.allocate_next() {
            free.insert(part.cidr);
        }
        let taken: Vec<usize> = (0..all.len())
            .filter(|at| !free.contains(&all[*at]))
            .collect();
        let (first, last) = (taken[0], taken[taken.len() - 1]);
        assert_eq!(taken.len(), last - first + 1, "one after the other");
        format!("{first} to {last}")
    };
    let check = |cluster: &str, prefix: u8, network: &str, expected: &str| {
        assert_eq!(taken(cluster, prefix, network), expected, "{network}");
    };
    check("10.0.0.0/8", 16, "10.0.0.0/16", "0 to 0");
    check("fd00::/8", 16, "fd00::/16", "0 to 0");
    check("10.0.0.0/8", 16, "10.77.0.0/16", "77 to 77");
    check("fd00::/8", 16, "fd4d::/16", "77 to 77");
    check("172.20.0.0/16", 24, "172.20.100.0/24", "100 to 100");
    check("fd4d::/16", 24, "fd4d:6400::/24", "100 to 100");
    check("172.20.0.0/16", 24, "172.21.3.0/24", "out of range");
    check("fd4d::/16", 24, "fd5d:100::/24", "out of range");
    check("10.0.0.0/8", 16, "10.0.0.0/8", "0 to 255");
    check("fd4d:1:200::/40", 48, "fd4d:1:200::/40", "0 to 255");
    check("10.0.0.0/8", 16, "8.0.0.0/5", "0 to 255");
    check("fd4d:1:200::/40", 48, "fd4d:1::/33", "0 to 255");
    check("10.9.0.0/16", 32, "10.9.0.0/16", "0 to 65535");
    check("fd4d:1:2::/48", 64, "fd4d:1:2::/48", "0 to 65535");
    check("10.0.0.0/7", 16, "11.0.0.0/15", "256 to 257");
    check("fd4d:1:a00::/39", 48, "fd4d:1:b00::/47", "256 to 257");
    check("10.0.0.0/7", 15, "11.0.0.0/15", "128 to 128");
    check("fd4d:1:a00::/39", 47, "fd4d:1:b00::/47", "128 to 128");
    check("10.0.0.0/7", 18, "11.0.0.0/15", "1024 to 1031");
    check("fd4d:1:a00::/39", 50, "fd4d:1:b00::/47", "1024 to 1031");
}

// Upstream: TestOccupy.
#[test]
fn networks_of_any_size_take_the_parts_that_they_touch() {
    let occupy =
        |cluster: &str, prefix: u8, network: &str| set(cluster, prefix).occupy(&cidr(network));
    assert_eq!(occupy("127.0.0.0/8", 16, "127.0.0.0/8"), Ok(256));
    assert_eq!(
        occupy("127.0.0.0/8", 16, "127.0.0.0/2"),
        Ok(256),
        "a larger one takes all"
    );
    assert_eq!(occupy("127.0.0.0/8", 16, "127.0.0.0/16"), Ok(1));
    assert_eq!(occupy("127.0.0.0/8", 32, "127.0.0.0/16"), Ok(65536));
    assert_eq!(occupy("127.0.0.0/7", 16, "127.0.0.0/15"), Ok(2));
    assert_eq!(occupy("127.0.0.0/7", 15, "127.0.0.0/15"), Ok(1));
    assert_eq!(occupy("127.0.0.0/7", 18, "127.0.0.0/15"), Ok(8));
    assert_eq!(
        occupy("127.0.0.0/8", 16, "127.5.3.0/24"),
        Ok(1),
        "a part of a part"
    );
    assert_eq!(occupy("2001:db8::/32", 40, "2001:db8::/32"), Ok(256));
    assert_eq!(occupy("2001:db8::/32", 48, "2001:db8:8000::/33"), Ok(32768));
    assert_eq!(
        occupy("192.168.0.0/16", 24, "10.0.0.0/24")
            .unwrap_err()
            .to_string(),
        "cidr 10.0.0.0/24 is out the range of cluster cidr 192.168.0.0/16"
    );
    assert!(occupy("192.168.0.0/16", 24, "fd00::/64").is_err());
    let mut set = set("10.42.0.0/16", 24);
    set.occupy(&cidr("10.42.1.0/24")).unwrap();
    assert_eq!(
        (next(&mut set), next(&mut set)),
        ("10.42.0.0/24".into(), "10.42.2.0/24".into())
    );
}

// Upstream: TestCIDRSetv6, Test_getMaxCIDRs.
#[test]
fn a_network_is_divided_into_as_many_parts_as_the_map_can_hold() {
    let new = |cluster: &str, prefix: u8| CidrSet::new(cidr(cluster), prefix).map(|set| set.max());
    assert_eq!(new("127.0.0.0/8", 32), Ok(1 << 24));
    assert_eq!(new("0.0.0.0/0", 32), Ok(1 << 32));
    assert_eq!(new("2001:db8:85a3::/48", 64), Ok(1 << 16));
    assert_eq!(new("2001:db8::/32", 49), Err(CidrSetError::TooBig));
    assert_eq!(new("2001:db8::/16", 64), Err(CidrSetError::TooBig));
    assert_eq!(new("10.0.0.0/16", 24), Ok(256));
    assert_eq!(new("10.0.0.0/24", 16), Err(CidrSetError::TooSmall));
    assert_eq!(new("10.0.0.0/24", 33), Err(CidrSetError::TooSmall));
}

#[test]
fn the_widest_network_there_is_takes_memory_only_for_what_is_used() {
    let mut set = set("0.0.0.0/0", 32);
    assert_eq!(next(&mut set), "0.0.0.0/32");
    assert_eq!(set.occupy(&cidr("0.0.4.0/24")), Ok(256));
    assert_eq!(set.release(&cidr("255.255.255.255/32")), Ok(0));
}
