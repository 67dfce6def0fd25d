//! What is reserved for whom, before anybody can see it.

use api::kinds::Node;
use api::{Cidr, Key, Meta, Resource};
use runtime::Metrics;

use crate::config::NodeIpam;
use crate::node_ipam::Ranges;
use crate::node_ipam::allocator::{Allocator, Step};

fn allocator(cluster: &str) -> Allocator {
    let config = NodeIpam {
        service_cidr: String::new(),
        secondary_service_cidr: String::new(),
        node_cidr_mask_size: 0,
        node_cidr_mask_size_ipv4: 0,
        node_cidr_mask_size_ipv6: 0,
    };
    Allocator::new(Ranges::of(cluster, &config).unwrap(), &Metrics::new())
}

fn node(name: &str, cidrs: &[&str]) -> Node {
    let mut node = Node {
        metadata: Meta {
            name: name.into(),
            ..Meta::default()
        },
        ..Node::default()
    };
    node.spec.pod_cidrs = cidrs.iter().map(|text| (*text).into()).collect();
    node
}

fn assigned(allocator: &mut Allocator, node: &Node) -> String {
    match allocator.assign(node) {
        Ok(Step::Nothing) => "nothing".to_owned(),
        Ok(Step::Write(cidrs)) => {
            let texts: Vec<String> = cidrs.iter().map(Cidr::to_string).collect();
            texts.join(" ")
        }
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn a_node_is_given_the_same_ranges_until_it_shows_them() {
    let mut allocator = allocator("10.0.0.0/23");
    let (bare, held) = (node("a", &[]), node("a", &["10.0.0.0/24"]));
    assert_eq!(assigned(&mut allocator, &bare), "10.0.0.0/24");
    assert_eq!(
        assigned(&mut allocator, &bare),
        "10.0.0.0/24",
        "whatever became of the first"
    );
    assert_eq!(assigned(&mut allocator, &held), "nothing");
    // The API server has lost it: it is free again.
    allocator.gone(&held);
    assert_eq!(assigned(&mut allocator, &bare), "10.0.1.0/24");
    assert_eq!(assigned(&mut allocator, &node("b", &[])), "10.0.0.0/24");
}

#[test]
fn what_was_reserved_for_a_node_that_has_another_range_is_free_again() {
    let mut allocator = allocator("10.0.0.0/23");
    assert_eq!(assigned(&mut allocator, &node("a", &[])), "10.0.0.0/24");
    assert_eq!(
        assigned(&mut allocator, &node("a", &["10.0.1.0/24"])),
        "nothing"
    );
    assert_eq!(assigned(&mut allocator, &node("b", &[])), "10.0.0.0/24");
}

#[test]
fn where_one_network_is_exhausted_nothing_is_taken_from_the_other() {
    let mut allocator = allocator("10.0.0.0/23,fd00::/64");
    assert_eq!(
        assigned(&mut allocator, &node("a", &[])),
        "10.0.0.0/24 fd00::/64"
    );
    let exhausted = "failed to allocate cidr from cluster cidr at idx:1: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range";
    for _ in 0..9 {
        assert_eq!(assigned(&mut allocator, &node("b", &[])), exhausted);
    }
    let waiting: Vec<Key> = allocator.refused(&node("a", &[]).key());
    assert_eq!(waiting, [node("b", &[]).key()], "they may try again");
    assert!(assigned(&mut allocator, &node("b", &[])).ends_with("fd00::/64"));
}
