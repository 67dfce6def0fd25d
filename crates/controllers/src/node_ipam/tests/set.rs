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
    assert_eq!((set.release(&part), set.release(&part)), (Ok(1), Ok(0)));
    let free = (0..).take_while(|_| set.allocate_next().is_ok()).count();
    assert_eq!(free, 256);
}

// Upstream: TestGetBitforCIDR, TestOccupy.
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
