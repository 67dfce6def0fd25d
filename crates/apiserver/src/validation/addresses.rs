//! Addresses and ranges of addresses. Upstream: `k8s.io/apimachinery/pkg/util/validation`, `ip.go`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::{Cidr, ip};
use serde_json::Value;

const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// An address in any spelling that everybody reads alike, which is what older fields take.
pub(super) fn ip_address(text: &str) -> Vec<String> {
    parse(text).err().into_iter().map(str::to_owned).collect()
}

/// An address in the one spelling that newer fields take.
pub(super) fn canonical_ip_address(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(address) if address.to_string() == text => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form (\"{address}\")")],
        Err(why) => vec![why.to_owned()],
    }
}

fn parse(text: &str) -> Result<IpAddr, &'static str> {
    let address = ip::parse(text).ok_or(IP)?;
    if text.parse::<IpAddr>().is_err() {
        return Err("must not have leading 0s");
    }
    if is_mapped(text, &address) {
        return Err("must not be an IPv4-mapped IPv6 address");
    }
    Ok(address)
}

/// Whether some read a text as the IPv4 address that it means, and others as an IPv6 address.
pub(crate) fn is_mapped(text: &str, address: &IpAddr) -> bool {
    address.is_ipv4() && text.contains(':')
}

/// The addresses that a list had before: what was taken under older rules may stay.
pub(super) fn kept(old: &Value) -> BTreeSet<&str> {
    let old = old.as_array().into_iter().flatten();
    old.filter_map(Value::as_str).collect()
}

pub(super) fn cidr(text: &str) -> Vec<String> {
    match Cidr::parse(text) {
        Some(_) => Vec::new(),
        None => vec![CIDR.to_owned()],
    }
}

/// A network by its first address, in the one spelling that newer fields take.
pub(super) fn canonical_cidr(text: &str) -> Vec<String> {
    canonical_cidr_fault(text).into_iter().collect()
}

fn canonical_cidr_fault(text: &str) -> Option<String> {
    let Some((address, prefix, range)) = parse_cidr(text) else {
        return Some(CIDR.to_owned());
    };
    let has_zeros = prefix.len() > 1 && prefix.starts_with('0');
    if has_zeros || address.parse::<IpAddr>().is_err() {
        return Some("must not have leading 0s in IP or prefix length".to_owned());
    }
    if ip::parse(address).is_some_and(|parsed| is_mapped(address, &parsed)) {
        return Some("must not have an IPv4-mapped IPv6 address".to_owned());
    }
    if range != range.masked() {
        return Some("must not have bits set beyond the prefix length".to_owned());
    }
    let printed = range.to_string();
    (printed != text).then(|| format!("must be in canonical form (\"{printed}\")"))
}

/// The address, the length of the prefix, and what they mean: numbers may begin with zeros.
fn parse_cidr(text: &str) -> Option<(&str, &str, Cidr)> {
    let (address, prefix) = text.split_once('/')?;
    let parsed = address.parse().ok().or_else(|| ip::parse(address))?;
    let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
    let length = prefix.parse().ok().filter(|_| is_number)?;
    Some((address, prefix, Cidr::new(parsed, length)?))
}
