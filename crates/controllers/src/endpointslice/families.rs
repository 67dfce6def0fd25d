//! The families of addresses that a service has: each has slices of its own.

use std::net::IpAddr;

use api::kinds::{AddressType, Service};

/// What the service says; else the family of its cluster IP; else both.
pub fn families(service: &Service) -> Vec<AddressType> {
    let mut families = Vec::new();
    for family in &service.spec.ip_families {
        let family = match &**family {
            "IPv4" => AddressType::Ipv4,
            "IPv6" => AddressType::Ipv6,
            _ => continue,
        };
        if !families.contains(&family) {
            families.push(family);
        }
    }
    if !families.is_empty() {
        return families;
    }
    // UPSTREAM: an API server that is too old, or too slow, to say so must not make slices go away.
    if service.is_headless() {
        return vec![AddressType::Ipv4, AddressType::Ipv6];
    }
    let address = api::ip::parse(&service.spec.cluster_ip);
    vec![address.map_or(AddressType::Ipv4, family_of)]
}

pub fn family_of(address: IpAddr) -> AddressType {
    match address {
        IpAddr::V4(_) => AddressType::Ipv4,
        IpAddr::V6(_) => AddressType::Ipv6,
    }
}
