//! What flags say. Upstream: setNodeCIDRMaskSizes and its tests, TestOccupyServiceCIDR.

use expect_test::{Expect, expect};

use crate::config::NodeIpam;
use crate::node_ipam::Ranges;

/// `cluster | services | any mask, IPv4 mask, IPv6 mask`: the parts of each network, or what is wrong.
#[track_caller]
fn check(cluster: &str, services: &str, masks: [i32; 3], expected: Expect) {
    let (first, second) = services.split_once(',').unwrap_or((services, ""));
    let config = NodeIpam {
        service_cidr: first.to_owned(),
        secondary_service_cidr: second.to_owned(),
        node_cidr_mask_size: masks[0],
        node_cidr_mask_size_ipv4: masks[1],
        node_cidr_mask_size_ipv6: masks[2],
    };
    let said = match Ranges::of(cluster, &config) {
        Err(error) => error.to_string(),
        Ok(mut ranges) => {
            let sets = ranges.0.iter_mut().map(|set| {
                let (max, first) = (set.max(), set.allocate_next());
                let first = first.map(|it| it.cidr.to_string());
                format!(
                    "{max} from {}",
                    first.unwrap_or_else(|error| error.to_string())
                )
            });
            sets.collect::<Vec<_>>().join(", ")
        }
    };
    expected.assert_eq(&said);
}

#[test]
fn nodes_get_parts_of_the_size_that_flags_say() {
    check(
        "10.244.0.0/16",
        "",
        [0, 0, 0],
        expect!["256 from 10.244.0.0/24"],
    );
    check(
        "10.244.0.0/16",
        "",
        [26, 0, 0],
        expect!["1024 from 10.244.0.0/26"],
    );
    check(
        "10.244.0.0/16",
        "",
        [0, 25, 0],
        expect!["512 from 10.244.0.0/25"],
    );
    check("fd00::/56", "", [0, 0, 0], expect!["256 from fd00::/64"]);
    check(
        "fd00::/112",
        "",
        [0, 0, 120],
        expect!["256 from fd00::/120"],
    );
    check(
        "10.244.0.0/16, fd00::/56",
        "",
        [0, 26, 0],
        expect!["1024 from 10.244.0.0/26, 256 from fd00::/64"],
    );
}

#[test]
fn contradictions_are_refused_in_upstreams_words() {
    check(
        "",
        "",
        [0, 0, 0],
        expect!["Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set"],
    );
    check("here", "", [0, 0, 0], expect!["invalid CIDR address: here"]);
    check(
        "10.0.0.0/16,10.1.0.0/16",
        "",
        [0, 0, 0],
        expect!["--cluster-cidr names more than one range of a family, or more than two ranges"],
    );
    check(
        "10.0.0.0/16,fd00::/56",
        "",
        [24, 0, 0],
        expect!["usage of --node-cidr-mask-size is not allowed with dual-stack clusters"],
    );
    check(
        "10.0.0.0/16",
        "",
        [24, 24, 0],
        expect![
            "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
        ],
    );
    check(
        "fd00::/56",
        "",
        [0, 24, 0],
        expect![
            "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"
        ],
    );
    check(
        "10.0.0.0/16",
        "",
        [0, 0, 64],
        expect![
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"
        ],
    );
    for mask in [8, 33, -1, 999] {
        check(
            "10.0.0.0/16",
            "",
            [mask, 0, 0],
            expect![
                "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family"
            ],
        );
    }
    check(
        "fd00::/16",
        "",
        [0, 0, 0],
        expect!["New CIDR set failed; the node CIDR size is too big"],
    );
    check(
        "10.0.0.0/16",
        "10.96.0.0/16,10.97.0.0/16",
        [0, 0, 0],
        expect![
            "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)"
        ],
    );
}

#[test]
fn what_services_have_is_left_out() {
    check(
        "10.0.0.0/16",
        "10.0.0.0/23",
        [0, 0, 0],
        expect!["256 from 10.0.2.0/24"],
    );
    check(
        "10.0.0.0/16",
        "10.1.0.0/16",
        [0, 0, 0],
        expect!["256 from 10.0.0.0/24"],
    );
    check(
        "10.0.0.0/16",
        "10.0.0.0/8",
        [0, 0, 0],
        expect![
            "256 from CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"
        ],
    );
    check(
        "10.0.0.0/16,fd00::/56",
        "10.0.0.0/24,fd00::/112",
        [0, 0, 0],
        expect!["256 from 10.0.1.0/24, 256 from fd00:0:0:1::/64"],
    );
    check(
        "10.0.0.0/16",
        "nonsense",
        [0, 0, 0],
        expect!["256 from 10.0.0.0/24"],
    );
}
